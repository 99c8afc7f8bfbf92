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
        if self.shell != Shell::Bash {
            return script;
        }
        // For a program with a hyphen clap_complete 4.6 names the parts of a bash script in two ways, so that a
        // subcommand's own options are never offered.
        match String::from_utf8(script) {
            Ok(text) => text.replace("ai__subcmd__jail__subcmd__", "ai__jail__subcmd__").into_bytes(),
            Err(error) => error.into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_options_and_subcommands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(CompletionsArgs { shell }.script()).unwrap();
            assert!(script.contains("allow-host") && script.contains("doctor"), "{shell}");
        }
    }

    #[test]
    fn every_state_of_the_bash_script_has_its_case() {
        let script = String::from_utf8(CompletionsArgs { shell: Shell::Bash }.script()).unwrap();
        let states: Vec<&str> =
            script.split("cmd=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(states.contains(&"ai__jail__subcmd__explain"), "{states:?}");
        for state in states.iter().filter(|state| !state.is_empty()) {
            assert!(script.contains(&format!("        {state})\n")), "{state}");
        }
    }
}
