//! The walk for globs: parallel where there is much to look at, bounded, through no symlink.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Scope;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use super::{ENTRY_LIMIT, MATCH_LIMIT, case};
use crate::policy::Asked;
use crate::policy::glob::States;

/// How deep directories are followed; what is deeper is covered as a whole.
const DEPTH_LIMIT: usize = 256;
/// Bytes of directory entries that are read at once.
const BUFFER: usize = 64 << 10;
/// From so many entries on there is work for more than one thread.
const MANY: usize = 8192;
/// More threads than this wait for each other.
const MAX_THREADS: usize = 8;

/// A directory, and how far each entry (by its position) has come there.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) directory: PathBuf,
    pub(super) states: Vec<(usize, States)>,
}

/// Why a walk was given up.
#[derive(Debug)]
pub(super) struct Stop {
    /// The entry, by its position.
    pub(super) asked: usize,
    /// Where.
    pub(super) directory: PathBuf,
    /// It has too many matches; else there are too many entries to look at.
    pub(super) matches: bool,
}

/// What a walk found, each with the entry that asks for it; sorted.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What matches. Nothing is listed below it.
    pub(super) matched: Vec<(PathBuf, usize)>,
    /// Directories that cannot be searched although something in them may match.
    pub(super) closed: Vec<(PathBuf, usize)>,
}

/// A walk for some entries.
pub(super) struct Walk<'a> {
    asked: &'a [Asked],
    /// What is covered already, and is not entered.
    covered: HashSet<PathBuf>,
    entries: Vec<AtomicUsize>,
    matches: Vec<AtomicUsize>,
    queue: Mutex<Queue>,
    more: Condvar,
    grown: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Start>,
    /// Directories that are being read now.
    busy: usize,
    found: Found,
    stop: Option<Stop>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(asked: &'a [Asked], covered: HashSet<PathBuf>) -> Self {
        let zeros = || asked.iter().map(|_| AtomicUsize::new(0)).collect();
        Self {
            asked,
            covered,
            entries: zeros(),
            matches: zeros(),
            queue: Mutex::default(),
            more: Condvar::new(),
            grown: AtomicBool::new(false),
        }
    }

    /// Walks to the end.
    pub(super) fn run(self, start: Start) -> Result<Found, Stop> {
        self.queue().waiting.push(start);
        std::thread::scope(|scope| self.work(Some(scope)));
        let mut queue = self.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        match queue.stop.take() {
            Some(stop) => Err(stop),
            None => {
                queue.found.matched.sort();
                queue.found.closed.sort();
                Ok(queue.found)
            }
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads directories until none is left. The first thread gets more of them when it is worth it.
    fn work<'scope, 'env>(&'env self, scope: Option<&'scope Scope<'scope, 'env>>)
    where
        'env: 'scope,
    {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut seen = 0;
        loop {
            let next = {
                let mut queue = self.queue();
                loop {
                    if queue.stop.is_some() {
                        break None;
                    }
                    if let Some(next) = queue.waiting.pop() {
                        queue.busy += 1;
                        break Some(next);
                    }
                    if queue.busy == 0 {
                        break None;
                    }
                    queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let Some(next) = next else {
                self.more.notify_all();
                return;
            };
            let mut found = Found::default();
            let mut below = Vec::new();
            let result = self.directory(&next, &mut buffer, &mut found, &mut below, &mut seen);
            let mut queue = self.queue();
            queue.busy -= 1;
            queue.found.matched.append(&mut found.matched);
            queue.found.closed.append(&mut found.closed);
            let new = below.len();
            queue.waiting.append(&mut below);
            if let Err(stop) = result {
                queue.stop.get_or_insert(stop);
            }
            let done = queue.stop.is_some() || (queue.busy == 0 && queue.waiting.is_empty());
            drop(queue);
            match new {
                _ if done => self.more.notify_all(),
                0 | 1 => {}
                _ => self.more.notify_all(),
            }
            if let Some(scope) = scope
                && seen > MANY
                && !self.grown.swap(true, Ordering::Relaxed)
            {
                let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
                for _ in 1..threads {
                    scope.spawn(|| self.work(None));
                }
            }
        }
    }

    fn directory(
        &self,
        at: &Start,
        buffer: &mut Vec<u8>,
        found: &mut Found,
        below: &mut Vec<Start>,
        seen: &mut usize,
    ) -> Result<(), Stop> {
        let Some((first, _)) = at.states.first() else { return Ok(()) };
        let directory = match open(&at.directory) {
            Ok(directory) => directory,
            // It went away, or a symlink took its place.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(_) => {
                found.closed.push((at.directory.clone(), *first));
                return Ok(());
            }
        };
        let case = case::of(&directory);
        let deep = at.directory.components().count() > DEPTH_LIMIT;
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        let mut count = 0;
        let mut next = Vec::new();
        let outcome = loop {
            let entry = match entries.next() {
                None | Some(Err(Errno::NOENT)) => break Ok(()),
                Some(Err(_)) => {
                    found.closed.push((at.directory.clone(), *first));
                    break Ok(());
                }
                Some(Ok(entry)) => entry,
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            count += 1;
            if count > ENTRY_LIMIT {
                break Ok(());
            }
            next.clear();
            let mut matched = None;
            for (asked, states) in &at.states {
                let matches = &self.asked[*asked].matches;
                let stepped = matches.step(*states, name, case);
                if matches.matched(stepped) {
                    matched = matched.or(Some(*asked));
                    if self.matches[*asked].fetch_add(1, Ordering::Relaxed) >= MATCH_LIMIT {
                        let directory = at.directory.clone();
                        return Err(Stop { asked: *asked, directory, matches: true });
                    }
                } else if matches.goes_on(stepped) {
                    next.push((*asked, stepped));
                }
            }
            if let Some(asked) = matched {
                // Entries that deny come first, so the first is the strictest; and what is covered is covered whole.
                found.matched.push((at.directory.join(name), asked));
                continue;
            }
            if next.is_empty() || !is_directory(&directory, &entry) {
                continue;
            }
            let path = at.directory.join(name);
            if self.covered.contains(&path) {
                continue;
            }
            if deep {
                found.closed.push((path, next[0].0));
            } else {
                below.push(Start { directory: path, states: next.clone() });
            }
        };
        *seen += count;
        for (asked, _) in &at.states {
            if self.entries[*asked].fetch_add(count, Ordering::Relaxed) + count > ENTRY_LIMIT {
                return Err(Stop { asked: *asked, directory: at.directory.clone(), matches: false });
            }
        }
        outcome
    }
}

fn is_directory(directory: &OwnedFd, entry: &rustix::fs::RawDirEntry<'_>) -> bool {
    match entry.file_type() {
        FileType::Directory => true,
        FileType::Unknown => statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        _ => false,
    }
}

/// Opens a directory that has no symlink on its way.
pub(super) fn open(directory: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        CWD,
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}
