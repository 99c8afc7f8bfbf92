//! HTTP/2 with a host whose traffic is read.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

mod crowded;
mod farewell;
mod large;
mod odd;
mod still;
mod streams;

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
    let request = Request::head("https://api.test/no.Service/Call").body(Full::from("")).unwrap();
    let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 403);
    let body = response.into_body().collect().await.expect("an answer to HEAD has no body");
    assert!(body.to_bytes().is_empty());
    let request = Request::post("https://api.test/ok.Service/Call")
        .header("x-http-method-override", "POST, DELETE")
        .body(Full::from(""))
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), 403);
    assert!(requests.try_recv().is_err());
    let request = Request::post("https://api.test/ok.Service/Call").body(Full::from("")).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), 200);
}
