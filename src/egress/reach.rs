//! PURE: what the transparent doors have to serve for a policy: names, ports, listeners, routes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use ipnet::{IpNet, Ipv4Net};

use crate::egress::decide::{Decision, decide};
use crate::egress::names::{Owner, is_pooled};
use crate::policy::authority::{Authority, Host, HostName};
use crate::policy::host_rule::{HostPattern, Hosts, Ports};
use crate::policy::net::NetPolicy;
use crate::policy::origin::Sourced;

/// The ports that have a listener on every address of the namespace.
const WEB_PORTS: [u16; 2] = [80, 443];
/// The shortest prefix of an address rule that gets a route of its own: 256 addresses. Wider ones, as documented,
/// work through the HTTP and SOCKS doors.
const ROUTED_PREFIX: u8 = 24;

/// Whether `name` is allowed on at least one port, so that the resolver may answer for it.
pub fn could_allow_name(policy: &NetPolicy, name: &HostName) -> bool {
    let host = Host::Name(name.clone());
    let covering = |rules: &[Sourced<HostPattern>]| {
        let ranges = rules.iter().filter(|rule| rule.value.matches_host(&host));
        ranges.flat_map(|rule| rule.value.ports().ranges()).collect::<Vec<_>>()
    };
    let allowed = covering(&policy.allow);
    if allowed.is_empty() {
        return false;
    }
    // The lowest allowed port is where an allowed range begins or just behind a denied one.
    let begins = allowed.into_iter().map(|range| *range.start());
    let behind = covering(&policy.deny).into_iter().filter_map(|range| range.end().checked_add(1));
    let mut candidates = begins.chain(behind);
    candidates.any(|port| allows(policy, &host, port))
}

/// Whose share of addresses and listeners `name` takes.
pub fn owner(policy: &NetPolicy, name: &HostName) -> Owner {
    let host = Host::Name(name.clone());
    let mut rules = policy.allow.iter().enumerate().filter(|(_, rule)| rule.value.matches_host(&host));
    let Some((first, _)) = rules.clone().next() else {
        return Owner::Exact;
    };
    let spelt_out = |rule: &HostPattern| match rule.hosts() {
        Hosts::Exact(own) | Hosts::Domain(own) => own == name,
        _ => false,
    };
    if rules.any(|(_, rule)| spelt_out(&rule.value)) { Owner::Exact } else { Owner::Rule(first) }
}

/// The number of allow rules that cover more names than they spell out.
pub fn wildcards(policy: &NetPolicy) -> usize {
    let is_wildcard =
        |rule: &HostPattern| matches!(rule.hosts(), Hosts::Any | Hosts::Below(_) | Hosts::Domain(_));
    policy.allow.iter().filter(|rule| is_wildcard(&rule.value)).count()
}

/// Whether programs that know no proxy reach an allowed `target`: there is a listener on its port. Rules on ranges of
/// ports and on every port make none, nor do those on wide networks and on IPv6.
pub fn has_listener(policy: &NetPolicy, target: &Authority) -> bool {
    match &target.host {
        Host::Name(name) => {
            WEB_PORTS.contains(&target.port) || single_ports(policy, name).contains(&target.port)
        }
        Host::Ip(IpAddr::V4(ip)) => {
            local_routes(policy).iter().any(|net| net.contains(ip))
                && (WEB_PORTS.contains(&target.port)
                    || address_listeners(policy).contains(&SocketAddrV4::new(*ip, target.port)))
        }
        Host::Ip(IpAddr::V6(_)) => false,
    }
}

/// The single ports besides 80 and 443 that rules name for `name` and that are allowed: each gets a listener on the
/// name's own address.
pub fn single_ports(policy: &NetPolicy, name: &HostName) -> BTreeSet<u16> {
    let host = Host::Name(name.clone());
    let rules = policy.allow.iter().filter(|rule| rule.value.matches_host(&host));
    rules.filter_map(|rule| single_port(&rule.value)).filter(|port| allows(policy, &host, *port)).collect()
}

/// The networks of address rules that need a `local` route in the namespace, so that programs that know no proxy
/// reach the doors. The jail's own loopback and the resolver's block have theirs already.
pub fn local_routes(policy: &NetPolicy) -> Vec<Ipv4Net> {
    let nets = policy.allow.iter().filter_map(|rule| routed(&rule.value)).collect::<BTreeSet<_>>();
    nets.into_iter().collect()
}

/// The listeners, besides those on ports 80 and 443, that address rules with single ports need once [`local_routes`]
/// are in place. [`crate::egress::serve`] asks for them when it starts.
pub fn address_listeners(policy: &NetPolicy) -> BTreeSet<SocketAddrV4> {
    let rules =
        policy.allow.iter().filter_map(|rule| Some((routed(&rule.value)?, single_port(&rule.value)?)));
    let addresses = rules.flat_map(|(net, port)| {
        let first = u32::from(net.network());
        let last = u32::from(net.broadcast());
        (first..=last).map(move |ip| SocketAddrV4::new(Ipv4Addr::from(ip), port))
    });
    addresses.filter(|addr| allows(policy, &Host::Ip(IpAddr::V4(*addr.ip())), addr.port())).collect()
}

