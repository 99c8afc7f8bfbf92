//! The host that a client's connection of HTTP/2 is served by: one connection at a time, made anew when the host takes no
//! more requests on it.
//! What a request waits for, it waits for here and not within the library, which would keep its head until the host takes it,
//! also when the client has long gone.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture};
use http::Request;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::egress::limits::{
    H2_BUFFER, H2_CONNECTION_WINDOW, H2_FRAMES, H2_STREAM_WINDOW, MAX_H2_HOSTS, MAX_HEAD,
};
use crate::tls::roots::Offer;

use super::super::{Outside, Session, Unreachable};
use super::Tasks;
use super::backlog::Backlog;
use super::slots::{Slot, Slots, UNTOLD};
use super::words;

/// Connections that one request is tried on of which the host takes nothing at all.
const TRIES: usize = 3;

/// See the module.
pub(super) struct Host {
    session: Arc<Session>,
    tasks: Tasks,
    /// A permit per connection, also of those that take no more requests and have not ended yet.
    room: Arc<Semaphore>,
    crowded: Notify,
    /// Attempts to make the connection anew that came to an end.
    attempts: AtomicU64,
    held: tokio::sync::Mutex<Held>,
}

struct Held {
    /// The last connection, or why there never was one.
    connection: Result<Arc<Slots>, Unreachable>,
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
        let room = Arc::new(Semaphore::new(MAX_H2_HOSTS));
        let connection = match outside {
            Ok(outside) => begin(session, tasks, outside, Arc::clone(&room).try_acquire_owned().ok()).await,
            Err(error) => Err(error),
        };
        Self {
            session: Arc::clone(session),
            tasks: tasks.clone(),
            room,
            crowded: Notify::new(),
            attempts: AtomicU64::new(0),
            held: tokio::sync::Mutex::new(Held { connection, failure: None }),
        }
    }

    /// Sends `request`, whose head takes `weight` bytes, as soon as the host takes it. Nothing of it is left when this ends
    /// before.
    pub(super) async fn send(&self, request: Request<()>, ends: bool, weight: usize) -> Result<Sent, Unsent> {
        let mut tries = 0;
        while tries < TRIES {
            let connection = self.connection().await.map_err(Unsent::Unreachable)?;
            if let Some(slot) = connection.take().await
                && let Some(room) = connection.room(weight).await
                && let Some(mut sender) = slot.sender()
            {
                let (response, up) = sender.send_request(request, ends).map_err(Unsent::Failed)?;
                room.take();
                return Ok(Sent { response, up, slot });
            }
            tries += usize::from(!connection.was_used());
        }
        let line = self.session.unreachable("it closes each connection before it takes a request");
        Err(Unsent::Unreachable(line.to_string()))
    }

    /// Until there are as many connections as there may be, and none takes requests: a client that connects anew has others.
    pub(super) async fn crowded(&self) {
        self.crowded.notified().await;
    }

    /// The connection to the host, made anew when the last one takes no more requests.
    async fn connection(&self) -> Result<Arc<Slots>, String> {
        let before = self.attempts.load(Ordering::Relaxed);
        let mut held = self.held.lock().await;
        match &held.connection {
            Ok(last) if last.is_open() => return Ok(Arc::clone(last)),
            Ok(_) => {}
            // It was asked for once for this connection: the client asks anew by connecting.
            Err(error) => return Err(error.to_string()),
        }
        // Those who waited for an attempt have its outcome: one after the other would each wait for an attempt of its own.
        if let Some(failure) = &held.failure
            && self.attempts.load(Ordering::Relaxed) != before
        {
            return Err(failure.clone());
        }
        let fresh = self.renew().await;
        self.attempts.fetch_add(1, Ordering::Relaxed);
        match fresh {
            Ok(fresh) => {
                *held = Held { connection: Ok(Arc::clone(&fresh)), failure: None };
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

    async fn renew(&self) -> Result<Arc<Slots>, Unreachable> {
        let room = Arc::clone(&self.room);
        let permit = match Arc::clone(&room).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.crowded.notify_one();
                let limit = self.session.gate.deadlines.connect;
                let Ok(Ok(permit)) = timeout(limit, room.acquire_owned()).await else {
                    return Err(self.session.unreachable(&format!(
                        "it takes no more requests on {MAX_H2_HOSTS} connections, and goes on answering earlier ones there"
                    )));
                };
                permit
            }
        };
        let outside = self.session.connect(Offer::Http2).await?;
        begin(&self.session, &self.tasks, outside, Some(permit)).await
    }
}

/// A connection at the end of `outside`, with the permit that it has until it ends.
async fn begin(
    session: &Arc<Session>,
    tasks: &Tasks,
    outside: Outside,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Arc<Slots>, Unreachable> {
    let backlog = Backlog::new();
    let handshake = Builder::new()
        .enable_push(false)
        .initial_max_send_streams(UNTOLD)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buffer_size(H2_BUFFER)
        .data_frame_budget(H2_FRAMES)
        .handshake::<_, Bytes>(backlog.below(outside));
    let deadlines = session.gate.deadlines;
    let (sender, mut connection) = match timeout(deadlines.connect, handshake).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => {
            return Err(session.unreachable(&format!("it does not speak HTTP/2 ({})", words::why(&error))));
        }
        Err(_) => {
            return Err(session.unreachable("it does not speak HTTP/2 (it took too long)"));
        }
    };
    let slots = Arc::new(Slots::new(backlog, sender));
    let told = Arc::clone(&slots);
    tasks.spawn(async move {
        let _permit = permit;
        let works = poll_fn(|context| {
            told.around(context, |context| {
                let polled = Pin::new(&mut connection).poll(context).map(drop);
                (polled, connection.max_concurrent_send_streams())
            })
        });
        let silent = async {
            sleep(deadlines.connect).await;
            told.wait_no_longer();
            std::future::pending::<()>().await;
        };
        // A host that said farewell and reads nothing would keep what is still to be sent to it.
        let left = async {
            told.left().await;
            sleep(deadlines.half_closed).await;
        };
        tokio::select! {
            () = works => {}
            () = silent => {}
            () = left => {}
        }
        told.end();
    });
    Ok(slots)
}
