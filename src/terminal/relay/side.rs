//! A second terminal, for a stream that is on another one than the rest: `ai-jail command > /dev/pts/7`.
//!
//! It only shows: it gets text and picture, no query and no mode, and nothing is read from it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{self, Errno};
use rustix::termios::{tcgetattr, tcgetwinsize};

use super::Report;
use super::control::{Control, Message};
use super::screen::{Screen, timespec_until};
use super::shared::{Sharing, inside};
use crate::terminal::class::Classes;
use crate::terminal::filter::Filter;
use crate::terminal::pty::Pty;
use crate::terminal::settings::Settings;

/// How long a blocked terminal is waited for before the supervisor is listened to again.
const PIECE: Duration = Duration::from_millis(100);
/// How long the end of the output may make no progress.
const STALL: Duration = Duration::from_secs(2);

/// The other terminal and the jail's end of it.
#[derive(Debug)]
pub(super) struct Side {
    screen: Screen,
    pty: Pty,
}

/// The thread that serves one.
#[derive(Debug)]
pub(super) struct SideRelay {
    control: Arc<Control>,
    thread: JoinHandle<Report>,
    done: Receiver<()>,
}

impl Side {
    /// Fails with the errno of the terminal or the system.
    pub(super) fn open(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let screen = Screen::open(&[stream])?;
        let termios = tcgetattr(&screen)?;
        let pty = Pty::open(&termios, tcgetwinsize(&screen)?)?;
        inside(&Settings::from(&termios), Sharing::Shared).apply(&pty.slave)?;
        Ok(Self { screen, pty })
    }

    pub(super) fn slave(&self) -> BorrowedFd<'_> {
        self.pty.slave.as_fd()
    }

    pub(super) fn start(self, classes: Classes) -> std::io::Result<SideRelay> {
        let control = Arc::new(Control::new()?);
        let (finished, done) = channel();
        let told = Arc::clone(&control);
        let thread = std::thread::Builder::new().name("second terminal".to_owned()).spawn(move || {
            let blocked = SigSet::all().thread_block();
            let report = run(&self.screen, &self.pty.master, self.pty.slave, &told, classes);
            drop((blocked, finished));
            report
        })?;
        Ok(SideRelay { control, thread, done })
    }
}

impl SideRelay {
    /// Relays the rest, for as long as `patience` at most, and tells what was dropped.
    pub(super) fn finish(self, patience: Duration) -> Report {
        self.control.send(Message::Finish);
        match self.done.recv_timeout(patience) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Report::default(),
            _ => self.thread.join().unwrap_or_default(),
        }
    }
}

fn run(screen: &Screen, master: &OwnedFd, slave: OwnedFd, control: &Control, classes: Classes) -> Report {
    let mut filter = Filter::new(classes).picture_only();
    let mut slave = Some(slave);
    let mut out = Vec::new();
    let mut give_up = None;
    let mut ended = false;
    while !ended || !out.is_empty() {
        if out.is_empty() {
            let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(master, PollFlags::IN)];
            // Whatever woke us, every descriptor is tried, and none of them blocks.
            let _: io::Result<usize> = poll(&mut fds, give_up.map(timespec_until).as_ref());
            let mut buffer = [0; 4096];
            match io::read(master, &mut buffer) {
                Ok(count @ 1..) => filter.push(&buffer[..count], &mut out),
                Err(Errno::AGAIN | Errno::INTR) => {}
                _ => ended = true,
            }
            if ended {
                filter.finish(&mut out);
                out.extend(filter.modes().off());
            }
        }
        if control.receive().contains(Message::Finish) {
            // Without our own copy the master ends when the last process of the jail is gone.
            slave = None;
            give_up = Some(Instant::now() + STALL);
        }
        let written = screen.write_until(&out, Instant::now() + PIECE);
        out.drain(..written);
        if written > 0 {
            give_up = give_up.map(|_| Instant::now() + STALL);
        }
        if screen.is_gone() || give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            out.clear();
            ended = ended || slave.is_none();
        }
    }
    Report::of(&filter)
}
