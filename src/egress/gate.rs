//! What all doors share: the policy, the names, the bounds, and the one way to ask and to tell.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::{Arc, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

use crate::egress::decide::{Allowed, Decision, Denial, decide};
use crate::egress::inspect::Inspector;
use crate::egress::limits::{
    CLIENTS_IN_SIXTEEN, Deadlines, ENOUGH, LISTENERS_FOR_EXACT, MAX_CONNECTIONS, MAX_H2_HELD, MAX_INSPECTED,
    MAX_INSPECTED_H2, MAX_LARGE_HEADS, MAX_LATE_LISTENERS, MAX_LOOKUPS, RESERVED_DESCRIPTORS,
};
use crate::egress::names::{NamePool, Owner};
use crate::egress::own::OwnAddresses;
use crate::egress::reach;
use crate::egress::refusal::Refusal;
use crate::egress::resolve::{Lookup, SystemLookup};
use crate::egress::{Door, LateBind, NetEvent, Observer, Verdict};
use crate::policy::authority::{Authority, Host, HostName};
use crate::policy::http_rule::HttpDenial;
use crate::policy::net::NetPolicy;

/// Late listeners that wait for their accept loop.
const LATE_QUEUE: usize = 16;

/// The shared state of the doors.
pub(super) struct Gate {
    pub(super) policy: Arc<NetPolicy>,
    pub(super) own: OwnAddresses,
    pub(super) names: NamePool,
    pub(super) deadlines: Deadlines,
    /// A permit per connection, over all doors.
    pub(super) slots: Arc<Semaphore>,
    /// A permit per connection to a host outside, and two per late listener: for its own descriptor, and for that of the
    /// client which it brings along.
    pub(super) descriptors: Arc<Semaphore>,
    /// A permit per head that is large.
    pub(super) large_heads: Arc<Semaphore>,
    pub(super) lookups: Arc<Semaphore>,
    /// What reads the traffic with the hosts that need it.
    pub(super) inspector: Option<Arc<Inspector>>,
    /// A permit per connection whose traffic is read.
    pub(super) inspected: Arc<Semaphore>,
    /// A permit for each of these that speaks HTTP/2.
    pub(super) inspected_h2: Arc<Semaphore>,
    /// A permit for each byte of bodies in HTTP/2 that a connection holds beyond its share.
    pub(super) held: Arc<Semaphore>,
    pub(super) lookup: Arc<dyn Lookup>,
    /// The address that a client connected to. The listeners are bound to 0.0.0.0, so it is the socket's own.
    pub(super) original: fn(&TcpStream) -> io::Result<SocketAddr>,
    pub(super) observer: Arc<dyn Observer>,
    late: Arc<dyn LateBind>,
    late_made: Mutex<LateMade>,
    /// Rules whose share of the addresses is used up, which was told.
    spent: std::sync::Mutex<HashSet<usize>>,
    /// Among how many rules with wildcards names and listeners are shared.
    wildcards: usize,
    late_queue: mpsc::Sender<TcpListener>,
}

impl Gate {
    /// The gate, and the queue of listeners that it will have made.
    pub(super) fn new(
        policy: Arc<NetPolicy>,
        own: OwnAddresses,
        late: Arc<dyn LateBind>,
        observer: Arc<dyn Observer>,
        deadlines: Deadlines,
    ) -> (Self, mpsc::Receiver<TcpListener>) {
        let (late_queue, late_listeners) = mpsc::channel(LATE_QUEUE);
        let wildcards = reach::wildcards(&policy);
        let (slots, outside) = slots();
        let gate = Self {
            policy,
            own,
            names: NamePool::new(wildcards),
            deadlines,
            slots: Arc::new(Semaphore::new(slots)),
            descriptors: Arc::new(Semaphore::new(outside)),
            large_heads: Arc::new(Semaphore::new(MAX_LARGE_HEADS)),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            inspector: None,
            inspected: Arc::new(Semaphore::new(MAX_INSPECTED)),
            inspected_h2: Arc::new(Semaphore::new(MAX_INSPECTED_H2)),
            held: Arc::new(Semaphore::new(MAX_H2_HELD)),
            lookup: Arc::new(SystemLookup),
            original: TcpStream::local_addr,
            observer,
            late,
            late_made: Mutex::default(),
            spent: std::sync::Mutex::default(),
            wildcards,
            late_queue,
        };
        (gate, late_listeners)
    }

