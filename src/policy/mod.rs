//! Pure: what is allowed, and where each rule came from.

pub mod address;
pub mod authority;
pub mod host_rule;
pub mod net;
pub mod origin;
