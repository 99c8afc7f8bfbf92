//! What is known of the agents: data, one file each.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

use super::{Host, read_text};
use crate::error::{Error, Kind, Result};
use crate::policy::origin::{Layer, Origin};
use crate::presets::preset;
use crate::sanitize::escape;

/// The name of an agent preset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, serde::Serialize)]
#[serde(transparent)]
pub struct AgentName(pub String);

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The preset's name, which is also its first command.
    pub name: AgentName,
    /// The agent's name as its maker writes it.
    pub title: String,
    /// The commands that start it.
    pub commands: Vec<String>,
    /// The hosts it asks for.
    #[serde(default, rename = "host")]
    pub hosts: Vec<AgentHost>,
    /// What it keeps below the home.
    #[serde(default)]
    pub state: Vec<AgentState>,
    /// Its keys.
    #[serde(default, rename = "credential")]
    pub credentials: Vec<Credential>,
    /// Variables that are set in the jail: updates and telemetry off.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the user's that the agent is configured by and that choose no destination.
    #[serde(default)]
    pub pass: Vec<String>,
    /// Paths in the project that hold its settings, hooks, skills and commands, relative to any directory.
    #[serde(default)]
    pub protected: Vec<String>,
    /// How to tell it that it is already in a sandbox.
    pub sandboxed: Sandboxed,
    /// Flags and subcommands that resume an earlier session.
    #[serde(default)]
    pub resume: Vec<String>,
    /// What of a project's settings goes along to the agent's other projects.
    #[serde(default)]
    pub carry: Vec<Carry>,
    /// Loopback ports on which its login waits for the browser.
    #[serde(default)]
    pub callback_ports: Vec<u16>,
    /// The user's file that it came from; `None` for one that is compiled in.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// What a host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostUse {
    /// The model API: the only one that `lockdown` allows.
    Model,
    /// The agent does not work fully without it.
    Needed,
    /// Logging in. Allowed.
    Login,
    /// Reports. Not allowed.
    Telemetry,
    /// Looks for a newer version of itself. Not allowed.
    Update,
}

impl HostUse {
    /// Whether such hosts are allowed unless the user says otherwise.
    pub fn allowed_by_default(self) -> bool {
        matches!(self, Self::Model | Self::Needed | Self::Login)
    }
}

/// A host of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHost {
    /// A host pattern.
    pub pattern: String,
    /// What it is for.
    #[serde(rename = "use")]
    pub purpose: HostUse,
    /// The host counts only when the launcher's environment has this variable: the key of one provider of many.
    #[serde(default)]
    pub when_set: Option<String>,
    /// What is asked there.
    pub reason: String,
}

/// Whether a state path is a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// A directory.
    Dir,
    /// A file.
    File,
}

/// Something an agent keeps below the home.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentState {
    /// Relative to the home.
    pub path: String,
    /// Directory or file.
    pub kind: StateKind,
    /// The parts that run programs or tell the agent what to do, relative to `path`; the path itself when it is `"."`
    /// (a file that mixes state with such settings).
    #[serde(default)]
    pub exec: Vec<String>,
    /// Those of `exec` that are files of state as well: with the user's own state the jail gets a copy.
    #[serde(default)]
    pub mixed: Vec<String>,
    /// Those of `exec` that are directories of what a running agent makes for itself: each project has its own.
    #[serde(default)]
    pub transient: Vec<String>,
    /// Files with credentials, relative to `path`.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// Values that an agent asks for once, in a file of JSON that holds executable settings too.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carry {
    /// The file, relative to the home.
    pub file: String,
    /// The keys, with dots where one is in another. None of them may name a program, a path or a host.
    pub keys: Vec<String>,
    /// Why.
    pub reason: String,
}

/// A key of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The variable.
    pub variable: String,
    /// The host patterns that it belongs to.
    pub hosts: Vec<String>,
    /// The header it is sent in, in lower case.
    #[serde(default)]
    pub header: Option<String>,
    /// Variables that tell the agent another URL to send it to.
    #[serde(default)]
    pub urls: Vec<String>,
}

