//! Who is trusted by whom, and who takes room from whom.

use super::*;

#[tokio::test]
async fn a_host_that_cannot_be_verified_gets_nothing() {
    let (world, stranger) = (ca(), ca());
    let reached = Arc::new(AtomicUsize::new(0));
    for (authority, host, want) in [
        (&stranger, HOST, "nobody whom this machine trusts"),
        (&world, "other.test", "its certificate is for another name"),
    ] {
        let count = Arc::clone(&reached);
        let addr = secure(authority, host, Alpn::Http1, move |mut stream| {
            let count = Arc::clone(&count);
            async move {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                count.fetch_add(bytes.len(), Ordering::Relaxed);
            }
        })
        .await;
        for offer in [Offer::Both, Offer::Nothing] {
            let read = read(addr, &world);
            let mut client = connect(&read, HOST, offer).await.unwrap();
            let request = format!(
                "GET / HTTP/1.1\r\nHost: api.test\r\nx-api-key: {}\r\nConnection: close\r\n\r\n",
                read.fake
            );
            client.write_all(request.as_bytes()).await.unwrap();
            let mut got = String::new();
            client.read_to_string(&mut got).await.unwrap();
            assert!(got.starts_with("HTTP/1.1 502 ") && got.contains(want), "{got}");
            assert!(got.contains("nothing was sent to it"), "{got}");
        }
    }
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_host_whose_certificate_has_expired_gets_nothing() {
    let world = SessionCa::new(OffsetDateTime::now_utc() - time::Duration::days(365)).unwrap();
    let (addr, mut requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut got = String::new();
    client.read_to_string(&mut got).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("its certificate has expired"), "{got}");
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn a_host_that_speaks_no_tls_is_said_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let read = read(addr, &ca());
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut got = String::new();
    client.read_to_string(&mut got).await.unwrap();
    assert!(got.contains("it does not speak TLS on this port"), "{got}");
    server.abort();
}

#[tokio::test]
async fn what_the_tools_trust_counts_for_registries_alone() {
    let (world, tools) = (ca(), ca());
    for (registry, authority, host, want) in [
        (true, &tools, "other.test", "HTTP/1.1 200 "),
        (false, &tools, "other.test", "HTTP/1.1 502 "),
        // A secret is bound there.
        (true, &tools, HOST, "HTTP/1.1 502 "),
    ] {
        let addr = secure(authority, host, Alpn::Http1, |mut stream| async move {
            read_until(&mut stream, "\r\n\r\n").await;
            let _ = stream.write_all(ok("x").as_bytes()).await;
        })
        .await;
        let read = read_trusting(addr, &world, &tools, |policy| {
            policy.inspect = crate::config::settings::Inspect::All;
            let rules = HttpRules {
                host: HostPattern::parse(host).unwrap(),
                allow: vec![HttpRule::parse("GET /**").unwrap()],
                deny: Vec::new(),
            };
            let origin = if registry { Origin::built_in("a registry") } else { Origin::flag("--test") };
            policy.http = vec![Sourced::new(rules, origin)];
        });
        let mut client = connect(&read, host, Offer::Http1).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let got = read_until(&mut client, "\r\n\r\n").await;
        assert!(got.starts_with(want), "{registry} {host}: {got}");
    }
}

#[tokio::test]
async fn clients_that_say_nothing_take_no_room_from_those_that_do() {
    let world = ca();
    let (addr, _requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    let room = read.jail.gate.inspected.available_permits();
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(read.jail.proxy).await.unwrap();
        stream.write_all(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n").await.unwrap();
        until(&mut stream, "\r\n\r\n").await;
        silent.push(stream);
    }
    assert_eq!(read.jail.gate.inspected.available_permits(), room);
    let client = connect(&read, HOST, Offer::Http1).await.unwrap();
    assert_eq!(read.jail.gate.inspected.available_permits(), room - 1);
    drop(client);
    let gate = Arc::clone(&read.jail.gate);
    eventually(|| gate.inspected.available_permits() == room).await;
    // That they went away is no word about certificates.
    drop(silent);
    assert!(read.jail.seen.verdicts().iter().all(|verdict| !matches!(verdict, Verdict::Failed { .. })));
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_session_is_told_of_and_one_that_leaves_is_not() {
    let (world, stranger) = (ca(), ca());
    let (addr, _requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    let failed = |read: &Read| {
        read.jail
            .seen
            .verdicts()
            .iter()
            .any(|verdict| matches!(verdict, Verdict::Failed { line } if line.contains("did not accept")))
    };
    let mut leaves = TcpStream::connect(read.jail.proxy).await.unwrap();
    leaves.write_all(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n").await.unwrap();
    until(&mut leaves, "\r\n\r\n").await;
    leaves.write_all(&[22, 3, 1, 0, 200, 1]).await.unwrap();
    drop(leaves);
    eventually(|| !read.jail.seen.closed().is_empty()).await;
    assert!(!failed(&read));
    let distrusts = Read { inside: roots(&stranger), ..read };
    connect(&distrusts, HOST, Offer::Http1).await.unwrap_err();
    eventually(|| failed(&distrusts)).await;
}
