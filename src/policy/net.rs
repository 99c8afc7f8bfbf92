//! The network half of the policy: everything that the doors decide by.

use std::collections::BTreeMap;

use crate::config::settings::{NetworkMode, ResolveTarget};
use crate::policy::host_rule::HostPattern;
use crate::policy::origin::Sourced;
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
}
