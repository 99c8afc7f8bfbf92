//! Streams: what goes in comes out, in whatever pieces; a receiver that stands still stops the
//! sender.

use proptest::prelude::*;

use super::http::towards;
use super::tunnels::connected;
use super::*;
use crate::egress::limits::READ_SIZE;

/// More than both sockets of a connection hold.
const MUCH: usize = 32 * 1024 * 1024;

/// Bytes in which nothing repeats that a block could hide.
fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A tunnel to a server that is held by the test as well.
async fn tunnelled() -> (Jail, TcpStream, TcpStream) {
    let (sender, mut servers) = tokio::sync::mpsc::unbounded_channel();
    let addr = origin(move |stream| {
        sender.send(stream).unwrap();
        std::future::ready(())
    })
    .await;
    let jail = jail(towards(&["ok.test:443/tcp"], addr));
    let client = connected(&jail, "ok.test:443").await;
    (jail, client, servers.recv().await.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn pieces_of_any_size_arrive_as_they_were_sent(
        up in proptest::collection::vec(1..2 * READ_SIZE, 1..8),
        down in proptest::collection::vec(1..2 * READ_SIZE, 1..8),
        reads in proptest::collection::vec(1000..READ_SIZE, 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (jail, client, server) = tunnelled().await;
            let totals = (up.iter().sum::<usize>() as u64, down.iter().sum::<usize>() as u64);
            let send = async |mut half: tokio::net::tcp::OwnedWriteHalf, pieces: &[usize]| {
                let bytes = pattern(pieces.iter().sum());
                let mut left = &bytes[..];
                for piece in pieces {
                    half.write_all(&left[..*piece]).await.unwrap();
                    left = &left[*piece..];
                }
            };
            let take = async |mut half: tokio::net::tcp::OwnedReadHalf, pieces: &[usize]| {
                let (mut got, mut buffer) = (Vec::new(), vec![0; READ_SIZE]);
                for size in reads.iter().cycle() {
                    match half.read(&mut buffer[..*size]).await.unwrap() {
                        0 => break,
                        count => got.extend_from_slice(&buffer[..count]),
                    }
                }
                assert!(got == pattern(pieces.iter().sum()), "{} bytes differ", got.len());
            };
            let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
            // Each direction ends by itself: the halves are dropped when they have sent all.
            let all = async {
                tokio::join!(
                    send(client_out, &up), take(server_in, &up), send(server_out, &down), take(client_in, &down)
                )
            };
            timeout(PATIENCE, all).await.expect("the streams do not end");
            eventually(|| jail.seen.closed() == [totals]).await;
        });
    }
}

#[tokio::test]
async fn a_receiver_that_stands_still_holds_the_sender_and_gets_all_in_the_end() {
    let (jail, mut client, mut server) = tunnelled().await;
    let bytes = pattern(MUCH);
    let mut sent = 0;
    // Until nothing goes any more.
    while let Ok(count) = timeout(Duration::from_millis(500), server.write(&bytes[sent..])).await {
        sent += count.unwrap();
        assert!(sent < MUCH, "everything was taken in for a receiver that takes nothing");
    }
    let rest = bytes[sent..].to_vec();
    let send = tokio::spawn(async move {
        server.write_all(&rest).await.unwrap();
        // The end is passed on behind all of it.
        server.shutdown().await.unwrap();
        server
    });
    let mut got = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut got)).await.expect("the stream does not end").unwrap();
    assert!(got == bytes, "{} of {} bytes arrived", got.len(), bytes.len());
    // The other way is still open.
    let mut server = send.await.unwrap();
    client.write_all(b"thanks").await.unwrap();
    until(&mut server, "thanks").await;
    drop((client, server));
    eventually(|| jail.seen.closed() == [(6, MUCH as u64)]).await;
}

#[tokio::test]
async fn a_reset_of_either_side_ends_both() {
    for by_client in [true, false] {
        let (jail, client, server) = tunnelled().await;
        let (leaves, mut stays) = if by_client { (client, server) } else { (server, client) };
        // In the middle of a stream that the other side sends.
        while timeout(Duration::from_millis(200), stays.write(&[0; 8192])).await.is_ok() {}
        leaves.set_zero_linger().unwrap();
        drop(leaves);
        rest(&mut stays).await;
        eventually(|| jail.seen.closed().len() == 1).await;
    }
}
