//! After a supervisor was killed nothing of what it held open is left. What was renamed inside is found by what was
//! written down of it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::record::{Object, Tree};

/// Directory entries that are looked at.
const LIMIT: usize = 1_000_000;
/// How deep directories are followed.
const DEPTH_LIMIT: usize = 128;

/// Carries what was protected to where it is now. What cannot be found is no longer known by its old name: what is there
/// was made anew, by whomever.
pub fn follow(tree: &mut Tree) {
    let gone: Vec<Object> =
        tree.objects.iter().filter(|object| !is_in_place(&tree.root, object)).cloned().collect();
    if gone.is_empty() {
        return;
    }
    let mut search = Search { wanted: HashMap::new(), places: HashMap::new(), left: LIMIT };
    for identity in gone.iter().flat_map(|object| [object.own, object.parent]) {
        search.wanted.entry(identity.inode()).or_default().push(identity);
    }
    search.walk(&tree.root, Path::new(""), 0);
    let moves: Vec<(PathBuf, Option<PathBuf>)> = gone
        .into_iter()
        .map(|object| {
            let directory = search.places.get(&object.parent);
            let by_directory = || Some(directory?.join(object.below.file_name()?));
            let to = search.places.get(&object.own).cloned().or_else(by_directory);
            (object.below, to)
        })
        .collect();
    tree.carry(&moves);
}

/// Whether it, or what took its name in the same directory, is where it was.
fn is_in_place(root: &Path, object: &Object) -> bool {
    let path = root.join(&object.below);
    path.parent().is_some_and(|parent| Identity::at(parent) == Ok(object.parent))
        || Identity::at(&path) == Ok(object.own)
}

struct Search {
    /// By inode, which a directory tells of its entries without being asked for each.
    wanted: HashMap<u64, Vec<Identity>>,
    places: HashMap<Identity, PathBuf>,
    left: usize,
}

impl Search {
    fn walk(&mut self, root: &Path, below: &Path, depth: usize) {
        for entry in fs::read_dir(root.join(below)).into_iter().flatten().flatten() {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let place = below.join(entry.file_name());
            if let Some(wanted) = self.wanted.get(&entry.ino())
                && let Ok(identity) = Identity::at(&root.join(&place))
                && wanted.contains(&identity)
            {
                self.places.insert(identity, place.clone());
            }
            if depth < DEPTH_LIMIT && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(root, &place, depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::TreeKind;

    #[test]
    fn what_moved_with_its_directory_is_known_there_and_what_stands_in_its_place_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_path_buf();
        let names = ["a/.envrc", "b/c/.vscode", "d/.envrc", "e/.envrc", "f/.envrc"];
        for name in names {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "mine").unwrap();
        }
        let object = |name: &str| Object {
            below: name.into(),
            own: Identity::at(&root.join(name)).unwrap(),
            parent: Identity::at(root.join(name).parent().unwrap()).unwrap(),
        };
        let mut tree = Tree {
            root: root.clone(),
            protected: names.map(PathBuf::from).to_vec(),
            read_only: names.map(PathBuf::from).to_vec(),
            objects: names.map(object).to_vec(),
            kind: TreeKind::Files,
            since: None,
            more: Vec::new(),
            parts: Vec::new(),
            home: "/nonexistent".into(),
            own: Vec::new(),
        };
        let to = |name: &str| root.join(name);
        // Renamed, and something new in its place.
        fs::rename(to("a"), to("x")).unwrap();
        fs::create_dir(to("a")).unwrap();
        fs::write(to("a/.envrc"), "planted").unwrap();
        // Two directories above.
        fs::rename(to("b"), to("x/b")).unwrap();
        // Saved by an editor outside.
        fs::write(to("d/new"), "saved").unwrap();
        fs::rename(to("d/new"), to("d/.envrc")).unwrap();
        // Saved, and then renamed with its directory.
        fs::write(to("e/new"), "saved").unwrap();
        fs::rename(to("e/new"), to("e/.envrc")).unwrap();
        fs::rename(to("e"), to("y")).unwrap();
        // Removed.
        fs::remove_dir_all(to("f")).unwrap();

        follow(&mut tree);

        let mut known = tree.protected.clone();
        known.sort();
        assert_eq!(known, ["d/.envrc", "x/.envrc", "x/b/c/.vscode", "y/.envrc"].map(PathBuf::from));
        assert_eq!(tree.read_only.len(), 4);
    }
}
