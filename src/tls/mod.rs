//! TLS of a session: its own certificate authority for the jail's programs, and the roots that verify the hosts outside.

pub mod ca;
pub mod jks;
pub mod objection;
pub mod roots;
pub mod subject;