    /// Decides about `target` and tells the observer.
    pub(super) fn admit(&self, door: Door, target: &Authority) -> Result<Allowed<'_>, Denial> {
        match decide(&self.policy, &self.own.now(), target) {
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
        self.observer.decided(NetEvent { door, host, port: Some(target.port), is_beside: false, verdict });
    }

    /// Tells the observer of a denial.
    pub(super) fn tell_denied(&self, door: Door, denial: &Denial) {
        let refusal = Refusal::of_host(&self.policy, denial);
        self.tell(door, &denial.target, Verdict::Denied(refusal));
    }

    /// Tells the observer of a request that HTTP rules deny.
    pub(super) fn tell_http_denied(&self, door: Door, denial: &HttpDenial) {
        let refusal = Refusal::from(denial);
        let refusal = match &self.inspector {
            Some(inspector) => refusal.without_fakes(&inspector.vault),
            None => refusal,
        };
        self.tell(door, &denial.target, Verdict::Denied(refusal));
    }

    /// Tells the observer that the resolver denied `name`, for the reason that holds for it on port 443. `is_beside` is whether it
    /// was asked for another record than its address.
    pub(super) fn tell_no_such_name(&self, name: &HostName, is_beside: bool) {
        let target = Authority { host: Host::Name(name.clone()), port: 443 };
        if let Decision::Deny(denial) = decide(&self.policy, &self.own.now(), &target) {
            let verdict = Verdict::Denied(Refusal::of_host(&self.policy, &denial));
            let host = name.to_string();
            self.observer.decided(NetEvent { door: Door::Resolver, host, port: None, is_beside, verdict });
        }
    }

    /// The address of `name`, which a rule could allow; `None` when the share of that rule is used up, which is told to
    /// the observer once.
    pub(super) fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let owner = reach::owner(&self.policy, name);
        let address = self.names.address_of(name, owner);
        if address.is_none() {
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            if let Owner::Rule(rule) = owner
                && spent.insert(rule)
            {
                let rule = self.policy.allow.get(rule).map(|rule| rule.value.to_string()).unwrap_or_default();
                let line = format!(
                    "ai-jail: {name} can be reached through the proxy alone: the addresses for {rule} are used up"
                );
                self.tell_failed(name.to_string(), None, line);
            }
        }
        address
    }

    /// Tells the observer when fewer connections than [`ENOUGH`] can be served at once.
    pub(super) fn tell_few_slots(&self) {
        let slots = self.slots.available_permits();
        if slots < ENOUGH {
            let line = format!(
                "ai-jail: {slots} connections can be served at once: the hard limit of open files (ulimit -Hn) allows no more"
            );
            self.tell_failed("*".to_owned(), None, line);
        }
    }

    /// Makes sure that there is a listener on each of `addrs`, as far as they can be had; those that cannot are told
    /// to the observer as failures of `host`. One caller at a time, so that nobody is answered before they listen.
    pub(super) async fn listen_late(
        &self,
        host: &str,
        owner: Owner,
        addrs: impl IntoIterator<Item = SocketAddrV4>,
    ) {
        let mut made = self.late_made.lock().await;
        for addr in addrs {
            if made.listeners.contains(&addr) {
                continue;
            }
            let room = made.has_room(owner, self.wildcards);
            let permits = Arc::clone(&self.descriptors).try_acquire_many_owned(2).ok().filter(|_| room);
            let bound = match permits {
                Some(permits) => {
                    let bound = timeout(self.deadlines.late_bind, self.late.bind(addr)).await;
                    if let Ok(Ok(_)) = bound {
                        // For as long as the jail runs.
                        permits.forget();
                    }
                    bound
                }
                None if !made.spent.insert(owner) => continue,
                None => Ok(Err(io::Error::other("the listeners for rules like its own are used up"))),
            };
            let failure = match bound {
                Ok(Ok(listener)) => {
                    made.listeners.insert(addr);
                    *made.by_owner.entry(owner).or_default() += 1;
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
            self.tell_failed(host.to_owned(), Some(addr.port()), line);
        }
    }

    /// A connection to a port of the jail's loopback; `None` when nobody listens there.
    pub(super) async fn connect_inside(&self, port: u16) -> Option<TcpStream> {
        let connected = async {
            let begun = self.late.connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).await.ok()?;
            begun.set_nonblocking(true).ok()?;
            let stream = TcpStream::from_std(begun).ok()?;
            stream.writable().await.ok()?;
            stream.take_error().ok()?.is_none().then_some(stream)
        };
        timeout(self.deadlines.connect, connected).await.ok().flatten()
    }

    fn tell_failed(&self, host: String, port: Option<u16>, line: String) {
        let verdict = Verdict::Failed { line };
        self.observer.decided(NetEvent { door: Door::Transparent, host, port, is_beside: false, verdict });
    }
}

