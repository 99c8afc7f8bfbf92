//! Which files the jail sees, as rules: where, from where, how, and why.

use std::path::{Path, PathBuf};

use crate::plan::operation::{Access, AtLaunch, depth};
use crate::policy::Grant;
use crate::policy::origin::Origin;

/// Where the contents of a rule come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A resolved path of the host.
    Host(PathBuf),
    /// A Unix socket of the host.
    Socket(PathBuf),
    /// A device of the host.
    Device(PathBuf),
    /// A path below ai-jail's own data directory, made when it is missing; a new file gets this content.
    Store(PathBuf, &'static str),
    /// A tmpfs.
    Tmpfs,
    /// A file with this content.
    Content(Vec<u8>),
    /// A file that is made at the launch.
    AtLaunch(AtLaunch),
    /// A symlink that says this.
    Symlink(PathBuf),
}

/// Whether a rule shows a directory or something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A directory.
    Directory,
    /// A file, or a symlink.
    File,
}

/// Who can change the names below a rule's destination while the jail is being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// Only root, or nobody: bubblewrap may make mount points there.
    Fixed,
    /// A tree of ours that the agent writes: mount points are made there, by descriptor.
    Ours,
    /// The user's own: nothing is ever made there.
    Theirs,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRule {
    /// The absolute path inside.
    pub dest: PathBuf,
    /// The contents.
    pub source: Source,
    /// Directory or file.
    pub shape: Shape,
    /// How it may be used.
    pub access: Access,
    /// What kind of tree it is.
    pub tree: Tree,
    /// Where the rule came from.
    pub origin: Origin,
}

/// The rules of one policy, in the order in which they are mounted: parents before what lies below them, and of several
/// with the same destination only the one that wins.
#[derive(Debug, Clone, Default)]
pub struct FileRules {
    rules: Vec<FileRule>,
}

impl FileRules {
    /// Orders the rules. The more specific path wins by being mounted later; on the same path a rule of a higher layer
    /// wins, and within a layer read-only beats writable (FS-4).
    pub fn new(mut rules: Vec<FileRule>) -> Self {
        rules.sort_by(|a, b| {
            depth(&a.dest)
                .cmp(&depth(&b.dest))
                .then(b.origin.layer.cmp(&a.origin.layer))
                .then(a.access.cmp(&b.access))
        });
        rules.dedup_by(|later, first| later.dest == first.dest);
        let mut kept: Vec<FileRule> = Vec::new();
        for rule in rules {
            if !enclosing(&kept, &rule.dest).is_some_and(|outer| shows_already(outer, &rule)) {
                kept.push(rule);
            }
        }
        Self { rules: kept }
    }

    /// The rules in mounting order.
    pub fn iter(&self) -> impl Iterator<Item = &FileRule> {
        self.rules.iter()
    }

    /// The rule that decides about `path`: the most specific one that contains it.
    pub fn deciding(&self, path: &Path) -> Option<&FileRule> {
        enclosing_or_same(&self.rules, path)
    }

    /// The rule in whose tree the mount point of `rule` lies.
    pub fn outer(&self, rule: &FileRule) -> Option<&FileRule> {
        enclosing(&self.rules, &rule.dest)
    }
}

/// A path below a mount, or its root when `below` is empty.
pub fn inside(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_path_buf() } else { root.join(below) }
}

/// Adds what the grants say about a path of the host wherever else that path is shown (FS-4): what is read-only under one
/// name is read-only under all.
pub fn everywhere(mut rules: Vec<FileRule>, grants: &[Grant]) -> Vec<FileRule> {
    let read_only: Vec<&Grant> = grants.iter().filter(|grant| grant.access == Access::ReadOnly).collect();
    let mut derived = Vec::new();
    for rule in rules.iter_mut().filter(|rule| rule.access == Access::Writable) {
        let Source::Host(source) = &rule.source else { continue };
        let granted = grants.iter().any(|grant| grant.dest == rule.dest && grant.source == *source);
        for grant in &read_only {
            let Ok(below) = grant.source.strip_prefix(source) else { continue };
            if below.as_os_str().is_empty() {
                // The same object under two names, both granted: read-only beats writable as it does under one.
                if granted && grant.origin.layer >= rule.origin.layer {
                    rule.access = Access::ReadOnly;
                }
                continue;
            }
            let dest = rule.dest.join(below);
            derived.push(FileRule {
                dest,
                source: Source::Host(grant.source.clone()),
                shape: grant.shape,
                access: Access::ReadOnly,
                tree: Tree::Theirs,
                origin: grant.origin.clone(),
            });
        }
    }
    // What has a rule of its own under that name keeps it.
    derived.retain(|new| !rules.iter().any(|rule| rule.dest == new.dest));
    rules.extend(derived);
    rules
}

fn enclosing<'a>(rules: &'a [FileRule], dest: &Path) -> Option<&'a FileRule> {
    rules
        .iter()
        .filter(|rule| rule.dest != dest && dest.starts_with(&rule.dest))
        .max_by_key(|rule| rule.dest.components().count())
}

