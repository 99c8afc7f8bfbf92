//! CONNECT, and what it leads to.

use super::http::towards;
use super::*;
use crate::config::settings::Ech;
use crate::egress::decide::tests::policy;

fn connect(target: &str) -> Vec<u8> {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes()
}

pub(super) async fn connected(jail: &Jail, target: &str) -> TcpStream {
    let mut client = TcpStream::connect(jail.proxy).await.unwrap();
    client.write_all(&connect(target)).await.unwrap();
    let head = until(&mut client, "\r\n\r\n").await;
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    client
}

#[tokio::test]
async fn bytes_pass_both_ways_and_each_side_may_finish_first() {
    // Sends a greeting, finishes, and only then reads: the count of what it got goes to the channel.
    let (sender, mut counts) = tokio::sync::mpsc::unbounded_channel();
    let addr = origin(move |mut stream| {
        let sender = sender.clone();
        async move {
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
            sender.send(rest(&mut stream).await.len()).unwrap();
        }
    })
    .await;
    let first = jail(towards(&["ok.test:443/tcp"], addr));
    let mut client = connected(&first, "ok.test:443").await;
    assert_eq!(rest(&mut client).await, "hello");
    let big = vec![b'x'; 3_000_000];
    client.write_all(&big).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(counts.recv().await, Some(big.len()));
    eventually(|| first.seen.closed() == [(3_000_000, 5)]).await;

    // The other way round: the client finishes, and gets everything back after that.
    let second = jail(towards(&["ok.test:443/tcp"], echo().await));
    let mut client = connected(&second, "ok.test:443").await;
    let (mut read, mut write) = client.split();
    let send = async {
        write.write_all(&big).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let (_, read) = tokio::join!(send, read.read_to_end(&mut got));
    assert_eq!(read.unwrap(), big.len());
}

#[tokio::test]
async fn bytes_sent_along_with_the_request_are_not_lost() {
    let jail = jail(towards(&["ok.test:443/tcp"], echo().await));
    let bytes = [&connect("ok.test:443")[..], b"early"].concat();
    let got = talk(jail.proxy, &bytes).await;
    assert_eq!(got, "HTTP/1.1 200 Connection established\r\n\r\nearly");
    let http10 = b"CONNECT ok.test:443 HTTP/1.0\r\n\r\nold";
    assert!(talk(jail.proxy, http10).await.ends_with("\r\n\r\nold"));
}

#[tokio::test]
async fn a_handshake_that_hides_its_name_passes_only_where_the_user_lets_it() {
    let hello = hello::tests::hiding("public.test");
    for (ech, want) in [(Ech::Refuse, &[][..]), (Ech::Allow, &hello)] {
        let jail = jail(NetPolicy { ech, ..towards(&["ok.test"], echo().await) });
        let mut client = connected(&jail, "ok.test:443").await;
        client.write_all(&hello).await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = Vec::new();
        // What is cut may end in a reset.
        let _ = client.read_to_end(&mut got).await;
        assert_eq!(got, want, "{ech:?}");
    }
}

#[tokio::test]
async fn denials_are_prompt_and_clear() {
    let loopback = "127.0.0.1".parse().unwrap();
    let jail =
        jail_with(policy(&["ok.test", "*.here.test:*", "*:8443"], &[]), Deadlines::default(), &[loopback]);
    for (target, want) in [
        (
            "no.test:443",
            "ai-jail: no.test:443 is not allowed (no rule matches); allow it with --allow-host no.test\n",
        ),
        (
            "a.here.test:443",
            "ai-jail: a.here.test:443 is not allowed (it leads to 127.0.0.1, a loopback address); \
             allow it with --allow-host 127.0.0.1\n",
        ),
        (
            "2130706433:8443",
            "ai-jail: 127.0.0.1:8443 is not allowed (a loopback address); allow it with --allow-host 127.0.0.1:8443\n",
        ),
    ] {
        let got = talk(jail.proxy, &connect(target)).await;
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain"), "{got}");
        assert!(head.contains("\r\nX-AI-Jail-Denied: "), "{got}");
        assert_eq!(body, want);
    }
    assert_eq!(jail.seen.denials().len(), 3);
}

#[tokio::test]
async fn localhost_is_this_machine_and_nobody_is_asked_for_it() {
    let addr = echo().await;
    // What a resolver outside would say must not matter; a private address is never dialled.
    let ips = ["10.0.0.1".parse().unwrap()];
    let literal = format!("127.0.0.1:{}", addr.port());
    let jail = jail_with(policy(&["*:*", &literal], &[]), Deadlines::default(), &ips);
    for host in ["localhost", "LOCALHOST.", "a.localhost", "x.y.localhost."] {
        let got = talk(jail.proxy, &connect(&format!("{host}:8443"))).await;
        assert!(
            got.starts_with("HTTP/1.1 403 ") && got.contains("it leads to 127.0.0.1, a loopback address"),
            "{got}"
        );
        // A rule that names the address lifts it, as for every name that leads there.
        let mut client = connected(&jail, &format!("{host}:{}", addr.port())).await;
        client.write_all(b"x").await.unwrap();
        until(&mut client, "x").await;
    }
    let other = talk(jail.proxy, &connect("notlocalhost:8443")).await;
    assert!(other.contains("it leads to 10.0.0.1, a private address"), "{other}");
}

#[tokio::test]
async fn of_mixed_answers_only_those_that_pass_are_dialled() {
    let addr = echo().await;
    let ips = ["10.0.0.1", "169.254.169.254", "127.0.0.1"].map(|ip| ip.parse().unwrap());
    let literal = format!("127.0.0.1:{}", addr.port());
    let named = format!("mixed.test:{}", addr.port());
    let jail = jail_with(policy(&[&named, &literal], &[]), Deadlines::default(), &ips);
    let mut client = connected(&jail, &named).await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(until(&mut client, "x").await, "x");
}

#[tokio::test]
async fn hosts_that_cannot_be_reached_get_a_502() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut rules = towards(&["ok.test"], closed);
    rules.allow.extend(policy(&["unknown.test"], &[]).allow);
    let jail = jail(rules);
    for (target, want) in
        [("ok.test:443", "cannot be connected to"), ("unknown.test:443", "cannot be resolved")]
    {
        let got = talk(jail.proxy, &connect(target)).await;
        assert!(got.starts_with("HTTP/1.1 502 ") && got.contains(want), "{got}");
    }
    let failed = |verdict: &Verdict| matches!(verdict, Verdict::Failed { .. });
    assert_eq!(jail.seen.verdicts().iter().filter(|verdict| failed(verdict)).count(), 2);
}

