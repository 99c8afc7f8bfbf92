//! Host patterns: what a rule may say, and what it matches (NET-3).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv6Net};

use crate::policy::authority::{Authority, AuthorityError, Host, HostName, parse_port};
use crate::policy::net::PLAIN_PORTS;

/// A host pattern of `--allow-host`, `--deny-host` and their keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    hosts: Hosts,
    ports: Ports,
    check: StreamCheck,
}

/// The hosts that a pattern covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hosts {
    /// `*`: every name and every address.
    Any,
    /// `example.com`: this name.
    Exact(HostName),
    /// `*.example.com`: the names below, not this one.
    Below(HostName),
    /// `.example.com`: this name and those below.
    Domain(HostName),
    /// One address, or a network of them. Never matches a name.
    Net(IpNet),
}

/// The ports that a pattern covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ports {
    /// No port was written: 80 and 443.
    Web,
    /// One port.
    One(u16),
    /// From the first to the second, both included; the first is lower.
    Range(u16, u16),
    /// `:*`.
    Any,
}

/// Whether what passes on a well-known port must look like that port's protocol (NET-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamCheck {
    /// It must.
    Protocol,
    /// `/tcp` at the end of the pattern: any bytes pass.
    DangerAnyBytes,
}

impl HostPattern {
    /// Reads a pattern: `HOST[:PORTS][/tcp]`. The error says what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if !text.is_ascii() {
            return Err(PatternError::NotAscii);
        }
        let (rest, check) = match text.strip_suffix("/tcp") {
            Some(rest) => (rest, StreamCheck::DangerAnyBytes),
            None => (text, StreamCheck::Protocol),
        };
        let (host, ports) = split_ports(rest)?;
        Ok(Self { hosts: parse_hosts(host)?, ports, check })
    }

    /// Whether the pattern covers `target`, host and port.
    pub fn matches(&self, target: &Authority) -> bool {
        self.ports.contains(target.port) && self.matches_host(&target.host)
    }

    /// Whether the pattern covers `host` on some port.
    pub fn matches_host(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::Any, _) => true,
            (Hosts::Exact(want), Host::Name(name)) => name == want,
            (Hosts::Below(parent), Host::Name(name)) => name.is_below(parent),
            (Hosts::Domain(parent), Host::Name(name)) => name == parent || name.is_below(parent),
            (Hosts::Net(net), Host::Ip(ip)) => net.contains(ip),
            _ => false,
        }
    }

    /// Whether it covers a port on which TLS is possible.
    pub fn covers_tls(&self) -> bool {
        self.ports.ranges().into_iter().any(|mut range| range.any(|port| !PLAIN_PORTS.contains(&port)))
    }

    /// Whether some host and port are covered by this pattern and by `other`, ports of `without` left out.
    pub fn overlaps(&self, other: &Self, without: &[u16]) -> bool {
        let ports = self.ports.ranges().into_iter().any(|one| {
            other.ports.ranges().into_iter().any(|two| {
                let mut both = *one.start().max(two.start())..=*one.end().min(two.end());
                both.any(|port| !without.contains(&port))
            })
        });
        ports && self.shares_host(other)
    }

    fn shares_host(&self, other: &Self) -> bool {
        let name = |name: &HostName| Host::Name(name.clone());
        match (&self.hosts, &other.hosts) {
            (Hosts::Any, _) | (_, Hosts::Any) => true,
            (Hosts::Exact(one), _) => other.matches_host(&name(one)),
            (_, Hosts::Exact(two)) => self.matches_host(&name(two)),
            (Hosts::Net(one), Hosts::Net(two)) => one.contains(two) || two.contains(one),
            (Hosts::Net(_), _) | (_, Hosts::Net(_)) => false,
            (Hosts::Below(one) | Hosts::Domain(one), Hosts::Below(two) | Hosts::Domain(two)) => {
                one == two || one.is_below(two) || two.is_below(one)
            }
        }
    }

    /// The hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The same on every port, when none was written.
    pub fn on_every_port_by_default(self) -> Self {
        match self.ports {
            Ports::Web => Self { ports: Ports::Any, ..self },
            Ports::One(_) | Ports::Range(..) | Ports::Any => self,
        }
    }

    /// The hosts on the ports that are meant when none is written, for a pattern that has every port.
    pub fn without_every_port(&self) -> Self {
        match self.ports {
            Ports::Any => Self { ports: Ports::Web, ..self.clone() },
            Ports::Web | Ports::One(_) | Ports::Range(..) => self.clone(),
        }
    }

    /// Whether it covers nothing but a loopback, which in a jail is the jail's own.
    pub fn names_loopback(&self) -> bool {
        match &self.hosts {
            Hosts::Net(net) => net.addr().is_loopback(),
            Hosts::Exact(name) | Hosts::Below(name) | Hosts::Domain(name) => name.is_localhost(),
            Hosts::Any => false,
        }
    }

    /// Whether the pattern ends in `/tcp`.
    pub fn check(&self) -> StreamCheck {
        self.check
    }
}

