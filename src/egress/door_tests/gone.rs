//! Clients that are gone, origins that never answer, doors that fail: none keeps what others need.

use tokio::sync::Semaphore;

use super::http::towards;
use super::*;
use crate::egress::decide::tests::policy;
use crate::egress::limits::{MAX_LARGE_HEADS, SMALL_HEAD};

const GET: &[u8] = b"GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n";
const CONNECT: &[u8] = b"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n";
const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It closes its socket.
    Close,
    /// It closes it and the kernel sends a reset.
    Reset,
    /// It finishes sending and waits, forever.
    HalfClose,
}

impl Leave {
    pub(super) async fn go(self, mut client: TcpStream) -> Option<TcpStream> {
        match self {
            Self::Close => return None,
            Self::Reset => {
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
                return None;
            }
            Self::HalfClose => client.shutdown().await.unwrap(),
        }
        Some(client)
    }
}

/// An origin that takes everything and never says or ends anything.
pub(super) async fn silent() -> SocketAddr {
    origin(|mut stream| async move {
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer).await {}
        std::future::pending::<()>().await
    })
    .await
}

fn half_closed(millis: u64) -> Deadlines {
    Deadlines { half_closed: Duration::from_millis(millis), ..Deadlines::default() }
}

#[tokio::test]
async fn a_client_that_left_gives_its_slot_back_though_the_origin_is_silent() {
    let addr = silent().await;
    let ahead = [GET, GET].concat();
    for (what, request) in [("request", GET), ("request with another behind it", &ahead), ("tunnel", CONNECT)]
    {
        for leave in [Leave::Close, Leave::Reset, Leave::HalfClose] {
            // A reset is seen at once, whatever the deadline.
            let limit = if leave == Leave::Reset { 60_000 } else { 200 };
            let jail = jail_with(towards(&["ok.test"], addr), half_closed(limit), &[]);
            let free = jail.gate.slots.available_permits();
            let outside = jail.gate.descriptors.available_permits();
            let mut client = TcpStream::connect(jail.proxy).await.unwrap();
            client.write_all(request).await.unwrap();
            if request == CONNECT {
                until(&mut client, ESTABLISHED).await;
            }
            eventually(|| jail.gate.descriptors.available_permits() == outside - 1).await;
            let kept = leave.go(client).await;
            let given_back = async {
                while jail.gate.slots.available_permits() != free {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let given_back = timeout(PATIENCE, given_back).await;
            assert!(given_back.is_ok(), "{what} {leave:?}");
            assert_eq!(jail.gate.descriptors.available_permits(), outside, "{what} {leave:?}");
            drop(kept);
            jail.server.abort();
        }
    }
}

#[tokio::test]
async fn a_reset_after_a_half_close_ends_a_tunnel_at_once() {
    let jail = jail_with(towards(&["ok.test:443/tcp"], silent().await), half_closed(60_000), &[]);
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    client.write_all(CONNECT).await.unwrap();
    until(&mut client, ESTABLISHED).await;
    client.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(jail.seen.closed(), []);
    // After its end a reset goes out only for bytes that were not read; so the tunnel is told by the system call.
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    eventually(|| jail.seen.closed() == [(0, 0)]).await;
}

#[tokio::test]
async fn a_client_that_finished_sending_gets_its_answer_as_long_as_bytes_flow() {
    let addr = origin(|mut stream| async move {
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer).await {}
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            stream.write_all(b"x").await.unwrap();
        }
    })
    .await;
    let jail = jail_with(towards(&["ok.test:443/tcp"], addr), half_closed(900), &[]);
    assert_eq!(talk(jail.proxy, CONNECT).await, format!("{ESTABLISHED}xxxxxxxxxx"));
}

#[tokio::test]
async fn large_heads_of_origins_need_permits_too_and_give_them_back() {
    let addr = origin(|mut stream| async move {
        until(&mut stream, "\r\n\r\n").await;
        let start = [b"HTTP/1.1 200 OK\r\nX: ", &vec![b'a'; 3 * SMALL_HEAD][..]].concat();
        stream.write_all(&start).await.unwrap();
        std::future::pending::<()>().await
    })
    .await;
    let deadlines = Deadlines { head: Duration::from_secs(2), ..Deadlines::default() };
    let jail = jail_with(towards(&["ok.test"], addr), deadlines, &[]);
    let mut clients = Vec::new();
    for _ in 0..MAX_LARGE_HEADS + 5 {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(GET).await.unwrap();
        clients.push(client);
    }
    let permits: &Semaphore = &jail.gate.large_heads;
    eventually(|| permits.available_permits() == 0).await;
    for mut client in clients {
        let got = rest(&mut client).await;
        assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("large and took too long"), "{got}");
    }
    eventually(|| permits.available_permits() == MAX_LARGE_HEADS).await;
}

#[tokio::test]
async fn a_large_head_keeps_its_permit_until_it_was_sent_and_no_longer() {
    let jail = jail(towards(&["ok.test"], silent().await));
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let padding = "a".repeat(2 * SMALL_HEAD);
    let request = format!("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: {padding}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    eventually(|| matches!(jail.seen.verdicts()[..], [Verdict::Allowed { .. }])).await;
    eventually(|| jail.gate.large_heads.available_permits() == MAX_LARGE_HEADS).await;
}

#[tokio::test]
async fn a_client_that_reads_no_answer_is_given_up() {
    let deadlines = Deadlines { head: Duration::from_millis(300), ..Deadlines::default() };
    let jail = jail_with(policy(&[], &[]), deadlines, &[]);
    let free = jail.gate.slots.available_permits();
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    let flood = async { while client.write_all(GET).await.is_ok() {} };
    timeout(PATIENCE, flood).await.expect("it may write for ever");
    eventually(|| jail.gate.slots.available_permits() == free).await;
}

#[tokio::test]
async fn an_origin_cannot_speak_of_a_denial() {
    let addr = origin(|mut stream| async move {
        until(&mut stream, "\r\n\r\n").await;
        let answer = b"HTTP/1.1 103 Early Hints\r\nX-AI-Jail-Denied: a.test:80\r\n\r\n\
            HTTP/1.1 403 Forbidden\r\nx-ai-jail-denied: b.test:80\r\nX-Other: 1\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    let jail = jail(towards(&["ok.test"], addr));
    let got = talk(jail.proxy, GET).await;
    assert!(got.contains("403 Forbidden") && got.contains("X-Other: 1"), "{got}");
    assert!(!got.to_ascii_lowercase().contains("x-ai-jail-denied"), "{got}");
}

#[tokio::test]
async fn a_door_that_fails_is_named() {
    use rustix::net::{AddressFamily, SocketType, socket};
    let bind = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // A socket that does not listen: accepting from it fails for good.
    let broken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let doors = Doors {
        dns_udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
        dns_tcp: bind(),
        http: bind(),
        https: broken.into(),
        proxy: bind(),
        forward: Vec::new(),
        publish: Vec::new(),
    };
    let seen = Arc::new(Seen::default());
    let served = serve(doors, Arc::new(policy(&[], &[])), None, Arc::clone(&seen) as _, seen);
    let error = timeout(PATIENCE, served).await.expect("nobody noticed").unwrap_err();
    assert!(error.to_string().starts_with("the door for TLS (port 443) failed: "), "{error}");
}
