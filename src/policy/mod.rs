//! Pure: what is allowed, and where each rule came from.

pub mod address;
pub mod authority;
pub mod bindings;
pub mod carry;
pub mod env;
pub mod explain;
pub mod files;
pub mod glob;
pub mod host_rule;
pub mod http_rule;
pub mod meant;
pub mod net;
pub mod origin;
mod resolve;
pub mod secrets;
pub mod terminal;
pub mod trust;
pub mod upstream;
pub mod wild;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::settings::{HomeMode, Limits, Profile, Protect, Settings};
use crate::host::agents::Agent;
use crate::host::secrets::SecretFile;
use crate::host::sources::Sources;
use crate::host::state::HostState;
use crate::host::system::SystemMount;
use crate::host::toolchains::InstallRow;
use crate::host::toolconf::defaults::Registry;
use crate::host::user::User;
use crate::plan::operation::{Access, AtLaunch, Hole, Veil};
use crate::plan::seccomp::Debuggers;

use self::bindings::{FileBinding, SecretBinding};
use self::carry::Carry;
use self::files::{FileRule, FileRules};
use self::glob::Below;
use self::net::NetPolicy;
use self::origin::{Origin, Sourced};
use self::secrets::SecretRule;
use self::trust::{Trust, TrustPlaces};

/// What the machine contributes: everything that was read of it for this launch.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Who starts the jail.
    pub user: User,
    /// The launcher's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The variables in the files of `--env-file`, each with the file that counts.
    pub file_variables: BTreeMap<String, PathBuf>,
    /// The project, resolved.
    pub project: PathBuf,
    /// The current directory, resolved; outside the project the command starts in the project.
    pub cwd: PathBuf,
    /// Git directories of the project that lie outside it and were checked to belong to it.
    pub git_outside: Vec<PathBuf>,
    /// The protected paths of every tree that may become writable.
    pub trees: Vec<ProtectedTree>,
    /// The project's files that hold secrets.
    pub secrets: Vec<SecretFile>,
    /// Where the files are that the user names as secrets.
    pub secret_files: Vec<SecretPlace>,
    /// The command as it is started inside.
    pub program: PathBuf,
    /// Its arguments with the zeroth.
    pub argv: Vec<OsString>,
    /// The agent that it is, if any.
    pub agent: Option<Agent>,
    /// What the command needs to start and is not of the system.
    pub needs: Vec<FileRule>,
    /// Toolchains under the home.
    pub toolchains: Vec<FileRule>,
    /// Their variables.
    pub toolchain_variables: Vec<(String, OsString)>,
    /// What else is shown: terminal descriptions, CA files that tools are configured with.
    pub shown: Vec<FileRule>,
    /// The hosts that the tools fetch packages from, when they are asked for.
    pub registries: Vec<Registry>,
    /// Registry, CA and proxy settings of the tools, as variables.
    pub tool_variables: Vec<(String, OsString)>,
    /// The same as files of the home: the path below it, and the text.
    pub tool_files: Vec<(PathBuf, String)>,
    /// The system.
    pub system: Vec<SystemMount>,
    /// Git settings that are carried.
    pub git_config: Vec<(String, String)>,
    /// Grants whose sources exist: the spec, what it resolves to, and what that is.
    pub grants: Vec<Grant>,
    /// Sockets and devices of the host that were named.
    pub things: Things,
    /// The user's directories that are shown: the project, its git directories outside, grants.
    pub shown_trees: Vec<PathBuf>,
    /// What `devbox` opens: the directories of the root, less /data and virtual file systems.
    pub devbox_roots: Vec<PathBuf>,
    /// Entries of the launcher's PATH that exist, absolute, as they are written there.
    pub path_entries: Vec<PathBuf>,
    /// The highest Landlock ABI of the kernel, if there is one.
    pub landlock_abi: Option<i32>,
    /// The trust bundle of a jail in whose TLS nobody looks.
    pub trust: Trust,
    /// Where the roots are.
    pub trust_places: TrustPlaces,
    /// The host's resolv.conf, for the open network.
    pub resolv_conf: Option<String>,
    /// What is covered wherever a rule shows it.
    pub covers: Vec<Cover>,
    /// The user's `deny` and `mask`.
    pub asked: Vec<Asked>,
    /// The agent's state in the user's real home, when the jail gets that.
    pub host_state: HostState,
    /// Variables that lead tools' installs into the private home.
    pub installs: &'static [InstallRow],
    /// Where tools keep downloads, below the home, when the projects share that.
    pub caches: Vec<PathBuf>,
    /// The sources as they were when they were looked at; the launch mounts these.
    pub sources: Sources,
}

