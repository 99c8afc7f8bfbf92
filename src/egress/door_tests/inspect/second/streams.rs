//! HTTP/2 frame by frame: what comes before the answer, resets, windows, and connections that end.

use super::*;
use crate::egress::limits::H2_STREAM_WINDOW;

pub(super) type Stream = server::TlsStream<TcpStream>;

/// An origin that serves each request of each connection with `serve`, frame by frame.
pub(super) async fn raw_h2<F, H>(world: &SessionCa, serve: F) -> SocketAddr
where
    F: Fn(h2::server::Connection<Stream, Bytes>) -> H + Send + Sync + Clone + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    secure(world, HOST, Alpn::Http2, move |stream| {
        let serve = serve.clone();
        async move { serve(h2::server::handshake(stream).await.unwrap()).await }
    })
    .await
}

/// A client that is in charge of its windows.
pub(super) async fn raw_client(read: &Read) -> h2::client::SendRequest<Bytes> {
    let client = connect(read, HOST, Offer::Both).await.unwrap();
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(1 << 16)
        .initial_connection_window_size(1 << 22)
        .handshake(client)
        .await
        .unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

pub(super) fn post(path: &str) -> Request<()> {
    Request::post(format!("https://api.test{path}")).body(()).unwrap()
}

/// The status of the answer to a request without a body. One that the host did not begin, since it says farewell, is sent
/// again, as clients do.
async fn status(sender: &mut h2::client::SendRequest<Bytes>, path: &str) -> u16 {
    loop {
        let (response, _) = sender.send_request(post(path), true).unwrap();
        match timeout(PATIENCE, response).await.unwrap() {
            Ok(answer) => return answer.status().as_u16(),
            Err(error) => assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM)),
        }
    }
}

async fn interim(response: &mut h2::client::ResponseFuture) -> Response<()> {
    let came = std::future::poll_fn(|context| response.poll_informational(context));
    timeout(PATIENCE, came).await.expect("none comes").unwrap().unwrap()
}

