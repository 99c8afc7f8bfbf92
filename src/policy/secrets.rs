//! What becomes of the files of a project that hold secrets (FS-10, FS-16).

use std::path::{Path, PathBuf};

use crate::config::settings::{Profile, Settings};
use crate::host::secrets::{SecretFile, Tracked};
use crate::policy::Grant;
use crate::policy::glob::{Anchor, Below};
use crate::policy::origin::Origin;
use crate::sanitize::escape;

/// Files that one line names.
const NAMED: usize = 5;

/// One such file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    /// Its absolute path, inside as outside.
    pub path: PathBuf,
    /// Below the project.
    pub below: PathBuf,
    /// What is in it.
    pub reason: &'static str,
    /// What becomes of it.
    pub standing: Standing,
}

/// What becomes of a secrets file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is masked.
    Masked,
    /// It is masked although git tracks it: it was masked before that, and git has other contents.
    StillMasked,
    /// It is not masked: git tracks it, so it is in the history anyway, and would be committed empty.
    Tracked,
    /// It is not masked: this says so.
    Kept(Origin),
}

impl SecretRule {
    /// Whether the jail finds something empty in its place.
    pub fn is_masked(&self) -> bool {
        matches!(self.standing, Standing::Masked | Standing::StillMasked)
    }

    /// Why it is, or is not, masked; a clause.
    pub fn why(&self) -> String {
        match &self.standing {
            Standing::Masked => self.reason.to_owned(),
            Standing::StillMasked => {
                format!("{}; git tracks it now, with other contents than it has", self.reason)
            }
            Standing::Tracked => {
                format!("{}; git tracks it, so it is in the history anyway and is not masked", self.reason)
            }
            Standing::Kept(origin) => format!("{}; kept readable by {origin}", self.reason),
        }
    }
}

/// Decides about every file.
pub(super) fn decide(
    settings: &Settings,
    project: &Path,
    files: &[SecretFile],
    grants: &[Grant],
) -> Vec<SecretRule> {
    let kept: Vec<(Below, &Origin)> = settings
        .unmask_files
        .iter()
        .map(|glob| {
            let base = match glob.value.anchor() {
                Anchor::Project => project,
                Anchor::Root => Path::new("/"),
            };
            (glob.value.below(base, 0), &glob.origin)
        })
        .collect();
    let rules = files.iter().map(|file| SecretRule {
        path: file.path.clone(),
        below: file.below.clone(),
        reason: file.reason,
        standing: standing(file, grants, &kept),
    });
    rules.collect()
}

fn standing(file: &SecretFile, grants: &[Grant], kept: &[(Below, &Origin)]) -> Standing {
    if let Some(grant) = grants.iter().find(|grant| grant.source == file.path) {
        return Standing::Kept(grant.origin.clone());
    }
    let matches = |glob: &Below| file.path.ancestors().any(|path| glob.matches(path));
    if let Some((_, origin)) = kept.iter().find(|(glob, _)| matches(glob)) {
        return Standing::Kept((*origin).clone());
    }
    match file.tracked {
        Tracked::No => Standing::Masked,
        Tracked::Other if file.masked_before => Standing::StillMasked,
        Tracked::Same | Tracked::Other => Standing::Tracked,
    }
}

/// What the user is told at the start: which files are masked and how to keep one readable, and which are not masked.
pub fn lines(rules: &[SecretRule], profile: Profile) -> Vec<String> {
    let named = |wanted: &dyn Fn(&Standing) -> bool| named(rules, wanted);
    let mut lines = Vec::new();
    if let Some((first, shown)) = named(&|standing| *standing == Standing::Masked) {
        let how = match profile {
            Profile::Lockdown => "this profile keeps none readable".to_owned(),
            _ => format!(
                "to keep one readable: --ro {first}, or unmask = [\"{first}\"] in [filesystem] of your configuration"
            ),
        };
        lines.push(format!("masked, for they hold secrets: {shown} (empty and read-only inside); {how}"));
    }
    if let Some((_, shown)) = named(&|standing| *standing == Standing::Tracked) {
        lines.push(format!(
            "not masked although they hold secrets: {shown}; git tracks them, so they are in the history anyway"
        ));
    }
    lines
}

/// What needs a look: files that were masked, and that git tracks now although it does not have them.
pub(super) fn warning(rules: &[SecretRule]) -> Option<String> {
    let (first, shown) = named(rules, &|standing| *standing == Standing::StillMasked)?;
    Some(format!(
        "{shown} stays masked: earlier sessions found it empty, and git tracks it now with other contents than it has; \
         run `git diff -- {first}` outside, and `git rm --cached -f -- {first}` if git should not have it"
    ))
}

/// The first of the files that are `wanted`, and a list of them.
fn named(rules: &[SecretRule], wanted: &dyn Fn(&Standing) -> bool) -> Option<(String, String)> {
    let names: Vec<String> = rules
        .iter()
        .filter(|rule| wanted(&rule.standing))
        .map(|rule| escape(rule.below.as_os_str()).to_string())
        .collect();
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(", ");
    let shown = if more == 0 { shown } else { format!("{shown} and {more} more") };
    Some((names.first()?.clone(), shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(below: &str, standing: Standing) -> SecretRule {
        SecretRule {
            path: PathBuf::from("/p").join(below),
            below: below.into(),
            reason: "a private key",
            standing,
        }
    }

    #[test]
    fn one_line_says_which_are_masked_and_how_to_keep_one() {
        let many: Vec<_> = (0..9).map(|n| rule(&format!("{n}.key"), Standing::Masked)).collect();
        assert_eq!(
            lines(&many, Profile::Workspace),
            [
                "masked, for they hold secrets: 0.key, 1.key, 2.key, 3.key, 4.key and 4 more (empty and read-only inside); \
              to keep one readable: --ro 0.key, or unmask = [\"0.key\"] in [filesystem] of your configuration"
            ]
        );
        let mixed = [rule(".env", Standing::Masked), rule("t.key", Standing::Tracked)];
        let said = lines(&mixed, Profile::Lockdown);
        assert!(said[0].ends_with("this profile keeps none readable"), "{said:?}");
        assert!(said[1].contains("not masked although they hold secrets: t.key; git tracks"), "{said:?}");
        assert_eq!(lines(&[], Profile::Workspace), Vec::<String>::new());
        let odd = lines(&[rule("a\nb.key", Standing::Masked)], Profile::Workspace);
        assert!(!odd[0].contains('\n'), "{odd:?}");
    }
}
