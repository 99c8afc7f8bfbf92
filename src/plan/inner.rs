//! What the in-jail stage does between the held door and exec: a value that crosses a descriptor as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden first argument that makes this program the in-jail stage; the numbers of three descriptors follow: the
/// door, the order (a memfd with an [`InnerSpec`]), and the command's standard error.
pub const STAGE: &str = "__inner";

/// The whole order for the stage. Made by `plan`, carried out by `inner`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerSpec {
    /// The program as an absolute path in the jail, raw bytes.
    pub program: Vec<u8>,
    /// The arguments with the zeroth, raw bytes.
    pub argv: Vec<Vec<u8>>,
    /// What becomes of the terminal.
    pub terminal: InnerTerminal,
    /// Resource limits, applied to the soft and the hard value alike.
    pub rlimits: Vec<Rlimit>,
    /// The Landlock domain, or why there is none.
    pub landlock: InnerLandlock,
    /// The umask of the command.
    pub umask: u32,
}

/// Whether the stage takes the foreground of a controlling terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InnerTerminal {
    /// There is none.
    None,
    /// A process group of its own, and the terminal's foreground (descriptors 0 to 2 tell which).
    Foreground,
}

/// One resource limit. Values are those of `setrlimit(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Which.
    pub resource: Resource,
    /// The limit in the resource's own unit.
    pub limit: u64,
}

/// The limits that the plan uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Bytes of a core file.
    Core,
    /// Open descriptors.
    Files,
}

/// The Landlock domain of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InnerLandlock {
    /// The kernel has none and the profile accepts that (said at start).
    Unavailable,
    /// Everything may be read and run; only beneath these paths may anything be written, made, removed, renamed or linked.
    Enforce {
        /// The ABI that `host` found; the domain is built for it exactly and must be fully enforced.
        abi: i32,
        /// Existing paths in the jail, files or directories.
        writable: Vec<PathBuf>,
    },
}
