//! What has been found so far, and how a single path is protected.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::table::Lookup;
use super::{Channel, Found, Hold, Protected, Scope};
use crate::host::handover::{Handed, What};
use crate::host::links;
use crate::host::secrets::Secret;

/// Directory entries that a scan looks at.
pub(super) const SCAN_LIMIT: usize = 1_000_000;
/// Bytes of settings that a scan reads.
const READ_LIMIT: usize = 64 << 20;
/// Bytes of one file of settings. An agent's own may be long.
const SETTINGS_LIMIT: u64 = 16 << 20;

pub(super) struct Finder<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) names: Lookup<'a>,
    /// Git directories with the work trees that they were read for.
    pub(super) git_seen: HashSet<(PathBuf, PathBuf)>,
    pub(super) git_directories: HashSet<PathBuf>,
    /// Files of settings, likewise.
    pub(super) settings_seen: HashSet<(PathBuf, PathBuf)>,
    pub(super) unsearched: Option<String>,
    pub(super) secrets: BTreeMap<PathBuf, &'static str>,
    /// Files whose contents were looked at for secrets.
    pub(super) looked_into: usize,
    /// Files of the hand-over's kinds, before a session.
    pub(super) handover_known: Vec<PathBuf>,
    /// What a session hands over.
    pub(super) handed: Vec<Handed>,
    pub(super) handed_counts: HashMap<What, usize>,
    /// Files whose modes it may not keep.
    pub(super) modes: Vec<PathBuf>,
    pub(super) channels: Vec<Channel>,
    held: HashMap<PathBuf, (Hold, String)>,
    closed: Vec<PathBuf>,
    entries: usize,
    read: usize,
}

