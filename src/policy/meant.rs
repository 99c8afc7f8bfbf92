//! The allowed host that a denied one may be a misspelling of. Only the user may hear of it: the jail is not told what is
//! allowed.

use crate::egress::decide::{Decision, decide};
use crate::policy::authority::{Authority, Host, HostName};
use crate::policy::host_rule::{HostPattern, Hosts};
use crate::policy::net::NetPolicy;

/// The allowed host that is nearest to `target`, which no rule allows, when it is one or two edits away from it and allowed
/// on the same port. Names that differ in a number, or in a label of some letters, are siblings and no misspellings.
pub fn meant(policy: &NetPolicy, target: &Authority) -> Option<Host> {
    let Host::Name(name) = &target.host else { return None };
    let mut hosts = nearest(name, policy.allow.iter().map(|rule| &rule.value)).into_iter().map(Host::Name);
    // A rule that denies it, or is about other ports, is no help.
    hosts.find(|host| {
        let candidate = Authority { host: host.clone(), port: target.port };
        matches!(decide(policy, &[], &candidate), Decision::Allow(_))
    })
}

/// The names that `allowed` patterns cover and of which `name` may be a misspelling, the nearest first.
pub fn nearest<'p>(name: &HostName, allowed: impl Iterator<Item = &'p HostPattern>) -> Vec<HostName> {
    if !(SHORTEST..=LONGEST).contains(&name.as_str().len()) {
        return Vec::new();
    }
    let near = allowed.flat_map(|pattern| candidates(name, pattern.hosts()));
    let near = near.filter_map(|candidate| Some((distance(name.as_str(), candidate.as_str())?, candidate)));
    let mut near: Vec<_> = near.collect();
    near.sort();
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The names that a pattern covers and that are like `name`: below a parent it is what `name` would be there.
fn candidates(name: &HostName, hosts: &Hosts) -> Vec<HostName> {
    let below = |parent: &HostName| {
        let labels = parent.as_str().split('.').count();
        let (at, _) = name.as_str().rmatch_indices('.').nth(labels - 1)?;
        HostName::parse(format!("{}.{parent}", &name.as_str()[..at]).as_bytes()).ok()
    };
    match hosts {
        Hosts::Any | Hosts::Net(_) => Vec::new(),
        Hosts::Exact(own) => vec![own.clone()],
        Hosts::Below(parent) => below(parent).into_iter().collect(),
        Hosts::Domain(parent) => below(parent).into_iter().chain([parent.clone()]).collect(),
    }
}

/// How far `name` is from `other`, if so near that it may be a misspelling.
fn distance(name: &str, other: &str) -> Option<usize> {
    let most = if other.len() < LONG { 1 } else { 2 };
    if name.len().abs_diff(other.len()) > most {
        return None;
    }
    let without_digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    if without_digits(name) == without_digits(other) {
        return None;
    }
    let labels: Vec<_> = name.split('.').zip(other.split('.')).collect();
    let as_many = name.split('.').count() == other.split('.').count();
    let (last, others) = labels.split_last()?;
    let short = others.iter().any(|(one, two)| one != two && two.len() < SHORT_LABEL);
    if as_many && (short || last.0 != last.1 && others.iter().any(|(one, two)| one != two)) {
        return None;
    }
    let distance = strsim::osa_distance(name, other);
    (1..=most).contains(&distance).then_some(distance)
}

/// Shorter names are near to too many (bytes).
const SHORTEST: usize = 8;

/// The distance takes quadratic time, and the jail chooses the names (bytes).
const LONGEST: usize = 64;

/// Names of this length may be two edits away (bytes).
const LONG: usize = 12;

/// `eu` and `us`, `api` and `app` are different words (bytes).
const SHORT_LABEL: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::decide::tests::policy;

    #[test]
    fn a_misspelt_host_is_found_and_no_other() {
        let policy = policy(
            &[
                "api.github.com",
                "*.example.org",
                ".anthropic.com",
                "registry.npmjs.org",
                "git.sourcehut.org:22",
                "denied.sourcehut.org",
                "node1.cluster.test",
                "eu.service.test",
                "a.io",
                "10.0.0.0/8",
            ],
            &["denied.sourcehut.org"],
        );
        let cases = [
            ("api.gihub.com:443", Some("api.github.com")),
            ("api.gihtub.com:443", Some("api.github.com")),
            ("apii.github.com:443", None),
            ("api.github.con:443", Some("api.github.com")),
            ("api.github.co:443", Some("api.github.com")),
            ("apigithub.com:443", Some("api.github.com")),
            ("api.github.com:22", None),
            ("docs.exmaple.org:443", Some("docs.example.org")),
            ("a.b.exampel.org:443", Some("a.b.example.org")),
            ("exampel.org:443", None),
            ("antropic.com:443", Some("anthropic.com")),
            ("api.anthropik.com:443", Some("api.anthropic.com")),
            ("regisrty.npmjs.org:443", Some("registry.npmjs.org")),
            ("registry.nqmjs.net:443", None),
            ("git.sourcehat.org:443", None),
            ("git.sourcehat.org:22", Some("git.sourcehut.org")),
            ("denyed.sourcehut.org:443", None),
            ("node2.cluster.test:443", None),
            ("us.service.test:443", None),
            ("b.io:443", None),
            ("entirely.different.net:443", None),
            ("10.0.0.1:443", None),
        ];
        for (target, want) in cases {
            let target = Authority::parse(target.as_bytes()).unwrap();
            let got = meant(&policy, &target).map(|host| host.to_string());
            assert_eq!(got.as_deref(), want, "{target}");
        }
        let long = format!("{}.test:443", ["x".repeat(60).as_str(); 4].join("."));
        assert_eq!(meant(&policy, &Authority::parse(long.as_bytes()).unwrap()), None);
    }
}
