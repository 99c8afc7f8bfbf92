//! Which addresses a name may not lead to (NET-4), as data with a reason per range.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// A kind of address that is not simply a host on the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// This machine as itself.
    Loopback,
    /// "No address" or "this network".
    Unspecified,
    /// The same link.
    LinkLocal,
    /// A group.
    Multicast,
    /// Everybody on a link.
    Broadcast,
    /// Examples in documents.
    Documentation,
    /// RFC 1918.
    Private,
    /// Unique local IPv6.
    UniqueLocal,
    /// Carrier-grade NAT.
    SharedCarrier,
    /// A cloud's instance metadata or its agent's door.
    CloudMetadata,
    /// Set aside by IANA for something other than hosts.
    Reserved,
    /// An address of one of this machine's own interfaces.
    OwnInterface,
}

/// What lifts the refusal of a [`Class`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lift {
    /// `--allow-private HOST`, or a rule that names the address.
    AllowPrivate,
    /// Only a rule that names the address.
    Literal,
}

impl Class {
    /// What the user has to say to reach such an address.
    pub fn lift(self) -> Lift {
        match self {
            Self::Private | Self::UniqueLocal | Self::SharedCarrier => Lift::AllowPrivate,
            _ => Lift::Literal,
        }
    }

    /// The class with its article, to stand in a sentence: "a private address".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Unspecified => "an unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Documentation => "an address for documentation",
            Self::Private => "a private address",
            Self::UniqueLocal => "a unique local address",
            Self::SharedCarrier => "a carrier-grade NAT address",
            Self::CloudMetadata => "a cloud metadata address",
            Self::Reserved => "a reserved address",
            Self::OwnInterface => "an address of this machine",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The addresses.
    pub net: &'static str,
    /// What they are.
    pub class: Class,
    /// Why nothing in a jail has business there, and where that is written.
    pub reason: &'static str,
}

const fn row(net: &'static str, class: Class, reason: &'static str) -> Range {
    Range { net, class, reason }
}

