//! The network part of the policy.

/// Placeholder.
#[derive(Debug)]
pub struct NetPolicy {}
