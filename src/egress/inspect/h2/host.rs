//! The host that a client's connection of HTTP/2 is served by: one connection at a time, made anew when the host closed it.
//! What a request waits for, it waits for here and not within the library, which would keep its head until the host takes it,
//! also when the client has long gone.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::egress::limits::{
    H2_BUFFER, H2_CONNECTION_WINDOW, H2_FRAMES, H2_STREAM_WINDOW, MAX_H2_STREAMS, MAX_HEAD,
};
use crate::tls::roots::Offer;

use super::super::{Outside, Session, Unreachable};
use super::Tasks;
use super::paced::Paced;

/// Connections that one request is tried on: the host may close each just when the request is to be sent.
const TRIES: usize = 3;

/// See the module.
pub(super) struct Host {
    session: Arc<Session>,
    tasks: Tasks,
    /// Attempts to make the connection anew that came to an end.
    attempts: AtomicU64,
    held: tokio::sync::Mutex<Held>,
}

struct Held {
    /// The last connection, or why there never was one.
    connection: Result<Connection, Unreachable>,
    /// Why the last attempt to make it anew failed.
    failure: Option<String>,
}

/// A request that was sent.
pub(super) struct Sent {
    pub(super) response: ResponseFuture,
    pub(super) up: SendStream<Bytes>,
    /// Until the request has its answer, or none.
    pub(super) slot: Slot,
}

/// Why a request was not sent.
pub(super) enum Unsent {
    /// The host cannot be spoken to, in one line for the client.
    Unreachable(String),
    /// It makes no request.
    Failed(h2::Error),
}

impl Host {
    /// The host at the end of `outside`, or none.
    pub(super) async fn new(
        session: &Arc<Session>,
        tasks: &Tasks,
        outside: Result<Outside, Unreachable>,
    ) -> Self {
        let (session, tasks) = (Arc::clone(session), tasks.clone());
        let connection = match outside {
            Ok(outside) => Connection::begin(&session, &tasks, outside).await,
            Err(error) => Err(error),
        };
        let held = Held { connection, failure: None };
        Self { session, tasks, attempts: AtomicU64::new(0), held: tokio::sync::Mutex::new(held) }
    }

    /// Sends `request` as soon as the host takes it. Nothing of it is left when this ends before.
    pub(super) async fn send(&self, request: Request<()>, ends: bool) -> Result<Sent, Unsent> {
        for _ in 0..TRIES {
            let connection = self.connection().await.map_err(Unsent::Unreachable)?;
            let Some(slot) = connection.slots.take().await else { continue };
            let Ok(mut sender) = connection.sender.ready().await else { continue };
            let (response, up) = sender.send_request(request, ends).map_err(Unsent::Failed)?;
            return Ok(Sent { response, up, slot });
        }
        let line = self.session.unreachable("it closes each connection before it takes a request");
        Err(Unsent::Unreachable(line.to_string()))
    }

    /// The connection to the host, made anew when the host closed it.
    async fn connection(&self) -> Result<Connection, String> {
        let before = self.attempts.load(Ordering::Relaxed);
        let mut held = self.held.lock().await;
        let last = match &held.connection {
            Ok(last) => last.clone(),
            // It was asked for once for this connection: the client asks anew by connecting.
            Err(error) => return Err(error.to_string()),
        };
        if last.sender.clone().ready().await.is_ok() {
            return Ok(last);
        }
        // Those who waited for an attempt have its outcome: one after the other would each wait for an attempt of its own.
        if let Some(failure) = &held.failure
            && self.attempts.load(Ordering::Relaxed) != before
        {
            return Err(failure.clone());
        }
        let fresh = match self.session.connect(Offer::Http2).await {
            Ok(outside) => Connection::begin(&self.session, &self.tasks, outside).await,
            Err(error) => Err(error),
        };
        self.attempts.fetch_add(1, Ordering::Relaxed);
        match fresh {
            Ok(fresh) => {
                *held = Held { connection: Ok(fresh.clone()), failure: None };
                Ok(fresh)
            }
            // What failed now is tried again with the next request.
            Err(error) => {
                let failure = error.to_string();
                held.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }
}

#[derive(Clone)]
struct Connection {
    sender: SendRequest<Bytes>,
    slots: Arc<Slots>,
}

impl Connection {
    async fn begin(session: &Arc<Session>, tasks: &Tasks, outside: Outside) -> Result<Self, Unreachable> {
        let slots = Arc::new(Slots::default());
        let outside = Paced::new(outside, Arc::clone(&slots.flushed));
        let handshake = Builder::new()
            .enable_push(false)
            .max_header_list_size(MAX_HEAD as u32)
            .initial_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW)
            .max_send_buffer_size(H2_BUFFER)
            .data_frame_budget(H2_FRAMES)
            .handshake::<_, Bytes>(outside);
        let (sender, mut connection) = match timeout(session.gate.deadlines.connect, handshake).await {
            Ok(Ok(begun)) => begun,
            Ok(Err(error)) => {
                return Err(session.unreachable(&format!("it does not speak HTTP/2 ({error})")));
            }
            Err(_) => return Err(session.unreachable("it does not speak HTTP/2 (it took too long)")),
        };
        let told = Arc::clone(&slots);
        tasks.spawn(async move {
            poll_fn(|context| {
                let leaving = told.before_writing();
                let polled = Pin::new(&mut connection).poll(context);
                told.after_writing(leaving, connection.max_concurrent_send_streams());
                polled.map(drop)
            })
            .await;
            // The rest of its end shows in the sender.
            told.end();
        });
        Ok(Self { sender, slots })
    }
}

/// The requests that a connection to the host takes at once. They are counted until the library has nothing left of them.
#[derive(Default)]
struct Slots {
    count: Mutex<Count>,
    /// The host took all that was to be sent.
    flushed: Arc<AtomicBool>,
    changed: Notify,
}

#[derive(Default)]
struct Count {
    open: usize,
    /// Of these, the ones that have ended, and of which something may still be to be sent.
    leaving: usize,
    /// As many as the host takes at once, as far as is known.
    most: usize,
    ended: bool,
}

impl Slots {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn before_writing(&self) -> usize {
        self.flushed.store(false, Ordering::Relaxed);
        self.count().leaving
    }

    /// What was to be sent was sent, as far as the host takes it, also of those that were `leaving` before.
    fn after_writing(&self, leaving: usize, most: usize) {
        let most = most.min(MAX_H2_STREAMS as usize);
        let gone = if self.flushed.load(Ordering::Relaxed) { leaving } else { 0 };
        {
            let mut count = self.count();
            if gone == 0 && count.most == most {
                return;
            }
            count.leaving -= gone;
            count.open -= gone;
            count.most = most;
        }
        self.changed.notify_waiters();
    }

    fn end(&self) {
        self.count().ended = true;
        self.changed.notify_waiters();
    }

    /// A slot, as soon as the host has one; `None` when the connection has ended.
    async fn take(self: &Arc<Self>) -> Option<Slot> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // What changes from here on is heard of.
            changed.as_mut().enable();
            {
                let mut count = self.count();
                if count.ended {
                    return None;
                }
                if count.open < count.most {
                    count.open += 1;
                    return Some(Slot(Arc::clone(self)));
                }
            }
            changed.await;
        }
    }
}

/// One of the requests that a host takes at once.
pub(super) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.0.count();
        if !self.0.flushed.load(Ordering::Relaxed) {
            // Its head, its body or its reset waits for the host to read.
            count.leaving += 1;
            return;
        }
        count.open -= 1;
        drop(count);
        self.0.changed.notify_one();
    }
}
