//! The private home, the agent's state in it, and the credentials of a real one.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::settings::{HomeMode, Profile, Settings};
use crate::plan::operation::Access;
use crate::policy::Facts;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::Origin;

use super::{host_rule, state};

/// The home and what of the agent's state lies in it.
pub(super) fn rules(settings: &Settings, facts: &Facts, home: &Path) -> Vec<FileRule> {
    // Devbox shows the real one.
    if settings.profile.value == Profile::Devbox {
        return Vec::new();
    }
    // A home that is, or lies in, the project is shown by the project's own rule.
    if home.starts_with(&facts.project) {
        return Vec::new();
    }
    let source = match settings.home.value {
        HomeMode::Ephemeral => Source::Tmpfs,
        HomeMode::Persistent => Source::Store(place(facts).join("home"), ""),
    };
    let mut rules = vec![ours(home.to_path_buf(), source, Shape::Directory, settings.home.origin.clone())];
    rules.extend(state::rules(settings, facts, home));
    for (path, text) in &facts.tool_files {
        rules.push(FileRule {
            dest: home.join(path),
            source: Source::Content(text.clone().into_bytes()),
            shape: Shape::File,
            access: Access::ReadOnly,
            tree: Tree::Fixed,
            origin: Origin::built_in("the tool's own configuration, without credentials"),
        });
    }
    rules
}

/// What belongs to this project and agent, below ai-jail's data directory.
pub(super) fn place(facts: &Facts) -> PathBuf {
    Path::new("homes")
        .join(project_name(&facts.project))
        .join(facts.agent.as_ref().map_or("none", |agent| agent.name.0.as_str()))
}

/// The seed of the home, beside it.
pub(super) fn seed(settings: &Settings, facts: &Facts) -> Option<PathBuf> {
    (settings.home.value == HomeMode::Persistent).then(|| place(facts).join("seed"))
}

/// The home under the name that `HOME` has outside, where that leads through a symlink (`/home` to `/var/home`).
pub(super) fn other_spelling(settings: &Settings, facts: &Facts) -> Option<FileRule> {
    let (spelled, real) = (&facts.user.home, &facts.user.home_real);
    let apart =
        !spelled.starts_with(real) && !real.starts_with(spelled) && !spelled.starts_with(&facts.project);
    let shown = facts.system.iter().any(|mount| spelled.starts_with(&mount.dest));
    (apart && !shown && settings.profile.value != Profile::Devbox).then(|| FileRule {
        dest: spelled.components().collect(),
        source: Source::Symlink(real.clone()),
        shape: Shape::File,
        access: Access::ReadOnly,
        tree: Tree::Fixed,
        origin: Origin::built_in("the name that HOME has outside"),
    })
}

/// Where programs that are installed inside lie, below the home.
pub(super) const INSTALLED: &str = ".local/jail/bin";

/// The same below ai-jail's data directory; `None` where nothing leads there.
pub(super) fn installed(settings: &Settings, facts: &Facts, home: &Path) -> Option<PathBuf> {
    let kept = settings.home.value == HomeMode::Persistent
        && settings.profile.value != Profile::Devbox
        && !facts.installs.is_empty()
        && !home.starts_with(&facts.project);
    kept.then(|| place(facts).join("home").join(INSTALLED))
}

/// Download caches that the projects share, but for those in a place of the host's.
pub(super) fn caches(facts: &Facts, home: &Path, others: &[FileRule]) -> Vec<FileRule> {
    let own = |dest: &Path| {
        others.iter().any(|rule| rule.dest == home)
            && !others.iter().any(|rule| {
                rule.dest != home && (dest.starts_with(&rule.dest) || rule.dest.starts_with(dest))
            })
    };
    facts
        .caches
        .iter()
        .filter(|cache| own(&home.join(cache)))
        .map(|cache| {
            let source = Source::Store(Path::new("caches").join(cache), "");
            ours(home.join(cache), source, Shape::Directory, Origin::built_in("home.caches = \"shared\""))
        })
        .collect()
}

/// Whether a rule puts something of ours into the home.
pub(super) fn fills(rule: &FileRule, home: &Path) -> bool {
    rule.dest != home && (rule.tree == Tree::Ours || matches!(rule.source, Source::Content(_)))
}

pub(super) fn ours(dest: PathBuf, source: Source, shape: Shape, origin: Origin) -> FileRule {
    FileRule { dest, source, shape, access: Access::Writable, tree: Tree::Ours, origin }
}

/// A name for the project's directories: readable, and unique by its whole path.
pub(super) fn project_name(project: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let digest = Sha256::digest(project.as_os_str().as_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let readable: String = project
        .file_name()
        .map(|name| {
            name.to_string_lossy()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                .take(32)
                .collect()
        })
        .unwrap_or_default();
    format!("{readable}-{short}")
}

/// What `devbox` opens: everything but /data and virtual file systems.
pub(super) fn devbox(facts: &Facts) -> Vec<FileRule> {
    facts
        .devbox_roots
        .iter()
        .map(|root| host_rule(root, Shape::Directory, Access::Writable, Origin::built_in("profile devbox")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_names_differ_by_the_whole_path_and_hold_no_foreign_characters() {
        let (a, b) = (project_name(Path::new("/a/p")), project_name(Path::new("/b/p")));
        assert_ne!(a, b);
        assert!(a.starts_with("p-"));
        assert!(
            project_name(Path::new("/a/\u{1b}[31m p\n"))
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-')
        );
    }
}
