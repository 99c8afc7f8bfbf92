//! Directories that were closed with `chmod` are opened again for a move, by descriptor.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::copy::{MAX_DEPTH, MAX_ENTRIES, names};
use crate::guard::handover;

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that its owner can change; it gets its mode back when this is dropped.
pub struct Unlocked {
    before: Option<(OwnedFd, u32)>,
}

impl Unlocked {
    /// Opens `directory` up when it is not.
    pub fn new(directory: impl AsFd) -> io::Result<Self> {
        let before = match add(directory.as_fd(), 0o700)? {
            Some(mode) => Some((directory.as_fd().try_clone_to_owned()?, mode)),
            None => None,
        };
        Ok(Self { before })
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        if let Some((descriptor, mode)) = &self.before {
            let _ = set_mode(descriptor, *mode);
        }
    }
}

/// Opens up `name` in `parent` when it is a directory.
pub fn directory(parent: impl AsFd, name: &Path) -> io::Result<()> {
    match openat(&parent, name, PATH | OFlags::DIRECTORY, Mode::empty()) {
        Ok(descriptor) => add(descriptor.as_fd(), 0o700).map(drop),
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens up `name` in `parent` and everything below, so that it can be copied and removed.
pub fn everything(parent: impl AsFd, name: &Path) -> io::Result<()> {
    below(parent.as_fd(), name, &mut { MAX_ENTRIES }, MAX_DEPTH)
}

/// Takes set-user-ID and set-group-ID from every file at and below `thing`, in the directory `root`, and removes device nodes.
///
/// # Errors
/// When something cannot be looked at or changed.
pub fn without_set_id(root: &Path, thing: &Path) -> io::Result<()> {
    let mut waiting = vec![thing.to_path_buf()];
    while let Some(below) = waiting.pop() {
        let (parent, name) = super::place(root, &below)?;
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let _open = Unlocked::new(openat(&parent, name, PATH | flags, Mode::empty())?)?;
                let directory = openat(&parent, name, OFlags::RDONLY | flags, Mode::empty())?;
                waiting.extend(names(&directory)?.into_iter().map(|name| below.join(name)));
            }
            FileType::RegularFile | FileType::CharacterDevice | FileType::BlockDevice => {
                handover::disarm(root, &below)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens up every directory below `thing` where nobody else makes changes, so that it can be removed. What cannot be opened
/// is what the removal then names.
pub fn all_directories(thing: PathBuf) {
    let mut waiting = vec![thing];
    while let Some(directory) = waiting.pop() {
        let Ok(metadata) = directory.symlink_metadata() else { continue };
        let mode = metadata.permissions().mode();
        if mode & 0o700 != 0o700 {
            let _ = fs::set_permissions(&directory, Permissions::from_mode(mode | 0o700));
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(directories.map(|entry| entry.path()));
    }
}

fn below(parent: BorrowedFd<'_>, name: &Path, entries: &mut usize, depth: usize) -> io::Result<()> {
    let kind = FileType::from_raw_mode(statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    *entries = entries.saturating_sub(1);
    match kind {
        FileType::RegularFile => {
            add(openat(parent, name, PATH, Mode::empty())?.as_fd(), 0o400)?;
        }
        // What is larger or deeper is refused by the copy.
        FileType::Directory if *entries > 0 && depth > 0 => {
            directory(parent, name)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = openat(parent, name, flags, Mode::empty())?;
            for entry in names(&inner)? {
                below(inner.as_fd(), &entry, entries, depth - 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds `bits` to a mode. Returns the mode before, unless it had them.
fn add(descriptor: BorrowedFd<'_>, bits: u32) -> io::Result<Option<u32>> {
    let mode = fstat(descriptor)?.st_mode & 0o7777;
    if mode & bits == bits {
        return Ok(None);
    }
    set_mode(descriptor, mode | bits)?;
    Ok(Some(mode))
}

/// Sets the mode of something that is open.
pub fn set_mode(descriptor: impl AsFd, mode: u32) -> io::Result<()> {
    fs::set_permissions(by_descriptor(descriptor.as_fd()), Permissions::from_mode(mode))
}

/// A descriptor that was opened for its path alone has no `fchmod`.
fn by_descriptor(descriptor: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}
