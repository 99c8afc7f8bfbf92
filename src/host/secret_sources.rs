//! Where the values of secrets are read: the launcher's environment, env files, commands that are run outside, files.
//!
//! A value is overwritten when it is dropped, and no error has a part of one.

mod command;
mod env_file;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use zeroize::Zeroizing;

use crate::config::words::nearest;
use crate::error::{Error, Kind, Result};
use crate::policy::origin::{Layer, Origin};
use crate::sanitize::escape;

use super::Host;

pub use self::command::Command;

/// No file of secrets is longer (bytes).
const MAX_FILE: u64 = 1 << 20;

/// A value, or the content of a file that holds some.
pub type Bytes = Zeroizing<Vec<u8>>;

/// What the jail writes, and so may choose: nothing that names or makes a value is taken from there.
#[derive(Debug, Clone, Default)]
pub struct Written(Vec<PathBuf>);

impl Written {
    /// The project and every other tree that the jail can write, free of symlinks.
    pub fn new(trees: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(trees.into_iter().collect())
    }

    /// Whether a path lies in one of them.
    pub fn holds(&self, path: &Path) -> bool {
        self.0.iter().any(|tree| path.starts_with(tree))
    }
}

/// The values of named variables.
#[derive(Debug, Default)]
pub struct Values {
    values: BTreeMap<String, Bytes>,
    /// Every name that is set here or in an env file, with the file.
    set: BTreeMap<String, Option<PathBuf>>,
    files: Vec<PathBuf>,
}

impl Values {
    /// Those of `names` that the launcher has, and that env files give: what a file says wins, and of two files the later.
    ///
    /// # Errors
    /// When a file is refused or cannot be understood.
    pub fn read<'a>(
        host: &Host,
        names: impl IntoIterator<Item = &'a str>,
        files: &[PathBuf],
        written: &Written,
    ) -> Result<Self> {
        let launchers = host.environment.vars.keys().filter_map(|name| name.to_str());
        let mut set: BTreeMap<String, Option<PathBuf>> =
            launchers.map(|name| (name.to_owned(), None)).collect();
        let mut from_files = BTreeMap::new();
        for file in files {
            let read = env_file::read(file, written)?;
            set.extend(read.keys().map(|name| (name.clone(), Some(file.clone()))));
            from_files.extend(read);
        }
        let mut values = BTreeMap::new();
        for name in names {
            let value = from_files.remove(name).or_else(|| launcher(host, name));
            values.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(Self { values, set, files: files.to_vec() })
    }

    /// All of them, without their names.
    pub fn all(self) -> Vec<Bytes> {
        self.values.into_values().collect()
    }

    /// Takes the value of `name`, which `origin` makes a secret.
    ///
    /// # Errors
    /// When there is none, or it is empty.
    pub fn take(&mut self, name: &str, origin: &Origin) -> Result<Bytes> {
        let files: Vec<String> = self.files.iter().map(|file| shown(file)).collect();
        let refused = |why: &str| {
            let shown = escape(name);
            let error = Error::new(Kind::Refused, format!("the secret {shown} has no value"));
            let set = match files.is_empty() {
                true => "set it, or name a file that has it with --env-file",
                false => "set it here or there",
            };
            match origin.layer {
                Layer::CommandLine => error.because(why).hint(format!("{set}; or leave --secret {shown} out")),
                _ => error.because(format!("{why}, and {origin} makes it a secret")).hint(format!(
                    "{set}; or let a command print it (`from` in that entry), or take the entry out; --env {shown} takes the \
                     variable as it is for once"
                )),
            }
        };
        match self.values.remove(name) {
            None => {
                let searched = match files.is_empty() {
                    true => String::new(),
                    false => format!(", and {} does not have it", files.join(" and ")),
                };
                let near = nearest(name, self.set.keys().map(String::as_str)).map(|near| {
                    let place = match &self.set[near] {
                        None => "which is".to_owned(),
                        Some(file) => format!("which {} has", shown(file)),
                    };
                    format!("; did you mean {}, {place}?", escape(near))
                });
                let near = near.unwrap_or_default();
                Err(refused(&format!("the variable is not set here{searched}{near}")))
            }
            Some(value) if value.is_empty() => match self.set.get(name) {
                Some(Some(file)) => Err(refused(&format!("it is empty in {}", shown(file)))),
                _ => Err(refused("the variable is set and empty")),
            },
            Some(value) => Ok(value),
        }
    }
}

