//! Other names of files: hard links (FS-15).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, RawDir, statat};
use rustix::io::Errno;

use super::{ENTRY_LIMIT, walk};

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 64 << 10;

/// Files that have more than one name.
#[derive(Debug, Default)]
pub struct Wanted {
    /// By device and inode: a name, and whose file it is.
    files: HashMap<(u64, u64), (PathBuf, usize)>,
    inodes: std::collections::HashSet<u64>,
}

impl Wanted {
    /// Those of `paths` that are regular files with more than one name; each comes with a number of the caller's.
    pub fn new<'a>(paths: impl Iterator<Item = (&'a Path, usize)>) -> Self {
        let mut wanted = Self::default();
        for (path, whose) in paths {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_file() && metadata.nlink() > 1 {
                wanted.inodes.insert(metadata.ino());
                let file = (metadata.dev(), metadata.ino());
                wanted.files.entry(file).or_insert_with(|| (path.to_path_buf(), whose));
            }
        }
        wanted
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// A name that was not known.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherName {
    /// The name.
    pub path: PathBuf,
    /// The name that was known.
    pub known: PathBuf,
    /// The caller's number.
    pub whose: usize,
}

/// There was too much to look at.
#[derive(Debug)]
pub struct TooMany {
    /// A file whose names were looked for.
    pub example: PathBuf,
    /// Where the search stopped.
    pub directory: PathBuf,
}

/// The names that the files have in `trees`, but for those that are `covered` and what lies below these: sorted.
///
/// # Errors
/// When there are too many entries to look at.
pub fn others(
    wanted: &Wanted,
    trees: &[&Path],
    covered: &dyn Fn(&Path) -> bool,
) -> Result<Vec<OtherName>, TooMany> {
    let mut found = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut waiting: Vec<PathBuf> = trees
        .iter()
        .filter(|tree| !trees.iter().any(|outer| outer != *tree && tree.starts_with(outer)))
        .map(|tree| tree.to_path_buf())
        .collect();
    let mut count = 0;
    while let Some(at) = waiting.pop() {
        // What cannot be listed by the user cannot be listed by the jail.
        let Ok(directory) = walk::open(&at) else { continue };
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOENT) => break,
                Err(_) => break,
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            count += 1;
            if count > ENTRY_LIMIT {
                let example = wanted.files.values().next().map(|(path, _)| path.clone());
                return Err(TooMany { example: example.unwrap_or_default(), directory: at });
            }
            let kind = entry.file_type();
            if kind == FileType::Directory || kind == FileType::Unknown {
                let path = at.join(name);
                let is_directory = kind == FileType::Directory
                    || path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
                if is_directory && !covered(&path) {
                    waiting.push(path);
                    continue;
                }
            }
            if !wanted.inodes.contains(&entry.ino()) {
                continue;
            }
            let Ok(stat) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = at.join(name);
            if let Some((known, whose)) = wanted.files.get(&(stat.st_dev, stat.st_ino))
                && !covered(&path)
            {
                found.push(OtherName { path, known: known.clone(), whose: *whose });
            }
        }
    }
    found.sort();
    Ok(found)
}
