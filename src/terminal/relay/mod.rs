//! The relay between the user's terminal and the jail's, in a thread of its own: a terminal that is blocked
//! blocks nothing else.

mod buffer;
mod control;
mod input;
mod jobs;
mod screen;
mod shared;
mod side;
#[cfg(test)]
mod tests;
mod watch;
mod worker;

use std::io::{stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::termios::{tcgetattr, tcgetpgrp, tcgetwinsize};

use self::control::{Control, Message};
use self::jobs::Stop;
use self::screen::Screen;
use self::shared::Sharing;
use self::side::{Side, SideRelay};
use self::worker::Worker;
use super::class::{Classes, Drops};
use super::filter::{Copies, Filter};
use super::pty::Pty;
use super::rescue::rescue;
use super::settings::Settings;
use super::streams::{Stream, Streams};
use crate::error::{Error, Kind, Result};

/// How long [`Relay::finish`] waits for the thread. It is longer than all waits of the thread together.
const FINISH: Duration = Duration::from_secs(30);

/// The jail's terminal, before the jail has started.
#[derive(Debug)]
pub struct Terminal {
    screen: Screen,
    pty: Pty,
    sharing: Sharing,
    classes: Classes,
    /// For streams that are on another terminal, by their number.
    sides: [Option<Side>; 3],
}

/// The running relay. Dropping it is as good as [`Relay::finish`].
#[derive(Debug)]
pub struct Relay {
    control: Arc<Control>,
    hung_up: Arc<OwnedFd>,
    thread: Option<JoinHandle<Report>>,
    done: Receiver<()>,
    rescue: (OwnedFd, OwnedFd),
    sides: Vec<SideRelay>,
}

/// What the relay has to tell at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What the filter dropped.
    pub drops: Drops,
    /// What was copied to the clipboard.
    pub copies: Copies,
    /// Whether the output ended within a line.
    pub in_line: bool,
    /// Whether the last that the user typed was the key that interrupts the command, on a terminal that is the command's alone.
    pub interrupted: bool,
}

impl Report {
    fn of(filter: &Filter) -> Self {
        Self {
            drops: filter.drops().clone(),
            copies: filter.copies().clone(),
            in_line: filter.is_in_line(),
            interrupted: false,
        }
    }

    fn add_all(&mut self, other: &Self) {
        self.drops.add_all(&other.drops);
        self.copies.add_all(&other.copies);
        self.in_line |= other.in_line;
    }
}

impl Terminal {
    /// Opens a terminal for the jail, of the size and with the settings of the user's, when any of the
    /// `streams` is a terminal. Fails when the system has no pseudo-terminal left, or when the user's terminal
    /// can be opened in no way for reading and writing.
    pub fn open(streams: &Streams, classes: Classes) -> Result<Option<Self>> {
        let (input, output, errors) = (stdin(), stdout(), stderr());
        let all = [
            (streams.stdin, input.as_fd()),
            (streams.stdout, output.as_fd()),
            (streams.stderr, errors.as_fd()),
        ];
        let main = all.into_iter().find(|(stream, _)| *stream == Stream::Terminal);
        let Some(main) = main.map(|(_, fd)| identity(fd)) else { return Ok(None) };
        let is_main =
            |(stream, fd): &(Stream, BorrowedFd<'_>)| *stream == Stream::Terminal && identity(*fd) == main;
        let terminals: Vec<_> = all.into_iter().filter(is_main).map(|(_, fd)| fd).collect();
        let both_ways = is_main(&all[0]) && is_main(&all[1]);
        let sharing = if both_ways { Sharing::Alone } else { Sharing::Shared };
        let mut terminal = Self::open_on(&terminals, sharing, classes)?;
        for (side, stream) in terminal.sides.iter_mut().zip(all) {
            if stream.0 == Stream::Terminal && !is_main(&stream) {
                let opened = Side::open(stream.1);
                *side = Some(opened.map_err(|errno| failed("cannot use the second terminal", errno))?);
            }
        }
        Ok(Some(terminal))
    }

    fn open_on(terminals: &[BorrowedFd<'_>], sharing: Sharing, classes: Classes) -> Result<Self> {
        let screen = Screen::open(terminals).map_err(|errno| {
            failed("cannot open your terminal for reading and writing", errno)
                .hint("run ai-jail in a terminal of your own, or redirect its input, output and errors")
        })?;
        let pty = tcgetattr(&screen)
            .and_then(|termios| {
                let pty = Pty::open(&termios, tcgetwinsize(&screen)?)?;
                shared::inside(&Settings::from(&termios), sharing).apply(&pty.slave)?;
                Ok(pty)
            })
            .map_err(|errno| {
                failed("cannot open a terminal for the jail", errno)
                    .hint("look at /proc/sys/kernel/pty/nr and max, and that /dev/ptmx exists")
            })?;
        Ok(Self { screen, pty, sharing, classes, sides: [None, None, None] })
    }

    /// The jail's end, to be its controlling terminal and every stream that is on the same terminal as the first that is on any.
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.pty.slave.as_fd()
    }

    /// The jail's end for a standard stream that is a terminal, by its number: that of [`Terminal::slave`], or of another
    /// terminal that only shows.
    pub fn slave_for(&self, stream: usize) -> BorrowedFd<'_> {
        self.sides.get(stream).and_then(Option::as_ref).map_or_else(|| self.slave(), Side::slave)
    }

