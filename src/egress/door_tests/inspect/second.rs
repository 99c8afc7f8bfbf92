//! HTTP/2 with a host whose traffic is read.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn h2(read: &Read) -> Sender {
    let client = connect(read, HOST, Offer::Both).await.unwrap();
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let io = TokioIo::new(client);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn echoing_h2(world: &SessionCa) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let addr = secure(world, HOST, Alpn::Http2, move |stream| {
        let sender = sender.clone();
        async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap();
                    let trailers = body.trailers().cloned();
                    let seen = format!(
                        "{} {} {:?} {trailers:?} {}",
                        parts.method,
                        parts.uri,
                        parts.headers,
                        String::from_utf8_lossy(&body.to_bytes())
                    );
                    sender.send(seen).unwrap();
                    let mut trailers = hyper::HeaderMap::new();
                    trailers.insert("x-trailer", VALUE.parse().unwrap());
                    let (first, second) = VALUE.split_at(5);
                    let frames = [
                        Frame::data(Bytes::from(format!("<{first}"))),
                        Frame::data(Bytes::from(second)),
                        Frame::trailers(trailers),
                    ];
                    let mut response = Response::new(Frames(frames.into()));
                    response.headers_mut().insert("x-key", VALUE.parse().unwrap());
                    Ok::<_, Infallible>(response)
                }
            });
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await;
    (addr, receiver)
}

/// A body's frames, which are all there.
struct Frames(std::collections::VecDeque<Frame<Bytes>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.pop_front().map(Ok))
    }
}

#[tokio::test]
async fn http_2_carries_the_secret_out_and_takes_it_out_of_answers() {
    let world = ca();
    let (addr, mut requests) = echoing_h2(&world).await;
    let read = read(addr, &world);
    let mut sender = h2(&read).await;
    for _ in 0..2 {
        let request = Request::post(format!("https://api.test/v1?key={}", read.fake))
            .header("x-api-key", &read.fake)
            .header("accept-encoding", "gzip")
            .body(Full::from("hello"))
            .unwrap();
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["x-key"].to_str().unwrap()),
            (200, read.fake.as_str())
        );
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-trailer"], read.fake);
        assert_eq!(collected.to_bytes(), format!("<{}", read.fake));
        let seen = requests.recv().await.unwrap();
        assert!(seen.starts_with(&format!("POST https://api.test/v1?key={VALUE} ")), "{seen}");
        assert!(
            seen.contains(&format!("\"x-api-key\": \"{VALUE}\""))
                && seen.contains("identity")
                && seen.ends_with("hello"),
            "{seen}"
        );
    }
}

#[tokio::test]
async fn trailers_of_http_2_are_as_headers_are() {
    let world = ca();
    let (addr, mut requests) = echoing_h2(&world).await;
    let read = read(addr, &world);
    let client = connect(&read, HOST, Offer::Both).await.unwrap();
    let io = TokioIo::new(client);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut trailers = hyper::HeaderMap::new();
    trailers.append("x-key", read.fake.parse().unwrap());
    trailers.append("x-key", "b".parse().unwrap());
    trailers.insert("x-http-method-override", "DELETE".parse().unwrap());
    let frames = [Frame::data(Bytes::from("a")), Frame::trailers(trailers)];
    let request = Request::post("https://api.test/").body(Frames(frames.into())).unwrap();
    timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let seen = requests.recv().await.unwrap();
    let want = format!("Some({{\"x-key\": \"{VALUE}\", \"x-key\": \"b\"}}) a");
    assert!(seen.ends_with(&want), "{seen}");
}

