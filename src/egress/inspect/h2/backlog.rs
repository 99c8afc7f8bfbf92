//! What the library was given for a connection, until the other side has taken it. The library bounds it for each stream by
//! itself; here it is bounded for all of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::egress::limits::{H2_BACKLOG, H2_FRAME};

use super::paced::Paced;

/// See the module.
pub(in crate::egress::inspect) struct Backlog {
    room: Arc<Semaphore>,
    /// What heads and trailers take that were given; of what a frame of a body takes, the frame itself keeps account.
    given: AtomicUsize,
    /// The other side took all that was to be sent.
    flushed: Arc<AtomicBool>,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(H2_BACKLOG)),
            given: AtomicUsize::new(0),
            flushed: Arc::new(AtomicBool::new(false)),
        }
    }

    /// The connection below the library, of which this hears whether it takes what is written.
    pub(super) fn below<S>(&self, inner: S) -> Paced<S> {
        Paced::new(inner, Arc::clone(&self.flushed))
    }

    /// Whether nothing is left to be sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.load(Ordering::Relaxed)
    }

    /// Lets the library work by `poll`. What was given before was sent, when it could send everything.
    pub(super) fn around<T>(&self, poll: impl FnOnce() -> T) -> T {
        let before = self.given.load(Ordering::Relaxed);
        self.flushed.store(false, Ordering::Relaxed);
        let polled = poll();
        if before > 0 && self.is_flushed() {
            self.given.fetch_sub(before, Ordering::Relaxed);
            self.room.add_permits(before);
        }
        polled
    }

    /// The connection has ended: nobody waits for room.
    pub(super) fn end(&self) {
        self.room.close();
    }

    /// Room for a frame of `bytes`, as soon as there is; `None` when the connection has ended.
    pub(super) async fn room(&self, bytes: usize) -> Option<Room<'_>> {
        let weight = (bytes + H2_FRAME).min(H2_BACKLOG);
        let permit = Arc::clone(&self.room).acquire_many_owned(weight as u32).await.ok()?;
        Some(Room { backlog: self, permit })
    }

    /// The same, unless nobody wants it any more, which `gone` says each time that something changed.
    pub(in crate::egress::inspect) async fn room_unless(
        &self,
        bytes: usize,
        mut gone: impl FnMut(&mut Context<'_>) -> bool,
    ) -> Option<Room<'_>> {
        let mut room = pin!(self.room(bytes));
        poll_fn(|context| match gone(context) {
            true => Poll::Ready(None),
            false => room.as_mut().poll(context),
        })
        .await
    }
}

/// Room for a frame.
#[must_use]
pub(in crate::egress::inspect) struct Room<'b> {
    backlog: &'b Backlog,
    permit: OwnedSemaphorePermit,
}

impl Room<'_> {
    /// The library was given a head or trailers.
    pub(in crate::egress::inspect) fn take(self) {
        self.backlog.given.fetch_add(self.permit.num_permits(), Ordering::Relaxed);
        self.permit.forget();
    }

    /// `data` for a frame of a body, which takes room until nothing is left of it: the receiver's window may shrink while it
    /// waits, and then it stays when all else is sent.
    pub(in crate::egress::inspect) fn keep(self, data: Bytes, unsent: &Arc<Frames>) -> Bytes {
        unsent.frames.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Kept { data, _permit: self.permit, unsent: Arc::clone(unsent) })
    }
}

/// The frames of one body that the library was given and has not sent.
#[derive(Default)]
pub(in crate::egress::inspect) struct Frames {
    frames: AtomicUsize,
    sent: Notify,
}

impl Frames {
    /// Until there are none, for the one who gives them.
    pub(in crate::egress::inspect) async fn none(&self) {
        while self.frames.load(Ordering::Relaxed) > 0 {
            self.sent.notified().await;
        }
    }
}

struct Kept {
    data: Bytes,
    _permit: OwnedSemaphorePermit,
    unsent: Arc<Frames>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.unsent.frames.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.unsent.sent.notify_one();
        }
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, timeout};

    use super::*;

    #[tokio::test]
    async fn what_was_given_counts_until_it_was_sent() {
        let backlog = Backlog::new();
        let flushed = |to: bool| backlog.around(|| backlog.flushed.store(to, Ordering::Relaxed));
        let waits = async || timeout(Duration::from_millis(10), backlog.room(0)).await.is_err();
        while !waits().await {
            backlog.room(0).await.unwrap().take();
        }
        flushed(false);
        assert!(waits().await);
        // Room that was not taken is given back at once.
        flushed(true);
        assert_eq!(backlog.room.available_permits(), H2_BACKLOG);
        drop(backlog.room(1000).await);
        let unsent = Arc::default();
        let frame = backlog.room(3).await.unwrap().keep(Bytes::from("abc"), &unsent);
        flushed(true);
        let (kept, part) = (backlog.room.available_permits(), frame.slice(2..));
        drop(frame);
        assert_eq!((kept, backlog.room.available_permits(), &part[..]), (kept, kept, &b"c"[..]));
        assert!(kept < H2_BACKLOG);
        assert!(timeout(Duration::from_millis(10), unsent.none()).await.is_err());
        drop(part);
        unsent.none().await;
        assert_eq!(backlog.room.available_permits(), H2_BACKLOG);
        // More than there is at all is what there is.
        let all = backlog.room(2 * H2_BACKLOG).await.unwrap();
        assert!(backlog.room_unless(0, |_| true).await.is_none());
        backlog.end();
        assert!(backlog.room(0).await.is_none());
        all.take();
    }
}
