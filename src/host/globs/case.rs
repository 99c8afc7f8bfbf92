//! Which directories do not tell letters by their case.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstatfs, ioctl_getflags, openat};

use crate::policy::glob::{Case, same_name};

/// `FS_CASEFOLD_FL` of `linux/fs.h`: the directory ignores case.
const CASEFOLD: u32 = 0x4000_0000;
/// File systems on which a directory may have that flag: ext4, f2fs, tmpfs, bcachefs, overlayfs.
const WITH_FLAG: [u32; 5] = [0xef53, 0xf2f5_2010, 0x0102_1994, 0xca45_1a4e, 0x794c_7630];
/// File systems that ignore case: FAT, exFAT, NTFS (two drivers), CIFS, SMB, HFS+.
const WITHOUT_CASE: [u32; 7] =
    [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0xff53_4d42, 0xfe53_4d42, 0x482b];

/// Whether an open directory tells `a` and `A` apart.
pub(super) fn of(directory: impl AsFd) -> Case {
    // The magic numbers have 32 bits, whatever the field has.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "32 bits are meant")]
    let kind = fstatfs(&directory).map_or(0, |file_system| file_system.f_type as u32);
    let flagged = || ioctl_getflags(&directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
    if WITHOUT_CASE.contains(&kind) || (WITH_FLAG.contains(&kind) && flagged()) {
        Case::Ignored
    } else {
        Case::Sensitive
    }
}

/// The same for a path; what cannot be opened tells them apart.
pub fn case_of(directory: &Path) -> Case {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(CWD, directory, flags, Mode::empty()).map_or(Case::Sensitive, of)
}

/// The name under which `directory`, which ignores case, has `name`.
pub(super) fn own_name(directory: &Path, name: &OsStr) -> Option<OsString> {
    let entries = std::fs::read_dir(directory).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    names.into_iter().find(|own| own != name && same_name(own, name, Case::Ignored))
}
