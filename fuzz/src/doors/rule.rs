//! Host patterns, and what they decide. The input is a pattern and, on a second line, a target.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ai_jail::config::settings::{Ech, Inspect, NetworkMode};
use ai_jail::egress::decide::{Decision, decide, vet};
use ai_jail::policy::authority::{Authority, Host};
use ai_jail::policy::host_rule::{HostPattern, StreamCheck};
use ai_jail::policy::net::NetPolicy;
use ai_jail::policy::origin::{Origin, Sourced};
use ai_jail::policy::upstream::Upstream;

pub fn check(input: &[u8]) {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let Some(Ok(rule)) = lines.next().map(std::str::from_utf8) else { return };
    let pattern = match HostPattern::parse(rule) {
        Ok(pattern) => pattern,
        // The error is shown to the user as it is.
        Err(error) => return assert!(!error.to_string().chars().any(char::is_control), "{error}"),
    };
    let text = pattern.to_string();
    assert_eq!(HostPattern::parse(&text).as_ref(), Ok(&pattern), "{text}");
    assert!(
        text.is_ascii()
            && text == text.to_ascii_lowercase()
            && !text.contains(|c: char| c.is_ascii_control())
    );
    assert_eq!(text.ends_with("/tcp"), pattern.check() == StreamCheck::DangerAnyBytes, "{text}");

    let target = lines.next().and_then(|target| Authority::parse_with_default(target, 443).ok());
    for target in target.into_iter().chain(neighbours(rule, &pattern)) {
        let want = covers(rule, &target);
        assert_eq!(pattern.matches(&target), want, "{rule} and {target}");
        assert!(!want || pattern.matches_host(&target.host), "{rule} and {target}");
        decides(&pattern, &target, want);
    }
}

/// Targets that `rule` covers, and some that it nearly does.
fn neighbours(rule: &str, pattern: &HostPattern) -> Vec<Authority> {
    let (host, _) = split(rule);
    let host = host.trim_start_matches(['*', '.']);
    let bare = host.split('/').next().unwrap_or_default();
    let closed = if bare.starts_with('[') && !bare.ends_with(']') { "]" } else { "" };
    let hosts = [
        format!("{bare}{closed}"),
        format!("a.{host}"),
        format!("a.b.{host}"),
        format!("evil{host}"),
        format!("{host}.evil.test"),
        "10.0.0.1".to_owned(),
        "[fd00::1]".to_owned(),
    ];
    let [first, last] = pattern.ports().ranges();
    let edges = [*first.start(), *first.end(), *last.start(), *last.end()];
    let ports = edges.into_iter().flat_map(|port| [port.saturating_sub(1), port, port.saturating_add(1)]);
    let ports = ports.chain([80, 443]).filter(|port| *port != 0).collect::<Vec<_>>();
    let hosts = hosts.iter().filter_map(|host| Host::parse(host.as_bytes()).ok());
    hosts
        .flat_map(|host| ports.iter().map(move |port| Authority { host: host.clone(), port: *port }))
        .collect()
}

/// With `pattern` alone nothing is allowed that it does not cover; as a rule that denies it beats everything.
fn decides(pattern: &HostPattern, target: &Authority, covered: bool) {
    let Ok(everything) = HostPattern::parse("*:*") else { panic!("everything is no pattern") };
    let decision = decide_by(&[pattern], &[], target);
    assert!(!decision || covered, "{pattern} allows {target}");
    if let Host::Name(name) = &target.host {
        // This machine by its name is an address that no name leads to.
        assert_eq!(decision, covered && !name.is_localhost(), "{pattern} and {target}");
        for address in ["127.0.0.1", "169.254.169.254", "::1", "10.0.0.1"].map(str::parse::<IpAddr>) {
            let Ok(address) = address else { panic!("an address is none") };
            assert!(
                vet(&policy(&[pattern], &[]), &[], target, address).is_err() || address_is_named(pattern),
                "{pattern}"
            );
        }
    }
    assert!(
        !covered || !decide_by(&[&everything, pattern], &[pattern], target),
        "{pattern} does not deny {target}"
    );
}

/// Whether a rule is about addresses, which are allowed by being named.
fn address_is_named(pattern: &HostPattern) -> bool {
    matches!(pattern.hosts(), ai_jail::policy::host_rule::Hosts::Net(_))
}

fn decide_by(allow: &[&HostPattern], deny: &[&HostPattern], target: &Authority) -> bool {
    matches!(decide(&policy(allow, deny), &[], target), Decision::Allow(_))
}

fn policy(allow: &[&HostPattern], deny: &[&HostPattern]) -> NetPolicy {
    let rules = |patterns: &[&HostPattern]| {
        patterns
            .iter()
            .map(|pattern| Sourced::new((*pattern).clone(), Origin::flag("--allow-host")))
            .collect()
    };
    NetPolicy {
        mode: NetworkMode::Filtered,
        allow: rules(allow),
        deny: rules(deny),
        allow_private: Vec::new(),
        upstream: Upstream::default(),
        forward: Vec::new(),
        publish: Vec::new(),
        resolve: BTreeMap::new(),
        http: Vec::new(),
        inspect: Inspect::Needed,
        ech: Ech::Refuse,
        secret_hosts: Vec::new(),
    }
}

/// The witness: what a pattern that was accepted covers, by its text.
fn covers(rule: &str, target: &Authority) -> bool {
    let (host, ports) = split(rule);
    let port = match ports {
        None => matches!(target.port, 80 | 443),
        Some("*") => true,
        Some(ports) => {
            let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
            let bounds = from.parse::<u16>().ok().zip(to.parse::<u16>().ok());
            bounds.is_some_and(|(from, to)| (from..=to).contains(&target.port))
        }
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    port && match &target.host {
        _ if host == "*" => true,
        Host::Ip(ip) => lies_in(*ip, host),
        Host::Name(name) => match (host.strip_prefix('*'), host.strip_prefix('.')) {
            (Some(end), _) => name.as_str().ends_with(end),
            (None, Some(apex)) => name.as_str() == apex || name.as_str().ends_with(host),
            (None, None) => name.as_str() == host,
        },
    }
}

/// The host and the ports of a pattern, as they are written.
fn split(rule: &str) -> (&str, Option<&str>) {
    let rule = rule.strip_suffix("/tcp").unwrap_or(rule);
    match rule.rsplit_once(':') {
        Some((host, ports)) if !ports.contains(']') => (host, Some(ports)),
        _ => (rule, None),
    }
}

fn lies_in(ip: IpAddr, net: &str) -> bool {
    let net = net.trim_start_matches('[').trim_end_matches(']');
    let (address, length) =
        net.split_once('/').map_or((net, None), |(address, length)| (address, length.parse().ok()));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let same = |difference: u128, bits: u32| {
        length.unwrap_or(bits) == 0 || difference >> (bits - length.unwrap_or(bits)) == 0
    };
    match (ip, address) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => same(u128::from(ip.to_bits() ^ net.to_bits()), 32),
        (IpAddr::V6(ip), IpAddr::V6(net)) => same(ip.to_bits() ^ net.to_bits(), 128),
        _ => false,
    }
}
