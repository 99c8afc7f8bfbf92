//! The quarantine: what was held back, where it was, and the way back. Nothing is deleted and nothing is overwritten.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, open, openat, openat2,
    renameat_with, statat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::sanitize::escape;

mod copy;
mod unlock;

pub(super) use self::unlock::set_mode;

/// The list of a session's things, one JSON line each.
const INDEX: &str = "index.jsonl";
/// How many things one session may have held back; what is beyond is left and reported. It is far above what decoys could
/// reach cheaply: what is left is not safe.
const MAX_ITEMS: usize = 100_000;
/// So many of them while the jail runs: the rest is for what is there when it has ended.
const MAX_LIVE: usize = MAX_ITEMS / 2;
/// Bytes that one session copies from other file systems, where a thing cannot just be renamed.
const MAX_COPIED: u64 = 1 << 30;
/// Bytes of one thing that are copied while the jail runs: whoever attends it does nothing else meanwhile.
const COPIED_LIVE: u64 = 4 << 20;
/// How often a move is tried again when something inside may close the directories at the same time.
const ATTEMPTS: usize = 5;

/// The quarantine of one session; its directory is made when something is held back.
#[derive(Debug)]
pub struct Quarantine {
    dir: PathBuf,
    /// The number of the last thing; `None` until it was read from the list.
    last: Option<usize>,
    held: Vec<String>,
    known: HashSet<String>,
    left: Vec<Left>,
    /// Bytes that may still be copied from other file systems.
    copies: u64,
}

/// Something that could not be moved away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Where it is, escaped.
    pub path: String,
    /// Why it could not be moved.
    pub why: String,
    /// The thing itself, where it is one that can be looked for again.
    pub place: Option<PathBuf>,
}

/// When something is moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// While the jail runs.
    Live,
    /// When it has ended.
    End,
}

/// One thing in the quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The session.
    #[serde(skip)]
    pub session: String,
    /// Its number in the session, from 1.
    pub number: usize,
    /// The tree that it was in.
    #[serde(with = "crate::plan::raw")]
    pub root: PathBuf,
    /// Where it was below.
    #[serde(with = "crate::plan::raw")]
    pub below: PathBuf,
}

impl Item {
    /// How it is named on the command line.
    pub fn id(&self) -> String {
        format!("{}/{}", self.session, self.number)
    }
}

impl Quarantine {
    /// The quarantine of `session` below `dir`.
    pub fn new(dir: &Path, session: &str) -> Self {
        Self {
            dir: dir.join(session),
            last: None,
            held: Vec::new(),
            known: HashSet::new(),
            left: Vec::new(),
            copies: MAX_COPIED,
        }
    }

    /// What was held back, as escaped paths.
    pub fn held(&self) -> &[String] {
        &self.held
    }

    /// What could not be moved away.
    pub fn left(&self) -> &[Left] {
        &self.left
    }

    /// Moves `below`, in the tree at `root`, to the quarantine. What cannot be moved loses its executable bit and is
    /// reported. Returns whether it is gone from its place.
    pub fn hold_back(&mut self, root: &Path, below: &Path) -> bool {
        let path = escape(&root.join(below)).to_string();
        match self.take(root, below, When::End) {
            Ok(()) => {
                self.add(path);
                true
            }
            Err(why) => {
                disarm(root, below);
                let place = Some(root.join(below));
                self.left.push(Left { path, why: why.to_string(), place });
                false
            }
        }
    }

    /// Reports what stays where it is.
    pub fn leave(&mut self, root: &Path, below: &Path, why: &str) {
        let path = escape(&root.join(below)).to_string();
        self.left.push(Left { path, why: why.to_owned(), place: None });
    }

