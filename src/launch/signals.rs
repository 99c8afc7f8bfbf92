//! The signals that the launcher handles: what each means for the jail.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is to be done about a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The command gets it.
    HandOn(i32),
    /// The jail ends, and the launcher with 128 and this number.
    End(i32),
    /// The user's terminal has another size.
    Resized,
    /// The launcher was asked to stop.
    Suspend,
    /// The launcher was continued.
    Continued,
}

/// Signals that whoever sends them means for the command.
const HANDED_ON: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Signals whose default is to end a process, and that no command expects by way of its launcher. Not among them: those
/// that a fault of our own raises, SIGPIPE and SIGXFSZ, which are ignored, and the two that the C library keeps.
const ENDING: [i32; 10] = [
    libc::SIGALRM,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The installed handlers.
pub(super) struct Signals {
    streams: Vec<(Meaning, Signal)>,
}

impl Signals {
    /// Installs them, in the current tokio runtime. A signal of `ignored` that would end or stop us stays ignored.
    pub(super) fn new(ignored: &[i32]) -> io::Result<Self> {
        let streams = meanings()
            .filter(|(number, meaning)| {
                matches!(meaning, Meaning::Resized | Meaning::Continued) || !ignored.contains(number)
            })
            .map(|(number, meaning)| Ok((meaning, signal(SignalKind::from_raw(number))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Meaning {
        std::future::poll_fn(|context| {
            for (meaning, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*meaning);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn meanings() -> impl Iterator<Item = (i32, Meaning)> {
    let job_control = [
        (libc::SIGWINCH, Meaning::Resized),
        (libc::SIGTSTP, Meaning::Suspend),
        (libc::SIGCONT, Meaning::Continued),
    ];
    let handed_on = HANDED_ON.map(|number| (number, Meaning::HandOn(number)));
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let ending = ENDING.into_iter().chain(real_time).map(|number| (number, Meaning::End(number)));
    handed_on.into_iter().chain(job_control).chain(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_that_can_end_us_has_a_meaning() {
        // Faults, the two that cannot be handled, those that are ignored, the C library's own, and those that end nobody.
        let none = [4, 7, 8, 9, 11, 13, 17, 19, 21, 22, 23, 25, 32, 33];
        for number in 1..=64 {
            let count = meanings().filter(|(known, _)| *known == number).count();
            assert_eq!(count, usize::from(!none.contains(&number)), "signal {number}");
        }
    }
}