fn allows(policy: &NetPolicy, host: &Host, port: u16) -> bool {
    // Names and routes for more than what is admitted do no harm: this machine's addresses are the gate's business.
    matches!(decide(policy, &[], &Authority { host: host.clone(), port }), Decision::Allow(_))
}

fn single_port(rule: &HostPattern) -> Option<u16> {
    match rule.ports() {
        Ports::One(port) if !WEB_PORTS.contains(&port) => Some(port),
        _ => None,
    }
}

fn routed(rule: &HostPattern) -> Option<Ipv4Net> {
    let Hosts::Net(IpNet::V4(net)) = rule.hosts() else {
        return None;
    };
    let served = single_port(rule).is_some() || WEB_PORTS.iter().any(|port| rule.ports().contains(*port));
    let has_route = net.network().is_loopback() || is_pooled(net.network());
    (net.prefix_len() >= ROUTED_PREFIX && served && !has_route).then_some(*net)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::decide::tests::policy;

    fn name(text: &str) -> HostName {
        HostName::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_is_answered_when_some_port_is_left() {
        let policy = policy(
            &["a.test", "b.test:22", "c.test:100-200", "*.wild.test:*", "d.test:*", "10.0.0.1"],
            &["a.test:80", "b.test:*", "c.test:100-199", "x.wild.test:*", "d.test:1-65534"],
        );
        for (text, want) in [
            ("a.test", true),
            ("b.test", false),
            ("c.test", true),
            ("y.wild.test", true),
            ("x.wild.test", false),
            ("wild.test", false),
            ("d.test", true),
            ("other.test", false),
        ] {
            assert_eq!(could_allow_name(&policy, &name(text)), want, "{text}");
        }
    }

    #[test]
    fn names_take_the_share_of_their_first_rule_but_for_those_that_are_spelt_out() {
        let policy = policy(&["10.0.0.1", "*.a.test", ".b.test", "x.a.test", "*.y.a.test", "*:22"], &[]);
        for (text, want) in [
            ("z.a.test", Owner::Rule(1)),
            ("w.y.a.test", Owner::Rule(1)),
            ("b.test", Owner::Exact),
            ("c.b.test", Owner::Rule(2)),
            ("x.a.test", Owner::Exact),
            ("other.test", Owner::Rule(5)),
        ] {
            assert_eq!(owner(&policy, &name(text)), want, "{text}");
        }
        assert_eq!(wildcards(&policy), 4);
    }

    #[test]
    fn ranges_and_wide_networks_have_no_listeners() {
        let policy = policy(
            &[
                "a.test:*",
                "b.test:8000-8010",
                "c.test:22",
                "d.test",
                "10.0.0.1:22",
                "10.1.0.0/16",
                "[fd00::1]",
            ],
            &[],
        );
        for (text, want) in [
            ("a.test:22", false),
            ("a.test:443", true),
            ("b.test:8001", false),
            ("c.test:22", true),
            ("d.test:80", true),
            ("10.0.0.1:22", true),
            ("10.0.0.1:443", false),
            ("10.1.2.3:443", false),
            ("[fd00::1]:443", false),
        ] {
            let target = Authority::parse(text.as_bytes()).unwrap();
            let allowed = allows(&policy, &target.host, target.port);
            assert_eq!(allowed && has_listener(&policy, &target), want, "{text}");
        }
    }

    #[test]
    fn single_ports_are_those_that_rules_name_and_deny_leaves() {
        let policy = policy(
            &["git.my.test:22", "*.my.test:9418", "git.my.test", "git.my.test:1-9", "*.my.test:25"],
            &["git.my.test:25"],
        );
        assert_eq!(single_ports(&policy, &name("git.my.test")).into_iter().collect::<Vec<_>>(), [22, 9418]);
        assert_eq!(single_ports(&policy, &name("other.org")).len(), 0);
    }

    #[test]
    fn small_address_rules_get_routes_and_listeners() {
        let policy = policy(
            &[
                "10.0.0.0/30:5432",
                "192.0.2.7",
                "10.0.0.0/8:22",
                "[fd00::1]:22",
                "127.0.0.1:22",
                "198.18.0.9:22",
                "10.1.0.1:7-9",
            ],
            &["10.0.0.2:5432"],
        );
        let routes = local_routes(&policy).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(routes, ["10.0.0.0/30", "192.0.2.7/32"]);
        let listeners = address_listeners(&policy).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(listeners, ["10.0.0.0:5432", "10.0.0.1:5432", "10.0.0.3:5432"]);
    }
}
