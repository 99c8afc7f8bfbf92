//! From file rules to operations: who mounts what, where, and in which order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::plan::StoreOp;
use crate::plan::operation::{Access, BindSource, BwrapOp, Content, DoorOp, Missing, below};
use crate::policy::files::{FileRule, FileRules, Shape, Source, Tree, inside};
use crate::policy::{Hidden, ProtectedPath};

/// The tmpfs in which mounts wait for their place in a tree that others can change.
pub const STAGING: &str = "/run/.ai-jail-staging";

/// The operations for the rules of a policy.
#[derive(Debug, Default)]
pub struct Mounts {
    /// For bubblewrap, after the system's.
    pub operations: Vec<BwrapOp>,
    /// For the held door.
    pub door: Vec<DoorOp>,
    /// What is made in our own directories first.
    pub store: Vec<StoreOp>,
    sources: usize,
    copies: usize,
}

impl Mounts {
    /// Compiles the rules, then what is hidden, then what is protected, in this order. `store` is ai-jail's data directory.
    pub fn new(
        rules: &FileRules,
        hidden: &[Hidden],
        protected: &[ProtectedPath],
        store: &Path,
    ) -> Result<Self> {
        let mut mounts = Self::default();
        // A cover in which a more specific rule shows something comes before that.
        let (mut holed, whole): (Vec<&Hidden>, Vec<&Hidden>) =
            hidden.iter().partition(|hidden| !hidden.holes.is_empty());
        holed.sort_by_key(|hidden| {
            std::cmp::Reverse(inside(&hidden.root, &hidden.below).components().count())
        });
        for (index, rule) in rules.iter().enumerate() {
            let deep = rule.dest.components().count();
            while let Some(hidden) =
                holed.pop_if(|hidden| inside(&hidden.root, &hidden.below).components().count() < deep)
            {
                mounts.door.push(hide(hidden));
            }
            match rules.outer(rule) {
                Some(outer) if outer.tree != Tree::Fixed => mounts.staged(index, rule, outer, store)?,
                _ => {
                    let dest = rule.dest.clone();
                    mounts.source(rule, dest, store);
                }
            }
        }
        for hidden in holed.into_iter().rev().chain(whole) {
            mounts.door.push(hide(hidden));
            mounts.copy(hidden);
        }
        for path in protected.iter().filter(|path| !path.is_covered) {
            mounts.door.push(DoorOp::Pin {
                root: path.root.clone(),
                below: path.below.clone(),
                access: path.access,
            });
        }
        Ok(mounts)
    }

    /// The number of checked sources so far.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// A rule whose mount point lies in a tree that others can change: bubblewrap mounts it in the staging area, and it is
    /// moved to its place by descriptor.
    fn staged(&mut self, index: usize, rule: &FileRule, outer: &FileRule, store: &Path) -> Result<()> {
        let staged = Path::new(STAGING).join(index.to_string());
        let Some(place) = below(&outer.dest, &rule.dest) else {
            return Err(Error::new(Kind::Setup, format!("{} has no place in the jail", rule.dest.display())));
        };
        let missing = match (outer.tree, rule.shape) {
            (Tree::Ours, Shape::Directory) => Missing::MakeDirectory,
            (Tree::Ours, Shape::File) => Missing::MakeFile,
            (Tree::Theirs | Tree::Fixed, _) => Missing::Refuse,
        };
        self.source(rule, staged.clone(), store);
        self.door.push(DoorOp::Place {
            staged,
            root: outer.dest.clone(),
            below: place,
            missing,
            access: rule.access,
        });
        Ok(())
    }

    /// What is shown on top of a cover.
    fn copy(&mut self, hidden: &Hidden) {
        let Some(copy) = hidden.copy else { return };
        let staged = Path::new(STAGING).join(format!("copy-{}", self.copies));
        self.copies += 1;
        self.operations.push(staged_copy(Content::AtLaunch(copy), staged.clone()));
        self.door.push(DoorOp::Place {
            staged,
            root: hidden.root.clone(),
            below: hidden.below.clone(),
            missing: Missing::Refuse,
            access: Access::ReadOnly,
        });
    }

    fn source(&mut self, rule: &FileRule, dest: PathBuf, store: &Path) {
        let source = match &rule.source {
            Source::Host(path) if rule.tree == Tree::Fixed => BindSource::System(path.clone()),
            Source::Host(path) | Source::Socket(path) | Source::Device(path) => {
                BindSource::Checked(path.clone())
            }
            Source::Store(path, content) => {
                self.store.push(match rule.shape {
                    Shape::Directory => StoreOp::Directory(path.clone()),
                    Shape::File => StoreOp::File(path.clone(), content),
                });
                BindSource::Checked(store.join(path))
            }
            Source::Tmpfs => return self.operations.push(BwrapOp::Tmpfs(dest, 0o700)),
            Source::Content(content) => {
                let content = Content::Bytes(content.clone());
                let file = BwrapOp::File { content, dest, access: rule.access };
                return self.operations.push(file);
            }
            Source::AtLaunch(content) => {
                let content = Content::AtLaunch(*content);
                return self.operations.push(match dest.starts_with(STAGING) {
                    true => staged_copy(content, dest),
                    false => BwrapOp::Cover { content, dest },
                });
            }
            Source::Symlink(target) => {
                return self.operations.push(BwrapOp::Symlink { target: target.clone(), dest });
            }
        };
        if let BindSource::Checked(host) = &source {
            // Verified before anything is done with it.
            let verify = DoorOp::Verify { path: dest.clone(), source: self.sources, host: host.clone() };
            self.door.insert(self.sources, verify);
            self.sources += 1;
        }
        self.operations.push(match rule.source {
            Source::Device(_) => BwrapOp::Device { source, dest },
            _ => BwrapOp::Bind { source, dest, access: rule.access },
        });
    }
}

/// A file that waits for its place, where it is read-only. Its mode is one that programs want for secrets. (The kernel moves
/// no file that is removed, as that of a cover is.)
fn staged_copy(content: Content, dest: PathBuf) -> BwrapOp {
    BwrapOp::File { content, dest, access: Access::Writable }
}

fn hide(hidden: &Hidden) -> DoorOp {
    DoorOp::Hide {
        root: hidden.root.clone(),
        below: hidden.below.clone(),
        veil: hidden.veil,
        holes: hidden.holes.clone(),
    }
}

/// Everything beneath which the command may write: for Landlock, which takes rules for whole trees.
pub fn writable(rules: &FileRules, always: &[&str]) -> Vec<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = always.iter().map(PathBuf::from).collect();
    paths.extend(rules.iter().filter(|rule| rule.access == Access::Writable).map(|rule| rule.dest.clone()));
    let roots: Vec<PathBuf> = paths
        .iter()
        .filter(|path| !path.ancestors().skip(1).any(|outer| paths.contains(outer)))
        .cloned()
        .collect();
    roots
}
