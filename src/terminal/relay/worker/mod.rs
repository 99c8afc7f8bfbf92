//! The relay's thread: one loop over the user's terminal, the master and the supervisor's messages.

mod ending;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{self, Errno};
use rustix::process::Signal;
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

use super::Report;
use super::buffer::Buffer;
use super::control::{Control, Message, signal};
use super::input::{Scanner, Seen};
use super::jobs::{Stop, foreground_is_stopped, signal_foreground};
use super::screen::{Screen, timespec_until};
use super::shared::{Shared, Sharing, end_of_input, inside, may_read};
use super::watch::Watch;
use crate::terminal::filter::Filter;
use crate::terminal::modes::Modes;
use crate::terminal::pty::copy_size;

/// Output that waits for the terminal; beyond it the master is not read, so the jail has to wait.
const OUTGOING: usize = 64 * 1024;
/// Input that waits for the jail.
const INCOMING: usize = 4096;
/// How often to look whether a launcher in the background is in the foreground again: not every shell says so.
const FOREGROUND_CHECK: Duration = Duration::from_millis(250);

/// Who has the user's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// We have: input and output pass.
    Running,
    /// Somebody else; plain output passes, as from any background command.
    Background,
    /// We asked to be stopped and wait to be continued.
    Stopped,
    /// Nobody: it is gone, and output goes nowhere.
    Gone,
}

/// Where the settings of the jail's terminal come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settings {
    Preliminary,
    OfForeground,
}

/// Everything the thread owns. Dropping it puts the terminal back.
pub(super) struct Worker {
    screen: Screen,
    master: OwnedFd,
    /// Held so that the master has no end of file while every process of the jail has its own closed.
    slave: Option<OwnedFd>,
    control: Arc<Control>,
    hung_up: Arc<OwnedFd>,
    filter: Filter,
    /// There when the terminal is not ours alone.
    shared: Option<Shared>,
    stop_launcher: fn() -> Stop,
    /// Whether the last that was typed is the key that interrupts the command.
    interrupted: bool,
    links: Links,
}

/// What passes through the thread.
struct Links {
    state: State,
    outgoing: Buffer,
    incoming: Buffer,
    scanner: Scanner,
    watch: Watch,
    /// Whether the jail's terminal has settings that are the user's, and not those of a shell's line editor
    /// that had the terminal when we were started in the background.
    settings: Settings,
    /// What is to be switched on again when we have the terminal back.
    suspended: Option<Modes>,
    /// What a rescue would find: the modes, and whether a query is open.
    noted: (Modes, bool),
    /// Whether a query is in the output that waits.
    asking: bool,
    /// Takes out of the output what the terminal must not get while it is another's.
    plain: Option<Filter>,
    restored: bool,
}

impl Worker {
    pub(super) fn new(
        (screen, master, slave): (Screen, OwnedFd, OwnedFd),
        (control, hung_up): (Arc<Control>, Arc<OwnedFd>),
        filter: Filter,
        sharing: Sharing,
        stop_launcher: fn() -> Stop,
    ) -> Self {
        let settings = if screen.is_foreground() { Settings::OfForeground } else { Settings::Preliminary };
        let links = Links {
            state: State::Background,
            outgoing: Buffer::default(),
            incoming: Buffer::default(),
            scanner: Scanner::new(),
            watch: Watch::default(),
            settings,
            suspended: None,
            noted: (Modes::default(), false),
            asking: false,
            plain: None,
            restored: false,
        };
        let shared = (sharing == Sharing::Shared).then(Shared::new);
        Self {
            screen,
            master,
            slave: Some(slave),
            control,
            hung_up,
            filter,
            shared,
            stop_launcher,
            interrupted: false,
            links,
        }
    }

    /// Takes the terminal if we are in its foreground. Fails with the errno of the terminal.
    pub(super) fn take_terminal(&mut self) -> io::Result<()> {
        if !self.screen.is_foreground() {
            return Ok(());
        }
        let sharing = if self.shared.is_some() { Sharing::Shared } else { Sharing::Alone };
        match sharing {
            Sharing::Alone => self.screen.take()?,
            Sharing::Shared => self.screen.share()?,
        }
        self.links.state = State::Running;
        self.links.plain = None;
        if self.links.settings == Settings::Preliminary {
            self.links.settings = Settings::OfForeground;
            inside(&self.screen.found()?, sharing).apply(&self.master)?;
        }
        self.follow();
        if let Some(modes) = self.links.suspended.take() {
            let rest = self.links.outgoing.pending().to_vec();
            self.links.outgoing.clear();
            self.links.outgoing.end().extend(modes.on());
            self.links.outgoing.end().extend(rest);
        }
        copy_size(&self.screen, &self.master);
        Ok(())
    }

