//! ai-jail's own directories on the host: private homes, agents' state.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, chmod, fstat, mkdirat, open, openat, openat2,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::plan::StoreOp;

/// Nothing that an agent wrote leads anywhere.
const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Makes what the plan wants below `root` (`$XDG_DATA_HOME/ai-jail`), which is made too.
///
/// Below `root` no symlink is followed: an agent writes into these directories, and must not be able to choose what the
/// next launch mounts.
/// A directory of ours that the agent made unusable is made usable again.
///
/// Returns the store, whose objects [`Store::open`] opens.
pub fn prepare(root: &Path, operations: &[StoreOp]) -> Result<Option<Store>> {
    if operations.is_empty() {
        return Ok(None);
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
        carry_out(root, &root_fd, operation)?;
    }
    Ok(Some(Store { path: root.to_path_buf(), root: root_fd }))
}

fn carry_out(root: &Path, root_fd: &OwnedFd, operation: &StoreOp) -> Result<()> {
    let (path, file) = match operation {
        StoreOp::Directory(path) => (path, None),
        StoreOp::File(path, content) => (path, path.file_name().zip(Some(content))),
    };
    let directory = if file.is_some() { path.parent().unwrap_or(Path::new("")) } else { path };
    let parent = make(root, root_fd, directory)?;
    let Some((name, content)) = file else { return Ok(()) };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&parent, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(new) => {
            fs::File::from(new).write_all(content.as_bytes()).map_err(|error| failed(&root.join(path), error))
        }
        // What it is now is looked at when it is opened as a source.
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(blocked(&root.join(path), error)),
    }
}

/// Makes directories of ours that a tree of the jail holds, so that there is something to cover: nobody in the jail can
/// then make them.
pub fn make_own(directories: &[PathBuf]) -> Result<()> {
    directories.iter().try_for_each(|directory| {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| failed(directory, error))
    })
}

/// ai-jail's data directory, held.
pub struct Store {
    path: PathBuf,
    root: OwnedFd,
}

impl Store {
    /// Opens a source below the store as the object that is mounted, through no symlink; `None` for one that lies elsewhere.
    pub fn open(&self, path: &Path) -> Result<Option<OwnedFd>> {
        let Ok(below) = path.strip_prefix(&self.path) else { return Ok(None) };
        openat2(&self.root, below, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)
            .map(Some)
            .map_err(|error| blocked(path, error))
    }

    /// A directory below the store, through no symlink.
    pub(super) fn below(&self, path: &Path) -> Result<OwnedFd, Errno> {
        beneath(&self.root, path)
    }

    /// Opens a file of ours in a directory of ours, to read it and to add to it. Both are made.
    pub(super) fn list(&self, directory: &Path, name: &str) -> Result<OwnedFd> {
        let place = make(&self.path, &self.root, directory)?;
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&place, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed(&self.path.join(directory), error))
    }

    /// `path` without the store's own, when it lies in it.
    pub(super) fn relative<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.path).ok()
    }

    /// Makes something in a private home, unless the agent put something in its way: that is its own business, and must not
    /// stop the launch.
    pub fn attempt(&self, operation: &StoreOp) {
        let (StoreOp::Directory(path) | StoreOp::File(path, _)) = operation;
        // As a rule it is there.
        if openat2(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), NO_LINKS).is_ok() {
            return;
        }
        let _ = carry_out(&self.path, &self.root, operation);
    }

    /// The bytes of a regular file below the store, through no symlink; `None` when there is none.
    ///
    /// # Errors
    /// When it is something else, cannot be read, or is longer than `max` bytes.
    pub fn read(&self, path: &Path, max: u64) -> Result<Option<Vec<u8>>, std::io::Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat2(&self.root, path, flags, Mode::empty(), NO_LINKS) {
            Ok(file) => fs::File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max {
            return Err(std::io::Error::other("it is too long"));
        }
        Ok(Some(bytes))
    }

    /// Puts a file with these bytes in the place of what is called so below the store. Its directory is made.
    ///
    /// # Errors
    /// When it cannot be written, or a directory stands there.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let fail = |error: Errno| failed(&self.path.join(path), error);
        let (place, new, parent, name) = self.written(path, bytes)?;
        renameat(&place, &new, &parent, name).map_err(fail)
    }

    /// Makes a file with these bytes, unless there is one. Returns what is in it then: of several who do so at once one
    /// wins.
    ///
    /// # Errors
    /// When it cannot be made or read, or is longer than `bytes`.
    pub fn once(&self, path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
        let (place, new, parent, name) = self.written(path, bytes)?;
        match renameat_with(&place, &new, &parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(bytes.to_vec()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&self.path.join(path), error)),
        }
        let _ = unlinkat(&place, &new, AtFlags::empty());
        let there = self.read(path, bytes.len() as u64);
        there.ok().flatten().ok_or_else(|| failed(&self.path.join(path), "it was made and removed meanwhile"))
    }

    /// Writes `bytes` where no agent can put anything in the way. Returns that directory and the name there, and the
    /// directory, which is made, and the name that it is for.
    fn written<'p>(&self, path: &'p Path, bytes: &[u8]) -> Result<(OwnedFd, String, OwnedFd, &'p OsStr)> {
        let fail = |error: Errno| failed(&self.path.join(path), error);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(fail(Errno::INVAL));
        };
        let parent = make(&self.path, &self.root, parent)?;
        // Another launch may do the same at this moment, or another thread.
        let place = make(&self.path, &self.root, Path::new("state"))?;
        let new = format!(".new-{}", rustix::thread::gettid().as_raw_nonzero());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // One of a launch that was killed.
        let _ = unlinkat(&place, &new, AtFlags::empty());
        let file = openat(&place, &new, flags, Mode::RUSR | Mode::WUSR).map_err(fail)?;
        let written = fs::File::from(file).write_all(bytes);
        written.map_err(|error| failed(&self.path.join(path), error))?;
        Ok((place, new, parent, name))
    }

    /// Makes the directories on the way to a mount point below `path` usable, as far as there are any: what the agent did
    /// to their modes must not stop the next launch.
    pub fn unlock(&self, path: &Path, below: &Path) -> Result<()> {
        let Ok(root) = path.strip_prefix(&self.path) else { return Ok(()) };
        let mut current = rustix::io::dup(&self.root).map_err(|error| failed(path, error))?;
        for component in root.components().chain(below.components()) {
            let Component::Normal(name) = component else { continue };
            current = match step(&current, name) {
                Ok(next) => next,
                // What is in the way is moved aside when the mount point is made.
                Err(_) => return Ok(()),
            };
            usable(&current).map_err(|error| failed(path, error))?;
        }
        Ok(())
    }
}

