//! The jail's own terminal.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetwinsize, tcsetattr, tcsetwinsize};

/// Both ends of a pseudo-terminal, closed on exec. The master does not block.
#[derive(Debug)]
pub struct Pty {
    /// Our end.
    pub master: OwnedFd,
    /// The jail's end.
    pub slave: OwnedFd,
}

impl Pty {
    /// Opens a pseudo-terminal with these settings and this size. The slave is opened by its master, never by
    /// a name that could lead elsewhere. Fails with the errno of the system.
    pub fn open(termios: &Termios, size: Winsize) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let slave =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        tcsetattr(&slave, OptionalActions::Now, termios)?;
        tcsetwinsize(&master, size)?;
        Ok(Self { master, slave })
    }
}

/// Gives `to` the size of `from`; the kernel tells the processes of `to` when it changed. A terminal that
/// says nothing about its size changes nothing.
pub(super) fn copy_size(from: impl AsFd, to: impl AsFd) {
    if let Ok(size) = tcgetwinsize(from)
        && tcgetwinsize(&to).is_ok_and(|before| before != size)
        && let Err(error) = tcsetwinsize(&to, size)
    {
        // Only a terminal that is gone refuses, and that is noticed where it is read.
        debug_assert_eq!(error, io::Errno::IO);
    }
}
