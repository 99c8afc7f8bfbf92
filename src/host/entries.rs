//! Reads a directory to its end, or says that it could not.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{RawDir, RawDirEntry};
use rustix::io::Errno;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 32 << 10;

/// Calls `each` with the name and the entry of all that is in `directory`, until it breaks. One that was removed meanwhile has
/// no entries.
///
/// # Errors
/// When it cannot be read to its end.
pub(super) fn each(
    directory: &OwnedFd,
    each: &mut dyn FnMut(&OsStr, &RawDirEntry<'_>) -> ControlFlow<()>,
) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::NOENT) => break,
            Err(error) => return Err(error),
        };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && each(name, &entry).is_break() {
            break;
        }
    }
    Ok(())
}

/// Whether an error says no more than that something went away, or another thing took its place.
pub(super) fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_name_is_seen_and_what_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..3000 {
            fs::write(dir.path().join(format!("{number:0100}")), "").unwrap();
        }
        let mut count = 0;
        let mut seen = |_: &OsStr, _: &RawDirEntry<'_>| {
            count += 1;
            ControlFlow::Continue(())
        };
        each(&fs::File::open(dir.path()).unwrap().into(), &mut seen).unwrap();
        assert_eq!(count, 3000);
        let mut first = 0;
        let mut stop = |_: &OsStr, _: &RawDirEntry<'_>| {
            first += 1;
            ControlFlow::Break(())
        };
        each(&fs::File::open(dir.path()).unwrap().into(), &mut stop).unwrap();
        assert_eq!(first, 1);
        // What is open by its path alone cannot be read.
        let flags = rustix::fs::OFlags::PATH;
        let by_path = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::empty()).unwrap();
        let nothing = &mut |_: &OsStr, _: &RawDirEntry<'_>| ControlFlow::Continue(());
        assert_eq!(each(&by_path, nothing), Err(Errno::BADF));
    }
}
