//! Connections through a proxy outside.

use super::*;
use crate::egress::decide::tests::policy;
use crate::policy::origin::{Origin, Sourced};
use crate::policy::upstream::Proxy;

/// A policy that goes through the proxy at `addr`, with a login.
fn behind(addr: SocketAddr, hosts: &[&str]) -> NetPolicy {
    let mut policy = policy(hosts, &[]);
    let proxy =
        Proxy::parse(&format!("http://ann:pass@{addr}")).unwrap_or_else(|problem| panic!("{}", problem.why));
    policy.upstream.others = Some(Sourced::new(proxy, Origin::flag("test")));
    policy.upstream.plain = policy.upstream.others.clone();
    policy
}

/// A proxy that answers every request with `answer`, keeps what it was asked, and sends back what comes after that.
async fn proxy(answer: &'static str) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let addr = origin(move |mut stream| {
        let sender = sender.clone();
        async move {
            let asked = until(&mut stream, "\r\n\r\n").await;
            let _ = sender.send(asked);
            let _ = stream.write_all(answer.as_bytes()).await;
            let (mut read, mut write) = stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        }
    })
    .await;
    (addr, receiver)
}

#[tokio::test]
async fn the_name_goes_to_the_proxy_unresolved_and_the_host_may_speak_first() {
    let (addr, mut asked) = proxy("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello ").await;
    // Whoever asks for a name here gets no answer.
    let jail = jail_with(behind(addr, &["ok.test:8443"]), Deadlines::default(), &[]);
    let got = talk(jail.proxy, b"CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\n\r\nthere").await;
    assert_eq!(got, "HTTP/1.1 200 Connection established\r\n\r\nhello there");
    let request = asked.recv().await.unwrap();
    assert_eq!(
        request,
        "CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\nProxy-Authorization: Basic YW5uOnBhc3M=\r\n\r\n"
    );
}

#[tokio::test]
async fn what_the_policy_denies_never_reaches_the_proxy() {
    let (addr, mut asked) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
    let jail = jail_with(behind(addr, &["ok.test", "*:8443"]), Deadlines::default(), &[]);
    for target in ["no.test:443", "127.0.0.1:8443", "169.254.169.254:8443", "localhost:8443"] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        assert!(talk(jail.proxy, request.as_bytes()).await.starts_with("HTTP/1.1 403 "), "{target}");
    }
    assert!(asked.try_recv().is_err());
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_with_its_answer_and_nothing_of_the_login() {
    for (answer, why) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it asks for a login (407)"),
        ("HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\n", "it answered 403"),
        ("SSH-2.0-x\r\n\r\n", "its answer is not HTTP"),
    ] {
        let (addr, _asked) = proxy(answer).await;
        let jail = jail_with(behind(addr, &["ok.test:8443"]), Deadlines::default(), &[]);
        let got = talk(jail.proxy, b"CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\n\r\n").await;
        assert!(
            got.starts_with("HTTP/1.1 502 ") && got.contains(&format!("through the proxy {addr}: {why}")),
            "{got}"
        );
        assert!(!got.contains("pass") && !got.contains("YW5u"), "{got}");
    }
    let endless =
        origin(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    let jail = jail_with(behind(endless, &["ok.test:8443"]), Deadlines::default(), &[]);
    let got = talk(jail.proxy, b"CONNECT ok.test:8443 HTTP/1.1\r\nHost: ok.test:8443\r\n\r\n").await;
    assert!(got.contains("its answer is too long"), "{got}");
}
