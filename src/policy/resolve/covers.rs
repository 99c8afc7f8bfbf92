//! What is covered in the trees that are shown: credentials that nobody named, ai-jail's own directories, and what the
//! user denies or masks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::host::system::MountKind;
use crate::plan::operation::{Access, AtLaunch, Hole, Veil};
use crate::policy::files::{FileRule, FileRules, Shape, Source, inside};
use crate::policy::secrets::SecretRule;
use crate::policy::{Cover, CoverKind, Facts, Hidden, Named, ProtectedPath};

use super::bindings;

/// What is covered, and what must keep its place so that it stays covered.
#[derive(Debug, Default)]
pub(super) struct Covers {
    pub(super) hidden: Vec<Hidden>,
    /// The directories on the way: a jail that renames one would find the contents under another name the next time.
    pub(super) pinned: Vec<ProtectedPath>,
    /// Directories of ours that lie in a writable tree; they must exist, or the jail makes them.
    pub(super) own: Vec<PathBuf>,
    known_pins: HashSet<PathBuf>,
}

/// What the user denies or masks.
pub(super) fn asked(facts: &Facts) -> impl Iterator<Item = &Cover> {
    facts.covers.iter().filter(|cover| matches!(cover.kind, CoverKind::Asked(..)))
}

/// Looks for every place in every tree of the host's that is shown, under whatever name it is shown.
///
/// # Errors
/// When a grant names something in a place that another grant keeps hidden.
pub(super) fn covers(
    facts: &Facts,
    rules: &FileRules,
    secrets: &[SecretRule],
    bound: &bindings::Bound,
    warnings: &mut Vec<String>,
) -> Result<Covers> {
    let masked: Vec<Cover> = secrets
        .iter()
        .filter(|secret| secret.is_masked())
        .map(|secret| Cover {
            path: secret.path.clone(),
            kind: CoverKind::Secret,
            reason: secret.reason.to_owned(),
        })
        .collect();
    let mut covers = Covers::default();
    let mut said = BTreeSet::new();
    // By root and path: parents first, so that nothing is listed in what is covered as a whole.
    let mut places: BTreeMap<(PathBuf, PathBuf), (&Cover, Option<&FileRule>)> = BTreeMap::new();
    let index = Index::new(facts.covers.iter().chain(&masked));
    for rule in rules.iter() {
        let Source::Host(source) = &rule.source else { continue };
        for cover in index.below(source).filter(|cover| counts(facts, rule, cover)) {
            let Ok(below) = cover.path.strip_prefix(source) else { continue };
            let whole = below.as_os_str().is_empty() && !matches!(cover.kind, CoverKind::Asked(..));
            if whole || !decides(rules, rule, &inside(&rule.dest, below)) {
                continue;
            }
            if cover.kind == CoverKind::Credential {
                let named = facts.grants.iter().find(|grant| grant.source.starts_with(&cover.path));
                match named {
                    // The user named the place itself.
                    Some(grant) if grant.source == cover.path => continue,
                    Some(grant) => return Err(contradiction(rule, &grant.source, &cover.path)),
                    None => {}
                }
            }
            let place = (rule.dest.clone(), below.to_path_buf());
            let known = places.entry(place).or_insert((cover, Some(rule)));
            if veil(cover) > veil(known.0) {
                *known = (cover, Some(rule));
            }
            let granted = facts.grants.iter().any(|grant| grant.dest == rule.dest);
            if cover.kind == CoverKind::Credential && granted && said.insert(&cover.path) {
                let path = crate::sanitize::escape(cover.path.as_os_str());
                warnings.push(format!(
                    "{path} stays hidden ({}); name it with --ro {path} if you mean it",
                    cover.reason
                ));
            }
        }
    }
    system(facts, &index, rules, &mut places)?;
    let above: HashSet<&Path> = rules.iter().flat_map(|rule| rule.dest.ancestors().skip(1)).collect();
    let mut whole: Option<(PathBuf, PathBuf)> = None;
    for ((root, below), (cover, rule)) in places {
        if whole.as_ref().is_some_and(|whole| whole.0 == root && below.starts_with(&whole.1)) {
            continue;
        }
        if cover.kind != CoverKind::Way {
            whole = Some((root.clone(), below.clone()));
            let copy = bound.copy(facts, &cover.path);
            covers.hide(rules, &above, (&root, &below), cover, copy);
        }
        if let Some(rule) = rule {
            covers.hold(rules, rule, &below, cover);
        }
    }
    Ok(covers)
}

/// What the user denies or masks of the system.
fn system<'a>(
    facts: &'a Facts,
    index: &Index<'a>,
    rules: &FileRules,
    places: &mut BTreeMap<(PathBuf, PathBuf), (&'a Cover, Option<&FileRule>)>,
) -> Result<()> {
    let mounts = || facts.system.iter().filter(|mount| mount.kind == MountKind::Bind);
    for mount in mounts() {
        // Of those above it the mount lies in each as a whole.
        let above = mount.source.ancestors().skip(1).flat_map(|above| index.at(above));
        for cover in index.below(&mount.source).chain(above) {
            if !matches!(cover.kind, CoverKind::Asked(..)) {
                continue;
            }
            let below = cover.path.strip_prefix(&mount.source).unwrap_or(Path::new(""));
            let path = inside(&mount.dest, below);
            // A mount within this one, or a rule of the user's, decides for itself.
            let deeper = mounts().any(|other| {
                other.dest != mount.dest
                    && other.dest.starts_with(&mount.dest)
                    && path.starts_with(&other.dest)
            });
            if deeper || rules.deciding(&path).is_some() {
                continue;
            }
            if let Some(rule) = rules.iter().find(|rule| rule.dest.starts_with(&path)) {
                return Err(Error::new(Kind::Refused, format!("{} cannot be covered", shown(&path)))
                    .because(format!(
                        "{}, and {} is granted in it ({})",
                        cover.reason,
                        shown(&rule.dest),
                        rule.origin
                    ))
                    .hint("leave one of them out"));
            }
            places.entry((mount.dest.clone(), below.to_path_buf())).or_insert((cover, None));
        }
    }
    Ok(())
}

