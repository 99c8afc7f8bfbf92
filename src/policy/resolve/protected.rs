//! What is held or covered in the trees that the jail may write.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::config::settings::{Protect, Settings};
use crate::host::protected::Hold;
use crate::plan::operation::Access;
use crate::policy::files::{self, FileRules, Source};
use crate::policy::{Facts, Hidden, ProtectedPath};

/// What is held in every writable tree, less what is covered by something empty.
pub(super) fn protected(
    settings: &Settings,
    facts: &Facts,
    rules: &FileRules,
    hidden: &[Hidden],
    warnings: &mut Vec<String>,
) -> Vec<ProtectedPath> {
    if settings.protect.value == Protect::DangerOff {
        warnings.push(format!(
            "protected paths are OFF ({}): what the agent writes to git hooks, editor tasks and settings can run outside the jail",
            settings.protect.origin
        ));
        return Vec::new();
    }
    let covered: HashSet<PathBuf> =
        hidden.iter().map(|hidden| files::inside(&hidden.root, &hidden.below)).collect();
    let mut protected = Vec::new();
    for rule in rules.iter().filter(|rule| rule.access == Access::Writable) {
        let Source::Host(source) = &rule.source else { continue };
        for tree in facts.trees.iter().filter(|tree| tree.root == *source) {
            for found in &tree.found {
                let inside = rule.dest.join(&found.below);
                // What is covered cannot be reached, and so not held either.
                let mut above = inside.ancestors().take_while(|above| above.starts_with(&rule.dest));
                if above.any(|above| covered.contains(above)) {
                    continue;
                }
                // A more specific rule inside decides for itself. One of ours, at the very path, comes off when the path is
                // replaced outside.
                let deciding = rules.deciding(&inside);
                let is_covered = deciding.is_some_and(|deciding| {
                    deciding.dest == inside && !matches!(deciding.source, Source::Host(_))
                });
                if is_covered || deciding.is_some_and(|deciding| deciding.dest == rule.dest) {
                    protected.push(ProtectedPath {
                        root: rule.dest.clone(),
                        below: found.below.clone(),
                        access: match found.hold {
                            Hold::Pinned => Access::Writable,
                            Hold::ReadOnly => Access::ReadOnly,
                        },
                        is_covered,
                        reason: found.reason.clone(),
                    });
                }
            }
        }
    }
    protected
}
