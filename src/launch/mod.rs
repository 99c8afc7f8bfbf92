//! Effects: the only room that starts, mounts and listens.

pub mod protocol;
pub mod warden;
