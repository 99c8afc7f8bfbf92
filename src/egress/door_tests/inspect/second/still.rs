//! HTTP/2 with clients and hosts that stand still, frame by frame: nothing gathers behind it, and others go on.

use tokio::io::AsyncWriteExt as _;

use super::crowded::frame;
use super::streams::{Stream, post, raw_client};
use super::*;

/// `GET https://api.test/`, compressed.
const GET: &[u8] = b"\x82\x87\x84\x01\x08api.test";
/// Settings: streams have a window of a GiB, or none.
const WIDE: &[u8] = &[0, 4, 0x40, 0, 0, 0];
const NARROW: &[u8] = &[0, 4, 0, 0, 0, 0];

/// The kind, the flags, the stream and the body of the next frame.
async fn next(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut body).await?;
    Ok((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), body))
}

/// Says `settings`, and that the connection has a window of a GiB.
async fn begin(stream: &mut (impl AsyncWriteExt + Unpin), settings: &[u8]) -> io::Result<()> {
    stream.write_all(&frame(4, 0, 0, settings)).await?;
    stream.write_all(&frame(8, 0, 0, &(1_u32 << 30).to_be_bytes())).await?;
    stream.flush().await
}

async fn begin_host(stream: &mut Stream, settings: &[u8]) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    begin(stream, settings).await
}

/// A client with a socket that holds little.
async fn begin_client(read: &Read, settings: &[u8]) -> client::TlsStream<TcpStream> {
    let mut client = connect(read, HOST, Offer::Both).await.unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.get_ref().0, 1 << 12).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    begin(&mut client, settings).await.unwrap();
    client
}

/// The streams of the first `count` requests.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// Reads until `count` requests came.
async fn requests(stream: &mut Stream, count: usize) -> io::Result<()> {
    let mut seen = 0;
    while seen < count {
        match next(stream).await? {
            (4, 0, ..) => {
                stream.write_all(&frame(4, 1, 0, &[])).await?;
                stream.flush().await?;
            }
            (1, ..) => seen += 1,
            _ => {}
        }
    }
    Ok(())
}

