//! What it takes to put the user's terminal back when the supervisor is killed: a note in a memory file that the relay
//! keeps up to date, and that the warden reads once the supervisor is gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{self, Errno, pread, pwrite};
use rustix::termios::{QueueSelector, tcflush};

use super::settings::{Change, Settings};

/// Where the note says whether the terminal is taken, and what of its settings was changed.
const TAKEN: u64 = 0;
/// Where it says whether a query is open, and what switches off what is on: a byte, a length of two bytes, the bytes.
const MODES: u64 = 256;
/// Bytes that such a sequence takes at the most: with everything switched on it is far shorter, which a test says.
pub(super) const LONGEST: usize = 4096;
/// Ends a string or a sequence that was cut off, and does nothing elsewhere.
const END_OF_STRING: &[u8] = b"\x1b\\";

/// The note.
#[derive(Debug)]
pub(super) struct Note(OwnedFd);

impl Note {
    pub(super) fn new() -> io::Result<Self> {
        memfd_create("terminal", MemfdFlags::CLOEXEC).map(Self)
    }

    /// The terminal is taken, and its settings are about to be changed.
    pub(super) fn taken(&self, change: &Change) {
        self.write(TAKEN, &[&[1], change.encode().as_slice()].concat());
    }

    /// The terminal is as it was found.
    pub(super) fn returned(&self) {
        self.write(TAKEN, &[0]);
    }

    /// `off` is what would switch off what is on.
    pub(super) fn modes(&self, off: &[u8], query_open: bool) {
        debug_assert!(off.len() <= LONGEST);
        let length = u16::try_from(off.len()).unwrap_or(u16::MAX).to_le_bytes();
        self.write(MODES, &[&[u8::from(query_open)], length.as_slice(), off].concat());
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        // Without the note nothing but the rescue is lost.
        let _: io::Result<usize> = pwrite(&self.0, bytes, at);
    }
}

impl AsFd for Note {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Puts `terminal` back as `note` says, if it is taken. Settings that somebody has changed since are theirs. A terminal that
/// is blocked is waited for no longer than `patience`, less than a second, and tried again the next time. The caller has
/// SIGTTOU blocked.
pub fn rescue(terminal: BorrowedFd<'_>, note: BorrowedFd<'_>, patience: Duration) {
    let mut taken = [0; 1 + Change::LENGTH];
    if pread(note, &mut taken, TAKEN) != Ok(taken.len()) || taken[0] != 1 {
        return;
    }
    let Some(change) = Change::decode(&taken[1..]) else { return };
    if Settings::of(terminal) == Ok(change.ours) {
        // A terminal that is gone needs nothing.
        let _: io::Result<()> = change.undo(terminal);
    }
    let mut modes = [0; 3 + LONGEST];
    let length = pread(note, &mut modes, MODES).unwrap_or(0);
    let Some(([query_open, low, high], rest)) = modes[..length].split_first_chunk() else { return };
    let off = &rest[..rest.len().min(usize::from(u16::from_le_bytes([*low, *high])))];
    let written =
        off.is_empty() || write(terminal, &[END_OF_STRING, off].concat(), Instant::now() + patience);
    if *query_open == 1 {
        let _: io::Result<()> = tcflush(terminal, QueueSelector::IFlush);
    }
    if written {
        let _: io::Result<usize> = pwrite(note, &[0], TAKEN);
    }
}

/// Whether the terminal took all of `bytes`.
fn write(terminal: BorrowedFd<'_>, bytes: &[u8], deadline: Instant) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::OUT)];
        if !matches!(poll(&mut fds, Some(&timeout)), Ok(1..)) {
            return false;
        }
        // A small piece is taken without blocking by a terminal that shows itself writable.
        match io::write(terminal, &rest[..rest.len().min(256)]) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR | Errno::AGAIN) if !left.is_zero() => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;
    use crate::terminal::class::Classes;
    use crate::terminal::filter::Filter;
    use crate::terminal::table::MODES;

