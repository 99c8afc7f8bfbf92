//! Equal network decisions within a minute become one record with a count. Pure: the clock is an argument.

use std::collections::BTreeMap;

use super::event::{NetDecision, Verdict, bounded};

/// Decisions that are being counted.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    open: BTreeMap<Key, Open>,
}

impl Aggregator {
    /// Takes a decision at `now` (seconds, rising) and returns what is to be recorded: the first of its kind in a
    /// minute at once; of the others their count, once the minute is over.
    pub fn take(&mut self, decision: NetDecision, now: u64) -> Vec<NetDecision> {
        let mut due = self.due(now);
        if self.open.len() >= MAX_OPEN {
            due.extend(self.drain());
        }
        let key = Key { host: bounded(&decision.host), port: decision.port, verdict: decision.verdict };
        match self.open.get_mut(&key) {
            Some(open) => open.repeats += decision.count,
            None => {
                due.push(decision.clone());
                self.open.insert(key, Open { decision, since: now, repeats: 0 });
            }
        }
        due
    }

    /// Everything that is still being counted, at the end of the session.
    pub fn drain(&mut self) -> Vec<NetDecision> {
        std::mem::take(&mut self.open).into_values().filter_map(Open::record).collect()
    }

    fn due(&mut self, now: u64) -> Vec<NetDecision> {
        self.open
            .extract_if(.., |_, open| now.saturating_sub(open.since) >= WINDOW_SECONDS)
            .filter_map(|(_, open)| open.record())
            .collect()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: String,
    port: u16,
    verdict: Verdict,
}

#[derive(Debug)]
struct Open {
    decision: NetDecision,
    since: u64,
    repeats: u64,
}

impl Open {
    fn record(self) -> Option<NetDecision> {
        (self.repeats > 0).then_some(NetDecision { count: self.repeats, ..self.decision })
    }
}

const WINDOW_SECONDS: u64 = 60;

/// A jail that asks for ever new names must not make the table grow without bound.
const MAX_OPEN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::event::Door;

    fn decision(host: &str, verdict: Verdict) -> NetDecision {
        NetDecision {
            door: Door::Socks,
            host: host.to_owned(),
            port: 443,
            verdict,
            rule: None,
            origin: None,
            reason: None,
            count: 1,
        }
    }

    #[test]
    fn the_first_is_recorded_at_once_and_the_rest_of_the_minute_as_a_count() {
        let mut aggregator = Aggregator::default();
        let denied = || decision("a.example", Verdict::Denied);
        assert_eq!(aggregator.take(denied(), 100), [denied()]);
        for now in 101..=110 {
            assert_eq!(aggregator.take(denied(), now), []);
        }
        let counted = NetDecision { count: 10, ..denied() };
        assert_eq!(aggregator.take(denied(), 160), [counted, denied()], "a new minute begins");
        assert_eq!(aggregator.drain(), [], "one that did not repeat has been recorded");
        aggregator.take(denied(), 161);
        aggregator.take(denied(), 162);
        assert_eq!(aggregator.drain(), [NetDecision { count: 1, ..denied() }]);
    }

    #[test]
    fn host_port_and_verdict_are_counted_apart() {
        let mut aggregator = Aggregator::default();
        for decision in [
            decision("a.example", Verdict::Denied),
            decision("a.example", Verdict::Allowed),
            decision("b.example", Verdict::Denied),
            NetDecision { port: 80, ..decision("a.example", Verdict::Denied) },
        ] {
            assert_eq!(aggregator.take(decision.clone(), 0), [decision]);
        }
    }

    #[test]
    fn no_decision_is_lost_and_the_table_is_bounded() {
        let mut aggregator = Aggregator::default();
        let (mut recorded, mut taken) = (0, 0);
        for round in 0..3 {
            for n in 0..5_000 {
                let host = format!("{}.example", n % 2_500);
                recorded += aggregator
                    .take(decision(&host, Verdict::Denied), round)
                    .iter()
                    .map(|d| d.count)
                    .sum::<u64>();
                taken += 1;
                assert!(aggregator.open.len() <= MAX_OPEN);
            }
        }
        recorded += aggregator.drain().iter().map(|d| d.count).sum::<u64>();
        assert_eq!(recorded, taken);
    }
}