    /// Moves `below` as [`Self::hold_back`] does, while the jail runs: what cannot be moved is left as it is, and to the
    /// end of the session.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn take_now(&mut self, root: &Path, below: &Path) -> std::io::Result<()> {
        self.take(root, below, When::Live)?;
        let path = escape(&root.join(below)).to_string();
        self.add(path);
        Ok(())
    }

    /// Each path is said once, however often it was made anew.
    fn add(&mut self, path: String) {
        if self.known.insert(path.clone()) {
            self.held.push(path);
        }
    }

    /// Writes a file where something was held back, unless something is there again.
    pub fn replace(&mut self, root: &Path, below: &Path, text: &str) {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let written = place(root, below)
            .and_then(|(parent, name)| match openat(&parent, name, flags, mode) {
                Err(Errno::ACCESS) => {
                    let _open = unlock::Unlocked::new(&parent)?;
                    Ok(openat(&parent, name, flags, mode)?)
                }
                other => Ok(other?),
            })
            .and_then(|file| File::from(file).write_all(text.as_bytes()));
        if let Err(why) = written {
            self.left.push(Left {
                path: escape(&root.join(below)).to_string(),
                why: format!("its harmless part cannot be written: {why}"),
                place: None,
            });
        }
    }

    fn take(&mut self, root: &Path, below: &Path, when: When) -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let last = || items(&self.dir).iter().map(|item| item.number).max().unwrap_or(0);
        let number = self.last.unwrap_or_else(last) + 1;
        let (limit, copies) = match when {
            When::Live => (MAX_LIVE, self.copies.min(COPIED_LIVE)),
            When::End => (MAX_ITEMS, self.copies),
        };
        if number > limit {
            return Err(std::io::Error::other(format!("more than {limit} things were held back")));
        }
        let (parent, name) = place(root, below)?;
        let to = open(
            &self.dir,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // Written first: an entry without its thing is harmless, a thing without its entry cannot be brought back.
        let item =
            Item { session: String::new(), number, root: root.to_path_buf(), below: below.to_path_buf() };
        let mut index = File::options().append(true).create(true).mode(0o600).open(self.dir.join(INDEX))?;
        let before = index.metadata()?.len();
        // One that was cut short ends where the next begins.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, &item)?;
        line.push(b'\n');
        let moved =
            index.write_all(&line).and_then(|()| rename(&parent, name, &to, &number.to_string(), copies));
        // What failed uses up no number, unless a part of it has come.
        let nothing = moved.is_err()
            && statat(&to, number.to_string(), AtFlags::SYMLINK_NOFOLLOW).is_err_and(|e| e == Errno::NOENT);
        if !(nothing && index.set_len(before).is_ok()) {
            self.last = Some(number);
        }
        self.copies = self.copies.saturating_sub(moved?);
        Ok(())
    }
}

/// Moves `name` in `parent` to `to`, where it is `target`; to another file system when it has no more than `most` bytes. Returns
/// how many were copied.
fn rename(parent: &OwnedFd, name: &OsStr, to: &OwnedFd, target: &str, most: u64) -> std::io::Result<u64> {
    let rename = || renameat_with(parent, name, to, target, RenameFlags::NOREPLACE);
    let mut moved = rename();
    for _ in 0..ATTEMPTS {
        if moved != Err(Errno::ACCESS) {
            break;
        }
        // The owner, which the agent is too, may take the write permission from its directories. It is put back to the
        // one that stays; the one that goes keeps it, since else it could be neither brought back nor removed.
        let _open = unlock::Unlocked::new(parent)?;
        unlock::directory(parent, Path::new(name))?;
        moved = rename();
    }
    match moved {
        Err(Errno::XDEV) => {
            let _open = unlock::Unlocked::new(parent)?;
            unlock::everything(parent, Path::new(name))?;
            copy::across(parent, Path::new(name), to, Path::new(target), most)
        }
        other => Ok(other.map(|()| 0)?),
    }
}

/// Everything in the quarantine below `dir`, oldest session first.
pub fn list(dir: &Path) -> Vec<Item> {
    let mut sessions: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    sessions.sort();
    sessions
        .iter()
        .flat_map(|session| items(session))
        .filter(|item| thing(dir, item).symlink_metadata().is_ok())
        .collect()
}

