//! A terminal that is shared with the other commands of a pipeline, as `ai-jail x | less` shares it.
//!
//! Such a terminal stays in the mode that the user has it in: it echoes, edits lines and makes signals of keys, for all
//! commands of the pipeline. The jail's terminal leaves that to it (EXTPROC), and what the command changes there - no echo
//! for a password, raw for a pager - is changed on the user's terminal, as a command outside would. It is read line by
//! line, and only while the command has read what came before and nobody else has put it in another mode.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::{self, ioctl_fionread};
use rustix::termios::{LocalModes, OutputModes, SpecialCodeIndex, tcgetattr};

use super::screen::Screen;
use crate::terminal::settings::Settings;

/// Whether the terminal is ours alone while we are in its foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Input and output are the terminal: it is made raw.
    Alone,
    /// Others may use it at the same time.
    Shared,
}

/// The settings and the input of a shared terminal. Nothing tells that the command read its input or changed its settings,
/// so both are looked at: soon after something happened, then less often.
#[derive(Debug)]
pub(super) struct Shared {
    seen: Option<Settings>,
    pause: Duration,
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

impl Shared {
    pub(super) fn new() -> Self {
        Self { seen: None, pause: SHORTEST }
    }

    /// Something was relayed.
    pub(super) fn activity(&mut self) {
        self.pause = SHORTEST;
    }

    /// How long to wait before the next look.
    pub(super) fn next_look(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = LONGEST.min(pause * 2);
        pause
    }

    /// Changes on the user's terminal what the command changed on its own.
    pub(super) fn follow(&mut self, screen: &mut Screen, master: impl AsFd) -> io::Result<()> {
        let mut now = Settings::of(&master)?;
        if self.seen == Some(now) {
            return Ok(());
        }
        let asked = now;
        now.set_local(LocalModes::EXTPROC, true);
        now.set_output(OutputModes::ONLCR, false);
        if now != asked {
            now.apply(&master)?;
        }
        self.seen = Some(now);
        let found = screen.found()?;
        let mut ours = now;
        ours.modes[2] = found.modes[2];
        ours.set_local(LocalModes::EXTPROC, found.local().contains(LocalModes::EXTPROC));
        ours.set_output(OutputModes::ONLCR, found.output().contains(OutputModes::ONLCR));
        screen.set(ours)
    }

    /// The terminal was given back: it will have to be changed again.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }
}

/// What the jail's terminal has for these settings of the user's: lines, echo and line ends are made outside.
pub(super) fn inside(found: &Settings, sharing: Sharing) -> Settings {
    let mut inside = *found;
    if sharing == Sharing::Shared {
        inside.set_local(LocalModes::EXTPROC, true);
        inside.set_output(OutputModes::ONLCR, false);
    }
    inside
}

/// Whether the terminal may be read: it is ours in mode and foreground, and the command has read what it got.
pub(super) fn may_read(screen: &Screen, slave: Option<impl AsFd>) -> bool {
    let read = slave.is_some_and(|slave| ioctl_fionread(slave).is_ok_and(|unread| unread == 0));
    read && screen.is_foreground() && screen.is_as_set()
}

/// What means the end of the input on the jail's terminal, when it reads lines.
pub(super) fn end_of_input(master: impl AsFd) -> Option<u8> {
    let termios =
        tcgetattr(master).ok().filter(|termios| termios.local_modes.contains(LocalModes::ICANON))?;
    Some(termios.special_codes[SpecialCodeIndex::VEOF]).filter(|code| *code != 0)
}
