//! `ai-jail [OPTIONS] [--] COMMAND [ARGS]...`: run a command in a jail, the default action.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgAction, Args, Parser, ValueHint};

use crate::config::settings::{HomeMode, Inherit, NetworkMode, Profile, StateMode, Thing};
use crate::config::words::Word;
use crate::report::Verbosity;

/// What was typed to run a command.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(
    name = "ai-jail",
    bin_name = "ai-jail",
    version,
    about = "Run an AI coding agent in a jail that the Linux kernel enforces",
    override_usage = "ai-jail [OPTIONS] [--] COMMAND [ARGS]...\n       ai-jail doctor|explain|quarantine|completions ...",
    after_help = "Options end at COMMAND: what follows belongs to it. `ai-jail -- NAME` runs a program whose name is \
                  one of ours.\nExit status: that of COMMAND; 128+N when signal N ended it; 124 when the time limit ended \
                  it; 125 when the jail could not be set up; 126 when COMMAND cannot be executed; 127 when it is not \
                  found."
)]
pub struct RunArgs {
    /// What is asked of the jail.
    #[command(flatten)]
    pub options: RunOptions,
    /// Show what would be done, and do nothing.
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// With --dry-run: as JSON.
    #[arg(long, requires = "dry_run", help_heading = "Output")]
    pub json: bool,
    /// How much is said.
    #[command(flatten)]
    pub loudness: Loudness,
    /// The command and its arguments.
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        num_args = 1..,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// How much is said on standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Loudness {
    /// Say more.
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
    /// Say nothing at start.
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

impl Loudness {
    /// As the reporter takes it.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

/// What the command line asks of a jail. Nothing is resolved: `config::command_line` reads the values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RunOptions {
    /// The project, mounted writable [default: the git work tree around the current directory, else that directory].
    #[arg(long, value_name = "DIR", help_heading = "Project and files", value_hint = ValueHint::DirPath)]
    pub project: Option<PathBuf>,
    /// Grant a directory or file for reading; DEST is where it shows inside (split at the last `:` before a `/`).
    #[arg(long, value_name = "PATH[:DEST]", action = ArgAction::Append, help_heading = "Project and files",
          value_hint = ValueHint::AnyPath)]
    pub ro: Vec<OsString>,
    /// Grant a directory or file for reading and writing.
    #[arg(long, value_name = "PATH[:DEST]", action = ArgAction::Append, help_heading = "Project and files",
          value_hint = ValueHint::AnyPath)]
    pub rw: Vec<OsString>,
    /// Deny what matches: it cannot be read, written, renamed or listed; a relative glob starts at the project.
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, help_heading = "Project and files",
          value_hint = ValueHint::AnyPath)]
    pub deny: Vec<OsString>,
    /// Show something empty in place of what matches.
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, help_heading = "Project and files",
          value_hint = ValueHint::AnyPath)]
    pub mask: Vec<OsString>,
    /// Keep the private home after the run, or not.
    #[arg(long, value_name = "MODE", value_parser = word::<HomeMode>(), help_heading = "Home")]
    pub home: Option<HomeMode>,
    /// The agent's own state (login, sessions): kept by ai-jail for all its projects, your own one, or kept nowhere.
    #[arg(long, value_name = "MODE", value_parser = word::<StateMode>(), help_heading = "Home")]
    pub state: Option<StateMode>,
    /// What the jail can reach: nothing, the allowed hosts, or everything.
    #[arg(long, value_name = "MODE", value_parser = word::<NetworkMode>(), help_heading = "Network")]
    pub network: Option<NetworkMode>,
    /// Allow a host: NAME, *.NAME, .NAME, an address or CIDR, with :PORT, :PORT-PORT or :* [default ports: 80, 443].
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, help_heading = "Network",
          value_hint = ValueHint::Hostname)]
    pub allow_host: Vec<String>,
    /// Deny a host; this beats every allowance.
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, help_heading = "Network",
          value_hint = ValueHint::Hostname)]
    pub deny_host: Vec<String>,
    /// Let an allowed host have a private address.
    #[arg(long, value_name = "HOST", action = ArgAction::Append, help_heading = "Network",
          value_hint = ValueHint::Hostname)]
    pub allow_private: Vec<String>,
    /// Dial ADDR instead of what HOST resolves to; this does not allow HOST.
    #[arg(long, value_name = "HOST=ADDR[:PORT]", action = ArgAction::Append, help_heading = "Network")]
    pub resolve: Vec<String>,
    /// Reach a port of this machine's loopback at the jail's, for example a database.
    #[arg(long, value_name = "PORT", action = ArgAction::Append, help_heading = "Network")]
    pub forward: Vec<String>,
    /// Reach a port of the jail's loopback at this machine's, for example a development server.
    #[arg(long, value_name = "PORT", action = ArgAction::Append, help_heading = "Network")]
    pub publish: Vec<String>,
    /// Grant something of this machine; what it opens is said at start. Several are separated by commas.
    #[arg(long, value_name = "THING", action = ArgAction::Append, value_delimiter = ',',
          value_parser = word::<Thing>(), help_heading = "Things of this machine")]
    pub grant: Vec<Thing>,
    /// Grant a Unix socket: whatever listens there obeys the jail.
    #[arg(long, value_name = "PATH", action = ArgAction::Append, help_heading = "Things of this machine",
          value_hint = ValueHint::AnyPath)]
    pub socket: Vec<OsString>,
    /// Give the jail a fake of a variable; the real value is put in outside, only on the way to these hosts.
    #[arg(long, value_name = "NAME=HOST[,HOST...]", action = ArgAction::Append, help_heading = "Secrets")]
    pub secret: Vec<String>,
    /// The same for a file that is a token and nothing else; for JSON and the like: extract in [[secrets.files]].
    #[arg(long, value_name = "PATH=HOST[,HOST...]", action = ArgAction::Append, help_heading = "Secrets",
          value_hint = ValueHint::AnyPath)]
    pub secret_file: Vec<OsString>,
    /// Read values of secrets from a file of NAME=VALUE lines that only you can read.
    #[arg(long, value_name = "PATH", action = ArgAction::Append, help_heading = "Secrets",
          value_hint = ValueHint::FilePath)]
    pub env_file: Vec<OsString>,
    /// Set a variable, or pass on the one that is set here.
    #[arg(long, value_name = "NAME[=VALUE]", action = ArgAction::Append, help_heading = "Variables")]
    pub env: Vec<OsString>,
    /// Which variables come along: a list of harmless ones, all but dangerous and secret ones, or none.
    #[arg(long, value_name = "BASE", value_parser = word::<Inherit>(), help_heading = "Variables")]
    pub inherit_env: Option<Inherit>,
    /// The profile to start from [default: workspace].
    #[arg(long, value_name = "NAME", value_parser = word::<Profile>(), help_heading = "Strictness")]
    pub profile: Option<Profile>,
    /// For a repository that is not trusted at all: the same as --profile lockdown.
    #[arg(long, conflicts_with = "profile", help_heading = "Strictness")]
    pub lockdown: bool,
    /// Limit memory=SIZE, pids=N, cpu=PERCENT%, files=N or time=SPAN.
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, help_heading = "Strictness")]
    pub limit: Vec<String>,
    /// Say nothing at the end about what was denied, dropped or handed over; what was moved away is always said.
    #[arg(long, help_heading = "Output")]
    pub no_summary: bool,
}

/// A parser for the words of `T`, which help and completion list.
fn word<T: Word>() -> impl clap::builder::IntoResettable<clap::builder::ValueParser> {
    let parser = PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word))
        .try_map(|text| T::from_word(&text).map_err(|problem| problem.why));
    clap::builder::ValueParser::new(parser)
}