/// Where a file is that the user names as a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPlace {
    /// As it was named, absolute.
    pub named: PathBuf,
    /// The same without symlinks above it.
    pub place: PathBuf,
    /// Where it really is.
    pub real: PathBuf,
}

/// Sockets and devices of the host, with what belongs to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Things {
    /// Where they are shown.
    pub rules: Vec<FileRule>,
    /// What tells programs where they are.
    pub variables: Vec<(String, Sourced<OsString>)>,
    /// What that means.
    pub opened: Vec<Opened>,
}

impl Things {
    /// The sockets, on the host.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.rules.iter().filter_map(|rule| match &rule.source {
            files::Source::Socket(path) => Some(path.as_path()),
            _ => None,
        })
    }
}

/// Something of the host that a jail reaches because it was named.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Opened {
    /// Its name, or the path of a socket.
    pub name: String,
    /// What can be done with it.
    pub opens: String,
    /// Who named it.
    pub origin: Origin,
}

/// A place of the host that no tree shows as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// On the host, its parents free of symlinks.
    pub path: PathBuf,
    /// What it is.
    pub kind: CoverKind,
    /// Why.
    pub reason: String,
}

/// What is covered where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoverKind {
    /// A directory of ai-jail's own: everywhere, and made when it is missing in a writable tree.
    Own,
    /// A place of credentials below the home: in the project and in grants that do not name it.
    Credential,
    /// A file with credentials in a toolchain: in what is shown of toolchains.
    Installed,
    /// A secrets file of the project: everywhere.
    Secret,
    /// A socket or a FIFO of the host: everywhere.
    Channel,
    /// What the user's `deny` and `mask` match: everywhere.
    Asked(Veil, Named),
    /// A symlink on the way to what the user named: it keeps its place, and is not covered.
    Way,
}

/// How the user's `deny` or `mask` came to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// By its name: the directories above it keep their places.
    Literally,
    /// By a glob, a symlink or another name of the same file.
    ByMatch,
}

/// An entry of `deny` or `mask`, as it counts on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What it matches.
    pub matches: Below,
    /// The path that it names, when it names one.
    pub literal: Option<PathBuf>,
    /// As it was written.
    pub text: OsString,
    /// What becomes of what it matches.
    pub veil: Veil,
    /// Where it is from.
    pub origin: Origin,
    /// Whether the path that it names is there.
    pub is_found: bool,
}

impl Asked {
    /// Why something is covered, as a clause.
    pub fn reason(&self) -> String {
        let how = match self.veil {
            Veil::Closed => "denied",
            Veil::Empty => "masked",
        };
        format!("{how} by `{}` ({})", crate::sanitize::escape(&self.text), self.origin)
    }
}

/// How a tree is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeKind {
    /// A project, or a writable grant.
    Files,
    /// A git directory outside the project.
    GitDirectory,
}

/// The protected paths of one tree.
#[derive(Debug, Clone)]
pub struct ProtectedTree {
    /// Its root on the host.
    pub root: PathBuf,
    /// What kind of tree it is.
    pub kind: TreeKind,
    /// Names of an agent preset of the user's that are protected too.
    pub more: Vec<String>,
    /// Names that are protected at the root alone: the executable parts of an agent's state.
    pub parts: Vec<String>,
    /// The user's home, free of symlinks.
    pub home: PathBuf,
    /// ai-jail's own directories, which are not searched.
    pub own: Vec<PathBuf>,
    /// Files that other tools run, load or obey by themselves, below the root.
    pub handover_known: Vec<PathBuf>,
    /// What was found, below the root.
    pub found: Vec<crate::host::protected::Protected>,
    /// The sockets and FIFOs in it.
    pub channels: Vec<crate::host::protected::Channel>,
}

/// A grant that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The source, resolved.
    pub source: PathBuf,
    /// The destination.
    pub dest: PathBuf,
    /// How.
    pub access: Access,
    /// Directory or file.
    pub shape: files::Shape,
    /// Its origin.
    pub origin: Origin,
}

/// A path that is held in a writable tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedPath {
    /// The destination of the rule whose tree holds it.
    pub root: PathBuf,
    /// Below it.
    pub below: PathBuf,
    /// Read-only, or pinned but writable below.
    pub access: Access,
    /// Something of ours is mounted there already; it is held should that come off.
    pub is_covered: bool,
    /// Why.
    pub reason: String,
}

