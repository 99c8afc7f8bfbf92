//! Which directory is the project.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::git::GitLayout;
use super::sources::Sources;
use super::user;
use super::{Host, credentials, links};
use crate::error::{Error, Kind, Result};

/// Directories of a bare repository that cannot be a project.
const GIT_PARTS: [&str; 7] = ["hooks", "info", "objects", "refs", "logs", "modules", "worktrees"];
/// Places that are the system's as a whole: neither they nor anything in them is a project.
const KERNELS: [&str; 7] =
    ["/proc", "/sys", "/dev", "/boot", "/run/ai-jail", "/run/ai-jail-settings", "/run/.ai-jail-staging"];
/// Places that hold other people's things, or the system's, directly; directories below may be projects.
const SHARED: [&str; 24] = [
    "/run",
    "/run/user",
    "/run/media",
    "/etc",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/src",
    "/opt",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/home",
    "/tmp",
    "/var/tmp",
    "/home",
    "/nix",
];

/// The project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its directory, absolute and free of symlinks. Any bytes.
    pub root: PathBuf,
    /// Its git data, when the directory is a git work tree.
    pub git: Option<GitLayout>,
    /// The directory as it was when it was chosen.
    pub sources: Sources,
}

impl Project {
    /// The directory that `--project` names, else the git work tree that holds the current directory (unless that is the
    /// home or an ancestor of it), else the current directory.
    ///
    /// # Errors
    /// When the directory is `/` or a place of the system's; is or lies in a `.git`, or in a bare repository's parts; is the
    /// home, an ancestor of it, or a place of credentials, and was not named; does not exist; is replaced meanwhile; belongs to another user while real
    /// root runs us; or has git data that [`GitLayout::read`] refuses.
    pub fn find(host: &Host, named: Option<&Path>) -> Result<Self> {
        let root = match named {
            Some(named) => resolve_named(host, named)?,
            None => {
                let cwd = current(host)?;
                work_tree(host, &cwd).unwrap_or(cwd)
            }
        };
        let refuse = |why: &str| {
            Error::new(Kind::Refused, format!("{} cannot be the project", root.display())).because(why)
        };
        if root == Path::new("/") {
            return Err(
                refuse("that would be every file of this machine").hint("change to a project's directory")
            );
        }
        if systems(host, &root) {
            return Err(refuse("it belongs to the system, or to everybody on this machine")
                .hint("change to a project's own directory, or name one with --project"));
        }
        if named.is_none() && holds_home(host, &root) {
            return Err(refuse("it holds your whole home directory").hint(format!(
                "change to a project's directory, or name it if you mean it: --project {}",
                root.display()
            )));
        }
        if let (None, Some(place)) = (named, credentials::place_of(host, &root)) {
            return Err(refuse(&format!("it is a place of credentials: {}", place.reason)).hint(format!(
                "change to a project's directory, or name it if you mean it: --project {}",
                root.display()
            )));
        }
        if let Some(git_dir) = git_directory(&root) {
            let hint = match git_dir.parent().filter(|_| git_dir.ends_with(".git")) {
                Some(work_tree) => format!("name its work tree: --project {}", work_tree.display()),
                None => format!("name the repository: --project {}", git_dir.display()),
            };
            return Err(refuse("it is git's own directory, or lies in one").hint(hint));
        }
        // From here on it is this directory, whatever the name comes to mean.
        let mut sources = Sources::default();
        sources.hold(&root)?;
        check_owner(host, &root)?;
        let git = GitLayout::read(&root, &host.user)?;
        Ok(Self { root, git, sources })
    }
}

fn current(host: &Host) -> Result<PathBuf> {
    host.cwd.clone().ok_or_else(|| {
        Error::new(Kind::Setup, "the current directory cannot be used")
            .because("it was removed, or you may not search one of its parents")
            .hint("change to a directory that exists, or name one with --project")
    })
}

fn resolve_named(host: &Host, named: &Path) -> Result<PathBuf> {
    let fail = |why: String| Error::new(Kind::Refused, format!("--project {}", named.display())).because(why);
    let path = if named.is_absolute() { named.to_path_buf() } else { current(host)?.join(named) };
    let route = links::follow(&path).map_err(|errno| fail(errno.to_string()))?;
    if !route.links.is_empty()
        && let Some((link, tree)) = route.leads_out(&host.written_now())
    {
        return Err(fail(format!(
            "{} is a symlink that leads out of {}, which a jail is writing",
            link.display(),
            tree.display()
        ))
        .hint("name what it leads to, if you mean that"));
    }
    let real = route.end;
    if real.is_dir() { Ok(real) } else { Err(fail("it is not a directory".into())) }
}

