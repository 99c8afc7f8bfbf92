//! The doors to the network, and the one pure decision behind them.
//!
//! Listeners are made inside the jail's network namespace by somebody else and served here, outside. Whatever comes
//! through them is read by our own strict parsers ([`head`], [`chunk`], [`ask`], [`dns_message`]), turned into one
//! canonical [`Authority`](crate::policy::authority::Authority), and put to [`decide`].

pub mod ask;
pub mod chunk;
pub mod decide;
pub mod dns_message;
pub mod head;
pub mod hello;
pub mod limits;
pub mod names;
pub mod proxy_answer;
pub mod reach;
pub mod refusal;
pub mod rewrite;

mod dns;
mod exchange;
mod gate;
mod http;
pub mod inspect;
mod listener;
mod opening;
#[expect(clippy::disallowed_methods, reason = "knows when it read them")]
pub(crate) mod own;
mod ports;
mod proxy;
mod reply;
#[expect(clippy::disallowed_methods, reason = "asks for names and dials")]
mod resolve;
pub mod socks;
mod transparent;
mod tunnel;
mod upstream;
#[expect(clippy::disallowed_methods, reason = "knows when bytes last moved")]
mod wire;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests over real sockets")]
mod door_tests;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use crate::egress::gate::Gate;
use crate::egress::inspect::Inspector;
use crate::egress::limits::Deadlines;
use crate::egress::own::OwnAddresses;
use crate::egress::refusal::Refusal;
use crate::policy::net::NetPolicy;

/// The listeners, bound inside the jail's network namespace. Their blocking mode does not matter.
#[derive(Debug)]
pub struct Doors {
    /// The resolver, 127.0.0.1:53.
    pub dns_udp: UdpSocket,
    /// The resolver over TCP, 127.0.0.1:53.
    pub dns_tcp: TcpListener,
    /// Plain HTTP by name, 0.0.0.0:80.
    pub http: TcpListener,
    /// TLS by name, 0.0.0.0:443.
    pub https: TcpListener,
    /// HTTP (and SOCKS) for programs that know a proxy, 127.0.0.1:3128.
    pub proxy: TcpListener,
    /// Ports of the jail's loopback that lead to the host's.
    pub forward: Vec<PortDoor>,
    /// Ports of the host's loopback that lead to the jail's.
    pub publish: Vec<PortDoor>,
}

/// A listener on a port of a loopback that leads to the same port of the other.
#[derive(Debug)]
pub struct PortDoor {
    /// The port.
    pub port: u16,
    /// Who comes there.
    pub listener: TcpListener,
}

/// Makes listeners and connections in the namespace while the jail runs.
pub trait LateBind: Send + Sync {
    /// A TCP listener on `addr`, which is an address that a name or a rule has been given. Fails when the namespace is
    /// gone or something in the jail occupies the port. The wait is bounded by the caller.
    fn bind(&self, addr: SocketAddrV4) -> Pin<Box<dyn Future<Output = io::Result<TcpListener>> + Send + '_>>;

    /// A TCP connection to `addr`, begun and perhaps not there yet. Fails when nobody listens. The wait is bounded by the
    /// caller.
    fn connect(&self, addr: SocketAddrV4)
    -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + '_>>;
}

/// Hears of every decision. Called on the doors' thread, so it must not block.
pub trait Observer: Send + Sync {
    /// Takes note of `event`.
    fn decided(&self, event: NetEvent);

    /// Takes note of what became of a secret's sentinel or value in an inspected exchange.
    fn secret(&self, _event: SecretEvent) {}
}

/// A secret in an inspected exchange: its name, never its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEvent {
    /// The secret's name.
    pub name: String,
    /// The host, canonical.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What became of it.
    pub what: SecretUse,
}

/// What became of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretUse {
    /// The value was put in for the sentinel.
    Used,
    /// The sentinel was sent to a host that it is not bound to, and was left as it is.
    Stray,
    /// The sentinel was sent to its host in a part of a request that it is not put in for, or by plain HTTP, and was left
    /// as it is.
    Misplaced,
    /// The host's answer carried the value, and the sentinel was put in for it.
    Scrubbed,
}

