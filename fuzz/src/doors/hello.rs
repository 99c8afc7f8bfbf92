//! The first bytes of TLS and SSH. The first byte says how the rest is cut for the second reading.

use ai_jail::egress::hello::{HELLO_LIMIT, Hidden, Objection, Opening, SSH_LIMIT, ssh, tls};
use ai_jail::policy::authority::{Host, HostName};
use rustls::server::Acceptor;

use super::growing;

/// What is asked for besides the name that is sent.
const ASKED: &[&str] = &["example.com", "a.example.com", "192.0.2.1", "[2001:db8::1]"];

pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    let seen = witness(input);
    let sent = seen.clone().flatten().and_then(|name| Host::parse(name.as_bytes()).ok());
    let asked = ASKED.iter().filter_map(|text| Host::parse(text.as_bytes()).ok()).chain(sent.clone());
    let mut passed = Vec::new();
    for host in asked {
        for hidden in [Hidden::Refused, Hidden::DangerPasses, Hidden::Ignored] {
            let verdict = tls(input, &host, hidden);
            once_is_always(input, *cut, &verdict, HELLO_LIMIT, |bytes| tls(bytes, &host, hidden));
            let unseen = hidden == Hidden::DangerPasses && hides(input, &host);
            if verdict == Opening::Passes && !unseen {
                check_passed(input, &host, &seen);
                passed.push(host.clone());
            }
        }
    }
    passed.retain(|host| matches!(host, Host::Name(_)));
    passed.dedup();
    assert!(passed.len() <= 1, "one hello passes for {passed:?}");
    if let Some(host @ Host::Name(name)) = &sent {
        match tls(input, host, Hidden::Refused) {
            Opening::Passes => {}
            Opening::Refused(Objection::Encrypted) => {
                assert!(input.windows(2).any(|two| two == [0xfe, 0x0d]), "nothing is hidden");
            }
            verdict => assert!(
                input.len() > HELLO_LIMIT || !is_alone(input, name),
                "{verdict:?} for {host}, which another reader sees"
            ),
        }
    }
    check_ssh(input, *cut);
}

fn hides(input: &[u8], host: &Host) -> bool {
    tls(input, host, Hidden::Refused) == Opening::Refused(Objection::Encrypted)
}

/// Holds that another reader finds `host` in a hello that passes for it.
fn check_passed(input: &[u8], host: &Host, seen: &Option<Option<String>>) {
    match host {
        Host::Name(name) => {
            assert!(names(input, name), "{name} passes and is not sent");
            if let Some(seen) = seen {
                let seen = seen.as_ref().and_then(|seen| HostName::parse(seen.as_bytes()).ok());
                assert_eq!(seen.as_ref(), Some(name), "another reader sees another name");
            }
        }
        Host::Ip(ip) => assert!(!matches!(seen, Some(Some(_))), "{ip} passes with the name {seen:?}"),
    }
}

fn check_ssh(input: &[u8], cut: u8) {
    let verdict = ssh(input);
    once_is_always(input, cut, &verdict, SSH_LIMIT, ssh);
    if verdict == Opening::Passes {
        let line = input.iter().position(|byte| *byte == b'\n');
        assert!(input.starts_with(b"SSH-") && line.is_some_and(|line| line < SSH_LIMIT));
    }
}

/// What was said of the beginning is said of the whole, and something is said in the end.
fn once_is_always(input: &[u8], cut: u8, whole: &Opening, limit: usize, judge: impl Fn(&[u8]) -> Opening) {
    assert!(input.len() < limit || *whole != Opening::Incomplete, "{} bytes are not enough", input.len());
    for length in growing(input, cut) {
        let early = judge(&input[..length]);
        assert!(early == *whole || early == Opening::Incomplete, "{early:?} at {length}, then {whole:?}");
    }
}

/// What rustls reads: the name of a ClientHello that it would go on with, if there is one.
fn witness(input: &[u8]) -> Option<Option<String>> {
    let (mut acceptor, mut rest) = (Acceptor::default(), input);
    while acceptor.read_tls(&mut rest).is_ok_and(|read| read > 0) {
        if let Some(accepted) = acceptor.accept().ok()? {
            return Some(accepted.client_hello().server_name().map(str::to_owned));
        }
    }
    None
}

/// Whether the handshake, put together from its records, has a server_name entry of `name` somewhere.
fn names(input: &[u8], name: &HostName) -> bool {
    holds(input, name, <[u8]>::to_vec)
}

/// Whether it has a server_name extension with that entry and no other. Beside one of an unknown type, which rustls passes over,
/// a name does not count.
fn is_alone(input: &[u8], name: &HostName) -> bool {
    holds(input, name, |entry| {
        let length = entry.len() as u16;
        [&[0, 0][..], &(length + 2).to_be_bytes(), &length.to_be_bytes(), entry].concat()
    })
}

fn holds(mut input: &[u8], name: &HostName, around: impl Fn(&[u8]) -> Vec<u8>) -> bool {
    let mut handshake = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = input {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
        handshake.extend_from_slice(record);
        input = rest;
    }
    let name = name.as_str().as_bytes();
    [name.to_vec(), [name, b"."].concat()].iter().any(|name| {
        let entry = around(&[&[0][..], &(name.len() as u16).to_be_bytes(), name].concat());
        handshake.windows(entry.len()).any(|window| window.eq_ignore_ascii_case(&entry))
    })
}
