//! What the summary says of denials: which hosts and requests, how often, and what would allow them. Pure.

use std::collections::BTreeMap;

use super::event::{Door, NetDecision, bounded, bounded_host};

/// The denials of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Denials {
    /// Denied connections and requests.
    asked: BTreeMap<Cause, Targets>,
    /// Denied questions for names, which cost a jail nothing: they must not push the connections out.
    questions: BTreeMap<Cause, Targets>,
}

impl Denials {
    /// Counts a denial.
    pub fn count(&mut self, decision: &NetDecision) {
        let (cause, by_cause) = match decision.door {
            Door::Dns => (Cause::of(decision), &mut self.questions),
            Door::Http | Door::Socks | Door::Transparent | Door::Forward | Door::Publish => {
                (Cause::of(decision), &mut self.asked)
            }
        };
        by_cause.entry(cause).or_default().count(decision, cause.most());
    }

    /// Few targets are told with their reasons, many as a list for each cause: connections first, then questions.
    pub fn lines(&self) -> Vec<String> {
        let all = || self.asked.iter().chain(&self.questions);
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
        Cause::ALL.into_iter().filter_map(|cause| self.line(cause)).collect()
    }

    fn line(&self, cause: Cause) -> Option<String> {
        let both: Vec<&Targets> =
            [&self.asked, &self.questions].into_iter().filter_map(|by_cause| by_cause.get(&cause)).collect();
        let total: u64 = both.iter().map(|targets| targets.total).sum();
        if total == 0 {
            return None;
        }
        let all: Vec<(&Target, &Denied)> = both.iter().flat_map(|targets| targets.sorted()).collect();
        let names: Vec<_> =
            all.iter().take(SHOWN).map(|(target, denied)| (target.name(), denied.count)).collect();
        let more = if both.iter().any(|targets| targets.forgotten) {
            // How many different ones there were is not known.
            let rest = total - names.iter().map(|(_, count)| count).sum::<u64>();
            format!(" and {}", times(rest, &format!("other {}", cause.thing())))
        } else {
            match all.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            }
        };
        Some(format!(
            "denied {}{}: {}{more}; {}",
            times(total, cause.thing()),
            cause.why(),
            listed(&names),
            cause.hint(&all)
        ))
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

    /// What would allow some of `denied`, the most frequent of which come first.
    fn hint(self, denied: &[(&Target, &Denied)]) -> String {
        let example = denied.iter().find_map(|(target, denied)| Some((target, denied.allow.as_ref()?)));
        match (self, example) {
            (Self::NotAllowed, _) => {
                let shown = denied.iter().take(SHOWN);
                let meant = shown.filter_map(|(target, denied)| {
                    Some(format!("; did you mean {} for {}?", denied.meant.as_ref()?, target.host))
                });
                format!("allow one with --allow-host{}", meant.collect::<String>())
            }
            (Self::Request, Some((target, rule))) => format!(
                "the log says for each what would allow it, such as \"{rule}\" in allow of [[network.http]] for {}",
                target.host
            ),
            (Self::Refused | Self::Request | Self::Protocol, _) => {
                "the log says for each what would allow it".to_owned()
            }
        }
    }

    /// How many different targets are remembered.
    fn most(self) -> usize {
        match self {
            Self::NotAllowed | Self::Refused | Self::Protocol => MAX_HOSTS,
            Self::Request => MAX_REQUESTS,
        }
    }
}

/// Denials by target, of which a bounded number is remembered.
#[derive(Debug, Clone, Default)]
struct Targets {
    by_target: BTreeMap<Target, Denied>,
    total: u64,
    /// Whether targets were forgotten; they count in the total alone.
    forgotten: bool,
}

impl Targets {
    fn count(&mut self, decision: &NetDecision, most: usize) {
        let target = Target {
            host: bounded_host(&decision.host),
            port: decision.port,
            request: decision.request.as_deref().map(bounded),
        };
        if self.by_target.len() >= most && !self.by_target.contains_key(&target) {
            // A jail that asks for ever new names asks for each of them once.
            self.by_target.retain(|_, denied| denied.count > 1);
            self.forgotten = true;
            if self.by_target.len() >= most {
                self.total += decision.count;
                return;
            }
        }
        let denied = self.by_target.entry(target).or_default();
        let before = denied.count;
        denied.add(decision.count, decision.is_beside);
        self.total = self.total - before + denied.count;
        if let Some(reason) = &decision.reason {
            denied.reason = bounded(reason.trim_start_matches("ai-jail: "));
        }
        denied.allow = decision.allow.as_deref().map(bounded);
        denied.meant = decision.meant.as_deref().map(bounded_host);
    }

