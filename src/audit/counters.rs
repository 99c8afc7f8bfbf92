//! What the summary at exit says: denied hosts, stripped sequences, guarded paths. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{
    Door, Event, NetDecision, Note, NoteKind, SecretUse, SecretWhat, TerminalDrops, Totals, Verdict, bounded,
    bounded_host,
};

/// Sums over a session.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    totals: Totals,
    /// Denied connections and requests.
    denied: BTreeMap<Cause, Targets>,
    /// Denied questions for names, which cost a jail nothing: they must not push the connections out.
    questions: BTreeMap<Cause, Targets>,
    stripped: BTreeMap<String, u64>,
    /// Fakes that went astray, by name and target.
    strays: BTreeMap<(String, String), u64>,
    /// Those that were sent to their own host in another way than they are put in for.
    misplaced: BTreeMap<(String, String), u64>,
    guarded: Vec<String>,
    /// What is handed over.
    handed: Option<String>,
    /// What failed although it was allowed.
    failures: BTreeSet<String>,
}

impl Counters {
    /// Counts an event.
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Net(decision) if decision.verdict == Verdict::Allowed => {
                self.totals.allowed += decision.count
            }
            Event::Net(decision) => {
                self.totals.denied += decision.count;
                let denied = match decision.door {
                    Door::Dns => &mut self.questions,
                    Door::Http | Door::Socks | Door::Transparent | Door::Forward | Door::Publish => {
                        &mut self.denied
                    }
                };
                denied.entry(Cause::of(decision)).or_default().count(decision);
            }
            Event::Secret(used) if used.what == SecretWhat::Misplaced => {
                let key = (bounded(&used.name), target(&bounded_host(&used.host), used.port));
                if self.misplaced.len() < MAX_HOSTS || self.misplaced.contains_key(&key) {
                    *self.misplaced.entry(key).or_default() += used.count;
                }
            }
            Event::Secret(used) if used.what == SecretWhat::Stray => {
                self.totals.strays += used.count;
                self.stray(used);
            }
            Event::Terminal(TerminalDrops { dropped }) => {
                for (class, count) in dropped {
                    self.totals.stripped += count;
                    *self.stripped.entry(class.clone()).or_default() += count;
                }
            }
            Event::Note(Note { kind: NoteKind::Guard, text, .. }) => {
                self.totals.guarded += 1;
                if self.guarded.len() < MAX_HOSTS {
                    self.guarded.push(bounded(text));
                }
            }
            Event::Note(Note { kind: NoteKind::Network, text, .. }) => {
                // Beyond the bound a new failure is in the log alone.
                if self.failures.len() < MAX_HOSTS || self.failures.contains(text) {
                    self.failures.insert(bounded(text));
                }
            }
            Event::Note(Note { kind: NoteKind::HandOver, path: None, text }) => {
                self.handed = Some(bounded(text));
            }
            Event::Start(_) | Event::Secret(_) | Event::Note(_) | Event::End(_) => {}
        }
    }

    fn stray(&mut self, used: &SecretUse) {
        let key = (bounded(&used.name), target(&bounded_host(&used.host), used.port));
        // Beyond the bound a new target is in the sum and in the log alone.
        if self.strays.len() < MAX_HOSTS || self.strays.contains_key(&key) {
            *self.strays.entry(key).or_default() += used.count;
        }
    }

    /// What alarms: something inside sent a fake where no request of the user's needs it.
    fn alarm(&self) -> Option<String> {
        let counts =
            self.strays.iter().map(|((name, target), count)| (format!("{name} to {target}"), *count));
        let counts = sorted(counts);
        if counts.is_empty() {
            return None;
        }
        Some(format!(
            "ALARM: fakes of secrets were sent where they do not belong: {}; the real ones were not sent there",
            shown(&counts)
        ))
    }

    /// Fakes that a host of their own got, which is no alarm and a request that fails.
    fn misplaced(&self) -> Option<String> {
        let counts =
            self.misplaced.iter().map(|((name, target), count)| (format!("{name} to {target}"), *count));
        let counts = sorted(counts);
        (!counts.is_empty()).then(|| {
            format!(
                "fakes of secrets stayed what they are on the way to their own host: {}; they are put in by HTTPS, and in \
                 the parts of a request that `in` of [secrets] names (a body is none of them by default)",
                shown(&counts)
            )
        })
    }

    /// Few targets are told with their reasons, many as a list for each cause: connections first, then questions.
    fn denials(&self) -> Vec<String> {
        let all = || self.denied.iter().chain(&self.questions);
        let targets = || {
            all().flat_map(|(cause, targets)| targets.by_target.values().map(move |denied| (*cause, denied)))
        };
        let forgotten = all().any(|(_, targets)| targets.forgotten);
        if !forgotten
            && targets().count() <= TOLD_SINGLY
            && targets().all(|(_, denied)| !denied.reason.is_empty())
        {
            let line = |(cause, denied): (Cause, &Denied)| {
                format!("denied {}: {}", times(denied.count, cause.thing()), denied.reason)
            };
            return targets().map(line).collect();
        }
        Cause::ALL.into_iter().filter_map(|cause| self.denials_by(cause)).collect()
    }

    fn denials_by(&self, cause: Cause) -> Option<String> {
        let both: Vec<&Targets> =
            [&self.denied, &self.questions].into_iter().filter_map(|by_cause| by_cause.get(&cause)).collect();
        let total: u64 = both.iter().map(|targets| targets.total).sum();
        if total == 0 {
            return None;
        }
        let counts = |targets: &&Targets| {
            sorted(targets.by_target.iter().map(|((host, port), denied)| (target(host, *port), denied.count)))
        };
        let all: Vec<_> = both.iter().flat_map(counts).collect();
        let hosts = match both.iter().any(|targets| targets.forgotten) {
            true => format!("{} and many more", listed(&all)),
            false => shown(&all),
        };
        Some(format!("denied {}{}: {hosts}; {}", times(total, cause.thing()), cause.why(), cause.hint()))
    }

    /// The sums for the end record.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What has to be said although the user wants no summary: where things of the user's went, and what is not safe.
    pub fn guarded(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.alarm().into_iter().collect();
        let before = lines.len();
        lines.extend(self.guarded.iter().take(GUARDED_SHOWN).cloned());
        let more = self.totals.guarded.saturating_sub(GUARDED_SHOWN as u64);
        if let (1.., Some(last)) = (more, lines[before..].last_mut()) {
            last.push_str(&format!("; and {more} more, see the log"));
        }
        lines
    }

    /// The lines of the summary, most important first; empty when nothing was denied, stripped or guarded.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = self.guarded();
        lines.extend(self.misplaced());
        lines.extend(self.handed.clone());
        if self.totals.denied > 0 {
            lines.extend(self.denials());
        }
        if let Some(first) = self.failures.first() {
            let more = match self.failures.len() {
                1 => String::new(),
                2 => "; and 1 more failure, see the log".to_owned(),
                count => format!("; and {} more failures, see the log", count - 1),
            };
            lines.push(format!("{first}{more}"));
        }
        if self.totals.stripped > 0 {
            let classes = shown(&sorted(self.stripped.iter().map(|(class, count)| (class.clone(), *count))));
            lines.push(format!("stripped {}: {classes}", times(self.totals.stripped, "terminal sequence")));
        }
        lines
    }
}

