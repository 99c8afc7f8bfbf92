//! Connections by name, without a proxy.

use super::http::towards;
use super::*;
use crate::egress::dns_message::tests::query;

#[tokio::test]
async fn an_address_of_the_pool_leads_to_its_name() {
    let jail = jail(towards(&["name.test:443/tcp"], echo().await));
    jail.gate.names.address_of(&name("name.test"), names::Owner::Exact).unwrap();
    assert_eq!(talk(jail.https, b"bytes").await, "bytes");
    eventually(|| jail.seen.closed() == [(5, 5)]).await;
    let event = jail.seen.events.lock().unwrap()[0].clone();
    assert_eq!((event.door, event.host.as_str(), event.port), (Door::Transparent, "name.test", Some(443)));
}

#[tokio::test]
async fn denied_and_unknown_addresses_are_closed() {
    let jail = jail(towards(&["name.test:80"], echo().await));
    assert_eq!(talk(jail.https, b"x").await, "", "an address that no name has");
    assert_eq!(jail.seen.denials().len(), 0);
    jail.gate.names.address_of(&name("name.test"), names::Owner::Exact).unwrap();
    assert_eq!(talk(jail.https, b"x").await, "", "a port that no rule names");
    assert_eq!(jail.seen.denials().len(), 1);
}

#[tokio::test]
async fn port_80_is_checked_request_by_request() {
    let addr = origin(|mut stream| async move {
        let head = until(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with("GET /path HTTP/1.1\r\nHost: name.test\r\n"), "{head}");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let first = jail(towards(&["name.test"], addr));
    first.gate.names.address_of(&name("name.test"), names::Owner::Exact).unwrap();
    let good = "GET /path HTTP/1.1\r\nHost: name.test\r\n\r\n";
    let other = "GET /path HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let got = talk(first.http, format!("{good}{good}{other}{good}").as_bytes()).await;
    assert_eq!(got.matches("HTTP/1.1 200 OK").count(), 2, "{got}");
    assert_eq!(got.matches("HTTP/1.1 400 ").count(), 1, "{got}");

    let second = jail(towards(&["name.test:443"], addr));
    second.gate.names.address_of(&name("name.test"), names::Owner::Exact).unwrap();
    let got = talk(second.http, good.as_bytes()).await;
    assert!(got.starts_with("HTTP/1.1 403 ") && got.contains("--allow-host name.test"), "{got}");
}

#[tokio::test]
async fn a_late_listener_leads_to_its_port() {
    let jail = jail(towards(&["name.test:22"], echo().await));
    let mut resolver = TcpStream::connect(jail.dns_tcp).await.unwrap();
    let message = query(b"name.test", 1);
    resolver.write_all(&[&(message.len() as u16).to_be_bytes()[..], &message].concat()).await.unwrap();
    timeout(PATIENCE, resolver.read_u16()).await.unwrap().unwrap();
    let (asked, bound) = jail.seen.bound.lock().unwrap()[0];
    assert_eq!(asked, "198.18.0.2:22".parse().unwrap());
    assert_eq!(talk(bound, b"SSH-2.0-x\r\n").await, "SSH-2.0-x\r\n");
    assert_eq!(jail.seen.events.lock().unwrap()[0].port, Some(22));
}

#[tokio::test]
async fn on_443_and_22_nothing_passes_but_what_they_are_for() {
    for (rule, port) in [("name.test:443", 443), ("name.test:22", 22)] {
        for bytes in [&b"GET / HTTP/1.1\r\nHost: name.test\r\n\r\n"[..], b"\x16\x03\x01\x00\x01\x02", b"x"] {
            let jail = jail(towards(&[rule], echo().await));
            let target = format!("name.test:{port}");
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            let got = talk(jail.proxy, &[request.as_bytes(), bytes].concat()).await;
            assert_eq!(got, "HTTP/1.1 200 Connection established\r\n\r\n", "{target} {bytes:?}");
            eventually(|| jail.seen.denials().len() == 1).await;
            assert!(jail.seen.denials()[0].contains("was cut"), "{:?}", jail.seen.denials());
        }
    }
}
