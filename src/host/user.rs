//! Who started us: ids, names, home and shell, from `/etc/passwd` and `/etc/group` as files.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::error::{Error, Kind, Result};

/// The user of the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
    /// The name, or the number in digits when `/etc/passwd` has none (users of a directory service).
    pub name: String,
    /// The group's name, or its number.
    pub group: String,
    /// The home as `$HOME` spells it.
    pub home: PathBuf,
    /// The home with every symlink resolved (`/home` is one on immutable systems).
    pub home_real: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

impl User {
    /// Reads the user of this process. `root` is where `/etc` is looked for.
    ///
    /// # Errors
    /// When `$HOME` is relative or `/`, does not exist, or is unset and `/etc/passwd` knows none.
    pub fn read(root: &Path, environment: &Environment) -> Result<Self> {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Self::of(uid, gid, root, environment)
    }

    /// The same for any ids.
    ///
    /// # Errors
    /// As [`User::read`].
    pub fn of(uid: u32, gid: u32, root: &Path, environment: &Environment) -> Result<Self> {
        let passwd = super::read_text(&super::below(root, Path::new("/etc/passwd"))).unwrap_or_default();
        let entry = passwd.lines().map(fields).find(|entry| id(entry, 2) == Some(uid));
        let field = |index: usize| {
            entry.as_ref().and_then(|entry| entry.get(index)).filter(|text| !text.is_empty()).copied()
        };
        let home = match environment.var("HOME") {
            Some(home) => PathBuf::from(home),
            None => field(5).map(PathBuf::from).ok_or_else(|| {
                Error::new(Kind::Setup, "HOME is not set").hint("set HOME to your home directory")
            })?,
        };
        let home_real = resolved_home(&home)?;
        let shell = environment.var("SHELL").map(PathBuf::from).filter(|shell| shell.is_absolute());
        Ok(Self {
            uid,
            gid,
            name: name_in(&passwd, uid),
            group: group_name(root, gid),
            home,
            home_real,
            shell: shell.or_else(|| field(6).map(PathBuf::from)).unwrap_or_else(|| "/bin/sh".into()),
        })
    }
}

/// The name of a user id, for error messages; its digits when there is none.
pub fn name_of(root: &Path, uid: u32) -> String {
    let passwd = super::read_text(&super::below(root, Path::new("/etc/passwd"))).unwrap_or_default();
    name_in(&passwd, uid)
}

/// The group's name, or its number.
pub fn group_name(root: &Path, gid: u32) -> String {
    let group = super::read_text(&super::below(root, Path::new("/etc/group"))).unwrap_or_default();
    name_in(&group, gid)
}

fn name_in(table: &str, wanted: u32) -> String {
    let entry = table.lines().map(fields).find(|entry| id(entry, 2) == Some(wanted));
    match entry.and_then(|entry| entry.first().copied()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => wanted.to_string(),
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split(':').collect()
}

fn id(entry: &[&str], index: usize) -> Option<u32> {
    entry.get(index)?.parse().ok()
}

fn resolved_home(home: &Path) -> Result<PathBuf> {
    let refuse = |why: String| {
        let error = Error::new(Kind::Setup, format!("HOME={} cannot be used", home.display()));
        Err(error.because(why).hint("set HOME to your home directory"))
    };
    if !home.is_absolute() {
        return refuse("it is not an absolute path".into());
    }
    match home.canonicalize() {
        Ok(real) if real == Path::new("/") => refuse("it is the root directory".into()),
        Ok(real) if !real.is_dir() => refuse("it is not a directory".into()),
        Ok(real) => Ok(real),
        Err(errno) => refuse(errno.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::environment::Stream;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment { vars, streams: [Stream::Other; 3] }
    }

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc")).unwrap();
        std::fs::create_dir_all(root.path().join("home/ann")).unwrap();
        let home = root.path().join("home/ann");
        let passwd =
            format!("junk\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1000:A:{}:/bin/zsh\n", home.display());
        std::fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        std::fs::write(root.path().join("etc/group"), "staff:x:1000:\n").unwrap();
        root
    }

    #[test]
    fn names_home_and_shell_come_from_passwd_when_the_environment_has_none() {
        let root = machine();
        let user = User::of(1000, 1000, root.path(), &environment(&[])).unwrap();
        assert_eq!((user.name.as_str(), user.group.as_str()), ("ann", "staff"));
        assert_eq!(user.home, root.path().join("home/ann"));
        assert_eq!(user.shell, Path::new("/bin/zsh"));
    }

    #[test]
    fn an_unknown_user_goes_by_number() {
        let root = machine();
        let home = root.path().join("home/ann");
        let user = User::of(77, 78, root.path(), &environment(&[("HOME", home.to_str().unwrap())])).unwrap();
        assert_eq!((user.name.as_str(), user.group.as_str()), ("77", "78"));
        assert_eq!(user.shell, Path::new("/bin/sh"));
    }

    #[test]
    fn the_environment_wins_and_symlinks_in_home_are_resolved() {
        let root = machine();
        std::os::unix::fs::symlink("home/ann", root.path().join("h")).unwrap();
        let home = root.path().join("h");
        let vars = [("HOME", home.to_str().unwrap()), ("SHELL", "/bin/fish")];
        let user = User::of(1000, 1000, root.path(), &environment(&vars)).unwrap();
        assert_eq!(user.home, home);
        assert_eq!(user.home_real, root.path().canonicalize().unwrap().join("home/ann"));
        assert_eq!(user.shell, Path::new("/bin/fish"));
    }

    #[test]
    fn an_unusable_home_is_refused() {
        let root = machine();
        for home in ["relative", "/", "/nonexistent-home", "/etc/passwd"] {
            assert!(User::of(1000, 1000, root.path(), &environment(&[("HOME", home)])).is_err(), "{home}");
        }
        assert!(User::of(77, 77, root.path(), &environment(&[])).is_err());
    }
}
