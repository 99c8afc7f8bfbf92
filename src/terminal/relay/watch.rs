//! When to look whether the jail's command is stopped. Nothing tells us, and an idle relay has no timer.

use std::time::{Duration, Instant};

/// Looks after a suspend key, in milliseconds after the one before.
const AFTER_KEY: [u64; 7] = [10, 20, 50, 100, 200, 500, 1000];
/// A pause in the output of this length is looked at once.
const PAUSE: Duration = Duration::from_millis(50);
/// A shell takes the terminal back from a job of its own that stopped, so one look is not enough.
const CONFIRM: Duration = Duration::from_millis(30);

/// The next look, if there is one.
#[derive(Debug, Default)]
pub(super) struct Watch {
    next: Option<Instant>,
    remaining: &'static [u64],
    seen_stopped: bool,
}

impl Watch {
    /// The command was asked to stop.
    pub(super) fn suspend_expected(&mut self, now: Instant) {
        self.remaining = &AFTER_KEY;
        self.seen_stopped = false;
        self.next = None;
        self.advance(now);
    }

    /// Something was written or typed: look once when that pauses, unless looks are planned already.
    pub(super) fn activity(&mut self, now: Instant) {
        if self.remaining.is_empty() && !self.seen_stopped {
            self.next = Some(now + PAUSE);
        }
    }

    /// When to look next; never when `None`.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Records a look that was due, and says whether the command is stopped beyond doubt.
    pub(super) fn looked(&mut self, stopped: bool, now: Instant) -> bool {
        if stopped && self.seen_stopped {
            *self = Self::default();
            return true;
        }
        self.seen_stopped = stopped;
        if stopped {
            self.next = Some(now + CONFIRM);
        } else {
            self.advance(now);
        }
        false
    }

    fn advance(&mut self, now: Instant) {
        self.next = None;
        if let Some((wait, remaining)) = self.remaining.split_first() {
            self.next = Some(now + Duration::from_millis(*wait));
            self.remaining = remaining;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_relay_has_no_timer() {
        let now = Instant::now();
        let mut watch = Watch::default();
        assert_eq!(watch.next(), None);
        watch.activity(now);
        assert!(watch.next().is_some());
        assert!(!watch.looked(false, now));
        assert_eq!(watch.next(), None);
        watch.suspend_expected(now);
        let mut looks = 0;
        while watch.next().is_some() {
            assert!(!watch.looked(false, now));
            looks += 1;
        }
        assert_eq!(looks, AFTER_KEY.len());
    }

    #[test]
    fn stopped_counts_when_seen_twice() {
        let now = Instant::now();
        let mut watch = Watch::default();
        watch.suspend_expected(now);
        assert!(!watch.looked(true, now));
        assert!(!watch.looked(false, now));
        assert!(!watch.looked(true, now));
        assert!(watch.looked(true, now));
        assert_eq!(watch.next(), None);
    }
}
