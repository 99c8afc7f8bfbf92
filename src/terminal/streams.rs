//! What the three standard streams of the user are.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::termios::isatty;

/// What one standard stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// A terminal: the jail gets its own in its place.
    Terminal,
    /// Anything else, or closed: passes as it is.
    Other,
}

/// The three standard streams, looked at one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Descriptor 0.
    pub stdin: Stream,
    /// Descriptor 1.
    pub stdout: Stream,
    /// Descriptor 2.
    pub stderr: Stream,
}

impl Streams {
    /// Looks at descriptors 0 to 2 of this process.
    pub fn detect() -> Self {
        Self {
            stdin: Stream::of(io::stdin().as_fd()),
            stdout: Stream::of(io::stdout().as_fd()),
            stderr: Stream::of(io::stderr().as_fd()),
        }
    }

    /// Whether any of them is a terminal.
    pub fn any_terminal(&self) -> bool {
        [self.stdin, self.stdout, self.stderr].contains(&Stream::Terminal)
    }
}

impl Stream {
    /// What `fd` is.
    pub fn of(fd: BorrowedFd<'_>) -> Self {
        if isatty(fd) { Self::Terminal } else { Self::Other }
    }
}
