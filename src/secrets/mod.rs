//! Secrets (TLS-1, TLS-4): a fake inside, the real one put in outside.

mod decode;
mod places;

pub use decode::Decode;
pub use places::{Place, Places};
