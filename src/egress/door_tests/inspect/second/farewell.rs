//! HTTP/2 with hosts that say farewell, and go on.

use tokio::io::AsyncWriteExt as _;

use super::crowded::{answer_raw, frame};
use super::streams::{Stream, post, raw_client};
use super::*;
use crate::egress::limits::MAX_H2_HOSTS;

/// That no request after `last` is answered on the connection.
fn farewell(last: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

#[tokio::test]
async fn what_a_host_says_with_its_farewell_is_not_told() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        // ENHANCE_YOUR_CALM, and why.
        let why = [&[0; 4][..], &[0, 0, 0, 11], VALUE.as_bytes()].concat();
        let _ = answer_raw(stream, |_| frame(7, 0, 0, &why)).await;
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (response, _) = sender.send_request(post("/"), true).unwrap();
    let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
    assert_eq!(answer.status().as_u16(), 502);
    let line = answer.into_body().data().await.unwrap().unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(
        line.contains("it gave no answer (it said: detected excessive load generating behavior)"),
        "{line}"
    );
    let told = format!("{:?}", read.jail.seen.verdicts());
    assert!(told.contains("it gave no answer") && !told.contains(VALUE), "{told}");
}

/// An origin that begins an answer on each connection, never ends it, and says farewell. It counts the connections at once.
async fn lingering(world: &SessionCa) -> (SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = secure(world, HOST, Alpn::Http2, move |stream| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = answer_raw(stream, |id| [frame(1, 4, id, &[0x88]), farewell(id)].concat()).await;
            count.fetch_sub(1, Ordering::Relaxed);
        }
    })
    .await;
    (addr, connections)
}

#[tokio::test]
async fn a_host_that_says_farewell_and_goes_on_has_few_connections() {
    let world = ca();
    let (addr, connections) = lingering(&world).await;
    let deadlines = Deadlines { connect: Duration::from_secs(1), ..short() };
    let read = read_within(addr, &world, &world, deadlines, |_| {});
    let mut sender = raw_client(&read).await;
    let mut begun = Vec::new();
    for _ in 0..MAX_H2_HOSTS {
        let (response, _) = sender.send_request(post("/"), true).unwrap();
        begun.push(timeout(PATIENCE, response).await.unwrap().unwrap());
    }
    // No more on this connection, which the client hears at once, and with the request in time.
    let (late, _) = sender.send_request(post("/"), true).unwrap();
    eventually(|| sender.clone().send_request(post("/"), true).is_err()).await;
    let answer = timeout(PATIENCE, late).await.unwrap().unwrap();
    assert_eq!(answer.status().as_u16(), 502);
    let line = answer.into_body().data().await.unwrap().unwrap();
    assert!(
        line.starts_with(b"ai-jail: api.test:443 is allowed, but it takes no more requests on 3 "),
        "{line:?}"
    );
    assert_eq!(connections.load(Ordering::Relaxed), MAX_H2_HOSTS);
    // With the next one it has others.
    let mut next = raw_client(&read).await;
    let (response, _) = next.send_request(post("/"), true).unwrap();
    begun.push(timeout(PATIENCE, response).await.unwrap().unwrap());
    drop(begun);
    eventually(|| connections.load(Ordering::Relaxed) == 0).await;
}

#[tokio::test]
async fn the_end_of_an_earlier_answer_makes_room_for_a_connection() {
    let world = ca();
    let (addr, connections) = lingering(&world).await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let mut begun = Vec::new();
    for _ in 0..MAX_H2_HOSTS {
        let (response, _) = sender.send_request(post("/"), true).unwrap();
        begun.push(timeout(PATIENCE, response).await.unwrap().unwrap());
    }
    let (late, _) = sender.send_request(post("/"), true).unwrap();
    eventually(|| sender.clone().send_request(post("/"), true).is_err()).await;
    begun.pop();
    assert_eq!(timeout(PATIENCE, late).await.unwrap().unwrap().status().as_u16(), 200);
    assert!(connections.load(Ordering::Relaxed) <= MAX_H2_HOSTS);
}

