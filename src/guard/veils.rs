//! What is denied, masked or hidden, while the jail runs (FS-9): which names matter where, and where the jail sees them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::host::globs::case_of;
use crate::host::links::follow;
use crate::host::system::MountKind;
use crate::plan::operation::{self, Veil};
use crate::policy::files::{FileRules, Source, inside};
use crate::policy::glob::{Case, States};
use crate::policy::{Asked, Policy};

use super::ground::Cover;

/// How far each glob has come in one directory, and how its names are compared.
#[derive(Debug, Clone)]
pub struct Progress {
    states: Vec<(usize, States)>,
    case: Case,
}

/// What has to be covered, and every place where the jail could see it.
#[derive(Debug, Default)]
pub struct Veils {
    asked: Vec<Asked>,
    /// Host paths that were covered at launch.
    hidden: BTreeMap<PathBuf, Veil>,
    rules: FileRules,
    /// Source and destination of what is shown, the system's too.
    places: Vec<(PathBuf, PathBuf)>,
    /// Directories that ignore case, as far as they were looked at.
    folded: Mutex<HashSet<PathBuf>>,
}

impl Veils {
    /// Those of a policy.
    pub fn new(policy: &Policy) -> Self {
        let mut hidden: BTreeMap<PathBuf, Veil> = BTreeMap::new();
        for path in &policy.hidden {
            let veil = hidden.entry(path.host.clone()).or_insert(path.veil);
            *veil = (*veil).max(path.veil);
        }
        let rules = policy.files.iter().filter_map(|rule| match &rule.source {
            Source::Host(source) => Some((source.clone(), rule.dest.clone())),
            _ => None,
        });
        let system = policy.system.iter().filter(|mount| mount.kind == MountKind::Bind);
        let system = system.map(|mount| (mount.source.clone(), mount.dest.clone()));
        Self {
            asked: policy.asked.clone(),
            hidden,
            places: rules.chain(system).collect(),
            rules: policy.files.clone(),
            folded: Mutex::default(),
        }
    }

    /// Globs that deny in the tree at `root`, which the jail sees at `/inside`.
    #[cfg(test)]
    pub(super) fn denying(root: &Path, globs: &[&str]) -> Self {
        let asked = globs.iter().map(|text| {
            let glob = crate::policy::glob::Glob::parse(OsStr::new(text), Path::new("/h")).unwrap();
            Asked {
                matches: glob.below(root, 0),
                literal: None,
                text: text.into(),
                veil: Veil::Closed,
                origin: crate::policy::origin::Origin::flag("--deny"),
                is_found: false,
            }
        });
        let places = vec![(root.to_path_buf(), PathBuf::from("/inside"))];
        Self { asked: asked.collect(), places, ..Self::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.hidden.is_empty()
    }

    /// Whether something that appears may have to be covered.
    pub fn has_globs(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The roots of the trees in which something may have to be covered.
    pub fn roots(&self) -> BTreeSet<PathBuf> {
        let sources = self.places.iter().map(|(source, _)| source);
        sources.filter(|source| source.is_dir() && self.may_be_in(source)).cloned().collect()
    }

    /// Where a directory stands. To be asked about a directory before it is asked about those in it.
    pub fn progress(&self, directory: &Path) -> Progress {
        let case = case_of(directory);
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        if case == Case::Ignored {
            folded.insert(directory.to_path_buf());
        }
        let states = self.asked.iter().enumerate().filter_map(|(at, asked)| {
            let from = asked.matches.directory();
            let mut path = from.to_path_buf();
            let mut states = asked.matches.start();
            for name in directory.strip_prefix(from).ok()? {
                let case = if folded.contains(&path) { Case::Ignored } else { Case::Sensitive };
                states = asked.matches.step(states, name, case);
                path.push(name);
            }
            (!states.is_dead()).then_some((at, states))
        });
        Progress { states: states.collect(), case }
    }

    /// How `path`, of this name in the directory of `progress`, is to be covered, if it is.
    pub fn veil(&self, progress: &Progress, path: &Path, name: &OsStr) -> Option<Veil> {
        let matched = progress.states.iter().filter_map(|(at, states)| {
            let asked = &self.asked[*at];
            asked.matches.matched(asked.matches.step(*states, name, progress.case)).then_some(asked.veil)
        });
        matched.chain(self.hidden.get(path).copied()).max()
    }

    /// Whether something below `path`, a directory of this name in that of `progress`, may have to be covered.
    pub fn enters(&self, progress: &Progress, path: &Path, name: &OsStr) -> bool {
        let goes_on = progress.states.iter().any(|(at, states)| {
            let matches = &self.asked[*at].matches;
            matches.goes_on(matches.step(*states, name, progress.case))
        });
        // What is covered is covered as a whole.
        (goes_on || self.lies_below(path)) && self.veil(progress, path, name).is_none()
    }

    /// Where the jail sees a host path, and how it is covered there.
    pub fn covers(&self, path: &Path, veil: Veil) -> Vec<Cover> {
        let places = self.places.iter().filter_map(|(source, dest)| {
            let below = path.strip_prefix(source).ok().filter(|below| !below.as_os_str().is_empty())?;
            let inside = inside(dest, below);
            // A more specific mount decides for itself.
            let deeper = |other: &Path| other != dest && other.starts_with(dest) && inside.starts_with(other);
            let decided = self.rules.deciding(&inside).is_some_and(|rule| deeper(&rule.dest))
                || self.places.iter().any(|(_, other)| deeper(other));
            let cover =
                Cover { root: dest.clone(), below: below.to_path_buf(), how: operation::Cover::Veil(veil) };
            (!decided).then_some(cover)
        });
        places.collect()
    }

    /// What a symlink leads to, if that is to be covered with it: not what is shown as a whole, and nothing of the system's.
    pub fn target(&self, link: &Path) -> Option<PathBuf> {
        let end = link.is_symlink().then(|| follow(link).ok()).flatten()?.end;
        let users = self.rules.iter().filter_map(|rule| match &rule.source {
            Source::Host(source) => Some(source),
            _ => None,
        });
        let sources: Vec<&PathBuf> = users.collect();
        let within = sources.iter().any(|source| end.starts_with(source));
        (within && !sources.iter().any(|source| source.starts_with(&end))).then_some(end)
    }

    /// Whether a path was covered at launch.
    pub fn was_covered(&self, path: &Path) -> bool {
        self.hidden.contains_key(path)
    }

    /// Whether the place of a glob, or something that was covered at launch, lies below `path`.
    fn lies_below(&self, path: &Path) -> bool {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        self.hidden.range::<Path, _>(after).next().is_some_and(|(hidden, _)| hidden.starts_with(path))
            || self.asked.iter().any(|asked| asked.matches.directory().starts_with(path))
    }

    fn may_be_in(&self, source: &Path) -> bool {
        self.lies_below(source)
            || self.asked.iter().any(|asked| {
                let from = asked.matches.directory();
                let step = |states, name| asked.matches.step(states, name, Case::Sensitive);
                source
                    .strip_prefix(from)
                    .is_ok_and(|rest| asked.matches.goes_on(rest.iter().fold(asked.matches.start(), step)))
            })
    }
}
