//! The doors over real sockets on loopback: what a client in the jail sees, and what an origin does.

mod cases;
mod crowd;
mod gone;
mod http;
mod inspect;
mod ports;
mod resolver;
mod socks;
mod streams;
mod transparent;
mod tunnels;
mod upstream;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::decide::tests::OWN;
use super::gate::Gate;
use super::limits::Deadlines;
use super::resolve::Lookup;
use super::*;
use crate::policy::authority::HostName;

/// Long enough for anything that should happen on loopback, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the transparent doors of a test are bound; the address says which port of `name.test` is meant.
const HTTP_DOOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HTTPS_DOOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const LATE_DOOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// Served doors, and what the observer and the binder heard.
struct Jail {
    proxy: SocketAddr,
    http: SocketAddr,
    https: SocketAddr,
    dns_udp: SocketAddr,
    dns_tcp: SocketAddr,
    gate: Arc<Gate>,
    seen: Arc<Seen>,
    server: JoinHandle<io::Result<Infallible>>,
}

#[derive(Default)]
struct Seen {
    events: Mutex<Vec<NetEvent>>,
    secrets: Mutex<Vec<SecretEvent>>,
    bound: Mutex<Vec<(SocketAddrV4, SocketAddr)>>,
}

impl Observer for Seen {
    fn decided(&self, event: NetEvent) {
        self.events.lock().unwrap().push(event);
    }

    fn secret(&self, event: SecretEvent) {
        self.secrets.lock().unwrap().push(event);
    }
}

impl LateBind for Seen {
    fn bind(
        &self,
        addr: SocketAddrV4,
    ) -> Pin<Box<dyn Future<Output = io::Result<std::net::TcpListener>> + Send + '_>> {
        Box::pin(async move {
            let listener = std::net::TcpListener::bind((LATE_DOOR, 0))?;
            self.bound.lock().unwrap().push((addr, listener.local_addr()?));
            Ok(listener)
        })
    }

    fn connect(
        &self,
        addr: SocketAddrV4,
    ) -> Pin<Box<dyn Future<Output = io::Result<std::net::TcpStream>> + Send + '_>> {
        Box::pin(async move { std::net::TcpStream::connect(addr) })
    }
}

impl Seen {
    fn verdicts(&self) -> Vec<Verdict> {
        self.events.lock().unwrap().iter().map(|event| event.verdict.clone()).collect()
    }

    fn denials(&self) -> Vec<String> {
        let line = |verdict| if let Verdict::Denied(refusal) = verdict { Some(refusal.line) } else { None };
        self.verdicts().into_iter().filter_map(line).collect()
    }

    fn closed(&self) -> Vec<(u64, u64)> {
        let totals =
            |verdict| if let Verdict::Closed { up, down } = verdict { Some((up, down)) } else { None };
        self.verdicts().into_iter().filter_map(totals).collect()
    }
}

/// Answers every lookup with the same addresses and remembers the names.
struct FixedLookup {
    ips: Vec<IpAddr>,
    asked: Mutex<Vec<String>>,
}

impl Lookup for FixedLookup {
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        self.asked.lock().unwrap().push(name);
        let ips = self.ips.clone();
        Box::pin(async move { Ok(ips) })
    }
}

/// Serves `policy` on ephemeral ports, with deadlines for tests.
fn jail(policy: NetPolicy) -> Jail {
    jail_with(policy, short(), &[])
}

/// Deadlines for tests.
fn short() -> Deadlines {
    Deadlines {
        linger: Duration::from_millis(500),
        lookup: Duration::from_secs(5),
        connect: Duration::from_secs(5),
        ..Deadlines::default()
    }
}

/// Like [`jail`], with these deadlines and a resolver outside that knows these addresses for every name.
fn jail_with(policy: NetPolicy, deadlines: Deadlines, ips: &[IpAddr]) -> Jail {
    jail_that_reads(policy, deadlines, ips, None)
}

/// Like [`jail_with`], with what reads the traffic with the hosts that need it.
fn jail_that_reads(
    policy: NetPolicy,
    deadlines: Deadlines,
    ips: &[IpAddr],
    inspector: Option<Arc<Inspector>>,
) -> Jail {
    jail_changed(policy, deadlines, |gate| {
        gate.inspector = inspector;
        gate.lookup = Arc::new(FixedLookup { ips: ips.to_vec(), asked: Mutex::default() });
    })
}

/// Serves `policy` through a gate that `change` has been given before.
fn jail_changed(policy: NetPolicy, deadlines: Deadlines, change: impl FnOnce(&mut Gate)) -> Jail {
    let seen = Arc::new(Seen::default());
    let (mut gate, late) = Gate::new(
        Arc::new(policy),
        OwnAddresses::fixed(&OWN),
        Arc::clone(&seen) as _,
        Arc::clone(&seen) as _,
        deadlines,
    );
    change(&mut gate);
    gate.original = |stream| {
        let name_address = Ipv4Addr::new(198, 18, 0, 2);
        Ok(match stream.local_addr()?.ip() {
            IpAddr::V4(HTTP_DOOR) => SocketAddr::from((name_address, 80)),
            IpAddr::V4(HTTPS_DOOR) => SocketAddr::from((name_address, 443)),
            IpAddr::V4(LATE_DOOR) => SocketAddr::from((name_address, 22)),
            _ => SocketAddr::from((Ipv4Addr::new(198, 18, 7, 7), 443)),
        })
    };
    let bind = |ip: Ipv4Addr| std::net::TcpListener::bind((ip, 0)).unwrap();
    let doors = Doors {
        dns_udp: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        dns_tcp: bind(Ipv4Addr::LOCALHOST),
        http: bind(HTTP_DOOR),
        https: bind(HTTPS_DOOR),
        proxy: bind(Ipv4Addr::LOCALHOST),
        forward: Vec::new(),
        publish: Vec::new(),
    };
    let gate = Arc::new(gate);
    Jail {
        proxy: doors.proxy.local_addr().unwrap(),
        http: doors.http.local_addr().unwrap(),
        https: doors.https.local_addr().unwrap(),
        dns_udp: doors.dns_udp.local_addr().unwrap(),
        dns_tcp: doors.dns_tcp.local_addr().unwrap(),
        seen,
        server: tokio::spawn(serve_gate(doors, Arc::clone(&gate), late)),
        gate,
    }
}

/// A server that handles each connection with `handle`.
async fn origin<F, H>(handle: F) -> SocketAddr
where
    F: Fn(TcpStream) -> H + Send + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(handle(stream));
        }
    });
    addr
}

/// A server that sends what it gets back.
async fn echo() -> SocketAddr {
    origin(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await
}

/// Connects, sends `bytes`, finishes sending, and returns all that comes.
async fn talk(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    rest(&mut stream).await
}

/// Reads to the end; a reset counts as one.
async fn rest(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            got.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(PATIENCE, read).await.expect("the connection does not end");
    String::from_utf8_lossy(&got).into_owned()
}

/// Reads until what came ends with `end`.
async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("nothing comes");
        got.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&got))));
    }
    String::from_utf8(got).unwrap()
}

/// Waits until `holds`, for things that another task is about to do.
async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it never holds");
}

fn name(text: &str) -> HostName {
    HostName::parse(text.as_bytes()).unwrap()
}
