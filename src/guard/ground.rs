//! The writable trees as they were at launch, and which of their names matter while the jail runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::host::protected::{TABLE, Where, folded};
use crate::plan::operation::{self, Access};
use crate::policy::files::Source;
use crate::policy::{Policy, TreeKind};

use super::held::Held;
use super::record::Tree;
use super::veils::Veils;

/// Below a git directory only these hold names that matter.
const GIT_ROOMS: [&str; 3] = ["info", "modules", "worktrees"];
/// What is never entered below `modules`: the rooms of git directories that hold nothing which is run.
const GIT_STORES: [&str; 6] = ["objects", "refs", "logs", "hooks", "branches", "lfs"];
/// What in a git directory runs programs or leads to another one.
const GIT_PARTS: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "gitdir"];

/// A path in one of the trees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// Which tree.
    pub tree: usize,
    /// Below its root.
    pub below: PathBuf,
}

/// A mount of the jail's that holds or covers a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The root of the mount that the path is seen through, in the jail.
    pub root: PathBuf,
    /// The path below it.
    pub below: PathBuf,
    /// How it is held.
    pub how: operation::Cover,
}

/// The trees, what is protected in them, and how the jail holds it.
#[derive(Debug)]
pub struct Ground {
    trees: Vec<Tree>,
    /// From here on they are trees in which nothing is protected: only sockets and FIFOs matter there.
    plain_from: usize,
    /// Host paths that were protected at launch.
    known: BTreeSet<PathBuf>,
    /// Where they are now.
    held: Arc<Held>,
    /// Those that are mounts in the jail.
    covers: BTreeMap<PathBuf, Vec<Cover>>,
    /// Directories of ours, which are not entered.
    own: Vec<PathBuf>,
    /// What is denied, masked and hidden.
    veils: Veils,
    /// So many of the trees, the first ones, are walked by the guard's own rules; in the others only what is denied,
    /// masked or hidden matters.
    walked: usize,
    rows: HashMap<OsString, Vec<Part>>,
}

/// A name of the table by one of its components.
#[derive(Debug, Clone)]
struct Part {
    name: PathBuf,
    /// How many components stand before.
    before: usize,
    counts: Counts,
}

/// In which directories of which trees a name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// By its row of the table, in every tree.
    Table(Where),
    /// Anywhere, in trees of which it is one of the additional names.
    More,
    /// At the root, in trees of which it is a part.
    Part,
}

impl Ground {
    /// The trees of a session that the jail can write. `own` are directories of ours that may lie in them.
    pub fn new(trees: &[Tree], held: Arc<Held>, policy: &Policy, own: Vec<PathBuf>) -> Self {
        let writable: Vec<(&Path, &Path)> = policy
            .files
            .iter()
            .filter(|rule| rule.access == Access::Writable)
            .filter_map(|rule| match &rule.source {
                Source::Host(source) => Some((source.as_path(), rule.dest.as_path())),
                _ => None,
            })
            .collect();
        let trees: Vec<Tree> = trees
            .iter()
            .filter(|tree| writable.iter().any(|(source, _)| *source == tree.root))
            .cloned()
            .collect();
        let mut covers: BTreeMap<PathBuf, Vec<Cover>> = BTreeMap::new();
        for held in &policy.protected {
            for (source, _) in writable.iter().filter(|(_, dest)| *dest == held.root) {
                covers.entry(source.join(&held.below)).or_default().push(Cover {
                    root: held.root.clone(),
                    below: held.below.clone(),
                    how: operation::Cover::Pin(held.access),
                });
            }
        }
        let mut ground = Self::with(trees, held, covers, own, Veils::new(policy));
        ground.add_plain(&policy.shown_trees);
        ground.add_veiled();
        ground
    }

    /// Adds trees in which nothing is protected, but for those that are there.
    fn add_plain(&mut self, roots: &[PathBuf]) {
        for root in roots {
            if !self.trees.iter().any(|tree| tree.root == *root) {
                self.trees.push(Tree::unguarded(root.clone()));
            }
        }
        self.walked = self.trees.len();
    }

    /// Adds trees in which only what is denied, masked or hidden matters.
    fn add_veiled(&mut self) {
        for root in self.veils.roots() {
            if !self.trees.iter().any(|tree| tree.root == root) {
                self.trees.push(Tree::unguarded(root));
            }
        }
    }

