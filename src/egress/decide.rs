//! PURE: may the jail reach this host and port, and if so where is it dialled. Every door asks here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::settings::NetworkMode;
use crate::policy::address::{Class, Lift, Special, classify, meanings};
use crate::policy::authority::{Authority, Host};
use crate::policy::host_rule::{HostPattern, Hosts, StreamCheck};
use crate::policy::net::NetPolicy;
use crate::policy::origin::{Origin, Sourced};

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'p> {
    /// It may.
    Allow(Allowed<'p>),
    /// It may not.
    Deny(Denial),
}

/// By which rule, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed<'p> {
    /// The rule, with its origin.
    pub rule: &'p Sourced<HostPattern>,
    /// What is dialled.
    pub dial: Dial,
}

/// What is dialled for an allowed target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dial {
    /// The name is resolved outside, and every address that comes back goes through [`vet`].
    Resolve,
    /// This address: the target's own, already vetted, or the one that `--resolve` names.
    Address(SocketAddr),
}

/// A refusal: one line for whoever asked, and its parts for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What was asked for.
    pub target: Authority,
    /// Why not.
    pub reason: Reason,
}

/// Why a target is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The network is not filtered, so that nothing may ask at all.
    NoDoors,
    /// No rule allows it.
    NoRule,
    /// A rule denies it.
    Rule {
        /// The rule's text.
        rule: String,
        /// Where it came from. Not part of the line, which the jail reads.
        origin: Origin,
    },
    /// The address that would be dialled is special.
    Address {
        /// The address.
        ip: IpAddr,
        /// What it is.
        class: Class,
    },
}

/// Decides about `target` on a machine with the addresses `own`. Deny beats allow; a special address, one of `own` among them,
/// needs more than a rule that happens to cover it.
pub fn decide<'p>(policy: &'p NetPolicy, own: &[IpAddr], target: &Authority) -> Decision<'p> {
    let deny = |reason| Decision::Deny(Denial { target: target.clone(), reason });
    if policy.mode != NetworkMode::Filtered {
        return deny(Reason::NoDoors);
    }
    if let Some(reason) = denied_by_rule(policy, target) {
        return deny(reason);
    }
    let mut rules = policy.allow.iter().filter(|rule| rule.value.matches(target));
    let Some(first) = rules.next() else {
        return deny(Reason::NoRule);
    };
    // One `/tcp` among the rules that allow a target is enough to lift the checks.
    let any_bytes = |rule: &&Sourced<HostPattern>| rule.value.check() == StreamCheck::DangerAnyBytes;
    let rule = if any_bytes(&first) { first } else { rules.find(any_bytes).unwrap_or(first) };

    if let Some(mapped) = policy.resolve.get(&target.host.to_string()) {
        let addr = SocketAddr::new(mapped.value.addr, mapped.value.port.unwrap_or(target.port));
        return match denied_by_rule(policy, &Authority::from(addr)) {
            Some(reason) => deny(reason),
            None => Decision::Allow(Allowed { rule, dial: Dial::Address(addr) }),
        };
    }
    let ip = match &target.host {
        Host::Ip(ip) => *ip,
        // Whoever is asked, it is this machine: so nobody is.
        Host::Name(name) if name.is_localhost() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Host::Name(_) => return Decision::Allow(Allowed { rule, dial: Dial::Resolve }),
    };
    match vet(policy, own, target, ip) {
        Ok(()) => Decision::Allow(Allowed { rule, dial: Dial::Address(SocketAddr::new(ip, target.port)) }),
        Err(denial) => Decision::Deny(denial),
    }
}

/// Says whether `ip` may be dialled for `target`, which [`decide`] allowed and which is that address or resolved to it.
pub fn vet(policy: &NetPolicy, own: &[IpAddr], target: &Authority, ip: IpAddr) -> Result<(), Denial> {
    let deny = |reason| Err(Denial { target: target.clone(), reason });
    if let Some(reason) = denied_by_rule(policy, &Authority { host: Host::Ip(ip), port: target.port }) {
        return deny(reason);
    }
    let Some(special) = classify(ip, own) else {
        return Ok(());
    };
    let private_lifted = special.class.lift() == Lift::AllowPrivate && allows_private(policy, &target.host);
    if private_lifted || policy.allow.iter().any(|rule| names_address(&rule.value, ip, target.port, special))
    {
        return Ok(());
    }
    deny(Reason::Address { ip, class: special.class })
}

