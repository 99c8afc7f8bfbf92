//! Paths of requests, and what HTTP rules decide about them. The input is a method and a path, with a space between; the
//! witness reads the path in every way that servers are known to, and each of them has to be within the rules.

#![allow(clippy::expect_used, reason = "what is written here is right, or the check is wrong")]

use std::collections::{BTreeMap, BTreeSet};

use ai_jail::config::settings::{Ech, Inspect, NetworkMode};
use ai_jail::policy::authority::Authority;
use ai_jail::policy::host_rule::HostPattern;
use ai_jail::policy::http_rule::{HttpDecision, HttpRule, HttpRules, decide_http};
use ai_jail::policy::net::NetPolicy;
use ai_jail::policy::origin::{Origin, Sourced};
use ai_jail::policy::upstream::Upstream;

/// How often the readings of a path are read again: what is encoded three times is refused anyway.
const ROUNDS: usize = 4;
/// Readings of one path; there are fewer where it means anything.
const MOST: usize = 2000;

pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (method, path) = text.split_once(' ').unwrap_or(("GET", text));
    if !path.starts_with('/') || path.len() > 200 {
        return;
    }
    let policy = policy();
    let target = Authority::parse(b"api.test:443").expect("a target");
    match decide_http(&policy, &target, method, path) {
        HttpDecision::Free => panic!("the host has rules"),
        HttpDecision::Allowed(_) => {
            let (plain, _) = path.split_once('?').unwrap_or((path, ""));
            for reading in readings(plain) {
                assert!(within(method, &reading), "{method} {path} may be read as {reading}");
            }
        }
        HttpDecision::Denied(denial) => {
            let line = denial.to_string();
            assert!(!line.contains(char::is_control) && line.len() < 8000, "{line:?}");
        }
    }
    // Where nothing is denied everything is free, whatever it is.
    let other = Authority::parse(b"other.test:443").expect("a target");
    assert!(matches!(decide_http(&policy, &other, method, path), HttpDecision::Free));
}

fn policy() -> NetPolicy {
    let rule = |text| HttpRule::parse(text).expect("a rule");
    let rules = HttpRules {
        host: HostPattern::parse("api.test").expect("a pattern"),
        allow: vec![rule("GET /repos/**"), rule("POST /items/*/tags")],
        deny: vec![rule("* /repos/private/**")],
    };
    NetPolicy {
        mode: NetworkMode::Filtered,
        allow: Vec::new(),
        deny: Vec::new(),
        allow_private: Vec::new(),
        upstream: Upstream::default(),
        forward: Vec::new(),
        publish: Vec::new(),
        resolve: BTreeMap::new(),
        http: vec![Sourced::new(rules, Origin::flag("--test"))],
        inspect: Inspect::Needed,
        ech: Ech::Refuse,
        secret_hosts: Vec::new(),
    }
}

/// What the rules above say, by the letters of a path that means one thing.
fn within(method: &str, path: &str) -> bool {
    // A slash at the end makes no difference to a rule.
    let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    let lower = path.to_ascii_lowercase();
    // Servers on Windows take no notice of dots and spaces at the end of a name.
    let names: Vec<&str> = lower.split('/').map(|name| name.trim_end_matches(['.', ' '])).collect();
    let lower = names.join("/");
    let private =
        lower.strip_prefix("/repos/private").is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let item = matches!(segments.as_slice(), ["items", name, "tags"] if !name.is_empty());
    !private
        && (method == "GET" && (path == "/repos" || path.starts_with("/repos/")) || method == "POST" && item)
}

/// The paths without dot segments that servers may take `path` for.
fn readings(path: &str) -> BTreeSet<String> {
    // What needs no escape means the same with one (RFC 3986, 6.2.2.2).
    let mut all =
        BTreeSet::from([decoded_where(path, |byte| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte))]);
    for _ in 0..ROUNDS {
        let more: Vec<String> = all
            .iter()
            .flat_map(|path| {
                [decoded(path), path.replace('\\', "/"), path.replace("//", "/"), without_parameters(path)]
            })
            .filter(|path| !all.contains(path))
            .collect();
        if more.is_empty() || all.len() > MOST {
            break;
        }
        all.extend(more);
    }
    all.iter().map(|path| without_dots(path)).collect()
}

fn decoded(path: &str) -> String {
    decoded_where(path, |_| true)
}

fn decoded_where(path: &str, wanted: fn(u8) -> bool) -> String {
    let bytes = path.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex
            .filter(|hex| bytes[at] == b'%' && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .filter(|byte| wanted(*byte));
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn without_parameters(path: &str) -> String {
    let segments: Vec<&str> =
        path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    segments.join("/")
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if at + 1 == segments.len() {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}