    pub(super) fn with(
        trees: Vec<Tree>,
        held: Arc<Held>,
        covers: BTreeMap<PathBuf, Vec<Cover>>,
        own: Vec<PathBuf>,
        veils: Veils,
    ) -> Self {
        let known: BTreeSet<PathBuf> =
            trees.iter().flat_map(|tree| tree.protected.iter().map(|below| tree.root.join(below))).collect();
        let mut rows: HashMap<OsString, Vec<Part>> = HashMap::new();
        let table = TABLE
            .path
            .iter()
            .flat_map(|row| row.names.iter().map(|name| (name.as_str(), Counts::Table(row.r#where))));
        let more = trees.iter().flat_map(|tree| tree.more.iter().map(|name| (name.as_str(), Counts::More)));
        let parts = trees.iter().flat_map(|tree| tree.parts.iter().map(|name| (name.as_str(), Counts::Part)));
        for (name, counts) in table.chain(more).chain(parts) {
            for (before, part) in Path::new(name).iter().enumerate() {
                rows.entry(part.to_owned()).or_default().push(Part { name: name.into(), before, counts });
            }
        }
        let (plain_from, walked) = (trees.len(), trees.len());
        Self { trees, plain_from, walked, known, held, covers, own, veils, rows }
    }

    /// The trees.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// What is denied, masked and hidden.
    pub fn veils(&self) -> &Veils {
        &self.veils
    }

    /// Whether the guard walks the tree by its own rules; else only what is denied, masked or hidden matters there.
    pub fn is_guarded(&self, tree: usize) -> bool {
        tree < self.walked
    }

    /// Whether `path` is a directory that is not entered from the one that holds it: our own, or the root of a tree.
    pub fn is_apart(&self, path: &Path) -> bool {
        self.own.iter().any(|own| own == path)
            || self.trees.iter().any(|tree| tree.root == path || tree.own.iter().any(|own| own == path))
    }

    /// A path on the host.
    pub fn path(&self, spot: &Spot) -> PathBuf {
        let root = &self.trees[spot.tree].root;
        if spot.below.as_os_str().is_empty() { root.clone() } else { root.join(&spot.below) }
    }

    /// How the jail holds a host path.
    pub fn covers(&self, path: &Path) -> &[Cover] {
        self.covers.get(path).map_or(&[], Vec::as_slice)
    }

    /// Every host path that the jail holds.
    pub fn covered(&self) -> impl Iterator<Item = &PathBuf> {
        self.covers.keys()
    }

    /// The host paths that the jail holds at `path` and below it.
    pub fn covered_below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let from = (Bound::Included(path), Bound::Unbounded);
        self.covers
            .range::<Path, _>(from)
            .map(|(held, _)| held)
            .take_while(move |held| held.starts_with(path))
    }

    /// The git directories of the trees that must be watched before anything runs, and the roots.
    pub fn first(&self) -> Vec<Spot> {
        let mut first: Vec<Spot> =
            (0..self.trees.len()).map(|tree| Spot { tree, below: PathBuf::new() }).collect();
        for (tree, found) in self.trees.iter().enumerate() {
            for below in &found.protected {
                let spot = Spot { tree, below: below.clone() };
                if self.path(&spot).join("HEAD").symlink_metadata().is_ok() && self.is_git(&spot) {
                    first.push(spot);
                }
            }
        }
        first
    }

    /// Whether `name` in the directory `at` is entered. Whoever asks knows that it is a directory.
    pub fn enters(&self, at: &Spot, name: &OsStr) -> bool {
        let path = self.path(at).join(name);
        if self.is_apart(&path) {
            return false;
        }
        // What is read-only as a whole needs no watch inside.
        if self.covers(&path).iter().any(|cover| cover.how != operation::Cover::Pin(Access::Writable)) {
            return false;
        }
        match self.in_git(at) {
            None => !TABLE.dependencies.names.iter().any(|known| OsStr::new(known) == name),
            Some(rooms) => {
                let rooms: Vec<&OsStr> = rooms.iter().collect();
                match rooms.as_slice() {
                    [] => GIT_ROOMS.iter().any(|room| name == *room),
                    [first] if *first == "worktrees" => true,
                    [first, _] if *first == "worktrees" => name == "modules",
                    [first, ..] if *first == "info" => false,
                    _ => !GIT_STORES.iter().any(|store| name == *store),
                }
            }
        }
    }

    /// The protected paths that `name`, in the directory `at`, makes or completes; they need not be there.
    pub fn touched(&self, at: &Spot, name: &OsStr) -> Vec<PathBuf> {
        if at.tree >= self.plain_from {
            return Vec::new();
        }
        let mut touched = self.touched_as(at, name);
        // As a directory without case compares it.
        for found in folded(name).map(|name| self.touched_as(at, &name)).unwrap_or_default() {
            let there =
                || self.path(&Spot { tree: at.tree, below: found.clone() }).symlink_metadata().is_ok();
            if !touched.contains(&found) && there() {
                touched.push(found);
            }
        }
        touched
    }

    fn touched_as(&self, at: &Spot, name: &OsStr) -> Vec<PathBuf> {
        if self.in_git(at).is_some() {
            return self.touched_in_git(at, name);
        }
        if name == ".git" {
            return vec![at.below.join(name)];
        }
        let mut touched = Vec::new();
        for part in self.rows.get(name).into_iter().flatten() {
            let Some(base) = base_of(&at.below, part) else { continue };
            let is_one_of = |names: &[String]| names.iter().any(|name| part.name == Path::new(name));
            let counts = match part.counts {
                Counts::Table(Where::Anywhere) => true,
                Counts::Table(Where::Root) => self.counts_as_root(at.tree, &base),
                Counts::More => is_one_of(&self.trees[at.tree].more),
                Counts::Part => base.as_os_str().is_empty() && is_one_of(&self.trees[at.tree].parts),
            };
            if !counts {
                continue;
            }
            if let Some(found) = self.present(at.tree, &base, &part.name)
                && !touched.contains(&found)
            {
                touched.push(found);
            }
        }
        touched
    }

    /// Whether a path was protected at launch, and what was there is not elsewhere now.
    pub fn is_known(&self, path: &Path) -> bool {
        self.known.contains(path) && !self.held.has_left(path)
    }

    /// Whether what is at `path` was protected at launch and went there with a directory that was renamed. Its mount in the
    /// jail went with it.
    pub fn is_moved(&self, path: &Path) -> bool {
        self.held.came_from(path).is_some_and(|from| self.known.contains(&from))
    }

    /// Whether the path lies in a repository that was not there at launch.
    pub fn in_new_repository(&self, spot: &Spot) -> bool {
        let mut at = spot.below.as_path();
        while let Some(parent) = at.parent() {
            let directory = Spot { tree: spot.tree, below: parent.to_path_buf() };
            if self.is_git(&directory) {
                let whole = parent.as_os_str().is_empty();
                return !(whole || self.is_known(&self.path(&directory)));
            }
            at = parent;
        }
        false
    }

    /// Whether what counts at the root of a tree counts in the directory `below`: the root, those right below it, the home.
    fn counts_as_root(&self, tree: usize, below: &Path) -> bool {
        let tree = &self.trees[tree];
        below.components().count() <= 1 || tree.root.join(below) == tree.home
    }

    fn touched_in_git(&self, at: &Spot, name: &OsStr) -> Vec<PathBuf> {
        let below = |name: &str| at.below.join(name);
        let parent = at.below.parent().map(Path::to_path_buf);
        let room = at.below.file_name();
        if self.is_git(at) {
            // A submodule's directory is one from the moment that it has a HEAD.
            let all = name.eq_ignore_ascii_case("HEAD");
            return GIT_PARTS.iter().filter(|part| all || name == **part).map(|part| below(part)).collect();
        }
        let in_git = parent.is_some_and(|below| self.is_git(&Spot { tree: at.tree, below }));
        if in_git && room == Some(OsStr::new("info")) && name == "attributes" {
            return vec![below("attributes")];
        }
        let grandparent = at.below.parent().and_then(Path::file_name);
        let parts = ["config.worktree", "commondir", "gitdir"];
        if grandparent == Some(OsStr::new("worktrees")) && parts.iter().any(|part| name == *part) {
            return vec![at.below.join(name)];
        }
        Vec::new()
    }

    /// Whether a directory is a git directory: by its name, or, among submodules, by its HEAD.
    fn is_git(&self, at: &Spot) -> bool {
        match self.in_git(at) {
            None => false,
            Some(rooms) if rooms.as_os_str().is_empty() => true,
            Some(rooms) => {
                rooms.iter().any(|room| room == "modules")
                    && self.path(at).join("HEAD").symlink_metadata().is_ok()
            }
        }
    }

    /// The rest of the path behind the git directory, when it lies in one.
    fn in_git(&self, at: &Spot) -> Option<PathBuf> {
        if self.trees[at.tree].kind == TreeKind::GitDirectory {
            return Some(at.below.clone());
        }
        let mut parts = at.below.components();
        parts.any(|part| part == Component::Normal(OsStr::new(".git"))).then(|| parts.as_path().to_path_buf())
    }

    /// `name` below `base`, or the symlink on the way to it, if it is there.
    fn present(&self, tree: usize, base: &Path, name: &Path) -> Option<PathBuf> {
        let mut current = base.to_path_buf();
        for part in name {
            current.push(part);
            let spot = Spot { tree, below: current.clone() };
            if self.path(&spot).symlink_metadata().ok()?.is_symlink() {
                return Some(current);
            }
        }
        Some(current)
    }
}

/// The directory that a name of the table counts from, when `at` is where its components before `part` lead.
fn base_of(at: &Path, part: &Part) -> Option<PathBuf> {
    let before: PathBuf = part.name.iter().take(part.before).collect();
    if part.before == 0 {
        return Some(at.to_path_buf());
    }
    if !at.ends_with(&before) {
        return None;
    }
    at.ancestors().nth(part.before).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests;