/// The covers by their places.
struct Index<'a> {
    by_path: BTreeMap<&'a Path, Vec<&'a Cover>>,
}

impl<'a> Index<'a> {
    fn new(covers: impl Iterator<Item = &'a Cover>) -> Self {
        let mut by_path: BTreeMap<&Path, Vec<&Cover>> = BTreeMap::new();
        for cover in covers {
            by_path.entry(&cover.path).or_default().push(cover);
        }
        Self { by_path }
    }

    fn at(&self, path: &Path) -> impl Iterator<Item = &'a Cover> {
        self.by_path.get(path).into_iter().flatten().copied()
    }

    /// At `path` and below it.
    fn below<'b>(&'b self, path: &'b Path) -> impl Iterator<Item = &'a Cover> + use<'a, 'b> {
        let from = (Bound::Included(path), Bound::Unbounded);
        let range = self.by_path.range::<Path, _>(from);
        range.take_while(move |(at, _)| at.starts_with(path)).flat_map(|(_, covers)| covers).copied()
    }
}

fn decides(rules: &FileRules, rule: &FileRule, path: &Path) -> bool {
    rules.deciding(path).is_some_and(|deciding| deciding.dest == rule.dest)
}

fn veil(cover: &Cover) -> Option<Veil> {
    match cover.kind {
        CoverKind::Way => None,
        CoverKind::Asked(veil, _) => Some(veil),
        CoverKind::Own
        | CoverKind::Credential
        | CoverKind::Installed
        | CoverKind::Secret
        | CoverKind::Channel => Some(Veil::Empty),
    }
}

fn contradiction(rule: &FileRule, named: &Path, place: &Path) -> Error {
    Error::new(Kind::Refused, format!("{} cannot be granted", shown(named)))
        .because(format!(
            "{} holds credentials, and is hidden where {} is shown",
            shown(place),
            shown(&rule.dest)
        ))
        .hint(format!("grant {} itself, or something smaller than {}", shown(place), shown(&rule.dest)))
}

fn shown(path: &Path) -> String {
    crate::sanitize::escape(path.as_os_str()).to_string()
}

impl Covers {
    fn hide(
        &mut self,
        rules: &FileRules,
        above: &HashSet<&Path>,
        (root, below): (&Path, &Path),
        cover: &Cover,
        copy: Option<AtLaunch>,
    ) {
        let path = inside(root, below);
        let holes = if above.contains(path.as_path()) { holes(rules, &path) } else { Vec::new() };
        self.hidden.push(Hidden {
            root: root.to_path_buf(),
            below: below.to_path_buf(),
            host: cover.path.clone(),
            veil: veil(cover).unwrap_or(Veil::Empty),
            holes,
            is_asked: matches!(cover.kind, CoverKind::Asked(..)),
            copy: copy.filter(|_| veil(cover) == Some(Veil::Empty)),
            reason: cover.reason.clone(),
        });
    }

    /// Keeps what was named in its place. The directories of what was found may be renamed: its mount goes along, and the
    /// next launch finds it by its own name.
    fn hold(&mut self, rules: &FileRules, rule: &FileRule, below: &Path, cover: &Cover) {
        if rule.access == Access::ReadOnly
            || matches!(
                cover.kind,
                CoverKind::Secret | CoverKind::Channel | CoverKind::Asked(_, Named::ByMatch)
            )
        {
            return;
        }
        if cover.kind == CoverKind::Own && !self.own.contains(&cover.path) {
            self.own.push(cover.path.clone());
        }
        // A symlink on the way is held itself; what is covered is a mount already.
        let from = usize::from(cover.kind != CoverKind::Way);
        for parent in below.ancestors().skip(from).filter(|parent| !parent.as_os_str().is_empty()) {
            let path = rule.dest.join(parent);
            if decides(rules, rule, &path) && self.known_pins.insert(path) {
                self.pinned.push(ProtectedPath {
                    root: rule.dest.clone(),
                    below: parent.to_path_buf(),
                    access: Access::Writable,
                    is_covered: false,
                    reason: format!("it holds what is hidden: {}", cover.reason),
                });
            }
        }
    }
}

/// What more specific rules show in a directory that is covered: mount points for the outermost of them.
fn holes(rules: &FileRules, covered: &Path) -> Vec<Hole> {
    let within: Vec<&FileRule> =
        rules.iter().filter(|rule| rule.dest != covered && rule.dest.starts_with(covered)).collect();
    within
        .iter()
        .filter(|rule| {
            !within.iter().any(|outer| outer.dest != rule.dest && rule.dest.starts_with(&outer.dest))
        })
        .filter_map(|rule| {
            let below = rule.dest.strip_prefix(covered).ok()?.to_path_buf();
            Some(Hole { below, is_directory: rule.shape == Shape::Directory })
        })
        .collect()
}

/// Which trees a place is covered in. `devbox` shows the machine; only our own directories are not part of that.
fn counts(facts: &Facts, rule: &FileRule, cover: &Cover) -> bool {
    let users = rule.dest == facts.project || facts.grants.iter().any(|grant| grant.dest == rule.dest);
    match cover.kind {
        CoverKind::Own | CoverKind::Secret | CoverKind::Channel | CoverKind::Asked(..) | CoverKind::Way => {
            true
        }
        CoverKind::Credential => users,
        CoverKind::Installed => !users && rule.access == Access::ReadOnly,
    }
}
