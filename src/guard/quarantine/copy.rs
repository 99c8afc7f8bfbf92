//! Across file systems: copied, checked, then unlinked, all by descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat, statat, symlinkat, unlinkat,
};

/// Bytes of one thing that are copied; a larger one is left where it is.
const MAX_BYTES: u64 = 256 << 20;
/// Entries of one thing.
pub const MAX_ENTRIES: usize = 10_000;
/// Directories in directories.
pub const MAX_DEPTH: usize = 64;

/// Moves `name` in `from` to `target` in `to`, which must not exist, unless it has more than `most` bytes. Returns how many
/// it had.
pub fn across(from: impl AsFd, name: &Path, to: impl AsFd, target: &Path, most: u64) -> io::Result<u64> {
    let (from, to) = (from.as_fd(), to.as_fd());
    if statat(to, target, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let bytes = MAX_BYTES.min(most);
    let mut left = Budget { bytes, entries: MAX_ENTRIES };
    if let Err(error) = copy(from, name, to, target, &mut left, 0) {
        // Half a copy is nothing that could be brought back, and takes room.
        let _ = remove(to, target, 0);
        return Err(error);
    }
    remove(from, name, 0)?;
    Ok(bytes - left.bytes)
}

struct Budget {
    bytes: u64,
    entries: usize,
}

impl Budget {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.entries.checked_sub(1));
        let (bytes, entries) =
            left.ok_or_else(|| io::Error::other("it is too large to be copied to another file system"))?;
        (self.bytes, self.entries) = (bytes, entries);
        Ok(())
    }
}

fn copy(
    from: BorrowedFd<'_>,
    name: &Path,
    to: BorrowedFd<'_>,
    target: &Path,
    left: &mut Budget,
    depth: usize,
) -> io::Result<()> {
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let source = openat(
                from,
                name,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let size = u64::try_from(fstat(&source)?.st_size).unwrap_or(u64::MAX);
            left.take(size)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let copy = openat(to, target, flags, Mode::from_raw_mode(stat.st_mode & 0o777))?;
            let copied = io::copy(&mut io::Read::take(File::from(source), size), &mut File::from(copy))?;
            if copied == size { Ok(()) } else { Err(io::Error::other("it changed while it was copied")) }
        }
        FileType::Symlink => {
            left.take(0)?;
            Ok(symlinkat(readlinkat(from, name, Vec::new())?, to, target)?)
        }
        FileType::Directory if depth < MAX_DEPTH => {
            left.take(0)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let source = openat(from, name, flags, Mode::empty())?;
            mkdirat(to, target, Mode::RWXU)?;
            let copy_dir = openat(to, target, flags, Mode::empty())?;
            for entry in names(&source)? {
                copy(source.as_fd(), &entry, copy_dir.as_fd(), &entry, left, depth + 1)?;
            }
            Ok(())
        }
        _ => Err(io::Error::other("it is neither a file nor a directory nor a symlink, or lies too deep")),
    }
}

fn remove(from: BorrowedFd<'_>, name: &Path, depth: usize) -> io::Result<()> {
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(unlinkat(from, name, AtFlags::empty())?);
    }
    if depth >= MAX_DEPTH {
        return Err(io::Error::other("it lies too deep"));
    }
    let directory = openat(
        from,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    for entry in names(&directory)? {
        remove(directory.as_fd(), &entry, depth + 1)?;
    }
    Ok(unlinkat(from, name, AtFlags::REMOVEDIR)?)
}

pub fn names(directory: impl AsFd) -> io::Result<Vec<std::path::PathBuf>> {
    use std::os::unix::ffi::OsStrExt;
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.into());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_tree_arrives_whole_and_is_gone_from_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("thing/sub")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("thing/sub/file"), "text").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("thing/link")).unwrap();
        across(
            File::open(&from).unwrap(),
            Path::new("thing"),
            File::open(&to).unwrap(),
            Path::new("1"),
            u64::MAX,
        )
        .unwrap();
        assert_eq!(fs::read_to_string(to.join("1/sub/file")).unwrap(), "text");
        assert_eq!(fs::read_link(to.join("1/link")).unwrap(), Path::new("/etc/passwd"));
        assert!(from.join("thing").symlink_metadata().is_err());
    }

    #[test]
    fn what_is_too_large_stays_whole_and_leaves_no_half_behind() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/1"), "12345").unwrap();
        fs::write(dir.path().join("a/2"), "12345").unwrap();
        let here = File::open(dir.path()).unwrap();
        let (from, to) = (Path::new("a"), Path::new("b"));
        assert!(across(&here, from, &here, to, 9).unwrap_err().to_string().contains("too large"));
        assert!(!dir.path().join("b").exists() && dir.path().join("a/2").exists());
        assert_eq!(across(&here, from, &here, to, 10).unwrap(), 10);
        assert!(dir.path().join("b/2").exists() && !dir.path().join("a").exists());
    }

    #[test]
    fn what_is_there_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        fs::write(dir.path().join("b"), "b").unwrap();
        let here = File::open(dir.path()).unwrap();
        assert!(across(&here, Path::new("a"), &here, Path::new("b"), u64::MAX).is_err());
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "a");
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "b");
    }
}
