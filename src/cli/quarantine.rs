//! `ai-jail quarantine`: what was held back.

use clap::{Parser, Subcommand};

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(
    name = "quarantine",
    bin_name = "ai-jail quarantine",
    about = "Show, bring back or remove what appeared in protected places and was held back"
)]
pub struct QuarantineArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: QuarantineAction,
}

/// What to do with what was held back.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum QuarantineAction {
    /// Show what was held back, and where it was.
    List {
        /// Print JSON to standard output.
        #[arg(long)]
        json: bool,
    },
    /// Bring things back to where they were; nothing is overwritten.
    Restore {
        /// A session, or one thing of it (SESSION/NUMBER).
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Remove things for good.
    Drop {
        /// A session, or one thing of it (SESSION/NUMBER).
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}
