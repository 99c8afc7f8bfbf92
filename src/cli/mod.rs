//! What was typed: clap types only, one file per subcommand.
