//! HTTP/2 with hosts that take less than they get, and clients that leave: nothing of it gathers, and nobody waits for others.

use tokio::io::AsyncWriteExt as _;

use super::streams::{Stream, post, raw_client};
use super::*;

/// Asks for `path` with a head of `size` bytes, and leaves as soon as that was sent.
async fn ask_and_leave(sender: &mut h2::client::SendRequest<Bytes>, path: &str, size: usize) {
    let mut request = post(path);
    request.headers_mut().insert("x-large", "x".repeat(size).parse().unwrap());
    let (_response, mut body) = sender.send_request(request, false).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    body.send_reset(h2::Reason::CANCEL);
    tokio::task::yield_now().await;
}

/// The path of the next request, which is answered.
async fn next(connection: &mut h2::server::Connection<Stream, Bytes>) -> Option<String> {
    let (request, mut respond) = connection.accept().await?.ok()?;
    // The client may have left.
    let _ = respond.send_response(Response::new(()), true);
    Some(request.uri().path().to_owned())
}

#[tokio::test]
async fn requests_that_their_clients_left_are_not_kept_for_a_host_that_is_busy() {
    let world = ca();
    let (sender, mut paths) = mpsc::unbounded_channel();
    let goes_on = Arc::new(Notify::new());
    let free = Arc::clone(&goes_on);
    let addr = secure(&world, HOST, Alpn::Http2, move |stream| {
        let (sender, free) = (sender.clone(), Arc::clone(&free));
        async move {
            let mut builder = h2::server::Builder::new();
            let mut connection = builder.max_concurrent_streams(1).handshake(stream).await.unwrap();
            let (first, mut respond) = connection.accept().await.unwrap().unwrap();
            sender.send(first.uri().path().to_owned()).unwrap();
            tokio::select! {
                _ = connection.accept() => panic!("it takes one at once"),
                () = free.notified() => respond.send_response(Response::new(()), true).unwrap(),
            };
            while let Some(path) = next(&mut connection).await {
                sender.send(path).unwrap();
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (held, _) = sender.send_request(post("/held"), true).unwrap();
    assert_eq!(timeout(PATIENCE, paths.recv()).await.unwrap().unwrap(), "/held");
    for _ in 0..300 {
        ask_and_leave(&mut sender, "/left", 100).await;
    }
    let (waits, _) = sender.send_request(post("/waits"), true).unwrap();
    goes_on.notify_one();
    for response in [held, waits] {
        assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
    }
    assert_eq!(paths.recv().await.unwrap(), "/waits");
}

#[tokio::test]
async fn requests_that_their_clients_left_do_not_gather_before_a_host_that_reads_nothing() {
    let world = ca();
    let (sender, mut paths) = mpsc::unbounded_channel();
    let goes_on = Arc::new(Notify::new());
    let reads = Arc::clone(&goes_on);
    let addr = secure(&world, HOST, Alpn::Http2, move |stream| {
        // What sockets hold does not count.
        rustix::net::sockopt::set_socket_recv_buffer_size(stream.get_ref().0, 1 << 17).unwrap();
        let (sender, reads) = (sender.clone(), Arc::clone(&reads));
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(path) = next(&mut connection).await {
                let begins = path == "/begins";
                sender.send(path).unwrap();
                if begins {
                    // Its answer is on its way before it stands still.
                    let _ = timeout(Duration::from_millis(100), connection.accept()).await;
                    reads.notified().await;
                }
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (begins, _) = sender.send_request(post("/begins"), true).unwrap();
    assert_eq!(timeout(PATIENCE, begins).await.unwrap().unwrap().status().as_u16(), 200);
    assert_eq!(paths.recv().await.unwrap(), "/begins");
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..1500 {
        ask_and_leave(&mut sender, "/left", 16_000).await;
    }
    let (last, _) = sender.send_request(post("/last"), true).unwrap();
    goes_on.notify_one();
    assert_eq!(timeout(PATIENCE, last).await.unwrap().unwrap().status().as_u16(), 200);
    let mut kept = 0;
    while paths.recv().await.unwrap() != "/last" {
        kept += 1;
    }
    // As many as may be open, and what the sockets hold: four MiB at most, 14 KB for each.
    assert!(kept < 500, "{kept} requests that nobody waits for were sent");
}

/// A frame of HTTP/2 on stream `id`.
pub(super) fn frame(kind: u8, flags: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), body].concat()
}

/// Answers each request with `answer`, of its stream, byte for byte.
pub(super) async fn answer_raw(mut stream: Stream, answer: impl Fn(u32) -> Vec<u8>) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    stream.write_all(&frame(4, 0, 0, &[])).await?;
    loop {
        stream.flush().await?;
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut body).await?;
        match head[3] {
            // SETTINGS
            4 if head[4] & 1 == 0 => stream.write_all(&frame(4, 1, 0, &[])).await?,
            // HEADERS
            1 => stream.write_all(&answer(u32::from_be_bytes([head[5], head[6], head[7], head[8]]))).await?,
            _ => {}
        }
    }
}

#[tokio::test]
async fn small_frames_of_an_answer_may_be_as_many_as_fit_the_window() {
    const COUNT: usize = 50_000;
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        let _ = answer_raw(stream, |id| {
            let mut answer = frame(1, 4, id, &[0x88]);
            for _ in 0..COUNT {
                answer.extend(frame(0, 0, id, b"x"));
            }
            answer.extend(frame(0, 1, id, b"."));
            answer
        })
        .await;
    })
    .await;
    let read = read(addr, &world);
    let client = connect(&read, HOST, Offer::Both).await.unwrap();
    // A client that does not read at first.
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(1000).data_frame_budget(1 << 30).handshake(client);
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut sender: h2::client::SendRequest<Bytes> = sender.ready().await.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..4 {
        let (response, _) = sender.send_request(post("/"), true).unwrap();
        bodies.push(timeout(PATIENCE, response).await.unwrap().unwrap().into_body());
    }
    for mut body in bodies {
        let mut count = 0;
        while let Some(data) = timeout(PATIENCE, body.data()).await.unwrap() {
            let data = data.unwrap();
            count += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
            if count > COUNT {
                assert!(data.ends_with(b"."));
            }
        }
        assert_eq!(count, COUNT + 1);
    }
}

#[tokio::test]
async fn small_frames_of_a_request_may_be_as_many_as_fit_the_window() {
    const COUNT: usize = 20_000;
    let world = ca();
    let goes_on = Arc::new(Notify::new());
    let reads = Arc::clone(&goes_on);
    let addr = secure(&world, HOST, Alpn::Http2, move |stream| {
        let reads = Arc::clone(&reads);
        async move {
            let mut builder = h2::server::Builder::new();
            builder.initial_connection_window_size(1 << 20).data_frame_budget(1 << 30);
            let handshake = builder.handshake::<_, Bytes>(stream);
            let mut connection = handshake.await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let reads = Arc::clone(&reads);
                tokio::spawn(async move {
                    let mut count = 0;
                    let (parts, mut body) = request.into_parts();
                    if parts.uri.path() == "/slow" {
                        reads.notified().await;
                    }
                    while let Some(data) = body.data().await {
                        let data = data.unwrap();
                        count += data.len();
                        body.flow_control().release_capacity(data.len()).unwrap();
                    }
                    let answer = Response::builder().header("x-count", count).body(()).unwrap();
                    respond.send_response(answer, true).unwrap();
                });
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (slow, mut body) = sender.send_request(post("/slow"), false).unwrap();
    for _ in 0..COUNT {
        body.send_data(Bytes::from_static(b"twenty bytes of one."), false).unwrap();
    }
    body.send_data(Bytes::new(), true).unwrap();
    // The others are served meanwhile.
    for _ in 0..20 {
        let (response, mut body) = sender.send_request(post("/"), false).unwrap();
        body.send_data(Bytes::from_static(b"abc"), true).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(answer.headers()["x-count"], "3");
    }
    goes_on.notify_one();
    let answer = timeout(PATIENCE, slow).await.unwrap().unwrap();
    assert_eq!(answer.headers()["x-count"], (COUNT * 20).to_string().as_str());
}

#[tokio::test]
async fn an_attempt_to_renew_a_connection_is_one_for_all_and_ends_with_its_client() {
    let world = ca();
    let acceptor =
        TlsAcceptor::from(world.server(&Host::parse(HOST.as_bytes()).unwrap(), Alpn::Http2).unwrap());
    let (sender, mut rounds) = mpsc::unbounded_channel();
    let gives_up = Arc::new(Notify::new());
    let leaves = Arc::clone(&gives_up);
    let connections = AtomicUsize::new(0);
    let addr = origin(move |stream| {
        let (acceptor, leaves, sender) = (acceptor.clone(), Arc::clone(&leaves), sender.clone());
        let round = connections.fetch_add(1, Ordering::Relaxed);
        async move {
            sender.send(round).unwrap();
            match round {
                // The first is closed without a word of HTTP/2; the next ones say nothing.
                0 => {
                    let mut connection =
                        h2::server::handshake(acceptor.accept(stream).await.unwrap()).await.unwrap();
                    tokio::select! {
                        () = async { while next(&mut connection).await.is_some() {} } => {}
                        () = leaves.notified() => {}
                    }
                }
                1 | 2 => leaves.notified().await,
                _ => {
                    let mut connection =
                        h2::server::handshake(acceptor.accept(stream).await.unwrap()).await.unwrap();
                    while next(&mut connection).await.is_some() {}
                }
            }
        }
    })
    .await;
    // Who waits for an attempt of another does so for longer than the test.
    let deadlines = Deadlines { connect: 10 * PATIENCE, ..short() };
    let read = read_within(addr, &world, &world, deadlines, |_| {});
    let mut sender = raw_client(&read).await;
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
    assert_eq!(rounds.recv().await.unwrap(), 0);
    gives_up.notify_waiters();
    // Those that wait for the first attempt leave, the one that makes it last.
    let mut waiting = Vec::new();
    let made = loop {
        // The end of the connection may not have been noticed yet.
        waiting.push(sender.send_request(post("/left"), false).unwrap());
        if let Ok(made) = timeout(Duration::from_millis(50), rounds.recv()).await {
            break made.unwrap();
        }
    };
    assert_eq!(made, 1);
    for _ in 0..5 {
        waiting.push(sender.send_request(post("/left"), false).unwrap());
    }
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(sender.send_request(post("/"), true).unwrap().0);
    }
    for (_, body) in waiting.iter_mut().rev() {
        body.send_reset(h2::Reason::CANCEL);
    }
    assert_eq!(timeout(PATIENCE, rounds.recv()).await.expect("it waits for another").unwrap(), 2);
    gives_up.notify_waiters();
    for response in requests {
        assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 502);
    }
    // All of them had that attempt; the next request has one of its own.
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16(), 200);
    assert_eq!(rounds.recv().await.unwrap(), 3);
}
