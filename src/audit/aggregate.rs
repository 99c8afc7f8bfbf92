//! Equal network decisions within a minute become one record with a count, and so do the denials of a minute beyond the
//! first few hundred targets and requests: a jail that asks for ever new names or paths cannot fill the log. Pure: the
//! clock is an argument.

use std::collections::BTreeMap;

use super::event::{Door, NetDecision, Verdict, bounded, bounded_host};

/// Decisions that are being counted.
#[derive(Debug)]
pub(super) struct Aggregator {
    open: BTreeMap<Key, Open>,
    /// When `open` was last looked through.
    looked: u64,
    /// Denials of this minute, each kind for itself: questions for names and requests cost a jail nothing, and must not
    /// take the connections' records.
    minutes: [(Kind, Minute); 3],
}

impl Default for Aggregator {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            looked: 0,
            minutes: [Kind::Connection, Kind::Question, Kind::Request].map(|kind| (kind, Minute::default())),
        }
    }
}

impl Aggregator {
    /// Takes a decision at `now` (seconds, rising) and returns what is to be recorded: the first of its kind in a
    /// minute at once; of the others their count, once the minute is over. Denials of more than [`MAX_DENIED`] targets, or
    /// [`MAX_REQUESTS`] requests, in a minute are one record together, with `*` for the host.
    pub fn take(&mut self, decision: NetDecision, now: u64) -> Vec<NetDecision> {
        let mut due = self.due(now);
        let key = Key {
            host: bounded_host(&decision.host),
            port: decision.port,
            verdict: decision.verdict,
            code: decision.code.as_deref().map(bounded_host),
            request: decision.request.as_deref().map(bounded),
        };
        if let Some(open) = self.open.get_mut(&key) {
            open.repeats += decision.count;
            return due;
        }
        if decision.verdict == Verdict::Denied {
            let kind = Kind::of(&decision);
            let minute = self.minutes.iter_mut().find(|(of, _)| *of == kind);
            if let Some((_, minute)) = minute {
                if minute.targets >= kind.most() {
                    minute.others += decision.count;
                    minute.door = Some(decision.door);
                    return due;
                }
                minute.targets += 1;
            }
        }
        if self.open.len() >= MAX_OPEN {
            due.extend(self.drain_open());
        }
        due.push(decision.clone());
        self.open.insert(key, Open { decision, since: now, repeats: 0 });
        due
    }

    /// Everything that is still being counted, at the end of the session.
    pub fn drain(&mut self) -> Vec<NetDecision> {
        let mut due = self.drain_open();
        due.extend(self.minutes.iter_mut().filter_map(|(kind, minute)| std::mem::take(minute).record(*kind)));
        due
    }

    fn drain_open(&mut self) -> Vec<NetDecision> {
        std::mem::take(&mut self.open).into_values().filter_map(Open::record).collect()
    }

    fn due(&mut self, now: u64) -> Vec<NetDecision> {
        if now == self.looked {
            return Vec::new();
        }
        self.looked = now;
        let mut due: Vec<NetDecision> = self
            .open
            .extract_if(.., |_, open| now.saturating_sub(open.since) >= WINDOW_SECONDS)
            .filter_map(|(_, open)| open.record())
            .collect();
        for (kind, minute) in &mut self.minutes {
            if now.saturating_sub(minute.since) >= WINDOW_SECONDS {
                let over = std::mem::replace(minute, Minute { since: now, ..Minute::default() });
                due.extend(over.record(*kind));
            }
        }
        due
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: String,
    port: u16,
    verdict: Verdict,
    code: Option<String>,
    request: Option<String>,
}

/// What a denial is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A connection, or a request to a host that is not allowed.
    Connection,
    /// A question for a name.
    Question,
    /// A request to an allowed host.
    Request,
}

impl Kind {
    /// The kind of a denial.
    pub(super) fn of(decision: &NetDecision) -> Self {
        match decision.door {
            _ if decision.request.is_some() => Self::Request,
            Door::Dns => Self::Question,
            Door::Http | Door::Socks | Door::Transparent | Door::Forward | Door::Publish => Self::Connection,
        }
    }

    /// How many different ones get a record of their own in a minute.
    fn most(self) -> usize {
        match self {
            Self::Connection | Self::Question => MAX_DENIED,
            Self::Request => MAX_REQUESTS,
        }
    }

    fn things(self) -> &'static str {
        match self {
            Self::Connection | Self::Question => "targets",
            Self::Request => "requests",
        }
    }
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

/// The denials of one kind in a minute.
#[derive(Debug, Default)]
struct Minute {
    since: u64,
    /// Targets or requests that have a record of their own.
    targets: usize,
    /// Denials of others.
    others: u64,
    /// Where the last of them came in.
    door: Option<Door>,
}

