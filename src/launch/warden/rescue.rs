//! The user's terminal, when the supervisor was killed and could not put it back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::launch::protocol::{Request, receive};
use crate::terminal::rescue::rescue;

/// How long a supervisor may take to put the terminal back itself; longer than it ever does.
const SUPERVISOR: Duration = Duration::from_secs(60);

/// How long a blocked terminal is waited for.
const BLOCKED: Duration = Duration::from_millis(200);

/// The terminal and the note about it. Neither is ever the jail's.
pub(super) struct Rescue {
    terminal: OwnedFd,
    note: OwnedFd,
}

impl Rescue {
    pub(super) fn new(terminal: OwnedFd, note: OwnedFd) -> Self {
        Self { terminal, note }
    }

    /// Puts the terminal back if the supervisor is gone and the terminal takes it at once.
    pub(super) fn now_if_alone(&self, socket: BorrowedFd<'_>) {
        if has_ended(socket, Duration::ZERO) {
            self.put_back(Duration::ZERO);
        }
    }

    /// Waits until the supervisor is gone, which has put the terminal back by then unless it was killed.
    pub(super) fn after(self, socket: BorrowedFd<'_>) {
        if has_ended(socket, SUPERVISOR) {
            self.put_back(BLOCKED);
        }
    }

    fn put_back(&self, patience: Duration) {
        rescue(self.terminal.as_fd(), self.note.as_fd(), patience);
    }
}

/// Waits until the supervisor is gone, so that its exit does not wait for what this process holds too.
pub(super) fn wait_for_supervisor(socket: BorrowedFd<'_>) {
    has_ended(socket, SUPERVISOR);
}

/// Whether the supervisor's end of the socket is closed, at the latest after `patience`. What it still said is for a jail
/// that is no more.
fn has_ended(socket: BorrowedFd<'_>, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or_default();
        let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(1..) => {}
            _ => return false,
        }
        if !matches!(receive::<Request>(socket), Ok(Some(_))) {
            return true;
        }
    }
}
