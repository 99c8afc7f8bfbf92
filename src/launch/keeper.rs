//! The supervisor's side of the warden.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::error::{Error, Kind, Result};

use super::protocol::{Reply, Request, pair, receive, send};

/// The hidden first argument that makes this program the warden; the number of its socket follows.
pub const WARDEN: &str = "__warden";

/// A warden that was started and waits.
#[derive(Debug)]
pub struct Keeper {
    socket: OwnedFd,
    child: Child,
}

impl Keeper {
    /// Starts a warden. It is started early, so that it waits and not the launch; it ends by itself when this value, and
    /// so its socket, is dropped.
    pub fn start() -> Result<Self> {
        let (ours, theirs) = pair().map_err(failed)?;
        fcntl_setfd(&theirs, FdFlags::empty()).map_err(|error| failed(error.into()))?;
        let child = Command::new("/proc/self/exe")
            .arg0("ai-jail")
            .arg(WARDEN)
            .arg(theirs.as_raw_fd().to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self { socket: ours, child })
    }

    /// Sends a request.
    pub fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        send(self.socket.as_fd(), request, descriptors).map_err(failed)
    }

    /// Waits at most `deadline` for the next reply.
    pub fn reply(&self, deadline: Duration) -> Result<(Reply, Vec<OwnedFd>)> {
        let timeout = Timespec::try_from(deadline).map_err(|error| failed(io::Error::other(error)))?;
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        loop {
            match poll(&mut polled, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
                Ok(0) => return Err(Error::new(Kind::Setup, "the jail was not ready in time")),
                Ok(_) => return self.next(),
            }
        }
    }

    /// The next reply, which is there or at hand.
    pub fn next(&self) -> Result<(Reply, Vec<OwnedFd>)> {
        match receive(self.socket.as_fd()).map_err(failed)? {
            Some(reply) => Ok(reply),
            None => Err(Error::new(Kind::Setup, "the jail's warden has died")
                .because("everything in the jail was ended with it")),
        }
    }

    /// The socket, to wait on.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Keeper {
    /// Lets a warden go that has said the end: it has nothing left but to exit, and does so when this process has.
    pub fn dismiss(self) {
        // Its socket stays open until then, so that the last to close what is slow to close is the warden.
        std::mem::forget(self);
    }
}

impl Drop for Keeper {
    /// The end of the socket is the order to kill; what is left of the jail is gone when the warden is.
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(Kind::Setup, "the jail's warden cannot be reached").because(error)
}
