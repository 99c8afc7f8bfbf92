//! Host patterns: what a rule may say, and what it matches.

/// A host pattern of `--allow-host`, `--deny-host` and their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {}
