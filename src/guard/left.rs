//! What a session could not move away stays in its place, and is protected from then on as if it were the user's. So it is
//! said at every launch there, until it is no longer what it was.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::sanitize::escape;

use super::Places;
use super::quarantine::Left;

/// So many are remembered; the oldest go first.
const MAX: usize = 1000;
/// No list is longer (bytes).
const LIMIT: u64 = 16 << 20;
/// So many are named at a launch.
const SHOWN: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(with = "crate::plan::raw")]
    path: PathBuf,
    why: String,
    /// Device, inode and the time of its last change: what tells whether it is still the same.
    was: (u64, u64, i64, i64),
}

/// Remembers what was left.
///
/// # Errors
/// When the list cannot be written.
pub fn remember(places: &Places, left: &[Left]) -> std::io::Result<()> {
    let entries = left.iter().filter_map(|left| {
        let path = left.place.clone()?;
        Some(Entry { was: state(&path)?, path, why: left.why.clone() })
    });
    // What a sweep comes to first lies where it is run soonest.
    let new: Vec<Entry> = entries.take(MAX).collect();
    if new.is_empty() {
        return Ok(());
    }
    change(places, |entries| {
        let again: HashSet<&Path> = new.iter().map(|new| new.path.as_path()).collect();
        entries.retain(|old| !again.contains(old.path.as_path()));
        entries.extend(new.iter().cloned());
        entries.drain(..entries.len().saturating_sub(MAX));
    })
}

/// Lines about what was left in one of `roots` and is still there. What has changed is forgotten.
pub fn remind(places: &Places, roots: &[&Path]) -> Vec<String> {
    let list = places.left();
    let Ok(entries) = File::open(&list).and_then(|mut file| read(&mut file)) else { return Vec::new() };
    let is_there = |entry: &Entry| state(&entry.path) == Some(entry.was);
    let in_roots = |entry: &&Entry| roots.iter().any(|root| entry.path.starts_with(root));
    if entries.iter().filter(in_roots).any(|entry| !is_there(entry)) {
        // One that is not forgotten now is at the next launch.
        let _ = change(places, |entries| entries.retain(|entry| !in_roots(&entry) || is_there(entry)));
    }
    let there: Vec<&Entry> = entries.iter().filter(in_roots).filter(|entry| is_there(entry)).collect();
    let mut lines: Vec<String> = there
        .iter()
        .take(SHOWN)
        .map(|entry| {
            format!(
                "{} appeared in a protected place in an earlier session and could not be moved away ({}): look at it, and move or change it outside",
                escape(&entry.path),
                escape(&*entry.why)
            )
        })
        .collect();
    if there.len() > SHOWN {
        lines.push(format!("so did {} more things", there.len() - SHOWN));
    }
    lines
}

fn change(places: &Places, change: impl FnOnce(&mut Vec<Entry>)) -> std::io::Result<()> {
    let list = places.left();
    if let Some(directory) = list.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(list)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut entries = read(&mut file)?;
    change(&mut entries);
    let json = serde_json::to_vec(&entries)?;
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(&json)
}

/// A list that cannot be read says nothing: it is written anew.
fn read(file: &mut File) -> std::io::Result<Vec<Entry>> {
    let mut json = Vec::new();
    file.take(LIMIT).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json).unwrap_or_default())
}

fn state(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_said_until_it_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(&dir.path().join("state"));
        let (root, other) = (dir.path().join("p"), dir.path().join("q"));
        for root in [&root, &other] {
            fs::create_dir(root).unwrap();
            fs::write(root.join(".envrc"), "x").unwrap();
        }
        assert_eq!(remind(&places, &[&root]), Vec::<String>::new());
        let left = |root: &Path| Left {
            path: "shown".into(),
            why: "it is too large".into(),
            place: Some(root.join(".envrc")),
        };
        remember(&places, &[left(&root), left(&other)]).unwrap();
        remember(&places, &[left(&root)]).unwrap();
        for _ in 0..2 {
            let lines = remind(&places, &[&root]);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains(".envrc") && lines[0].contains("too large"), "{lines:?}");
        }
        fs::remove_file(root.join(".envrc")).unwrap();
        fs::write(root.join(".envrc"), "mine").unwrap();
        assert_eq!(remind(&places, &[&root]), Vec::<String>::new());
        assert_eq!(remind(&places, &[&other]).len(), 1);
    }
}
