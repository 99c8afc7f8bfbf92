//! Whatever was started is ended and reaped, whoever its parent was.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, wait};

use super::Failure;

/// Bubblewrap, and everything that is orphaned below it.
pub(super) struct Reaper {
    /// The kernel's list of our children; opened early, for `/proc` is the jail's once its namespace was entered.
    children: File,
    bwrap: Option<(Child, OwnedFd)>,
    /// Closed last: a stage that is to be killed must not see the end of the door first and complain.
    door: Option<OwnedFd>,
}

impl Reaper {
    pub(super) fn new() -> Result<Self, Failure> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        let children = File::open(format!("/proc/self/task/{tid}/children"))
            .map_err(|error| Failure::new("cannot read the list of our own child processes", error))?;
        Ok(Self { children, bwrap: None, door: None })
    }

    pub(super) fn hold(&mut self, door: OwnedFd) {
        self.door = Some(door);
    }

    pub(super) fn adopt(&mut self, bwrap: Child) -> Result<(), Failure> {
        let pid = Pid::from_child(&bwrap);
        let pidfd = pidfd_open(pid, PidfdFlags::empty());
        // Kept before the check, so that it is ended whatever happens.
        match pidfd {
            Ok(pidfd) => self.bwrap = Some((bwrap, pidfd)),
            Err(error) => {
                let mut bwrap = bwrap;
                let _ = bwrap.kill();
                return Err(Failure::new("cannot watch bubblewrap", error));
            }
        }
        Ok(())
    }

    /// A descriptor that becomes readable when bubblewrap has ended.
    pub(super) fn bwrap(&self) -> Result<BorrowedFd<'_>, Failure> {
        match &self.bwrap {
            Some((_, pidfd)) => Ok(pidfd.as_fd()),
            None => Err(Failure::new("the jail could not be set up", "bubblewrap is not running")),
        }
    }

    /// Bubblewrap's process id.
    pub(super) fn bwrap_pid(&self) -> Option<Pid> {
        self.bwrap.as_ref().map(|(child, _)| Pid::from_child(child))
    }

    /// The exit status of bubblewrap, which has ended: its own, or 128 and the signal's number.
    pub(super) fn bwrap_status(&mut self) -> Result<i32, Failure> {
        let Some((mut child, _)) = self.bwrap.take() else {
            return Err(Failure::new("the jail could not be set up", "bubblewrap is not running"));
        };
        let status = child.wait()?;
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(125))
    }

    /// Kills and reaps until there is no child left. Orphans of a killed child become ours, so this goes on to the last.
    pub(super) fn end_everything(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Err(rustix::io::Errno::INTR) | Ok(Some(_)) => continue,
                Err(_) => break,
                Ok(None) => {}
            }
            self.kill_children();
            if matches!(wait(WaitOptions::empty()), Err(error) if error != rustix::io::Errno::INTR) {
                break;
            }
        }
        self.bwrap = None;
    }

    fn kill_children(&mut self) {
        let mut list = String::new();
        if self.children.rewind().is_err() || self.children.read_to_string(&mut list).is_err() {
            return;
        }
        for pid in list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw)
        {
            // A child cannot be reaped by anyone but us, so its number cannot have become another's.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
