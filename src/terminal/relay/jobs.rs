//! Job control: whether the jail's command is stopped, and how the launcher stops.

use std::fs;
use std::os::fd::AsFd;

use rustix::process::{Pid, Signal, getpgrp, getpid, getsid, kill_current_process_group, kill_process_group};
use rustix::termios::tcgetpgrp;

/// Whether the launcher stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It did, or is about to.
    Stopped,
    /// Nobody could continue it: its process group is orphaned.
    Refused,
}

/// Stops the launcher and whatever else the user's shell sees as the same job. The jail is in another session.
pub(super) fn stop_launcher() -> Stop {
    if is_orphaned() {
        return Stop::Refused;
    }
    match kill_current_process_group(Signal::STOP) {
        Ok(()) => Stop::Stopped,
        Err(_) => Stop::Refused,
    }
}

/// Whether the leader of the foreground process group of the terminal behind `master` is stopped.
pub(super) fn foreground_is_stopped(master: impl AsFd) -> bool {
    tcgetpgrp(master).ok().and_then(Stat::of).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// Sends a signal to the foreground process group of the terminal behind `master`, if there is one.
pub(super) fn signal_foreground(master: impl AsFd, signal: Signal) {
    if let Ok(group) = tcgetpgrp(master) {
        // A group that ended in the meantime needs no signal.
        let _: rustix::io::Result<()> = kill_process_group(group, signal);
    }
}

/// Whether no ancestor in our session, but outside our process group, could continue us: the kernel discards
/// SIGTSTP then, so a command without ai-jail would not stop either.
fn is_orphaned() -> bool {
    let (group, Ok(session)) = (getpgrp(), getsid(None)) else { return true };
    let (group, session) = (group.as_raw_nonzero().get(), session.as_raw_nonzero().get());
    let mut process = getpid();
    // Processes of one job are few; the bound is for a /proc that lies.
    for _ in 0..64 {
        let Some(parent) = Stat::of(process).and_then(|stat| Pid::from_raw(stat.parent)) else { return true };
        let Some(stat) = Stat::of(parent) else { return true };
        if stat.session != session {
            return true;
        }
        if stat.group != group {
            return false;
        }
        process = parent;
    }
    true
}

/// The fields of `/proc/PID/stat` that job control needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    group: i32,
    session: i32,
}

impl Stat {
    fn of(process: Pid) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?)
    }

    /// The command's name is in parentheses and may itself hold parentheses, blanks and any other byte.
    fn parse(stat: &[u8]) -> Option<Self> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_the_state() {
        let stat = Stat::parse(b"7 (x) T 1 1 1) S 3 4 5 0 -1").expect("a stat line");
        assert_eq!(stat, Stat { state: 'S', parent: 3, group: 4, session: 5 });
        assert_eq!(Stat::parse(b"7 (x"), None);
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let stat = Stat::of(getpid()).expect("our own stat");
        assert_eq!(stat.group, getpgrp().as_raw_nonzero().get());
        assert!(matches!(stat.state, 'R' | 'S'));
    }
}
