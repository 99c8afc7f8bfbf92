//! Where what was protected at launch is at the end: the jail may have renamed a directory above it.
//!
//! A protected path itself cannot be renamed inside, but the directories above it can, and the mount goes along. What is
//! then made under the old name is new, and what lies under the new name is the user's own.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use crate::host::protected::Hold;
use crate::policy::{ProtectedTree, TreeKind};

use super::identity::Identity;
use super::record;

/// Descriptors that one session may hold for this.
const LIMIT: usize = 4096;
/// Descriptors that are left for everything else, such as the log.
const SPARE: u64 = 256;

/// One object that was protected at launch.
#[derive(Debug)]
struct Object {
    tree: usize,
    below: PathBuf,
    /// On the host, at launch.
    path: PathBuf,
    descriptor: OwnedFd,
    /// The directory that it is in. It tells the way to what took the object's place, when that was replaced outside.
    parent: Arc<OwnedFd>,
}

/// The objects that were protected at launch and can be carried along.
#[derive(Debug, Default)]
pub struct Held {
    objects: Vec<Object>,
    /// Positions by device and inode of the object and of its directory, which stay their own as long as they are open.
    by_number: HashMap<(u64, u64), Vec<usize>>,
    by_path: HashMap<PathBuf, usize>,
    /// What tells all of them again when nothing is held any more, by tree.
    seen: Vec<Vec<record::Object>>,
}

/// An object that is elsewhere in its tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The position of its tree.
    pub tree: usize,
    /// Where it was, below the root.
    pub from: PathBuf,
    /// Where it is, below the root; `None` when it left the tree.
    pub to: Option<PathBuf>,
}

impl Held {
    /// Opens what lies in directories that can be renamed: not in the root itself, and not in a pinned git directory.
    pub fn new(trees: &[ProtectedTree]) -> Self {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let most = most.map_or(LIMIT, |most| {
            usize::try_from(most.saturating_sub(SPARE)).map_or(LIMIT, |most| most.min(LIMIT))
        });
        let mut objects: Vec<Object> = Vec::new();
        let mut parents: HashMap<PathBuf, Arc<OwnedFd>> = HashMap::new();
        let mut seen = vec![Vec::new(); trees.len()];
        for (position, tree) in trees.iter().enumerate().filter(|(_, tree)| tree.kind == TreeKind::Files) {
            let pinned: Vec<&Path> = tree
                .found
                .iter()
                .filter(|found| found.hold == Hold::Pinned)
                .map(|found| found.below.as_path())
                .collect();
            let Ok(root) =
                openat(CWD, &tree.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            else {
                continue;
            };
            for found in &tree.found {
                let below = found.below.as_path();
                let carried = below.components().count() > 1
                    && !pinned.iter().any(|pin| below != *pin && below.starts_with(pin));
                if !carried {
                    continue;
                }
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let Some(above) = below.parent() else { continue };
                let path = tree.root.join(below);
                let open = |below: &Path| openat2(&root, below, flags, Mode::empty(), resolve).ok();
                let parent = match parents.get(&tree.root.join(above)) {
                    Some(parent) => Some(Arc::clone(parent)),
                    None => open(above).map(Arc::new),
                };
                if let (Some(descriptor), Some(parent)) = (open(below), parent) {
                    if let (Ok(own), Ok(parent)) = (Identity::of(&descriptor), Identity::of(&parent)) {
                        seen[position].push(record::Object { below: below.to_path_buf(), own, parent });
                    }
                    if objects.len() + parents.len() + 1 >= most {
                        continue;
                    }
                    parents.insert(tree.root.join(above), Arc::clone(&parent));
                    objects.push(Object {
                        tree: position,
                        below: below.to_path_buf(),
                        path,
                        descriptor,
                        parent,
                    });
                }
            }
        }
        let number = |descriptor: &OwnedFd| fstat(descriptor).ok().map(|stat| (stat.st_dev, stat.st_ino));
        let mut by_number: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
        for (at, object) in objects.iter().enumerate() {
            for number in [number(&object.descriptor), number(&object.parent)].into_iter().flatten() {
                by_number.entry(number).or_default().push(at);
            }
        }
        let by_path = objects.iter().enumerate().map(|(at, object)| (object.path.clone(), at)).collect();
        Self { objects, by_number, by_path, seen }
    }

    /// What tells the objects of a tree again, those too that are not held open.
    pub fn objects_of(&self, tree: usize) -> Vec<record::Object> {
        self.seen.get(tree).cloned().unwrap_or_default()
    }

    /// Whether it is held open.
    pub fn holds(&self, path: &Path) -> bool {
        self.by_path.contains_key(path)
    }

    /// Whether what was at `path` at launch, or a directory above it, is elsewhere now.
    pub fn has_left(&self, path: &Path) -> bool {
        let has_left = |path: &Path| {
            self.by_path.get(path).is_some_and(|at| self.objects[*at].place().is_some_and(|now| now != path))
        };
        !self.objects.is_empty() && path.ancestors().any(has_left)
    }

    /// Where what is at `path` was at launch, or what it took the place of, when it came there by itself or with a
    /// directory.
    pub fn came_from(&self, path: &Path) -> Option<PathBuf> {
        if self.objects.is_empty() {
            return None;
        }
        path.ancestors().find_map(|above| {
            let places = [Some(above), above.parent()];
            let came = places
                .into_iter()
                .flatten()
                .filter_map(|place| place.symlink_metadata().ok())
                .filter_map(|metadata| self.by_number.get(&(metadata.dev(), metadata.ino())))
                .flatten()
                .map(|at| &self.objects[*at])
                .find(|object| object.path != above && object.place().is_some_and(|now| now == above))?;
            let rest = path.strip_prefix(above).ok()?;
            let whole = rest.as_os_str().is_empty();
            Some(if whole { came.path.clone() } else { came.path.join(rest) })
        })
    }

    /// What is elsewhere now. What was removed, which only the host can do, is not among it.
    pub fn moved(&self, roots: &[&Path]) -> Vec<Moved> {
        self.objects.iter().filter_map(|object| object.moved(roots.get(object.tree)?)).collect()
    }
}

impl Object {
    fn moved(&self, root: &Path) -> Option<Moved> {
        let now = self.place().filter(|now| *now != root.join(&self.below))?;
        let to = now.strip_prefix(root).ok().map(Path::to_path_buf);
        Some(Moved { tree: self.tree, from: self.below.clone(), to })
    }