/// How an agent learns that it need not, and cannot, build a sandbox of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandboxed {
    /// Variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// One line for the user, when the agent has only a flag or a setting for it.
    #[serde(default)]
    pub hint: Option<String>,
}

impl AgentState {
    /// Whether all of it is executable: a directory of settings, or a file that mixes them with state.
    pub fn is_executable(&self) -> bool {
        self.exec.iter().any(|part| part == ".")
    }

    /// Whether the executable part of this name is a file: it has an ending, or is a dotfile.
    pub fn is_file(&self, part: &String) -> bool {
        let by_name = Path::new(part).extension().is_some() || part.starts_with('.');
        by_name && !self.transient.contains(part)
    }
}

impl Agent {
    /// Where its rules come from; `what` says which.
    pub fn origin(&self, what: &str) -> Origin {
        let what = format!("agent {}: {what}", self.name.0);
        match &self.file {
            Some(file) => Origin { layer: Layer::User, what, place: Some((file.clone(), 1)) },
            None => Origin::built_in(what),
        }
    }
}

/// One compiled-in file, read when it is first asked for.
struct Preset {
    commands: &'static [&'static str],
    text: &'static str,
    parsed: OnceLock<Option<Agent>>,
}

/// How many there are.
const AGENTS: usize = 14;

macro_rules! presets {
    ($($name:literal: $($command:literal)+;)+) => {
        static PRESETS: [Preset; AGENTS] = [$(Preset {
            commands: &[$($command),+],
            text: preset!(concat!("agents/", $name)),
            parsed: OnceLock::new(),
        }),+];
    };
}

presets! {
    "aider": "aider";
    "amp": "amp";
    "claude": "claude";
    "codex": "codex";
    "copilot": "copilot";
    "crush": "crush";
    "cursor-agent": "cursor-agent";
    "devin": "devin";
    "gemini": "gemini";
    "goose": "goose";
    "grok": "grok";
    "kiro": "kiro" "kiro-cli" "kiro-cli-chat";
    "opencode": "opencode";
    "qwen": "qwen";
}

/// The compiled-in agent that the bare command `name` starts. Reads that agent's file alone.
pub fn for_command(name: &str) -> Option<&'static Agent> {
    PRESETS.iter().find(|preset| preset.commands.contains(&name))?.agent()
}

/// Every compiled-in agent, for `explain` and for the list of protected paths.
pub fn all() -> impl Iterator<Item = &'static Agent> {
    PRESETS.iter().filter_map(Preset::agent)
}

/// The agent that the bare command `name` starts: the user's own preset
/// (`$XDG_CONFIG_HOME/ai-jail/agents/NAME.toml`), else the compiled-in one.
///
/// # Errors
/// When a file of the user's is no agent preset: which, what and where; when the directory cannot be listed.
pub fn find(host: &Host, name: &str) -> Result<Option<Agent>> {
    let dir = host.xdg("XDG_CONFIG_HOME", ".config").join("ai-jail/agents");
    let listed: std::io::Result<Vec<PathBuf>> =
        fs::read_dir(&dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut files: Vec<PathBuf> = match listed {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(Error::new(Kind::Config, format!("{} cannot be listed", escape(&dir)))
                .because(error)
                .hint("make it a directory that you can read, or remove it"));
        }
    };
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    for file in files {
        let fail = |why: String| {
            Error::new(Kind::Config, format!("{} is not an agent preset", file.display())).because(why)
        };
        let text = read_text(&file).ok_or_else(|| fail("it cannot be read as text".into()))?;
        let agent = parse(&text).map_err(|error| fail(error.to_string()))?;
        if agent.commands.iter().any(|command| command == name) {
            return Ok(Some(Agent { file: Some(file), ..agent }));
        }
    }
    Ok(for_command(name).cloned())
}

/// Reads the text of an agent preset.
///
/// # Errors
/// When it is none, its name would not do as the name of a directory, or a path leaves its place.
pub fn parse(text: &str) -> Result<Agent> {
    check(toml::from_str(text).map_err(|error| fail(error.to_string()))?)
}