/// Brings `item` back to where it was, without the modes that no file of a jail's may keep.
///
/// # Errors
/// When something is there again, or the directory that it was in is gone.
pub fn restore(dir: &Path, item: &Item) -> Result<()> {
    let shown = escape(&item.root.join(&item.below)).to_string();
    let failed = |why: std::io::Error| {
        let error = Error::new(Kind::Refused, format!("{shown} cannot be brought back")).because(&why);
        match why.kind() {
            std::io::ErrorKind::AlreadyExists => error.hint("move what is there away first"),
            std::io::ErrorKind::NotFound => error.hint("make the directory that it was in first"),
            _ => error,
        }
    };
    let session = dir.join(&item.session);
    let from =
        open(&session, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(error.into()))?;
    let (parent, name) = place(&item.root, &item.below).map_err(failed)?;
    let number = item.number.to_string();
    unlock::without_set_id(&session, Path::new(&number)).map_err(failed)?;
    match renameat_with(&from, &number, &parent, name, RenameFlags::NOREPLACE) {
        Err(Errno::XDEV) => {
            let (number, name) = (Path::new(&number), Path::new(name));
            unlock::everything(&from, number).map_err(failed)?;
            copy::across(&from, number, &parent, name, u64::MAX).map(drop).map_err(failed)?
        }
        other => other.map_err(|error| failed(error.into()))?,
    }
    tidy(dir, &item.session);
    Ok(())
}

/// Removes `item` for good.
pub fn discard(dir: &Path, item: &Item) -> Result<()> {
    let thing = thing(dir, item);
    let failed = |error: std::io::Error| {
        Error::new(Kind::Setup, format!("{} cannot be removed", item.id())).because(error)
    };
    let gone = if thing.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        // Whoever made it may have closed directories in it.
        unlock::all_directories(thing.clone());
        fs::remove_dir_all(&thing)
    } else {
        fs::remove_file(&thing)
    };
    gone.map_err(failed)?;
    tidy(dir, &item.session);
    Ok(())
}

fn thing(dir: &Path, item: &Item) -> PathBuf {
    dir.join(&item.session).join(item.number.to_string())
}

fn items(session: &Path) -> Vec<Item> {
    let Ok(index) = File::open(session.join(INDEX)) else { return Vec::new() };
    let name = session.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Before each line there is an empty one.
    let lines = BufReader::new(index).lines().map_while(std::io::Result::ok);
    lines
        .filter(|line| !line.is_empty())
        .take(2 * MAX_ITEMS)
        .filter_map(|line| serde_json::from_str::<Item>(&line).ok())
        .map(|item| Item { session: name.clone(), ..item })
        .collect()
}

/// A session of which nothing is left needs no directory.
fn tidy(dir: &Path, session: &str) {
    if list(dir).iter().all(|item| item.session != session) {
        let _ = fs::remove_file(dir.join(session).join(INDEX));
        let _ = fs::remove_dir(dir.join(session));
    }
}

/// The directory that holds `below`, reached without a symlink, and the name in it.
pub(super) fn place<'a>(root: &Path, below: &'a Path) -> std::io::Result<(OwnedFd, &'a OsStr)> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = below.file_name().ok_or_else(|| std::io::Error::other("it has no name"))?;
    let root = openat(CWD, root, directory, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => Ok((openat2(&root, parent, directory, Mode::empty(), resolve)?, name)),
        None => Ok((root, name)),
    }
}

/// Opens up the directory `below`, until what is returned is dropped.
///
/// # Errors
/// When it is another user's, or gone.
pub fn unlocked(root: &Path, below: &Path) -> std::io::Result<unlock::Unlocked> {
    let (parent, name) = place(root, below)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    unlock::Unlocked::new(openat(&parent, name, flags, Mode::empty())?)
}

