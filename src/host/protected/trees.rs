//! Every tree of a launch that may become writable, and what the user is told about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Channel, Found, Handover, Hold, Protected, Scope, git_directory, scan};
use crate::config::settings::Profile;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::host::secrets::{CATALOGUE, Secret};
use crate::policy::{ProtectedTree, TreeKind};
use crate::sanitize::escape;

/// How many paths are held at most: each is a mount, and the kernel makes them ever more slowly.
const LIMIT: usize = 10_000;

/// What is searched for one launch.
#[derive(Debug, Clone)]
pub struct Trees<'a> {
    /// Roots of trees, free of symlinks, with the names that count there alone.
    pub roots: BTreeMap<&'a Path, Vec<String>>,
    /// Settings outside the trees whose scripts may lie in them.
    pub settings: &'a [PathBuf],
    /// Git directories outside the project that are mounted.
    pub git: &'a [PathBuf],
    /// The project, in which secrets are searched for too.
    pub project: &'a Path,
    /// Names beside the table's.
    pub more: &'a [String],
    /// What to do about a tree that cannot be searched to its end.
    pub profile: Profile,
}

/// Searches them all. What is held because it cannot be searched becomes one warning.
///
/// # Errors
/// When a root cannot be listed, there are too many protected paths, or, under `strict` and `lockdown`, a tree cannot be
/// searched to its end.
pub fn trees(
    host: &Host,
    trees: &Trees<'_>,
    warnings: &mut Vec<String>,
) -> Result<(Vec<ProtectedTree>, Vec<Secret>)> {
    let own = own_directories(host);
    let scope = |root, parts| Scope {
        root,
        more: trees.more,
        parts,
        settings: trees.settings,
        home: &host.user.home_real,
        uid: host.user.uid,
        own: &own,
        secrets: (root == trees.project).then(|| &*CATALOGUE),
        handover: Handover::Note,
        known: None,
    };
    let mut secrets = Vec::new();
    let mut results = Vec::new();
    let mut closed = Vec::new();
    let roots = trees
        .roots
        .iter()
        .map(|(root, parts)| (*root, parts.as_slice(), TreeKind::Files, scan(&scope(root, parts))));
    let git = trees.git.iter().map(PathBuf::as_path);
    let git = git.map(|root| (root, &[][..], TreeKind::GitDirectory, git_directory(&scope(root, &[]))));
    for (root, parts, kind, mut found) in roots.chain(git) {
        check(root, &found, trees.profile, warnings)?;
        secrets.append(&mut found.secrets);
        closed.extend(found.closed.iter().map(|below| root.join(below)));
        found.paths.extend(own.iter().filter_map(|own| {
            let below = own.strip_prefix(root).ok()?.to_path_buf();
            let reason = "ai-jail's own files".to_owned();
            (!below.as_os_str().is_empty()).then_some(Protected { below, hold: Hold::ReadOnly, reason })
        }));
        results.push(ProtectedTree {
            root: root.to_path_buf(),
            kind,
            more: trees.more.to_vec(),
            parts: parts.to_vec(),
            home: host.user.home_real.clone(),
            own: own.clone(),
            found: found.paths,
            handover_known: found.handover_known,
            channels: found.channels,
        });
    }
    count(&results)?;
    if let Some(first) = closed.first() {
        let more = match closed.len() {
            1 => String::new(),
            many => format!(" (and {} more)", many - 1),
        };
        warnings.push(format!(
            "{}{more} cannot be searched for protected paths and is read-only as a whole: run `chmod u+rwx` on it outside",
            escape(first.as_os_str())
        ));
    }
    Ok((results, secrets))
}

/// The secrets, and the sockets and FIFOs, of a project that is not writable, and in which nothing has to be held.
///
/// # Errors
/// Under `strict` and `lockdown`, when it cannot be searched to its end.
pub fn project(
    host: &Host,
    project: &Path,
    profile: Profile,
    warnings: &mut Vec<String>,
) -> Result<(Vec<Secret>, Vec<Channel>)> {
    let scope = Scope {
        root: project,
        more: &[],
        parts: &[],
        settings: &[],
        home: &host.user.home_real,
        uid: host.user.uid,
        own: &own_directories(host),
        secrets: Some(&CATALOGUE),
        handover: Handover::No,
        known: None,
    };
    let found = scan(&scope);
    searched(project, &found, profile, warnings)?;
    Ok((found.secrets, found.channels))
}

