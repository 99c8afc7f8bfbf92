//! Messages from the supervisor to the relay's thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io;

/// What the supervisor has to say. Saying it twice before it was heard is saying it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Message {
    Resized = 1,
    Suspend = 2,
    Continued = 4,
    Hangup = 8,
    Finish = 16,
}

/// Pending messages and the descriptor that wakes the thread.
#[derive(Debug)]
pub(super) struct Control {
    wake: OwnedFd,
    pending: AtomicU8,
}

/// Messages that were pending together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending(u8);

impl Control {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: event()?, pending: AtomicU8::new(0) })
    }

    pub(super) fn send(&self, message: Message) {
        self.pending.fetch_or(message as u8, Ordering::SeqCst);
        signal(&self.wake);
    }

    pub(super) fn receive(&self) -> Pending {
        let mut count = [0; 8];
        // Nothing to read means that nothing woke us: the messages are looked at all the same.
        let _: io::Result<usize> = io::read(&self.wake, &mut count);
        Pending(self.pending.swap(0, Ordering::SeqCst))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Pending {
    pub(super) fn contains(self, message: Message) -> bool {
        self.0 & message as u8 != 0
    }
}

/// A descriptor that becomes readable with [`signal`].
pub(super) fn event() -> io::Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

pub(super) fn signal(event: &OwnedFd) {
    // It fails only when the counter is full, and then the descriptor is readable already.
    let _: io::Result<usize> = io::write(event, &1_u64.to_ne_bytes());
}
