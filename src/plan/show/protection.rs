//! The table of protected names as a whole: what of it is there, what would be held back, and what is watched.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::host::protected::{TABLE, Where};
use crate::plan::operation::Access;
use crate::policy::Policy;
use crate::policy::files::Source;
use crate::sanitize::escape;

/// Every name that is protected, for people. `more` are those of a preset of the user's; `watches` is how many directories are watched at most.
pub fn protection(policy: &Policy, more: &[String], watches: usize) -> String {
    if policy.protected_off() {
        return "\nprotected names: none, for protection is switched OFF\n".to_owned();
    }
    let trees: Vec<String> = writable(policy).map(|tree| escape(tree.as_os_str()).to_string()).collect();
    if trees.is_empty() {
        return "\nprotected names: nothing of the host's can be written\n".to_owned();
    }
    let mut out = String::from(
        "\nprotected names (*: there, and read-only; the others are held back when they appear):\n",
    );
    for row in rows(policy, more) {
        let names: Vec<String> = row
            .names
            .iter()
            .map(|(name, there)| format!("{}{}", if *there { "*" } else { "" }, escape(*name)))
            .collect();
        let _ = writeln!(out, "  {}: {}  ({})", row.place, names.join(" "), escape(row.reason));
    }
    let _ = writeln!(
        out,
        "  and in every git directory its hooks, settings and what leads to another one; and the files that these settings name"
    );
    let _ = writeln!(out, "watched while the jail runs, up to {watches} directories: {}", trees.join(", "));
    let _ = writeln!(
        out,
        "  but not below: {} (git directories there are held, and searched at the end)",
        TABLE.dependencies.names.join(" ")
    );
    out
}

/// The same for programs.
pub fn protection_json(policy: &Policy, more: &[String], watches: usize) -> Value {
    json!({
        "off": policy.protected_off(),
        "trees": writable(policy).map(Path::to_string_lossy).collect::<Vec<_>>(),
        "watches": watches,
        "not_below": TABLE.dependencies.names,
        "names": rows(policy, more).iter().map(|row| json!({
            "where": row.place,
            "reason": row.reason,
            "names": row.names.iter().map(|(name, there)| json!({ "name": name, "there": there })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

struct Shown<'a> {
    place: &'static str,
    /// With whether one is there.
    names: Vec<(&'a str, bool)>,
    reason: &'a str,
}

fn rows<'a>(policy: &Policy, more: &'a [String]) -> Vec<Shown<'a>> {
    let there = |name: &str| {
        let mut held = policy.protected.iter().filter(|held| held.access == Access::ReadOnly);
        held.any(|held| held.root.join(&held.below).ends_with(name))
    };
    let table = TABLE.path.iter().map(|row| Shown {
        place: match row.r#where {
            Where::Root => "at the root",
            Where::Anywhere => "anywhere",
        },
        names: row.names.iter().map(|name| (name.as_str(), there(name))).collect(),
        reason: &row.reason,
    });
    let more = Shown {
        place: "anywhere",
        names: more.iter().map(|name| (name.as_str(), there(name))).collect(),
        reason: "the agent's own preset names it",
    };
    table.chain(Some(more).filter(|row| !row.names.is_empty())).collect()
}

fn writable(policy: &Policy) -> impl Iterator<Item = &Path> {
    policy.files.iter().filter(|rule| rule.access == Access::Writable).filter_map(|rule| match &rule.source {
        Source::Host(_) => Some(rule.dest.as_path()),
        _ => None,
    })
}
