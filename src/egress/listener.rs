//! Accept loops: a permit first, then a connection, then its handler; all of them end with the loop.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::egress::gate::Gate;
use crate::egress::limits::{TRIM_EVERY, TRIM_QUIET};
use crate::egress::names::Owner;
use crate::egress::{reach, transparent};
use crate::sys;

/// How long a door rests when the machine is out of descriptors or memory.
pub(super) const REST: Duration = Duration::from_millis(50);

/// Takes a listener into the runtime.
pub(super) fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections and runs `handle` for each. Without a free slot nothing is accepted: clients wait in the backlog.
pub(super) async fn accept<F, H>(gate: &Arc<Gate>, listener: TcpListener, handle: F) -> io::Result<Infallible>
where
    F: Fn(Arc<Gate>, TcpStream) -> H,
    H: Future<Output = ()> + Send + 'static,
{
    // A door holds a slot while it waits for a client. It brings that one along, so that many quiet doors take nothing
    // from a busy one.
    gate.slots.add_permits(1);
    let mut running = JoinSet::new();
    let memory = Arc::new(Memory::default());
    loop {
        let permit = tokio::select! {
            Some(_) = running.join_next() => continue,
            permit = Arc::clone(&gate.slots).acquire_owned() => permit.map_err(io::Error::other)?,
        };
        let stream = loop {
            tokio::select! {
                Some(_) = running.join_next() => {}
                accepted = accept_one(&listener) => break accepted?,
            }
        };
        let (work, memory) = (handle(Arc::clone(gate), stream), Arc::clone(&memory));
        memory.open.fetch_add(1, Ordering::Relaxed);
        running.spawn(async move {
            work.await;
            drop(permit);
            memory.one_ended();
        });
    }
}

/// When a door gives memory back.
#[derive(Default)]
struct Memory {
    open: AtomicUsize,
    ended: AtomicUsize,
}

impl Memory {
    fn one_ended(&self) {
        let left = self.open.fetch_sub(1, Ordering::Relaxed) - 1;
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended >= TRIM_EVERY || left == 0 && ended >= TRIM_QUIET {
            self.ended.store(0, Ordering::Relaxed);
            sys::memory::give_back();
        }
    }
}

/// Serves listeners that are made while the jail runs, those of address rules first.
pub(super) async fn accept_late(
    gate: &Arc<Gate>,
    mut listeners: mpsc::Receiver<std::net::TcpListener>,
) -> io::Result<Infallible> {
    let mut running = JoinSet::new();
    let starter = Arc::clone(gate);
    running.spawn(async move {
        for addr in reach::address_listeners(&starter.policy) {
            starter.listen_late(&addr.ip().to_string(), Owner::Exact, [addr]).await;
        }
    });
    loop {
        tokio::select! {
            Some(_) = running.join_next() => {}
            Some(listener) = listeners.recv() => {
                // A late door that fails, now or later, takes nothing else with it.
                let Ok(listener) = adopt(listener) else { continue };
                let gate = Arc::clone(gate);
                running.spawn(async move {
                    let Err(_) = accept(&gate, listener, transparent::serve).await;
                });
            }
        }
    }
}

async fn accept_one(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Interactive protocols suffer from delayed small writes; a refusal of the option costs nothing else.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) if is_shortage(&error) => tokio::time::sleep(REST).await,
            Err(error) => return Err(error),
        }
    }
}

/// The client was gone before it was accepted (accept(2) lists these as errors of the new connection).
fn is_passing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().unwrap_or(0);
    [libc::ECONNABORTED, libc::EINTR, libc::EPROTO, libc::ENETDOWN, libc::EHOSTUNREACH, libc::ENETUNREACH]
        .contains(&errno)
}

fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().unwrap_or(0);
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].contains(&errno)
}
