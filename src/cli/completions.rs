//! `ai-jail completions SHELL`: a completion script.

use clap::Parser;
use clap_complete::Shell;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(
    name = "completions",
    bin_name = "ai-jail completions",
    about = "Print a completion script for a shell to standard output"
)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

impl CompletionsArgs {
    /// The script.
    pub fn script(&self) -> Vec<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "ai-jail", &mut script);
        script
    }
}
