//! How the terminal goes back: at a stop, and at the end.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::{INCOMING, OUTGOING, State, Worker};
use crate::terminal::relay::input::Seen;
use crate::terminal::relay::screen::ready;

/// How long to wait for a blocked terminal before it is put back or given up.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the end of the output may make no progress.
const DRAIN_STALL: Duration = Duration::from_secs(2);
/// How long to wait for answers to queries before the terminal is put back.
const LINGER: Duration = Duration::from_millis(100);

impl Worker {
    /// Writes the rest of the output and switches off what it has switched on.
    pub(super) fn switch_off(&mut self) {
        self.filter.interrupt(self.links.outgoing.end());
        let deadline = Instant::now() + PATIENCE;
        let written = self.screen.write_until(self.links.outgoing.pending(), deadline);
        self.links.outgoing.consume(written);
        let mut off = Vec::new();
        if !self.links.outgoing.is_empty() {
            // The terminal may be in the middle of a sequence: CAN ends it.
            off.push(0x18);
            self.links.outgoing.clear();
        }
        let modes = self.filter.modes();
        if self.links.plain.is_none() && self.links.suspended.as_ref() != Some(modes) {
            off.extend(modes.off());
            self.links.suspended = Some(modes.clone());
        }
        self.screen.write_until(&off, Instant::now() + PATIENCE);
    }

    /// Waits for answers that may still come, and throws away what is unread then, so that the shell gets none of it.
    /// What the user typed ahead stays when no answer can be among it.
    pub(super) fn linger(&mut self) {
        if self.filter.queries().open() == 0 {
            return;
        }
        let deadline = Instant::now() + LINGER;
        let mut buffer = [0; INCOMING];
        while self.filter.queries().open() > 0 && self.screen.wait_input(deadline) {
            let Ok(count @ 1..) = self.screen.read(&mut buffer) else { break };
            let queries = self.filter.queries();
            self.links.scanner.scan(&buffer[..count], 0, |seen| match seen {
                Seen::Answer => queries.answered(),
                Seen::FenceAnswer => queries.fence_answered(),
                Seen::SuspendKey => {}
            });
        }
        self.screen.flush_input();
    }

    /// The jail has ended: relays what it wrote to the end, unless the terminal does not take it.
    pub(super) fn drain(&mut self) {
        self.slave = None;
        if self.links.state == State::Stopped {
            self.links.state = State::Background;
        }
        if self.links.state == State::Background && self.take_terminal().is_err() {
            self.lose_terminal();
        }
        if self.links.state == State::Background {
            self.make_plain();
        }
        let mut deadline = Instant::now() + DRAIN_STALL;
        loop {
            let ended = self.take_output();
            let before = self.links.outgoing.len();
            if self.links.state != State::Gone {
                let written = self.screen.write_until(self.links.outgoing.pending(), deadline);
                self.links.outgoing.consume(written);
            }
            if self.links.outgoing.len() < before {
                deadline = Instant::now() + DRAIN_STALL;
            }
            if ended || Instant::now() >= deadline {
                break;
            }
            if self.links.outgoing.len() < OUTGOING && !ready(&self.master, PollFlags::IN, Some(deadline)) {
                break;
            }
        }
        self.filter.finish(self.links.outgoing.end());
    }

    pub(super) fn restore(&mut self) {
        if std::mem::replace(&mut self.links.restored, true) {
            return;
        }
        if self.links.state == State::Gone {
            return;
        }
        self.switch_off();
        if self.links.state == State::Running {
            self.linger();
        }
        self.give_back();
    }

    pub(super) fn give_back(&mut self) {
        self.screen.give_back();
        if let Some(shared) = &mut self.shared {
            shared.forget();
        }
    }
}
