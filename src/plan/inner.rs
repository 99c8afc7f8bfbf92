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
    /// The current directory in the jail, raw bytes.
    pub cwd: Vec<u8>,
    /// What becomes of the terminal.
    pub terminal: InnerTerminal,
    /// Resource limits, applied to the soft and the hard value alike.
    pub rlimits: Vec<Rlimit>,
    /// The Landlock domain, or why there is none.
    pub landlock: InnerLandlock,
    /// The umask of the command.
    pub umask: u32,
    /// Signals that the launcher found ignored, as `nohup` leaves them: the command ignores them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<i32>,
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
        #[serde(with = "crate::plan::raw::list")]
        writable: Vec<PathBuf>,
    },
}

/// What the stage says over the door when the command does not run. When the command runs, the door closes and nothing was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageReport {
    /// `execve(2)` failed.
    NotExecuted {
        /// The errno.
        errno: i32,
        /// Whether the program is there, so that the exit status is 126 and not 127.
        found: bool,
    },
    /// A step before that failed; the sentence says which and why.
    NotPrepared(String),
}

impl StageReport {
    /// The most bytes that [`encode`](Self::encode) makes.
    pub const MAX_LEN: usize = 1024;

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::NotExecuted { errno, found } => {
                let mut message = vec![b'e'];
                message.extend(errno.to_le_bytes());
                message.push(u8::from(*found));
                message
            }
            Self::NotPrepared(sentence) => {
                let mut message = vec![b'f'];
                message.extend(sentence.bytes().take(Self::MAX_LEN - 1));
                message
            }
        }
    }

    /// The report in `message`, which was read to its end; `None` when it is none.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (kind, rest) = message.split_first()?;
        match kind {
            b'e' => {
                let (found, errno) = rest.split_last()?;
                let errno = i32::from_le_bytes(errno.try_into().ok()?);
                Some(Self::NotExecuted { errno, found: *found != 0 })
            }
            b'f' => Some(Self::NotPrepared(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }

    /// The exit status of the stage: 125, 126 or 127.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotPrepared(_) => 125,
            Self::NotExecuted { found: true, .. } => 126,
            Self::NotExecuted { found: false, .. } => 127,
        }
    }

    /// Why, as the second part of an error: "what; why; what to do".
    pub fn why(&self) -> String {
        match self {
            Self::NotPrepared(sentence) => sentence.clone(),
            Self::NotExecuted { errno: libc::ENOEXEC, .. } => {
                "it is neither a program for this machine nor a script that begins with #!".to_owned()
            }
            Self::NotExecuted { errno: libc::ENOENT, found: true } => {
                "the interpreter or loader that it names is not in the jail".to_owned()
            }
            Self::NotExecuted { errno, .. } => std::io::Error::from_raw_os_error(*errno).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_door() {
        for (report, exit_code) in [
            (StageReport::NotExecuted { errno: libc::EACCES, found: true }, 126),
            (StageReport::NotExecuted { errno: libc::ENOENT, found: false }, 127),
            (StageReport::NotPrepared("no".to_owned()), 125),
        ] {
            assert_eq!(StageReport::decode(&report.encode()), Some(report.clone()));
            assert_eq!(report.exit_code(), exit_code);
            assert!(!report.why().is_empty());
        }
        let long = StageReport::NotPrepared("ä".repeat(2000)).encode();
        assert_eq!(long.len(), StageReport::MAX_LEN);
        assert!(StageReport::decode(&long).is_some());
    }

    #[test]
    fn other_messages_are_no_reports() {
        for message in [&b""[..], b"g", b"e", b"e1234", b"e123456", b"x12345"] {
            assert_eq!(StageReport::decode(message), None, "{message:?}");
        }
    }
}
