//! Hosts whose traffic is read, between real TLS clients and origins.

mod bodies;
mod odd;
mod second;
mod trust;

use std::sync::atomic::{AtomicUsize, Ordering};

use time::OffsetDateTime;
use tokio::sync::{Notify, mpsc};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::*;
use crate::egress::door_tests::http::towards;
use crate::policy::authority::Host;
use crate::policy::host_rule::HostPattern;
use crate::policy::http_rule::{HttpRule, HttpRules};
use crate::policy::origin::{Origin, Sourced};
use crate::secrets::{Places, Secret, SecretValue, Seed, Vault, sentinel};
use crate::tls::ca::{Alpn, SessionCa};
use crate::tls::roots::{Offer, Roots};

const VALUE: &str = "sk-ant-api03-Zq4Rm9LtX2vB7nKc5WyHd8Js";
const HOST: &str = "api.test";

/// A jail with one secret for `api.test`, the world's authority, and what the fake is.
struct Read {
    jail: Jail,
    inside: Roots,
    fake: String,
}

fn ca() -> SessionCa {
    SessionCa::new(OffsetDateTime::now_utc()).unwrap()
}

fn roots(ca: &SessionCa) -> Roots {
    Roots::new(ca.certificate_pem().as_bytes().to_vec())
}

fn read_with(origin: SocketAddr, world: &SessionCa, change: impl FnOnce(&mut NetPolicy)) -> Read {
    read_trusting(origin, world, world, change)
}

/// `tools` is the authority that the tools alone are configured with.
fn read_trusting(
    origin: SocketAddr,
    world: &SessionCa,
    tools: &SessionCa,
    change: impl FnOnce(&mut NetPolicy),
) -> Read {
    read_within(origin, world, tools, short(), change)
}

fn read_within(
    origin: SocketAddr,
    world: &SessionCa,
    tools: &SessionCa,
    deadlines: Deadlines,
    change: impl FnOnce(&mut NetPolicy),
) -> Read {
    let mut policy = towards(&["api.test", "other.test"], origin);
    let pattern = HostPattern::parse(HOST).unwrap();
    policy.secret_hosts = vec![Sourced::new(pattern.clone(), Origin::built_in("a test"))];
    change(&mut policy);
    let value = SecretValue::new(VALUE.as_bytes().to_vec()).unwrap();
    let fake = sentinel(&Seed::new([7; 32]), "API_KEY", &value, &[]).unwrap();
    let text = fake.as_str().to_owned();
    let secret = Secret {
        name: "API_KEY".to_owned(),
        value,
        sentinel: fake,
        hosts: vec![pattern],
        places: Places::default(),
    };
    let authority = ca();
    let inside = roots(&authority);
    let inspector = Inspector {
        ca: authority,
        roots: Arc::new(roots(world)),
        registry_roots: Arc::new(roots(tools)),
        vault: Arc::new(Vault::new(vec![secret])),
    };
    let jail = jail_that_reads(policy, deadlines, &[], Some(Arc::new(inspector)));
    Read { jail, inside, fake: text }
}

fn read(origin: SocketAddr, world: &SessionCa) -> Read {
    read_with(origin, world, |_| {})
}

/// An origin for `host` that handles each connection with `handle`.
async fn secure<F, H>(world: &SessionCa, host: &str, alpn: Alpn, handle: F) -> SocketAddr
where
    F: Fn(server::TlsStream<TcpStream>) -> H + Send + Clone + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(world.server(&Host::parse(host.as_bytes()).unwrap(), alpn).unwrap());
    origin(move |stream| {
        let (acceptor, handle) = (acceptor.clone(), handle.clone());
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                handle(stream).await;
            }
        }
    })
    .await
}

/// A TLS client's connection to `host` through the proxy.
async fn connect(read: &Read, host: &str, offer: Offer) -> io::Result<client::TlsStream<TcpStream>> {
    connect_to(read, host, 443, offer).await
}

