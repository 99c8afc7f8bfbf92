//! Which secrets the jail has fakes of, and at which hosts the real ones are put in.

use std::path::PathBuf;

use crate::policy::host_rule::HostPattern;
use crate::policy::origin::Origin;
use crate::secrets::{Decode, Places};

/// What becomes of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretMode {
    /// The jail has a fake; the real value is put in outside, on the way to its hosts.
    Mask,
    /// The jail does not have it.
    Deny,
}

/// Where a value is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFrom {
    /// The launcher's environment.
    Environment,
    /// A file of `--env-file`.
    File {
        /// The file.
        path: PathBuf,
        /// Whether the launcher's environment has the variable too, which does not count then.
        over_environment: bool,
    },
    /// What this command prints, which is run outside at the launch.
    Command(Vec<String>),
}

/// A variable that is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretBinding {
    /// The variable.
    pub name: String,
    /// What becomes of it.
    pub mode: SecretMode,
    /// Where the real value is put in.
    pub hosts: Vec<HostPattern>,
    /// In which parts of a request.
    pub places: Places,
    /// Where the value is read.
    pub from: ValueFrom,
    /// A command that is run outside at the end, however the jail ended.
    pub revoke: Option<Vec<String>>,
    /// Who says so.
    pub origin: Origin,
}

/// A file that is, or holds, a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBinding {
    /// The file, absolute, on the host as inside.
    pub path: PathBuf,
    /// What becomes of it.
    pub mode: SecretMode,
    /// Where the real values are put in.
    pub hosts: Vec<HostPattern>,
    /// In which parts of a request.
    pub places: Places,
    /// A regular expression whose first group is the secret; `None` when the whole file is it.
    pub extract: Option<String>,
    /// The form of the secret; `None` when nobody says it.
    pub decode: Option<Decode>,
    /// The claims of a token that are fakes as well.
    pub mask_claims: Vec<String>,
    /// Who says so.
    pub origin: Origin,
}
