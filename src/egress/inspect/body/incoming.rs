//! A body of HTTP/2 as it comes in. While its receiver stands still, what comes is gathered: the library counts each frame
//! that nobody takes against the whole connection, and ends it when there are many small ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use http::header::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::egress::limits::{H2_BLOCK, H2_COPIED, H2_OWN_HELD, MAX_TRAILERS};

use super::{copied, weight};

/// The least that a block holds.
const SMALL_BLOCK: usize = 1024;

/// See the module. What was not released counts against the sender's windows.
pub(crate) struct Incoming {
    from: RecvStream,
    gathered: Blocks,
    unreleased: usize,
    end: Option<Result<Option<HeaderMap>, Cut>>,
}

/// What comes next of a body.
pub(crate) enum Part {
    /// Some of it, and whether it is the last.
    Data(Bytes, bool),
    /// Its end, with trailers.
    End(Option<HeaderMap>),
}

/// Why a body does not come to its end.
pub(crate) enum Cut {
    /// It broke off.
    Sender(h2::Error),
    /// By us, and why.
    Ours(&'static str),
}

/// The bytes that a connection may hold in one direction.
pub(crate) struct Held {
    own: Arc<Semaphore>,
    /// What all connections may hold beyond their own.
    shared: Arc<Semaphore>,
}

impl Held {
    pub(crate) fn new(shared: &Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Self { own: Arc::new(Semaphore::new(H2_OWN_HELD)), shared: Arc::clone(shared) })
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let from = |semaphore: &Arc<Semaphore>| {
            Arc::clone(semaphore).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
        };
        from(&self.own).or_else(|| from(&self.shared))
    }
}

impl Incoming {
    pub(crate) fn new(from: RecvStream, held: &Arc<Held>) -> Self {
        Self { from, gathered: Blocks::new(held), unreleased: 0, end: None }
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_end(&self) -> bool {
        self.gathered.is_empty() && matches!(self.end, Some(Ok(None)))
            || self.end.is_none() && self.from.is_end_stream()
    }

    /// Why it is cut by us, though some of what came before waits.
    pub(crate) fn cut_by_us(&self) -> Option<&'static str> {
        match self.end {
            Some(Err(Cut::Ours(why))) => Some(why),
            _ => None,
        }
    }

    /// Takes what is there out of the library.
    pub(crate) fn gather(&mut self, context: &mut Context<'_>) {
        while self.end.is_none() {
            match self.poll(context) {
                Poll::Ready(Some(data)) => {
                    if !self.gathered.push(&data) {
                        self.gathered.clear();
                        self.end = Some(Err(Cut::Ours("too much of bodies waits to be read")));
                    }
                }
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
                let small = data.len() < H2_COPIED;
                return Poll::Ready(Some(if small { Bytes::copy_from_slice(&data) } else { data }));
            }
            Some(Err(error)) => self.end = Some(Err(Cut::Sender(error))),
            None => match self.from.poll_trailers(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => self.end = Some(Err(Cut::Sender(error))),
                Poll::Ready(Ok(trailers)) => {
                    let fits = trailers.as_ref().is_none_or(|trailers| weight(trailers) <= MAX_TRAILERS);
                    let trailers = trailers.as_ref().filter(|_| fits).map(copied);
                    self.end =
                        Some(if fits { Ok(trailers) } else { Err(Cut::Ours("its trailers are too large")) });
                }
            },
        }
        Poll::Ready(None)
    }

    /// The next part, as soon as it is there.
    pub(crate) fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Result<Part, Cut>> {
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

/// Bytes in blocks, each with its permit: a part of one that is still to be sent keeps no more than the block.
struct Blocks {
    blocks: VecDeque<(Vec<u8>, OwnedSemaphorePermit)>,
    held: Arc<Held>,
}

impl Blocks {
    fn new(held: &Arc<Held>) -> Self {
        Self { blocks: VecDeque::new(), held: Arc::clone(held) }
    }

    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Whether there was room for `data`.
    fn push(&mut self, mut data: &[u8]) -> bool {
        while !data.is_empty() {
            let room = self.blocks.back().map_or(0, |(block, _)| block.capacity() - block.len());
            if room == 0 {
                let before = self.blocks.iter().map(|(block, _)| block.len()).sum::<usize>();
                let size = (before + data.len()).clamp(SMALL_BLOCK, H2_BLOCK);
                let Some(permit) = self.held.take(size) else { return false };
                self.blocks.push_back((Vec::with_capacity(size), permit));
                continue;
            }
            let (now, rest) = data.split_at(room.min(data.len()));
            if let Some((block, _)) = self.blocks.back_mut() {
                block.extend_from_slice(now);
            }
            data = rest;
        }
        true
    }

    fn pop(&mut self) -> Option<Bytes> {
        self.blocks.pop_front().map(|(block, _)| Bytes::from(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_came_in_its_order_and_little_more() {
        for sizes in [&[1; 5000][..], &[16_384, 1, 16_384, 1], &[40_000], &[0, 3, 0], &[1023, 2]] {
            let held = Held::new(&Arc::new(Semaphore::new(0)));
            let (mut blocks, mut want) = (Blocks::new(&held), Vec::new());
            for (number, size) in sizes.iter().enumerate() {
                let data = vec![number as u8; *size];
                want.extend_from_slice(&data);
                assert!(blocks.push(&data));
            }
            let room: usize = blocks.blocks.iter().map(|(block, _)| block.capacity()).sum();
            assert!(blocks.blocks.iter().all(|(block, _)| block.capacity() <= H2_BLOCK), "{sizes:?}");
            assert!(room <= 2 * want.len() + SMALL_BLOCK, "{room} for {}", want.len());
            let mut got = Vec::new();
            while let Some(block) = blocks.pop() {
                assert!(!block.is_empty());
                got.extend_from_slice(&block);
            }
            assert!(blocks.is_empty() && got == want, "{sizes:?}");
        }
    }

    #[test]
    fn what_is_beyond_a_connections_own_is_shared_with_others() {
        const SHARED: usize = 4 * H2_BLOCK;
        let shared = Arc::new(Semaphore::new(SHARED));
        let [first, second] = [Held::new(&shared), Held::new(&shared)];
        let mut greedy = [Blocks::new(&first), Blocks::new(&first)];
        let pushed = (0..).take_while(|round| greedy[round % 2].push(&[0; H2_BLOCK])).count();
        assert!((H2_OWN_HELD + SHARED - pushed * H2_BLOCK) < 2 * H2_BLOCK, "{pushed}");
        let mut other = Blocks::new(&second);
        assert!(other.push(&[0; H2_OWN_HELD / 2]));
        drop(greedy);
        assert_eq!(shared.available_permits(), SHARED);
        assert_eq!(first.own.available_permits(), H2_OWN_HELD);
        other.clear();
        assert_eq!(second.own.available_permits(), H2_OWN_HELD);
    }
}
