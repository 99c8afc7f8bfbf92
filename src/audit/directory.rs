//! The directory of the logs: the user's alone, and bounded.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::Errno;

/// How many logs are kept, but for younger ones than [`KEPT_FOR`].
pub const MAX_FILES: usize = 1_000;

/// A log that was last written less than this ago goes only when there are too many bytes.
pub const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many bytes of logs are kept: those of 32 sessions that filled theirs.
pub const MAX_BYTES: u64 = 256 << 20;

/// What the name of a log ends in.
pub(super) const EXTENSION: &str = "jsonl";

/// Opens `dir`, made with its parents where they are missing; each that is made is 0700 whatever the umask.
pub(super) fn private_directory(dir: &Path) -> io::Result<OwnedFd> {
    let mut missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    while let Some(path) = missing.pop() {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let anchor = File::from(openat(CWD, dir, flags, Mode::empty())?);
    let metadata = anchor.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the directory belongs to somebody else"));
    }
    if metadata.mode() & 0o077 != 0 {
        anchor.set_permissions(Permissions::from_mode(0o700))?;
    }
    Ok(anchor.into())
}

/// Removes the oldest logs until the bounds hold at `now`. A log that cannot be removed is left: that is no reason not to
/// write one.
pub(super) fn remove_oldest(dir: &Path, anchor: impl AsFd, now: SystemTime) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut logs: Vec<(OsString, fs::Metadata)> = entries
        .flatten()
        .filter(|entry| {
            Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == EXTENSION)
        })
        .filter_map(|entry| Some((entry.file_name(), entry.metadata().ok().filter(fs::Metadata::is_file)?)))
        .collect();
    logs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (mut files, mut bytes) = (logs.len(), logs.iter().map(|(_, found)| found.len()).sum::<u64>());
    for (name, found) in logs {
        // What was written in the future, by a clock that was wrong, is young.
        let is_old = found
            .modified()
            .is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age >= KEPT_FOR));
        let too_many = bytes > MAX_BYTES || files > MAX_FILES && is_old;
        if too_many && remove_unless_running(&anchor, &name).is_ok() {
            files -= 1;
            bytes -= found.len();
        }
    }
}

fn remove_unless_running(anchor: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&anchor, name, flags, Mode::empty())?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    unlinkat(&anchor, name, AtFlags::empty())
}
