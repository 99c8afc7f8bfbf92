//! What was asked for, merged over all layers: the input of `policy`. Nothing here has looked at the machine.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use super::secrets::{FileEntry, SecretEntry};
use crate::policy::glob::Glob;
use crate::policy::host_rule::HostPattern;
use crate::policy::http_rule::HttpRules;
use crate::policy::origin::Sourced;
use crate::policy::upstream::UpstreamChoice;
use crate::terminal::Class;

/// The built-in profiles (custom ones resolve to one of these plus values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Daily work: the project is writable.
    Workspace,
    /// Reviews: the project is read-only.
    ReadOnly,
    /// Third-party code: no state, ephemeral home.
    Strict,
    /// Untrusted repositories: nothing widens it.
    Lockdown,
    /// Throw-away machines: nearly everything is open.
    Devbox,
}

/// Whether the private home outlives the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HomeMode {
    /// A tmpfs.
    Ephemeral,
    /// A directory of ours, one per project and agent.
    Persistent,
}

/// Where the agent's own state (login, sessions, caches) lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateMode {
    /// Nowhere: forgotten with the home.
    None,
    /// A place of ours, one per agent.
    Jail,
    /// The user's own, in the real home: what of it is run is read-only.
    Shared,
}

/// Where tools keep what they download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// In the private home, and so apart for each project.
    Project,
    /// In one place of ours for all projects: one can put into it what another one runs.
    Shared,
}

/// What the jail can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// Nothing.
    Off,
    /// The allowed names, through the doors.
    Filtered,
    /// The host's network, unfiltered.
    Open,
}

/// Which TLS connections are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inspect {
    /// Those to hosts with secrets or HTTP rules.
    Needed,
    /// All of them.
    All,
}

/// What becomes of a TLS handshake that hides its host's name (encrypted ClientHello).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ech {
    /// It is cut: the name that it hides may be another host's.
    Refuse,
    /// It passes.
    Allow,
}

/// Which of the launcher's variables are inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inherit {
    /// None but what is set by name.
    None,
    /// The allowlist of ENV-1.
    Core,
    /// All but those that run programs or carry secrets.
    All,
}

/// Something of the host that is granted by its name (FS-11): a row of `presets/grants.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Thing {
    /// The user's SSH agent.
    SshAgent,
    /// The container daemon.
    Docker,
    /// The session bus.
    Dbus,
    /// The Wayland compositor.
    Wayland,
    /// The X server.
    X11,
    /// Sound.
    Audio,
    /// Graphics processors.
    Gpu,
    /// Virtual machines.
    Kvm,
}

/// Whether protected paths are held read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protect {
    /// The default.
    Enforce,
    /// `protect = false` in the user's config: the whole layer is off, loudly.
    DangerOff,
}

/// Whether what the command writes to the terminal is filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TerminalFilter {
    /// The default.
    Enforce,
    /// `filter = false` in the user's config: every byte passes as it is, loudly.
    DangerOff,
}

/// What passes to the user's terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalSettings {
    /// The filter as a whole.
    pub filter: Sourced<TerminalFilter>,
    /// Whether each class of [`Class::SWITCHES`] passes.
    pub passes: BTreeMap<Class, Sourced<bool>>,
}

/// A grant as it was written: a host path, and where it shows inside (the same path unless given).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GrantSpec {
    /// The host path, absolute (relative ones are taken from the current directory, `~` is the home).
    pub source: PathBuf,
    /// The path inside, absolute.
    pub dest: PathBuf,
}

/// A variable for the jail: its value, or the launcher's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// The launcher's value, when there is one.
    Pass,
    /// This value.
    Set(String),
}

/// Where `--resolve` sends a host. The port is kept when it is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ResolveTarget {
    /// The address that is dialled.
    pub addr: IpAddr,
    /// The port that is dialled instead of the one that was asked for.
    pub port: Option<u16>,
}

/// Resource limits; `None` means "not asked for".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory (cgroup).
    pub memory: Option<Sourced<u64>>,
    /// Processes and threads (cgroup).
    pub pids: Option<Sourced<u64>>,
    /// Hundredths of one processor: 200 is two processors (cgroup).
    pub cpu_percent: Option<Sourced<u32>>,
    /// Open descriptors per process (rlimit).
    pub files: Option<Sourced<u64>>,
    /// Wall-clock seconds; then the jail is ended.
    pub time_seconds: Option<Sourced<u64>>,
}