    /// The most frequent ones first.
    fn sorted(&self) -> Vec<(&Target, &Denied)> {
        let mut all: Vec<_> = self.by_target.iter().collect();
        all.sort_by_key(|(_, denied)| std::cmp::Reverse(denied.count));
        all
    }
}

/// What was denied: a host and port, or one request there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    host: String,
    port: u16,
    request: Option<String>,
}

impl Target {
    fn name(&self) -> String {
        let at = target(&self.host, self.port);
        match &self.request {
            None => at,
            Some(request) => match request.char_indices().nth(SHOWN_REQUEST) {
                None => format!("{request} at {at}"),
                Some((cut, _)) => format!("{}... at {at}", &request[..cut]),
            },
        }
    }
}

/// Denials of one target.
#[derive(Debug, Clone, Default)]
struct Denied {
    /// Attempts: what is asked beside the address counts only where nobody asks for that.
    count: u64,
    /// Whether somebody asked for the address, or for more than a name.
    is_asked: bool,
    /// The last line that the jail was told, and what only the user is: it names the rule and the flag that would allow it.
    reason: String,
    /// The HTTP rule that would allow it.
    allow: Option<String>,
    /// The allowed host that was perhaps meant.
    meant: Option<String>,
}

impl Denied {
    /// Adds `count` denials.
    fn add(&mut self, count: u64, is_beside: bool) {
        match (is_beside, self.is_asked) {
            (true, true) => {}
            // What came before the first question for the address was asked beside it.
            (false, false) => (self.count, self.is_asked) = (count, true),
            (true, false) | (false, true) => self.count += count,
        }
    }
}

/// A question for a name has no port.
pub(super) fn target(host: &str, port: u16) -> String {
    if port == 0 { host.to_owned() } else { format!("{host}:{port}") }
}

/// The first ones with their counts.
pub(super) fn listed(counts: &[(String, u64)]) -> String {
    let first = counts.iter().take(SHOWN).map(|(name, count)| format!("{name} ({count})"));
    first.collect::<Vec<_>>().join(", ")
}

