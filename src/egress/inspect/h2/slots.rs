//! The requests that a connection to the host takes at once, until it takes no more. They are counted until the library has
//! nothing left of them.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::sync::Notify;

use crate::egress::limits::MAX_H2_STREAMS;

use super::backlog::{Backlog, Room};

/// What the library is told that a host takes at once, until the host has said so: no host says this.
pub(super) const UNTOLD: usize = usize::MAX - 1;

/// See the module.
pub(super) struct Slots {
    count: Mutex<Count>,
    pub(super) backlog: Backlog,
    changed: Notify,
}

struct Count {
    open: usize,
    /// Of these, the ones that have ended, and of which something may still be to be sent.
    leaving: usize,
    /// As many as the host takes at once, as the library has it.
    most: usize,
    /// As many as it gets until it has said so.
    untold: usize,
    /// Whether it took any.
    used: bool,
    /// By which requests are sent, until the connection takes no more.
    sender: Option<SendRequest<Bytes>>,
}

impl Slots {
    pub(super) fn new(backlog: Backlog, sender: SendRequest<Bytes>) -> Self {
        let count = Count { open: 0, leaving: 0, most: 0, untold: 1, used: false, sender: Some(sender) };
        Self { count: Mutex::new(count), backlog, changed: Notify::new() }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection takes requests, now or when others have ended.
    pub(super) fn is_open(&self) -> bool {
        self.count().sender.is_some()
    }

    /// Whether it took any request.
    pub(super) fn was_used(&self) -> bool {
        self.count().used
    }

    /// Lets the library work by `poll`, which is told how many requests the host takes at once.
    pub(super) fn around<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> (T, usize),
    ) -> T {
        let leaving = self.count().leaving;
        let (polled, most) = self.backlog.around(|| poll(context));
        // What was to be sent was sent, also of those that were leaving before.
        let gone = if self.backlog.is_flushed() { leaving } else { 0 };
        let mut count = self.count();
        let mut changed = gone > 0 || count.most != most;
        count.leaving -= gone;
        count.open -= gone;
        count.most = most;
        // The host said farewell. It may go on answering for long.
        if let Some(sender) = &mut count.sender
            && matches!(sender.poll_ready(context), Poll::Ready(Err(_)))
        {
            count.sender = None;
            changed = true;
        }
        drop(count);
        if changed {
            self.changed.notify_waiters();
        }
        polled
    }

    /// The host does not say how many it takes: as many as it likes (RFC 9113, 6.5.2).
    pub(super) fn wait_no_longer(&self) {
        self.count().untold = usize::MAX;
        self.changed.notify_waiters();
    }

    /// The connection has ended.
    pub(super) fn end(&self) {
        self.count().sender = None;
        self.backlog.end();
        self.changed.notify_waiters();
    }

    /// A slot, as soon as the host has one; `None` when the connection takes no more.
    pub(super) async fn take(self: &Arc<Self>) -> Option<Slot> {
        self.until(|count| {
            if count.sender.is_none() {
                return Some(None);
            }
            let most = if count.most == UNTOLD { count.untold } else { count.most };
            if count.open >= most.min(MAX_H2_STREAMS as usize) {
                return None;
            }
            count.open += 1;
            Some(Some(Slot(Arc::clone(self))))
        })
        .await
    }

    /// Room for a request's head, unless the connection takes no more.
    pub(super) async fn room(&self, bytes: usize) -> Option<Room<'_>> {
        tokio::select! {
            room = self.backlog.room(bytes) => room,
            () = self.until(|count| count.sender.is_none().then_some(())) => None,
        }
    }

    /// Until the connection takes no more requests, and of none that it took anything is waited for.
    pub(super) async fn left(&self) {
        self.until(|count| (count.sender.is_none() && count.open == count.leaving).then_some(())).await;
    }

    async fn until<T>(&self, mut found: impl FnMut(&mut Count) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // What changes from here on is heard of.
            changed.as_mut().enable();
            if let Some(found) = found(&mut self.count()) {
                return found;
            }
            changed.await;
        }
    }
}

/// One of the requests that a host takes at once.
pub(super) struct Slot(Arc<Slots>);

impl Slot {
    /// By which the request is sent, unless the connection takes no more.
    pub(super) fn sender(&self) -> Option<SendRequest<Bytes>> {
        let mut count = self.0.count();
        count.used |= count.sender.is_some();
        count.sender.clone()
    }

    pub(super) fn backlog(&self) -> &Backlog {
        &self.0.backlog
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.0.count();
        if self.0.backlog.is_flushed() {
            count.open -= 1;
        } else {
            // Its head, its body or its reset waits for the host to read.
            count.leaving += 1;
        }

        drop(count);
        self.0.changed.notify_waiters();
    }
}
