//! `ai-jail doctor`: what this machine can enforce.

use clap::Parser;

/// What was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Parser)]
#[command(
    name = "doctor",
    bin_name = "ai-jail doctor",
    about = "Show what this machine can enforce, what is missing, and how to fix it"
)]
pub struct DoctorArgs {
    /// Print JSON to standard output.
    #[arg(long)]
    pub json: bool,
}