/// What sort of thing a denial is about, and so what would lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// No rule allows the target.
    NotAllowed,
    /// A rule denies it, or its address may not be reached.
    Refused,
    /// The target is allowed, and HTTP rules deny the request.
    Request,
    /// The target is allowed, and what was sent is not what its port is for.
    Protocol,
}

impl Cause {
    const ALL: [Self; 4] = [Self::NotAllowed, Self::Refused, Self::Request, Self::Protocol];

    fn of(decision: &NetDecision) -> Self {
        match decision.code.as_deref() {
            Some("http-rule" | "ambiguous-path") => Self::Request,
            Some("protocol") => Self::Protocol,
            Some("deny-rule" | "address" | "network-off") => Self::Refused,
            _ => Self::NotAllowed,
        }
    }

    fn thing(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::NotAllowed | Self::Refused | Self::Protocol => "connection",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::NotAllowed => "",
            Self::Refused => " by a rule or for the address",
            Self::Request => " by HTTP rules",
            Self::Protocol => " for not being what the port is for",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NotAllowed => "allow one with --allow-host",
            Self::Refused | Self::Request | Self::Protocol => "the log says for each what would allow it",
        }
    }
}

/// Denials by target, of which no more than [`MAX_HOSTS`] are remembered.
#[derive(Debug, Clone, Default)]
struct Targets {
    by_target: BTreeMap<(String, u16), Denied>,
    total: u64,
    /// Whether targets were forgotten; they count in the total alone.
    forgotten: bool,
}

