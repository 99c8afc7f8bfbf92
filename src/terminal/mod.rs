//! The terminal: a PTY for the jail, a filter on what it writes, and everything put back at the end.
//!
//! [`filter`], [`table`] and [`modes`] are pure: bytes in, bytes out. [`pty`] and [`relay`] act.

pub mod attributes;
pub mod class;
pub mod filter;
pub mod modes;
pub mod table;
