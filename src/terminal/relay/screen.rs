//! The user's terminal: an open file description of our own, raw or shared while the jail has it, put back as found.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, open};
use rustix::io::{self, Errno, fcntl_dupfd_cloexec};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetattr, tcgetpgrp};

use crate::terminal::rescue::Note;
use crate::terminal::settings::{Change, Settings};

/// As much as a terminal that shows itself writable takes without blocking, but for a nearly full one.
const SMALL_WRITE: usize = 256;

/// Whether a write can block the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    NeverBlock,
    MayBlock,
}

/// The user's terminal.
#[derive(Debug)]
pub(super) struct Screen {
    file: OwnedFd,
    writes: Writes,
    /// What is to be put back, while the terminal is taken.
    change: Option<Change>,
    note: Note,
}

impl Screen {
    /// Opens the terminal that one of `candidates` is open on. O_NONBLOCK belongs to the open file
    /// description, which the user's shell shares, so ours must be another one; where that is refused (a
    /// terminal of another owner) the descriptor itself is used, with small writes.
    pub(super) fn open(candidates: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let own = |path: &str| open(path, flags, Mode::empty());
        let first = *candidates.first().ok_or(Errno::NOTTY)?;
        let file = own(&format!("/proc/self/fd/{}", first.as_raw_fd()));
        // Only for our controlling terminal does tcgetpgrp answer, and only that is behind /dev/tty.
        let file = file.or_else(|error| if tcgetpgrp(first).is_ok() { own("/dev/tty") } else { Err(error) });
        if let Ok(file) = file {
            return Ok(Self { file, writes: Writes::NeverBlock, change: None, note: Note::new()? });
        }
        let both_ways = |fd: &&BorrowedFd<'_>| {
            fcntl_getfl(*fd).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
        };
        let fd = candidates.iter().find(both_ways).ok_or(Errno::ACCESS)?;
        Ok(Self {
            file: fcntl_dupfd_cloexec(fd, 3)?,
            writes: Writes::MayBlock,
            change: None,
            note: Note::new()?,
        })
    }

    /// Whether we may change the terminal and read from it. One that is not our controlling terminal knows no
    /// foreground.
    pub(super) fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.file).map_or(true, |group| group == getpgrp())
    }

    /// Whether the terminal still answers.
    pub(super) fn is_gone(&self) -> bool {
        tcgetattr(&self.file).is_err()
    }

    /// Makes the terminal raw. Doing so again only renews the settings.
    pub(super) fn take(&mut self) -> io::Result<()> {
        let ours = Settings::raw(&self.file, &self.found()?)?;
        self.set(ours)
    }

    /// Takes the terminal as it is.
    pub(super) fn share(&mut self) -> io::Result<()> {
        let ours = self.found()?;
        self.set(ours)
    }

    /// Gives the terminal these settings until it is given back.
    pub(super) fn set(&mut self, ours: Settings) -> io::Result<()> {
        let change = Change { found: self.found()?, ours };
        // Noted first: a kill in between must find it.
        self.note.taken(&change);
        if Settings::of(&self.file)? != ours {
            ours.apply(&self.file)?;
        }
        self.change = Some(change);
        Ok(())
    }

    /// The settings before we changed any.
    pub(super) fn found(&self) -> io::Result<Settings> {
        self.change.map_or_else(|| Settings::of(&self.file), |change| Ok(change.found))
    }

    /// Whether the terminal is taken and nobody has changed its settings since.
    pub(super) fn is_as_set(&self) -> bool {
        self.change.is_some_and(|change| Settings::of(&self.file) == Ok(change.ours))
    }

    /// Puts back the settings that were changed. A terminal that is gone needs none.
    pub(super) fn give_back(&mut self) {
        if let Some(change) = self.change.take() {
            let _: io::Result<()> = change.undo(&self.file);
            self.note.returned();
        }
    }

    /// What switches off what is on, and whether a query is open, for a rescue.
    pub(super) fn note_modes(&self, off: &[u8], query_open: bool) {
        self.note.modes(off, query_open);
    }

    /// The note that a rescue goes by.
    pub(super) fn note(&self) -> BorrowedFd<'_> {
        self.note.as_fd()
    }

    /// Throws away what was typed or answered and not read.
    pub(super) fn flush_input(&self) {
        let _: io::Result<()> = tcflush(&self.file, QueueSelector::IFlush);
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.writes == Writes::MayBlock && !ready(&self.file, PollFlags::IN, Some(Instant::now())) {
            return Err(Errno::AGAIN);
        }
        io::read(&self.file, buffer)
    }

    /// Writes what the terminal takes now.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.writes == Writes::NeverBlock {
            return io::write(&self.file, bytes);
        }
        if !ready(&self.file, PollFlags::OUT, Some(Instant::now())) {
            return Err(Errno::AGAIN);
        }
        io::write(&self.file, &bytes[..bytes.len().min(SMALL_WRITE)])
    }

    /// Writes all of `bytes`, unless the terminal does not take them by `deadline`. Returns how many it took.
    pub(super) fn write_until(&self, bytes: &[u8], deadline: Instant) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if ready(&self.file, PollFlags::OUT, Some(deadline)) => {}
                Err(_) => break,
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        written
    }

    /// Waits until there is something to read, or until `deadline`.
    pub(super) fn wait_input(&self, deadline: Instant) -> bool {
        ready(&self.file, PollFlags::IN, Some(deadline))
    }

    /// Second descriptors of the terminal and the note, for putting it back from elsewhere.
    pub(super) fn rescue(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        Ok((fcntl_dupfd_cloexec(&self.file, 3)?, fcntl_dupfd_cloexec(&self.note, 3)?))
    }
}

impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Waits for `events` on `fd` until `deadline`, for ever without one. An interrupted wait counts as
/// ready, since the next call on the descriptor tells.
pub(super) fn ready(fd: impl AsFd, events: PollFlags, deadline: Option<Instant>) -> bool {
    let timeout = deadline.map(timespec_until);
    let mut fds = [PollFd::new(&fd, events)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(count) => count > 0,
        Err(error) => error == Errno::INTR,
    }
}

/// The time until `deadline`.
pub(super) fn timespec_until(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    let nanoseconds = i64::from(left.subsec_nanos());
    Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: nanoseconds }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    #[test]
    fn a_terminal_that_cannot_be_opened_again_is_not_waited_for() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        unlockpt(&master).expect("unlocked");
        let file =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("its other end");
        let mut screen =
            Screen { file, writes: Writes::MayBlock, change: None, note: Note::new().expect("a note") };
        screen.take().expect("raw");
        assert_eq!(screen.read(&mut [0; 8]), Err(Errno::AGAIN));
        let mut taken = 0;
        while let Ok(count) = screen.write(&[b'x'; SMALL_WRITE])
            && taken < 1 << 20
        {
            taken += count;
        }
        assert!((SMALL_WRITE..1 << 20).contains(&taken), "{taken}");
        let begun = Instant::now();
        assert_eq!(screen.write_until(b"y", begun + Duration::from_millis(50)), 0);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn what_is_no_terminal_is_refused() {
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        let mut screen = Screen {
            file: file.into(),
            writes: Writes::NeverBlock,
            change: None,
            note: Note::new().expect("a note"),
        };
        assert!(screen.take().is_err() && screen.is_gone());
        assert!(Screen::open(&[]).is_err());
    }
}