impl Targets {
    fn count(&mut self, decision: &NetDecision) {
        self.total += decision.count;
        let key = (bounded_host(&decision.host), decision.port);
        if self.by_target.len() >= MAX_HOSTS && !self.by_target.contains_key(&key) {
            // A jail that asks for ever new names asks for each of them once.
            self.by_target.retain(|_, denied| denied.count > 1);
            self.forgotten = true;
            if self.by_target.len() >= MAX_HOSTS {
                return;
            }
        }
        let denied = self.by_target.entry(key).or_default();
        denied.count += decision.count;
        if let Some(reason) = &decision.reason {
            denied.reason = bounded(reason.trim_start_matches("ai-jail: "));
        }
    }
}

/// Denials of one target.
#[derive(Debug, Clone, Default)]
struct Denied {
    count: u64,
    /// The last line that the jail was told: it names the rule and the flag that would allow it.
    reason: String,
}

/// A question for a name has no port.
fn target(host: &str, port: u16) -> String {
    if port == 0 { host.to_owned() } else { format!("{host}:{port}") }
}

/// The most frequent ones first.
fn sorted(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    counts
}

/// Lines about guarded paths in the summary: one for each sort, so that none hides another.
const GUARDED_SHOWN: usize = 10;
/// The first ones with their counts, and how many there are besides.
fn shown(counts: &[(String, u64)]) -> String {
    match counts.len().saturating_sub(SHOWN) {
        0 => listed(counts),
        more => format!("{} and {more} more", listed(counts)),
    }
}

fn listed(counts: &[(String, u64)]) -> String {
    let first = counts.iter().take(SHOWN).map(|(name, count)| format!("{name} ({count})"));
    first.collect::<Vec<_>>().join(", ")
}

