//! Mount points that are made in a private home for one session, and go with it: what a later session finds there is the
//! agent's own, and no empty file of ours.
//!
//! Sessions that share a home share its mount points, and what is removed is unmounted in all of them. So each holds a lock,
//! and what was made is removed by the last, or, after a SIGKILL, by the next one. The list and the lock are where no jail
//! writes; in the home no symlink is followed, and nothing is removed but an empty file or directory of the user's.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, openat, statat, unlinkat};
use sha2::{Digest, Sha256};

use crate::plan::operation::Missing;

use super::store::Store;

/// Where the lists are, below ai-jail's data directory.
const PLACE: &str = "points";
/// A longer list is no list of ours (bytes).
const MAX_LIST: u64 = 1 << 20;

/// The mount points of one session. What is not needed by another one is removed when it is dropped.
#[derive(Default)]
pub struct Points(Vec<Tree>);

/// A directory of ours in which mount points are made.
struct Tree {
    root: OwnedFd,
    /// Names of what was made, below the root, each ended by a NUL; locked as long as a session needs what it names.
    list: File,
}

impl Points {
    /// Notes what the plan's mount points in directories of ours will leave: `points` has the directory, below the store, the mount
    /// point below that, and what it is. To be called before they are made. What cannot be noted stays.
    pub fn note<'p>(store: &Store, points: impl Iterator<Item = (&'p Path, &'p Path, Missing)>) -> Self {
        let mut trees: Vec<(&Path, Tree)> = Vec::new();
        for (root, below, missing) in points {
            if !trees.iter().any(|(known, _)| *known == root) {
                let Some(tree) = Tree::open(store, root) else { continue };
                trees.push((root, tree));
            }
            if let Some((_, tree)) = trees.iter_mut().find(|(known, _)| *known == root) {
                tree.add(below, missing);
            }
        }
        Self(trees.into_iter().map(|(_, tree)| tree).collect())
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Tree::clear);
    }
}

impl Tree {
    fn open(store: &Store, root: &Path) -> Option<Self> {
        let digest = Sha256::digest(root.as_os_str().as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let list = File::from(store.list(Path::new(PLACE), &name).ok()?);
        let mut tree = Self { root: store.below(root).ok()?, list };
        // What a session left that was killed.
        tree.clear();
        flock(&tree.list, FlockOperation::LockShared).ok()?;
        Some(tree)
    }

    /// Notes what is not there on the way to a mount point, from the outside in.
    fn add(&mut self, below: &Path, missing: Missing) {
        let mut way: Vec<&Path> = below.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        way.reverse();
        for path in way {
            let want = match missing {
                Missing::MakeFile if path == below => FileType::RegularFile,
                _ => FileType::Directory,
            };
            // What is of another kind is moved aside.
            if kind(&self.root, path).is_none_or(|(kind, _)| kind != want) {
                let entry = [path.as_os_str().as_bytes(), b"\0"].concat();
                // In one write: another session may add at this moment.
                let _ = self.list.write_all(&entry);
            }
        }
    }

    /// Removes what the list names and is empty, unless another session needs it: the last one does it.
    fn clear(&mut self) {
        if flock(&self.list, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let mut names = Vec::new();
        let read = self.list.rewind().and_then(|()| (&self.list).take(MAX_LIST).read_to_end(&mut names));
        if read.is_ok() {
            names.split(|byte| *byte == 0).rev().filter(|name| !name.is_empty()).for_each(|name| {
                remove(&self.root, Path::new(std::ffi::OsStr::from_bytes(name)));
            });
        }
        let _ = self.list.set_len(0);
    }
}

/// The kind of what is called so below `root`, and whether it is an empty file that has no other name.
fn kind(root: &OwnedFd, path: &Path) -> Option<(FileType, bool)> {
    let (parent, name) = parent(root, path)?;
    let stat = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    Some((kind, kind == FileType::RegularFile && stat.st_size == 0 && stat.st_nlink == 1))
}

fn remove(root: &OwnedFd, path: &Path) {
    let Some((parent, name)) = parent(root, path) else { return };
    // Of a directory that is not empty the kernel removes nothing.
    let _ = match kind(root, path) {
        Some((FileType::Directory, _)) => unlinkat(&parent, &name, AtFlags::REMOVEDIR),
        Some((_, true)) => unlinkat(&parent, &name, AtFlags::empty()),
        _ => Ok(()),
    };
}

fn parent(root: &OwnedFd, path: &Path) -> Option<(OwnedFd, PathBuf)> {
    let name = path.file_name()?;
    let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => super::store::beneath(root, parent).ok()?,
        None => openat(root, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?,
    };
    Some((parent, name.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::launch::store::prepare;
    use crate::plan::StoreOp;

    #[test]
    fn what_was_made_goes_with_the_last_session_and_what_is_used_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ai-jail");
        let store = prepare(&root, &[StoreOp::Directory("h".into())]).unwrap().unwrap();
        let home = root.join("h");
        let outside = dir.path().join("outside");
        fs::create_dir_all(outside.join("d")).unwrap();
        fs::write(outside.join("f"), "").unwrap();
        fs::write(home.join("own"), "").unwrap();
        let files = ["a/b/file", "used/file", "own", "link/f", "linked", "hard"];
        let note = || {
            let files = files.iter().map(|file| (Path::new("h"), Path::new(*file), Missing::MakeFile));
            let directory = (Path::new("h"), Path::new("src/p"), Missing::MakeDirectory);
            Points::note(&store, files.chain([directory]))
        };
        let made = || {
            for directory in ["a/b", "used", "src/p"] {
                fs::create_dir_all(home.join(directory)).unwrap();
            }
            for file in ["a/b/file", "hard"] {
                fs::write(home.join(file), "").unwrap();
            }
            fs::write(home.join("used/file"), "mine").unwrap();
            let _ = symlink(&outside, home.join("link"));
            let _ = symlink(outside.join("f"), home.join("linked"));
            let _ = fs::hard_link(home.join("hard"), home.join("other"));
        };
        let there = |path: &str| fs::symlink_metadata(home.join(path)).is_ok();
        let first = note();
        made();
        let second = note();
        drop(first);
        assert!(there("a/b/file") && there("src/p"), "another session needs it");
        drop(second);
        for path in ["a", "src"] {
            assert!(!there(path), "{path}");
        }
        for path in ["used/file", "own", "link", "linked", "hard"] {
            assert!(there(path), "{path}");
        }
        assert!(outside.join("f").exists() && outside.join("d").exists());
        // One that was killed: its lock went with it.
        let mut killed = note();
        made();
        killed.0.drain(..).for_each(drop);
        assert!(there("a/b/file"));
        drop(note());
        assert!(!there("a") && !there("src") && there("used/file"));
    }
}