    /// Relays until the supervisor says that the jail has ended, then puts the terminal back.
    pub(super) fn run(mut self) -> Report {
        loop {
            self.wait();
            let messages = self.control.receive();
            if messages.contains(Message::Finish) {
                break;
            }
            if messages.contains(Message::Hangup) {
                self.lose_terminal();
                signal_foreground(&self.master, Signal::HUP);
                signal_foreground(&self.master, Signal::CONT);
            }
            if messages.contains(Message::Resized) {
                copy_size(&self.screen, &self.master);
            }
            if messages.contains(Message::Suspend) {
                signal_foreground(&self.master, Signal::TSTP);
                self.links.watch.suspend_expected(Instant::now());
            }
            if messages.contains(Message::Continued) {
                self.continued();
            }
            self.relay();
            self.look_for_stop();
        }
        self.drain();
        self.restore();
        Report { interrupted: self.interrupted, ..Report::of(&self.filter) }
    }

    fn wait(&mut self) {
        let links = &self.links;
        let mut user = PollFlags::empty();
        let may_read = self.shared.is_none() || may_read(&self.screen, self.slave.as_ref());
        if links.state == State::Running && links.incoming.is_empty() && may_read {
            user |= PollFlags::IN;
        }
        if matches!(links.state, State::Running | State::Background) && !links.outgoing.is_empty() {
            user |= PollFlags::OUT;
        }
        let mut master = PollFlags::empty();
        if links.state != State::Stopped && links.outgoing.len() < OUTGOING {
            master |= PollFlags::IN;
        }
        if !links.incoming.is_empty() {
            master |= PollFlags::OUT;
        }
        let mut deadline = links.watch.next();
        if links.state == State::Background {
            deadline = Some(deadline.map_or(Instant::now() + FOREGROUND_CHECK, |next| {
                next.min(Instant::now() + FOREGROUND_CHECK)
            }));
        }
        if let (State::Running, Some(shared)) = (links.state, &mut self.shared) {
            let look = Instant::now() + shared.next_look();
            deadline = Some(deadline.map_or(look, |next| next.min(look)));
        }
        let mut fds = vec![PollFd::new(&*self.control, PollFlags::IN), PollFd::new(&self.master, master)];
        if links.state != State::Gone {
            fds.push(PollFd::new(&self.screen, user));
        }
        // Whatever woke us, and be it an error: every descriptor is tried, and none of them blocks.
        let _: io::Result<usize> = poll(&mut fds, deadline.map(timespec_until).as_ref());
        let hung_up = fds.get(2).is_some_and(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR));
        if hung_up && self.screen.is_gone() {
            self.lose_terminal();
        }
    }

    fn relay(&mut self) {
        if self.links.state == State::Background && self.take_terminal().is_err() {
            self.lose_terminal();
        }
        if self.links.state == State::Running {
            self.follow();
            self.take_input();
        }
        self.give_input();
        if self.links.state != State::Stopped {
            self.take_output();
            self.give_output();
        }
    }

    /// A shared terminal gets the settings that the command gave its own.
    fn follow(&mut self) {
        if let Some(shared) = &mut self.shared
            && shared.follow(&mut self.screen, &self.master).is_err()
            && self.screen.is_gone()
        {
            self.lose_terminal();
        }
    }

    fn take_input(&mut self) {
        let may_read = self.shared.is_none() || may_read(&self.screen, self.slave.as_ref());
        if !self.links.incoming.is_empty() || !may_read {
            return;
        }
        let mut buffer = [0; INCOMING];
        let input = match self.screen.read(&mut buffer) {
            Ok(0) if self.shared.is_some() => {
                if self.screen.is_gone() {
                    return self.lose_terminal();
                }
                return self.links.incoming.end().extend(end_of_input(&self.master));
            }
            Ok(count @ 1..) => &buffer[..count],
            _ => return,
        };
        if let Some(shared) = &mut self.shared {
            shared.activity();
        }
        // The slave's settings are read through the master, and may have changed since the last input.
        let termios = tcgetattr(&self.master);
        let suspend = termios.as_ref().map_or(0, |termios| termios.special_codes[SpecialCodeIndex::VSUSP]);
        // On a shared terminal the key makes the signal outside, for everybody.
        self.interrupted = self.shared.is_none()
            && termios.is_ok_and(|termios| {
                let key = termios.special_codes[SpecialCodeIndex::VINTR];
                termios.local_modes.contains(LocalModes::ISIG) && key != 0 && input.last() == Some(&key)
            });
        let now = Instant::now();
        self.links.watch.activity(now);
        let (watch, queries) = (&mut self.links.watch, self.filter.queries());
        self.links.scanner.scan(input, suspend, |seen| match seen {
            Seen::Answer => queries.answered(),
            Seen::FenceAnswer => queries.fence_answered(),
            Seen::SuspendKey => watch.suspend_expected(now),
        });
        self.links.incoming.end().extend_from_slice(input);
    }

    fn give_input(&mut self) {
        while !self.links.incoming.is_empty() {
            match io::write(&self.master, self.links.incoming.pending()) {
                Ok(count @ 1..) => self.links.incoming.consume(count),
                Ok(0) | Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.links.incoming.clear(),
            }
        }
    }

    /// Reads what the jail wrote, as far as there is room. Says whether the jail's side is closed.
    fn take_output(&mut self) -> bool {
        let mut buffer = [0; INCOMING];
        while self.links.outgoing.len() < OUTGOING {
            match io::read(&self.master, &mut buffer) {
                Ok(0) => return true,
                Ok(count) => {
                    self.filter(&buffer[..count]);
                    self.links.watch.activity(Instant::now());
                    if let Some(shared) = &mut self.shared {
                        shared.activity();
                    }
                    if self.links.state == State::Gone {
                        self.links.outgoing.clear();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    fn filter(&mut self, output: &[u8]) {
        let asked = self.filter.queries().asked_in_all();
        match &mut self.links.plain {
            None => self.filter.push(output, self.links.outgoing.end()),
            Some(plain) => {
                let mut passed = Vec::new();
                self.filter.push(output, &mut passed);
                plain.push(&passed, self.links.outgoing.end());
            }
        }
        self.links.asking |= self.filter.queries().asked_in_all() != asked;
        self.note();
    }

    /// Keeps what a rescue goes by up to date.
    fn note(&mut self) {
        let open = self.filter.queries().open() > 0;
        let modes = self.filter.modes();
        if self.links.noted.1 != open || self.links.noted.0 != *modes {
            self.screen.note_modes(&modes.off(), open);
            self.links.noted = (modes.clone(), open);
        }
    }

    /// From here on the terminal gets nothing that would make it answer or change its modes.
    fn make_plain(&mut self) {
        if self.links.plain.is_some() {
            return;
        }
        let mut plain = self.filter.picture_only();
        let pending = self.links.outgoing.pending().to_vec();
        self.links.outgoing.clear();
        plain.push(&pending, self.links.outgoing.end());
        self.links.plain = Some(plain);
    }

    fn give_output(&mut self) {
        // A full-screen program in the background would spoil the user's picture, and whoever reads the terminal would
        // get the answer to a query: it waits for the foreground, as the kernel makes a program wait that changes a
        // terminal's settings there.
        if self.links.state == State::Background
            && (self.filter.modes().any() || self.links.asking)
            && !self.links.outgoing.is_empty()
        {
            if (self.stop_launcher)() == Stop::Stopped {
                self.links.state = State::Stopped;
                return;
            }
            self.make_plain();
        }
        while !self.links.outgoing.is_empty() && self.links.state != State::Gone {
            match self.screen.write(self.links.outgoing.pending()) {
                Ok(count) => self.links.outgoing.consume(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.lose_terminal(),
            }
        }
        self.links.asking = false;
    }

    fn look_for_stop(&mut self) {
        let now = Instant::now();
        let due = self.links.watch.next().is_some_and(|next| next <= now);
        if due
            && self.links.watch.looked(foreground_is_stopped(&self.master), now)
            && matches!(self.links.state, State::Running | State::Background)
        {
            self.suspend();
        }
    }

    /// The command is stopped: the user's shell gets the terminal as it was, if we have it, and the launcher stops too.
    fn suspend(&mut self) {
        self.take_output();
        if self.links.state == State::Running {
            self.switch_off();
            self.linger();
            self.give_back();
        }
        self.links.state = State::Stopped;
        if (self.stop_launcher)() == Stop::Refused {
            self.continued();
        }
    }

    fn continued(&mut self) {
        match self.links.state {
            State::Gone => return,
            // A stop that was not ours: the shell may have changed the settings.
            State::Running if self.screen.is_foreground() => {}
            State::Running | State::Background | State::Stopped => self.links.state = State::Background,
        }
        if self.take_terminal().is_err() {
            return self.lose_terminal();
        }
        signal_foreground(&self.master, Signal::WINCH);
        signal_foreground(&self.master, Signal::CONT);
    }

    fn lose_terminal(&mut self) {
        self.links.state = State::Gone;
        self.links.outgoing.clear();
        signal(&self.hung_up);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.restore();
    }
}
