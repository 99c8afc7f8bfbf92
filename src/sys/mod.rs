//! The only unsafe code: a few system calls that neither rustix nor nix offers as a safe function, with safe faces.
#![allow(unsafe_code)]

pub mod descriptor;
pub mod landlock;
pub mod memory;
pub mod namespace;
pub mod process;
pub mod readiness;