/// The nearest directory at or above `cwd`, on the same file system, with a `.git` that is a repository or leads to one.
/// What another user put there does not count: git would not trust it either.
fn work_tree(host: &Host, cwd: &Path) -> Option<PathBuf> {
    let device = fs::metadata(cwd).ok()?.dev();
    let found = cwd
        .ancestors()
        .take_while(|dir| fs::metadata(dir).is_ok_and(|meta| meta.dev() == device))
        .find(|dir| {
            let dot_git = dir.join(".git");
            let Ok(meta) = fs::metadata(&dot_git) else { return false };
            let repository = !meta.is_dir() || dot_git.join("HEAD").symlink_metadata().is_ok();
            repository && meta.uid() == host.user.uid
        })?;
    (!holds_home(host, found)).then(|| found.to_path_buf())
}

/// The `.git` that `root` is or lies in, or the bare repository whose part it is or lies in: what is protected in those
/// would be out of sight.
fn git_directory(root: &Path) -> Option<&Path> {
    root.ancestors().find(|dir| {
        let part = root.strip_prefix(dir).ok().and_then(|below| below.iter().next());
        dir.ends_with(".git")
            || (part.is_some_and(|part| GIT_PARTS.iter().any(|known| part == *known))
                && ["HEAD", "objects", "refs"].iter().all(|name| dir.join(name).exists()))
    })
}

/// Whether `dir` is a place of the system's. The home may be named even where it is one.
fn systems(host: &Host, dir: &Path) -> bool {
    let runtime = dir.parent().is_some_and(|parent| parent == host.at("/run/user"));
    *dir != host.user.home_real
        && (runtime
            || KERNELS.iter().any(|place| dir.starts_with(host.at(place)))
            || SHARED.iter().any(|place| *dir == host.at(place)))
}

/// Whether `dir` is the home or an ancestor of it.
fn holds_home(host: &Host, dir: &Path) -> bool {
    host.user.home_real.starts_with(dir)
}

