//! Where what was protected at launch is at the end: the jail may have renamed a directory above it.
//!
//! A protected path itself cannot be renamed inside, but the directories above it can, and the mount goes along. What is
//! then made under the old name is new, and what lies under the new name is the user's own.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::host::protected::Hold;
use crate::policy::{ProtectedTree, TreeKind};

/// Descriptors that one session may hold for this.
const LIMIT: usize = 4096;

/// One object that was protected at launch.
#[derive(Debug)]
struct Object {
    tree: usize,
    below: PathBuf,
    descriptor: OwnedFd,
}

/// The objects that were protected at launch and can be carried along.
#[derive(Debug, Default)]
pub struct Held {
    objects: Vec<Object>,
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
        let mut objects = Vec::new();
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
                if !carried || objects.len() >= LIMIT {
                    continue;
                }
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                if let Ok(descriptor) = openat2(&root, below, flags, Mode::empty(), resolve) {
                    objects.push(Object { tree: position, below: below.to_path_buf(), descriptor });
                }
            }
        }
        Self { objects }
    }

    /// What is elsewhere now. What was removed, which only the host can do, is not among it.
    pub fn moved(&self, roots: &[&Path]) -> Vec<Moved> {
        self.objects.iter().filter_map(|object| object.moved(roots.get(object.tree)?)).collect()
    }
}

impl Object {
    fn moved(&self, root: &Path) -> Option<Moved> {
        let now = fs::read_link(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())).ok()?;
        if now == root.join(&self.below) || now.as_os_str().as_bytes().ends_with(b" (deleted)") {
            return None;
        }
        let to = now.strip_prefix(root).ok().map(Path::to_path_buf);
        Some(Moved { tree: self.tree, from: self.below.clone(), to })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        write(".envrc", "mine");
        let roots = BTreeSet::from([root.as_path()]);
        let wanted =
            Trees { roots, git: &[], more: &[], profile: crate::config::settings::Profile::Workspace };
        let found = trees(&host, &wanted, &mut Vec::new()).unwrap();
        let guard = Guard::start(Places::new(&dir.path().join("state")), "s", &found).unwrap();

        fs::create_dir(root.join("libs")).unwrap();
        fs::rename(root.join("packages/a"), root.join("libs/a")).unwrap();
        write("packages/a/.vscode/tasks.json", "planted");
        write("packages/a/.claude/settings.json", "planted");
        // As an editor on the host saves a file.
        fs::write(root.join("packages/b/new"), "saved").unwrap();
        fs::rename(root.join("packages/b/new"), root.join("packages/b/.envrc")).unwrap();
        let lines = guard.finish(None);

        assert_eq!(lines.len(), 1, "{lines:?}");
        for (path, text) in [
            ("libs/a/.vscode/tasks.json", Some("mine")),
            ("libs/a/.claude/settings.json", Some("mine")),
            ("packages/a/.vscode/tasks.json", None),
            ("packages/a/.claude/settings.json", None),
            ("packages/b/.envrc", Some("saved")),
            (".envrc", Some("mine")),
        ] {
            assert_eq!(fs::read_to_string(root.join(path)).ok().as_deref(), text, "{path}");
        }
    }
}