fn enclosing_or_same<'a>(rules: &'a [FileRule], path: &Path) -> Option<&'a FileRule> {
    rules.iter().filter(|rule| path.starts_with(&rule.dest)).max_by_key(|rule| rule.dest.components().count())
}

/// Whether `outer` shows the same object with the same access anyway.
fn shows_already(outer: &FileRule, rule: &FileRule) -> bool {
    let (Source::Host(outer_source), Source::Host(source), Ok(below)) =
        (&outer.source, &rule.source, rule.dest.strip_prefix(&outer.dest))
    else {
        return false;
    };
    // A writable rule is kept: what is protected in its tree is found by it.
    outer.access == Access::ReadOnly && rule.access == Access::ReadOnly && *source == outer_source.join(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::origin::Layer;

    fn rule(dest: &str, source: &str, access: Access, layer: Layer) -> FileRule {
        FileRule {
            dest: dest.into(),
            source: Source::Host(source.into()),
            shape: Shape::Directory,
            access,
            tree: Tree::Theirs,
            origin: Origin { layer, what: "test".to_owned(), place: None },
        }
    }

    #[test]
    fn the_more_specific_path_wins_and_on_the_same_path_the_stricter() {
        use Access::{ReadOnly, Writable};
        let rules = FileRules::new(vec![
            rule("/p", "/p", Writable, Layer::BuiltIn),
            rule("/p/sub", "/p/sub", ReadOnly, Layer::User),
            rule("/p/sub/deep", "/p/sub/deep", Writable, Layer::User),
            rule("/q", "/q", Writable, Layer::User),
            rule("/q", "/q", ReadOnly, Layer::User),
            rule("/r", "/r", ReadOnly, Layer::User),
            rule("/r", "/r", Writable, Layer::CommandLine),
        ]);
        let cases = [
            ("/p/x", Some(Writable)),
            ("/p/sub/x", Some(ReadOnly)),
            ("/p/sub/deep/x", Some(Writable)),
            ("/p/submarine", Some(Writable)),
            ("/q", Some(ReadOnly)),
            ("/r", Some(Writable)),
            ("/elsewhere", None),
        ];
        for (path, expected) in cases {
            assert_eq!(rules.deciding(Path::new(path)).map(|rule| rule.access), expected, "{path}");
        }
    }

    #[test]
    fn a_read_only_grant_holds_under_every_name_of_the_path() {
        use Access::{ReadOnly, Writable};
        let grant = |source: &str, dest: &str, access, layer| Grant {
            source: source.into(),
            dest: dest.into(),
            access,
            shape: Shape::Directory,
            origin: Origin { layer, what: "test".to_owned(), place: None },
        };
        let grants = [
            grant("/p/ro", "/p/ro", ReadOnly, Layer::CommandLine),
            grant("/p", "/mnt/alias", Writable, Layer::CommandLine),
            grant("/p", "/mnt/alias2/deep", Writable, Layer::CommandLine),
            grant("/q", "/q", ReadOnly, Layer::CommandLine),
            grant("/q", "/mnt/q", Writable, Layer::CommandLine),
            grant("/u", "/u", ReadOnly, Layer::User),
            grant("/u", "/mnt/u", Writable, Layer::CommandLine),
        ];
        let mut rules = vec![rule("/p", "/p", Writable, Layer::BuiltIn)];
        for grant in &grants {
            let (dest, source) = (grant.dest.to_str().unwrap(), grant.source.to_str().unwrap());
            rules.push(rule(dest, source, grant.access, grant.origin.layer));
        }
        let rules = FileRules::new(everywhere(rules, &grants));
        for (path, expected) in [
            ("/p/x", Writable),
            ("/p/ro/x", ReadOnly),
            ("/mnt/alias/x", Writable),
            ("/mnt/alias/ro/x", ReadOnly),
            ("/mnt/alias2/deep/ro/x", ReadOnly),
            ("/mnt/q/x", ReadOnly),
            ("/mnt/u/x", Writable),
        ] {
            assert_eq!(rules.deciding(Path::new(path)).map(|rule| rule.access), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_an_outer_rule_shows_anyway_is_left_out() {
        use Access::{ReadOnly, Writable};
        let rules = FileRules::new(vec![
            rule("/h/.local/bin", "/h/.local/bin", ReadOnly, Layer::BuiltIn),
            rule("/h/.local/bin/x", "/h/.local/bin/x", ReadOnly, Layer::BuiltIn),
            rule("/h/.local/bin/y", "/elsewhere/y", ReadOnly, Layer::BuiltIn),
            rule("/h/.local/bin/z", "/h/.local/bin/z", Writable, Layer::BuiltIn),
        ]);
        let kept: Vec<_> = rules.iter().map(|rule| rule.dest.display().to_string()).collect();
        assert_eq!(kept, ["/h/.local/bin", "/h/.local/bin/y", "/h/.local/bin/z"]);
    }
}