/// Whether bytes to `target` must be of its port's protocol; `None` when a rule denies it. It admits nothing: whose address
/// it is does not count.
pub fn stream_check(policy: &NetPolicy, target: &Authority) -> Option<StreamCheck> {
    match decide(policy, &[], target) {
        Decision::Allow(allowed) => Some(allowed.rule.value.check()),
        Decision::Deny(_) => None,
    }
}

impl Reason {
    /// A word for the log and for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDoors => "network-off",
            Self::NoRule => "no-rule",
            Self::Rule { .. } => "deny-rule",
            Self::Address { .. } => "address",
        }
    }
}

impl Denial {
    /// Why, in a few words.
    pub fn why(&self) -> String {
        match &self.reason {
            Reason::NoDoors => "the network is off".to_owned(),
            Reason::NoRule => "no rule matches".to_owned(),
            Reason::Rule { rule, .. } => format!("by the rule {rule}"),
            Reason::Address { ip, class } if self.target.host == Host::Ip(*ip) => class.describe().to_owned(),
            Reason::Address { ip, class } => format!("it leads to {ip}, {}", class.describe()),
        }
    }

    /// The option that would allow it; `None` where a rule has to go first.
    pub fn option(&self) -> Option<String> {
        let allow = |host: &Host| option_for(&Authority { host: host.clone(), port: self.target.port });
        match &self.reason {
            Reason::NoDoors => Some("--network".to_owned()),
            Reason::NoRule => Some(allow(&self.target.host)),
            Reason::Rule { .. } => None,
            Reason::Address { ip, class } => Some(match class.lift() {
                Lift::AllowPrivate => format!("--allow-private {}", self.target.host),
                Lift::Literal => allow(&Host::Ip(*ip)),
            }),
        }
    }
}

impl fmt::Display for Denial {
    /// One line: what; why; what to do. It holds nothing but canonical hosts, rules and our own words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, why) = (&self.target, self.why());
        match (&self.reason, self.option()) {
            (Reason::NoDoors, _) => write!(f, "ai-jail: {target} is not allowed ({why}); see --network"),
            (_, Some(option)) => {
                write!(f, "ai-jail: {target} is not allowed ({why}); allow it with {option}")
            }
            (_, None) => write!(f, "ai-jail: {target} is denied ({why}); remove that rule to allow it"),
        }
    }
}

/// The option that allows `target`.
pub fn option_for(target: &Authority) -> String {
    match target.port {
        80 | 443 => format!("--allow-host {}", target.host),
        port => format!("--allow-host {}:{port}", target.host),
    }
}

/// The deny rule that covers `target`, in any form in which its address can be written.
fn denied_by_rule(policy: &NetPolicy, target: &Authority) -> Option<Reason> {
    let forms = match &target.host {
        Host::Name(_) => [Some(target.clone()), None, None],
        Host::Ip(ip) => meanings(*ip).map(|ip| Some(Authority { host: Host::Ip(ip?), port: target.port })),
    };
    let rule = policy.deny.iter().find(|rule| forms.iter().flatten().any(|form| rule.value.matches(form)))?;
    Some(Reason::Rule { rule: rule.value.to_string(), origin: rule.origin.clone() })
}

fn allows_private(policy: &NetPolicy, host: &Host) -> bool {
    policy
        .allow_private
        .iter()
        .any(|entry| HostPattern::parse(&entry.value).is_ok_and(|pattern| pattern.matches_host(host)))
}