async fn connect_to(
    read: &Read,
    host: &str,
    port: u16,
    offer: Offer,
) -> io::Result<client::TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(read.jail.proxy).await?;
    let ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    let name = ServerName::try_from(host.to_owned()).unwrap();
    TlsConnector::from(read.inside.client(offer)).connect(name, stream).await
}

async fn read_until(stream: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        match timeout(PATIENCE, stream.read_u8()).await.expect("nothing comes") {
            Ok(byte) => got.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// An origin that sends what it was asked, and answers to each request with `answer`.
async fn answering(
    world: &SessionCa,
    answer: impl Fn(&str) -> String + Send + Sync + Clone + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<String>, Arc<AtomicUsize>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = secure(world, HOST, Alpn::Http1, move |mut stream| {
        let (sender, answer) = (sender.clone(), answer.clone());
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            loop {
                let mut got = read_until(&mut stream, "\r\n\r\n").await;
                if !got.ends_with("\r\n\r\n") {
                    return;
                }
                if let Some(length) = got.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
                    let mut body = vec![0; length.parse().unwrap()];
                    stream.read_exact(&mut body).await.unwrap();
                    got.push_str(&String::from_utf8(body).unwrap());
                }
                let answer = answer(&got);
                sender.send(got).unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                if answer.contains("Connection: close") {
                    let _ = stream.shutdown().await;
                    return;
                }
            }
        }
    })
    .await;
    (addr, receiver, connections)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn the_secret_goes_out_and_does_not_come_back() {
    let world = ca();
    let echo = |got: &str| {
        let body = format!("you said {got}");
        format!("HTTP/1.1 200 {VALUE}\r\nX-Key: {VALUE}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let (addr, mut requests, connections) = answering(&world, echo).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Both).await.unwrap();
    for path in ["/a", "/b"] {
        let fake = &read.fake;
        let request = format!(
            "POST {path}?key={fake} HTTP/1.1\r\nHost: api.test\r\nx-api-key: {fake}\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-3\r\nContent-Length: {}\r\n\r\n{fake}",
            fake.len()
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let head = read_until(&mut client, "\r\n\r\n").await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 200 {fake}\r\n"))
                && head.contains(&format!("X-Key: {fake}\r\n")),
            "{head}"
        );
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        client.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(!body.contains(VALUE) && body.contains(&format!("x-api-key: {fake}")), "{body}");

        let seen = requests.recv().await.unwrap();
        assert!(
            seen.starts_with(&format!("POST {path}?key={VALUE} HTTP/1.1\r\nHost: api.test\r\n")),
            "{seen}"
        );
        assert!(
            seen.contains(&format!("x-api-key: {VALUE}\r\n"))
                && seen.contains("Accept-Encoding: identity\r\n"),
            "{seen}"
        );
        // The body is none of its places.
        assert!(!seen.contains("gzip") && !seen.contains("Range") && seen.ends_with(fake.as_str()), "{seen}");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    let told = |what| {
        read.jail
            .seen
            .secrets
            .lock()
            .unwrap()
            .iter()
            .any(|event| event.what == what && event.name == "API_KEY" && event.host == HOST)
    };
    assert!(told(SecretUse::Used) && told(SecretUse::Misplaced) && told(SecretUse::Scrubbed));
    drop(client);
    eventually(|| !read.jail.seen.closed().is_empty()).await;
}

#[tokio::test]
async fn another_host_gets_the_fake_and_is_told_of() {
    let world = ca();
    let (sender, mut requests) = mpsc::unbounded_channel();
    let addr = secure(&world, "other.test", Alpn::Http1, move |mut stream| {
        let sender = sender.clone();
        async move {
            sender.send(read_until(&mut stream, "\r\n\r\n").await).unwrap();
            stream.write_all(ok("").as_bytes()).await.unwrap();
        }
    })
    .await;
    let read = read_with(addr, &world, |policy| policy.inspect = crate::config::settings::Inspect::All);
    let mut client = connect(&read, "other.test", Offer::Both).await.unwrap();
    let request =
        format!("GET / HTTP/1.1\r\nHost: other.test\r\nAuthorization: Bearer {}\r\n\r\n", read.fake);
    client.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    let seen = requests.recv().await.unwrap();
    assert!(seen.contains(&read.fake) && !seen.contains(VALUE), "{seen}");
    let secrets = read.jail.seen.secrets.lock().unwrap();
    assert!(secrets.iter().all(|event| event.what == SecretUse::Stray) && !secrets.is_empty(), "{secrets:?}");
}

#[tokio::test]
async fn requests_for_another_host_and_malformed_ones_are_refused() {
    let world = ca();
    let (addr, mut requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    for head in [
        "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test\r\nHost: api.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nHost: api.test\n\n",
        "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET https://other.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
    ] {
        let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
        client.write_all(head.as_bytes()).await.unwrap();
        let got = read_until(&mut client, "\r\n\r\n").await;
        assert!(got.starts_with("HTTP/1.1 400 "), "{head:?}: {got}");
    }
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn rules_for_requests_hold_and_the_connection_goes_on() {
    rules_hold(443, "api.test").await;
    // A rule whose host names no port holds on all of them, as the configuration reads it.
    rules_hold(8443, "api.test:8443").await;
}

async fn rules_hold(port: u16, host: &str) {
    let world = ca();
    let (addr, mut requests, _) = answering(&world, |_| ok("x")).await;
    let read = read_with(addr, &world, |policy| {
        let rules = HttpRules {
            host: HostPattern::parse(HOST).unwrap().on_every_port_by_default(),
            allow: vec![HttpRule::parse("GET /repos/**").unwrap()],
            deny: Vec::new(),
        };
        policy
            .allow
            .push(Sourced::new(HostPattern::parse("api.test:8443").unwrap(), Origin::built_in("a test")));
        policy.http = vec![Sourced::new(rules, Origin::built_in("a test"))];
    });
    let mut client = connect_to(&read, HOST, port, Offer::Http1).await.unwrap();
    for (request, want) in [
        ("GET /repos/a HTTP/1.1", "HTTP/1.1 200 "),
        ("GET /admin HTTP/1.1", "HTTP/1.1 403 "),
        ("DELETE /repos/a HTTP/1.1", "HTTP/1.1 403 "),
        ("GET /repos/%2e%2e/admin HTTP/1.1", "HTTP/1.1 403 "),
        ("GET /repos/a HTTP/1.1\r\nX-HTTP-Method-Override: delete", "HTTP/1.1 403 "),
        ("GET /repos/a HTTP/1.1\r\nX-HTTP-Method-Override: GET, DELETE", "HTTP/1.1 403 "),
        ("GET /repos/b HTTP/1.1", "HTTP/1.1 200 "),
    ] {
        client.write_all(format!("{request}\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
        let head = read_until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with(want), "{request}: {head}");
        assert_eq!(
            want.contains("403"),
            head.contains(&format!("X-AI-Jail-Denied: api.test:{port}")),
            "{head}"
        );
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
        client.read_exact(&mut vec![0; length]).await.unwrap();
    }
    assert_eq!(read.jail.seen.denials().len(), 5);
    let mut passed = 0;
    while requests.try_recv().is_ok() {
        passed += 1;
    }
    assert_eq!(passed, 2);
}

#[tokio::test]
async fn a_host_that_closes_between_requests_is_asked_anew() {
    let world = ca();
    let close = |_: &str| "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_owned();
    let (addr, _requests, connections) = answering(&world, close).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n").await.unwrap();
        let head = read_until(&mut client, "\r\n\r\nx").await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Connection: keep-alive"), "{head}");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_compressed_answer_that_was_not_asked_for_is_not_passed_on() {
    let world = ca();
    let gzip =
        |_: &str| "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc".to_owned();
    let (addr, _requests, _) = answering(&world, gzip).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut got = String::new();
    client.read_to_string(&mut got).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("compressed"), "{got}");
}

#[tokio::test]
async fn an_answer_whose_head_is_too_large_is_said_to_be() {
    let world = ca();
    let large = |_: &str| format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", VALUE.repeat(4_000));
    let (addr, _requests, _) = answering(&world, large).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut got = String::new();
    client.read_to_string(&mut got).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("larger than 64 KiB"), "{got}");
}

#[tokio::test]
async fn a_websocket_passes_and_is_searched() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http1, |mut stream| async move {
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(!head.contains("permessage-deflate") && head.contains("Upgrade: websocket"), "{head}");
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            )
            .await
            .unwrap();
        let (first, second) = VALUE.split_at(9);
        for part in [first, second] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut byte = [0; 5];
        stream.read_exact(&mut byte).await.unwrap();
        stream.write_all(&byte).await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client
        .write_all(b"GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\nhello")
        .await
        .unwrap();
    let head = read_until(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let mut rest = String::new();
    timeout(PATIENCE, client.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, format!("{}hello", read.fake));
}

#[tokio::test]
async fn interim_answers_events_and_bodies_until_the_close_pass_as_they_come() {
    let world = ca();
    let (go, wait) = mpsc::unbounded_channel::<()>();
    let wait = Arc::new(tokio::sync::Mutex::new(wait));
    let addr = secure(&world, HOST, Alpn::Http1, move |mut stream| {
        let wait = Arc::clone(&wait);
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
            let mut body = [0; 2];
            stream.read_exact(&mut body).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n")
                .await
                .unwrap();
            stream.flush().await.unwrap();
            wait.lock().await.recv().await.unwrap();
            stream.write_all(b"data: two\n\n").await.unwrap();
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await
        .unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 100 "));
    client.write_all(b"hi").await.unwrap();
    let head = read_until(&mut client, "data: one\n\n").await;
    assert!(head.contains("Connection: close"), "{head}");
    go.send(()).unwrap();
    let mut rest = String::new();
    timeout(PATIENCE, client.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, "data: two\n\n");
}

#[tokio::test]
async fn bytes_that_are_no_tls_do_not_reach_a_host_that_is_read() {
    let world = ca();
    let (addr, mut requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    let got = talk(read.jail.proxy, b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\nGET / HTTP/1.1\r\nHost: api.test\r\n\r\n").await;
    assert_eq!(got, "HTTP/1.1 200 Connection established\r\n\r\n");
    assert!(requests.try_recv().is_err());
    assert!(read.jail.seen.denials()[0].contains("HTTPS alone"), "{:?}", read.jail.seen.denials());
}

#[tokio::test]
async fn plain_http_gets_no_secret_and_rules_hold_there_too() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let addr = origin(move |mut stream| {
        let sender = sender.clone();
        async move {
            sender.send(read_until(&mut stream, "\r\n\r\n").await).unwrap();
            let _ = stream.write_all(ok("x").as_bytes()).await;
        }
    })
    .await;
    let world = ca();
    let read = read_with(addr, &world, |policy| {
        let rules = HttpRules {
            host: HostPattern::parse(HOST).unwrap(),
            allow: vec![HttpRule::parse("GET /ok").unwrap()],
            deny: Vec::new(),
        };
        policy.http = vec![Sourced::new(rules, Origin::built_in("a test"))];
    });
    let ask = |path: &str| {
        format!(
            "GET http://api.test{path} HTTP/1.1\r\nHost: api.test\r\nx-api-key: {}\r\nConnection: close\r\n\r\n",
            read.fake
        )
    };
    let got = talk(read.jail.proxy, ask("/ok").as_bytes()).await;
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    let seen = requests.recv().await.unwrap();
    assert!(seen.contains(&read.fake) && !seen.contains(VALUE), "{seen}");
    let got = talk(read.jail.proxy, ask("/no").as_bytes()).await;
    assert!(got.starts_with("HTTP/1.1 403 ") && got.contains("ai-jail: "), "{got}");
    assert!(requests.try_recv().is_err());
    assert!(read.jail.seen.secrets.lock().unwrap().iter().all(|event| event.what == SecretUse::Misplaced));
}
