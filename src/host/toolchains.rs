//! Toolchains under the home.
use std::ffi::OsString;
use std::path::PathBuf;

/// A toolchain that this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The row of `presets/toolchains.toml`.
    pub name: String,
    /// Existing directories and files to mount read-only at the same path, free of symlinks.
    pub mounts: Vec<PathBuf>,
    /// Variables to carry.
    pub env: Vec<(String, OsString)>,
}
