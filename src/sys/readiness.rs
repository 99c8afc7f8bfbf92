//! Waiting on descriptors that tokio has no type for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `descriptor` to be waited on until it is readable. Must be called in a tokio runtime with I/O.
pub fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the registration owns the descriptor, so its number stays ours until it is deregistered on drop; `OwnedFd`
    // always returns the same number.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.map_err(io::Error::from)
}
