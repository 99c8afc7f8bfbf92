//! Bytes of bodies on their way, through a search or as they are.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::egress::chunk::{CHUNK_END, chunk_start};
use crate::egress::limits::{HEAD_READ, INSPECT_READ};
use crate::egress::wire::consume;
use crate::secrets::{Noted, Stream};

/// Carries bytes one way until their end, and says what was found in them.
pub(super) async fn relay<R: AsyncRead, W: AsyncWrite>(
    read: &mut ReadHalf<R>,
    ahead: &mut Vec<u8>,
    write: &mut WriteHalf<W>,
    mut search: Option<Search>,
    count: impl Fn(usize),
) -> Option<Noted> {
    loop {
        let length = ahead.len();
        count(length);
        if pass(write, ahead, length, &mut search, false, Shape::Plain).await.is_err() {
            break;
        }
        if more(read, ahead, write).await != Read::More {
            let rest = rest(&mut search);
            // Either way it ends here.
            let _ = put(write, &rest, Shape::Plain).await;
            let _ = write.shutdown().await;
            break;
        }
    }
    search.map(|search| search.noted().clone())
}

/// What a body is searched with, and the memory for what comes of it.
pub(super) struct Search {
    stream: Stream,
    out: Vec<u8>,
}

impl Search {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, out: Vec::new() }
    }

    /// What was found so far.
    pub(super) fn noted(&self) -> &Noted {
        self.stream.noted()
    }
}

/// How a body's bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    Chunked,
}

/// Passes the first `count` bytes of `ahead` on, through `search`; with the `last` of them what it held back.
pub(super) async fn pass<W: AsyncWrite>(
    write: &mut WriteHalf<W>,
    ahead: &mut Vec<u8>,
    count: usize,
    search: &mut Option<Search>,
    last: bool,
    shape: Shape,
) -> std::io::Result<()> {
    match search {
        None => put(write, &ahead[..count], shape).await?,
        Some(Search { stream, out }) => {
            out.clear();
            stream.push(&ahead[..count], out);
            if last {
                stream.finish(out);
            }
            put(write, out, shape).await?;
        }
    }
    if count == ahead.len() {
        // Its memory is used for what is read next.
        ahead.clear();
    } else {
        consume(ahead, count);
    }
    // A fast pair must not keep the thread from all others.
    tokio::task::coop::consume_budget().await;
    Ok(())
}

pub(super) async fn put<W: AsyncWrite>(
    write: &mut WriteHalf<W>,
    bytes: &[u8],
    shape: Shape,
) -> std::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    match shape {
        Shape::Plain => write.write_all(bytes).await,
        Shape::Chunked => {
            write.write_all(&chunk_start(bytes.len())).await?;
            write.write_all(bytes).await?;
            write.write_all(CHUNK_END).await
        }
    }
}

/// What `search` held back, at the end.
pub(super) fn rest(search: &mut Option<Search>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(search) = search {
        search.stream.finish(&mut out);
    }
    out
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// More.
    More,
    /// The sender has said that this is the end.
    End,
    /// The connection broke, or ended without a word.
    Broken,
}

/// Reads more of a body. What was written goes out before the wait.
pub(super) async fn more<R: AsyncRead, W: AsyncWrite>(
    read: &mut ReadHalf<R>,
    ahead: &mut Vec<u8>,
    write: &mut WriteHalf<W>,
) -> Read {
    ahead.reserve(INSPECT_READ.saturating_sub(ahead.len()));
    // All that is there at once, up to the bound: a record of TLS has 16 KiB, and each write is a system call.
    let before = ahead.len();
    while ahead.len() < INSPECT_READ {
        tokio::select! {
            biased;
            got = read_some(read, ahead) => match got {
                Read::More => {}
                // It says so again, when what came before it is on its way.
                Read::End | Read::Broken if ahead.len() > before => return Read::More,
                end => return end,
            },
            () = std::future::ready(()) => break,
        }
    }
    if ahead.len() > before {
        return Read::More;
    }
    // A receiver that is gone shows in the next write.
    let _ = write.flush().await;
    read_some(read, ahead).await
}

/// Reads a little more of a head; false at the end.
pub(super) async fn fill<R: AsyncRead>(read: &mut ReadHalf<R>, ahead: &mut Vec<u8>, size: usize) -> bool {
    // Nothing is held while there is nothing to read.
    let mut buffer = [0; HEAD_READ];
    let size = size.min(HEAD_READ);
    match read.read(&mut buffer[..size]).await {
        Ok(count @ 1..) => {
            ahead.extend_from_slice(&buffer[..count]);
            true
        }
        _ => false,
    }
}

async fn read_some<R: AsyncRead>(read: &mut ReadHalf<R>, ahead: &mut Vec<u8>) -> Read {
    match read.read_buf(ahead).await {
        Ok(1..) => Read::More,
        Ok(0) => Read::End,
        Err(_) => Read::Broken,
    }
}
