//! Pure: what is allowed, and where each rule came from.

pub mod env;
pub mod host_rule;
pub mod origin;
