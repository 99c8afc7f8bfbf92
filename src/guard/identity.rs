//! What a file is, whatever its name: told across sessions, and so also after an inode was given away again.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Device, inode, and the time of birth where the file system knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
    born: Option<(i64, u32)>,
}

impl Identity {
    /// Of something open.
    pub fn of(descriptor: impl AsFd) -> Result<Self, Errno> {
        let empty: &CStr = c"";
        let stat = statx(descriptor, empty, AtFlags::EMPTY_PATH, WANTED)?;
        Ok(Self::from(&stat))
    }

    /// Of what is at `path`, a symlink itself included.
    pub fn at(path: &Path) -> Result<Self, Errno> {
        Ok(Self::from(&statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, WANTED)?))
    }

    /// Its inode.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    fn from(stat: &rustix::fs::Statx) -> Self {
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: has_birth.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        }
    }
}

const WANTED: StatxFlags = StatxFlags::INO.union(StatxFlags::BTIME);

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_file_keeps_it_under_another_name_and_another_file_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, "x").unwrap();
        let was = Identity::at(&a).unwrap();
        assert_eq!(Identity::of(File::open(&a).unwrap()).unwrap(), was);
        fs::rename(&a, &b).unwrap();
        assert_eq!(Identity::at(&b).unwrap(), was);
        fs::write(&a, "x").unwrap();
        assert_ne!(Identity::at(&a).unwrap(), was);
    }
}
