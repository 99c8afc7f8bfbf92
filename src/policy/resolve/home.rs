//! The private home, the agent's state in it, and the credentials of a real one.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::settings::{HomeMode, Profile, Settings};
use crate::host::agents::{AgentState, StateKind};
use crate::plan::operation::Access;
use crate::policy::Facts;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::Origin;

use super::{host_rule, keeps_state};

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
    let place = Path::new("homes")
        .join(project_name(&facts.project))
        .join(facts.agent.as_ref().map_or("none", |agent| agent.name.0.as_str()));
    let source = match settings.home.value {
        HomeMode::Ephemeral => Source::Tmpfs,
        HomeMode::Persistent => Source::Store(place.join("home"), ""),
    };
    let mut rules = vec![ours(home.to_path_buf(), source, Shape::Directory, settings.home.origin.clone())];
    if let Some(agent) = facts.agent.as_ref().filter(|_| keeps_state(settings)) {
        for state in agent.state.iter().filter(|state| !mixes(state)) {
            rules.extend(state_rules(settings, &place, &agent.name.0, home, state));
        }
    }
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

/// One state path: shared by the agent's projects, but for its executable parts, so that one project's agent cannot plant
/// a hook for another's.
fn state_rules(
    settings: &Settings,
    place: &Path,
    agent: &str,
    home: &Path,
    state: &AgentState,
) -> Vec<FileRule> {
    let origin = settings.state.origin.clone();
    let shape = match state.kind {
        StateKind::Dir => Shape::Directory,
        StateKind::File => Shape::File,
    };
    let shared = Path::new("state").join(agent).join(&state.path);
    let mut rules = vec![ours(home.join(&state.path), Source::Store(shared, ""), shape, origin.clone())];
    for part in &state.exec {
        let own = place.join("settings").join(&state.path).join(part);
        let (shape, content) =
            if looks_like_file(part) { (Shape::File, empty_content(part)) } else { (Shape::Directory, "") };
        rules.push(ours(
            home.join(&state.path).join(part),
            Source::Store(own, content),
            shape,
            origin.clone(),
        ));
    }
    rules
}

/// Whether a rule puts something of ours into the home.
pub(super) fn fills(rule: &FileRule, home: &Path) -> bool {
    rule.dest != home && (rule.tree == Tree::Ours || matches!(rule.source, Source::Content(_)))
}

fn ours(dest: PathBuf, source: Source, shape: Shape, origin: Origin) -> FileRule {
    FileRule { dest, source, shape, access: Access::Writable, tree: Tree::Ours, origin }
}

/// A file that mixes state with executable settings stays in the private home, which is one project's.
fn mixes(state: &AgentState) -> bool {
    state.exec.iter().any(|part| part == ".")
}

fn looks_like_file(part: &str) -> bool {
    Path::new(part).extension().is_some()
}

/// What a new file says, so that its reader finds it valid.
fn empty_content(part: &str) -> &'static str {
    match Path::new(part).extension().and_then(|extension| extension.to_str()) {
        Some("json" | "jsonc") => "{}\n",
        _ => "",
    }
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