fn times(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

const SHOWN: usize = 5;

const TOLD_SINGLY: usize = 3;

const MAX_HOSTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn net(host: &str, verdict: Verdict, count: u64) -> Event {
        Event::Net(NetDecision {
            door: Door::Http,
            host: host.to_owned(),
            port: 443,
            verdict,
            rule: None,
            origin: None,
            code: None,
            reason: None,
            count,
        })
    }

    fn summary(events: &[Event]) -> Vec<String> {
        let mut counters = Counters::default();
        events.iter().for_each(|event| counters.count(event));
        counters.summary()
    }

    #[test]
    fn nothing_to_say_is_no_line() {
        assert!(summary(&[net("a.example", Verdict::Allowed, 5)]).is_empty());
    }

    #[test]
    fn the_most_denied_hosts_come_first() {
        let mut events: Vec<Event> =
            (1..=7).map(|n| net(&format!("h{n}.example"), Verdict::Denied, n)).collect();
        events.push(net("h1.example", Verdict::Denied, 100));
        assert_eq!(
            summary(&events),
            ["denied 128 connections: h1.example:443 (101), h7.example:443 (7), h6.example:443 (6), \
                 h5.example:443 (5), h4.example:443 (4) and 2 more; allow one with --allow-host"]
        );
        assert_eq!(
            summary(&[net("a.example", Verdict::Denied, 1)]),
            ["denied 1 connection: a.example:443 (1); allow one with --allow-host"]
        );
    }

    #[test]
    fn what_was_denied_and_what_would_allow_it_is_told_by_cause() {
        let denied = |host: &str, code: &str, reason: &str, count| match net(host, Verdict::Denied, count) {
            Event::Net(decision) => {
                let (code, reason) = (Some(code.to_owned()), Some(format!("ai-jail: {reason}")));
                Event::Net(NetDecision { code, reason, ..decision })
            }
            other => other,
        };
        let request = || denied("api.example", "http-rule", "GET /x at api.example:443 is denied", 81);
        assert_eq!(summary(&[request()]), ["denied 81 requests: GET /x at api.example:443 is denied"]);
        assert_eq!(
            summary(&[
                denied("a.example", "no-rule", "a", 3),
                denied("b.example", "no-rule", "b", 1),
                denied("bad.example", "deny-rule", "c", 1),
                denied("local.example", "address", "c", 2),
                request(),
                denied("api.example", "ambiguous-path", "d", 1),
                denied("api.example", "protocol", "e", 2),
            ]),
            [
                "denied 4 connections: a.example:443 (3), b.example:443 (1); allow one with --allow-host",
                "denied 3 connections by a rule or for the address: local.example:443 (2), bad.example:443 (1); the log says for \
                 each what would allow it",
                "denied 82 requests by HTTP rules: api.example:443 (82); the log says for each what would allow it",
                "denied 2 connections for not being what the port is for: api.example:443 (2); the log says for each what would \
                 allow it",
            ]
        );
    }

    #[test]
    fn every_class_has_its_line() {
        let drops =
            TerminalDrops { dropped: BTreeMap::from([("clipboard".to_owned(), 3), ("query".to_owned(), 1)]) };
        let guard =
            |text: &str| Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() });
        assert_eq!(
            summary(&[Event::Terminal(drops), guard("held back .vscode"), guard("held back .envrc")]),
            [
                "held back .vscode",
                "held back .envrc",
                "stripped 4 terminal sequences: clipboard (3), query (1)"
            ]
        );
    }

    #[test]
    fn a_stand_in_that_went_astray_alarms_first_and_also_without_a_summary() {
        let used = |host: &str, what, count| {
            Event::Secret(SecretUse { name: "KEY".to_owned(), host: host.to_owned(), port: 443, what, count })
        };
        assert!(
            summary(&[
                used("api.example", SecretWhat::Used, 9),
                used("api.example", SecretWhat::Scrubbed, 1)
            ])
            .is_empty()
        );
        let misplaced = summary(&[used("api.example", SecretWhat::Misplaced, 2)]);
        assert!(misplaced.len() == 1 && misplaced[0].contains("KEY to api.example:443 (2)"), "{misplaced:?}");
        assert!(!misplaced[0].contains("ALARM"));
        let mut counters = Counters::default();
        counters.count(&net("a.example", Verdict::Denied, 1));
        counters.count(&used("evil.example", SecretWhat::Stray, 2));
        counters.count(&used("evil.example", SecretWhat::Stray, 1));
        let alarm = "ALARM: fakes of secrets were sent where they do not belong: KEY to evil.example:443 (3); the \
                     real ones were not sent there";
        assert_eq!(counters.guarded(), [alarm]);
        assert_eq!(counters.summary()[0], alarm);
        assert_eq!(counters.totals().strays, 3);
        for n in 0..5_000 {
            counters.count(&used(&format!("{n}.example"), SecretWhat::Stray, 1));
        }
        assert!(counters.strays.len() <= MAX_HOSTS);
        assert_eq!(counters.totals().strays, 5_003);
    }

    #[test]
    fn a_few_guarded_paths_are_told_singly_and_the_rest_by_their_number() {
        let guard =
            |text: &str| Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() });
        let texts: Vec<String> = (0..GUARDED_SHOWN + 2).map(|number| number.to_string()).collect();
        let events: Vec<Event> = texts.iter().map(|text| guard(text)).collect();
        let mut expected = texts[..GUARDED_SHOWN].to_vec();
        expected[GUARDED_SHOWN - 1].push_str("; and 2 more, see the log");
        assert_eq!(summary(&events), expected);
    }

    #[test]
    fn hosts_beyond_the_bound_still_count_and_push_no_frequent_one_out() {
        let mut events = vec![net("often.example", Verdict::Denied, 2)];
        events.extend((0..5_000).map(|n| net(&format!("{n}.example"), Verdict::Denied, 1)));
        events.push(net("late.example", Verdict::Denied, 7));
        let said = &summary(&events)[0];
        assert!(
            said.starts_with("denied 5009 connections: late.example:443 (7), often.example:443 (2), "),
            "{said}"
        );
        assert!(said.contains(" and many more; "), "{said}");
        let mut counters = Counters::default();
        events.iter().for_each(|event| counters.count(event));
        assert!(counters.denied[&Cause::NotAllowed].by_target.len() <= MAX_HOSTS);
    }

    #[test]
    fn questions_for_names_do_not_hide_a_denied_connection() {
        let question = |name: String| match net(&name, Verdict::Denied, 3) {
            Event::Net(decision) => Event::Net(NetDecision { door: Door::Dns, port: 0, ..decision }),
            other => other,
        };
        let mut events: Vec<Event> = (0..2_000).map(|n| question(format!("{n}.example"))).collect();
        events.push(net("real.example", Verdict::Denied, 1));
        let said = &summary(&events)[0];
        assert!(said.starts_with("denied 6001 connections: real.example:443 (1), "), "{said}");
    }
}
