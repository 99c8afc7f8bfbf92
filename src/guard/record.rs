//! What was protected when a session began, on disk for as long as it runs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::host::handover::Moment;
use crate::host::protected::Hold;
use crate::policy::{ProtectedTree, TreeKind};
use crate::sanitize::escape;

use super::held::Held;
use super::identity::Identity;

/// No record is longer (bytes): ten thousand paths of the longest kind.
const LIMIT: u64 = 64 << 20;
/// How the name of a record ends that is being written.
const NEW: &str = "new";

/// One writable tree: its root, and what was protected in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// On the host.
    #[serde(with = "crate::plan::raw")]
    pub root: PathBuf,
    /// Below the root.
    #[serde(with = "crate::plan::raw::list")]
    pub protected: Vec<PathBuf>,
    /// Those of them that were read-only as a whole.
    #[serde(default, with = "crate::plan::raw::list")]
    pub read_only: Vec<PathBuf>,
    /// What tells them again, where they can be carried along by a rename.
    #[serde(default)]
    pub objects: Vec<Object>,
    /// How it is searched.
    pub kind: TreeKind,
    /// When the session began.
    #[serde(default)]
    pub since: Option<Moment>,
    /// Names of an agent preset of the user's that are protected too.
    #[serde(default)]
    pub more: Vec<String>,
    /// Names that are protected at the root alone.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The user's home, free of symlinks.
    #[serde(default, with = "crate::plan::raw")]
    pub home: PathBuf,
    /// ai-jail's own directories, which are not searched.
    #[serde(default, with = "crate::plan::raw::list")]
    pub own: Vec<PathBuf>,
}

impl Tree {
    /// A tree in which nothing is guarded.
    pub fn unguarded(root: PathBuf) -> Self {
        Self {
            root,
            protected: Vec::new(),
            read_only: Vec::new(),
            kind: TreeKind::Files,
            more: Vec::new(),
            home: PathBuf::new(),
            own: Vec::new(),
            objects: Vec::new(),
            parts: Default::default(),
            since: None,
        }
    }

    /// What was protected at the first of a pair, and below it, is at the second now: what is at the first has been made
    /// anew. All at once, since two may have changed places.
    pub fn carry(&mut self, moves: &[(PathBuf, Option<PathBuf>)]) {
        let moves: HashMap<&Path, Option<&Path>> =
            moves.iter().map(|(from, to)| (from.as_path(), to.as_deref())).collect();
        for list in [&mut self.protected, &mut self.read_only] {
            let carried = list.drain(..).filter_map(|path| {
                let moved = path.ancestors().find_map(|from| Some((from, *moves.get(from)?)));
                match moved {
                    None => Some(path),
                    Some((from, to)) => match path.strip_prefix(from) {
                        Ok(rest) if rest.as_os_str().is_empty() => to.map(Path::to_path_buf),
                        Ok(rest) => to.map(|to| to.join(rest)),
                        Err(_) => None,
                    },
                }
            });
            *list = carried.collect();
        }
    }
}

/// A protected path that a rename of a directory can carry along, and what tells it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Below the root, at launch.
    #[serde(with = "crate::plan::raw")]
    pub below: PathBuf,
    /// Itself.
    pub own: Identity,
    /// The directory that it is in.
    pub parent: Identity,
}

/// The record of one session. While the session runs its file is locked.
#[derive(Debug)]
pub struct Record {
    /// The session's name.
    pub session: String,
    /// Its trees.
    pub trees: Vec<Tree>,
    /// Whether the trees could be read.
    pub is_readable: bool,
    path: PathBuf,
    /// Whether anything of the session may have run. Until then the record goes with this value: what appears after a
    /// launch that failed is the user's own.
    may_have_run: bool,
    /// Held for the lock.
    _file: File,
}

