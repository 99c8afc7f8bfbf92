//! From what was typed to a plan.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::cli::RunOptions;
use crate::config::command_line::{self, EnvScalars};
use crate::config::layers::{Files, Paths, load};
use crate::config::merge::{Layers, merge};
use crate::config::words::nearest;
use crate::error::{Error, Kind, Result};
use crate::guard::named::Named;
use crate::host::bwrap::Bwrap;
use crate::host::command::{Command, on_path};
use crate::host::git::GitLayout;
use crate::host::project::Project;
use crate::host::secret_sources::Written;
use crate::host::sources::Sources;
use crate::host::survey::survey;
use crate::host::{Host, agents};
use crate::plan::Plan;
use crate::plan::compile::{Context, compile};
use crate::plan::inner::InnerTerminal;
use crate::plan::seccomp::Arch;
use crate::policy::{Policy, ProtectedTree, resolve};
use crate::sanitize::escape;
use crate::terminal::{Stream, Streams};

use super::ahead::Ahead;
use super::masking::check_hosts;

/// The managed policy of this machine.
const MANAGED: &str = "/etc/ai-jail/managed.toml";

/// What is to be run, and under which options.
pub(super) struct Request<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) command: &'a [OsString],
    /// The umask of the launcher, which the command gets.
    pub(super) umask: u32,
    /// The signals that the launcher found ignored, and the command ignores.
    pub(super) ignored: Vec<i32>,
}

/// A policy and its plan, and where our own things are.
pub(super) struct Prepared {
    pub(super) policy: Policy,
    pub(super) plan: Plan,
    pub(super) streams: Streams,
    /// What was held back of sessions whose supervisor was killed. It has been said.
    pub(super) swept: Vec<String>,
    /// What is protected in the writable trees.
    pub(super) trees: Vec<ProtectedTree>,
    /// The project's git directory.
    pub(super) git: Option<GitLayout>,
    /// `$XDG_DATA_HOME/ai-jail`.
    pub(super) data: PathBuf,
    /// `$XDG_STATE_HOME/ai-jail`.
    pub(super) state: PathBuf,
    /// Our own directories that lie in a tree which the jail sees.
    pub(super) covered: Vec<PathBuf>,
    /// What was held when it was looked at.
    pub(super) sources: Sources,
}

/// Reads the machine and the configuration, resolves the policy, compiles the plan. Changes nothing.
pub(super) fn prepare(host: &Host, request: &Request<'_>, ahead: Ahead) -> Result<Prepared> {
    // First: without it nothing else matters, and this is the error that helps.
    let bwrap = Bwrap::find(&host.environment.path_entries())?;
    let cwd = host.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));
    let named = request.options.project.as_deref();
    let project = Project::find(host, named)?;
    let Some((program, _)) = request.command.split_first() else {
        return Err(Error::new(Kind::Usage, "no command was given"));
    };
    // Before the command: a word that an option lacks stands in its place.
    command_line::tables(request.options, &cwd, &host.user.home, &mut Vec::new())?;
    let command = Command::find(host, &project.root, program)?;
    let scalars = EnvScalars::read(
        |name| host.environment.var(name).map(OsString::from),
        host.environment.vars.keys().map(OsString::as_os_str),
    )?;
    let user_file = host.xdg("XDG_CONFIG_HOME", ".config").join("ai-jail/config.toml");
    let paths = Paths {
        user: Some(&user_file),
        project: Some(&project.root),
        managed: Path::new(MANAGED),
        home: &host.user.home,
    };
    let files = load(&paths, request.options, &scalars)?;
    let settings = merge(&Layers {
        options: request.options,
        env: &scalars,
        files: &files,
        agent: command.agent.as_ref().map(|agent| agent.name.0.as_str()),
        command: Path::new(program).file_name().and_then(|name| name.to_str()),
        cwd: &cwd,
        home: &host.user.home,
    })?;
    let mut warnings = misspelt_agents(host, &files, &project.root, program);
    let store = host.xdg("XDG_DATA_HOME", ".local/share").join("ai-jail");
    // Before anything is said of the hosts.
    check_hosts(host, &settings, &Written::new([project.root.clone(), store.clone()]))?;
    let arch = Arch::native().ok_or_else(|| {
        Error::new(Kind::Machine, format!("{} is not supported", std::env::consts::ARCH))
            .because("the table of system calls knows x86_64 and aarch64")
    })?;
    let facts = survey(host, &settings, &project, &command, request.command.to_vec(), &mut warnings)?;
    let state = host.xdg("XDG_STATE_HOME", ".local/state").join("ai-jail");
    Named::of(&state, &facts.project).check(&facts.asked)?;
    let mut policy = resolve(&settings, &facts)?;
    policy.warnings.splice(0..0, warnings);
    let streams = Streams::detect();
    let any_terminal = [streams.stdin, streams.stdout, streams.stderr].contains(&Stream::Terminal);
    let context = Context {
        bwrap: bwrap.path,
        program: own_program()?,
        store,
        seccomp: ahead.program(arch, policy.debuggers)?,
        terminal: if any_terminal { InnerTerminal::Foreground } else { InnerTerminal::None },
        umask: request.umask,
        ignored: request.ignored.clone(),
    };
    let plan = compile(&policy, &context)?;
    Ok(Prepared {
        covered: policy.own.clone(),
        policy,
        plan,
        streams,
        data: context.store,
        swept: Vec::new(),
        trees: facts.trees,
        git: project.git,
        state,
        sources: facts.sources,
    })
}

/// What to say of tables of commands that are nothing, and nearly an agent: what they keep out would be in.
fn misspelt_agents(host: &Host, files: &Files, project: &Path, program: &OsStr) -> Vec<String> {
    let command = Path::new(program).file_name();
    let mut lines = Vec::new();
    for name in files.user.iter().flat_map(|file| file.agents.keys()) {
        let word = OsStr::new(name);
        if command == Some(word)
            || agents::find(host, name).is_ok_and(|agent| agent.is_some())
            || agents::all().any(|agent| agent.name.0 == *name)
        {
            continue;
        }
        let near = nearest(name, agents::all().map(|agent| agent.name.0.as_str()));
        if let Some(near) = near.filter(|_| on_path(host, project, word).is_err()) {
            lines.push(format!(
                "[agents.{}] of your configuration is for a command that is not there; did you mean [agents.{near}]?",
                escape(name)
            ));
        }
    }
    lines
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        Error::new(Kind::Setup, "cannot find ai-jail's own program").because(error).hint("is /proc mounted?")
    })
}
