//! The trees that are mounted, held by descriptor from the first look at them to the launch.
//!
//! A path is a name, and another jail may give the name to something else between two looks. So every source is opened
//! without a single symlink on its way, and what is opened again under the name later must be the same object.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};

/// The held objects by their paths.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    held: BTreeMap<PathBuf, Arc<OwnedFd>>,
}

/// Two tables are equal when they hold the same paths.
impl PartialEq for Sources {
    fn eq(&self, other: &Self) -> bool {
        self.held.keys().eq(other.held.keys())
    }
}

impl Eq for Sources {}

impl Sources {
    /// Holds what `path`, which is absolute and free of symlinks, names now, and returns it.
    ///
    /// # Errors
    /// When there is a symlink on the way after all, or it cannot be opened.
    pub fn hold(&mut self, path: &Path) -> Result<Arc<OwnedFd>> {
        if let Some(held) = self.held.get(path) {
            return Ok(Arc::clone(held));
        }
        let held = Arc::new(open(path).map_err(|error| failed(path, error))?);
        self.held.insert(path.to_path_buf(), Arc::clone(&held));
        Ok(held)
    }

    /// Whether every path still names what is held.
    ///
    /// # Errors
    /// When one does not.
    pub fn confirm(&self) -> Result<()> {
        self.held.keys().try_for_each(|path| self.open(path).map(drop))
    }

    /// The object to mount for `path`: what is held, if the name still leads there, else what it names now.
    ///
    /// # Errors
    /// When the path now names something else, or leads through a symlink.
    pub fn open(&self, path: &Path) -> Result<OwnedFd> {
        let now = open(path).map_err(|error| failed(path, error))?;
        let Some(held) = self.held.get(path) else { return Ok(now) };
        let (now, then) = (fstat(&now), fstat(held));
        match (now, then) {
            (Ok(now), Ok(then)) if (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino) => {
                held.try_clone().map_err(|error| failed_io(path, error))
            }
            (Ok(_), Ok(_)) => Err(replaced(path)),
            (Err(error), _) | (_, Err(error)) => Err(failed(path, error)),
        }
    }
}

/// Opens an absolute path; no component may be a symlink, the last one neither (so without `NOFOLLOW`, which would open it).
fn open(path: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn failed(path: &Path, error: Errno) -> Error {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NOENT => replaced(path),
        other => failed_io(path, other.into()),
    }
}

fn failed_io(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Setup, format!("cannot open {}", path.display())).because(error)
}

fn replaced(path: &Path) -> Error {
    Error::new(Kind::Refused, format!("{} was replaced while the jail was being set up", path.display()))
        .because("the name leads to something else than what was checked")
        .hint("see what changes it (another jail?), then try again")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_however_it_does() {
        for change in ["symlink", "parent", "other", "gone"] {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap();
            fs::create_dir_all(top.join("d/w")).unwrap();
            fs::create_dir_all(top.join("victim/w")).unwrap();
            let path = top.join("d/w");
            let mut sources = Sources::default();
            sources.hold(&path).unwrap();
            assert!(sources.open(&path).is_ok() && sources.confirm().is_ok(), "control");
            match change {
                "symlink" => {
                    fs::remove_dir(&path).unwrap();
                    symlink(top.join("victim/w"), &path).unwrap();
                }
                "parent" => {
                    fs::rename(top.join("d"), top.join("d2")).unwrap();
                    symlink(top.join("victim"), top.join("d")).unwrap();
                }
                "other" => {
                    fs::rename(top.join("d"), top.join("d2")).unwrap();
                    fs::rename(top.join("victim"), top.join("d")).unwrap();
                }
                _ => fs::remove_dir(&path).unwrap(),
            }
            assert_eq!(sources.open(&path).unwrap_err().kind(), Kind::Refused, "{change}");
            assert_eq!(sources.confirm().unwrap_err().kind(), Kind::Refused, "{change}");
        }
    }

    #[test]
    fn what_is_not_held_is_opened_without_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/w")).unwrap();
        symlink("real", top.join("link")).unwrap();
        assert!(Sources::default().open(&top.join("real/w")).is_ok());
        assert!(Sources::default().open(&top.join("link/w")).is_err());
        assert!(Sources::default().open(&top.join("link")).is_err());
    }
}