/// Answers the first requests with more than sockets hold, and what a connection holds that is to be sent.
async fn fill(stream: &mut Stream, count: u32) -> io::Result<()> {
    for id in streams(count) {
        stream.write_all(&frame(1, 4, id, &[0x88])).await?;
    }
    for _ in 0..30 {
        for id in streams(count) {
            stream.write_all(&frame(0, 0, id, &[b'x'; 16_000])).await?;
        }
        stream.flush().await?;
    }
    // Until it has come.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// A head that begins with `begin` and has `count` empty fields, of which the first names the others when `first`.
fn fields(begin: &[u8], count: usize, first: bool) -> Vec<u8> {
    let named: &[u8] = if first { &[0x40, 1, b'a', 0] } else { &[] };
    [begin, named, &vec![0xbe; count]].concat()
}

#[tokio::test]
async fn interim_answers_do_not_gather_while_the_client_reads_nothing() {
    let world = ca();
    let (sender, mut resets) = mpsc::unbounded_channel();
    let addr = secure(&world, HOST, Alpn::Http2, move |mut stream| {
        let sender = sender.clone();
        async move {
            begin_host(&mut stream, WIDE).await.unwrap();
            requests(&mut stream, 20).await.unwrap();
            fill(&mut stream, 19).await.unwrap();
            stream.write_all(&frame(1, 4, 39, &fields(b"\x08\x03103", 1, true))).await.unwrap();
            stream.write_all(&frame(1, 4, 39, &fields(b"\x08\x03103", 200, false))).await.unwrap();
            stream.flush().await.unwrap();
            while let Ok((kind, _, id, _)) = next(&mut stream).await {
                if kind == 3 {
                    sender.send(id).unwrap();
                }
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = begin_client(&read, WIDE).await;
    for id in streams(20) {
        client.write_all(&frame(1, 5, id, GET)).await.unwrap();
    }
    client.flush().await.unwrap();
    assert_eq!(timeout(PATIENCE, resets.recv()).await.expect("they may go on"), Some(39));
}

#[tokio::test]
async fn small_frames_behind_a_head_that_waits_are_gathered() {
    let world = ca();
    let (sender, mut told) = mpsc::unbounded_channel();
    let addr = secure(&world, HOST, Alpn::Http2, move |mut stream| {
        let sender = sender.clone();
        async move {
            begin_host(&mut stream, WIDE).await.unwrap();
            requests(&mut stream, 20).await.unwrap();
            fill(&mut stream, 19).await.unwrap();
            stream.write_all(&frame(1, 4, 39, &[0x88])).await.unwrap();
            let small = frame(0, 0, 39, b"twenty bytes of one.").repeat(15_000);
            stream.write_all(&small).await.unwrap();
            // An answer to it says that the rest was read.
            stream.write_all(&frame(6, 0, 0, b"are you?")).await.unwrap();
            stream.flush().await.unwrap();
            loop {
                if let (kind @ (6 | 7), ..) = next(&mut stream).await.unwrap() {
                    return sender.send(kind).unwrap();
                }
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = begin_client(&read, WIDE).await;
    for id in streams(20) {
        client.write_all(&frame(1, 5, id, GET)).await.unwrap();
    }
    client.flush().await.unwrap();
    // No farewell.
    assert_eq!(timeout(PATIENCE, told.recv()).await.unwrap(), Some(6));
}

#[tokio::test]
async fn trailers_that_are_too_large_are_not_kept_until_the_body_was_taken() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |mut stream| async move {
        begin_host(&mut stream, WIDE).await.unwrap();
        requests(&mut stream, 1).await.unwrap();
        stream.write_all(&frame(1, 4, 1, &[0x88])).await.unwrap();
        stream.write_all(&frame(0, 0, 1, b"x")).await.unwrap();
        stream.write_all(&frame(1, 5, 1, &fields(&[], 1900, true))).await.unwrap();
        stream.flush().await.unwrap();
        while next(&mut stream).await.is_ok() {}
    })
    .await;
    let read = read(addr, &world);
    // The body waits for a window.
    let mut client = begin_client(&read, NARROW).await;
    client.write_all(&frame(1, 5, 1, GET)).await.unwrap();
    client.flush().await.unwrap();
    let reset = async { while next(&mut client).await.unwrap().0 != 3 {} };
    timeout(PATIENCE, reset).await.expect("they wait with the body");
}

#[tokio::test]
async fn bodies_that_nobody_reads_leave_others_room() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        let mut builder = h2::server::Builder::new();
        builder.initial_window_size(1 << 16).initial_connection_window_size(1 << 26);
        let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
        let mut unread = Vec::new();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.uri().path() == "/unread" {
                unread.push((request, respond));
                continue;
            }
            tokio::spawn(async move {
                let (parts, mut body) = request.into_parts();
                while let Some(data) = body.data().await {
                    body.flow_control().release_capacity(data.unwrap().len()).unwrap();
                }
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                let size = parts.uri.path()[1..].parse().unwrap();
                body.send_data(Bytes::from(vec![b'x'; size]), true).unwrap();
            });
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut unread = Vec::new();
    for round in 0..5 {
        let (response, mut up) = sender.send_request(post("/unread"), false).unwrap();
        up.send_data(Bytes::from(vec![b'x'; 10_000_000]), true).unwrap();
        let (answer, _) = sender.send_request(post("/10000000"), true).unwrap();
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        unread.push((response, up, answer));
        // What can come of it has come.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (response, mut up) = sender.send_request(post("/100"), false).unwrap();
        up.send_data(Bytes::from(vec![b'x'; 100]), true).unwrap();
        let whole = async {
            let mut body = response.await.unwrap().into_body();
            body.data().await.unwrap().unwrap().len()
        };
        assert_eq!(timeout(PATIENCE, whole).await.unwrap_or_else(|_| panic!("{round} are in the way")), 100);
    }
}

#[tokio::test]
async fn a_host_that_does_not_say_how_many_it_takes_gets_more_than_one_after_a_while() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |mut stream| async move {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        // The first is not answered.
        while let Ok((kind, _, id, _)) = next(&mut stream).await {
            if kind == 1 && id > 1 {
                stream.write_all(&frame(1, 5, id, &[0x88])).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    })
    .await;
    let deadlines = Deadlines { connect: Duration::from_millis(500), ..short() };
    let read = read_within(addr, &world, &world, deadlines, |_| {});
    let mut sender = raw_client(&read).await;
    let (_first, _) = sender.send_request(post("/"), true).unwrap();
    let (second, _) = sender.send_request(post("/"), true).unwrap();
    let answer = timeout(PATIENCE, second).await.expect("it waits for ever").unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

#[tokio::test]
async fn a_request_that_may_not_hold_more_is_reset_while_it_waits_for_its_host() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |mut stream| async move {
        // It takes none at once.
        begin_host(&mut stream, &[0, 3, 0, 0, 0, 0]).await.unwrap();
        while next(&mut stream).await.is_ok() {}
    })
    .await;
    let read = read(addr, &world);
    // Others have taken what all may have.
    read.jail.gate.held.forget_permits(usize::MAX);
    let mut client = begin_client(&read, WIDE).await;
    // Until what the host takes at once is known: a request is not answered, and nothing else says so.
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The windows of streams are ours only from here on.
    client.write_all(&frame(4, 1, 0, &[])).await.unwrap();
    for id in streams(3) {
        client.write_all(&frame(1, 4, id, GET)).await.unwrap();
        for _ in 0..60 {
            client.write_all(&frame(0, 0, id, &[b'x'; 16_000])).await.unwrap();
        }
    }
    client.flush().await.unwrap();
    let reset = async {
        loop {
            if let (3, _, _, code) = next(&mut client).await.unwrap() {
                return code;
            }
        }
    };
    let code = timeout(PATIENCE, reset).await.expect("it goes on");
    assert_eq!(code, u32::from(h2::Reason::INTERNAL_ERROR).to_be_bytes());
}

#[tokio::test]
async fn an_answer_that_may_not_hold_more_is_reset_while_its_head_waits_for_room() {
    let world = ca();
    let (sender, mut told) = mpsc::unbounded_channel();
    let taken = Arc::new(Notify::new());
    let waits = Arc::clone(&taken);
    let addr = secure(&world, HOST, Alpn::Http2, move |mut stream| {
        let (sender, waits) = (sender.clone(), Arc::clone(&waits));
        async move {
            begin_host(&mut stream, WIDE).await.unwrap();
            requests(&mut stream, 20).await.unwrap();
            fill(&mut stream, 19).await.unwrap();
            sender.send(0).unwrap();
            waits.notified().await;
            stream.write_all(&frame(1, 4, 39, &[0x88])).await.unwrap();
            for _ in 0..30 {
                stream.write_all(&frame(0, 0, 39, &[b'x'; 16_000])).await.unwrap();
            }
            stream.flush().await.unwrap();
            while let Ok((kind, _, id, _)) = next(&mut stream).await {
                if kind == 3 {
                    sender.send(id).unwrap();
                }
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut client = begin_client(&read, WIDE).await;
    client.write_all(&frame(4, 1, 0, &[])).await.unwrap();
    for id in streams(20) {
        client.write_all(&frame(1, 5, id, GET)).await.unwrap();
    }
    client.flush().await.unwrap();
    assert_eq!(timeout(PATIENCE, told.recv()).await.unwrap(), Some(0));
    // Others take the rest of what all may have.
    read.jail.gate.held.forget_permits(usize::MAX);
    taken.notify_one();
    assert_eq!(timeout(PATIENCE, told.recv()).await.expect("it goes on"), Some(39));
}
