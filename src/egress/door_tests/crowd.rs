//! Crowds: clients that stop in every state that a connection can be in, and the one that is to be served all the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::gone::{Leave, silent};
use super::http::towards;
use super::ports::served;
use super::*;
use crate::egress::decide::tests::{policy, resolve};
use crate::egress::dns_message::tests::query;
use crate::egress::limits::{MAX_LARGE_HEADS, MAX_LOOKUPS, SMALL_HEAD};

/// Clients that leave in each way, in each state.
const EACH: usize = 5;

/// States at once. A connection takes up to four descriptors here, of which many machines allow a thousand.
const AT_ONCE: usize = 6;

const GOOD: &[u8] = b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n";

/// A state: the door, what is sent there, and what is waited for; the connection has arrived in it then.
struct State(&'static str, Way, Vec<u8>, &'static [u8]);

#[derive(Clone, Copy)]
enum Way {
    Proxy,
    Http,
    Https,
    Resolver,
    Forward,
}

fn states() -> Vec<State> {
    use Way::*;
    let text = |text: &str| text.replace('\n', "\r\n").into_bytes();
    let connect = |target: &str| text(&format!("CONNECT {target} HTTP/1.1\nHost: {target}\n\n"));
    let established: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let socks = |port: u16| [b"\x05\x01\x00\x05\x01\x00\x03\x08raw.test", &port.to_be_bytes()[..]].concat();
    let large = [b"GET http://ok.test/ HTTP/1.1\r\nX: ", &[b'a'; 2 * SMALL_HEAD][..]].concat();
    let dns = [&[0, 30][..], &query(b"name.test", 1)].concat();
    let asked = [&(query(b"name.test", 1).len() as u16).to_be_bytes()[..], &query(b"name.test", 1)].concat();
    vec![
        State("silent at the proxy", Proxy, vec![], b""),
        State("silent at port 80", Http, vec![], b""),
        State("silent at port 443", Https, vec![], b""),
        State("silent at the resolver", Resolver, vec![], b""),
        State("silent at a forwarded port", Forward, vec![], b""),
        State("half a request line", Proxy, text("GET http://ok."), b""),
        State("half a head", Proxy, text("GET http://ok.test/ HTTP/1.1\nHost: ok"), b""),
        State("half a large head", Proxy, large, b""),
        State("half a CONNECT", Proxy, text("CONNECT raw.test:8443 HTTP/1.1\nHo"), b""),
        State("CONNECT that is denied", Proxy, connect("evil.test:443"), b"HTTP/1.1 403 Forbidden\r\n"),
        State("CONNECT that is malformed", Proxy, connect("evil.test"), b"HTTP/1.1 400 Bad Request\r\n"),
        State("CONNECT to a host that is gone", Proxy, connect("gone.test:8443"), b"HTTP/1.1 502 "),
        State("a tunnel", Proxy, connect("raw.test:8443"), established),
        State("a tunnel to port 80", Proxy, connect("ok.test:80"), established),
        State("a tunnel that has to be TLS", Proxy, connect("ok.test:443"), established),
        State(
            "a tunnel with half a ClientHello",
            Proxy,
            [&connect("ok.test:443")[..], b"\x16\x03\x01\x02\x00\x01"].concat(),
            established,
        ),
        State(
            "a request without an answer",
            Proxy,
            text("GET http://ok.test/ HTTP/1.1\nHost: ok.test\n\n"),
            b"",
        ),
        State(
            "half a body",
            Proxy,
            text("POST http://ok.test/ HTTP/1.1\nHost: ok.test\nContent-Length: 9\n\nhalf"),
            b"",
        ),
        State(
            "half a chunk",
            Proxy,
            text("POST http://ok.test/ HTTP/1.1\nHost: ok.test\nTransfer-Encoding: chunked\n\n9\nhalf"),
            b"",
        ),
        State(
            "between two requests",
            Proxy,
            text("GET http://evil.test/ HTTP/1.1\nHost: evil.test\n\n"),
            b"HTTP/1.1 403 Forbidden\r\n",
        ),
        State("an answer that is not read", Proxy, connect("flood.test:8443"), established),
        State("half a SOCKS greeting", Proxy, vec![5, 3, 0], b""),
        State("a SOCKS greeting", Proxy, vec![5, 1, 0], b"\x05\x00"),
        State("half a SOCKS request", Proxy, socks(8443)[..9].to_vec(), b"\x05\x00"),
        State("SOCKS established", Proxy, socks(8443), b"\x05\x00\x05\x00\x00\x01\0\0\0\0\0\0"),
        State("SOCKS refused", Proxy, socks(9), b"\x05\x00\x05\x02\x00\x01\0\0\0\0\0\0"),
        State("half a head at port 80", Http, text("GET / HTTP/1.1\nHost: na"), b""),
        State("no answer at port 80", Http, text("GET / HTTP/1.1\nHost: name.test\n\n"), b""),
        State("bytes at port 443", Https, text("some"), b""),
        State("half a length at the resolver", Resolver, vec![0], b""),
        State("half a query at the resolver", Resolver, dns[..9].to_vec(), b""),
        State("a query at the resolver", Resolver, asked, b"\0"),
        State("a forwarded port", Forward, text("some"), b""),
    ]
}