/// A path that is covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The destination of the rule, or of the system's mount, whose tree holds it.
    pub root: PathBuf,
    /// Below it; empty for the whole tree.
    pub below: PathBuf,
    /// On the host.
    pub host: PathBuf,
    /// By what.
    pub veil: Veil,
    /// What a more specific rule shows in it.
    pub holes: Vec<Hole>,
    /// Whether the user's `deny` or `mask` asks for it.
    pub is_asked: bool,
    /// What is shown on top of it: a copy with fakes of secrets.
    pub copy: Option<AtLaunch>,
    /// Why.
    pub reason: String,
}

/// What the jail can reach.
#[derive(Debug, Clone)]
pub enum NetworkRule {
    /// Nothing.
    Off,
    /// Names, through the doors.
    Filtered(Arc<NetPolicy>),
    /// The host's network.
    DangerOpen,
}

/// Which processes the jail's `/proc` shows (KERN-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcView {
    /// A new one: the jail's own.
    Own,
    /// `weaker_nested`: the surrounding container's, read-only, where a new one is forbidden.
    DangerSurrounding,
}

impl ProcView {
    /// What is weaker, for the user.
    pub fn weaker(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::DangerSurrounding => {
                Some("weaker_nested is set: the jail sees the names and arguments of the processes around it")
            }
        }
    }
}

/// The resolved policy.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The profile.
    pub profile: Sourced<Profile>,
    /// The project.
    pub project: PathBuf,
    /// The user.
    pub uid: u32,
    /// The current directory inside.
    pub cwd: PathBuf,
    /// The home inside.
    pub home: PathBuf,
    /// Whether it is kept.
    pub home_mode: Sourced<HomeMode>,
    /// The program, absolute.
    pub program: PathBuf,
    /// Its arguments with the zeroth.
    pub argv: Vec<OsString>,
    /// The agent's preset name, or `None` for any other command.
    pub agent: Option<String>,
    /// The system's files.
    pub system: Vec<SystemMount>,
    /// Made files of `/etc` and `/run`: path and content.
    pub made: Vec<(PathBuf, Vec<u8>)>,
    /// The rules for everything else.
    pub files: FileRules,
    /// What is held in writable trees.
    pub protected: Vec<ProtectedPath>,
    /// What is covered.
    pub hidden: Vec<Hidden>,
    /// The project's files that hold secrets, and what becomes of each.
    pub secrets: Vec<SecretRule>,
    /// The user's `deny` and `mask`.
    pub asked: Vec<Asked>,
    /// ai-jail's own directories that lie in a writable tree, covered there; they have to exist before the launch.
    pub own: Vec<PathBuf>,
    /// Sockets and devices of the host that the jail reaches.
    pub opened: Vec<Opened>,
    /// What the agent's settings bring along from the project where it ran last.
    pub carry: Option<Carry>,
    /// Files below ai-jail's data directory that are mounted over and stay there, with what they say when they are new.
    pub placeholders: Vec<(PathBuf, &'static str)>,
    /// The user's directories that are shown, on the host: sockets that appear there are covered.
    pub shown_trees: Vec<PathBuf>,
    /// The directory below ai-jail's data directory in which the jail finds what was installed inside.
    pub installed: Option<PathBuf>,
    /// Where below ai-jail's data directory the seed is from which fakes of secrets are made; `None` where every
    /// session has its own.
    pub seed: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, Sourced<OsString>>,
    /// The network.
    pub network: NetworkRule,
    /// Variables of which the jail has a fake, or none.
    pub bindings: Vec<SecretBinding>,
    /// Files of which the jail has a copy with fakes, or nothing.
    pub files_bound: Vec<FileBinding>,
    /// The agent's own keys that are set here and of which the jail has nothing, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Debuggers.
    pub debuggers: Debuggers,
    /// The Landlock ABI that is enforced, or `None` where the profile accepts that there is none.
    pub landlock_abi: Option<i32>,
    /// Which processes `/proc` shows.
    pub proc_view: ProcView,
    /// Limits.
    pub limits: Limits,
    /// What the user should know before the launch.
    pub warnings: Vec<String>,
    /// The trust bundle.
    pub trust: Trust,
    /// Where it is found inside.
    pub trust_place: PathBuf,
    /// What was asked for, for `explain`.
    pub settings: Settings,
}

impl Policy {
    /// Whether the user switched protected paths off as a whole.
    pub fn protected_off(&self) -> bool {
        self.settings.protect.value == Protect::DangerOff
    }
}

pub(crate) use self::resolve::etc::ABOUT;
pub use self::resolve::resolve;
