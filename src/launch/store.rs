//! ai-jail's own directories on the host: private homes, agents' state.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat, openat2};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::plan::StoreOp;

/// Makes what the plan wants below `root` (`$XDG_DATA_HOME/ai-jail`), which is made too.
///
/// Below `root` no symlink is followed: an agent writes into these directories, and must not be able to choose what the
/// next launch mounts.
pub fn prepare(root: &Path, operations: &[StoreOp]) -> Result<()> {
    if operations.is_empty() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(|error| failed(root, error))?;
    let root_fd =
        open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(root, error))?;
    let owner = fstat(&root_fd).map_err(|error| failed(root, error))?.st_uid;
    if owner != rustix::process::geteuid().as_raw() {
        return Err(Error::new(
            Kind::Refused,
            format!("{} belongs to another user (uid {owner})", root.display()),
        )
        .hint("choose another place with XDG_DATA_HOME"));
    }
    for operation in operations {
        let (path, file) = match operation {
            StoreOp::Directory(path) => (path, None),
            StoreOp::File(path, content) => (path, path.file_name().zip(Some(content))),
        };
        let directory = if file.is_some() { path.parent().unwrap_or(Path::new("")) } else { path };
        let parent = make(root, &root_fd, directory)?;
        if let Some((name, content)) = file {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&parent, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(new) => fs::File::from(new)
                    .write_all(content.as_bytes())
                    .map_err(|error| failed(&root.join(path), error))?,
                // What it is now is looked at when it is opened as a source.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(blocked(&root.join(path), error)),
            }
        }
    }
    Ok(())
}

fn make(root: &Path, root_fd: &OwnedFd, below: &Path) -> Result<OwnedFd> {
    let mut current = rustix::io::dup(root_fd).map_err(|error| failed(root, error))?;
    for component in below.components() {
        let Component::Normal(name) = component else { continue };
        match mkdirat(&current, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&root.join(below), error)),
        }
        current = openat2(
            &current,
            name,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(|error| blocked(&root.join(below), error))?;
    }
    Ok(current)
}

/// Opens a source as the object that is mounted, without following a symlink at its end.
pub fn open_source(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::new(Kind::Setup, format!("cannot open {}", path.display())).because(error))
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Setup, format!("cannot make {}", path.display()))
        .because(error)
        .hint("ai-jail keeps private homes there; choose another place with XDG_DATA_HOME")
}

fn blocked(path: &Path, error: Errno) -> Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => Error::new(
            Kind::Refused,
            format!("{} is, or is reached through, a symlink or a file", path.display()),
        )
        .because("something in the jail may have put it there to choose what is mounted next")
        .hint("look at it, then remove it"),
        other => failed(path, other),
    }
}