pub(super) fn times(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How many of a sort a line names.
pub(super) const SHOWN: usize = 5;

const TOLD_SINGLY: usize = 3;

/// How much of a request a list shows, in characters.
const SHOWN_REQUEST: usize = 80;

pub(super) const MAX_HOSTS: usize = 1000;

/// Requests are longer than names: at most 2 KiB each.
const MAX_REQUESTS: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::event::Verdict;

    fn request(host: &str, request: &str, count: u64) -> NetDecision {
        NetDecision {
            verdict: Verdict::Denied,
            code: Some("http-rule".to_owned()),
            reason: Some(format!("ai-jail: {request} at {host}:443 is not allowed")),
            request: Some(request.to_owned()),
            allow: Some(request.to_owned()),
            count,
            ..NetDecision::allowed(Door::Http, host.to_owned(), 443)
        }
    }

    fn lines(decisions: impl IntoIterator<Item = NetDecision>) -> Vec<String> {
        let mut denials = Denials::default();
        decisions.into_iter().for_each(|decision| denials.count(&decision));
        denials.lines()
    }

    #[test]
    fn different_requests_to_one_host_are_named_each() {
        assert_eq!(
            lines([
                request("a.example", "POST /b", 1),
                request("a.example", "DELETE /a", 1),
                request("a.example", "POST /b", 2),
            ]),
            [
                "denied 1 request: DELETE /a at a.example:443 is not allowed",
                "denied 3 requests: POST /b at a.example:443 is not allowed"
            ]
        );
        let denied_by_rule = NetDecision { allow: None, ..request("a.example", "PUT /x", 9) };
        let many = (1..=6).map(|n| request("a.example", &format!("POST /{n}"), n));
        assert_eq!(
            lines(many.chain([denied_by_rule, request("b.example", "POST /6", 1)])),
            [
                "denied 31 requests by HTTP rules: PUT /x at a.example:443 (9), POST /6 at a.example:443 (6), POST /5 at \
              a.example:443 (5), POST /4 at a.example:443 (4), POST /3 at a.example:443 (3) and 3 more; the log says for \
              each what would allow it, such as \"POST /6\" in allow of [[network.http]] for a.example"
            ]
        );
    }

    #[test]
    fn the_number_of_remembered_hosts_is_bounded() {
        let mut denials = Denials::default();
        for n in 0..5_000 {
            let host = format!("{n}.example");
            denials.count(&NetDecision { request: None, code: None, ..request(&host, "", 1) });
        }
        assert!(denials.asked[&Cause::NotAllowed].by_target.len() <= MAX_HOSTS);
    }

    #[test]
    fn the_questions_of_one_attempt_count_as_one() {
        let address = NetDecision {
            door: Door::Dns,
            port: 0,
            request: None,
            code: None,
            ..request("a.example", "", 1)
        };
        let beside = NetDecision { is_beside: true, ..address.clone() };
        let more = |decision: &NetDecision, count| NetDecision { count, ..decision.clone() };
        for (decisions, want) in [
            (vec![address.clone(), beside.clone()], "denied 1 connection:"),
            (vec![beside.clone(), address.clone()], "denied 1 connection:"),
            (vec![address.clone(), beside.clone(), beside.clone()], "denied 1 connection:"),
            (vec![address.clone(), beside.clone(), address.clone(), beside.clone()], "denied 2 connections:"),
            (vec![beside.clone(), address.clone(), beside.clone(), address.clone()], "denied 2 connections:"),
            (vec![beside.clone(), beside.clone(), address.clone()], "denied 1 connection:"),
            (vec![more(&address, 3), more(&beside, 3)], "denied 3 connections:"),
            (vec![beside.clone(), beside.clone()], "denied 2 connections:"),
        ] {
            let said = lines(decisions.clone());
            assert!(said[0].starts_with(want), "{decisions:?}: {said:?}");
        }
    }

    #[test]
    fn a_misspelt_host_is_told_beside_the_list() {
        let host = |host: &str| NetDecision { request: None, code: None, ..request(host, "", 1) };
        let hosts = ["b.example", "c.example", "d.example"].map(host);
        let misspelt = NetDecision { meant: Some("api.example".to_owned()), count: 2, ..host("apj.example") };
        assert_eq!(
            lines(hosts.into_iter().chain([misspelt])),
            [
                "denied 5 connections: apj.example:443 (2), b.example:443 (1), c.example:443 (1), d.example:443 (1); allow one \
              with --allow-host; did you mean api.example for apj.example?"
            ]
        );
    }

    #[test]
    fn a_flood_of_requests_is_counted_bounded_and_cut() {
        let mut denials = Denials::default();
        let long = "x".repeat(100_000);
        denials.count(&request("a.example", "POST /often", 7));
        for n in 0..5_000 {
            denials.count(&request("a.example", &format!("GET /{n}/{long}"), 1));
        }
        let host = NetDecision { request: None, code: None, ..request("b.example", "", 1) };
        denials.count(&host);
        let held = &denials.asked[&Cause::Request];
        assert!(held.by_target.len() <= MAX_REQUESTS);
        let lengths = |(target, denied): (&Target, &Denied)| {
            [target.request.as_ref(), Some(&denied.reason), denied.allow.as_ref()]
                .map(|text| text.map_or(0, String::len))
        };
        assert!(held.by_target.iter().flat_map(lengths).all(|length| length <= 1030));
        let lines = denials.lines();
        let [connection, requests] = &lines[..] else { panic!("{lines:?}") };
        assert!(connection.contains("b.example:443 (1)"), "{connection}");
        assert!(
            requests
                .starts_with("denied 5007 requests by HTTP rules: POST /often at a.example:443 (7), GET /"),
            "{requests}"
        );
        assert!(requests.contains(" and 4996 other requests; ") && requests.len() < 1_000, "{requests}");
    }
}
