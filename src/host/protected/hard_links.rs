//! The other names of protected files and of secrets (FS-15): what is written by one name is changed under all of them,
//! and what is masked under one could be read by another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::Hold;
use super::finder::{Finder, SCAN_LIMIT};
use super::table::TABLE;
use crate::host::entries;
use crate::sanitize::escape;

/// Files in protected directories that are asked for their number of names.
const INSIDE_LIMIT: usize = 20_000;
/// How deep directories are followed.
const DEPTH_LIMIT: usize = 64;

/// A file by its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Number(u64, u64);

/// A protected file, or a secret, with more than one name.
struct Linked {
    /// Why it is protected, if it is.
    reason: Option<String>,
    /// What is in it, if it is a secret.
    secret: Option<&'static str>,
    /// How many of its names have not been seen.
    missing: i64,
}

/// Those that were found, and how many files may still be asked.
struct Noted {
    linked: HashMap<Number, Linked>,
    left: usize,
}

struct Search {
    /// What is read-only as a whole.
    whole: HashSet<PathBuf>,
    /// Of the files, for a look without a system call.
    inodes: HashSet<u64>,
    linked: HashMap<Number, Linked>,
    /// Entries that were looked at: not those of the walk before.
    entries: usize,
}

impl Search {
    fn is_done(&self) -> bool {
        self.entries > SCAN_LIMIT || self.linked.values().all(|linked| linked.missing <= 0)
    }
}

impl Finder<'_> {
    /// Holds every other name that a protected file has in the tree. The tree is walked again only when there is such a
    /// file, and only until all its names are seen.
    pub(super) fn other_names(&mut self) {
        // After a session: the kernel makes no hard link of a file that is a mount of its own.
        if self.scope.known.is_some() {
            return;
        }
        let read_only: Vec<(PathBuf, String)> = self.read_only();
        let mut noted = Noted { linked: HashMap::new(), left: INSIDE_LIMIT };
        for (below, reason) in &read_only {
            let path = self.at(below);
            let stat = match statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(error) => {
                    self.missed(below, error);
                    continue;
                }
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => note(&mut noted.linked, &stat, reason),
                FileType::Directory => self.inside(CWD, path.as_os_str(), below, reason, &mut noted, 0),
                _ => {}
            }
        }
        let Noted { mut linked, left } = noted;
        if left == 0 {
            self.incomplete(|| format!("more than {INSIDE_LIMIT} files are in protected directories, and not all were asked for other names"));
        }
        for (below, secret) in self.secrets.clone() {
            match statat(CWD, self.at(&below), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    if let Some(linked) = several(&mut linked, &stat) {
                        linked.secret = Some(secret);
                    }
                }
                Err(error) => self.missed(&below, error),
            }
        }
        if linked.is_empty() {
            return;
        }
        let whole = read_only.into_iter().map(|(below, _)| below).collect();
        let inodes = linked.keys().map(|number| number.1).collect();
        let mut search = Search { whole, inodes, linked, entries: 0 };
        self.search(CWD, self.scope.root.as_os_str(), Path::new(""), &mut search, 0);
        if search.entries > SCAN_LIMIT {
            self.incomplete(|| {
                format!("it has more than {SCAN_LIMIT} entries, too many to find the other names of what is a hard link")
            });
        }
    }

    /// Notes that something could not be looked at. What may not be listed, the walk for names has said.
    fn missed(&mut self, below: &Path, error: Errno) {
        if !entries::is_gone(error) && !matches!(error, Errno::ACCESS | Errno::PERM) {
            self.incomplete(|| {
                format!("{} cannot be searched for other names of files ({error})", escape(below.as_os_str()))
            });
        }
    }

    fn search(&mut self, parent: impl AsFd, name: &OsStr, below: &Path, search: &mut Search, depth: usize) {
        let directory = match open(parent, name) {
            Ok(directory) => directory,
            Err(error) => return self.missed(below, error),
        };
        let mut directories = Vec::new();
        let read = entries::each(&directory, &mut |name, entry| {
            search.entries += 1;
            if search.entries > SCAN_LIMIT {
                return ControlFlow::Break(());
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                directories.push(name.to_owned());
            }
            if search.inodes.contains(&entry.ino()) {
                self.seen(&directory, name, below, search);
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.missed(below, error);
        }
        for name in directories {
            if search.is_done() || depth >= DEPTH_LIMIT {
                return;
            }
            let place = below.join(&name);
            if !self.scope.own.contains(&self.at(&place)) {
                self.search(&directory, &name, &place, search, depth + 1);
            }
        }
    }

    /// An entry of the directory `below` that may be one of the files.
    fn seen(&mut self, directory: &OwnedFd, name: &OsStr, below: &Path, search: &mut Search) {
        let place = below.join(name);
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return self.missed(&place, error),
        };
        let Some(found) = search.linked.get_mut(&Number(stat.st_dev, stat.st_ino)) else { return };
        found.missing -= 1;
        if let Some(secret) = found.secret {
            self.secrets.entry(place.clone()).or_insert(secret);
        }
        let Some(reason) = &found.reason else { return };
        let reason = format!("another name of a protected file: {reason}");
        if !place.ancestors().any(|path| search.whole.contains(path)) {
            self.hold(&place, Hold::ReadOnly, &reason);
        }
    }

    /// Notes the files with several names in a protected directory. What package managers keep there is linked to their
    /// stores as a matter of course, and is not run by itself.
    fn inside(
        &mut self,
        parent: impl AsFd,
        name: &OsStr,
        below: &Path,
        reason: &str,
        noted: &mut Noted,
        depth: usize,
    ) {
        let directory = match open(parent, name) {
            Ok(directory) => directory,
            Err(error) => return self.missed(below, error),
        };
        let mut directories = Vec::new();
        let read = entries::each(&directory, &mut |name, _| {
            let Some(rest) = noted.left.checked_sub(1) else { return ControlFlow::Break(()) };
            noted.left = rest;
            match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => note(&mut noted.linked, &stat, reason),
                    FileType::Directory if !TABLE.dependencies.contain(name) => {
                        directories.push(name.to_owned())
                    }
                    _ => {}
                },
                Err(error) => self.missed(&below.join(name), error),
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.missed(below, error);
        }
        if depth >= DEPTH_LIMIT {
            return;
        }
        for name in directories {
            self.inside(&directory, &name, &below.join(&name), reason, noted, depth + 1);
        }
    }
}

fn note(linked: &mut HashMap<Number, Linked>, stat: &Stat, reason: &str) {
    if let Some(linked) = several(linked, stat) {
        linked.reason.get_or_insert_with(|| reason.to_owned());
    }
}

/// The entry of a file that has several names.
fn several<'a>(linked: &'a mut HashMap<Number, Linked>, stat: &Stat) -> Option<&'a mut Linked> {
    let missing = i64::try_from(stat.st_nlink).unwrap_or(i64::MAX);
    let new = || Linked { reason: None, secret: None, missing };
    (missing > 1).then(|| linked.entry(Number(stat.st_dev, stat.st_ino)).or_insert_with(new))
}

fn open(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}
