//! What it costs that the traffic with a host is read: throughput, latency of a request and of a new connection, against a
//! direct TLS connection and against a tunnel that is not read, for HTTP/1.1 and HTTP/2, in one run over loopback. Targets:
//! 60 % of the direct throughput with three processors or more, 40 % with two.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ai_jail::config::settings::{Ech, Inspect, NetworkMode, ResolveTarget};
use ai_jail::egress::inspect::Inspector;
use ai_jail::egress::{Doors, LateBind, NetEvent, Observer, serve};
use ai_jail::policy::authority::Host;
use ai_jail::policy::host_rule::HostPattern;
use ai_jail::policy::net::NetPolicy;
use ai_jail::policy::origin::{Origin, Sourced};
use ai_jail::policy::upstream::Upstream;
use ai_jail::secrets::{Places, Secret, SecretValue, Seed, Vault, sentinel};
use ai_jail::tls::ca::{Alpn, SessionCa};
use ai_jail::tls::roots::{Offer, Roots};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOST: &str = "api.test";
/// Bytes of the large answer.
const LARGE: u64 = 512 << 20;
/// Bytes of the small one.
const SMALL: u64 = 512;
const REQUESTS: usize = 2000;
const CONNECTIONS: usize = 300;
/// Rounds; the best throughput and the median of the others count.
const ROUNDS: usize = 3;
const PIECE: usize = 64 * 1024;

/// Nobody listens.
struct Quiet;

impl Observer for Quiet {
    fn decided(&self, _event: NetEvent) {}
}

impl LateBind for Quiet {
    fn bind(&self, _: SocketAddrV4) -> Pin<Box<dyn Future<Output = io::Result<TcpListener>> + Send + '_>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect(&self, _: SocketAddrV4) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + '_>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

/// So many bytes of text.
struct Zeros(u64);

impl Body for Zeros {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static TEXT: [u8; PIECE] = [b'x'; PIECE];
        let count = self.0.min(PIECE as u64);
        self.0 -= count;
        let piece = Bytes::from_static(&TEXT[..usize::try_from(count).unwrap()]);
        Poll::Ready((count > 0).then(|| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

fn on_a_thread<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    })
}

fn origin(world: &SessionCa, alpn: Alpn) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let acceptor = TlsAcceptor::from(world.server(&Host::parse(HOST.as_bytes()).unwrap(), alpn).unwrap());
    on_a_thread(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                match alpn {
                    Alpn::Http2 => {
                        let service = service_fn(|request: Request<Incoming>| async move {
                            let size = request.uri().path()[1..].parse().unwrap();
                            Ok::<_, Infallible>(Response::new(Zeros(size)))
                        });
                        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    }
                    _ => answer_plainly(stream).await,
                }
            });
        }
    });
    addr
}

async fn answer_plainly(mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    let text = vec![b'x'; PIECE];
    let mut got = Vec::new();
    loop {
        while !got.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut got).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        let head = String::from_utf8(std::mem::take(&mut got)).unwrap();
        let mut left: u64 = head.split([' ', '/']).nth(2).unwrap().parse().unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        while left > 0 {
            let count = usize::try_from(left.min(PIECE as u64)).unwrap();
            left -= count as u64;
            if stream.write_all(&text[..count]).await.is_err() {
                return;
            }
        }
        let _ = stream.flush().await;
    }
}

/// The doors; returns the proxy's address and the roots that the jail's programs trust.
fn jail(origin: SocketAddr, world: &SessionCa, inspected: bool) -> (SocketAddr, Roots) {
    let source = || Origin::built_in("the benchmark");
    let pattern = HostPattern::parse(HOST).unwrap();
    let policy = NetPolicy {
        mode: NetworkMode::Filtered,
        allow: vec![Sourced::new(pattern.clone(), source())],
        deny: Vec::new(),
        allow_private: Vec::new(),
        upstream: Upstream::default(),
        forward: Vec::new(),
        publish: Vec::new(),
        resolve: BTreeMap::from([(
            HOST.to_owned(),
            Sourced::new(ResolveTarget { addr: origin.ip(), port: Some(origin.port()) }, source()),
        )]),
        http: Vec::new(),
        inspect: Inspect::Needed,
        ech: Ech::Refuse,
        secret_hosts: if inspected { vec![Sourced::new(pattern.clone(), source())] } else { Vec::new() },
    };
    let value = SecretValue::new(b"sk-ant-api03-Zq4Rm9LtX2vB7nKc5WyHd8Js".to_vec()).unwrap();
    let fake = sentinel(&Seed::new([7; 32]), "KEY", &value, &[]).unwrap();
    let secret = Secret {
        name: "KEY".to_owned(),
        value,
        sentinel: fake,
        hosts: vec![pattern],
        places: Places::default(),
    };
    let ca = SessionCa::new(OffsetDateTime::now_utc()).unwrap();
    let trusted = if inspected { &ca } else { world };
    let inside = Roots::new(trusted.certificate_pem().as_bytes().to_vec());
    let roots = Arc::new(Roots::new(world.certificate_pem().as_bytes().to_vec()));
    let inspector = Inspector {
        ca,
        registry_roots: Arc::clone(&roots),
        roots,
        vault: Arc::new(Vault::new(vec![secret])),
    };
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let doors = Doors {
        dns_udp: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        dns_tcp: bind(),
        http: bind(),
        https: bind(),
        proxy: bind(),
        forward: Vec::new(),
        publish: Vec::new(),
    };
    let proxy = doors.proxy.local_addr().unwrap();
    on_a_thread(serve(doors, Arc::new(policy), Some(Arc::new(inspector)), Arc::new(Quiet), Arc::new(Quiet)));
    (proxy, inside)
}