    /// What [`rescue`] needs to put the user's terminal back when this process is killed: the terminal and the note about
    /// it. The note says nothing until [`Terminal::start`] takes the terminal.
    pub fn rescue(&self) -> [BorrowedFd<'_>; 2] {
        [self.screen.as_fd(), self.screen.note()]
    }

    /// Makes the user's terminal raw, if we are in its foreground and input and output are both it, and starts the thread. Call it once the
    /// jail has its own copy of the slave, or before. Fails when the user's terminal refuses or no thread can
    /// be had.
    pub fn start(self) -> Result<Relay> {
        self.start_with(jobs::stop_launcher)
    }

    fn start_with(self, stop_launcher: fn() -> Stop) -> Result<Relay> {
        let cannot = |errno| failed("cannot take over your terminal", errno);
        let control = Arc::new(Control::new().map_err(cannot)?);
        let hung_up = Arc::new(control::event().map_err(cannot)?);
        let rescue = self.screen.rescue().map_err(cannot)?;
        let mut worker = Worker::new(
            (self.screen, self.pty.master, self.pty.slave),
            (Arc::clone(&control), Arc::clone(&hung_up)),
            Filter::new(self.classes),
            self.sharing,
            stop_launcher,
        );
        worker.take_terminal().map_err(cannot)?;
        let (finished, done) = channel();
        let thread = std::thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || {
                // Signals are the supervisor's; and with SIGTTOU blocked, putting the terminal back works
                // from the background too.
                let blocked = SigSet::all().thread_block();
                let report = worker.run();
                drop((blocked, finished));
                report
            })
            .map_err(|error| Error::new(Kind::Setup, "cannot start the terminal's thread").because(error))?;
        let mut relay = Relay { control, hung_up, thread: Some(thread), done, rescue, sides: Vec::new() };
        for side in self.sides.into_iter().flatten() {
            relay.sides.push(side.start(self.classes).map_err(|error| {
                Error::new(Kind::Setup, "cannot start the second terminal's thread").because(error)
            })?);
        }
        Ok(relay)
    }
}

impl Relay {
    /// The user's terminal has another size (SIGWINCH).
    pub fn resized(&self) {
        self.control.send(Message::Resized);
    }

    /// The launcher was asked to stop (SIGTSTP): the command is, and when it has stopped, the launcher stops.
    pub fn suspend_request(&self) {
        self.control.send(Message::Suspend);
    }

    /// The launcher was continued (SIGCONT): the terminal is taken again, once we are in its foreground, and
    /// the command is continued.
    pub fn continued(&self) {
        self.control.send(Message::Continued);
    }

    /// The user's terminal is gone (SIGHUP): the command is told so, and its output goes nowhere.
    pub fn hangup(&self) {
        self.control.send(Message::Hangup);
    }

    /// Readable, and never read by anybody, once the user's terminal is gone: the jail should end.
    pub fn hung_up(&self) -> BorrowedFd<'_> {
        self.hung_up.as_fd()
    }

    /// The jail has ended: relays the rest of its output and puts the terminal back. A terminal that takes
    /// nothing any more for two seconds gets its settings back and loses the rest; half a minute is the most that
    /// this takes.
    pub fn finish(mut self) -> Report {
        self.end()
    }

    fn end(&mut self) -> Report {
        let Some(thread) = self.thread.take() else { return Report::default() };
        self.control.send(Message::Finish);
        if self.done.recv_timeout(FINISH) == Err(RecvTimeoutError::Timeout) {
            let (terminal, note) = &self.rescue;
            rescue(terminal.as_fd(), note.as_fd(), Duration::ZERO);
            return Report::default();
        }
        // A thread that panicked has put the terminal back on its way out, and its counters are lost.
        let mut report = thread.join().unwrap_or_default();
        for side in self.sides.drain(..) {
            report.add_all(&side.finish(FINISH));
        }
        report
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

/// Which terminal this is. `/dev/tty` has a number of its own, whatever terminal it stands for, but only our controlling
/// terminal tells its foreground; that one is 0.
fn identity(fd: BorrowedFd<'_>) -> u64 {
    match tcgetpgrp(fd) {
        Ok(_) => 0,
        Err(_) => fstat(fd).map_or(0, |stat| stat.st_rdev),
    }
}

fn failed(what: &str, errno: Errno) -> Error {
    Error::new(Kind::Setup, what).because(errno)
}
