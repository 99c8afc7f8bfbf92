//! The one grammar for `host:port` (NET-13). Whatever a client sends is read here before any other code sees it,
//! and the canonical value that comes out is the only one that rules, dialling and the log ever use.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The longest label of a name, from RFC 1035.
const MAX_LABEL: usize = 63;
/// The longest name without its trailing dot, from RFC 1035.
const MAX_NAME: usize = 253;

/// A host name: lower case, without a trailing dot, labels of letters, digits, `-` and `_`, and never an address in
/// disguise. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

impl HostName {
    /// Reads a name. Fails on anything that is not one, every spelling of an address included.
    pub fn parse(text: &[u8]) -> Result<Self, AuthorityError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Ip(_) => Err(AuthorityError::AddressForName),
        }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies below `parent`, at any depth: `a.example.com` below `example.com`.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(&*parent.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// Whether this name means the machine that asks, wherever it is asked: `localhost` and all names below it (RFC 6761).
    pub fn is_localhost(&self) -> bool {
        self.as_str() == "localhost" || self.as_str().ends_with(".localhost")
    }

    /// Whether this name has no dot in it.
    pub fn is_single_label(&self) -> bool {
        !self.0.contains('.')
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name, to be resolved outside.
    Name(HostName),
    /// An address; an IPv4-mapped one is stored as the IPv4 address it means.
    Ip(IpAddr),
}

impl Host {
    /// Reads a host as it stands in an authority: a name, an IPv4 address in any spelling that `inet_aton` knows
    /// (`127.1`, `0x7f000001`, `0177.0.0.1`), or an IPv6 address in brackets. A name whose last label is a number
    /// but which is no such address is refused, because resolvers disagree on what it means.
    pub fn parse(text: &[u8]) -> Result<Self, AuthorityError> {
        if let Some(rest) = text.strip_prefix(b"[") {
            let inner = rest.strip_suffix(b"]").ok_or(AuthorityError::Brackets)?;
            return bracketed(inner);
        }
        let text = text.strip_suffix(b".").unwrap_or(text);
        let Some(last) = text.rsplit(|&byte| byte == b'.').next().filter(|last| !last.is_empty()) else {
            return Err(AuthorityError::Empty);
        };
        if text.len() > MAX_NAME {
            return Err(AuthorityError::TooLong);
        }
        if !text.is_ascii() {
            return Err(AuthorityError::NotAscii);
        }
        if is_number(last) {
            return inet_aton(text).map(|ip| Self::Ip(IpAddr::V4(ip))).ok_or(AuthorityError::OddNumber);
        }
        let mut name = String::with_capacity(text.len());
        for label in text.split(|&byte| byte == b'.') {
            check_label(label)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        Ok(Self::Name(HostName(name.into())))
    }
}

impl fmt::Display for Host {
    /// IPv6 addresses carry their brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// A host and a port, canonical.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, never 0 when it was parsed.
    pub port: u16,
}

impl Authority {
    /// Reads `host:port`; the port must be there.
    pub fn parse(text: &[u8]) -> Result<Self, AuthorityError> {
        Self::read(text, None)
    }

    /// Reads `host` or `host:port`; a missing port is `default_port`. A colon without a port is refused.
    pub fn parse_with_default(text: &[u8], default_port: u16) -> Result<Self, AuthorityError> {
        Self::read(text, Some(default_port))
    }

    fn read(text: &[u8], default_port: Option<u16>) -> Result<Self, AuthorityError> {
        let host_end = match text.first() {
            Some(b'[') => text.iter().position(|&b| b == b']').ok_or(AuthorityError::Brackets)? + 1,
            _ => text.iter().position(|&b| b == b':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        let port = match rest {
            [] => default_port.ok_or(AuthorityError::NoPort)?,
            [b':', digits @ ..] => parse_port(digits).ok_or(AuthorityError::Port)?,
            _ => return Err(AuthorityError::Brackets),
        };
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl From<SocketAddr> for Authority {
    fn from(addr: SocketAddr) -> Self {
        Self { host: Host::Ip(addr.ip().to_canonical()), port: addr.port() }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a host or an authority is refused. The texts quote nothing of what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// There is no host, or a label of it is empty.
    #[error("the host or one of its labels is empty")]
    Empty,
    /// The port is missing.
    #[error("the port is missing")]
    NoPort,
    /// The port is no number from 1 to 65535 in plain digits.
    #[error("the port is not a number from 1 to 65535 without leading zeros")]
    Port,
    /// Brackets that do not pair, or something other than an IPv6 address in them.
    #[error("the brackets do not hold one IPv6 address without a zone")]
    Brackets,
    /// A byte that no host name has.
    #[error("the host has a character other than letters, digits, `-`, `_` and `.`")]
    Character,
    /// A label that begins or ends with a dash.
    #[error("a label of the host begins or ends with `-`")]
    Dash,
    /// A label of more than 63 bytes or a name of more than 253.
    #[error("the host is longer than 253 characters, or a label of it than 63")]
    TooLong,
    /// Characters beyond ASCII.
    #[error("host names are ASCII; an international name is written in punycode (xn--...)")]
    NotAscii,
    /// The last label is a number, but the whole is no address.
    #[error("a host that ends in a number must be an IPv4 address")]
    OddNumber,
    /// An address where only a name will do.
    #[error("an address stands where a name is needed")]
    AddressForName,
}

/// A port in plain digits, 1 to 65535, without sign or leading zeros.
pub(crate) fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 || digits[0] == b'0' {
        return None;
    }
    let value = digits
        .iter()
        .try_fold(0u32, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0')))?;
    u16::try_from(value).ok()
}

fn bracketed(inner: &[u8]) -> Result<Host, AuthorityError> {
    std::str::from_utf8(inner)
        .ok()
        .and_then(|text| text.parse::<Ipv6Addr>().ok())
        .map(|ip| Host::Ip(IpAddr::V6(ip).to_canonical()))
        .ok_or(AuthorityError::Brackets)
}

fn check_label(label: &[u8]) -> Result<(), AuthorityError> {
    if label.is_empty() {
        return Err(AuthorityError::Empty);
    }
    if label.len() > MAX_LABEL {
        return Err(AuthorityError::TooLong);
    }
    if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        return Err(AuthorityError::Character);
    }
    if label.starts_with(b"-") || label.ends_with(b"-") {
        return Err(AuthorityError::Dash);
    }
    Ok(())
}

/// Whether a resolver might take a host with this last label for an address.
fn is_number(label: &[u8]) -> bool {
    match label {
        [b'0', b'x' | b'X', hex @ ..] => hex.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

/// What `inet_aton(3)` makes of `text`: one to four numbers, the last of which fills the bytes that are left.
fn inet_aton(text: &[u8]) -> Option<Ipv4Addr> {
    let mut parts = [0u32; 4];
    let mut count = 0;
    for part in text.split(|&byte| byte == b'.') {
        *parts.get_mut(count)? = aton_number(part)?;
        count += 1;
    }
    let (last, leading) = parts.get(..count)?.split_last()?;
    let room = 32 - 8 * leading.len() as u32;
    if room < 32 && *last >> room != 0 {
        return None;
    }
    let mut value = *last;
    for (index, part) in leading.iter().enumerate() {
        let byte = u8::try_from(*part).ok()?;
        value |= u32::from(byte) << (24 - 8 * index);
    }
    Some(Ipv4Addr::from(value))
}

fn aton_number(part: &[u8]) -> Option<u32> {
    let (digits, radix) = match part {
        [b'0', b'x' | b'X', hex @ ..] => (hex, 16),
        [b'0', octal @ ..] if !octal.is_empty() => (octal, 8),
        decimal => (decimal, 10),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> Option<String> {
        Authority::parse(text.as_bytes()).ok().map(|authority| authority.to_string())
    }

    #[test]
    fn every_spelling_has_one_canonical_value_or_none() {
        let cases = [
            ("EXAMPLE.com:443", Some("example.com:443")),
            ("example.com.:1", Some("example.com:1")),
            ("example.com..:1", None),
            (".example.com:1", None),
            (".:1", None),
            (":443", None),
            ("", None),
            ("example.com", None),
            ("example.com:0", None),
            ("example.com:65535", Some("example.com:65535")),
            ("example.com:65536", None),
            ("example.com:65979", None),
            ("example.com:443 ", None),
            ("exa mple.com:443", None),
            ("example-.com:443", None),
            ("xn--bcher-kva.example:443", Some("xn--bcher-kva.example:443")),
            ("2130706433:80", Some("127.0.0.1:80")),
            ("127.0.0.1.:80", Some("127.0.0.1:80")),
            ("1.2.3:80", Some("1.2.0.3:80")),
            ("1.0xffffff:80", Some("1.255.255.255:80")),
            ("1.0x1000000:80", None),
            ("256.1.1.1:80", None),
            ("1.2.3.4.5:80", None),
            ("4294967296:80", None),
            ("08.1.1.1:80", None),
            ("0x:80", None),
            ("example.123:80", None),
            ("0x7f.example:80", Some("0x7f.example:80")),
            ("::1:80", None),
            ("[::1]", None),
            ("[::1]80", None),
            ("[::1%25lo]:80", None),
            ("[example.com]:80", None),
            ("[2001:DB8::1]:80", Some("[2001:db8::1]:80")),
            ("[::ffff:1.2.3.4]:80", Some("1.2.3.4:80")),
        ];
        for (text, want) in cases {
            assert_eq!(canonical(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn lengths_are_held_to_the_limits_of_dns() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(longest.len(), 253);
        assert!(HostName::parse(longest.as_bytes()).is_ok());
        assert_eq!(HostName::parse(format!("{longest}a").as_bytes()), Err(AuthorityError::TooLong));
        assert_eq!(HostName::parse(format!("{label}a.b").as_bytes()), Err(AuthorityError::TooLong));
    }

    #[test]
    fn below_means_below_at_a_dot() {
        let name = |text: &str| HostName::parse(text.as_bytes()).unwrap();
        assert!(name("a.b.example.com").is_below(&name("example.com")));
        assert!(!name("example.com").is_below(&name("example.com")));
        assert!(!name("evilexample.com").is_below(&name("example.com")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_have_a_canonical_form_that_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(authority) = Authority::parse(&bytes) {
                prop_assert_eq!(Authority::parse(authority.to_string().as_bytes()), Ok(authority));
            }
        }

        #[test]
        fn near_hosts_read_back(text in "[a-c0-9x.\\[\\]:_-]{1,24}:[0-9]{1,5}") {
            if let Ok(authority) = Authority::parse(text.as_bytes()) {
                prop_assert_eq!(Authority::parse(authority.to_string().as_bytes()), Ok(authority));
            }
        }
    }
}
