//! The network half of the policy: everything that the doors decide by.

use std::collections::BTreeMap;

use crate::config::settings::{Ech, Inspect, NetworkMode, ResolveTarget};
use crate::policy::authority::{Authority, Host};
use crate::policy::host_rule::{HostPattern, Hosts, StreamCheck};
use crate::policy::http_rule::HttpRules;
use crate::policy::origin::{Layer, Sourced};
use crate::policy::upstream::Upstream;

/// The ports of the jail's loopback where our doors are: the resolver, plain HTTP, TLS, the proxy.
pub const DOOR_PORTS: [u16; 4] = [53, 80, 443, PROXY_PORT];
/// The port of the HTTP and SOCKS proxy.
pub const PROXY_PORT: u16 = 3128;

/// What the jail may reach, and where each rule came from. Never changed after it was made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NetPolicy {
    /// The mode; doors exist in [`NetworkMode::Filtered`] alone.
    pub mode: NetworkMode,
    /// Allowed hosts.
    pub allow: Vec<Sourced<HostPattern>>,
    /// Denied hosts; any of them beats every allowed one.
    pub deny: Vec<Sourced<HostPattern>>,
    /// Hosts, written as host patterns whose ports do not count, that may lead to private, unique local and
    /// carrier-grade NAT addresses. An entry that is no pattern lifts nothing.
    pub allow_private: Vec<Sourced<String>>,
    /// The proxy outside that connections go through.
    pub upstream: Upstream,
    /// `--forward`: ports of the host's loopback that are reachable at the jail's.
    pub forward: Vec<Sourced<u16>>,
    /// `--publish`: ports of the jail's loopback that are reachable at the host's.
    pub publish: Vec<Sourced<u16>>,
    /// `--resolve`: where a host is dialled instead, by its canonical text. It allows no host.
    pub resolve: BTreeMap<String, Sourced<ResolveTarget>>,
    /// HTTP rules, the user's and those of registries. They allow no host.
    pub http: Vec<Sourced<HttpRules>>,
    /// Which TLS connections are looked into.
    pub inspect: Inspect,
    /// What becomes of a handshake that hides the host's name.
    pub ech: Ech,
    /// The hosts that masked secrets are put in for. They allow no host.
    pub secret_hosts: Vec<Sourced<HostPattern>>,
}

/// Why TLS to a host is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspected<'p> {
    /// A secret is put in there.
    Secret(&'p Sourced<HostPattern>),
    /// It has HTTP rules.
    Http(&'p Sourced<HttpRules>),
    /// Every host is.
    All,
}

/// Ports that carry no TLS, whatever a rule says.
pub const PLAIN_PORTS: [u16; 2] = [22, 80];

/// Whether a rule of what is denied leaves nothing of `host` where TLS could be looked into.
pub fn closes(deny: &HostPattern, host: &HostPattern) -> bool {
    let hosts = match host.hosts() {
        Hosts::Exact(name) => deny.matches_host(&Host::Name(name.clone())),
        Hosts::Any | Hosts::Below(_) | Hosts::Domain(_) | Hosts::Net(_) => {
            *deny.hosts() == Hosts::Any || deny.hosts() == host.hosts()
        }
    };
    let mut ranges = host.ports().ranges().into_iter();
    let ports = ranges.all(|range| {
        let ends = [*range.start(), *range.end()];
        ends.iter().all(|port| PLAIN_PORTS.contains(port) || deny.ports().contains(*port))
    });
    hosts && ports
}

impl NetPolicy {
    /// Whether the jail can reach something of `host` where TLS could end at us.
    pub fn reaches(&self, host: &HostPattern) -> bool {
        !host.names_loopback()
            && self.allow.iter().any(|rule| rule.value.overlaps(host, &PLAIN_PORTS))
            && !self.deny.iter().any(|rule| closes(&rule.value, host))
    }

    /// Whether TLS to `target` ends at us, so that requests are seen. It says nothing about whether `target` is allowed.
    pub fn inspects(&self, target: &Authority) -> bool {
        self.inspected(target).is_some()
    }

    /// Whether there is a host to which TLS ends at us.
    pub fn may_inspect(&self) -> bool {
        let any = self.inspect == Inspect::All || !self.secret_hosts.is_empty() || !self.http.is_empty();
        self.mode == NetworkMode::Filtered && any
    }

    /// Whether `target` is looked into because it is a registry of tools, and for nothing else.
    pub fn is_registry(&self, target: &Authority) -> bool {
        let mut rules = self.http.iter().filter(|rules| rules.value.host.matches(target)).peekable();
        rules.peek().is_some() && rules.all(|rules| rules.origin.layer == Layer::BuiltIn)
    }

    /// Why TLS to `target` ends at us; `None` when it does not.
    pub fn inspected(&self, target: &Authority) -> Option<Inspected<'_>> {
        if self.mode != NetworkMode::Filtered || PLAIN_PORTS.contains(&target.port) {
            return None;
        }
        if let Some(host) = self.secret_hosts.iter().find(|host| host.value.matches(target)) {
            return Some(Inspected::Secret(host));
        }
        if let Some(rules) = self.http.iter().find(|rules| rules.value.host.matches(target)) {
            return Some(Inspected::Http(rules));
        }
        // With `/tcp` the user says that it may be something else than TLS.
        let any_bytes = |rule: &Sourced<HostPattern>| {
            rule.value.check() == StreamCheck::DangerAnyBytes && rule.value.matches(target)
        };
        (self.inspect == Inspect::All && !self.allow.iter().any(any_bytes)).then_some(Inspected::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret_values::http_host;
    use crate::egress::decide::tests::policy;
    use crate::policy::http_rule::HttpRule;
    use crate::policy::origin::Origin;

    #[test]
    fn only_hosts_that_need_it_are_inspected_and_never_what_is_not_tls() {
        let mut net = policy(&["*", "any.test:443/tcp", "db.test:5432"], &[]);
        let pattern = |text: &str| HostPattern::parse(text).unwrap();
        net.secret_hosts.push(Sourced::new(pattern("*.secret.test:*"), Origin::flag("--secret")));
        let http = HttpRules {
            host: http_host("http.test").unwrap(),
            allow: vec![HttpRule::parse("GET /**").unwrap()],
            deny: Vec::new(),
        };
        net.http.push(Sourced::new(http, Origin::flag("--test")));
        let port = HttpRules {
            host: http_host("port.test:8443").unwrap(),
            allow: vec![HttpRule::parse("GET /**").unwrap()],
            deny: Vec::new(),
        };
        net.http.push(Sourced::new(port, Origin::flag("--test")));
        let cases = [
            ("a.secret.test:443", true, true),
            ("a.secret.test:8443", true, true),
            ("a.secret.test:80", false, false),
            ("a.secret.test:22", false, false),
            ("secret.test:443", false, true),
            ("http.test:443", true, true),
            ("http.test:8443", true, true),
            ("http.test:22", false, false),
            ("port.test:8443", true, true),
            ("port.test:443", false, true),
            ("http.test:80", false, false),
            ("other.test:443", false, true),
            ("any.test:443", false, false),
            ("db.test:5432", false, true),
        ];
        for (target, needed, all) in cases {
            let target = Authority::parse(target.as_bytes()).unwrap();
            net.inspect = Inspect::Needed;
            assert_eq!(net.inspects(&target), needed, "needed: {target}");
            net.inspect = Inspect::All;
            assert_eq!(net.inspects(&target), all, "all: {target}");
            net.mode = NetworkMode::Open;
            assert!(!net.inspects(&target), "open: {target}");
            net.mode = NetworkMode::Filtered;
        }
    }
}
