//! What all doors share: the policy, the names, the bounds, and the one way to ask and to tell.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

use crate::egress::decide::{Allowed, Decision, Denial, decide};
use crate::egress::limits::{
    Deadlines, MAX_CONNECTIONS, MAX_LARGE_HEADS, MAX_LATE_LISTENERS, MAX_LOOKUPS, RESERVED_DESCRIPTORS,
};
use crate::egress::names::NamePool;
use crate::egress::resolve::{Lookup, SystemLookup};
use crate::egress::{Door, LateBind, NetEvent, Observer, Verdict};
use crate::policy::authority::{Authority, Host, HostName};
use crate::policy::net::NetPolicy;

/// Late listeners that wait for their accept loop.
const LATE_QUEUE: usize = 16;

/// The shared state of the doors.
pub(super) struct Gate {
    pub(super) policy: Arc<NetPolicy>,
    pub(super) names: NamePool,
    pub(super) deadlines: Deadlines,
    /// A permit per connection, over all doors.
    pub(super) slots: Arc<Semaphore>,
    /// A permit per head that is large.
    pub(super) large_heads: Semaphore,
    pub(super) lookups: Arc<Semaphore>,
    pub(super) lookup: Arc<dyn Lookup>,
    /// The address that a client connected to. The listeners are bound to 0.0.0.0, so it is the socket's own.
    pub(super) original: fn(&TcpStream) -> io::Result<SocketAddr>,
    observer: Arc<dyn Observer>,
    late: Arc<dyn LateBind>,
    late_made: Mutex<HashSet<SocketAddrV4>>,
    late_queue: mpsc::Sender<TcpListener>,
}

impl Gate {
    /// The gate, and the queue of listeners that it will have made.
    pub(super) fn new(
        policy: Arc<NetPolicy>,
        late: Arc<dyn LateBind>,
        observer: Arc<dyn Observer>,
        deadlines: Deadlines,
    ) -> (Self, mpsc::Receiver<TcpListener>) {
        let (late_queue, late_listeners) = mpsc::channel(LATE_QUEUE);
        let gate = Self {
            policy,
            names: NamePool::default(),
            deadlines,
            slots: Arc::new(Semaphore::new(slots())),
            large_heads: Semaphore::new(MAX_LARGE_HEADS),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            lookup: Arc::new(SystemLookup),
            original: TcpStream::local_addr,
            observer,
            late,
            late_made: Mutex::new(HashSet::new()),
            late_queue,
        };
        (gate, late_listeners)
    }

    /// Decides about `target` and tells the observer.
    pub(super) fn admit(&self, door: Door, target: &Authority) -> Result<Allowed<'_>, Denial> {
        match decide(&self.policy, target) {
            Decision::Allow(allowed) => {
                self.tell(door, target, Verdict::Allowed { rule: allowed.rule.value.to_string() });
                Ok(allowed)
            }
            Decision::Deny(denial) => {
                self.tell_denied(door, &denial);
                Err(denial)
            }
        }
    }

    /// Tells the observer of `verdict` on `target`.
    pub(super) fn tell(&self, door: Door, target: &Authority, verdict: Verdict) {
        let host = target.host.to_string();
        self.observer.decided(NetEvent { door, host, port: Some(target.port), verdict });
    }

    /// Tells the observer of a denial.
    pub(super) fn tell_denied(&self, door: Door, denial: &Denial) {
        let verdict = Verdict::Denied { code: denial.reason.code(), line: denial.to_string() };
        self.tell(door, &denial.target, verdict);
    }

    /// Tells the observer that the resolver denied `name`, for the reason that holds for it on port 443.
    pub(super) fn tell_no_such_name(&self, name: &HostName) {
        let target = Authority { host: Host::Name(name.clone()), port: 443 };
        if let Decision::Deny(denial) = decide(&self.policy, &target) {
            let verdict = Verdict::Denied { code: denial.reason.code(), line: denial.to_string() };
            self.observer.decided(NetEvent {
                door: Door::Resolver,
                host: name.to_string(),
                port: None,
                verdict,
            });
        }
    }

    /// Makes sure that there is a listener on each of `addrs`, as far as they can be had; those that cannot are told
    /// to the observer as failures of `host`. One caller at a time, so that nobody is answered before they listen.
    pub(super) async fn listen_late(&self, host: &str, addrs: impl IntoIterator<Item = SocketAddrV4>) {
        let mut made = self.late_made.lock().await;
        for addr in addrs {
            if made.contains(&addr) {
                continue;
            }
            let bound = match made.len() < MAX_LATE_LISTENERS {
                true => timeout(self.deadlines.late_bind, self.late.bind(addr)).await,
                false => Ok(Err(io::Error::other("there are too many listeners"))),
            };
            let failure = match bound {
                Ok(Ok(listener)) => {
                    made.insert(addr);
                    match self.late_queue.send(listener).await {
                        Ok(()) => continue,
                        Err(_) => return,
                    }
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it took too long".to_owned(),
            };
            let line =
                format!("ai-jail: {host}:{} can be reached through the proxy alone: {failure}", addr.port());
            let verdict = Verdict::Failed { line };
            let (door, host, port) = (Door::Transparent, host.to_owned(), Some(addr.port()));
            self.observer.decided(NetEvent { door, host, port, verdict });
        }
    }
}

/// As many connections as there are descriptors for, two each.
fn slots() -> usize {
    let descriptors =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let pairs = descriptors.saturating_sub(RESERVED_DESCRIPTORS) / 2;
    usize::try_from(pairs).unwrap_or(usize::MAX).clamp(16, MAX_CONNECTIONS)
}
