//! Answers and requests that no program of good will makes, in HTTP/1.

use super::*;

/// The part of a chunked answer that comes before its first chunk.
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";

#[tokio::test]
async fn in_whatever_place_an_answer_has_the_secret_it_does_not_come_in() {
    let world = ca();
    let coded = |coding: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 37\r\n\r\n{VALUE}")
    };
    // What is passed on has the fake, or nothing of it, and what is refused has a line of ours.
    let table = [
        (format!("HTTP/1.1 200 {VALUE}\r\nContent-Length: 2\r\n\r\nok"), "HTTP/1.1 200 {}"),
        (format!("HTTP/1.1 200 OK\r\n{VALUE}: a\r\nContent-Length: 2\r\n\r\nok"), "\r\n{}: a\r\n"),
        (format!("HTTP/1.1 200 OK\r\nX-{VALUE}-Y: a\r\nContent-Length: 2\r\n\r\nok"), "\r\nX-{}-Y: a\r\n"),
        (
            format!("HTTP/1.1 302 Found\r\nLocation: https://a/?k={VALUE}\r\nContent-Length: 0\r\n\r\n"),
            "?k={}\r\n",
        ),
        (format!("HTTP/1.1 204 No\r\nAlt-Svc: h3=\"{VALUE}:443\"\r\n\r\n"), "h3=\"{}:443\""),
        (format!("HTTP/1.1 304 Not\r\nETag: \"{VALUE}\"\r\n\r\n"), "\"{}\""),
        (
            format!("HTTP/1.1 103 {VALUE}\r\nLink: <{VALUE}>\r\n{VALUE}: a\r\n\r\nHTTP/1.1 204 No\r\n\r\n"),
            "103 {}\r\nLink: <{}>\r\n{}: a",
        ),
        (format!("{CHUNKED}\r\n2;a={VALUE}\r\nok\r\n0;a=\"{VALUE}\"\r\n\r\n"), "\r\n2\r\nok\r\n0\r\n\r\n"),
        (
            format!("{CHUNKED}Trailer: {VALUE}\r\n\r\n2\r\nok\r\n0\r\n{VALUE}: a\r\nB: {VALUE}\r\n\r\n"),
            "\r\n{}: a\r\nB: {}\r\n\r\n",
        ),
        (format!("HTTP/1.0 200 OK\r\n\r\nlast {VALUE}"), "last {}"),
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort {VALUE}"), "short sk-ant-api03-"),
        (
            format!("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-36/99\r\nContent-Length: 37\r\n\r\n{VALUE}"),
            "\r\n\r\n{}",
        ),
        (coded("identity"), "\r\n\r\n{}"),
        (coded("gzip"), "compressed"),
        (coded("x-gzip"), "compressed"),
        (coded("identity\r\nContent-Encoding: br"), "compressed"),
        (coded("any"), "compressed"),
        (coded("aws-chunked, gzip"), "compressed"),
        (coded(""), "\r\n\r\n{}"),
        (coded("UTF-8"), "\r\n\r\n{}"),
        (coded("identity, aws-chunked"), "\r\n\r\n{}"),
        (
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n25\r\n{VALUE}\r\n0\r\n\r\n"),
            "502 Bad",
        ),
        (format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {VALUE}\r\n\r\n{VALUE}"), "502 Bad"),
        (format!("HTTP/1.1 200 OK\r\nContent-Length: {VALUE}\r\n\r\n{VALUE}"), "502 Bad"),
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{VALUE}"), "502 Bad"),
        (format!("HTTP/1.1 200 OK\r\nA: b\r\n {VALUE}\r\nContent-Length: 0\r\n\r\n"), "502 Bad"),
        (format!("HTTP/1.1 200 OK\r\n{VALUE}\r\n\r\n"), "502 Bad"),
        (format!("HTTP/1.1 {VALUE}\r\n\r\n"), "502 Bad"),
        (format!("HTTP/3.9 200 {VALUE}\r\n\r\n"), "502 Bad"),
        (format!("{VALUE}\r\n\r\n"), "502 Bad"),
        (format!("HTTP/1.1 101 {VALUE}\r\nUpgrade: {VALUE}\r\n\r\n{VALUE}"), "502 Bad"),
        (format!("{CHUNKED}\r\n{VALUE}\r\n"), "\r\n\r\n"),
    ];
    for (answer, want) in table {
        let said = answer.clone();
        let addr = secure(&world, HOST, Alpn::Http1, move |mut stream| {
            let said = said.clone();
            async move {
                read_until(&mut stream, "\r\n\r\n").await;
                stream.write_all(said.as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
            }
        })
        .await;
        let read = read(addr, &world);
        let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut got = Vec::new();
        // What is cut ends without TLS having said so.
        let _ = timeout(PATIENCE, client.read_to_end(&mut got)).await.expect("it does not end");
        let got = String::from_utf8_lossy(&got);
        assert!(!got.to_ascii_lowercase().contains(&VALUE.to_ascii_lowercase()), "{answer:?}: {got:?}");
        assert!(got.contains(&want.replace("{}", &read.fake)), "{answer:?}: {got:?}");
        let told = format!("{:?}", read.jail.seen.events.lock().unwrap());
        assert!(!told.contains(VALUE), "{answer:?}: {told}");
    }
}

#[tokio::test]
async fn a_fake_is_replaced_in_the_values_of_headers_and_in_the_target_alone() {
    let world = ca();
    let (addr, mut requests, _) = answering(&world, |_| ok("x")).await;
    let read = read(addr, &world);
    let fake = read.fake.clone();
    let body = format!("Content-Length: {}\r\n\r\n{fake}", fake.len());
    // How often the value goes out, or none when the request does not.
    for (line, fields, want) in [
        ("GET /", format!("X: {fake}\r\n\r\n"), Some(1)),
        ("GET /", format!("Cookie: a={fake}; b={fake}\r\n\r\n"), Some(2)),
        (&format!("GET /{fake}?a={fake}"), "\r\n".to_owned(), Some(2)),
        ("GET /", format!("{fake}: a\r\n\r\n"), Some(0)),
        (&format!("{fake} /"), "\r\n".to_owned(), Some(0)),
        ("POST /", body, Some(0)),
        // For the connection, and so for the door.
        ("GET /", format!("Connection: X\r\nX: {fake}\r\n\r\n"), Some(0)),
        ("GET /", format!("Proxy-Authorization: Bearer {fake}\r\n\r\n"), Some(0)),
        (&format!("GET https://{fake}@api.test/"), "\r\n".to_owned(), None),
        (&format!("GET /#{fake}"), "\r\n".to_owned(), None),
        ("CONNECT other.test:443", format!("X: {fake}\r\n\r\n"), None),
    ] {
        let mut client = connect(&read, HOST, Offer::Http1).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: api.test\r\n{fields}");
        client.write_all(request.as_bytes()).await.unwrap();
        let head = read_until(&mut client, "\r\n\r\n").await;
        let Some(count) = want else {
            assert!(head.starts_with("HTTP/1.1 400 "), "{request}: {head}");
            continue;
        };
        assert!(head.starts_with("HTTP/1.1 200 "), "{request}: {head}");
        let seen = requests.recv().await.unwrap();
        assert_eq!(seen.matches(VALUE).count(), count, "{request}: {seen}");
    }
    assert!(requests.try_recv().is_err());
}
