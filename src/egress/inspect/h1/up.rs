//! The request's way.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::egress::chunk::{ChunkError, ChunkReader, Piece};
use crate::egress::head::Framing;
use crate::egress::limits::{HEAD_READ, SMALL_HEAD};
use crate::egress::rewrite::body_end;
use crate::egress::wire::consume;

use super::super::{Outside, Session};
use super::Progress;
use super::carry::{Read, Search, Shape, fill, more, pass, put, rest};

/// Why not all of a request was sent.
pub(super) enum UploadError {
    Client,
    Host,
    Chunks(ChunkError),
}

/// The way of a request.
pub(super) struct Up<'e, C> {
    pub(super) session: &'e Session,
    pub(super) read: &'e mut ReadHalf<C>,
    pub(super) ahead: &'e mut Vec<u8>,
    pub(super) write: &'e mut WriteHalf<Outside>,
    pub(super) search: Option<Search>,
    pub(super) progress: &'e Progress,
}

impl<C: AsyncRead + AsyncWrite> Up<'_, C> {
    /// Sends the request, and returns when the client will send no more.
    pub(super) async fn run(&mut self, head: Vec<u8>, framing: Framing) -> Result<(), UploadError> {
        self.write.write_all(&head).await.map_err(|_| UploadError::Host)?;
        drop(head);
        match framing {
            Framing::Unstated => {}
            Framing::Length(length) => self.length(length).await?,
            Framing::Chunked => self.chunks().await?,
        }
        self.write.flush().await.map_err(|_| UploadError::Host)?;
        if let Some(search) = self.search.take() {
            self.session.tell_noted(search.noted());
        }
        self.progress.uploaded.store(true, Ordering::Relaxed);
        loop {
            // What it sends ahead of the answer waits, a little of it here.
            if self.ahead.len() >= SMALL_HEAD {
                std::future::pending::<()>().await;
            }
            if !fill(self.read, self.ahead, HEAD_READ).await {
                return Ok(());
            }
        }
    }

    async fn length(&mut self, mut left: u64) -> Result<(), UploadError> {
        while left > 0 {
            if self.ahead.is_empty() {
                // What is there goes out before the wait for more.
                let more = more(self.read, self.ahead, self.write).await == Read::More;
                more.then_some(()).ok_or(UploadError::Client)?;
            }
            let count = self.ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= count as u64;
            self.data(count, left == 0, Shape::Plain).await?;
        }
        Ok(())
    }

    async fn chunks(&mut self) -> Result<(), UploadError> {
        let mut reader = ChunkReader::default();
        loop {
            let (used, piece) = reader.next(self.ahead).map_err(UploadError::Chunks)?;
            match piece {
                Piece::Data(count) => {
                    consume(self.ahead, used - count);
                    self.data(count, false, Shape::Chunked).await?;
                }
                Piece::More => {
                    consume(self.ahead, used);
                    let more = more(self.read, self.ahead, self.write).await == Read::More;
                    more.then_some(()).ok_or(UploadError::Client)?;
                }
                Piece::End => {
                    consume(self.ahead, used);
                    let rest = rest(&mut self.search);
                    put(self.write, &rest, Shape::Chunked).await.map_err(|_| UploadError::Host)?;
                    let mut outgoing = self.session.outgoing();
                    let end = body_end(reader.trailers(), |name, value| {
                        (Cow::Borrowed(name.as_bytes()), outgoing.header(name, value))
                    });
                    self.session.tell_noted(outgoing.noted());
                    return self.write.write_all(&end).await.map_err(|_| UploadError::Host);
                }
            }
        }
    }

    /// Sends the first `count` bytes of what is there.
    async fn data(&mut self, count: usize, last: bool, shape: Shape) -> Result<(), UploadError> {
        self.session.activity.sent_up(count);
        let sent = pass(self.write, self.ahead, count, &mut self.search, last, shape).await;
        sent.map_err(|_| UploadError::Host)
    }
}
