//! HTTP/2 with heads and trailers that are large, or many.

use super::streams::{post, raw_client, raw_h2};
use super::*;
use crate::egress::limits::{H2_FIELD, H2_HEADS, MAX_H2_STREAMS, MAX_HEADERS};

/// A request's or an answer's headers.
trait Head {
    fn fields(&mut self) -> &mut hyper::HeaderMap;
}

impl<T> Head for Request<T> {
    fn fields(&mut self) -> &mut hyper::HeaderMap {
        self.headers_mut()
    }
}

impl<T> Head for Response<T> {
    fn fields(&mut self) -> &mut hyper::HeaderMap {
        self.headers_mut()
    }
}

/// `head` with `count` fields that hold next to nothing.
fn with_fields<H: Head>(mut head: H, count: usize) -> H {
    for _ in 0..count {
        head.fields().append("a", "".parse().unwrap());
    }
    head
}

#[tokio::test]
async fn heads_have_no_more_fields_than_in_http_1() {
    let world = ca();
    let addr = raw_h2(&world, |mut connection| async move {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let count = request.uri().path()[1..].parse().unwrap();
            respond.send_response(with_fields(Response::new(()), count), true).unwrap();
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    // The jail adds one for the host.
    for (asked, answered, want) in [
        (MAX_HEADERS, 0, 200),
        (MAX_HEADERS + 1, 0, 431),
        (1900, 0, 431),
        (0, MAX_HEADERS, 200),
        (0, MAX_HEADERS + 1, 502),
        (0, 1900, 502),
    ] {
        let request = with_fields(post(&format!("/{answered}")), asked);
        let (response, _) = sender.send_request(request, true).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), want, "{asked} fields, {answered} in the answer");
        if want != 200 {
            let line = answer.into_body().data().await.unwrap().unwrap();
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(line.starts_with("ai-jail: ") && line.contains("too large"), "{line}");
        }
    }
}

#[tokio::test]
async fn trailers_that_are_too_large_break_the_body() {
    let world = ca();
    let addr = raw_h2(&world, |mut connection| async move {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let (count, size) = request.uri().path()[1..].split_once('/').unwrap();
            let mut trailers = hyper::HeaderMap::new();
            for _ in 0..count.parse().unwrap() {
                trailers.append("x-a", "x".repeat(size.parse().unwrap()).parse().unwrap());
            }
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from("body"), false).unwrap();
            body.send_trailers(trailers).unwrap();
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for (path, whole) in [("/1/15000", true), ("/1/17000", false), ("/50/1", true), ("/70/1", false)] {
        let (response, _) = sender.send_request(post(path), true).unwrap();
        let whole_body = async {
            let mut body = response.await?.into_body();
            while let Some(data) = body.data().await {
                assert_eq!(data?, "body");
            }
            body.trailers().await
        };
        match timeout(PATIENCE, whole_body).await.unwrap() {
            Ok(trailers) => assert!(whole && trailers.is_some(), "{path}"),
            Err(error) => {
                assert_eq!((error.reason(), whole), (Some(h2::Reason::INTERNAL_ERROR), false), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn heads_that_wait_for_a_host_are_bounded_together() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        // It takes none.
        let mut builder = h2::server::Builder::new();
        let handshake = builder.max_concurrent_streams(0).handshake::<_, Bytes>(stream);
        let mut connection = handshake.await.unwrap();
        while connection.accept().await.is_some() {}
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let ask = |sender: &mut h2::client::SendRequest<Bytes>| {
        sender.send_request(with_fields(post("/"), MAX_HEADERS), true).unwrap()
    };
    let most = H2_HEADS / MAX_HEADERS / (H2_FIELD + 1);
    assert!(most < MAX_H2_STREAMS as usize);
    let mut waiting: Vec<_> = (0..most - 1).map(|_| ask(&mut sender)).collect();
    let waits = async |response: &mut h2::client::ResponseFuture| {
        let answered = timeout(Duration::from_millis(300), response).await;
        answered.map(|answer| answer.unwrap_err().reason()) != Ok(Some(h2::Reason::REFUSED_STREAM))
    };
    // The host refused the first, before it had said how many it takes.
    let mut last = [ask(&mut sender), ask(&mut sender), ask(&mut sender)];
    assert!(!waits(&mut last[2].0).await);
    assert!(waits(&mut last[0].0).await);
    for (_, mut body) in waiting.drain(most / 2..) {
        body.send_reset(h2::Reason::CANCEL);
    }
    // Room that was given back is there again.
    let again = async { while !waits(&mut ask(&mut sender).0).await {} };
    timeout(PATIENCE, again).await.expect("no room is given back");
}

#[tokio::test]
async fn heads_that_wait_for_a_client_are_bounded_together() {
    /// They fill the sockets, and what is held of frames.
    const LARGE: usize = 20;
    let world = ca();
    let (sender, mut paths) = mpsc::unbounded_channel();
    let addr = raw_h2(&world, move |mut connection| {
        let sender = sender.clone();
        async move {
            let mut asked = 0;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let large = asked < LARGE;
                asked += 1;
                let answer = match large {
                    true => Response::builder().header("x-large", "x".repeat(60_000)).body(()).unwrap(),
                    false => with_fields(Response::new(()), MAX_HEADERS),
                };
                respond.send_response(answer, true).unwrap();
                sender.send(()).unwrap();
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let client = connect(&read, HOST, Offer::Both).await.unwrap();
    // What sockets hold does not count.
    rustix::net::sockopt::set_socket_recv_buffer_size(client.get_ref().0, 1 << 14).unwrap();
    let (sender, mut connection) = h2::client::handshake(client).await.unwrap();
    let mut sender: h2::client::SendRequest<Bytes> = tokio::select! {
        sender = sender.ready() => sender.unwrap(),
        _ = &mut connection => panic!("the connection ended"),
    };
    // A client that sends its requests, and then reads nothing for a while.
    let responses: Vec<_> =
        (0..MAX_H2_STREAMS).map(|_| sender.send_request(post("/"), true).unwrap().0).collect();
    let mut asked = 0;
    while asked < MAX_H2_STREAMS {
        tokio::select! {
            path = paths.recv() => {
                path.unwrap();
                asked += 1;
            }
            _ = &mut connection, if asked == 0 => panic!("the connection ended"),
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    tokio::spawn(connection);
    let mut statuses = Vec::new();
    for response in responses {
        statuses.push(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16());
    }
    let failed = statuses.iter().filter(|status| **status == 502).count();
    assert!(failed > 0 && failed < statuses.len(), "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 502].contains(status)), "{statuses:?}");
}
