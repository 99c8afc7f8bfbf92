//! CONNECT to the proxy outside.

use std::io;

use tokio::net::TcpStream;

use crate::egress::wire::write_all;
use crate::policy::authority::Authority;
use crate::policy::upstream::Proxy;

/// Bytes of the proxy's answer, which we have no use for but its status.
const MAX_ANSWER: usize = 16 * 1024;

const END: &[u8] = b"\r\n\r\n";

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

/// How many of `next` belong to a head that so far is `head`.
fn up_to_end(head: &[u8], next: &[u8]) -> usize {
    let kept = head.len().min(END.len() - 1);
    let joined = [&head[head.len() - kept..], next].concat();
    let end = joined.windows(END.len()).position(|window| window == END);
    end.map_or(next.len(), |at| (at + END.len()).saturating_sub(kept).min(next.len()))
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let rest = line.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3).filter(|_| rest.len() == 3 || rest[3] == b' ')?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_ends_where_it_ends_however_it_is_cut() {
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nSSH-2.0-x";
        let end = answer.len() - b"SSH-2.0-x".len();
        for first in 0..end {
            assert_eq!(up_to_end(&[], &answer[..first]), first);
            assert_eq!(up_to_end(&answer[..first], &answer[first..]), end - first, "{first}");
        }
    }

    #[test]
    fn only_a_status_line_is_one() {
        for (head, want) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Some(200)),
            ("HTTP/1.0 407\r\n\r\n", Some(407)),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/2 200\r\n\r\n", None),
            ("SSH-2.0\r\n\r\n", None),
            ("HTTP/1.1 099 x\r\n\r\n", None),
            ("HTTP/1.", None),
        ] {
            assert_eq!(status(head.as_bytes()), want, "{head}");
        }
    }
}
