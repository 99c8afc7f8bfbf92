//! The answer's way.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::egress::chunk::{ChunkReader, Piece};
use crate::egress::exchange::{Failure, MAX_INTERIM};
use crate::egress::head::{HeadError, Response, Version, head_length};
use crate::egress::limits::{HEAD_READ, MAX_HEAD, SMALL_HEAD};
use crate::egress::rewrite::{After, Body, body_end, response_body, response_head};
use crate::egress::wire::consume;

use super::super::{COMPRESSED, Outside, Session, head};
use super::carry::{Read, Search, Shape, fill, more, pass, put, rest};
use super::{Asked, Downloaded, Progress, Reuse};

/// The way of an answer.
pub(super) struct Down<'e, C> {
    pub(super) session: &'e Session,
    pub(super) read: &'e mut ReadHalf<Outside>,
    pub(super) ahead: &'e mut Vec<u8>,
    pub(super) write: &'e mut WriteHalf<C>,
    pub(super) asked: &'e Asked,
    pub(super) progress: &'e Progress,
}

impl<C: AsyncRead + AsyncWrite> Down<'_, C> {
    pub(super) async fn run(&mut self) -> Result<Downloaded, Failure> {
        for _ in 0..MAX_INTERIM {
            let (length, large) = self.read_head().await?;
            let bytes: Vec<u8> = self.ahead[..length].to_vec();
            consume(self.ahead, length);
            let response = Response::parse(&bytes).map_err(not_http)?;
            match response.status {
                101 if self.asked.websocket => {
                    self.answer(&response_head(&response, Body::None(None), After::Close)).await?;
                    self.flush().await?;
                    return Ok(Downloaded::Upgraded);
                }
                101 => {
                    return Err(Failure::Origin(
                        "it changed to a protocol that was not asked for".to_owned(),
                    ));
                }
                100..200 => {
                    if self.asked.version == Version::Http11 {
                        self.head(&response_head(&response, Body::None(None), After::Close)).await?;
                        self.flush().await?;
                    }
                }
                _ => {
                    let framing = response.framing().map_err(not_http)?;
                    let found = response_body(&response, framing, &self.asked.method);
                    // HTTP/1.0 has no chunks.
                    let shown = match (found, self.asked.version) {
                        (Body::Chunked, Version::Http10) => Body::UntilClose,
                        _ => found,
                    };
                    let search = self.search(&response, found)?;
                    let uploaded = self.progress.uploaded.load(Ordering::Relaxed);
                    let after = match shown {
                        Body::UntilClose => After::Close,
                        _ if uploaded => self.asked.after,
                        _ => After::Close,
                    };
                    let kept =
                        response.version == Version::Http11 && !response.fields.lists("connection", "close");
                    let reuse = match uploaded && kept && found != Body::UntilClose {
                        true => Reuse::Yes,
                        false => Reuse::No,
                    };
                    self.answer(&response_head(&response, shown, after)).await?;
                    drop(large);
                    self.body(found, shown, search).await?;
                    self.flush().await?;
                    return Ok(Downloaded::Response(after, reuse));
                }
            }
        }
        Err(Failure::Origin("it sent nothing but interim responses".to_owned()))
    }

    /// What the body is searched with. A body that cannot be searched is not passed on.
    fn search(&self, response: &Response<'_>, body: Body) -> Result<Option<Search>, Failure> {
        if !self.session.bound || matches!(body, Body::None(_)) {
            return Ok(None);
        }
        let encoded = |(name, value): (&str, &[u8])| {
            name.eq_ignore_ascii_case("content-encoding") && !head::codes_nothing(value)
        };
        if response.fields.iter().any(encoded) {
            return Err(Failure::Origin(COMPRESSED.to_owned()));
        }
        Ok(self.session.inspector.vault.scrub().map(Search::new))
    }

    async fn body(&mut self, found: Body, shown: Body, mut search: Option<Search>) -> Result<(), Failure> {
        let shape = if shown == Body::Chunked { Shape::Chunked } else { Shape::Plain };
        let mut is_whole = true;
        match found {
            Body::None(_) => {}
            Body::Length(length) => self.length(length, &mut search).await?,
            Body::Chunked => self.chunks(&mut search, shape).await?,
            Body::UntilClose => {
                let end = loop {
                    let count = self.ahead.len();
                    self.data(count, &mut search, false, shape).await?;
                    match more(self.read, self.ahead, self.write).await {
                        Read::More => {}
                        end => break end,
                    }
                };
                put(self.write, &rest(&mut search), shape).await.map_err(|_| Failure::Cut)?;
                is_whole = end == Read::End;
            }
        }
        if let Some(search) = &search {
            self.session.tell_scrubbed(search.noted());
        }
        if is_whole {
            return Ok(());
        }
        // Some servers just close. What the client makes of that is its own affair, as it is without us.
        self.flush().await?;
        Err(Failure::Cut)
    }

    async fn length(&mut self, mut left: u64, search: &mut Option<Search>) -> Result<(), Failure> {
        while left > 0 {
            if self.ahead.is_empty() && more(self.read, self.ahead, self.write).await != Read::More {
                return Err(Failure::Cut);
            }
            let count = self.ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= count as u64;
            self.data(count, search, left == 0, Shape::Plain).await?;
        }
        Ok(())
    }

    async fn chunks(&mut self, search: &mut Option<Search>, shape: Shape) -> Result<(), Failure> {
        let mut reader = ChunkReader::default();
        loop {
            let (used, piece) = reader.next(self.ahead).map_err(|_| Failure::Cut)?;
            match piece {
                Piece::Data(count) => {
                    consume(self.ahead, used - count);
                    self.data(count, search, false, shape).await?;
                }
                Piece::More => {
                    consume(self.ahead, used);
                    if more(self.read, self.ahead, self.write).await != Read::More {
                        return Err(Failure::Cut);
                    }
                }
                Piece::End => {
                    consume(self.ahead, used);
                    put(self.write, &rest(search), shape).await.map_err(|_| Failure::Cut)?;
                    if shape == Shape::Chunked {
                        let vault = self.session.bound.then_some(&self.session.inspector.vault);
                        let end = body_end(reader.trailers(), |name, value| match vault {
                            Some(vault) => (vault.scrub_value(name.as_bytes()), vault.scrub_value(value)),
                            None => (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value)),
                        });
                        self.write.write_all(&end).await.map_err(|_| Failure::Cut)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn data(
        &mut self,
        count: usize,
        search: &mut Option<Search>,
        last: bool,
        shape: Shape,
    ) -> Result<(), Failure> {
        self.session.activity.sent_down(count);
        pass(self.write, self.ahead, count, search, last, shape).await.map_err(|_| Failure::Cut)
    }

    async fn read_head(&mut self) -> Result<(usize, Option<OwnedSemaphorePermit>), Failure> {
        if let Some(length) = self.read_head_within(SMALL_HEAD).await? {
            return Ok((length, None));
        }
        let gate = &self.session.gate;
        let large = async {
            let permit = Arc::clone(&gate.large_heads).acquire_owned().await.map_err(|_| Failure::Cut)?;
            let length =
                self.read_head_within(MAX_HEAD).await?.ok_or_else(|| not_http(HeadError::TooLarge))?;
            Ok((length, Some(permit)))
        };
        timeout(gate.deadlines.head, large).await.unwrap_or_else(|_| {
            Err(Failure::Origin("the head of its answer is large and took too long".to_owned()))
        })
    }

    async fn read_head_within(&mut self, most: usize) -> Result<Option<usize>, Failure> {
        let mut seen = 0;
        loop {
            if let Some(length) = head_length(self.ahead, seen).map_err(not_http)? {
                return Ok(Some(length));
            }
            seen = self.ahead.len();
            if seen >= most {
                return Ok(None);
            }
            if !fill(self.read, self.ahead, HEAD_READ).await {
                let why = "it closed the connection without an answer".to_owned();
                return Err(if self.ahead.is_empty() { Failure::Closed(why) } else { Failure::Origin(why) });
            }
        }
    }

    async fn answer(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.progress.answered.store(true, Ordering::Relaxed);
        self.session.activity.touch();
        self.head(bytes).await
    }

    async fn head(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let clean;
        let bytes = if self.session.bound {
            clean = head::answer(bytes, &self.session.inspector.vault);
            &clean
        } else {
            bytes
        };
        self.write.write_all(bytes).await.map_err(|_| Failure::Cut)
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.write.flush().await.map_err(|_| Failure::Cut)
    }
}

fn not_http(error: HeadError) -> Failure {
    Failure::Origin(format!("its answer is refused: {error}"))
}
