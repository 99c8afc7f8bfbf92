//! Equal uses of a secret within a minute become one record with a count, as network decisions do. Pure: the clock is an
//! argument.

use std::collections::BTreeMap;

use super::aggregate::{OTHERS, WINDOW_SECONDS};
use super::event::{SecretUse, SecretWhat, bounded, bounded_host};

/// Uses that are being counted.
#[derive(Debug, Default)]
pub(super) struct Uses {
    open: BTreeMap<Key, Open>,
    /// When `open` was last looked through.
    looked: u64,
    /// When this minute began.
    since: u64,
    /// Records of their own in this minute.
    targets: usize,
    /// Uses that have none, by what they were.
    others: BTreeMap<SecretWhat, u64>,
}

impl Uses {
    /// Takes a use at `now` (seconds, rising) and returns what is to be recorded: the first of its kind in a minute at
    /// once; of the others their count, once the minute is over. More than [`MAX_TARGETS`] kinds in a minute are one
    /// record together, with `*` for name and host.
    pub fn take(&mut self, used: SecretUse, now: u64) -> Vec<SecretUse> {
        let mut due = self.due(now);
        let key = Key {
            name: bounded(&used.name),
            host: bounded_host(&used.host),
            port: used.port,
            what: used.what,
        };
        if let Some(open) = self.open.get_mut(&key) {
            open.repeats += used.count;
            return due;
        }
        if self.targets >= MAX_TARGETS {
            *self.others.entry(used.what).or_default() += used.count;
            return due;
        }
        self.targets += 1;
        due.push(used.clone());
        self.open.insert(key, Open { used, since: now, repeats: 0 });
        due
    }

    /// Everything that is still being counted, at the end of the session.
    pub fn drain(&mut self) -> Vec<SecretUse> {
        let mut due: Vec<SecretUse> =
            std::mem::take(&mut self.open).into_values().filter_map(Open::record).collect();
        due.extend(self.others());
        due
    }

    fn due(&mut self, now: u64) -> Vec<SecretUse> {
        if now == self.looked {
            return Vec::new();
        }
        self.looked = now;
        let over = self.open.extract_if(.., |_, open| now.saturating_sub(open.since) >= WINDOW_SECONDS);
        let mut due: Vec<SecretUse> = over.filter_map(|(_, open)| open.record()).collect();
        if now.saturating_sub(self.since) >= WINDOW_SECONDS {
            self.since = now;
            // What is still open began in this minute or the one before.
            self.targets = self.open.len();
            due.extend(self.others());
        }
        due
    }

    fn others(&mut self) -> Vec<SecretUse> {
        let others = std::mem::take(&mut self.others).into_iter();
        let record = |(what, count)| SecretUse {
            name: OTHERS.to_owned(),
            host: OTHERS.to_owned(),
            port: 0,
            what,
            count,
        };
        others.map(record).collect()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    host: String,
    port: u16,
    what: SecretWhat,
}

#[derive(Debug)]
struct Open {
    used: SecretUse,
    since: u64,
    repeats: u64,
}

impl Open {
    fn record(self) -> Option<SecretUse> {
        (self.repeats > 0).then_some(SecretUse { count: self.repeats, ..self.used })
    }
}

/// Kinds of uses that get a record of their own in a minute: a jail that sends a fake to ever new hosts must not fill
/// the log.
const MAX_TARGETS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn used(name: &str, host: &str, what: SecretWhat) -> SecretUse {
        SecretUse { name: name.to_owned(), host: host.to_owned(), port: 443, what, count: 1 }
    }

    #[test]
    fn the_first_is_recorded_at_once_and_the_rest_of_the_minute_as_a_count() {
        let mut uses = Uses::default();
        let one = || used("KEY", "a.example", SecretWhat::Used);
        assert_eq!(uses.take(one(), 100), [one()]);
        for now in 101..=110 {
            assert_eq!(uses.take(one(), now), []);
        }
        assert_eq!(uses.take(one(), 160), [SecretUse { count: 10, ..one() }, one()], "a new minute begins");
        assert_eq!(uses.drain(), [], "one that did not repeat has been recorded");
        for other in [
            used("OTHER", "a.example", SecretWhat::Used),
            used("KEY", "b.example", SecretWhat::Used),
            used("KEY", "a.example", SecretWhat::Stray),
            SecretUse { port: 8443, ..one() },
        ] {
            assert_eq!(uses.take(other.clone(), 161), [other]);
        }
    }

    #[test]
    fn a_flood_of_hosts_is_a_few_records_and_none_is_lost() {
        let mut uses = Uses::default();
        let mut records = Vec::new();
        for n in 0..10_000 {
            records.extend(uses.take(used("KEY", &format!("{n}.example"), SecretWhat::Stray), 3));
        }
        assert_eq!(records.len(), MAX_TARGETS);
        let late = used("KEY", "late.example", SecretWhat::Used);
        records.extend(uses.take(late.clone(), 63));
        assert_eq!(records.last(), Some(&late), "a new minute has room again");
        records.extend(uses.drain());
        assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), 10_001);
        assert!(uses.open.len() <= MAX_TARGETS);
    }
}
