//! Pure: what will be done, as values.

pub mod inner;
pub mod operation;
pub mod seccomp;