impl Ports {
    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        self.ranges().iter().any(|range| range.contains(&port))
    }

    /// The ports as two ranges, in rising order; the second may be the same as the first.
    pub fn ranges(self) -> [RangeInclusive<u16>; 2] {
        match self {
            Self::Web => [80..=80, 443..=443],
            Self::One(port) => [port..=port, port..=port],
            Self::Range(from, to) => [from..=to, from..=to],
            Self::Any => [1..=u16::MAX, 1..=u16::MAX],
        }
    }
}

impl fmt::Display for HostPattern {
    /// The canonical text, which parses to the same pattern.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Exact(name) => name.fmt(f)?,
            Hosts::Below(name) => write!(f, "*.{name}")?,
            Hosts::Domain(name) => write!(f, ".{name}")?,
            Hosts::Net(net) => write_net(*net, f)?,
        }
        match self.ports {
            Ports::Web => {}
            Ports::One(port) => write!(f, ":{port}")?,
            Ports::Range(from, to) => write!(f, ":{from}-{to}")?,
            Ports::Any => f.write_str(":*")?,
        }
        match self.check {
            StreamCheck::Protocol => Ok(()),
            StreamCheck::DangerAnyBytes => f.write_str("/tcp"),
        }
    }
}

impl std::str::FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl serde::Serialize for HostPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a pattern is refused, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There is no host.
    #[error("the pattern names no host; write one such as example.com, or * for all")]
    Empty,
    /// Characters beyond ASCII.
    #[error("host names are ASCII; write an international name in punycode (xn--...)")]
    NotAscii,
    /// A star that is not the whole of the first label.
    #[error("a * stands alone or for everything below a domain; write * or *.example.com")]
    Star,
    /// A wildcard over a whole top-level domain.
    #[error("everything below .{0} is too wide for one rule; write a domain below it, such as *.example.{0}")]
    TopLevel(HostName),
    /// The ports cannot be understood.
    #[error("the ports are not :PORT, :PORT-PORT in rising order, or :* with ports from 1 to 65535")]
    Ports,
    /// Something follows a slash that is neither a prefix length nor `tcp`.
    #[error("a pattern names hosts and ports, not paths; write it without the slash and what follows")]
    Path,
    /// A URL.
    #[error("a pattern is no URL; write the host alone, with :PORT unless it is 80 or 443")]
    Url,
    /// An odd spelling of an IPv4 address.
    #[error("this is another spelling of an address; write {0}")]
    OddAddress(IpAddr),
    /// An IPv6 address without brackets.
    #[error("an IPv6 address or network stands in brackets; write [{0}]")]
    Brackets(String),
    /// Bits behind the prefix.
    #[error("the network has bits set behind its prefix; write {0}")]
    HostBits(IpNet),
    /// A prefix that is no number or too long.
    #[error("the prefix length is not 0 to 32 (IPv4) or 0 to 128 (IPv6); write a network such as 10.0.0.0/8")]
    Prefix,
    /// Anything else that is wrong with the host.
    #[error("{0}; write a name such as example.com, an address, or a network such as 10.0.0.0/8")]
    Host(AuthorityError),
}

fn write_net(net: IpNet, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let single = net.prefix_len() == net.max_prefix_len();
    match (net.addr(), single) {
        (IpAddr::V4(ip), true) => write!(f, "{ip}"),
        (IpAddr::V4(_), false) => write!(f, "{net}"),
        (IpAddr::V6(ip), true) => write!(f, "[{ip}]"),
        (IpAddr::V6(_), false) => write!(f, "[{net}]"),
    }
}