fn check_owner(host: &Host, root: &Path) -> Result<()> {
    if host.user.uid != 0 {
        return Ok(());
    }
    let meta = fs::metadata(root).map_err(|errno| {
        Error::new(Kind::Setup, format!("cannot look at {}", root.display())).because(errno)
    })?;
    if meta.uid() == 0 {
        return Ok(());
    }
    let owner = user::name_of(&host.root, meta.uid());
    Err(Error::new(Kind::Refused, format!("{} belongs to {owner}, and you are root", root.display()))
        .because("what the agent writes would belong to root")
        .hint(format!("run `runuser -u {owner} -- ai-jail ...`")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use crate::host::tests::machine;

    fn repository(dir: &Path) {
        for name in ["objects", "refs"] {
            fs::create_dir_all(dir.join(".git").join(name)).unwrap();
        }
        fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn the_work_tree_that_holds_the_current_directory_is_the_project() {
        let (_dir, mut host) = machine();
        let project = host.user.home.join("src/p");
        fs::create_dir_all(project.join("a/b")).unwrap();
        repository(&project);
        for cwd in ["", "a", "a/b", ".git/refs"] {
            host.cwd = project.join(cwd).canonicalize().ok();
            let found = Project::find(&host, None).unwrap();
            assert_eq!(found.root, project.canonicalize().unwrap(), "{cwd}");
            assert!(found.git.is_some());
        }
    }

    #[test]
    fn a_home_that_is_a_repository_is_not_the_project() {
        let (_dir, mut host) = machine();
        repository(&host.user.home.clone());
        let cwd = host.user.home_real.join("src/q");
        fs::create_dir_all(&cwd).unwrap();
        host.cwd = Some(cwd.clone());
        let found = Project::find(&host, None).unwrap();
        assert_eq!((found.root, found.git), (cwd, None));
    }

    #[test]
    fn the_home_and_what_holds_it_must_be_named() {
        let (_dir, mut host) = machine();
        let home = host.user.home_real.clone();
        for dir in [home.clone(), home.parent().unwrap().parent().unwrap().to_path_buf()] {
            host.cwd = Some(dir.clone());
            let error = Project::find(&host, None).unwrap_err();
            assert!(error.to_string().contains("--project"), "{error}");
            assert_eq!(Project::find(&host, Some(&dir)).unwrap().root, dir);
            assert_eq!(Project::find(&host, Some(Path::new("."))).unwrap().root, dir);
        }
    }

    #[test]
    fn the_root_is_always_refused() {
        let (_dir, mut host) = machine();
        host.cwd = Some("/".into());
        assert_eq!(Project::find(&host, None).unwrap_err().kind(), Kind::Refused);
        assert_eq!(Project::find(&host, Some(Path::new("/usr/.."))).unwrap_err().kind(), Kind::Refused);
    }

    #[test]
    fn git_directories_and_what_is_in_them_are_refused() {
        let (_dir, mut host) = machine();
        let home = host.user.home_real.clone();
        let project = home.join("p");
        repository(&project);
        fs::create_dir_all(project.join(".git/hooks/x")).unwrap();
        let bare = home.join("bare");
        fs::rename(project.join(".git"), &bare).unwrap();
        fs::create_dir_all(bare.join("worktrees-of-mine")).unwrap();
        repository(&project);
        fs::create_dir_all(project.join(".git/hooks/x")).unwrap();
        for (dir, hint) in [
            (project.join(".git"), &project),
            (project.join(".git/hooks"), &project),
            (project.join(".git/hooks/x"), &project),
            (bare.join("hooks"), &bare),
            (bare.join("hooks/x"), &bare),
        ] {
            let error = Project::find(&host, Some(&dir)).unwrap_err();
            let hint = format!("--project {}", hint.display());
            assert!(error.to_string().contains(&hint) || format!("{error:?}").contains(&hint), "{error:?}");
        }
        assert_eq!(Project::find(&host, Some(&bare)).unwrap().root, bare);
        let own = bare.join("worktrees-of-mine");
        assert_eq!(Project::find(&host, Some(&own)).unwrap().root, own);
        host.cwd = Some(project.join(".git/hooks/x"));
        assert_eq!(Project::find(&host, None).unwrap().root, project);
    }

    #[test]
    fn places_of_the_system_are_refused_named_or_not() {
        let (_dir, mut host) = machine();
        let inside = KERNELS.iter().map(|place| format!("{place}/x"));
        let whole = KERNELS.iter().chain(&SHARED).map(|place| (*place).to_owned());
        for place in whole.chain(inside).chain(["/run/user/1000".to_owned()]) {
            let place = host.at(place);
            fs::create_dir_all(&place).unwrap();
            host.cwd = Some(place.clone());
            for named in [None, Some(place.as_path())] {
                let error = Project::find(&host, named).expect_err(&place.display().to_string());
                assert_eq!(error.kind(), Kind::Refused);
            }
        }
        for fine in ["/tmp/p", "/var/tmp/p", "/opt/p", "/etc/nixos", "/usr/local/src", "/var/www"] {
            let place = host.at(fine);
            fs::create_dir_all(&place).unwrap();
            assert_eq!(Project::find(&host, Some(&place)).unwrap().root, place, "{fine}");
        }
    }

    #[test]
    fn names_may_hold_any_bytes_and_symlinks_are_resolved() {
        let (_dir, host) = machine();
        let odd = host.user.home_real.join(OsStr::from_bytes(b"sr\xff c\n"));
        fs::create_dir(&odd).unwrap();
        let link = host.user.home_real.join("link");
        symlink(&odd, &link).unwrap();
        assert_eq!(Project::find(&host, Some(&link)).unwrap().root, odd);
    }

    #[test]
    fn a_removed_current_directory_and_a_bad_name_are_errors() {
        let (_dir, mut host) = machine();
        host.cwd = None;
        assert!(Project::find(&host, None).is_err());
        let file = host.user.home.join("file");
        fs::write(&file, "").unwrap();
        for named in [Path::new("relative"), Path::new("/nonexistent"), &file] {
            assert!(Project::find(&host, Some(named)).is_err(), "{}", named.display());
        }
    }

    #[test]
    fn root_is_sent_to_the_owner_of_the_project() {
        let (_dir, mut host) = machine();
        let project = host.user.home_real.join("theirs");
        fs::create_dir(&project).unwrap();
        if chown(&project, Some(1234), None).is_err() {
            // Only root can make a directory of another user; the same check is then made the other way round.
            host.user.uid = 0;
        }
        let error = Project::find(&host, Some(&project));
        let message = error.unwrap_err().to_string();
        assert!(message.contains("runuser -u "), "{message}");
    }

    #[test]
    fn a_repository_that_another_user_put_above_does_not_count() {
        let (_dir, mut host) = machine();
        let outer = host.user.home_real.join("shared");
        fs::create_dir_all(outer.join("p")).unwrap();
        repository(&outer);
        host.cwd = Some(outer.join("p"));
        host.user.uid += 1;
        assert_eq!(Project::find(&host, None).unwrap().root, outer.join("p"));
    }
}
