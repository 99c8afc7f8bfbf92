//! Covering a path again in a jail that runs: a rename over it outside detaches the mount.

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};

use crate::launch::protocol::Covered;
use crate::plan::compile::STORE;
use crate::plan::operation::Cover;
use crate::policy::ABOUT;

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

/// Opens `below` in the mount at `root`, through no symlink, unless a mount covers it already.
pub(in crate::launch::warden) fn uncovered(root: &Path, below: &Path) -> Result<Option<OwnedFd>, Errno> {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Ok(None);
    };
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, root, path | OFlags::DIRECTORY, Mode::empty())?;
    let parent = if parent.as_os_str().is_empty() { root } else { directory(root.as_fd(), parent)? };
    let object = openat(&parent, name, path, Mode::empty())?;
    Ok(if mount_of(&object)? == mount_of(&parent)? { Some(object) } else { None })
}

/// Covers an object by a file that every jail has, which leads nowhere and says why.
pub(in crate::launch::warden) fn cover_by_about(object: &OwnedFd) -> Result<(), Errno> {
    let about = plain(Path::new(ABOUT), OFlags::empty())?;
    let clone = clone_of(&about)?;
    restrict_mount(clone.as_fd(), MountLimit::ReadOnly)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    mount_onto(&clone, object)
}

fn again(place: &Place<'_>, how: Cover) -> Result<bool, Errno> {
    let Some(object) = uncovered(place.root, place.below)? else { return Ok(false) };
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
