//! The other names of protected files and of secrets (FS-15): what is written by one name is changed under all of them,
//! and what is masked under one could be read by another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, statat};

use super::Hold;
use super::finder::Finder;
use super::table::TABLE;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 32 << 10;
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

struct Search {
    /// What is read-only as a whole.
    whole: HashSet<PathBuf>,
    /// Of the files, for a look without a system call.
    inodes: HashSet<u64>,
    linked: HashMap<Number, Linked>,
}

impl Search {
    fn is_done(&self) -> bool {
        self.linked.values().all(|linked| linked.missing <= 0)
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
        let mut linked = HashMap::new();
        let mut left = INSIDE_LIMIT;
        for (below, reason) in &read_only {
            let path = self.at(below);
            let Ok(stat) = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => note(&mut linked, &stat, reason),
                FileType::Directory => {
                    let Some(directory) = open(CWD, path.as_os_str()) else { continue };
                    inside(&directory, reason, &mut linked, &mut left, 0);
                }
                _ => {}
            }
        }
        if left == 0 {
            self.incomplete(|| format!("more than {INSIDE_LIMIT} files are in protected directories, and not all were asked for other names"));
        }
        for (below, secret) in &self.secrets {
            let Ok(stat) = statat(CWD, self.at(below), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if let Some(linked) = several(&mut linked, &stat) {
                linked.secret = Some(secret);
            }
        }
        if linked.is_empty() {
            return;
        }
        let whole = read_only.into_iter().map(|(below, _)| below).collect();
        let inodes = linked.keys().map(|number| number.1).collect();
        if let Some(root) = open(CWD, self.scope.root.as_os_str()) {
            self.search(&root, Path::new(""), &mut Search { whole, inodes, linked }, 0);
        }
    }

    fn search(&mut self, directory: &OwnedFd, below: &Path, search: &mut Search, depth: usize) {
        let mut directories = Vec::new();
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if !self.count() {
                return;
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                directories.push(name.to_owned());
            }
            if !search.inodes.contains(&entry.ino()) {
                continue;
            }
            let Ok(stat) = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let Some(found) = search.linked.get_mut(&Number(stat.st_dev, stat.st_ino)) else { continue };
            found.missing -= 1;
            let place = below.join(name);
            if let Some(secret) = found.secret {
                self.secrets.entry(place.clone()).or_insert(secret);
            }
            let Some(reason) = &found.reason else { continue };
            let reason = format!("another name of a protected file: {reason}");
            if !place.ancestors().any(|path| search.whole.contains(path)) {
                self.hold(&place, Hold::ReadOnly, &reason);
            }
        }
        for name in directories {
            if search.is_done() || self.exhausted() || depth >= DEPTH_LIMIT {
                return;
            }
            let place = below.join(&name);
            if self.scope.own.contains(&self.at(&place)) {
                continue;
            }
            if let Some(inner) = open(directory, &name) {
                self.search(&inner, &place, search, depth + 1);
            }
        }
    }
}

/// Notes the files with several names in a protected directory. What package managers keep there is linked to their
/// stores as a matter of course, and is not run by itself.
fn inside(
    directory: &OwnedFd,
    reason: &str,
    linked: &mut HashMap<Number, Linked>,
    left: &mut usize,
    depth: usize,
) {
    let mut directories = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        if let Ok(stat) = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => note(linked, &stat, reason),
                FileType::Directory if !TABLE.dependencies.contain(name) => directories.push(name.to_owned()),
                _ => {}
            }
        }
    }
    for name in directories {
        if let Some(inner) = open(directory, &name).filter(|_| depth < DEPTH_LIMIT) {
            inside(&inner, reason, linked, left, depth + 1);
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

fn open(parent: impl AsFd, name: &OsStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).ok()
}