impl Record {
    /// Writes and locks the record of `session` in `dir`, which is made too. `held` is what is followed in the trees.
    /// It stays only when [`Self::keep`] is called.
    pub(super) fn write(dir: &Path, session: &str, trees: &[ProtectedTree], held: &Held) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(Kind::Setup, format!("cannot write the record of this session in {}", escape(dir)))
                .because(error)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let path = dir.join(format!("{session}.json"));
        // Under its own name it is locked and whole: until then another launch would take it for a killed session's.
        let new = Unfinished(dir.join(format!("{session}.{NEW}")));
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&new.0).map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
        let since = Moment::now();
        let trees: Vec<Tree> = trees
            .iter()
            .enumerate()
            .map(|(position, tree)| Tree {
                root: tree.root.clone(),
                objects: held.objects_of(position),
                protected: tree.found.iter().map(|found| found.below.clone()).collect(),
                read_only: tree
                    .found
                    .iter()
                    .filter(|found| found.hold == Hold::ReadOnly)
                    .map(|found| found.below.clone())
                    .collect(),
                kind: tree.kind,
                since: Some(since),
                more: tree.more.clone(),
                parts: tree.parts.clone(),
                home: tree.home.clone(),
                own: tree.own.clone(),
            })
            .collect();
        let json = serde_json::to_vec(&trees).map_err(|error| failed(error.into()))?;
        file.write_all(&json).map_err(failed)?;
        fs::rename(&new.0, &path).map_err(failed)?;
        let session = session.to_owned();
        Ok(Self { session, trees, is_readable: true, path, may_have_run: false, _file: file })
    }

    /// From now on the next launch has to sweep when this one does not.
    pub(super) fn keep(&mut self) {
        self.may_have_run = true;
    }

    /// The records that nobody holds any more: their supervisor was killed. Each is locked by being returned.
    pub fn abandoned(dir: &Path) -> Vec<Self> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::abandoned_at(&entry.path())).collect()
    }

    fn abandoned_at(path: &Path) -> Option<Self> {
        let session = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
        let file = open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Its session ended and removed it while we opened it.
        if file.metadata().ok()?.nlink() == 0 {
            return None;
        }
        let mut json = Vec::new();
        (&file).take(LIMIT).read_to_end(&mut json).ok()?;
        // Cut off, or another version's: it says nothing that could be compared, which the user has to know.
        let read = serde_json::from_slice(&json).ok();
        let is_readable = read.is_some();
        let trees = read.unwrap_or_default();
        let path = path.to_path_buf();
        Some(Self { session, trees, is_readable, path, may_have_run: true, _file: file })
    }

    /// The roots of every tree that a session writes now, or wrote when its supervisor was killed.
    pub fn written(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut roots: Vec<PathBuf> =
            entries.filter_map(|entry| trees_at(&entry.path())).flatten().map(|tree| tree.root).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// The session that runs now in a tree that `path` lies in.
    pub fn running_at(dir: &Path, path: &Path) -> Option<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find_map(|record| {
            let session = record.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
            let file = open(&record)?;
            // Whoever holds it is alive.
            if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                return None;
            }
            read_trees(file)?.iter().any(|tree| path.starts_with(&tree.root)).then_some(session)
        })
    }

    /// The session is over and swept.
    pub fn remove(self) {
        // One that stays is swept again by the next launch, which finds nothing.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.may_have_run {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A record that has no name of its own yet; it is removed unless it got one.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn trees_at(path: &Path) -> Option<Vec<Tree>> {
    path.file_name()?.to_str()?.strip_suffix(".json")?;
    read_trees(open(path)?)
}

fn open(path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()
}

fn read_trees(file: File) -> Option<Vec<Tree>> {
    let mut json = Vec::new();
    file.take(LIMIT).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_record_that_is_being_written_is_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                let mut found = 0;
                while !is_over.load(Ordering::Relaxed) {
                    found += Record::abandoned(dir.path()).len();
                }
                found
            });
            let write = |number: usize| Record::write(dir.path(), &number.to_string(), &[], &Held::default());
            let written: Vec<_> = (0..2000).map(|number| write(number).map(Record::remove)).collect();
            is_over.store(true, Ordering::Relaxed);
            let failed: Vec<_> = written.into_iter().filter_map(Result::err).collect();
            assert_eq!((others.join().unwrap(), failed.len()), (0, 0), "{:?}", failed.first());
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_record_stays_only_when_something_may_have_run() {
        let dir = tempfile::tempdir().unwrap();
        drop(Record::write(dir.path(), "failed", &[], &Held::default()).unwrap());
        let mut killed = Record::write(dir.path(), "killed", &[], &Held::default()).unwrap();
        killed.keep();
        drop(killed);
        let abandoned = Record::abandoned(dir.path());
        assert_eq!(abandoned.iter().map(|record| record.session.as_str()).collect::<Vec<_>>(), ["killed"]);
        // One that cannot be written leaves nothing of it.
        fs::create_dir(dir.path().join("s.json")).unwrap();
        assert!(Record::write(dir.path(), "s", &[], &Held::default()).is_err());
        assert!(!dir.path().join("s.new").exists());
    }
}
