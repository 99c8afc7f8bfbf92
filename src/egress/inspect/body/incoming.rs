//! A body of HTTP/2 as it comes in. While its receiver stands still, what comes is gathered: the library counts each frame
//! that nobody takes against the whole connection, and ends it when there are many small ones.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http::header::HeaderMap;

use crate::egress::limits::H2_BLOCK;

/// The least that a block holds.
const SMALL_BLOCK: usize = 1024;

/// See the module. What was not released counts against the sender's windows, so that they bound what is gathered.
pub(crate) struct Incoming {
    from: RecvStream,
    gathered: Blocks,
    unreleased: usize,
    end: Option<Result<Option<HeaderMap>, h2::Error>>,
}

/// What comes next of a body.
pub(crate) enum Part {
    /// Some of it, and whether it is the last.
    Data(Bytes, bool),
    /// Its end, with trailers.
    End(Option<HeaderMap>),
}

impl Incoming {
    pub(crate) fn new(from: RecvStream) -> Self {
        Self { from, gathered: Blocks::default(), unreleased: 0, end: None }
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_end(&self) -> bool {
        self.gathered.is_empty() && matches!(self.end, Some(Ok(None)))
            || self.end.is_none() && self.from.is_end_stream()
    }

    /// Takes what is there out of the library.
    pub(crate) fn gather(&mut self, context: &mut Context<'_>) {
        while self.end.is_none() {
            match self.poll(context) {
                Poll::Ready(Some(data)) => self.gathered.push(&data),
                Poll::Ready(None) => {}
                Poll::Pending => return,
            }
        }
    }

    /// The next frame; `None` when the end has come instead.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let data = match self.from.poll_data(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(data) => data,
        };
        match data {
            Some(Ok(data)) => {
                self.unreleased += data.len();
                if self.from.is_end_stream() {
                    self.end = Some(Ok(None));
                }
                return Poll::Ready(Some(data));
            }
            Some(Err(error)) => self.end = Some(Err(error)),
            None => match self.from.poll_trailers(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(end) => self.end = Some(end),
            },
        }
        Poll::Ready(None)
    }

    /// The next part, as soon as it is there.
    pub(crate) fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Result<Part, h2::Error>> {
        loop {
            if let Some(data) = self.gathered.pop() {
                let last = self.gathered.is_empty() && matches!(self.end, Some(Ok(None)));
                return Poll::Ready(Ok(Part::Data(data, last)));
            }
            match self.end.take() {
                Some(Ok(trailers)) => return Poll::Ready(Ok(Part::End(trailers))),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {}
            }
            match self.poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {}
                Poll::Ready(Some(data)) => {
                    let last = self.end.is_some();
                    return Poll::Ready(Ok(Part::Data(data, last)));
                }
            }
        }
    }

    /// Lets the sender send as many bytes more.
    pub(crate) fn release(&mut self, count: usize) {
        self.unreleased -= count;
        // An error says that the stream has ended, which the next read says.
        let _ = self.from.flow_control().release_capacity(count);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Its window is the connection's too.
        self.release(self.unreleased);
    }
}

/// Bytes in blocks: a part of one that is still to be sent keeps no more than the block.
#[derive(Default)]
struct Blocks(VecDeque<Vec<u8>>);

impl Blocks {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = self.0.back().map_or(0, |block| block.capacity() - block.len());
            if room == 0 {
                let before = self.0.iter().map(Vec::len).sum::<usize>();
                self.0.push_back(Vec::with_capacity((before + data.len()).clamp(SMALL_BLOCK, H2_BLOCK)));
                continue;
            }
            let (now, rest) = data.split_at(room.min(data.len()));
            if let Some(block) = self.0.back_mut() {
                block.extend_from_slice(now);
            }
            data = rest;
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        self.0.pop_front().map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_came_in_its_order_and_little_more() {
        for sizes in [&[1; 5000][..], &[16_384, 1, 16_384, 1], &[40_000], &[0, 3, 0], &[1023, 2]] {
            let (mut blocks, mut want) = (Blocks::default(), Vec::new());
            for (number, size) in sizes.iter().enumerate() {
                let data = vec![number as u8; *size];
                want.extend_from_slice(&data);
                blocks.push(&data);
            }
            let room: usize = blocks.0.iter().map(Vec::capacity).sum();
            assert!(blocks.0.iter().all(|block| block.capacity() <= H2_BLOCK), "{sizes:?}");
            assert!(room <= 2 * want.len() + SMALL_BLOCK, "{room} for {}", want.len());
            let mut got = Vec::new();
            while let Some(block) = blocks.pop() {
                assert!(!block.is_empty());
                got.extend_from_slice(&block);
            }
            assert!(blocks.is_empty() && got == want, "{sizes:?}");
        }
    }
}
