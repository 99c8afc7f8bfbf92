//! A connection below TLS: what was read ahead comes first, and more is read at once than TLS asks for.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::egress::limits::READ_SIZE;
use crate::egress::resolve::Upstream;

/// Buffers that are kept for the next connection with something to read. One would do where bodies move one way; the pages of
/// a new one cost more than the copy into it.
const SPARE: usize = 4;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn take_buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; READ_SIZE])
}

fn give_back(buffer: Vec<u8>) {
    BUFFERS.with_borrow_mut(|spare| {
        if buffer.len() == READ_SIZE && spare.len() < SPARE {
            spare.push(buffer);
        }
    });
}

/// Reads wide. While there is nothing to read, it holds no memory.
pub(super) struct Wide {
    buffer: Vec<u8>,
    given: usize,
    filled: usize,
    stream: TcpStream,
    /// For the descriptor of a connection to a host outside.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Wide {
    /// A client's connection, of which `ahead` was read.
    pub(super) fn client(ahead: Vec<u8>, stream: TcpStream) -> Self {
        Self { given: 0, filled: ahead.len(), buffer: ahead, stream, _permit: None }
    }

    /// The connection to a host outside.
    pub(super) fn outside(upstream: Upstream) -> Self {
        let (stream, permit) = upstream.into_parts();
        Self { _permit: Some(permit), ..Self::client(Vec::new(), stream) }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.len() < READ_SIZE {
            self.buffer = take_buffer();
        }
        let mut buffer = ReadBuf::new(&mut self.buffer);
        let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
        (self.given, self.filled) = (0, buffer.filled().len());
        if read.is_pending() {
            give_back(std::mem::take(&mut self.buffer));
        }
        read
    }
}

impl AsyncRead for Wide {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.given == this.filled {
            match this.poll_fill(context) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        let count = buffer.remaining().min(this.filled - this.given);
        buffer.put_slice(&this.buffer[this.given..this.given + count]);
        this.given += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wide {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