/// One way to the origin.
#[derive(Clone)]
struct Way {
    addr: SocketAddr,
    connect: bool,
    tls: TlsConnector,
}

impl Way {
    async fn open(&self) -> TlsStream<tokio::net::TcpStream> {
        let mut stream = tokio::net::TcpStream::connect(self.addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        if self.connect {
            let ask = format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n");
            stream.write_all(ask.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut answer).await.unwrap();
            }
        }
        self.tls.connect(ServerName::try_from(HOST).unwrap(), stream).await.unwrap()
    }
}

/// A client's connection.
enum Client {
    Plain(Box<TlsStream<tokio::net::TcpStream>>),
    Second(hyper::client::conn::http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    async fn open(way: &Way, alpn: Alpn) -> Self {
        let stream = way.open().await;
        match alpn {
            Alpn::Http2 => {
                let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
                let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                Self::Second(sender)
            }
            _ => Self::Plain(Box::new(stream)),
        }
    }

    /// Gets so many bytes.
    async fn get(&mut self, size: u64) {
        match self {
            Self::Plain(stream) => {
                let ask = format!("GET /{size} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
                stream.write_all(ask.as_bytes()).await.unwrap();
                // What the runtime would not take at once is still in the session.
                stream.flush().await.unwrap();
                let (mut buffer, mut head) = (vec![0; PIECE], Vec::new());
                let body = loop {
                    let count = stream.read(&mut buffer).await.unwrap();
                    head.extend_from_slice(&buffer[..count]);
                    if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                        break head.len() - end - 4;
                    }
                };
                let mut left = size - body as u64;
                while left > 0 {
                    left -= stream.read(&mut buffer).await.unwrap() as u64;
                }
            }
            Self::Second(sender) => {
                let request = Request::get(format!("https://{HOST}/{size}")).body(Empty::new()).unwrap();
                let mut body = sender.send_request(request).await.unwrap().into_body();
                let mut got = 0;
                while let Some(frame) = body.frame().await {
                    got += frame.unwrap().data_ref().map_or(0, Bytes::len) as u64;
                }
                assert_eq!(got, size);
            }
        }
    }
}

/// Throughput in MB/s, a request in µs, a connection with its request in µs.
async fn measure(way: Way, alpn: Alpn) -> (f64, f64, f64) {
    let mut client = Client::open(&way, alpn).await;
    client.get(LARGE / 8).await;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        client.get(LARGE).await;
        best = best.min(start.elapsed());
    }
    let mut requests = VecDeque::new();
    for _ in 0..REQUESTS {
        let start = Instant::now();
        client.get(SMALL).await;
        requests.push_back(start.elapsed());
    }
    let mut connections = VecDeque::new();
    for _ in 0..CONNECTIONS {
        let start = Instant::now();
        Client::open(&way, alpn).await.get(SMALL).await;
        connections.push_back(start.elapsed());
    }
    let micros = |times: &mut VecDeque<Duration>| {
        times.make_contiguous().sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    (LARGE as f64 / 1e6 / best.as_secs_f64(), micros(&mut requests), micros(&mut connections))
}

fn main() {
    let world = SessionCa::new(OffsetDateTime::now_utc()).unwrap();
    println!("{} processors", std::thread::available_parallelism().unwrap());
    for (name, alpn, offer) in
        [("HTTP/1.1", Alpn::Http1, Offer::Http1), ("HTTP/2", Alpn::Http2, Offer::Http2)]
    {
        let origin = origin(&world, alpn);
        let direct = Roots::new(world.certificate_pem().as_bytes().to_vec());
        let mut base = None;
        for way in ["direct", "tunnel", "read"] {
            let (addr, roots) = match way {
                "direct" => (origin, None),
                way => {
                    let (addr, roots) = jail(origin, &world, way == "read");
                    (addr, Some(roots))
                }
            };
            let mut config = (*roots.as_ref().unwrap_or(&direct).client(offer)).clone();
            // Each connection is a first one.
            config.resumption = Resumption::disabled();
            let tls = TlsConnector::from(Arc::new(config));
            let way_to = Way { addr, connect: way != "direct", tls };
            let (speed, request, connection) = on_a_thread(measure(way_to, alpn)).join().unwrap();
            let of = base.get_or_insert((speed, request, connection));
            println!(
                "{name:9} {way:7} {speed:7.0} MB/s ({:3.0} %)   request {request:6.0} µs (+{:.0})   new connection {connection:6.0} µs (+{:.0})",
                100.0 * speed / of.0,
                request - of.1,
                connection - of.2,
            );
        }
    }
    let hosts: Vec<_> = (0..1000).map(|at| Host::parse(format!("h{at}.test").as_bytes()).unwrap()).collect();
    let start = Instant::now();
    for host in &hosts {
        world.server(host, Alpn::Http1).unwrap();
    }
    println!("a host's certificate: {:.0} µs, over 1,000 hosts", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    for _ in 0..100 {
        SessionCa::new(OffsetDateTime::now_utc()).unwrap();
    }
    println!("a session's authority: {:.0} µs", start.elapsed().as_secs_f64() * 1e4);
}
