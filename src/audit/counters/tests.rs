use std::collections::BTreeMap;

use super::*;
use crate::audit::event::{Door, NetDecision};

fn net(host: &str, verdict: Verdict, count: u64) -> Event {
    Event::Net(NetDecision { verdict, count, ..NetDecision::allowed(Door::Http, host.to_owned(), 443) })
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
    let mut events: Vec<Event> = (1..=7).map(|n| net(&format!("h{n}.example"), Verdict::Denied, n)).collect();
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
    let guard = |text: &str| Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() });
    assert_eq!(
        summary(&[Event::Terminal(drops), guard("held back .vscode"), guard("held back .envrc")]),
        ["held back .vscode", "held back .envrc", "stripped 4 terminal sequences: clipboard (3), query (1)"]
    );
}

#[test]
fn a_stand_in_that_went_astray_alarms_first_and_also_without_a_summary() {
    let used = |host: &str, what, count| {
        Event::Secret(SecretUse { name: "KEY".to_owned(), host: host.to_owned(), port: 443, what, count })
    };
    assert!(
        summary(&[used("api.example", SecretWhat::Used, 9), used("api.example", SecretWhat::Scrubbed, 1)])
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
    let guard = |text: &str| Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() });
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
    assert!(said.contains(" and 4997 other connections; "), "{said}");
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
