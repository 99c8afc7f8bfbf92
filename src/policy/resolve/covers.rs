//! What is covered in the trees that are shown: credentials that nobody named, and ai-jail's own directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::plan::operation::Access;
use crate::policy::files::{FileRule, FileRules, Source};
use crate::policy::secrets::SecretRule;
use crate::policy::{Cover, CoverKind, Facts, Hidden, ProtectedPath};

/// What is covered, and what must keep its place so that it stays covered.
#[derive(Debug, Default)]
pub(super) struct Covers {
    pub(super) hidden: Vec<Hidden>,
    /// The directories on the way: a jail that renames one would find the contents under another name the next time.
    pub(super) pinned: Vec<ProtectedPath>,
    /// Directories of ours that lie in a writable tree; they must exist, or the jail makes them.
    pub(super) own: Vec<PathBuf>,
}

/// Looks for every place in every tree of the host's that is shown, under whatever name it is shown.
///
/// # Errors
/// When a grant names something in a place that another grant keeps hidden.
pub(super) fn covers(
    facts: &Facts,
    rules: &FileRules,
    secrets: &[SecretRule],
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
    for rule in rules.iter() {
        let Source::Host(source) = &rule.source else { continue };
        for cover in facts.covers.iter().chain(&masked).filter(|cover| counts(facts, rule, cover)) {
            let Ok(below) = cover.path.strip_prefix(source) else { continue };
            let decides =
                |path: &Path| rules.deciding(path).is_some_and(|deciding| deciding.dest == rule.dest);
            if below.as_os_str().is_empty() || !decides(&rule.dest.join(below)) {
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
            covers.add(rule, below, cover, &decides);
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
    Ok(covers)
}

fn contradiction(rule: &FileRule, named: &Path, place: &Path) -> Error {
    let shown = |path: &Path| crate::sanitize::escape(path.as_os_str()).to_string();
    Error::new(Kind::Refused, format!("{} cannot be granted", shown(named)))
        .because(format!(
            "{} holds credentials, and is hidden where {} is shown",
            shown(place),
            shown(&rule.dest)
        ))
        .hint(format!("grant {} itself, or something smaller than {}", shown(place), shown(&rule.dest)))
}

impl Covers {
    fn add(&mut self, rule: &FileRule, below: &Path, cover: &Cover, decides: &dyn Fn(&Path) -> bool) {
        self.hidden.push(Hidden {
            root: rule.dest.clone(),
            below: below.to_path_buf(),
            reason: cover.reason.clone(),
        });
        // The directories of a secret may be renamed: its mount goes along, and the next launch finds it by its own name.
        if rule.access == Access::ReadOnly || cover.kind == CoverKind::Secret {
            return;
        }
        if cover.kind == CoverKind::Own && !self.own.contains(&cover.path) {
            self.own.push(cover.path.clone());
        }
        for parent in below.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            let known = self.pinned.iter().any(|pinned| pinned.root == rule.dest && pinned.below == parent);
            if !known && decides(&rule.dest.join(parent)) {
                self.pinned.push(ProtectedPath {
                    root: rule.dest.clone(),
                    below: parent.to_path_buf(),
                    access: Access::Writable,
                    reason: format!("it holds what is hidden: {}", cover.reason),
                });
            }
        }
    }
}

/// Which trees a place is covered in. `devbox` shows the machine; only our own directories are not part of that.
fn counts(facts: &Facts, rule: &FileRule, cover: &Cover) -> bool {
    let users = rule.dest == facts.project || facts.grants.iter().any(|grant| grant.dest == rule.dest);
    match cover.kind {
        CoverKind::Own | CoverKind::Secret => true,
        CoverKind::Credential => users,
        CoverKind::Installed => !users && rule.access == Access::ReadOnly,
    }
}