/// The names that env files give values for, with the file that counts: the last.
///
/// # Errors
/// As [`Values::read`].
pub fn names(files: &[PathBuf], written: &Written) -> Result<BTreeMap<String, PathBuf>> {
    let mut names = BTreeMap::new();
    for file in files {
        names.extend(env_file::read(file, written)?.into_keys().map(|name| (name, file.clone())));
    }
    Ok(names)
}

fn launcher(host: &Host, name: &str) -> Option<Bytes> {
    let value = host.environment.vars.get(OsStr::new(name))?;
    Some(Zeroizing::new(value.as_encoded_bytes().to_vec()))
}

/// The content of a file that holds secrets, and where it really is. A symlink is followed unless it lies in what the
/// jail writes: the jail would choose with it which file is read.
///
/// # Errors
/// When there is none, it is no regular file, or it is too long.
pub fn file(path: &Path, written: &Written) -> Result<(Bytes, PathBuf)> {
    let real = path.canonicalize().map_err(|error| unreadable(path, error))?;
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    let named = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
    let by_link = named.is_none_or(|named| named != real) || (written.holds(path) && path != real);
    if by_link
        && (written.holds(path)
            || path.parent().is_some_and(|at| at.canonicalize().is_ok_and(|at| written.holds(&at))))
    {
        return Err(Error::new(
            Kind::Refused,
            format!("{} is, or is reached through, a symlink", shown(path)),
        )
        .because("it lies where a jail can write, which could choose with it what is read")
        .hint("name the file itself"));
    }
    let file = open(&real).map_err(|error| unreadable(path, error))?;
    Ok((content(path, file)?, real))
}

/// Opens a file whose path has no symlink, without waiting for anybody.
fn open(real: &Path) -> Result<File, std::io::Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let way = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(File::from(openat2(CWD, real, flags, Mode::empty(), way)?))
}

fn content(path: &Path, mut file: File) -> Result<Bytes> {
    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
    if !metadata.is_file() {
        return Err(refused(path, "it is not a regular file"));
    }
    if metadata.len() > MAX_FILE {
        return Err(refused(path, &format!("it has more than {MAX_FILE} bytes")));
    }
    // Of the full size at once: what grows is moved, and leaves a copy behind. It may grow while it is read.
    let mut bytes = Zeroizing::new(vec![0; metadata.size() as usize]);
    let mut read = 0;
    while read < bytes.len() {
        match file.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(path, error)),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// A file that holds a secret.
fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let error = unread(path, error);
    if is_missing { error.hint("a variable is --secret NAME=HOST") } else { error }
}

/// A file that holds a secret, or values of variables.
fn unread(path: &Path, error: std::io::Error) -> Error {
    let what = format!("the secrets in {} cannot be read", shown(path));
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::new(Kind::Refused, what).because(error).hint("let this user read it, or leave it out");
    }
    Error::new(Kind::Refused, what)
        .because("there is no such file")
        .hint("name a file that is there, or leave it out")
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(Kind::Refused, format!("{} cannot be used for secrets", shown(path))).because(why)
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str()).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_secrets_file_is_read_where_it_is_and_not_through_a_link_that_the_jail_could_make() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("p/sub")).unwrap();
        fs::create_dir_all(top.join("dots")).unwrap();
        fs::write(top.join("dots/auth"), "outside").unwrap();
        fs::write(top.join("p/sub/.env"), "inside").unwrap();
        symlink(top.join("dots/auth"), top.join("auth")).unwrap();
        symlink("../dots/auth", top.join("p/auth")).unwrap();
        symlink(".", top.join("p/here")).unwrap();
        symlink("p", top.join("q")).unwrap();
        symlink("../dots", top.join("p/dots")).unwrap();
        let written = Written::new([top.join("p")]);
        for (path, want) in [
            ("dots/auth", Some("dots/auth")),
            ("auth", Some("dots/auth")),
            ("p/sub/.env", Some("p/sub/.env")),
            ("q/sub/.env", Some("p/sub/.env")),
            ("p/auth", None),
            ("p/dots/auth", None),
            ("q/auth", None),
            ("p/here/sub/.env", None),
            ("missing", None),
            ("p", None),
        ] {
            let found = file(&top.join(path), &written).map(|(_, real)| real);
            assert_eq!(found.as_ref().ok(), want.map(|want| top.join(want)).as_ref(), "{path}: {found:?}");
        }
        let big = File::create(top.join("big")).unwrap();
        big.set_len(MAX_FILE + 1).unwrap();
        assert!(file(&top.join("big"), &written).unwrap_err().to_string().contains("more than"));
        let fifo = top.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(
            file(&fifo, &written).unwrap_err().to_string().contains("regular"),
            "and nobody waits for it"
        );
    }
}