/// One thing that happened at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetEvent {
    /// Where.
    pub door: Door,
    /// The host, canonical.
    pub host: String,
    /// The port; `None` for a question to the resolver.
    pub port: Option<u16>,
    /// Whether it is a question for another record than the address, which programs ask beside that one.
    pub is_beside: bool,
    /// What.
    pub verdict: Verdict,
}

/// The doors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The HTTP proxy.
    Proxy,
    /// The SOCKS proxy.
    Socks,
    /// A connection by name or address, with no proxy in between.
    Transparent,
    /// The resolver.
    Resolver,
    /// A port of the host's loopback, reached from the jail.
    Forward,
    /// A port of the jail's loopback, reached from the host.
    Publish,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was allowed by `rule`. A [`Verdict::Closed`] or [`Verdict::Failed`] follows.
    Allowed {
        /// The rule's text.
        rule: String,
    },
    /// It was denied.
    Denied(Refusal),
    /// It was allowed, and the host could not be reached or a listener not be made.
    Failed {
        /// The line that the jail was told.
        line: String,
    },
    /// An allowed connection or request ended.
    Closed {
        /// Bytes from the jail, bodies alone for plain HTTP.
        up: u64,
        /// Bytes to the jail.
        down: u64,
    },
}

/// Serves the doors until the returned future is dropped, which ends every connection. Needs a tokio runtime with time
/// and I/O; one thread is enough. Returns only when a door fails for good, with an error that names the door: from then on
/// nothing is served.
///
/// A connection takes a descriptor, and another one while it leads outside: raise the soft limit of open files before this is called, since the
/// number of connections is derived from it (at most [`limits::MAX_CONNECTIONS`]).
pub async fn serve(
    doors: Doors,
    policy: Arc<NetPolicy>,
    inspector: Option<Arc<Inspector>>,
    late: Arc<dyn LateBind>,
    observer: Arc<dyn Observer>,
) -> io::Result<Infallible> {
    let own = OwnAddresses::read().map_err(failure_of("every host (this machine's own addresses)"))?;
    let (mut gate, late_listeners) = Gate::new(policy, own, late, observer, Deadlines::default());
    gate.inspector = inspector;
    gate.tell_few_slots();
    serve_gate(doors, Arc::new(gate), late_listeners).await
}

async fn serve_gate(
    doors: Doors,
    gate: Arc<Gate>,
    late_listeners: tokio::sync::mpsc::Receiver<TcpListener>,
) -> io::Result<Infallible> {
    const HTTP: &str = "plain HTTP (port 80)";
    const HTTPS: &str = "TLS (port 443)";
    const PROXY: &str = "the proxy (127.0.0.1:3128)";
    const DNS_TCP: &str = "the resolver (127.0.0.1:53 over TCP)";
    const DNS_UDP: &str = "the resolver (127.0.0.1:53 over UDP)";
    let http = listener::adopt(doors.http).map_err(failure_of(HTTP))?;
    let https = listener::adopt(doors.https).map_err(failure_of(HTTPS))?;
    let proxy = listener::adopt(doors.proxy).map_err(failure_of(PROXY))?;
    let dns_tcp = listener::adopt(doors.dns_tcp).map_err(failure_of(DNS_TCP))?;
    let dns_udp = doors.dns_udp;
    let dns_udp = dns_udp.set_nonblocking(true).and_then(|()| tokio::net::UdpSocket::from_std(dns_udp));
    let dns_udp = dns_udp.map_err(failure_of(DNS_UDP))?;

    tokio::select! {
        failed = listener::accept(&gate, http, transparent::serve) => failed.map_err(failure_of(HTTP)),
        failed = listener::accept(&gate, https, transparent::serve) => failed.map_err(failure_of(HTTPS)),
        failed = listener::accept(&gate, proxy, proxy::serve) => failed.map_err(failure_of(PROXY)),
        failed = listener::accept_late(&gate, late_listeners) => failed.map_err(failure_of("late listeners")),
        failed = ports::serve(&gate, doors.forward, doors.publish) => failed.map_err(failure_of("forwarded and published ports")),
        failed = dns::serve_tcp(&gate, dns_tcp) => failed.map_err(failure_of(DNS_TCP)),
        failed = dns::serve_udp(&gate, dns_udp) => failed.map_err(failure_of(DNS_UDP)),
    }
}

/// The error of a door, with its name.
fn failure_of(door: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("the door for {door} failed: {error}"))
}
