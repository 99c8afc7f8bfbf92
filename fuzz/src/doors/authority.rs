//! The grammar of `host:port`.

use std::net::IpAddr;

use ai_jail::policy::authority::{Authority, AuthorityError, Host, HostName};

pub fn check(input: &[u8]) {
    let parsed = Authority::parse(input);
    if let Ok(authority) = &parsed {
        let port = format!(":{}", authority.port);
        assert!(authority.port != 0 && input.ends_with(port.as_bytes()), "{authority:?}");
        canonical(&authority.host);
        assert_eq!(Authority::parse(authority.to_string().as_bytes()).as_ref(), Ok(authority));
    }
    for changed in [input.to_ascii_lowercase(), input.to_ascii_uppercase()] {
        assert_eq!(Authority::parse(&changed), parsed, "in another case");
    }
    let with_default = Authority::parse_with_default(input, 8443);
    match parsed {
        Err(AuthorityError::NoPort) => {
            assert_eq!(with_default, Authority::parse(&[input, b":8443"].concat()))
        }
        parsed => assert_eq!(with_default, parsed, "a default port changes nothing where one is written"),
    }
    check_host(input);
}

fn check_host(input: &[u8]) {
    let host = Host::parse(input);
    let name = HostName::parse(input);
    match &host {
        Ok(Host::Name(found)) => assert_eq!(name.as_ref(), Ok(found)),
        Ok(Host::Ip(_)) => assert_eq!(name, Err(AuthorityError::AddressForName)),
        Err(error) => assert_eq!(name, Err(*error)),
    }
    if let Ok(host) = &host {
        canonical(host);
        assert_eq!(Host::parse(host.to_string().as_bytes()).as_ref(), Ok(host));
        // A trailing dot means the root and changes nothing, but for what stands in brackets.
        let dotted = Host::parse(&[input, b"."].concat());
        assert!(dotted.is_err() == (input.ends_with(b".") || input.ends_with(b"]")), "{dotted:?}");
        assert!(dotted.is_err() || dotted.as_ref() == Ok(host), "{dotted:?}");
    }
    if let Some(ip) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<IpAddr>().ok()) {
        match ip {
            IpAddr::V4(_) => assert_eq!(host, Ok(Host::Ip(ip))),
            IpAddr::V6(_) => {
                assert!(host.is_err(), "{host:?} without brackets");
                let bracketed = Host::parse(&[b"[", input, b"]"].concat());
                assert_eq!(bracketed, Ok(Host::Ip(ip.to_canonical())));
            }
        }
    }
}

/// Holds that `host` has the one form that rules, dialling and the log go by.
pub fn canonical(host: &Host) {
    let name = match host {
        Host::Ip(ip) => return assert_eq!(*ip, ip.to_canonical()),
        Host::Name(name) => name,
    };
    let text = name.as_str();
    assert!((1..=253).contains(&text.len()), "{text}");
    assert!(
        text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')),
        "{text}"
    );
    for label in text.split('.') {
        assert!(
            (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-'),
            "{text}"
        );
    }
    let last = text.rsplit('.').next().unwrap_or_default();
    let hexadecimal =
        last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(!hexadecimal && !last.bytes().all(|byte| byte.is_ascii_digit()), "{text} may be an address");
    assert!(!name.is_below(name), "{text}");
    if let Some((_, parent)) = text.split_once('.') {
        let parent = HostName::parse(parent.as_bytes());
        assert!(parent.is_ok_and(|parent| name.is_below(&parent) && !parent.is_below(name)), "{text}");
    }
}
