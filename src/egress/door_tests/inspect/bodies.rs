//! What comes with bodies and behind them, in HTTP/1.

use super::*;

#[tokio::test]
async fn trailers_pass_both_ways_with_secrets_as_in_headers() {
    let world = ca();
    let (sender, mut requests) = mpsc::unbounded_channel();
    let addr = secure(&world, HOST, Alpn::Http1, move |mut stream| {
        let sender = sender.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            sender.send(read_until(&mut stream, "\r\n\r\n").await).unwrap();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nTrailer: X-Key\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Key: <{VALUE}>\r\n\
                 Content-Length: 7\r\nX-B: c\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nX-Key: {}\r\n\
         X-HTTP-Method-Override: DELETE\r\n\r\n",
        read.fake
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut client, "\r\n\r\n").await;
    assert!(head.contains("Trailer: X-Key\r\n"), "{head}");
    let body = read_until(&mut client, "\r\n\r\n").await;
    assert_eq!(body, format!("1\r\na\r\n0\r\nX-Key: <{}>\r\nX-B: c\r\n\r\n", read.fake));
    let seen = requests.recv().await.unwrap();
    assert_eq!(seen, format!("1\r\nb\r\n0\r\nX-Key: {VALUE}\r\n\r\n"));
}

#[tokio::test]
async fn an_answer_that_broke_off_does_not_look_whole() {
    let world = ca();
    for (head, ends_well) in [("", true), ("", false), ("Transfer-Encoding: chunked\r\n", false)] {
        let addr = secure(&world, HOST, Alpn::Http1, move |mut stream| async move {
            read_until(&mut stream, "\r\n\r\n").await;
            let body = if head.is_empty() { "part" } else { "4\r\npart\r\n" };
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}").as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            if ends_well {
                stream.shutdown().await.unwrap();
            }
        })
        .await;
        let read = read(addr, &world);
        let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
        // To HTTP/1.0 chunks are shown as a body that ends with the connection.
        client.write_all(b"GET / HTTP/1.0\r\nHost: api.test\r\n\r\n").await.unwrap();
        client.flush().await.unwrap();
        let mut got = Vec::new();
        let end = timeout(PATIENCE, client.read_to_end(&mut got)).await.unwrap();
        assert!(got.ends_with(b"\r\n\r\npart"), "{}", got.escape_ascii());
        assert_eq!(end.is_ok(), ends_well, "{head:?}: {end:?}");
    }
}

#[tokio::test]
async fn a_part_is_asked_for_only_where_no_secret_can_follow() {
    let world = ca();
    let (addr, mut requests, _) = answering(&world, |_| ok("")).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    for (head, kept) in [("", true), ("Content-Length: 0\r\n", false)] {
        let request = format!("PUT / HTTP/1.1\r\nHost: api.test\r\nRange: bytes=0-3\r\n{head}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut client, "\r\n\r\n").await;
        assert_eq!(requests.recv().await.unwrap().contains("Range: bytes=0-3"), kept);
    }
}

#[tokio::test]
async fn an_answer_that_holds_the_secret_is_clean_wherever_it_is_cut() {
    let world = ca();
    let at = Arc::new(AtomicUsize::new(0));
    let cut = Arc::clone(&at);
    let chunked = move |_: &str| {
        let (first, second) = VALUE.split_at(cut.fetch_add(1, Ordering::Relaxed) % VALUE.len());
        let chunk = |text: &str| {
            if text.is_empty() { String::new() } else { format!("{:x}\r\n{text}\r\n", text.len()) }
        };
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n",
            chunk(first),
            chunk(second)
        )
    };
    let (addr, _requests, _) = answering(&world, chunked).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    for _ in 0..VALUE.len() {
        client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n").await.unwrap();
        let head = read_until(&mut client, "\r\n\r\n").await;
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        let body = read_until(&mut client, "0\r\n\r\n").await;
        let text: String = body.split("\r\n").skip(1).step_by(2).collect();
        assert_eq!(text, read.fake, "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_is_whole_before_its_request_leaves_the_request_whole() {
    const SIZE: usize = 4 << 20;
    let world = ca();
    let (sender, mut took) = mpsc::unbounded_channel();
    let addr = secure(&world, HOST, Alpn::Http1, move |mut stream| {
        let sender = sender.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(ok("early").as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            let (mut buffer, mut taken) = (vec![0; 1 << 16], 0);
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                taken += count;
            }
            sender.send(taken).unwrap();
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: {SIZE}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    // All of it before it reads, as many clients do.
    for part in vec![b'x'; SIZE].chunks(16_384) {
        timeout(PATIENCE, client.write_all(part)).await.unwrap().unwrap();
    }
    client.flush().await.unwrap();
    let answer = read_until(&mut client, "early").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("early"), "{answer}");
    assert_eq!(timeout(PATIENCE, took.recv()).await.unwrap(), Some(SIZE));
}

#[tokio::test]
async fn an_answer_of_ours_reaches_a_client_that_still_sends() {
    let world = ca();
    let addr = secure(&ca(), HOST, Alpn::Http1, |_| async {}).await;
    let read = read(addr, &world);
    let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
    client.write_all(b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2000000\r\n\r\n").await.unwrap();
    for part in vec![b'x'; 2_000_000].chunks(16_384) {
        timeout(PATIENCE, client.write_all(part)).await.unwrap().unwrap();
    }
    client.flush().await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn a_request_whose_answer_is_refused_is_asked_once_and_told_of() {
    let world = ca();
    for method in ["GET", "POST"] {
        for (what, bad) in [
            ("compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
            ("not a name", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n"),
            ("protocol", "HTTP/1.1 101 Other\r\n\r\n"),
            ("without an answer", "Connection: close"),
        ] {
            let (addr, mut requests, _) = answering(&world, move |asked| match asked.contains("/bad") {
                true => bad.to_owned(),
                false => ok("fine"),
            })
            .await;
            let read = read(addr, &world);
            for first in [true, false] {
                let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
                if !first {
                    client.write_all(b"GET /ok HTTP/1.1\r\nHost: api.test\r\n\r\n").await.unwrap();
                    read_until(&mut client, "fine").await;
                }
                let ask = format!("{method} /bad HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
                client.write_all(ask.as_bytes()).await.unwrap();
                let mut got = String::new();
                let _ = timeout(PATIENCE, client.read_to_string(&mut got)).await.unwrap();
                assert!(got.starts_with("HTTP/1.1 502 ") && got.contains(what), "{method} {first}: {got}");
                let mut asked = 0;
                while let Ok(one) = requests.try_recv() {
                    asked += usize::from(one.contains("/bad"));
                }
                assert_eq!(asked, 1, "{method} {what} {first}");
            }
        }
    }
}