/// An origin that says `ok` and one that never stops, beside the one that says nothing.
async fn crowded(slots: Option<usize>, deadlines: Deadlines, lookup: Arc<dyn Lookup>) -> (Jail, SocketAddr) {
    let quiet = silent().await;
    let good = origin(|mut stream| async move {
        until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let flood =
        origin(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hosts = ["ok.test", "name.test:80", "name.test:443/tcp", "raw.test:8443"];
    let mut rules = towards(&hosts, quiet);
    rules.allow.extend(policy(&["good.test", "flood.test:8443", "gone.test:8443", "slow.test"], &[]).allow);
    for (host, at) in [("good.test", good), ("flood.test", flood), ("gone.test", closed)] {
        resolve(&mut rules, host, at.ip(), Some(at.port()));
    }
    let jail = jail_changed(rules, deadlines, |gate| {
        gate.lookup = lookup;
        if let Some(slots) = slots {
            gate.slots = Arc::new(Semaphore::new(slots));
        }
    });
    let forward = served(&jail, quiet.port(), true);
    jail.gate.names.address_of(&name("name.test"), names::Owner::Exact).unwrap();
    (jail, forward)
}

fn nowhere() -> Arc<dyn Lookup> {
    Arc::new(FixedLookup { ips: Vec::new(), asked: Mutex::default() })
}

async fn arrive(jail: &Jail, forward: SocketAddr, state: &State) -> TcpStream {
    let State(name, way, bytes, answer) = state;
    let door = match way {
        Way::Proxy => jail.proxy,
        Way::Http => jail.http,
        Way::Https => jail.https,
        Way::Resolver => jail.dns_tcp,
        Way::Forward => forward,
    };
    let mut client = TcpStream::connect(door).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let mut got = vec![0; answer.len()];
    let read = timeout(PATIENCE, client.read_exact(&mut got)).await;
    read.unwrap_or_else(|_| panic!("{name}: nothing comes")).unwrap();
    assert_eq!(got, *answer, "{name}");
    client
}

#[tokio::test]
async fn whoever_leaves_in_whatever_state_gives_everything_back() {
    let deadlines = Deadlines {
        half_closed: Duration::from_millis(100),
        linger: Duration::from_millis(100),
        ..Deadlines::default()
    };
    let (jail, forward) = crowded(None, deadlines, nowhere()).await;
    let (slots, outside) = (jail.gate.slots.available_permits(), jail.gate.descriptors.available_permits());
    for states in states().chunks(AT_ONCE) {
        let mut clients = Vec::new();
        for state in states {
            for leave in [Leave::Close, Leave::Reset, Leave::HalfClose].repeat(EACH) {
                clients.push((leave, arrive(&jail, forward, state).await));
            }
        }
        let mut kept = Vec::new();
        for (leave, client) in clients {
            kept.extend(leave.go(client).await);
        }
        let names: Vec<_> = states.iter().map(|state| state.0).collect();
        assert!(talk(jail.proxy, GOOD).await.ends_with("ok"), "{names:?}");
        let gate = &jail.gate;
        let left =
            || [&gate.slots, &gate.descriptors, &gate.large_heads].map(|permits| permits.available_permits());
        let given_back = async {
            while left() != [slots, outside, MAX_LARGE_HEADS] {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let given_back = timeout(PATIENCE, given_back).await;
        assert!(given_back.is_ok(), "{names:?}: {:?} of {slots}, {outside}, {MAX_LARGE_HEADS}", left());
        assert!(!jail.server.is_finished(), "{names:?}");
    }
}

/// Sends `bytes` one at a time, over and over, and counts itself in `cut` when it is cut off.
fn drip(door: SocketAddr, bytes: &'static [u8], cut: Arc<AtomicUsize>) {
    tokio::spawn(async move {
        let mut client = TcpStream::connect(door).await.unwrap();
        for byte in bytes.iter().cycle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if client.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        cut.fetch_add(1, Ordering::Relaxed);
    });
}

#[tokio::test]
async fn the_last_slot_serves_while_all_others_are_dripped_into() {
    const SLOTS: usize = 10;
    let head = Duration::from_secs(3);
    let deadlines = Deadlines { head, dns: head, ..Deadlines::default() };
    let (jail, _) = crowded(Some(SLOTS), deadlines, nowhere()).await;
    let free = || jail.gate.slots.available_permits();
    eventually(|| free() == SLOTS).await;
    let cut = Arc::new(AtomicUsize::new(0));
    let drips: [(SocketAddr, &[u8]); 5] = [
        (jail.proxy, b"A"),
        (jail.proxy, b"\x05\xff\0"),
        (jail.http, b"GET / HTTP/1.1\r\nX: y"),
        (jail.dns_tcp, b"\x0f\xff"),
        (jail.proxy, b"GET http://ok.test/ HTTP/1.1\r\nX: "),
    ];
    for (door, bytes) in drips.repeat(SLOTS / drips.len()) {
        drip(door, bytes, Arc::clone(&cut));
    }
    eventually(|| free() == 0).await;
    for _ in 0..5 {
        assert!(talk(jail.proxy, GOOD).await.ends_with("ok"));
    }
    assert!(free() == 0 && cut.load(Ordering::Relaxed) == 0, "they were still there");
    // With the last one taken as well, whoever comes waits until one of them is cut.
    drip(jail.proxy, b"A", Arc::clone(&cut));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(talk(jail.proxy, GOOD).await.ends_with("ok"));
    eventually(|| cut.load(Ordering::Relaxed) == SLOTS + 1 && free() == SLOTS).await;
}

/// Never answers while no permits are given.
struct HangingLookup(Arc<Semaphore>);

impl Lookup for HangingLookup {
    fn lookup(&self, _: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let permits = Arc::clone(&self.0);
        Box::pin(async move {
            let _permit = permits.acquire().await.map_err(io::Error::other)?;
            Ok(Vec::new())
        })
    }
}

#[tokio::test]
async fn a_resolver_that_hangs_holds_up_those_names_alone() {
    let hanging = Arc::new(Semaphore::new(0));
    let deadlines = Deadlines { lookup: Duration::from_secs(1), ..Deadlines::default() };
    let (jail, _) = crowded(None, deadlines, Arc::new(HangingLookup(Arc::clone(&hanging)))).await;
    let slots = jail.gate.slots.available_permits();
    let mut clients = Vec::new();
    for _ in 0..MAX_LOOKUPS + 8 {
        let mut client = TcpStream::connect(jail.proxy).await.unwrap();
        client.write_all(b"CONNECT slow.test:443 HTTP/1.1\r\nHost: slow.test:443\r\n\r\n").await.unwrap();
        clients.push(client);
    }
    eventually(|| jail.gate.lookups.available_permits() == 0).await;
    assert!(talk(jail.proxy, GOOD).await.ends_with("ok"));
    for mut client in clients {
        client.shutdown().await.unwrap();
        let got = rest(&mut client).await;
        assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("it took too long"), "{got}");
    }
    eventually(|| jail.gate.slots.available_permits() == slots).await;
    assert_eq!(jail.gate.lookups.available_permits(), 0, "those that were given up count still");
    hanging.add_permits(1);
    eventually(|| jail.gate.lookups.available_permits() == MAX_LOOKUPS).await;
}
