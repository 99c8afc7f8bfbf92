//! The terminal: a PTY for the jail, a filter on what it writes, and everything put back at the end.
//!
//! [`filter`], [`table`], [`modes`], [`attributes`] and what is saved with the cursor are pure: bytes in, bytes out. [`pty`] and [`relay`] act.

pub mod attributes;
pub mod class;
pub mod filter;
mod keyboard;
pub mod modes;
pub mod pty;
#[expect(clippy::disallowed_methods, reason = "moves bytes between terminals")]
pub mod relay;
#[expect(clippy::disallowed_methods, reason = "waits for a terminal")]
pub mod rescue;
mod saved;
mod settings;
pub mod streams;
pub mod table;

pub use self::class::{Class, Classes, Drops};
pub use self::relay::{Relay, Report, Terminal};
pub use self::streams::{Stream, Streams};
