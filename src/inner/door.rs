//! The held door: one byte out, one byte in, and a report when it comes to nothing.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::failed;
use crate::plan::inner::StageReport;

/// How long the launcher may take between the announcement and the leave. Far above anything seen, since a machine may be suspended
/// or swapping, and short enough that a stage nobody waits for does not stay.
const PATIENCE: Duration = Duration::from_secs(60);
const READY: &[u8] = b"r";
const GO: &[u8] = b"g";

/// The stage's end of the door.
pub struct Door {
    socket: OwnedFd,
    patience: Duration,
}

impl Door {
    /// The door behind `socket`.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, patience: PATIENCE }
    }

    /// Says "ready". The kernel attaches who we are, as the launcher's namespace sees us.
    pub fn announce(&mut self) -> Result<(), StageReport> {
        self.say(READY).map_err(|error| failed("the door", error))
    }

    /// Returns when the launcher says "go"; fails on anything else, at the end of file, and when the launcher takes too long.
    pub fn wait_for_leave(&mut self) -> Result<(), StageReport> {
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // The bound is 60 s, so the conversion cannot fail; without it the wait would have no deadline.
            let timeout = Timespec::try_from(left).map_err(|error| failed("the door", error))?;
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Err(failed("the door", "the launcher did not say go in time")),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("the door", error)),
            }
        }
        // One byte more than "go" has: a longer word is a wrong word.
        let mut word = [0; 2];
        match recv(&self.socket, &mut word[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) if word.get(..len) == Some(GO) => Ok(()),
            Ok((0, _)) => Err(failed("the door", "the launcher is gone")),
            Ok(_) => Err(failed("the door", "the launcher did not say go")),
            Err(error) => Err(failed("the door", error)),
        }
    }

    /// Says why the command does not run.
    pub fn report(&mut self, report: &StageReport) -> rustix::io::Result<()> {
        self.say(&report.encode())
    }

    /// Never blocks: what is said here is far smaller than a socket's buffer.
    fn say(&mut self, message: &[u8]) -> rustix::io::Result<()> {
        match send(&self.socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)? {
            len if len == message.len() => Ok(()),
            _ => Err(Errno::MSGSIZE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair(kind: SocketType) -> (OwnedFd, Door) {
        let (outside, inside) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (outside, Door { socket: inside, patience: Duration::from_millis(200) })
    }

    #[test]
    fn only_go_opens_the_door() {
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            for (word, opens) in [(&b"g"[..], true), (b"x", false), (b"gg", false), (b"G", false)] {
                let (outside, mut door) = pair(kind);
                door.announce().unwrap();
                let mut said = [0; 8];
                assert_eq!(recv(&outside, &mut said[..], RecvFlags::empty()).unwrap().0, 1);
                assert_eq!(&said[..1], READY);
                send(&outside, word, SendFlags::empty()).unwrap();
                assert_eq!(door.wait_for_leave().is_ok(), opens, "{word:?}");
            }
        }
    }

    #[test]
    fn a_launcher_that_is_gone_keeps_the_door_shut() {
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            let (outside, mut door) = pair(kind);
            drop(outside);
            assert!(door.wait_for_leave().is_err());
            assert!(door.announce().is_err());
        }
    }

    #[test]
    fn a_silent_launcher_keeps_the_door_shut() {
        let (_outside, mut door) = pair(SocketType::SEQPACKET);
        let start = Instant::now();
        let report = door.wait_for_leave().unwrap_err();
        assert!(report.why().contains("in time"), "{report:?}");
        assert!(start.elapsed() >= Duration::from_millis(150));
    }
}
