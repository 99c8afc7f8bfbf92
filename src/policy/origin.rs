//! Where a value came from: every resolved value remembers its layer, file and line.

use std::fmt;
use std::path::PathBuf;

use crate::sanitize::escape;

/// The layers of configuration, in rising authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Compiled in: presets and profiles.
    BuiltIn,
    /// `.ai-jail.toml` of the project.
    Project,
    /// The user's config file.
    User,
    /// `AI_JAIL_*` of the launcher's environment.
    Environment,
    /// The command line.
    CommandLine,
    /// `/etc/ai-jail/managed.toml`.
    Managed,
}

/// The place a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// What in it: a flag (`--allow-host`), a preset (`agent claude`, `profile strict`) or a key.
    pub what: String,
    /// The file and its one-based line, for layers that are files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<(PathBuf, usize)>,
}

impl Origin {
    /// A value that is compiled in; `what` names the preset or profile.
    pub fn built_in(what: impl Into<String>) -> Self {
        Self { layer: Layer::BuiltIn, what: what.into(), place: None }
    }

    /// A value from the command line; `flag` is its name with the dashes.
    pub fn flag(flag: impl Into<String>) -> Self {
        Self { layer: Layer::CommandLine, what: flag.into(), place: None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.layer) {
            (Some((file, line)), _) => write!(f, "{}:{line} ({})", escape(file), self.what),
            (None, Layer::BuiltIn) => write!(f, "built in ({})", self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// A value and the place it came from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Ties `value` to its `origin`.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