/// The late listeners, and who has how many.
#[derive(Default)]
struct LateMade {
    listeners: HashSet<SocketAddrV4>,
    by_owner: HashMap<Owner, usize>,
    /// Those for whom there was no room, which was told.
    spent: HashSet<Owner>,
}

impl LateMade {
    fn has_room(&self, owner: Owner, wildcards: usize) -> bool {
        let have = self.by_owner.get(&owner).copied().unwrap_or_default();
        self.listeners.len() < MAX_LATE_LISTENERS
            && match owner {
                Owner::Exact => true,
                Owner::Rule(_) => have < (MAX_LATE_LISTENERS - LISTENERS_FOR_EXACT) / wildcards.max(1),
            }
    }
}

/// How many connections the jail may have at once, and how many there can be to hosts outside at the same time.
fn slots() -> (usize, usize) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    share(limit.unwrap_or(u64::MAX))
}

fn share(descriptors: u64) -> (usize, usize) {
    let descriptors = descriptors.saturating_sub(RESERVED_DESCRIPTORS);
    let most = |count: u64, most| usize::try_from(count).unwrap_or(usize::MAX).clamp(16, most);
    let clients = most(descriptors / 16 * CLIENTS_IN_SIXTEEN, MAX_CONNECTIONS);
    let outside = most(descriptors.saturating_sub(clients as u64), MAX_CONNECTIONS + 2 * MAX_LATE_LISTENERS);
    (clients, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_shared_so_that_none_is_promised_twice() {
        for (limit, clients) in
            [(0, 16), (1024, 432), (4096, 2160), (20_000, MAX_CONNECTIONS), (u64::MAX, MAX_CONNECTIONS)]
        {
            let (slots, outside) = share(limit);
            assert_eq!(slots, clients, "{limit}");
            assert!(
                limit < 512 || (slots + outside) as u64 <= limit - RESERVED_DESCRIPTORS,
                "{limit}: {outside}"
            );
        }
    }

    #[test]
    fn a_wildcard_takes_no_listener_from_another_rule() {
        let mut made = LateMade::default();
        let share = (MAX_LATE_LISTENERS - LISTENERS_FOR_EXACT) / 2;
        made.by_owner.insert(Owner::Rule(0), share);
        assert!(!made.has_room(Owner::Rule(0), 2));
        assert!(made.has_room(Owner::Rule(1), 2) && made.has_room(Owner::Exact, 2));
    }
}
