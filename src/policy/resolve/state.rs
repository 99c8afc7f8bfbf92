//! What of the agent's state lies in the home, and where it comes from.

use std::path::{Path, PathBuf};

use crate::config::settings::{HomeMode, Profile, Settings, StateMode};
use crate::host::agents::{Agent, AgentState, StateKind};
use crate::plan::operation::Access;
use crate::policy::Facts;
use crate::policy::carry::Carry;
use crate::policy::files::{FileRule, FileRules, Shape, Source, Tree};
use crate::policy::origin::Origin;

use super::home::{ours, place};

/// Where files of settings really are inside: a directory, so that a program can replace one by renaming, which it cannot
/// do to a mount. In the home there are symlinks to them, which are mounts and cannot be replaced.
pub(super) const SETTINGS: &str = "/run/ai-jail-settings";

/// The rules for the agent's state.
pub(super) fn rules(settings: &Settings, facts: &Facts, home: &Path) -> Vec<FileRule> {
    let Some(agent) = &facts.agent else { return Vec::new() };
    let origin = &settings.state.origin;
    match settings.state.value {
        StateMode::Jail => {
            let place = place(facts);
            let kept = agent.state.iter().filter(|state| !state.is_executable());
            kept.flat_map(|state| jail(&place, &agent.name.0, home, state, origin)).collect()
        }
        StateMode::Shared => shared(facts, home, origin),
        StateMode::None if settings.home.value == HomeMode::Persistent => nowhere(agent, home, origin),
        // It goes with the home.
        StateMode::None => Vec::new(),
    }
}

/// What the agent's settings bring along.
pub(super) fn carry(settings: &Settings, facts: &Facts) -> Option<Carry> {
    let agent = facts.agent.as_ref().filter(|agent| !agent.carry.is_empty())?;
    let kept = settings.state.value == StateMode::Jail
        && settings.home.value == HomeMode::Persistent
        && settings.profile.value != Profile::Devbox
        && !facts.user.home_real.starts_with(&facts.project);
    let file = |path: &str| {
        let in_state = agent
            .state
            .iter()
            .any(|state| !state.is_executable() && Path::new(path).starts_with(&state.path));
        Path::new(if in_state { "files" } else { "home" }).join(path)
    };
    kept.then(|| Carry {
        place: place(facts),
        pointer: Path::new("state").join(format!("{}.last", agent.name.0)),
        files: agent.carry.iter().map(|carry| (file(&carry.file), carry.keys.clone())).collect(),
    })
}

/// The files of the private home that a file of another state is mounted over. Its own reader must find them valid later.
pub(super) fn placeholders(
    settings: &Settings,
    facts: &Facts,
    rules: &FileRules,
    home: &Path,
) -> Vec<(PathBuf, &'static str)> {
    if settings.home.value != HomeMode::Persistent {
        return Vec::new();
    }
    let covered = rules.iter().filter(|rule| {
        let leads = matches!(&rule.source, Source::Symlink(target) if target.starts_with(SETTINGS));
        leads && rules.outer(rule).is_some_and(|outer| outer.dest == home)
    });
    covered
        .filter_map(|rule| rule.dest.strip_prefix(home).ok())
        .map(|below| {
            let json = below.extension().is_some_and(|extension| extension == "json");
            (place(facts).join("home").join(below), if json { "{}\n" } else { "" })
        })
        .collect()
}

/// One state path, shared by the agent's projects but for its executable parts, so that one project's agent cannot plant a
/// hook for another's.
fn jail(place: &Path, agent: &str, home: &Path, state: &AgentState, origin: &Origin) -> Vec<FileRule> {
    let shape = match state.kind {
        StateKind::Dir => Shape::Directory,
        StateKind::File => Shape::File,
    };
    let stored = Path::new("state").join(agent).join(&state.path);
    let mut rules = vec![ours(home.join(&state.path), Source::Store(stored, ""), shape, origin.clone())];
    let (files, directories): (Vec<&String>, Vec<&String>) =
        state.exec.iter().partition(|part| state.is_file(part));
    if !files.is_empty() {
        let own = Source::Store(place.join("files").join(&state.path), "");
        rules.push(ours(Path::new(SETTINGS).join(&state.path), own, Shape::Directory, origin.clone()));
    }
    for part in files {
        let path = Path::new(&state.path).join(part);
        rules.push(link(home, &path, Tree::Ours, origin));
    }
    for part in directories {
        let path = Path::new(&state.path).join(part);
        let own = Source::Store(place.join("settings").join(&path), "");
        rules.push(ours(home.join(path), own, Shape::Directory, origin.clone()));
    }
    rules
}

/// The user's own. What of it is run is held by the protected paths of its tree.
fn shared(facts: &Facts, home: &Path, origin: &Origin) -> Vec<FileRule> {
    let state = &facts.host_state;
    let mut rules = Vec::new();
    for shown in &state.shown {
        rules.push(FileRule {
            dest: home.join(&shown.path),
            source: Source::Host(shown.source.clone()),
            shape: shown.shape,
            access: shown.access,
            tree: Tree::Theirs,
            origin: origin.clone(),
        });
    }
    for path in &state.own {
        let own = Source::Store(place(facts).join("settings").join(path), "");
        rules.push(ours(home.join(path), own, Shape::Directory, origin.clone()));
    }
    if !state.copies.is_empty() {
        rules.push(settings_of_the_session(origin));
    }
    for copy in &state.copies {
        rules.push(FileRule {
            dest: Path::new(SETTINGS).join(&copy.path),
            source: Source::Content(copy.content.clone()),
            shape: Shape::File,
            access: Access::Writable,
            tree: Tree::Fixed,
            origin: origin.clone(),
        });
        rules.push(link(home, &copy.path, Tree::Theirs, origin));
    }
    rules
}

/// Gone with the session, though the home stays.
fn nowhere(agent: &Agent, home: &Path, origin: &Origin) -> Vec<FileRule> {
    let mut rules = Vec::new();
    for state in &agent.state {
        match state.kind {
            StateKind::Dir => {
                rules.push(ours(home.join(&state.path), Source::Tmpfs, Shape::Directory, origin.clone()))
            }
            StateKind::File => rules.push(link(home, Path::new(&state.path), Tree::Ours, origin)),
        }
    }
    if agent.state.iter().any(|state| state.kind == StateKind::File) {
        rules.push(settings_of_the_session(origin));
    }
    rules
}

fn settings_of_the_session(origin: &Origin) -> FileRule {
    FileRule {
        dest: SETTINGS.into(),
        source: Source::Tmpfs,
        shape: Shape::Directory,
        access: Access::Writable,
        tree: Tree::Fixed,
        origin: origin.clone(),
    }
}

/// A symlink in the home to a file of settings.
fn link(home: &Path, path: &Path, tree: Tree, origin: &Origin) -> FileRule {
    FileRule {
        dest: home.join(path),
        source: Source::Symlink(PathBuf::from(SETTINGS).join(path)),
        shape: Shape::File,
        access: Access::ReadOnly,
        tree,
        origin: origin.clone(),
    }
}