impl<'a> Finder<'a> {
    pub(super) fn new(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            names: Lookup::new(scope.more),
            git_seen: HashSet::new(),
            git_directories: HashSet::new(),
            settings_seen: HashSet::new(),
            unsearched: None,
            secrets: BTreeMap::new(),
            looked_into: 0,
            handover_known: Vec::new(),
            handed: Vec::new(),
            handed_counts: HashMap::new(),
            modes: Vec::new(),
            channels: Vec::new(),
            held: HashMap::new(),
            closed: Vec::new(),
            entries: 0,
            read: 0,
        }
    }

    /// The result: parents before children, and nothing below what is read-only as a whole anyway.
    pub(super) fn finish(self) -> Found {
        let mut all: Vec<Protected> =
            self.held.into_iter().map(|(below, (hold, reason))| Protected { below, hold, reason }).collect();
        all.sort();
        let mut paths: Vec<Protected> = Vec::new();
        let mut whole: Option<PathBuf> = None;
        for path in all {
            if whole.as_ref().is_some_and(|whole| path.below.starts_with(whole)) {
                continue;
            }
            if path.hold == Hold::ReadOnly {
                whole = Some(path.below.clone());
            }
            paths.push(path);
        }
        let mut closed = self.closed;
        closed.sort();
        closed.dedup();
        let secrets = self.secrets.into_iter().map(|(below, reason)| Secret { below, reason }).collect();
        Found {
            paths,
            closed,
            secrets,
            channels: self.channels,
            handover_known: self.handover_known,
            handed: self.handed,
            modes: self.modes,
            unsearched: self.unsearched,
        }
    }

    /// What is read-only so far, and why.
    pub(super) fn read_only(&self) -> Vec<(PathBuf, String)> {
        let read_only = self.held.iter().filter(|(_, (hold, _))| *hold == Hold::ReadOnly);
        read_only.map(|(below, (_, reason))| (below.clone(), reason.clone())).collect()
    }

    /// Counts one directory entry. Returns false when there were too many.
    pub(super) fn count(&mut self) -> bool {
        self.entries += 1;
        if self.exhausted() {
            self.incomplete(|| format!("it has more than {SCAN_LIMIT} entries"));
        }
        !self.exhausted()
    }

    /// Whether there were too many entries.
    pub(super) fn exhausted(&self) -> bool {
        self.entries > SCAN_LIMIT
    }

    /// Whether what `below` says or leads to counts.
    pub(super) fn trusts(&self, below: &Path) -> bool {
        self.scope.known.is_none_or(|known| known.covers(below))
    }

    /// Notes, once, why the tree was not searched to its end.
    pub(super) fn incomplete(&mut self, why: impl FnOnce() -> String) {
        if self.unsearched.is_none() {
            self.unsearched = Some(why());
        }
    }

    /// The text of a file of settings, which may lie outside the tree. What is no UTF-8 in it is no part of a command's
    /// name, but the rest counts.
    pub(super) fn text(&mut self, file: &Path) -> Option<String> {
        let real = file.canonicalize().ok()?;
        if self.below(&real).is_some_and(|file| !self.trusts(&file)) {
            return None;
        }
        if self.read > READ_LIMIT {
            self.incomplete(|| "it has too many settings files".to_owned());
            return None;
        }
        let Some(bytes) = crate::host::read_bytes(&real, SETTINGS_LIMIT) else {
            // What the user may not read, nothing outside obeys either.
            if real.is_file() && rustix::fs::access(&real, Access::READ_OK).is_ok() {
                self.incomplete(|| {
                    let shown = crate::sanitize::escape(real.as_os_str());
                    format!(
                        "the settings in {shown} cannot be read, or are longer than {SETTINGS_LIMIT} bytes"
                    )
                });
            }
            return None;
        };
        self.read += bytes.len() + 1024;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A path of the tree on the machine.
    pub(super) fn at(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.scope.root.to_path_buf() } else { self.scope.root.join(below) }
    }

    /// The path below the root, if it is there.
    pub(super) fn below(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(self.scope.root).ok().map(Path::to_path_buf)
    }

    /// Holds one path as it is. The root of the tree is a mount already.
    pub(super) fn hold(&mut self, below: &Path, hold: Hold, reason: &str) {
        if below.as_os_str().is_empty() {
            return;
        }
        match self.held.get_mut(below) {
            Some(held) if held.0 == hold || hold == Hold::Pinned => {}
            Some(held) => *held = (hold, reason.to_owned()),
            None => {
                self.held.insert(below.to_path_buf(), (hold, reason.to_owned()));
            }
        }
    }

    /// Holds a directory that is not searched to its end.
    pub(super) fn hold_whole(&mut self, below: &Path, reason: &str) {
        if self.scope.known.is_none() {
            self.hold(below, Hold::ReadOnly, reason);
        }
    }

    /// Holds a path that something names: nothing on the way to it may be renamed, for the name would stay.
    pub(super) fn hold_named(&mut self, below: &Path, hold: Hold, reason: &str) {
        for parent in below.ancestors().skip(1) {
            self.hold(parent, Hold::Pinned, "something that is run lies in it");
        }
        self.hold(below, hold, reason);
    }

    /// Makes `name`, a path below the directory `base` of the tree, read-only, if it exists. A symlink on the way or at
    /// the end is held as it is, and so is what it leads to inside the tree; directories on the way are pinned.
    /// Returns whether there is something.
    pub(super) fn place(&mut self, base: &Path, name: &Path, reason: &str) -> bool {
        let place = base.join(name);
        let mut current = base.to_path_buf();
        let mut way = Vec::new();
        for part in name.iter() {
            current.push(part);
            match self.at(&current).symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => {
                    if self.trusts(&current) {
                        self.named(&self.at(&place), reason);
                    }
                    way.push(current.clone());
                    break;
                }
                Ok(_) => way.push(current.clone()),
                Err(error) => {
                    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                        self.closed(&current);
                    }
                    return false;
                }
            }
        }
        let Some(last) = way.pop() else { return false };
        for directory in way {
            self.hold(&directory, Hold::Pinned, "protected paths lie in it");
        }
        self.hold(&last, Hold::ReadOnly, reason);
        true
    }

    /// Makes what an absolute path leads to read-only where it lies in the tree: every symlink on the way, and the end.
    /// Returns the end when it is in the tree.
    pub(super) fn named(&mut self, path: &Path, reason: &str) -> Option<PathBuf> {
        self.named_as(path, Hold::ReadOnly, reason)
    }

    /// The same with another hold for the end; symlinks are always read-only.
    pub(super) fn named_as(&mut self, path: &Path, hold: Hold, reason: &str) -> Option<PathBuf> {
        let route = links::follow(path);
        if route.is_err() {
            // A link that leads nowhere is held all the same: where it lies is known when its parent is.
            let parent = path.parent()?.canonicalize().ok()?;
            let link = self.below(&parent.join(path.file_name()?))?;
            if self.at(&link).is_symlink() {
                self.hold_named(&link, Hold::ReadOnly, reason);
            }
        }
        let route = route.ok()?;
        for link in &route.links {
            if let Some(link) = self.below(&link.path) {
                self.hold_named(&link, Hold::ReadOnly, reason);
            }
        }
        let end = self.below(&route.end)?;
        self.hold_named(&end, hold, reason);
        Some(end)
    }

    /// Something cannot be looked at. What the user owns can be opened again from inside, by `chmod`: it is held as a
    /// whole until the user does that outside. Returns false for what is somebody else's, which nobody inside can open.
    pub(super) fn closed(&mut self, below: &Path) -> bool {
        let nearest = below.ancestors().find_map(|path| Some((path, self.at(path).symlink_metadata().ok()?)));
        let Some((nearest, metadata)) = nearest else { return false };
        let open = metadata.is_dir()
            && rustix::fs::access(self.at(nearest), Access::READ_OK | Access::EXEC_OK).is_ok();
        if open || metadata.uid() != self.scope.uid {
            return false;
        }
        self.hold_whole(nearest, "it cannot be searched for protected paths");
        self.closed.push(nearest.to_path_buf());
        true
    }
}