#[tokio::test]
async fn answers_before_the_answer_pass_in_http_2() {
    let world = ca();
    let addr = raw_h2(&world, |mut connection| async move {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            tokio::spawn(async move {
                assert_eq!(request.headers()["expect"], "100-continue");
                respond.send_informational(Response::builder().status(100).body(()).unwrap()).unwrap();
                assert_eq!(request.into_body().data().await.unwrap().unwrap(), "body");
                let hints = Response::builder().status(103).header("link", VALUE).body(()).unwrap();
                respond.send_informational(hints).unwrap();
                respond.send_response(Response::new(()), true).unwrap();
            });
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut request = post("/");
    request.headers_mut().insert("expect", "100-continue".parse().unwrap());
    let (mut response, mut body) = sender.send_request(request, false).unwrap();
    assert_eq!(interim(&mut response).await.status().as_u16(), 100);
    body.send_data(Bytes::from("body"), true).unwrap();
    let hints = interim(&mut response).await;
    assert_eq!((hints.status().as_u16(), &hints.headers()["link"]), (103, &read.fake.parse().unwrap()));
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn a_host_that_sends_nothing_but_interim_answers_has_none() {
    let world = ca();
    let (sender, mut resets) = mpsc::unbounded_channel();
    let addr = raw_h2(&world, move |mut connection| {
        let sender = sender.clone();
        async move {
            while let Some(Ok((unread, mut respond))) = connection.accept().await {
                // Many, or few that are large.
                let (count, size) = if unread.uri().path() == "/many" { (100, 1) } else { (10, 15_000) };
                for _ in 0..count {
                    let hints = Response::builder().status(103).header("link", "x".repeat(size));
                    respond.send_informational(hints.body(()).unwrap()).unwrap();
                }
                let sender = sender.clone();
                tokio::spawn(async move {
                    let _unread = unread;
                    let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                    sender.send(reason.unwrap()).unwrap();
                });
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for path in ["/many", "/large"] {
        // The host takes no more of the request than its window, and hears all the same that nobody waits.
        let (response, mut body) = sender.send_request(post(path), false).unwrap();
        body.send_data(Bytes::from(vec![b'x'; 200_000]), false).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), 502, "{path}");
        let line = answer.into_body().data().await.unwrap().unwrap();
        assert!(line.starts_with(b"ai-jail: api.test:443 is allowed, but it sent nothing but"), "{line:?}");
        let seen = timeout(PATIENCE, resets.recv()).await.expect("the host hears nothing").unwrap();
        assert_eq!(seen, h2::Reason::CANCEL);
    }
}

#[tokio::test]
async fn a_stream_that_either_side_resets_ends_on_the_other() {
    let world = ca();
    let (sender, mut resets) = mpsc::unbounded_channel();
    let leave = Arc::new(Notify::new());
    let leaves = Arc::clone(&leave);
    let addr = raw_h2(&world, move |mut connection| {
        let (sender, leaves) = (sender.clone(), Arc::clone(&leaves));
        async move {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let (sender, leaves) = (sender.clone(), Arc::clone(&leaves));
                tokio::spawn(async move {
                    let path = request.uri().path().to_owned();
                    sender.send((path.clone(), None)).unwrap();
                    match path.as_str() {
                        // The client leaves before there is an answer, or within its body.
                        "/silent" | "/silent/full" => {
                            let _unread = request;
                            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                            sender.send((path, Some(reason.unwrap()))).unwrap();
                        }
                        "/long" => {
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from("begun"), false).unwrap();
                            let reason = std::future::poll_fn(|context| body.poll_reset(context)).await;
                            sender.send((path, Some(reason.unwrap()))).unwrap();
                        }
                        // The host leaves.
                        _ => {
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from("begun"), false).unwrap();
                            leaves.notified().await;
                            body.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
                        }
                    }
                });
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut next = async || timeout(PATIENCE, resets.recv()).await.expect("the host hears nothing").unwrap();
    for path in ["/silent", "/long", "/silent/full"] {
        let (response, mut body) = sender.send_request(post(path), false).unwrap();
        assert_eq!(next().await, (path.to_owned(), None));
        if path == "/silent/full" {
            // The host takes no more than its window.
            body.send_data(Bytes::from(vec![b'x'; 200_000]), false).unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if path == "/long" {
            let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
            assert_eq!(answer.into_body().data().await.unwrap().unwrap(), "begun");
        }
        body.send_reset(h2::Reason::CANCEL);
        assert_eq!(next().await, (path.to_owned(), Some(h2::Reason::CANCEL)));
    }
    let (response, _) = sender.send_request(post("/broken"), true).unwrap();
    let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "begun");
    leave.notify_one();
    let end = timeout(PATIENCE, body.data()).await.unwrap().expect("a broken body looks whole");
    assert_eq!(end.unwrap_err().reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_its_host_back_and_no_other_stream() {
    const PIECE: usize = 1 << 14;
    let world = ca();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let addr = raw_h2(&world, move |mut connection| {
        let count = Arc::clone(&count);
        async move {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let mut body = respond.send_response(Response::new(()), false).unwrap();
                    if request.uri().path() == "/small" {
                        return body.send_data(Bytes::from("small"), true).unwrap();
                    }
                    loop {
                        body.reserve_capacity(PIECE);
                        let room = std::future::poll_fn(|context| body.poll_capacity(context)).await;
                        let Some(Ok(room)) = room else { return };
                        body.send_data(Bytes::from(vec![b'x'; room.min(PIECE)]), false).unwrap();
                        count.fetch_add(room.min(PIECE), Ordering::Relaxed);
                    }
                });
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (response, _) = sender.send_request(post("/large"), true).unwrap();
    // Held, and not read.
    let _large = timeout(PATIENCE, response).await.unwrap().unwrap();
    eventually(|| sent.load(Ordering::Relaxed) >= H2_STREAM_WINDOW as usize).await;
    for _ in 0..20 {
        let (response, _) = sender.send_request(post("/small"), true).unwrap();
        let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "small");
    }
    // Its window, what a stream may hold, and what the client's window takes.
    assert!(sent.load(Ordering::Relaxed) < 2 * H2_STREAM_WINDOW as usize, "{sent:?} bytes were taken");
}

/// Answers the one request of a connection, perhaps before it is whole, and says farewell.
async fn answer_one(mut connection: h2::server::Connection<Stream, Bytes>) {
    let Some(Ok((_request, mut respond))) = connection.accept().await else { return };
    respond.send_response(Response::new(()), true).unwrap();
    connection.graceful_shutdown();
    while connection.accept().await.is_some() {}
}

#[tokio::test]
async fn a_connection_that_the_host_closes_is_made_anew_in_http_2() {
    let world = ca();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = raw_h2(&world, move |connection| {
        count.fetch_add(1, Ordering::Relaxed);
        answer_one(connection)
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for round in 0..3 {
        // The host answers before the request is whole.
        let (response, mut body) = sender.send_request(post("/"), false).unwrap();
        match timeout(PATIENCE, response).await.unwrap() {
            Ok(answer) => assert_eq!(answer.status().as_u16(), 200),
            Err(error) => assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM)),
        }
        let _ = body.send_data(Bytes::from("late"), true);
        assert_eq!(status(&mut sender, "/").await, 200, "round {round}");
    }
    assert!(connections.load(Ordering::Relaxed) >= 3);
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again_with_the_next_request() {
    let world = ca();
    let acceptor =
        TlsAcceptor::from(world.server(&Host::parse(HOST.as_bytes()).unwrap(), Alpn::Http2).unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let addr = origin(move |stream| {
        let (acceptor, round) = (acceptor.clone(), connections.fetch_add(1, Ordering::Relaxed));
        async move {
            // The second time it is just starting anew.
            if round != 1 {
                answer_one(h2::server::handshake(acceptor.accept(stream).await.unwrap()).await.unwrap())
                    .await;
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for want in [200, 502, 200] {
        assert_eq!(status(&mut sender, "/").await, want);
    }
}

#[tokio::test]
async fn requests_that_are_whole_take_nothing_of_the_window_while_their_answers_last() {
    let world = ca();
    let addr = raw_h2(&world, |mut connection| async move {
        let mut kept = Vec::new();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let lasts = request.uri().path() == "/lasts";
            let answer = respond.send_response(Response::new(()), !lasts).unwrap();
            kept.push((answer, respond));
            let mut body = request.into_body();
            tokio::spawn(async move {
                while let Some(Ok(data)) = body.data().await {
                    let _ = body.flow_control().release_capacity(data.len());
                }
            });
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut held = Vec::new();
    // More than the connection's window together.
    for _ in 0..70 {
        let (response, mut body) = sender.send_request(post("/lasts"), false).unwrap();
        body.send_data(Bytes::from(vec![b'x'; 16_384]), true).unwrap();
        held.push(timeout(PATIENCE, response).await.expect("the window is used up").unwrap());
    }
    let (response, mut body) = sender.send_request(post("/"), false).unwrap();
    body.send_data(Bytes::from(vec![b'x'; 16_384]), true).unwrap();
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn what_a_host_refused_to_begin_may_be_asked_again() {
    let world = ca();
    let addr = raw_h2(&world, |mut connection| async move {
        while let Some(Ok((_request, mut respond))) = connection.accept().await {
            respond.send_reset(h2::Reason::REFUSED_STREAM);
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    let error = timeout(PATIENCE, response).await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
}

#[tokio::test]
async fn a_request_whose_body_may_carry_a_secret_asks_for_no_part() {
    let world = ca();
    let (sender, mut requests) = mpsc::unbounded_channel();
    let addr = raw_h2(&world, move |mut connection| {
        let sender = sender.clone();
        async move {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                sender.send(request.headers().contains_key("range")).unwrap();
                respond.send_response(Response::new(()), true).unwrap();
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for ends in [true, false] {
        let mut request = post("/");
        request.headers_mut().insert("range", "bytes=0-3".parse().unwrap());
        let (response, _body) = sender.send_request(request, ends).unwrap();
        timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(requests.recv().await.unwrap(), ends);
    }
}

#[tokio::test]
async fn headers_pass_in_their_order_and_as_they_are_on_both_ways() {
    // Several of a name, nothing, bytes beyond ASCII, and names that are no known ones.
    let fields = || {
        let values: [(&str, &[u8]); 8] = [
            ("x-own", b"1"),
            ("set-cookie", b"a=1"),
            ("x-own", b""),
            ("x-bytes", b"\x80\xff caf\xc3\xa9"),
            ("set-cookie", b"b=2; Path=/"),
            ("cookie", b"c=3"),
            ("cookie", b"d=4"),
            ("x-own", b"\ttab\t."),
        ];
        let mut headers = hyper::HeaderMap::new();
        for (name, value) in values {
            headers.append(name, hyper::header::HeaderValue::from_bytes(value).unwrap());
        }
        headers
    };
    let own = |headers: &hyper::HeaderMap| -> Vec<(String, Vec<u8>)> {
        let ours = |name: &str| fields().contains_key(name);
        let pairs = headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        pairs.filter(|(name, _)| ours(name)).collect()
    };
    let world = ca();
    let (sender, mut requests) = mpsc::unbounded_channel();
    let addr = raw_h2(&world, move |mut connection| {
        let sender = sender.clone();
        async move {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                sender.send(request.headers().clone()).unwrap();
                let mut answer = Response::new(());
                *answer.headers_mut() = fields();
                let mut body = respond.send_response(answer, false).unwrap();
                let mut trailers = fields();
                for name in ["set-cookie", "cookie"] {
                    trailers.remove(name);
                }
                body.send_trailers(trailers).unwrap();
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut request = post("/");
    *request.headers_mut() = fields();
    let (response, _) = sender.send_request(request, true).unwrap();
    let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
    let all = own(&fields());
    assert_eq!(own(&requests.recv().await.unwrap()), all);
    assert_eq!(own(answer.headers()), all);
    let mut body = answer.into_body();
    assert!(body.data().await.is_none());
    let trailers = body.trailers().await.unwrap().unwrap();
    let others: Vec<_> = all.into_iter().filter(|(name, _)| !name.ends_with("cookie")).collect();
    assert_eq!(own(&trailers), others);
}

#[tokio::test]
async fn a_reset_does_not_overtake_what_the_host_sent_before_it() {
    const SIZE: usize = 300_000;
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        let mut builder = h2::server::Builder::new();
        let mut connection =
            builder.max_send_buffer_size(1 << 20).handshake::<_, Bytes>(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            tokio::spawn(async move {
                let mut out = respond.send_response(Response::new(()), false).unwrap();
                out.send_data(Bytes::from(vec![b'y'; SIZE]), false).unwrap();
                // Until it is on its way.
                tokio::time::sleep(Duration::from_millis(200)).await;
                out.send_reset(h2::Reason::NO_ERROR);
            });
        }
    })
    .await;
    let read = read(addr, &world);
    let client = connect(&read, HOST, Offer::Both).await.unwrap();
    // It takes a part, and reads the rest long after the reset.
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(65_535).handshake::<_, Bytes>(client);
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    let mut got = 0;
    let end = loop {
        match timeout(PATIENCE, body.data()).await.expect("it stands still") {
            Some(Ok(data)) => {
                got += data.len();
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            end => break end.and_then(Result::err).and_then(|error| error.reason()),
        }
    };
    assert_eq!((got, end), (SIZE, Some(h2::Reason::NO_ERROR)));
}