/// The special ranges. The first row that covers an address counts, so single addresses stand before the ranges
/// that hold them.
pub const RANGES: &[Range] = &[
    row(
        "169.254.169.254/32",
        Class::CloudMetadata,
        "instance metadata of most clouds: credentials without a password",
    ),
    row("169.254.170.2/32", Class::CloudMetadata, "credentials of AWS container tasks"),
    row("169.254.170.23/32", Class::CloudMetadata, "credentials of AWS pods"),
    row(
        "100.100.100.200/32",
        Class::CloudMetadata,
        "instance metadata of Alibaba Cloud, inside the CGNAT block",
    ),
    row("192.0.0.192/32", Class::CloudMetadata, "instance metadata of Oracle Cloud's older images"),
    row(
        "168.63.129.16/32",
        Class::CloudMetadata,
        "Azure's host agent: a public address that every guest reaches",
    ),
    row("fd00:ec2::254/128", Class::CloudMetadata, "instance metadata of AWS over IPv6"),
    row("fd00:ec2::23/128", Class::CloudMetadata, "credentials of AWS pods over IPv6"),
    row("fd20:ce::254/128", Class::CloudMetadata, "instance metadata of Google Cloud over IPv6"),
    row("fd00:42::42/128", Class::CloudMetadata, "instance metadata of Scaleway over IPv6"),
    row("127.0.0.0/8", Class::Loopback, "services of this machine that trust whoever can reach them"),
    row(
        "0.0.0.0/8",
        Class::Unspecified,
        "Linux connects 0.0.0.0 to itself; the rest is 'this network' (RFC 791)",
    ),
    row("10.0.0.0/8", Class::Private, "somebody's inner network (RFC 1918)"),
    row("172.16.0.0/12", Class::Private, "somebody's inner network, container bridges (RFC 1918)"),
    row("192.168.0.0/16", Class::Private, "somebody's inner network, routers at home (RFC 1918)"),
    row(
        "100.64.0.0/10",
        Class::SharedCarrier,
        "between a carrier and its customers; overlay networks (RFC 6598)",
    ),
    row("169.254.0.0/16", Class::LinkLocal, "the same link only (RFC 3927)"),
    row("192.0.0.0/24", Class::Reserved, "IETF protocol assignments (RFC 6890)"),
    row("192.0.2.0/24", Class::Documentation, "TEST-NET-1 (RFC 5737)"),
    row("198.51.100.0/24", Class::Documentation, "TEST-NET-2 (RFC 5737)"),
    row("203.0.113.0/24", Class::Documentation, "TEST-NET-3 (RFC 5737)"),
    row("192.88.99.0/24", Class::Reserved, "the anycast of 6to4 relays, withdrawn (RFC 7526)"),
    row(
        "198.18.0.0/15",
        Class::Reserved,
        "benchmarks (RFC 2544), and the block our own resolver answers from",
    ),
    row("224.0.0.0/4", Class::Multicast, "groups (RFC 5771)"),
    row("255.255.255.255/32", Class::Broadcast, "everybody on the link (RFC 919)"),
    row("240.0.0.0/4", Class::Reserved, "never assigned (RFC 1112)"),
    row("::1/128", Class::Loopback, "this machine (RFC 4291)"),
    row("::/128", Class::Unspecified, "Linux connects it to itself (RFC 4291)"),
    row("fc00::/7", Class::UniqueLocal, "somebody's inner network (RFC 4193)"),
    row("fe80::/10", Class::LinkLocal, "the same link only (RFC 4291)"),
    row("fec0::/10", Class::Reserved, "site-local, withdrawn but still routed by some (RFC 3879)"),
    row("ff00::/8", Class::Multicast, "groups (RFC 4291)"),
    row("64:ff9b:1::/48", Class::Reserved, "translation inside one network, of unknown layout (RFC 8215)"),
    row("100::/64", Class::Reserved, "discard only (RFC 6666)"),
    row("2001:db8::/32", Class::Documentation, "examples (RFC 3849)"),
    row("3fff::/20", Class::Documentation, "examples (RFC 9637)"),
    row("2001:2::/48", Class::Reserved, "benchmarks (RFC 5180)"),
    row("2001:10::/28", Class::Reserved, "ORCHID: hashes, not hosts (RFC 4843)"),
    row("2001:20::/28", Class::Reserved, "ORCHIDv2: hashes, not hosts (RFC 7343)"),
    row("5f00::/16", Class::Reserved, "segment routing identifiers (RFC 9602)"),
];

/// The table, read once. A test holds that every row can be read.
static PARSED: LazyLock<Vec<Special>> = LazyLock::new(|| {
    let read = |row: &Range| Some(Special { class: row.class, range: row.net.parse().ok()? });
    RANGES.iter().filter_map(read).collect()
});

/// What [`classify`] found: the class, and the range that a rule must not exceed to count as naming the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    /// The class.
    pub class: Class,
    /// The row's range, or the single address for an interface's own one.
    pub range: IpNet,
}

/// Says what is special about `ip`, looking through every form that carries an IPv4 address; `own` are the addresses
/// of this machine's interfaces. `None` is an ordinary address.
pub fn classify(ip: IpAddr, own: &[IpAddr]) -> Option<Special> {
    meanings(ip).into_iter().flatten().find_map(|meaning| classify_plain(meaning, own))
}

/// The address itself and the IPv4 addresses that it carries: v4-mapped, v4-compatible, v4-translated, NAT64, 6to4,
/// and both of Teredo's.
pub fn meanings(ip: IpAddr) -> [Option<IpAddr>; 3] {
    let ip = ip.to_canonical();
    let IpAddr::V6(v6) = ip else {
        return [Some(ip), None, None];
    };
    let [first, second] = embedded(v6);
    [Some(ip), first.map(IpAddr::V4), second.map(IpAddr::V4)]
}

fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match ip.segments() {
        // `::` and `::1` have rows of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => [v4(high, low), None],
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            [v4(server_high, server_low), v4(!high, !low)]
        }
        _ => [None, None],
    }
}

fn classify_plain(ip: IpAddr, own: &[IpAddr]) -> Option<Special> {
    let special = PARSED.iter().find(|special| special.range.contains(&ip)).copied();
    // An own address that is a loopback one is better called that.
    if special.is_none_or(|special| special.class != Class::Loopback)
        && own.iter().any(|own| own.to_canonical() == ip)
    {
        return Some(Special { class: Class::OwnInterface, range: IpNet::from(ip) });
    }
    special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_network_with_a_reason_and_can_be_reached() {
        for row in RANGES {
            let net: IpNet = row.net.parse().unwrap_or_else(|_| panic!("{}", row.net));
            assert_eq!(net, net.trunc(), "{} has host bits", row.net);
            assert!(row.reason.len() > 10, "{}", row.net);
            let last = net.broadcast();
            let found = [net.network(), last]
                .iter()
                .any(|ip| classify(*ip, &[]).is_some_and(|special| special.range == net));
            assert!(found, "{} is hidden by an earlier row", row.net);
        }
    }

    #[test]
    fn addresses_are_classified_in_every_form() {
        use Class::*;
        let cases = [
            ("8.8.8.8", None),
            ("2606:4700::1111", None),
            ("127.8.9.10", Some(Loopback)),
            ("0.0.0.0", Some(Unspecified)),
            ("10.0.0.1", Some(Private)),
            ("172.15.255.255", None),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.0", None),
            ("192.168.1.1", Some(Private)),
            ("100.127.255.255", Some(SharedCarrier)),
            ("100.128.0.0", None),
            ("169.254.169.254", Some(CloudMetadata)),
            ("169.254.1.1", Some(LinkLocal)),
            ("198.19.255.255", Some(Reserved)),
            ("239.1.1.1", Some(Multicast)),
            ("255.255.255.255", Some(Broadcast)),
            ("250.0.0.1", Some(Reserved)),
            ("::1", Some(Loopback)),
            ("::", Some(Unspecified)),
            ("::ffff:10.0.0.1", Some(Private)),
            ("::10.0.0.1", Some(Private)),
            ("::8.8.8.8", None),
            ("::ffff:0:127.0.0.1", Some(Loopback)),
            ("64:ff9b::7f00:1", Some(Loopback)),
            ("64:ff9b::808:808", None),
            ("64:ff9b:1::808:808", Some(Reserved)),
            ("2002:a9fe:a9fe::1", Some(CloudMetadata)),
            ("2002:808:808::1", None),
            ("2001:0:808:808:0:0:f5ff:fffe", Some(Private)),
            ("2001:0:a00:1:0:0:f7f7:f7f7", Some(Private)),
            ("2001:0:808:808:0:0:f7f7:f7f7", None),
            ("fd12::1", Some(UniqueLocal)),
            ("febf::1", Some(LinkLocal)),
            ("ff02::fb", Some(Multicast)),
            ("203.0.113.5", Some(Documentation)),
        ];
        for (text, want) in cases {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(classify(ip, &[]).map(|special| special.class), want, "{text}");
        }
    }

    #[test]
    fn own_addresses_count_in_every_form_but_loopback_keeps_its_name() {
        let own =
            ["93.184.216.34".parse().unwrap(), "127.0.0.1".parse().unwrap(), "10.0.0.7".parse().unwrap()];
        for (text, want) in [
            ("93.184.216.34", Some(Class::OwnInterface)),
            ("64:ff9b::5db8:d822", Some(Class::OwnInterface)),
            ("10.0.0.7", Some(Class::OwnInterface)),
            ("10.0.0.8", Some(Class::Private)),
            ("127.0.0.1", Some(Class::Loopback)),
            ("93.184.216.35", None),
        ] {
            assert_eq!(classify(text.parse().unwrap(), &own).map(|special| special.class), want, "{text}");
        }
    }
}
