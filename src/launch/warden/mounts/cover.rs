//! Covering a path again in a jail that runs: a rename over it outside detaches the mount.

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};

use crate::launch::protocol::Covered;
use crate::plan::compile::STORE;
use crate::plan::operation::Cover;

use super::*;

/// Covers `below` in the mount at `root` unless it is a mount already. What fails is an answer: the jail goes on.
pub(in crate::launch::warden) fn cover(root: &Path, below: &Path, how: Cover) -> Covered {
    let place = Place { root, below };
    match again(&place, how) {
        Ok(true) => Covered::Again,
        Ok(false) => Covered::Already,
        // Not there, or changed meanwhile: that is an event of its own.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Covered::Missing,
        Err(error) => Covered::Failed(error.to_string()),
    }
}

fn again(place: &Place<'_>, how: Cover) -> Result<bool, Errno> {
    let (Some(parent), Some(name)) = (place.below.parent(), place.below.file_name()) else {
        return Ok(false);
    };
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, place.root, path | OFlags::DIRECTORY, Mode::empty())?;
    let parent = if parent.as_os_str().is_empty() { root } else { directory(root.as_fd(), parent)? };
    let object = openat(&parent, name, path, Mode::empty())?;
    if mount_of(&object)? != mount_of(&parent)? {
        return Ok(false);
    }
    let cover = match how {
        Cover::Pin(access) => {
            let clone = clone_of(&object)?;
            restrict_mount(clone.as_fd(), limit(access))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            clone
        }
        Cover::Veil(veil) => hide::from_store(Path::new(STORE), &object, veil)?,
    };
    mount_onto(&cover, &object)?;
    Ok(true)
}

/// Which mount an object was reached through.
fn mount_of(object: &OwnedFd) -> Result<u64, Errno> {
    Ok(statx(object, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}