    /// Where it is now; `None` when its directory was removed.
    ///
    /// Inside it can only go with its directory. Outside it can be renamed in its directory or replaced, as editors do when
    /// they save: its name is then what took its place.
    fn place(&self) -> Option<PathBuf> {
        let directory = where_is(&self.parent);
        match where_is(&self.descriptor) {
            Some(now) if now.parent() != directory.as_deref() => Some(now),
            _ => Some(directory?.join(self.path.file_name()?)),
        }
    }
}

/// Where something open is; `None` when it was removed.
fn where_is(descriptor: &OwnedFd) -> Option<PathBuf> {
    let now = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()?;
    (!now.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(now)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::guard::{Guard, Places};
    use crate::host::protected::{Trees, trees};
    use crate::host::tests::machine;

    #[test]
    fn what_moves_with_its_directory_stays_the_users_and_what_is_made_in_its_place_does_not() {
        let (dir, host) = machine();
        let root = host.user.home_real.join("p");
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        write("packages/a/.vscode/tasks.json", "mine");
        write("packages/a/.claude/settings.json", "mine");
        write("packages/b/.envrc", "mine");
        write("packages/c/.envrc", "mine");
        write("packages/d/.envrc", "mine");
        write(".envrc", "mine");
        let roots = BTreeMap::from([(root.as_path(), Vec::new())]);
        let wanted = Trees {
            roots,
            settings: &[],
            git: &[],
            project: &root,
            more: &[],
            profile: crate::config::settings::Profile::Workspace,
        };
        let (found, _) = trees(&host, &wanted, &mut Vec::new()).unwrap();
        let guard = Guard::start(Places::new(&dir.path().join("state")), "s", &found).unwrap();

        fs::create_dir(root.join("libs")).unwrap();
        fs::rename(root.join("packages/a"), root.join("libs/a")).unwrap();
        write("packages/a/.vscode/tasks.json", "planted");
        write("packages/a/.claude/settings.json", "planted");
        // As an editor on the host saves a file.
        fs::write(root.join("packages/b/new"), "saved").unwrap();
        fs::rename(root.join("packages/b/new"), root.join("packages/b/.envrc")).unwrap();
        // And as one does that keeps a backup.
        fs::rename(root.join("packages/c/.envrc"), root.join("packages/c/.envrc~")).unwrap();
        write("packages/c/.envrc", "saved");
        // And when the jail then renames the directory.
        fs::write(root.join("packages/d/new"), "saved").unwrap();
        fs::rename(root.join("packages/d/new"), root.join("packages/d/.envrc")).unwrap();
        fs::rename(root.join("packages/d"), root.join("libs/d")).unwrap();
        write("packages/d/.envrc", "planted");
        let held = &guard.held;
        let came = |to: &str| held.came_from(&root.join(to));
        assert!(held.has_left(&root.join("packages/d/.envrc")));
        assert_eq!(came("libs/d/.envrc"), Some(root.join("packages/d/.envrc")));
        assert!(!held.has_left(&root.join("packages/c/.envrc")));
        // By the directory that is held, and all that is in it.
        assert_eq!(came("libs/a/.vscode"), Some(root.join("packages/a/.vscode")));
        assert_eq!(came("libs/a/.claude/settings.json"), Some(root.join("packages/a/.claude/settings.json")));
        assert!(held.has_left(&root.join("packages/a/.vscode")));
        assert!(held.has_left(&root.join("packages/a/.claude/settings.json")));
        assert!(came("packages/a/.vscode").is_none() && !held.has_left(&root.join("packages/b/.envrc")));

        let lines = guard.finish(None).lines;

        assert_eq!(lines.len(), 1, "{lines:?}");
        for (path, text) in [
            ("libs/a/.vscode/tasks.json", Some("mine")),
            ("libs/a/.claude/settings.json", Some("mine")),
            ("packages/a/.vscode/tasks.json", None),
            ("packages/a/.claude/settings.json", None),
            ("packages/b/.envrc", Some("saved")),
            ("packages/c/.envrc", Some("saved")),
            ("packages/c/.envrc~", Some("mine")),
            ("libs/d/.envrc", Some("saved")),
            ("packages/d/.envrc", None),
            (".envrc", Some("mine")),
        ] {
            assert_eq!(fs::read_to_string(root.join(path)).ok().as_deref(), text, "{path}");
        }
    }
}