fn fail(why: String) -> Error {
    Error::new(Kind::Config, "not an agent preset").because(why)
}

/// What a preset may not say, whoever wrote it.
fn check(agent: Agent) -> Result<Agent> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if agent.name.0.is_empty() || !agent.name.0.chars().all(word) {
        return Err(fail("its name may hold lower-case letters, digits and dashes only".into()));
    }
    let state = agent
        .state
        .iter()
        .flat_map(|state| [&state.path].into_iter().chain(&state.exec).chain(&state.secrets));
    for path in state.chain(&agent.protected).chain(agent.carry.iter().map(|carry| &carry.file)) {
        let inner = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if path.is_empty() || !Path::new(path).components().all(inner) {
            return Err(fail(format!("{path:?} is not a path below its place")));
        }
    }
    if agent
        .state
        .iter()
        .any(|state| Path::new(&state.path).components().all(|part| part == Component::CurDir))
    {
        return Err(fail("the home as a whole cannot be state".into()));
    }
    for state in &agent.state {
        let unknown = state.mixed.iter().chain(&state.transient).find(|part| !state.exec.contains(part));
        if let Some(part) = unknown {
            return Err(fail(format!("{part:?} is not in the `exec` of {:?}", state.path)));
        }
    }
    if let Some(carry) = agent.carry.iter().find(|carry| !carry.file.ends_with(".json")) {
        return Err(fail(format!("{:?} is not a file of JSON", carry.file)));
    }
    Ok(agent)
}

