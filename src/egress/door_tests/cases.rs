//! The shared cases of rules and authorities, asked through the doors that can be asked about them. (`tests/escape` asks the
//! proxy of a real jail.)

use serde::Deserialize;

use super::*;
use crate::egress::decide::tests::policy;
use crate::policy::authority::{Authority, Host};
use crate::policy::host_rule::tests::Case;

/// A SOCKS greeting and a request by name, whatever the name is.
fn socks_by_name(name: &str, port: u16) -> Vec<u8> {
    [&[5, 1, 0, 5, 1, 0, 3, name.len() as u8], name.as_bytes(), &port.to_be_bytes()].concat()
}

/// What a client sends to the proxy door to get to `target`.
fn asks(target: &Authority) -> [Vec<u8>; 2] {
    let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes();
    let mut socks = vec![5, 1, 0, 5, 1, 0];
    match &target.host {
        Host::Name(name) => return [connect, socks_by_name(name.as_str(), target.port)],
        Host::Ip(IpAddr::V4(ip)) => {
            socks.push(1);
            socks.extend(ip.octets());
        }
        Host::Ip(IpAddr::V6(ip)) => {
            socks.push(4);
            socks.extend(ip.octets());
        }
    }
    socks.extend(target.port.to_be_bytes());
    [connect, socks]
}

#[tokio::test]
async fn the_shared_rules_hold_at_every_door() {
    let mut through = [0; 3];
    for line in include_str!("../../../tests/cases/host_rule.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let Some(want) = case.want.as_bool() else { continue };
        let (host, port) = (case.host.unwrap(), case.port.unwrap());
        let host = host.parse().map(Host::Ip).unwrap_or_else(|_| Host::Name(name(&host)));
        let target = Authority { host, port };
        // Nothing is behind the doors, and nothing is waited for.
        let deadlines = Deadlines { connect: Duration::from_millis(50), ..Deadlines::default() };
        let served = || jail_with(policy(&[&case.rule], &[]), deadlines, &[]);
        let [connect, socks] = asks(&target);
        let mut asked = Vec::new();
        for bytes in [connect, socks] {
            let jail = served();
            let mut client = TcpStream::connect(jail.proxy).await.unwrap();
            client.write_all(&bytes).await.unwrap();
            asked.push((jail, client));
        }
        if let (Host::Name(name), 443) = (&target.host, target.port) {
            let jail = served();
            jail.gate.names.address_of(name, names::Owner::Exact).unwrap();
            let client = TcpStream::connect(jail.https).await.unwrap();
            asked.push((jail, client));
        }
        for (door, (jail, _client)) in asked.iter().enumerate() {
            eventually(|| !jail.seen.verdicts().is_empty()).await;
            match (want, &jail.seen.verdicts()[0]) {
                (true, Verdict::Allowed { .. }) | (false, Verdict::Denied(_)) => through[door] += 1,
                (_, other) => panic!("door {door}: {line}: {other:?}"),
            }
            jail.server.abort();
        }
    }
    assert_eq!(through, [13, 13, 9]);
}

#[derive(Deserialize)]
struct AuthorityCase {
    authority: String,
    is: String,
}

#[tokio::test]
async fn the_shared_authorities_mean_the_same_to_socks() {
    let mut count = 0;
    for line in include_str!("../../../tests/cases/authority.jsonl").lines() {
        let case: AuthorityCase = serde_json::from_str(line).unwrap();
        // A port is two bytes here, and has no spelling that could be wrong.
        let Some((host, port)) = case.authority.rsplit_once(':') else { continue };
        let Some(port) = port.parse().ok().filter(|parsed: &u16| parsed.to_string() == port) else {
            continue;
        };
        let jail = jail(policy(&["*:*"], &[]));
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(&socks_by_name(host, port)).await.unwrap();
        let mut answers = [0; 12];
        timeout(PATIENCE, client.read_exact(&mut answers)).await.unwrap().unwrap();
        let want = match case.is.as_str() {
            "bad" => 1,
            "local" => 2,
            // It is allowed, and has no address.
            _ => 4,
        };
        assert_eq!(answers[3], want, "{line}");
        let told = jail.seen.events.lock().unwrap().first().cloned();
        let told = told.map(|event| format!("{}:{}", event.host, event.port.unwrap()));
        match want {
            1 => assert_eq!(told, None, "{line}"),
            4 => assert_eq!(told.as_deref(), Some(case.is.as_str()), "{line}"),
            _ => {}
        }
        jail.server.abort();
        count += 1;
    }
    assert_eq!(count, 27);
}
