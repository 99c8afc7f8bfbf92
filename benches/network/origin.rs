//! The server.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{BLOCK, order};

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Serves on a port of the loopback that it prints.
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        // The client may go away at any time.
        tokio::spawn(async move { answer(stream).await.is_ok() });
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match stream.read_u8().await? {
        order::SEND => loop {
            stream.write_all(&ZEROS).await?;
            tokio::task::coop::consume_budget().await;
        },
        order::TAKE => {
            let mut buffer = vec![0; BLOCK];
            let mut taken = 0;
            loop {
                match stream.read(&mut buffer).await? {
                    0 => break stream.write_u64(taken).await,
                    count => taken += count as u64,
                }
            }
        }
        order::ANSWER => stream.write_u8(order::ANSWER).await,
        _ => {
            stream.write_u8(order::STAY).await?;
            stream.read_u8().await.map(drop)
        }
    }
}
