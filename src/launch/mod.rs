//! Effects: the only room that starts, mounts and listens.

mod carry;
pub mod doors;
pub mod keeper;
pub mod points;
pub mod protocol;
mod signals;
pub mod start;
pub mod store;
pub mod supervisor;
pub mod warden;

/// After so long the launch is over, and what it took is given back; a command that ends sooner does not wait for that.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(1);