    fn terminal() -> (OwnedFd, OwnedFd) {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        unlockpt(&screen).expect("unlocked");
        let tty = ioctl_tiocgptpeer(&screen, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("its other end");
        (screen, tty)
    }

    fn seen(screen: &OwnedFd) -> Vec<u8> {
        let mut fds = [PollFd::new(screen, PollFlags::IN)];
        let mut bytes = vec![0; 2 * LONGEST];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 })).expect("poll");
        let count = if ready > 0 { io::read(screen, &mut bytes).expect("bytes") } else { 0 };
        bytes.truncate(count);
        bytes
    }

    /// Takes a terminal as the relay does: raw, with a note.
    fn taken(tty: &OwnedFd) -> (Note, Change) {
        let note = Note::new().expect("a note");
        let found = Settings::of(tty).expect("settings");
        let change = Change { found, ours: Settings::raw(tty, &found).expect("raw") };
        note.taken(&change);
        change.ours.apply(tty).expect("raw");
        (note, change)
    }

    #[test]
    fn a_terminal_that_is_taken_is_put_back_once() {
        let (screen, tty) = terminal();
        let (note, change) = taken(&tty);
        note.modes(b"\x1b[?25h", false);
        rescue(tty.as_fd(), note.as_fd(), Duration::ZERO);
        assert_eq!(Settings::of(&tty), Ok(change.found));
        assert_eq!(seen(&screen), b"\x1b\\\x1b[?25h");
        rescue(tty.as_fd(), note.as_fd(), Duration::ZERO);
        assert_eq!(seen(&screen), b"");
    }

    #[test]
    fn a_terminal_that_is_not_taken_is_left_alone() {
        for returned in [false, true] {
            let (screen, tty) = terminal();
            let note = if returned { taken(&tty).0 } else { Note::new().expect("a note") };
            note.modes(b"\x1b[?25h", true);
            note.returned();
            let before = Settings::of(&tty);
            rescue(tty.as_fd(), note.as_fd(), Duration::ZERO);
            assert_eq!((Settings::of(&tty), seen(&screen)), (before, Vec::new()), "returned: {returned}");
        }
    }

    #[test]
    fn settings_that_another_made_since_are_left_alone() {
        let (_screen, tty) = terminal();
        let (note, change) = taken(&tty);
        let mut theirs = change.ours;
        theirs.set_local(LocalModes::ECHOK, !theirs.local().contains(LocalModes::ECHOK));
        theirs.apply(&tty).expect("set");
        rescue(tty.as_fd(), note.as_fd(), Duration::ZERO);
        assert_eq!(Settings::of(&tty), Ok(theirs));
    }

    #[test]
    fn with_everything_switched_on_there_is_room_in_the_note() {
        for classes in [Classes::default(), Classes::danger_unfiltered()] {
            let mut filter = Filter::new(classes);
            let mut on: String =
                MODES.iter().map(|row| format!("\x1b[?{0}h\x1b[?{0}l\x1b[?{0}h", row.number)).collect();
            on += "\x1b[?7l\x1b[?25l\x1b[1;3;4:3;31;42;8m\x1b(0\x1b)0\x1b*0\x1b+0\x0e\x1b=\x1b[4 q\x1b[>4;2m\x1b[2;9r";
            on += "\x1b]8;id=a;http://a\x07\x1b]9;4;1;30\x07\x1b]10;#fff\x07\x1b]11;#fff\x07\x1b]12;#fff\x07";
            for number in 0..400 {
                on += &format!("\x1b]4;{number};#123456\x07\x1b[22;0t\x1b[>31u");
            }
            on += "\x1b[?1049h";
            for _ in 0..400 {
                on += "\x1b[>31u";
            }
            filter.push(on.as_bytes(), &mut Vec::new());
            let off = filter.modes().off();
            assert!(off.len() > 1000 && off.len() <= LONGEST, "{}: {}", off.len(), off.escape_ascii());
        }
    }

    #[test]
    fn a_blocked_terminal_is_tried_again() {
        let (screen, tty) = terminal();
        let (note, change) = taken(&tty);
        io::ioctl_fionbio(&tty, true).expect("not blocking");
        while io::write(&tty, &[b'x'; 256]).is_ok() {}
        note.modes(b"\x1b[?25h", false);
        rescue(tty.as_fd(), note.as_fd(), Duration::ZERO);
        assert_eq!(Settings::of(&tty), Ok(change.found), "the settings need no room");
        while !seen(&screen).is_empty() {}
        rescue(tty.as_fd(), note.as_fd(), Duration::from_millis(200));
        assert!(seen(&screen).ends_with(b"\x1b[?25h"));
    }
}