/// What stays in its place is at least not executable any more.
fn disarm(root: &Path, below: &Path) {
    let Ok((parent, name)) = place(root, below) else { return };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(object) = openat(&parent, name, flags, Mode::empty()) else { return };
    let Ok(stat) = fstat(&object) else { return };
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        let _ = set_mode(&object, stat.st_mode & 0o666);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A tree with files, and its quarantine.
    fn case(files: &[&str]) -> (tempfile::TempDir, PathBuf, Quarantine) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let quarantine = Quarantine::new(&dir.path().join("quarantine"), "s");
        (dir, root, quarantine)
    }

    fn listed(dir: &tempfile::TempDir) -> Vec<(usize, String)> {
        let items = list(&dir.path().join("quarantine"));
        items.into_iter().map(|item| (item.number, item.below.display().to_string())).collect()
    }

    #[test]
    fn what_failed_uses_up_no_number() {
        let (dir, root, mut quarantine) = case(&["a", "b"]);
        for _ in 0..3 {
            assert!(quarantine.take_now(&root, Path::new("gone")).is_err());
        }
        assert!(quarantine.hold_back(&root, Path::new("a")));
        assert!(!quarantine.hold_back(&root, Path::new("gone")));
        assert!(quarantine.hold_back(&root, Path::new("b")));
        assert_eq!(listed(&dir), [(1, "a".to_owned()), (2, "b".to_owned())]);
    }

    #[test]
    fn there_is_room_for_the_end_whatever_was_made_before() {
        let (dir, root, mut quarantine) = case(&["a", "b"]);
        quarantine.last = Some(MAX_LIVE);
        assert!(quarantine.take_now(&root, Path::new("a")).is_err());
        assert!(quarantine.hold_back(&root, Path::new("a")));
        quarantine.last = Some(MAX_ITEMS);
        assert!(!quarantine.hold_back(&root, Path::new("b")));
        assert_eq!(listed(&dir), [(MAX_LIVE + 1, "a".to_owned())]);
        assert!(quarantine.left()[0].why.contains("more than"), "{:?}", quarantine.left());
    }

    #[test]
    fn a_line_that_was_cut_short_loses_nothing() {
        let (dir, root, mut quarantine) = case(&["a", "b"]);
        assert!(quarantine.hold_back(&root, Path::new("a")));
        let index = dir.path().join("quarantine/s").join(INDEX);
        File::options().append(true).open(index).unwrap().write_all(b"\n{\"number\":2,\"ro").unwrap();
        let mut next = Quarantine::new(&dir.path().join("quarantine"), "s");
        assert!(next.hold_back(&root, Path::new("b")));
        assert_eq!(listed(&dir), [(1, "a".to_owned()), (2, "b".to_owned())]);
        let items = list(&dir.path().join("quarantine"));
        items.iter().for_each(|item| restore(&dir.path().join("quarantine"), item).unwrap());
        assert!(root.join("a").exists() && root.join("b").exists());
    }

    #[test]
    fn what_comes_back_runs_with_nobody_elses_rights() {
        let (dir, root, mut quarantine) = case(&["d/e/f", "d/g", "d/h"]);
        let set =
            |path: &str, mode| fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
        let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o7777;
        for (path, mode) in [("d/e/f", 0o4755), ("d/g", 0o2710), ("d/h", 0o640), ("d/e", 0o2500)] {
            set(path, mode);
        }
        assert!(quarantine.hold_back(&root, Path::new("d")));
        for item in list(&dir.path().join("quarantine")) {
            restore(&dir.path().join("quarantine"), &item).unwrap();
        }
        assert_eq!(["d/e/f", "d/g", "d/h", "d/e"].map(mode), [0o755, 0o710, 0o640, 0o2500]);
    }

    #[test]
    fn what_stays_loses_its_executable_bit_and_where_a_link_leads_nothing_changes() {
        let (_dir, root, _) = case(&["f", "target"]);
        let set = |path: &str| fs::set_permissions(root.join(path), Permissions::from_mode(0o755)).unwrap();
        ["f", "target"].iter().for_each(|path| set(path));
        std::os::unix::fs::symlink("target", root.join("link")).unwrap();
        ["f", "link", "gone"].iter().for_each(|below| disarm(&root, Path::new(below)));
        let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(["f", "target"].map(mode), [0o644, 0o755]);
    }
}
