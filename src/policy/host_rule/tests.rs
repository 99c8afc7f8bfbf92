use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// A row of the shared cases of rules.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    #[serde(rename = "match")]
    pub(crate) want: serde_json::Value,
}

fn host(text: &str) -> Host {
    match text.parse::<IpAddr>() {
        Ok(ip) => Host::Ip(ip),
        Err(_) => Host::parse(text.as_bytes()).unwrap(),
    }
}

#[test]
fn the_shared_cases_hold() {
    let cases = include_str!("../../../tests/cases/host_rule.jsonl");
    let mut count = 0;
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let pattern = HostPattern::parse(&case.rule);
        match case.want.as_bool() {
            None => assert!(pattern.is_err(), "{line}"),
            Some(want) => {
                let target = Authority { host: host(&case.host.unwrap()), port: case.port.unwrap() };
                assert_eq!(pattern.unwrap().matches(&target), want, "{line}");
            }
        }
        count += 1;
    }
    assert_eq!(count, 20);
}

#[test]
fn good_patterns_have_a_canonical_text() {
    for (text, want) in [
        ("EXAMPLE.com.", "example.com"),
        ("*.Example.com:443", "*.example.com:443"),
        (".example.com:8000-8010", ".example.com:8000-8010"),
        ("example.com:22-22", "example.com:22"),
        ("*:*", "*:*"),
        ("example.com:443/tcp", "example.com:443/tcp"),
        ("example.com/tcp", "example.com/tcp"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8:22/tcp", "10.0.0.0/8:22/tcp"),
        ("10.1.2.3/32", "10.1.2.3"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
        ("[FD00::1]", "[fd00::1]"),
        ("0.0.0.0/0:53", "0.0.0.0/0:53"),
        ("localhost:8080", "localhost:8080"),
    ] {
        let pattern = HostPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(pattern.to_string(), want, "{text}");
        assert_eq!(HostPattern::parse(want).as_ref(), Ok(&pattern), "{text}");
        assert_eq!(serde_json::to_string(&pattern).unwrap(), format!("\"{want}\""));
    }
}

#[test]
fn bad_patterns_are_refused_with_the_fix() {
    for (text, fix) in [
        ("", "names no host"),
        (":443", "names no host"),
        ("/tcp", "names no host"),
        ("*.com", "*.example.com"),
        (".com:443", "*.example.com"),
        ("**.example.com", "stands alone"),
        ("a.*.com", "stands alone"),
        ("*example.com", "stands alone"),
        ("bücher.example", "punycode"),
        ("2130706433", "write 127.0.0.1"),
        ("127.1:80", "write 127.0.0.1"),
        ("0177.0.0.1", "write 127.0.0.1"),
        ("010.0.0.0/8", "write 8.0.0.0"),
        ("[::ffff:10.0.0.1]", "write 10.0.0.1"),
        ("[::ffff:10.0.0.0/104]", "write 10.0.0.0"),
        ("fd00::1", "write [fd00::1]"),
        ("fd00::/8", "write [fd00::/8]"),
        ("fd00::/8:443", ":PORT"),
        ("fd00::/\u{1b}[31m::", ":PORT"),
        ("10.1.2.3/8", "write 10.0.0.0/8"),
        ("10.0.0.0/33", "prefix length"),
        ("10.0.0.0/08", "prefix length"),
        ("10.0.0.0/", "prefix length"),
        ("[fd00::/8", "brackets"),
        ("[fd00::1]x", "brackets"),
        ("example.com:", ":PORT"),
        ("example.com:0", ":PORT"),
        ("example.com:022", ":PORT"),
        ("example.com:70000", ":PORT"),
        ("example.com:30-20", ":PORT"),
        ("example.com:22-", ":PORT"),
        ("example.com:22:23", ":PORT"),
        ("example.com/path", "not paths"),
        ("example.com:443/udp", "not paths"),
        ("https://example.com", "no URL"),
        ("user@example.com", "letters"),
        ("*.10.0.0.1", "address"),
        ("example..com", "empty"),
    ] {
        let error = HostPattern::parse(text).expect_err(text).to_string();
        assert!(error.contains(fix), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn what_parses_reads_back(text in "[a-c0-9.*:/\\[\\]-]{0,16}(:[0-9*]{1,5})?(/tcp)?") {
        if let Ok(pattern) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
        }
    }
}

#[test]
fn patterns_overlap_where_a_host_and_a_port_are_in_both() {
    let cases = [
        ("a.test", "a.test", true),
        ("a.test", "b.test", false),
        ("a.test", "*", true),
        ("a.test", "*:8443", false),
        ("a.test", "a.test:80", false),
        ("a.test:80", "a.test:80", false),
        ("a.test:22", "a.test:*", false),
        ("a.test:1-500", "a.test", true),
        ("a.test:444-500", "a.test", false),
        ("a.test:20-23", "a.test:22-30", true),
        ("a.test:20-22", "a.test:22-30", false),
        ("a.x.test", "*.x.test", true),
        ("x.test", "*.x.test", false),
        ("x.test", ".x.test", true),
        ("*.a.x.test", "*.x.test", true),
        ("*.ax.test", "*.x.test", false),
        (".x.test", "*.x.test", true),
        ("192.0.2.7", "192.0.2.0/24", true),
        ("192.0.2.7", "198.51.100.0/24", false),
        ("192.0.2.7", "a.test", false),
        ("a.test/tcp", "a.test", true),
    ];
    for (one, two, want) in cases {
        let (one, two) = (HostPattern::parse(one).unwrap(), HostPattern::parse(two).unwrap());
        let got = (one.overlaps(&two, &PLAIN_PORTS), two.overlaps(&one, &PLAIN_PORTS));
        assert_eq!(got, (want, want), "{one} and {two}");
    }
    let (one, two) = (HostPattern::parse("a.test").unwrap(), HostPattern::parse("a.test:80").unwrap());
    assert!(one.overlaps(&two, &[22]) && !one.overlaps(&two, &[80]));
    for (text, want) in [
        ("a.test", true),
        ("a.test:80", false),
        ("a.test:22", false),
        ("a.test:79-80", true),
        ("a.test:*", true),
    ] {
        assert_eq!(HostPattern::parse(text).unwrap().covers_tls(), want, "{text}");
    }
}