#[tokio::test]
async fn a_request_that_waits_when_the_host_says_farewell_goes_to_the_next_connection() {
    let world = ca();
    let (sender, mut paths) = mpsc::unbounded_channel();
    let goes = Arc::new(Notify::new());
    let leaves = Arc::clone(&goes);
    let addr = secure(&world, HOST, Alpn::Http2, move |stream| {
        let (sender, leaves) = (sender.clone(), Arc::clone(&leaves));
        async move {
            let mut builder = h2::server::Builder::new();
            let handshake = builder.max_concurrent_streams(1).handshake::<_, Bytes>(stream);
            let mut connection = handshake.await.unwrap();
            let mut kept = Vec::new();
            loop {
                tokio::select! {
                    accepted = connection.accept() => {
                        let Some(Ok((request, mut respond))) = accepted else { return };
                        let path = request.uri().path().to_owned();
                        if path == "/held" {
                            kept.push((request, respond));
                        } else {
                            respond.send_response(Response::new(()), true).unwrap();
                        }
                        sender.send(path).unwrap();
                    }
                    () = leaves.notified() => connection.graceful_shutdown(),
                }
            }
        }
    })
    .await;
    let read = read(addr, &world);
    let mut sender = raw_client(&read).await;
    let (_held, _) = sender.send_request(post("/held"), true).unwrap();
    assert_eq!(timeout(PATIENCE, paths.recv()).await.unwrap().unwrap(), "/held");
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(sender.send_request(post("/waits"), true).unwrap().0);
    }
    // They are at the slots.
    let waited = timeout(Duration::from_millis(200), paths.recv()).await;
    assert!(waited.is_err(), "the host takes one at once");
    goes.notify_one();
    for response in waiting {
        let answer = timeout(PATIENCE, response).await.expect("it waits for the one that is held").unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }
}

#[tokio::test]
async fn a_connection_that_nobody_waits_on_ends_after_the_farewell_though_the_host_reads_nothing() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |mut stream| async move {
        rustix::net::sockopt::set_socket_recv_buffer_size(stream.get_ref().0, 1 << 12).unwrap();
        serve_and_stand_still(&mut stream).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let deadlines = Deadlines { half_closed: Duration::from_millis(300), ..short() };
    let read = read_within(addr, &world, &world, deadlines, |_| {});
    let mut sender = raw_client(&read).await;
    // None could be made any more.
    for round in 0..=MAX_H2_HOSTS {
        if round == MAX_H2_HOSTS {
            // They have ended.
            tokio::time::sleep(2 * deadlines.half_closed).await;
        }
        let (response, mut body) = sender.send_request(post("/"), false).unwrap();
        // More than sockets hold.
        body.send_data(Bytes::from(vec![b'x'; 32 << 20]), false).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        if answer.status() != 200 {
            panic!("{round}: {:?}", answer.into_body().data().await);
        }
        body.send_reset(h2::Reason::CANCEL);
    }
}

/// Answers the first request before its body has come, says farewell, and reads nothing more.
async fn serve_and_stand_still(stream: &mut Stream) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    // A window of 2^30 for streams, and as much more for the connection.
    stream.write_all(&frame(4, 0, 0, &[0, 4, 0x40, 0, 0, 0])).await?;
    stream.write_all(&frame(8, 0, 0, &(1_u32 << 30).to_be_bytes())).await?;
    stream.flush().await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut body).await?;
        match head[3] {
            4 if head[4] & 1 == 0 => stream.write_all(&frame(4, 1, 0, &[])).await?,
            1 => {
                // Let the sockets fill up before the answer.
                tokio::time::sleep(Duration::from_millis(500)).await;
                stream.write_all(&[frame(1, 5, 1, &[0x88]), farewell(1)].concat()).await?;
                return stream.flush().await;
            }
            _ => {}
        }
    }
}