/// ai-jail's own directories that exist, free of symlinks.
pub(super) fn own_directories(host: &Host) -> Vec<PathBuf> {
    let places = [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
    ];
    places
        .iter()
        .filter_map(|(name, fallback)| host.real(&host.xdg(name, fallback).join("ai-jail")))
        .collect()
}

fn check(root: &Path, found: &Found, profile: Profile, warnings: &mut Vec<String>) -> Result<()> {
    let shown = escape(root.as_os_str());
    if found.closed.iter().any(|below| below.as_os_str().is_empty()) {
        return Err(Error::new(Kind::Refused, format!("{shown} cannot be listed"))
            .because("the protected paths in it cannot be found")
            .hint("run `chmod u+rwx` on it"));
    }
    searched(root, found, profile, warnings)
}

/// What a bound of the search means for the launch.
fn searched(root: &Path, found: &Found, profile: Profile, warnings: &mut Vec<String>) -> Result<()> {
    let Some(why) = &found.unsearched else { return Ok(()) };
    let shown = escape(root.as_os_str());
    let what = format!("not every protected path and secrets file in {shown} can be found: {why}");
    if matches!(profile, Profile::Strict | Profile::Lockdown) {
        return Err(Error::new(Kind::Refused, what)
            .because("this profile starts only when all of them are found")
            .hint("name a smaller directory with --project"));
    }
    warnings.push(format!("{what}; what was not found is neither held nor masked"));
    Ok(())
}

fn count(trees: &[ProtectedTree]) -> Result<()> {
    let total: usize = trees.iter().map(|tree| tree.found.len()).sum();
    let example = trees.iter().max_by_key(|tree| tree.found.len());
    let example = example.and_then(|tree| Some(tree.root.join(&tree.found.last()?.below)));
    match example {
        Some(example) if total > LIMIT => Err(Error::new(
            Kind::Refused,
            format!("there are {total} protected paths, more than the {LIMIT} that can be held"),
        )
        .because(format!("{} is one of them", escape(example.as_os_str())))
        .hint("name a smaller directory with --project, or remove those that are not needed")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: usize) -> ProtectedTree {
        let path =
            |n| Protected { below: format!("{n}/.envrc").into(), hold: Hold::ReadOnly, reason: "x".into() };
        ProtectedTree {
            root: "/p".into(),
            kind: TreeKind::Files,
            more: Vec::new(),
            parts: Vec::new(),
            home: "/h".into(),
            own: Vec::new(),
            handover_known: Vec::new(),
            found: (0..paths).map(path).collect(),
            channels: Vec::new(),
        }
    }

    #[test]
    fn more_protected_paths_than_can_be_held_refuse_the_launch() {
        assert!(count(&[tree(LIMIT)]).is_ok());
        let error = count(&[tree(LIMIT), tree(1)]).unwrap_err().to_string();
        assert!(error.contains("10001"), "{error}");
    }

    #[test]
    fn a_tree_that_is_not_searched_is_said_and_refused_where_all_must_hold() {
        for (profile, refused) in [
            (Profile::Workspace, false),
            (Profile::Devbox, false),
            (Profile::Strict, true),
            (Profile::Lockdown, true),
        ] {
            let found = Found { unsearched: Some("it is odd".into()), ..Found::default() };
            let mut warnings = Vec::new();
            let result = check(Path::new("/p"), &found, profile, &mut warnings);
            assert_eq!(result.is_err(), refused, "{profile:?}");
            assert_eq!(warnings.len(), usize::from(!refused), "{profile:?}");
        }
    }

    #[test]
    fn a_root_that_cannot_be_listed_is_refused() {
        let found = Found { closed: vec![PathBuf::new()], ..Found::default() };
        assert!(check(Path::new("/p"), &found, Profile::Workspace, &mut Vec::new()).is_err());
    }
}