/// Everything that was asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The profile.
    pub profile: Sourced<Profile>,
    /// `--project`.
    pub project: Option<Sourced<PathBuf>>,
    /// Read-only grants.
    pub read_only: Vec<Sourced<GrantSpec>>,
    /// Writable grants.
    pub read_write: Vec<Sourced<GrantSpec>>,
    /// Things of the host: who granted each, the last word of the layers; `None` when that was no.
    pub things: BTreeMap<Thing, Option<Sourced<Thing>>>,
    /// Sockets of the host, absolute.
    pub sockets: Vec<Sourced<PathBuf>>,
    /// Globs of what is denied.
    pub deny_files: Vec<Sourced<Glob>>,
    /// Globs of what is masked.
    pub mask_files: Vec<Sourced<Glob>>,
    /// Globs of what is kept readable although it holds secrets.
    pub unmask_files: Vec<Sourced<Glob>>,
    /// Protected paths.
    pub protect: Sourced<Protect>,
    /// The home.
    pub home: Sourced<HomeMode>,
    /// The agent's state.
    pub state: Sourced<StateMode>,
    /// Whether toolchains under the host's home are mounted.
    pub toolchains: Sourced<bool>,
    /// Download caches.
    pub caches: Sourced<CacheMode>,
    /// The base of the environment.
    pub inherit: Sourced<Inherit>,
    /// Whether variables whose names look like secrets may be inherited.
    pub ignore_default_excludes: Sourced<bool>,
    /// Case-insensitive globs of names that are dropped.
    pub env_exclude: Vec<Sourced<String>>,
    /// Case-insensitive globs; when not empty only these names are kept.
    pub env_include_only: Vec<Sourced<String>>,
    /// Named variables.
    pub env: BTreeMap<String, Sourced<EnvValue>>,
    /// The network.
    pub network: Sourced<NetworkMode>,
    /// Allowed hosts.
    pub allow: Vec<Sourced<HostPattern>>,
    /// Denied hosts; deny beats allow.
    pub deny: Vec<Sourced<HostPattern>>,
    /// Hosts whose private addresses may be dialled.
    pub allow_private: Vec<Sourced<String>>,
    /// `--resolve`, by canonical host.
    pub resolve: BTreeMap<String, Sourced<ResolveTarget>>,
    /// The proxy outside.
    pub upstream: Sourced<UpstreamChoice>,
    /// Ports of the host's loopback that are reachable at the jail's.
    pub forward: Vec<Sourced<u16>>,
    /// Ports of the jail's loopback that are reachable at the host's.
    pub publish: Vec<Sourced<u16>>,
    /// HTTP rules of hosts.
    pub http: Vec<Sourced<HttpRules>>,
    /// Which TLS connections are looked into.
    pub inspect: Sourced<Inspect>,
    /// What becomes of a handshake that hides the host's name.
    pub ech: Sourced<Ech>,
    /// Variables that are secrets, as far as they are named.
    pub secrets: BTreeMap<String, SecretEntry>,
    /// Files that are secrets.
    pub secret_files: BTreeMap<PathBuf, FileEntry>,
    /// Files with values of secrets.
    pub env_files: Vec<Sourced<PathBuf>>,
    /// Whether the agent preset's own hosts are allowed.
    pub agent_hosts: Sourced<bool>,
    /// Whether the registries of the tools are allowed.
    pub toolchain_hosts: Sourced<bool>,
    /// Limits.
    pub limits: Limits,
    /// The terminal.
    pub terminal: TerminalSettings,
    /// Whether a log that cannot be written stops the launch.
    pub log_required: Sourced<bool>,
    /// Whether the exit summary is shown.
    pub summary: Sourced<bool>,
    /// Whether unprivileged containers without a new /proc are accepted.
    pub weaker_nested: Sourced<bool>,
    /// Sentences for the user: keys of an untrusted project that were ignored, entries that were skipped.
    pub warnings: Vec<String>,
}
