//! Registry, CA and proxy settings of the tools' own configuration, without credentials.
use std::ffi::OsString;
use std::path::PathBuf;

/// What is carried of the tools' configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolConfig {
    /// Variables for the jail.
    pub env: Vec<(String, OsString)>,
    /// Files for the private home: the path relative to it, and the text.
    pub files: Vec<(PathBuf, String)>,
    /// Existing files and directories that the settings name and that must be mounted read-only: CA files, find-links.
    pub mounts: Vec<PathBuf>,
    /// The hosts (with a port when it is not the scheme's) of the registries that the settings name.
    pub registries: Vec<String>,
}
