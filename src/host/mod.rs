//! The one reader of the machine. It changes nothing.
pub mod protected;
