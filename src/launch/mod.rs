//! Effects: the only room that starts, mounts and listens.

mod carry;
pub mod keeper;
pub mod protocol;
mod signals;
pub mod start;
pub mod store;
pub mod supervisor;
pub mod warden;