impl Minute {
    fn record(self, kind: Kind) -> Option<NetDecision> {
        let count = self.others;
        self.door.map(|door| NetDecision {
            verdict: Verdict::Denied,
            reason: Some(format!(
                "and {count} more of other {} than the first {} of a minute",
                kind.things(),
                kind.most()
            )),
            count,
            ..NetDecision::allowed(door, OTHERS.to_owned(), 0)
        })
    }
}

/// The host of a record that stands for many; no host is called that.
pub(super) const OTHERS: &str = "*";

/// For how long equal events are counted together.
pub(super) const WINDOW_SECONDS: u64 = 60;

/// Denied targets that get a record of their own in a minute. Programs that try what they may not reach ask for some
/// dozens; at half a KiB each this is at most 100 KiB in a minute, for connections and for questions each.
const MAX_DENIED: usize = 200;

/// Denied requests that get a record of their own in a minute. A record repeats method and path, so that it may take
/// 3 KiB, and takes less than one of them as a rule.
const MAX_REQUESTS: usize = 100;

/// A jail that connects to ever new allowed names must not make the table grow without bound.
const MAX_OPEN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(host: &str, verdict: Verdict) -> NetDecision {
        NetDecision { verdict, ..NetDecision::allowed(Door::Socks, host.to_owned(), 443) }
    }

    fn request(host: &str, request: &str) -> NetDecision {
        NetDecision {
            code: Some("http-rule".to_owned()),
            request: Some(request.to_owned()),
            ..decision(host, Verdict::Denied)
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
    fn host_port_verdict_cause_and_request_are_counted_apart() {
        let mut aggregator = Aggregator::default();
        for decision in [
            decision("a.example", Verdict::Denied),
            decision("a.example", Verdict::Allowed),
            decision("b.example", Verdict::Denied),
            NetDecision { port: 80, ..decision("a.example", Verdict::Denied) },
            NetDecision { code: Some("http-rule".to_owned()), ..decision("a.example", Verdict::Denied) },
            request("a.example", "DELETE /a"),
            request("a.example", "POST /b"),
            request("b.example", "POST /b"),
        ] {
            assert_eq!(aggregator.take(decision.clone(), 0), [decision]);
        }
        let again = request("a.example", "POST /b");
        assert_eq!(aggregator.take(again.clone(), 1), []);
        assert_eq!(aggregator.drain(), [again]);
    }

    #[test]
    fn a_flood_of_denied_requests_is_a_few_records_with_the_number_of_the_others() {
        let mut aggregator = Aggregator::default();
        let mut records = Vec::new();
        for n in 0..40_000 {
            let path = format!("GET /{n}/{}", "x".repeat(if n < 200 { 10_000 } else { 10 }));
            records.extend(aggregator.take(request("a.example", &path), 3));
        }
        assert_eq!(records.len(), MAX_REQUESTS);
        let held: usize =
            aggregator.open.keys().filter_map(|key| key.request.as_ref()).map(String::len).sum();
        assert!(held <= MAX_REQUESTS * 1100, "{held}");
        let host = decision("b.example", Verdict::Denied);
        assert_eq!(aggregator.take(host.clone(), 4), [host], "connections are counted apart");
        let drained = aggregator.drain();
        let [others] = &drained[..] else { panic!("{drained:?}") };
        assert_eq!((others.host.as_str(), others.count), (OTHERS, 40_000 - MAX_REQUESTS as u64));
        let reason = others.reason.as_deref().unwrap();
        assert_eq!(reason, "and 39900 more of other requests than the first 100 of a minute");
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

    #[test]
    fn a_flood_of_denied_names_is_a_few_records_and_nothing_else_waits_for_it() {
        let mut aggregator = Aggregator::default();
        let mut records = Vec::new();
        for n in 0..40_000 {
            records.extend(aggregator.take(decision(&format!("n{n}.evil.example"), Verdict::Denied), 3));
        }
        assert_eq!(records.len(), MAX_DENIED);
        let allowed = decision("ok.example", Verdict::Allowed);
        assert_eq!(aggregator.take(allowed.clone(), 4), [allowed], "what is allowed is recorded at once");
        let question = NetDecision { door: Door::Dns, port: 0, ..decision("q.example", Verdict::Denied) };
        assert_eq!(
            aggregator.take(question.clone(), 4),
            [question],
            "questions and connections are counted apart"
        );
        let next = aggregator.take(decision("late.example", Verdict::Denied), 63);
        let [others, late] = &next[..] else { panic!("{next:?}") };
        assert_eq!((others.host.as_str(), others.count), (OTHERS, 40_000 - MAX_DENIED as u64));
        assert!(others.reason.as_ref().unwrap().starts_with("and 39800 more"), "{others:?}");
        assert_eq!(late.host, "late.example", "a new minute has room again");
    }
}