fn make(root: &Path, root_fd: &OwnedFd, below: &Path) -> Result<OwnedFd> {
    let mut current = rustix::io::dup(root_fd).map_err(|error| failed(root, error))?;
    for component in below.components() {
        let Component::Normal(name) = component else { continue };
        match mkdirat(&current, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&root.join(below), error)),
        }
        current = step(&current, name).map_err(|error| blocked(&root.join(below), error))?;
        usable(&current).map_err(|error| failed(&root.join(below), error))?;
    }
    Ok(current)
}

fn step(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    beneath(parent, Path::new(name))
}

/// A directory below another one, through no symlink.
pub(super) fn beneath(parent: &OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        parent,
        below,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        NO_LINKS,
    )
}

/// Gives the owner of a directory of ours what the owner needs, through the descriptor.
fn usable(directory: &OwnedFd) -> Result<(), Errno> {
    let stat = fstat(directory)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory
        || stat.st_uid != rustix::process::geteuid().as_raw()
        || mode.contains(Mode::RWXU)
    {
        return Ok(());
    }
    // The kernel's own link leads to the object itself, which is no symlink.
    chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), mode | Mode::RWXU)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_the_agent_did_to_modes_is_undone_on_the_way_to_every_mount() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ai-jail");
        let operations = [StoreOp::Directory("homes/p/home".into())];
        prepare(&root, &operations).unwrap();
        let home = root.join("homes/p/home");
        fs::create_dir_all(home.join("src/p")).unwrap();
        set(&home.join("src/p"), 0);
        set(&home.join("src"), 0);
        set(&home, 0o400);
        let store = prepare(&root, &operations).unwrap().unwrap();
        store.unlock(&home, Path::new("src/p")).unwrap();
        for (path, mode) in [("", 0o700), ("src", 0o700), ("src/p", 0o700)] {
            assert_eq!(fs::metadata(home.join(path)).unwrap().mode() & 0o7777, mode, "{path}");
        }
        store.unlock(&home, Path::new("src/missing/x")).unwrap();
    }

    #[test]
    fn no_mode_is_changed_through_a_symlink_and_none_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ai-jail");
        let store = prepare(&root, &[StoreOp::Directory("h".into())]).unwrap().unwrap();
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).unwrap();
        set(&victim, 0o500);
        std::os::unix::fs::symlink(&victim, root.join("h/link")).unwrap();
        store.unlock(&root.join("h"), Path::new("link")).unwrap();
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o7777, 0o500);
        assert_eq!(store.open(&root.join("h/link")).unwrap_err().kind(), Kind::Refused);
        assert!(store.open(&root.join("h")).unwrap().is_some(), "control");
        assert!(store.open(&victim).unwrap().is_none(), "not the store's");
    }
}