/// Whether a rule names the special address itself: it is that address, or a network no wider than the special range.
/// 0.0.0.0/0 covers everything and names nothing.
fn names_address(rule: &HostPattern, ip: IpAddr, port: u16, special: Special) -> bool {
    let Hosts::Net(net) = rule.hosts() else {
        return false;
    };
    let exact = net.prefix_len() == net.max_prefix_len() && net.addr() == ip;
    let within = || special.range.contains(net) && meanings(ip).iter().flatten().any(|ip| net.contains(ip));
    rule.ports().contains(port) && (exact || within())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::config::settings::ResolveTarget;

    /// What stands for an address of this machine.
    pub(crate) const OWN: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))];

    /// A filtered policy of the given rules.
    pub(crate) fn policy(allow: &[&str], deny: &[&str]) -> NetPolicy {
        let rules = |texts: &[&str], flag: &str| {
            texts
                .iter()
                .map(|text| Sourced::new(HostPattern::parse(text).unwrap(), Origin::flag(flag)))
                .collect()
        };
        NetPolicy {
            mode: NetworkMode::Filtered,
            allow: rules(allow, "--allow-host"),
            deny: rules(deny, "--deny-host"),
            allow_private: Vec::new(),
            upstream: crate::policy::upstream::Upstream::default(),
            forward: Vec::new(),
            publish: Vec::new(),
            resolve: BTreeMap::new(),
            http: Vec::new(),
            inspect: crate::config::settings::Inspect::Needed,
            ech: crate::config::settings::Ech::Refuse,
            secret_hosts: Vec::new(),
        }
    }

    /// Adds `--resolve host=addr[:port]`.
    pub(crate) fn resolve(policy: &mut NetPolicy, host: &str, addr: IpAddr, port: Option<u16>) {
        let target = Sourced::new(ResolveTarget { addr, port }, Origin::flag("--resolve"));
        policy.resolve.insert(host.to_owned(), target);
    }

    fn target(text: &str) -> Authority {
        Authority::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn code(policy: &NetPolicy, text: &str) -> &'static str {
        match decide(policy, &OWN, &target(text)) {
            Decision::Allow(_) => "allow",
            Decision::Deny(denial) => denial.reason.code(),
        }
    }

    #[derive(Deserialize)]
    struct Case {
        authority: String,
        is: String,
    }

    #[test]
    fn the_shared_authority_cases_hold() {
        let everything = policy(&["*:*"], &[]);
        let mut count = 0;
        for line in include_str!("../../tests/cases/authority.jsonl").lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let is = match Authority::parse(case.authority.as_bytes()) {
                Err(_) => "bad".to_owned(),
                Ok(target) => match decide(&everything, &OWN, &target) {
                    Decision::Deny(Denial { reason: Reason::Address { .. }, .. }) => "local".to_owned(),
                    Decision::Deny(denial) => panic!("{line}: {denial}"),
                    Decision::Allow(_) => target.to_string(),
                },
            };
            assert_eq!(is, case.is, "{line}");
            count += 1;
        }
        assert_eq!(count, 32);
    }

    #[test]
    fn an_empty_list_allows_nothing_and_other_modes_have_no_doors() {
        let mut nothing = policy(&[], &[]);
        assert_eq!(code(&nothing, "example.com:443"), "no-rule");
        nothing.mode = NetworkMode::Open;
        nothing.allow = policy(&["*"], &[]).allow;
        assert_eq!(code(&nothing, "example.com:443"), "network-off");
    }

    #[test]
    fn deny_beats_allow_in_every_form_of_an_address() {
        let policy = policy(
            &["*:*", "10.0.0.0/8:*"],
            &["bad.example.com", "*.evil.test:*", "10.6.0.0/16:*", "8.8.8.8"],
        );
        for (text, want) in [
            ("bad.example.com:443", "deny-rule"),
            ("bad.example.com:22", "allow"),
            ("a.evil.test:9", "deny-rule"),
            ("evil.test:9", "allow"),
            ("10.5.0.1:1", "allow"),
            ("10.6.0.1:1", "deny-rule"),
            ("0x0a060001:1", "deny-rule"),
            ("[64:ff9b::a06:1]:1", "deny-rule"),
            ("[2002:0808:0808::1]:443", "deny-rule"),
        ] {
            assert_eq!(code(&policy, text), want, "{text}");
        }
    }

    #[test]
    fn special_addresses_need_to_be_named() {
        let policy = policy(
            &[
                "*:*",
                "0.0.0.0/0:*",
                "127.0.0.1:8080",
                "10.0.0.0/8:5432",
                "169.254.0.0/16",
                "93.184.216.0/24:*",
            ],
            &[],
        );
        for (text, want) in [
            ("127.0.0.1:8080", "allow"),
            ("127.0.0.1:8081", "address"),
            ("127.0.0.2:8080", "address"),
            ("10.1.2.3:5432", "allow"),
            ("10.1.2.3:5433", "address"),
            ("192.168.0.1:443", "address"),
            ("169.254.1.1:80", "allow"),
            ("169.254.169.254:80", "address"),
            ("93.184.216.35:443", "allow"),
            ("93.184.216.34:443", "address"),
            ("[64:ff9b::a01:203]:5432", "allow"),
        ] {
            assert_eq!(code(&policy, text), want, "{text}");
        }
    }

    #[test]
    fn resolved_addresses_are_vetted_one_by_one() {
        let mut policy = policy(&["git.corp.example", "127.0.0.1"], &["10.9.9.9"]);
        policy.allow_private.push(Sourced::new("*.corp.example".to_owned(), Origin::flag("--allow-private")));
        policy.allow_private.push(Sourced::new("not a pattern".to_owned(), Origin::flag("--allow-private")));
        for (host, ip, want) in [
            ("git.corp.example:443", "8.8.8.8", true),
            ("git.corp.example:443", "10.0.0.1", true),
            ("git.corp.example:443", "fd00::1", true),
            ("git.corp.example:443", "100.64.0.1", true),
            ("git.corp.example:443", "10.9.9.9", false),
            ("git.corp.example:443", "169.254.169.254", false),
            ("git.corp.example:443", "100.100.100.200", false),
            ("git.corp.example:443", "fd00:ec2::254", false),
            ("git.corp.example:443", "93.184.216.34", false),
            ("git.corp.example:443", "127.0.0.1", true),
            ("other.example:443", "10.0.0.1", false),
            ("other.example:443", "::ffff:10.0.0.1", false),
        ] {
            assert_eq!(vet(&policy, &OWN, &target(host), ip.parse().unwrap()).is_ok(), want, "{host} {ip}");
        }
    }

    #[test]
    fn resolve_maps_every_port_lifts_the_address_check_and_allows_nothing() {
        let mut policy = policy(&["api.example.com:*"], &["10.9.9.9:*"]);
        resolve(&mut policy, "api.example.com", "127.0.0.1".parse().unwrap(), Some(8443));
        resolve(&mut policy, "other.example.com", "127.0.0.1".parse().unwrap(), None);
        for port in ["443", "22"] {
            let Decision::Allow(allowed) = decide(&policy, &OWN, &target(&format!("api.example.com:{port}")))
            else {
                panic!("{port}");
            };
            assert_eq!(allowed.dial, Dial::Address("127.0.0.1:8443".parse().unwrap()));
        }
        assert_eq!(code(&policy, "other.example.com:443"), "no-rule");
        resolve(&mut policy, "api.example.com", "10.9.9.9".parse().unwrap(), None);
        assert_eq!(code(&policy, "api.example.com:443"), "deny-rule");
    }

    #[test]
    fn one_tcp_rule_is_enough_and_is_the_one_that_is_named() {
        let policy = policy(&["*.example.com", "a.example.com:443/tcp"], &[]);
        let Decision::Allow(allowed) = decide(&policy, &OWN, &target("a.example.com:443")) else { panic!() };
        assert_eq!(allowed.rule.value.check(), StreamCheck::DangerAnyBytes);
        let Decision::Allow(allowed) = decide(&policy, &OWN, &target("a.example.com:80")) else { panic!() };
        assert_eq!(allowed.rule.value.to_string(), "*.example.com");
    }

    #[test]
    fn denials_are_one_line_with_the_way_out() {
        let policy = policy(&["a.test", "10.0.0.9:1"], &["no.test"]);
        for (text, want) in [
            (
                "metrics.example.com:443",
                "ai-jail: metrics.example.com:443 is not allowed (no rule matches); \
                 allow it with --allow-host metrics.example.com",
            ),
            (
                "git.x.org:22",
                "ai-jail: git.x.org:22 is not allowed (no rule matches); allow it with --allow-host git.x.org:22",
            ),
            (
                "[2001:db8::1]:80",
                "ai-jail: [2001:db8::1]:80 is not allowed (no rule matches); allow it with --allow-host [2001:db8::1]",
            ),
            (
                "no.test:80",
                "ai-jail: no.test:80 is denied (by the rule no.test); remove that rule to allow it",
            ),
        ] {
            let Decision::Deny(denial) = decide(&policy, &OWN, &target(text)) else { panic!("{text}") };
            assert_eq!(denial.to_string(), want);
        }
        let denial = vet(&policy, &OWN, &target("a.test:80"), "10.0.0.5".parse().unwrap()).unwrap_err();
        assert_eq!(
            denial.to_string(),
            "ai-jail: a.test:80 is not allowed (it leads to 10.0.0.5, a private address); allow it with --allow-private a.test"
        );
        let denial = vet(&policy, &OWN, &target("a.test:8080"), "::1".parse().unwrap()).unwrap_err();
        assert_eq!(
            denial.to_string(),
            "ai-jail: a.test:8080 is not allowed (it leads to ::1, a loopback address); allow it with --allow-host [::1]:8080"
        );
    }
}
