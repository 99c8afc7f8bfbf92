//! The `ai-jail` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ai_jail::main(std::env::args_os().collect())
}