#[tokio::test]
async fn a_tunnel_to_port_80_carries_requests_for_its_host_alone() {
    let addr = origin(|mut stream| async move {
        until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let first = jail(towards(&["ok.test"], addr));
    for (request, want) in [
        ("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "400"),
        ("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "400"),
        ("SSH-2.0-x\r\n\r\n", "400"),
        ("\x16\x03\x01\0\x05hello\r\n\r\n", "400"),
    ] {
        let mut client = connected(&first, "ok.test:80").await;
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let got = rest(&mut client).await;
        assert!(got.starts_with(&format!("HTTP/1.1 {want} ")), "{request}: {got}");
    }
    // The one request that was good was told, with its end; the tunnels were not.
    let told = first.seen.verdicts();
    assert!(matches!(told[..], [Verdict::Allowed { .. }, Verdict::Closed { up: 0, down: 2 }]), "{told:?}");
    let second = jail(towards(&["ok.test:80/tcp"], echo().await));
    let mut client = connected(&second, "ok.test:80").await;
    client.write_all(b"any\nbytes\n\n").await.unwrap();
    until(&mut client, "any\nbytes\n\n").await;
}

#[tokio::test]
async fn idle_tunnels_end_and_so_does_everything_with_the_server() {
    let deadlines = Deadlines { idle: Duration::from_millis(600), ..Deadlines::default() };
    let first = jail_with(towards(&["ok.test:443/tcp"], echo().await), deadlines, &[]);
    let mut client = connected(&first, "ok.test:443").await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        client.write_all(b"x").await.unwrap();
        until(&mut client, "x").await;
    }
    assert_eq!(rest(&mut client).await, "");

    let second = jail(towards(&["ok.test:443/tcp"], echo().await));
    let mut client = connected(&second, "ok.test:443").await;
    second.server.abort();
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn an_idle_connection_costs_little_memory() {
    let jail = jail(policy(&[], &[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = async || TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let proxy = proxy::serve(Arc::clone(&jail.gate), stream().await);
    let transparent = super::super::transparent::serve(Arc::clone(&jail.gate), stream().await);
    // Nothing else is held: buffers are the thread's, and what was read ahead is freed when it was used.
    for size in [size_of_val(&proxy), size_of_val(&transparent)] {
        assert!(size < 8 * 1024, "{size} bytes");
    }
}
