//! Plain requests through the proxy door.

use base64::Engine;
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::egress::decide::tests::{policy, resolve};
use crate::egress::limits::{MAX_LARGE_HEADS, SMALL_HEAD};

/// A policy that allows `hosts` and leads each of them to `origin`.
pub(super) fn towards(hosts: &[&str], origin: SocketAddr) -> NetPolicy {
    let mut policy = policy(hosts, &[]);
    for host in hosts {
        resolve(&mut policy, host.split(':').next().unwrap(), origin.ip(), Some(origin.port()));
    }
    policy
}

/// An origin that reads whole requests and answers `answer` to each connection's first.
async fn recording(answer: &'static str) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let addr = origin(move |mut stream| {
        let sender = sender.clone();
        async move {
            let mut got = String::new();
            let mut buffer = [0; 1024];
            while !is_whole(&got) {
                match stream.read(&mut buffer).await {
                    Ok(count @ 1..) => got.push_str(&String::from_utf8_lossy(&buffer[..count])),
                    _ => break,
                }
            }
            sender.send(got).unwrap();
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    (addr, receiver)
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None => !head.contains("Transfer-Encoding: chunked") || body.ends_with("0\r\n\r\n"),
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[derive(Deserialize)]
struct Case {
    name: String,
    r#in: String,
    allow: String,
    want: u16,
    origin_sees: Vec<String>,
}

#[tokio::test]
async fn the_shared_cases_hold() {
    let mut count = 0;
    for line in include_str!("../../../tests/cases/http.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let (addr, mut requests) = recording(OK).await;
        let jail = jail(towards(&[&case.allow], addr));
        let bytes = base64::engine::general_purpose::STANDARD.decode(case.r#in).unwrap();
        let got = talk(jail.proxy, &bytes).await;
        let want = format!("HTTP/1.1 {} ", case.want);
        assert!(got.starts_with(&want), "{}: {got:?}", case.name);
        let mut seen = String::new();
        while let Ok(request) = requests.try_recv() {
            seen.push_str(&request);
        }
        for mark in case.origin_sees {
            match mark.strip_prefix('!') {
                Some(mark) => assert!(!seen.contains(mark), "{}: {seen:?}", case.name),
                None => assert!(seen.contains(&mark), "{}: {seen:?}", case.name),
            }
        }
        assert_eq!(seen.is_empty(), case.want != 200, "{}: {seen:?}", case.name);
        jail.server.abort();
        count += 1;
    }
    assert_eq!(count, 26);
}

#[tokio::test]
async fn every_request_on_a_connection_is_decided_about() {
    let (addr, _requests) = recording(OK).await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    for (host, want) in [("ok.test", "200 OK"), ("evil.test", "403 Forbidden"), ("ok.test", "200 OK")] {
        let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let head = until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {want}\r\n")), "{head}");
        let body = until(&mut client, if host == "ok.test" { "ok" } else { "\n" }).await;
        if host == "evil.test" {
            assert!(head.contains("\r\nX-AI-Jail-Denied: evil.test:80\r\n"), "{head}");
            assert_eq!(
                body,
                "ai-jail: evil.test:80 is not allowed (no rule matches); allow it with --allow-host evil.test\n"
            );
        }
    }
    assert_eq!(jail.seen.closed(), [(0, 2), (0, 2)]);
    assert_eq!(jail.seen.denials().len(), 1);
}

#[tokio::test]
async fn an_answer_that_broke_off_does_not_look_whole() {
    // What HTTP/1.0 has no word for ends with its connection.
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for (answer, version, resets) in [
        ("HTTP/1.1 200 OK\r\n\r\nhalf", "1.1", true),
        ("HTTP/1.1 200 OK\r\n\r\nhalf", "1.0", true),
        (chunked, "1.0", true),
        (chunked, "1.0", false),
    ] {
        let leave = Arc::new(Notify::new());
        let leaves = Arc::clone(&leave);
        let addr = origin(move |mut stream| {
            let leaves = Arc::clone(&leaves);
            async move {
                until(&mut stream, "\r\n\r\n").await;
                stream.write_all(answer.as_bytes()).await.unwrap();
                leaves.notified().await;
                if resets {
                    stream.set_zero_linger().unwrap();
                }
            }
        })
        .await;
        let jail = jail(towards(&["a.test"], addr));
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        let request = format!("GET http://a.test/ HTTP/{version}\r\nHost: a.test\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        until(&mut client, "half").await;
        leave.notify_one();
        let end = timeout(PATIENCE, client.read(&mut [0; 10])).await.unwrap();
        let error = end.expect_err("it looks whole").kind();
        assert_eq!(error, io::ErrorKind::ConnectionReset, "{answer:?} {version} {resets}");
    }
}

#[tokio::test]
async fn origins_without_a_proper_answer_get_a_502_with_one_line() {
    let large: &'static str = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(100_000)).leak();
    for (answer, want) in [
        (large, "larger than 64 KiB"),
        ("", "closed the connection without an answer"),
        ("HTTP/1.1 200", "closed the connection without an answer"),
        ("SSH-2.0-x\r\n\r\n", "not a version and a status"),
        ("HTTP/1.1 200 OK\nA: b\n\n", "does not end in CR LF"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "together"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "more than once"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "not asked for"),
    ] {
        let (addr, _requests) = recording(answer).await;
        let jail = jail(towards(&["ok.test"], addr));
        let got = talk(jail.proxy, b"GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n").await;
        let (head, line) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 502 Bad Gateway"), "{answer:?}: {got}");
        assert!(
            line.starts_with("ai-jail: ok.test:80 is allowed, but it") && line.contains(want),
            "{answer:?}: {got}"
        );
        assert_eq!(line.lines().count(), 1);
        jail.server.abort();
    }
}

#[tokio::test]
async fn responses_keep_their_meaning() {
    for (request, answer, want) in [
        ("GET {} HTTP/1.1", "HTTP/1.1 200 OK\r\n\r\nto the end", "Connection: close\r\n\r\nto the end"),
        (
            "GET {} HTTP/1.1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT:v\r\nContent-Length: 9\r\n\r\n",
            "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n",
        ),
        (
            "GET {} HTTP/1.0",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n",
            "200 OK\r\nConnection: close\r\n\r\nabc",
        ),
        (
            "GET {} HTTP/1.1",
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            "HEAD {} HTTP/1.1",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            "Content-Length: 9\r\nConnection: keep-alive\r\n\r\n",
        ),
    ] {
        let (addr, _requests) = recording(answer).await;
        let jail = jail(towards(&["ok.test"], addr));
        let request = request.replace("{}", "http://ok.test/") + "\r\nHost: ok.test\r\n\r\n";
        let got = talk(jail.proxy, request.as_bytes()).await;
        assert!(got.ends_with(want), "{request}: {got}");
        jail.server.abort();
    }
}

#[tokio::test]
async fn bodies_stream_in_both_directions() {
    // The origin answers the first half of the body before it gets the second, and holds its own second half back.
    let addr = origin(|mut stream| async move {
        until(&mut stream, "\r\n\r\n").await;
        until(&mut stream, "5\r\nfirst\r\n").await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .await
            .unwrap();
        until(&mut stream, "6\r\nsecond\r\n0\r\n\r\n").await;
        stream.write_all(b"3\r\nbye\r\n0\r\n\r\n").await.unwrap();
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let head =
        b"POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
    client.write_all(head).await.unwrap();
    until(&mut client, "5\r\nhello\r\n").await;
    client.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.unwrap();
    until(&mut client, "3\r\nbye\r\n0\r\n\r\n").await;
    eventually(|| jail.seen.closed() == [(11, 8)]).await;
}

#[tokio::test]
async fn a_body_that_turns_bad_midway_ends_the_exchange() {
    let (sender, mut ended) = mpsc::unbounded_channel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let arrived = Arc::clone(&seen);
    let addr = origin(move |mut stream| {
        let (seen, sender) = (Arc::clone(&arrived), sender.clone());
        async move {
            while let Ok(byte) = stream.read_u8().await {
                seen.lock().unwrap().push(byte);
            }
            sender.send(()).unwrap();
        }
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let head =
        b"POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    client.write_all(head).await.unwrap();
    let first_chunk = || seen.lock().unwrap().ends_with(b"1\r\na\r\n");
    eventually(first_chunk).await;
    client.write_all(b"zz\r\n").await.unwrap();
    let got = rest(&mut client).await;
    assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    timeout(PATIENCE, ended.recv()).await.expect("the origin's connection does not end").unwrap();
    assert!(first_chunk(), "the origin never saw an end of the body: {seen:?}");
}

#[tokio::test]
async fn expectations_pass_and_an_early_answer_is_not_lost() {
    let addr = origin(|mut stream| async move {
        let head = until(&mut stream, "\r\n\r\n").await;
        assert!(head.contains("Expect: 100-continue"), "{head}");
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        until(&mut stream, "body").await;
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig").await.unwrap();
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let head =
        b"PUT http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head).await.unwrap();
    until(&mut client, "HTTP/1.1 100 Continue\r\n\r\n").await;
    client.write_all(b"body").await.unwrap();
    let got = rest(&mut client).await;
    assert!(
        got.contains("413 Too Large") && got.contains("Connection: close") && got.ends_with("big"),
        "{got}"
    );
}

#[tokio::test]
async fn an_answer_that_is_whole_before_its_request_leaves_the_request_whole() {
    const SIZE: usize = 4 << 20;
    let (sender, mut took) = mpsc::unbounded_channel();
    let addr = origin(move |mut stream| {
        let sender = sender.clone();
        async move {
            until(&mut stream, "\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly").await.unwrap();
            let (mut buffer, mut taken) = (vec![0; 1 << 16], 0);
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                taken += count;
            }
            sender.send(taken).unwrap();
        }
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let head = format!("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: {SIZE}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    // Until the answer has passed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    timeout(PATIENCE, client.write_all(&vec![b'x'; SIZE])).await.unwrap().unwrap();
    let got = until(&mut client, "early").await;
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    assert_eq!(timeout(PATIENCE, took.recv()).await.unwrap(), Some(SIZE));
}

#[tokio::test]
async fn websockets_pass_and_other_upgrades_do_not() {
    let addr = origin(|mut stream| async move {
        let head = until(&mut stream, "\r\n\r\n").await;
        if !head.contains("Upgrade: websocket") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain").await.unwrap();
            return;
        }
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\nearly")
            .await
            .unwrap();
        until(&mut stream, "ping").await;
        stream.write_all(b"pong").await.unwrap();
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let request = |protocol: &str| {
        format!(
            "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        )
    };
    client.write_all(request("websocket").as_bytes()).await.unwrap();
    let head = until(&mut client, "\r\n\r\n").await;
    assert!(
        head.contains("101")
            && head.contains("Upgrade: websocket")
            && head.contains("Sec-WebSocket-Accept: x")
    );
    until(&mut client, "early").await;
    client.write_all(b"ping").await.unwrap();
    assert_eq!(rest(&mut client).await, "pong");
    let got = talk(jail.proxy, request("h2c").as_bytes()).await;
    assert!(got.ends_with("plain"), "{got}");
}

#[tokio::test]
async fn heads_that_do_not_come_are_cut() {
    let deadlines = Deadlines { head: Duration::from_millis(150), ..Deadlines::default() };
    let jail = jail_with(policy(&["ok.test"], &[]), deadlines, &[]);
    for start in ["", "G", "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n"] {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(start.as_bytes()).await.unwrap();
        assert_eq!(rest(&mut client).await, "", "{start}");
    }
    // One byte now and then does not extend the deadline.
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let began = std::time::Instant::now();
    let drip = async {
        while client.write_all(b"A").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await
        }
    };
    timeout(PATIENCE, drip).await.expect("a dripping client is never cut");
    assert!(began.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn many_large_heads_cannot_fill_the_memory() {
    let deadlines = Deadlines { head: Duration::from_secs(1), ..Deadlines::default() };
    let jail = jail_with(policy(&[], &[]), deadlines, &[]);
    let mut clients = Vec::new();
    for _ in 0..MAX_LARGE_HEADS + 5 {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(&[b'a'; 2 * SMALL_HEAD]).await.unwrap();
        clients.push(client);
    }
    eventually(|| jail.gate.large_heads.available_permits() == 0).await;
    // A head of ordinary size is served all the same.
    let got = talk(jail.proxy, b"GET http://no.test/ HTTP/1.1\r\nHost: no.test\r\n\r\n").await;
    assert!(got.starts_with("HTTP/1.1 403 "), "{got}");
    for mut client in clients {
        assert_eq!(rest(&mut client).await, "");
    }
    eventually(|| jail.gate.large_heads.available_permits() == MAX_LARGE_HEADS).await;
}

#[tokio::test]
async fn thousands_of_connections_come_and_go() {
    let (addr, _requests) = recording(OK).await;
    let jail = jail(towards(&["ok.test"], addr));
    let request = b"GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n";
    let slots = || jail.gate.slots.available_permits();
    // Each door brings the slot that it holds.
    let free = slots();
    assert!(talk(jail.proxy, request).await.ends_with("ok"));
    for round in 0..30 {
        let mut clients = Vec::new();
        for index in 0..100 {
            let mut client = TcpStream::connect(jail.proxy).await.unwrap();
            let sent: &[u8] =
                [&b""[..], b"GET ", b"CONNECT ok.test:443 HTTP/1.1\r\n", b"\x05\x01\x00", b"\0\0"][index % 5];
            client.write_all(sent).await.unwrap();
            if (index + round) % 3 == 0 {
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            }
            clients.push(client);
        }
    }
    assert!(talk(jail.proxy, request).await.ends_with("ok"));
    eventually(|| slots() == free).await;
}
