//! What a vault promises, in tables.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};

use super::*;
use crate::secrets::{Seed, sentinel};

const KEY: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OQ-_AA";
const PASSWORD: &str = "p/4+s=w0rd&with%all \"the\\\t\u{fc}rest<of>it'1234567890";

fn vault() -> Vault {
    let seed = Seed::new([7; 32]);
    let secret = |name: &str, value: &str, host: &str, places: &[Place]| {
        let value = SecretValue::new(value.into()).unwrap();
        Secret {
            name: name.into(),
            sentinel: sentinel(&seed, name, &value, &[]).unwrap(),
            value,
            hosts: vec![HostPattern::parse(host).unwrap()],
            places: places.iter().copied().collect(),
        }
    };
    Vault::new(vec![
        secret("KEY", KEY, "api.example.com", &[Place::Header, Place::Basic, Place::Query, Place::Path]),
        secret("PASSWORD", PASSWORD, "*.example.org", &Place::ALL),
    ])
}

fn to(target: &str) -> Authority {
    Authority::parse(target.as_bytes()).unwrap()
}

fn names(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_value_goes_to_its_hosts_over_verified_tls_and_nowhere_else() {
    let vault = vault();
    let fake = vault.secrets[0].sentinel.as_str().to_owned();
    let cases = [
        ("api.example.com:443", Channel::VerifiedTls, true),
        ("api.example.com:80", Channel::Plain, false),
        ("api.example.com:443", Channel::Plain, false),
        ("api.example.com:8443", Channel::VerifiedTls, false),
        ("example.com:443", Channel::VerifiedTls, false),
        ("x.api.example.com:443", Channel::VerifiedTls, false),
        ("www.example.org:443", Channel::VerifiedTls, false),
        ("192.0.2.1:443", Channel::VerifiedTls, false),
    ];
    for (target, channel, goes) in cases {
        let mut outgoing = vault.outgoing(&to(target), channel);
        let header = format!("Bearer {fake}");
        let out = outgoing.header("X-Api-Key", header.as_bytes());
        let want = if goes { format!("Bearer {KEY}") } else { header.clone() };
        assert_eq!(String::from_utf8_lossy(&out), want, "{target} {channel:?}");
        let (used, stray): (&[&str], &[&str]) = if goes { (&["KEY"], &[]) } else { (&[], &["KEY"]) };
        assert_eq!(
            outgoing.noted(),
            &Noted { used: names(used), stray: names(stray) },
            "{target} {channel:?}"
        );
    }
}

#[test]
fn basic_credentials_are_decoded_and_encoded_again() {
    let vault = vault();
    let fake = vault.secrets[0].sentinel.as_str().to_owned();
    for engine in [&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD] {
        for user in ["", "a", "ab", "abc"] {
            for scheme in ["Basic ", "basic  ", "BASIC\t"] {
                let value = format!("{scheme}{}", engine.encode(format!("{user}:{fake}")));
                let want = format!("{scheme}{}", engine.encode(format!("{user}:{KEY}")));
                for (header, replaced) in
                    [("Authorization", true), ("proxy-authorization", true), ("X-Other", false)]
                {
                    let target = to("api.example.com:443");
                    let mut outgoing = vault.outgoing(&target, Channel::VerifiedTls);
                    let out = outgoing.header(header, value.as_bytes());
                    assert_eq!(String::from_utf8_lossy(&out), if replaced { &*want } else { &*value });
                    assert_eq!(outgoing.noted().used.contains("KEY"), replaced);
                }
            }
        }
    }
}

#[test]
fn an_answer_has_sentinels_for_values() {
    let vault = vault();
    let fake = vault.secrets[0].sentinel.as_str();
    assert_eq!(vault.scrub_value(KEY.as_bytes()), fake.as_bytes());
    for size in 1..80 {
        let mut stream = vault.scrub().unwrap();
        let mut out = Vec::new();
        for piece in format!("data: {{\"key\":\"{KEY}\"}}\n\n").as_bytes().chunks(size) {
            stream.push(piece, &mut out);
        }
        assert_eq!(String::from_utf8_lossy(&out), format!("data: {{\"key\":\"{fake}\"}}\n\n"), "{size}");
    }
}
