//! CONNECT to the proxy outside.

use std::io;

use tokio::net::TcpStream;

use crate::egress::proxy_answer::{END, status, up_to_end};
use crate::egress::wire::write_all;
use crate::policy::authority::Authority;
use crate::policy::upstream::Proxy;

/// Bytes of the proxy's answer, which we have no use for but its status.
const MAX_ANSWER: usize = 16 * 1024;

/// Asks for a tunnel to `target`, and takes the answer and not a byte behind it: the host may speak first. The wait is
/// bounded by the caller.
pub(super) async fn ask(stream: &TcpStream, proxy: &Proxy, target: &Authority) -> io::Result<()> {
    write_all(stream, &request(proxy, target)).await?;
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.ends_with(END) {
        if head.len() >= MAX_ANSWER {
            return Err(io::Error::other("its answer is too long"));
        }
        let there = peek(stream, &mut buffer).await?;
        if there == 0 {
            return Err(io::Error::other("it closed the connection"));
        }
        let wanted = up_to_end(&head, &buffer[..there]);
        take(stream, &mut head, wanted).await?;
    }
    match status(&head) {
        Some(200..300) => Ok(()),
        Some(407) => Err(io::Error::other("it asks for a login (407)")),
        Some(status) => Err(io::Error::other(format!("it answered {status}"))),
        None => Err(io::Error::other("its answer is not HTTP")),
    }
}

fn request(proxy: &Proxy, target: &Authority) -> Vec<u8> {
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(login) = &proxy.login {
        head.push_str(&format!("Proxy-Authorization: {}\r\n", login.header()));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

async fn peek(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    stream.peek(buffer).await
}

/// Reads `count` bytes that are there.
async fn take(stream: &TcpStream, head: &mut Vec<u8>, count: usize) -> io::Result<()> {
    let mut left = count;
    while left > 0 {
        let before = head.len();
        crate::egress::wire::read_into(stream, head, left).await?;
        match head.len() - before {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left -= read,
        }
    }
    Ok(())
}
