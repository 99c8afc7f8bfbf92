//! `ai-jail explain`: the resolved policy, or why one thing is or is not allowed.

use std::ffi::OsString;

use clap::Parser;

use super::run::RunOptions;

/// What was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Parser)]
#[command(
    name = "explain",
    bin_name = "ai-jail explain",
    about = "Show the resolved policy, or why a path, host, URL or variable is (not) allowed",
    override_usage = "ai-jail explain [--json] [OPTIONS] [PATH|HOST|URL|VAR]... [-- COMMAND [ARGS]...]",
    after_help = "OPTIONS are those of a run, before or after the word explain: the answer is about that run. \
                  Without COMMAND it is about a command that is no known agent. \
                  A URL is about GET, unless a method stands before it: \"POST https://HOST/PATH\"."
)]
pub struct ExplainArgs {
    /// Print JSON to standard output.
    #[arg(long)]
    pub json: bool,
    /// The run that is asked about.
    #[command(flatten)]
    pub options: RunOptions,
    /// What to explain; without any, the whole policy.
    #[arg(value_name = "PATH|HOST|URL|VAR")]
    pub targets: Vec<OsString>,
    /// The command whose run is asked about.
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}