impl Preset {
    fn agent(&'static self) -> Option<&'static Agent> {
        self.parsed
            .get_or_init(|| serde_json::from_str(self.text).ok().and_then(|agent| check(agent).ok()))
            .as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::protected;
    use crate::host::tests::machine;
    use crate::policy::host_rule::HostPattern;

    #[test]
    fn every_preset_parses_and_is_found_by_its_commands() {
        for preset in &PRESETS {
            let agent = check(serde_json::from_str(preset.text).unwrap()).unwrap();
            assert_eq!(agent.commands, preset.commands, "{:?}", agent.name);
            for command in preset.commands {
                assert_eq!(for_command(command), Some(&agent));
            }
        }
        assert_eq!(all().count(), PRESETS.len());
    }

    #[test]
    fn paths_are_names_not_commands() {
        for name in ["./claude", "/usr/bin/claude", "Claude", "claude ", ""] {
            assert_eq!(for_command(name), None, "{name:?}");
        }
    }

    #[test]
    fn state_is_relative_and_names_what_runs() {
        for agent in all() {
            for state in &agent.state {
                let parts = std::iter::once(&state.path).chain(&state.exec).chain(&state.secrets);
                for part in parts {
                    assert!(!part.is_empty() && !part.starts_with('/') && !part.contains(".."), "{part}");
                }
                assert!(state.path.starts_with('.'), "{} is hidden", state.path);
            }
            assert!(!agent.state.is_empty(), "{:?} keeps something", agent.name);
        }
    }

    #[test]
    fn credentials_go_only_to_hosts_that_the_agent_is_allowed() {
        for agent in all() {
            let allowed: Vec<_> = agent
                .hosts
                .iter()
                .filter(|host| host.purpose.allowed_by_default())
                .map(|host| host.pattern.as_str())
                .collect();
            for credential in &agent.credentials {
                assert!(!credential.hosts.is_empty(), "{}", credential.variable);
                for host in &credential.hosts {
                    assert!(allowed.contains(&host.as_str()), "{:?}: {host}", agent.name);
                }
            }
            for host in &agent.hosts {
                assert!(HostPattern::parse(&host.pattern).is_ok(), "{}", host.pattern);
                assert!(!host.reason.is_empty(), "{:?}: {}", agent.name, host.pattern);
            }
        }
    }

    #[test]
    fn what_a_preset_protects_is_in_the_table_of_protected_paths() {
        let names: Vec<&String> = protected::TABLE.path.iter().flat_map(|row| &row.names).collect();
        for agent in all() {
            assert!(!agent.protected.is_empty(), "{:?}", agent.name);
            for path in &agent.protected {
                assert!(
                    names.iter().any(|name| Path::new(path).starts_with(name)),
                    "{:?}: {path}",
                    agent.name
                );
            }
        }
    }

    #[test]
    fn what_is_carried_along_runs_nothing_and_leads_nowhere() {
        for carry in all().flat_map(|agent| &agent.carry) {
            assert!(!carry.keys.is_empty() && carry.reason.len() > 8, "{carry:?}");
            for key in &carry.keys {
                let lower = key.to_ascii_lowercase();
                for part in [
                    "mcp",
                    "hook",
                    "command",
                    "permission",
                    "tool",
                    "url",
                    "path",
                    "env",
                    "helper",
                    "project",
                    "trust",
                    "plugin",
                ] {
                    assert!(!lower.contains(part), "{}: {key}", carry.file);
                }
            }
        }
    }

    #[test]
    fn a_preset_never_chooses_where_a_key_goes() {
        for agent in all() {
            let names = agent.env.keys().chain(agent.sandboxed.env.keys()).chain(&agent.pass);
            for name in names {
                for part in ["BASE_URL", "ENDPOINT", "PROXY", "API_KEY", "TOKEN"] {
                    assert!(!name.contains(part), "{:?}: {name}", agent.name);
                }
            }
        }
    }

    const OWN: &str = "name = \"x\"\ntitle = \"X\"\ncommands = [\"x\", \"claude\"]\nsandboxed = {}\n";

    #[test]
    fn a_preset_that_is_none_is_refused() {
        assert!(parse(OWN).is_ok());
        for change in [
            ("sandboxed", "hooks = 1\nsandboxed"),
            ("name = \"x\"", "name = \"../x\""),
            ("name = \"x\"", "name = \"\""),
            ("sandboxed", "protected = [\"../x\"]\nsandboxed"),
            ("sandboxed", "state = [{ path = \"/etc\", kind = \"dir\" }]\nsandboxed"),
            ("sandboxed", "state = [{ path = \".\", kind = \"dir\" }]\nsandboxed"),
            ("sandboxed", "state = [{ path = \".x\", kind = \"dir\", exec = [\"a/../../b\"] }]\nsandboxed"),
            ("sandboxed", "state = [{ path = \".x\", kind = \"dir\", mixed = [\"a.toml\"] }]\nsandboxed"),
            ("sandboxed", "state = [{ path = \".x\", kind = \"dir\", transient = [\"a\"] }]\nsandboxed"),
            ("sandboxed", "carry = [{ file = \"../x.json\", keys = [], reason = \"\" }]\nsandboxed"),
            ("sandboxed", "carry = [{ file = \".x.toml\", keys = [], reason = \"\" }]\nsandboxed"),
        ] {
            let error = parse(&OWN.replace(change.0, change.1)).expect_err(change.1);
            assert_eq!(error.kind(), Kind::Config);
        }
    }

    #[test]
    fn presets_of_the_users_rank_above_those_that_are_compiled_in() {
        let (_dir, host) = machine();
        assert_eq!(find(&host, "claude").unwrap().as_ref(), for_command("claude"));
        let dir = host.user.home.join(".config/ai-jail/agents");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("x.toml"), OWN).unwrap();
        fs::write(dir.join("notes.txt"), "not a preset").unwrap();
        let own = find(&host, "claude").unwrap().unwrap();
        assert_eq!(own.title, "X");
        assert_eq!(own.origin("a host").place, Some((dir.join("x.toml"), 1)));
        assert_eq!(find(&host, "codex").unwrap().as_ref(), for_command("codex"));
        fs::write(dir.join("bad.toml"), "x").unwrap();
        let error = find(&host, "codex").unwrap_err();
        assert!(error.to_string().contains("bad.toml"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "no directory").unwrap();
        let error = find(&host, "codex").unwrap_err();
        assert!(error.to_string().contains("cannot be listed"), "{error}");
    }
}
