//! SOCKS5 through the proxy door.

use super::http::towards;
use super::*;
use crate::egress::decide::tests::policy;

/// A greeting without a login and a request by name, sent at once as some clients do.
fn asked(name: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend(port.to_be_bytes());
    bytes
}

/// Sends `bytes` and reads the answers to greeting and request.
async fn answers(jail: &Jail, bytes: &[u8]) -> (TcpStream, Vec<u8>) {
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let mut got = vec![0; 12];
    timeout(PATIENCE, client.read_exact(&mut got)).await.unwrap().unwrap();
    assert_eq!(got[..3], [5, 0, 5]);
    (client, got)
}

#[tokio::test]
async fn bytes_pass_both_ways_whether_sent_early_or_late() {
    let jail = jail(towards(&["ok.test:8443"], echo().await));
    let (mut client, got) = answers(&jail, &[&asked("ok.test", 8443)[..], b"early"].concat()).await;
    assert_eq!(got[3], 0);
    client.write_all(b" and late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut client).await, "early and late");
    eventually(|| jail.seen.closed() == [(14, 14)]).await;
    assert!(jail.seen.events.lock().unwrap().iter().all(|event| event.door == Door::Socks));
}

#[tokio::test]
async fn the_answer_says_what_went_wrong() {
    let policy = || {
        let mut policy = towards(&["gone.test:9"], "127.0.0.1:9".parse().unwrap());
        policy.allow.extend(self::policy(&["local.test:443", "nowhere.test:443", "*:8443"], &[]).allow);
        policy
    };
    let local = jail_with(policy(), Deadlines::default(), &["127.0.0.1".parse().unwrap()]);
    let none = jail_with(policy(), Deadlines::default(), &[]);
    for (jail, bytes, code) in [
        (&local, asked("no.test", 443), 2),
        (&local, asked("local.test", 443), 2),
        (&local, asked("127.0.0.1", 8443), 2),
        (&local, asked("2130706433", 8443), 2),
        (&local, asked("evil.test\0.local.test", 443), 1),
        (&none, asked("nowhere.test", 443), 4),
        (&none, asked("gone.test", 9), 5),
        (&local, [&[5, 1, 0, 5, 3][..], &asked("local.test", 443)[5..]].concat(), 7),
        (&local, vec![5, 1, 0, 5, 1, 0, 9, 0], 8),
    ] {
        let (mut client, got) = answers(jail, &bytes).await;
        assert_eq!(got[3], code, "{bytes:?}");
        assert_eq!(rest(&mut client).await, "", "the connection ends");
    }
}

#[tokio::test]
async fn other_versions_and_logins_are_turned_away_in_their_own_words() {
    let jail = jail(policy(&["*"], &[]));
    for (bytes, want) in
        [(&[5, 1, 2][..], &[5, 0xff][..]), (&[4, 1, 0, 80, 1, 1, 1, 1, 0], &[0, 0x5b, 0, 0, 0, 0, 0, 0])]
    {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let mut got = Vec::new();
        timeout(PATIENCE, client.read_to_end(&mut got)).await.unwrap().unwrap();
        assert_eq!(got, want);
    }
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_holds_its_slot_for_the_deadline_alone() {
    let deadlines = Deadlines { head: Duration::from_millis(100), ..Deadlines::default() };
    let jail = jail_with(policy(&["*"], &[]), deadlines, &[]);
    for bytes in [&[5][..], &[5, 3, 0], &[5, 1, 0, 5, 1, 0, 3, 40, b'a']] {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(bytes).await.unwrap();
        rest(&mut client).await;
    }
}

#[tokio::test]
async fn the_checks_of_ports_22_80_and_443_hold_here_too() {
    let addr = echo().await;
    let jail = jail(towards(&["ok.test:22", "ok.test:80", "ok.test:443"], addr));
    for (port, bytes) in [
        (443, &b"GET / HTTP/1.1\r\n\r\n"[..]),
        (22, b"GET / HTTP/1.1\r\n\r\n"),
        (80, b"SSH-2.0-x\r\n\r\n"),
        (80, b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"),
    ] {
        let (mut client, got) = answers(&jail, &asked("ok.test", port)).await;
        assert_eq!(got[3], 0);
        client.write_all(bytes).await.unwrap();
        let _ = client.shutdown().await;
        let got = rest(&mut client).await;
        assert!(got.is_empty() || got.starts_with("HTTP/1.1 400 "), "{port}: {got}");
    }
}