fn split_ports(text: &str) -> Result<(&str, Ports), PatternError> {
    if text.contains("://") {
        return Err(PatternError::Url);
    }
    let host_end = match text.strip_prefix('[') {
        Some(inner) => inner.find(']').ok_or(PatternError::Host(AuthorityError::Brackets))? + 2,
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => return Err(bare_ipv6(text)),
            Some((host, _)) => host.len(),
            None => text.len(),
        },
    };
    let (host, rest) = text.split_at(host_end);
    let ports = match rest.strip_prefix(':') {
        None if rest.is_empty() => Ports::Web,
        None => return Err(PatternError::Host(AuthorityError::Brackets)),
        Some("*") => Ports::Any,
        Some(ports) if ports.contains('/') => return Err(PatternError::Path),
        Some(ports) => parse_ports(ports).ok_or(PatternError::Ports)?,
    };
    Ok((host, ports))
}

fn bare_ipv6(text: &str) -> PatternError {
    // What is to be written must be a pattern, and nothing else of the text is repeated.
    if text.parse::<Ipv6Addr>().is_ok() || text.parse::<Ipv6Net>().is_ok() {
        return PatternError::Brackets(text.to_owned());
    }
    PatternError::Ports
}

fn parse_ports(text: &str) -> Option<Ports> {
    let Some((from, to)) = text.split_once('-') else {
        return parse_port(text.as_bytes()).map(Ports::One);
    };
    let (from, to) = (parse_port(from.as_bytes())?, parse_port(to.as_bytes())?);
    match from.cmp(&to) {
        std::cmp::Ordering::Less => Some(Ports::Range(from, to)),
        std::cmp::Ordering::Equal => Some(Ports::One(from)),
        std::cmp::Ordering::Greater => None,
    }
}

fn parse_hosts(text: &str) -> Result<Hosts, PatternError> {
    if text == "*" {
        return Ok(Hosts::Any);
    }
    if let Some(name) = text.strip_prefix("*.") {
        return wildcard(name).map(Hosts::Below);
    }
    if let Some(name) = text.strip_prefix('.') {
        return wildcard(name).map(Hosts::Domain);
    }
    if let Some((_, prefix)) = text.split_once('/') {
        return parse_net(text, prefix).map(Hosts::Net);
    }
    match plain_host(text)? {
        Host::Name(name) => Ok(Hosts::Exact(name)),
        // Bracketed forms that mean an IPv4 address come back as one, and so differ from what was written.
        Host::Ip(ip) if Host::Ip(ip).to_string() == text || text.starts_with('[') && ip.is_ipv6() => {
            Ok(Hosts::Net(IpNet::from(ip)))
        }
        Host::Ip(ip) => Err(PatternError::OddAddress(ip)),
    }
}

fn wildcard(text: &str) -> Result<HostName, PatternError> {
    match plain_host(text)? {
        Host::Name(name) if name.is_single_label() => Err(PatternError::TopLevel(name)),
        Host::Name(name) => Ok(name),
        Host::Ip(_) => Err(PatternError::Host(AuthorityError::AddressForName)),
    }
}

fn plain_host(text: &str) -> Result<Host, PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.contains('*') {
        return Err(PatternError::Star);
    }
    Host::parse(text.as_bytes()).map_err(PatternError::Host)
}

fn parse_net(text: &str, prefix: &str) -> Result<IpNet, PatternError> {
    let inner = text.strip_prefix('[').map_or(Some(text), |inner| inner.strip_suffix(']'));
    let inner = inner.ok_or(PatternError::Host(AuthorityError::Brackets))?;
    let address = inner.split('/').next().unwrap_or(inner);
    let Ok(address) = address.parse::<IpAddr>() else {
        let odd = Host::parse(address.as_bytes());
        return Err(if let Ok(Host::Ip(ip)) = odd {
            PatternError::OddAddress(ip)
        } else {
            PatternError::Path
        });
    };
    if address.to_canonical() != address {
        return Err(PatternError::OddAddress(address.to_canonical()));
    }
    let digits = prefix.strip_suffix(']').unwrap_or(prefix).as_bytes();
    let length = if digits == b"0" { Some(0) } else { parse_port(digits) };
    let net = length
        .and_then(|length| u8::try_from(length).ok())
        .and_then(|length| IpNet::new(address, length).ok())
        .ok_or(PatternError::Prefix)?;
    if net != net.trunc() {
        return Err(PatternError::HostBits(net.trunc()));
    }
    Ok(net)
}

#[cfg(test)]
pub(crate) mod tests;