#[tokio::test]
async fn http_2_requests_for_another_host_and_denied_ones_are_refused() {
    let world = ca();
    let (addr, mut requests) = echoing_h2(&world).await;
    let read = read_with(addr, &world, |policy| {
        let rules = HttpRules {
            host: HostPattern::parse(HOST).unwrap(),
            allow: vec![HttpRule::parse("POST /ok.Service/*").unwrap()],
            deny: Vec::new(),
        };
        policy.http = vec![Sourced::new(rules, Origin::built_in("a test"))];
    });
    let mut sender = h2(&read).await;
    for (url, kind, status, grpc) in [
        ("https://other.test/ok.Service/Call", "text/plain", 400, None),
        ("https://api.test/no.Service/Call", "text/plain", 403, None),
        ("https://api.test/no.Service/Call", "application/grpc", 200, Some("7")),
    ] {
        let request = Request::post(url).header("content-type", kind).body(Full::from("")).unwrap();
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(response.status().as_u16(), status, "{url}");
        assert_eq!(response.headers().get("grpc-status").map(|code| code.to_str().unwrap()), grpc);
    }
    assert!(requests.try_recv().is_err());
    let request = Request::post("https://api.test/ok.Service/Call").body(Full::from("")).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), 200);
}

type Stream = server::TlsStream<TcpStream>;

/// An origin that serves each request of each connection with `serve`, frame by frame.
async fn raw_h2<F, H>(world: &SessionCa, serve: F) -> SocketAddr
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
async fn raw_client(read: &Read) -> h2::client::SendRequest<Bytes> {
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

fn post(path: &str) -> Request<()> {
    Request::post(format!("https://api.test{path}")).body(()).unwrap()
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
    let addr = raw_h2(&world, |mut connection| async move {
        while let Some(Ok((_request, mut respond))) = connection.accept().await {
            for _ in 0..100 {
                respond.send_informational(Response::builder().status(103).body(()).unwrap()).unwrap();
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
    assert_eq!(answer.status().as_u16(), 502);
    let line = answer.into_body().data().await.unwrap().unwrap();
    assert!(line.starts_with(b"ai-jail: api.test:443 is allowed, but it sent nothing but"), "{line:?}");
}

#[tokio::test]
async fn a_stream_that_either_side_resets_ends_on_the_other() {
    let world = ca();
    let (sender, mut resets) = mpsc::unbounded_channel();
    let addr = raw_h2(&world, move |mut connection| {
        let sender = sender.clone();
        async move {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let path = request.uri().path().to_owned();
                    match path.as_str() {
                        // The client leaves before there is an answer, or within its body.
                        "/silent" => {
                            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                            sender.send((path, reason.unwrap())).unwrap();
                        }
                        "/long" => {
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from("begun"), false).unwrap();
                            let reason = std::future::poll_fn(|context| body.poll_reset(context)).await;
                            sender.send((path, reason.unwrap())).unwrap();
                        }
                        // The host leaves.
                        _ => {
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from("begun"), false).unwrap();
                            tokio::time::sleep(Duration::from_millis(50)).await;
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
    for path in ["/silent", "/long"] {
        let (response, mut body) = sender.send_request(post(path), false).unwrap();
        if path == "/long" {
            let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
            assert_eq!(answer.into_body().data().await.unwrap().unwrap(), "begun");
        }
        body.send_reset(h2::Reason::CANCEL);
        let seen = timeout(PATIENCE, resets.recv()).await.expect("the host hears nothing").unwrap();
        assert_eq!(seen, (path.to_owned(), h2::Reason::CANCEL));
    }
    let (response, _) = sender.send_request(post("/broken"), true).unwrap();
    let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "begun");
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
    eventually(|| sent.load(Ordering::Relaxed) >= 1 << 19).await;
    for _ in 0..20 {
        let (response, _) = sender.send_request(post("/small"), true).unwrap();
        let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "small");
    }
    // Its window, what a stream may hold, and what the client's window takes.
    assert!(sent.load(Ordering::Relaxed) < 1 << 20, "{sent:?} bytes were taken");
}

#[tokio::test]
async fn a_connection_that_the_host_closes_is_made_anew_in_http_2() {
    let world = ca();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = raw_h2(&world, move |mut connection| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let Some(Ok((_request, mut respond))) = connection.accept().await else { return };
            // An answer before the request is whole, and a farewell.
            respond.send_response(Response::new(()), true).unwrap();
            connection.graceful_shutdown();
            while connection.accept().await.is_some() {}
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    for round in 1..=3 {
        let (response, mut body) = sender.send_request(post("/"), false).unwrap();
        assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
        let _ = body.send_data(Bytes::from("late"), true);
        eventually(|| connections.load(Ordering::Relaxed) == round).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
