//! Other names of files: hard links (FS-15).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, statat};
use rustix::io::Errno;
use rustix::process::getuid;

use super::{ENTRY_LIMIT, walk};
use crate::host::entries;

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

/// Why a search was given up.
#[derive(Debug)]
pub struct Stopped {
    /// A file whose names were looked for.
    pub example: PathBuf,
    /// Where.
    pub directory: PathBuf,
    /// What the system said; `None` when there was too much to look at.
    pub error: Option<Errno>,
}

/// The names that the files have in `trees`, but for those that are `covered` and what lies below these: sorted.
///
/// # Errors
/// When there are too many entries to look at, or a directory cannot be listed that the jail could list or use.
pub fn others(
    wanted: &Wanted,
    trees: &[&Path],
    covered: &dyn Fn(&Path) -> bool,
) -> Result<Vec<OtherName>, Stopped> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = trees
        .iter()
        .filter(|tree| !trees.iter().any(|outer| outer != *tree && tree.starts_with(outer)))
        .map(|tree| tree.to_path_buf())
        .collect();
    let stopped = |directory: &Path, error| {
        let example = wanted.files.values().next().map(|(path, _)| path.clone());
        Stopped { example: example.unwrap_or_default(), directory: directory.to_path_buf(), error }
    };
    let mut count = 0;
    while let Some(at) = waiting.pop() {
        let directory = match walk::open(&at) {
            Ok(directory) => directory,
            Err(error) if entries::is_gone(error) || is_shut(&at, error) => continue,
            Err(error) => return Err(stopped(&at, Some(error))),
        };
        let read = entries::each(&directory, &mut |name, entry| {
            count += 1;
            if count > ENTRY_LIMIT {
                return ControlFlow::Break(());
            }
            let kind = entry.file_type();
            if kind == FileType::Directory || kind == FileType::Unknown {
                let path = at.join(name);
                let is_directory = kind == FileType::Directory
                    || path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
                if is_directory && !covered(&path) {
                    waiting.push(path);
                    return ControlFlow::Continue(());
                }
            }
            if !wanted.inodes.contains(&entry.ino()) {
                return ControlFlow::Continue(());
            }
            if let Ok(stat) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                && let Some((known, whose)) = wanted.files.get(&(stat.st_dev, stat.st_ino))
            {
                let path = at.join(name);
                if !covered(&path) {
                    found.push(OtherName { path, known: known.clone(), whose: *whose });
                }
            }
            ControlFlow::Continue(())
        });
        if count > ENTRY_LIMIT {
            return Err(stopped(&at, None));
        }
        read.map_err(|error| stopped(&at, Some(error)))?;
    }
    found.sort();
    Ok(found)
}

/// Whether nothing in a directory that cannot be listed can be used by its name either, nor after a `chmod`.
fn is_shut(directory: &Path, error: Errno) -> bool {
    matches!(error, Errno::ACCESS | Errno::PERM)
        && rustix::fs::access(directory, Access::EXEC_OK).is_err()
        && directory.symlink_metadata().is_ok_and(|metadata| metadata.uid() != getuid().as_raw())
}
