//! Ways out by a socket.

use std::io::{Error, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{outcome, result};

/// Nothing on a loopback takes longer; what the jail drops silently must not hold the tests up.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Connects to an abstract socket.
pub fn connect_abstract(name: &str) -> Value {
    result(UnixAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address)))
}

/// Connects to a socket file.
pub fn connect_unix(path: &str) -> Value {
    result(UnixStream::connect(path))
}

/// Connects to a literal address and, when that works, waits for a byte of the server.
pub fn tcp(target: &str) -> Value {
    result(SocketAddr::parse(target).and_then(|address| {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        stream.read_exact(&mut [0])
    }))
}

/// Asks a web server for `/hello`: a name and a port, looked up as every program of this language does.
pub fn get(target: &str) -> Value {
    let host = target.split(':').next().unwrap_or_default();
    result(TcpStream::connect(target).and_then(|mut stream| {
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET /hello HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("hello from {host}")) {
            true => Ok(()),
            false => Err(Error::other(answer)),
        }
    }))
}

/// Sends a datagram to a literal address and waits for an answer.
pub fn udp(target: &str) -> Value {
    result(SocketAddr::parse(target).and_then(|address| exchange(address, b"ping").map(|_| ())))
}

/// Asks a name server for the IPv4 address of a name. `ok` when a response with at least one answer came;
/// `code` is the response code and `answers` their number.
pub fn dns(server: &str, name: &str) -> Value {
    let mut query = vec![0x13, 0x37, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    match SocketAddr::parse(server).and_then(|address| exchange(address, &query)) {
        Ok(response) if response.len() >= 12 => {
            let answers = u16::from_be_bytes([response[6], response[7]]);
            json!({"ok": answers > 0, "errno": 0, "answers": answers, "code": response[3] & 15})
        }
        Ok(_) => json!({"ok": false, "errno": 0, "error": "a short response"}),
        Err(error) => result::<()>(Err(error)),
    }
}

/// Sends an ICMP echo by an unprivileged ping socket.
pub fn ping(address: &str) -> Value {
    let Ok(address) = address.parse::<std::net::Ipv4Addr>() else {
        return json!({"ok": false, "errno": libc::EINVAL});
    };
    let attempt = || {
        let socket = UdpSocket::from(open(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP)?);
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.send_to(&[8, 0, 0xf7, 0xfe, 0, 0, 0, 1], (address, 0))?;
        socket.recv(&mut [0; 64])
    };
    result(attempt())
}

/// Opens a socket of every family that a jail has no use for, reported by name.
pub fn families() -> Value {
    const NETLINK_KOBJECT_UEVENT: i32 = 15;
    const IPPROTO_SCTP: i32 = 132;
    const IPPROTO_MPTCP: i32 = 262;
    let table = [
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 0),
        ("can", libc::AF_CAN, libc::SOCK_RAW, 1),
        ("rds", libc::AF_RDS, libc::SOCK_SEQPACKET, 0),
        ("tipc", libc::AF_TIPC, libc::SOCK_RDM, 0),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW, 0),
        ("netlink_uevent", libc::AF_NETLINK, libc::SOCK_RAW, NETLINK_KOBJECT_UEVENT),
        ("netlink_generic", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC),
        ("netlink_audit", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT),
        ("mptcp", libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP),
        ("mptcp6", libc::AF_INET6, libc::SOCK_STREAM, IPPROTO_MPTCP),
        ("sctp", libc::AF_INET, libc::SOCK_STREAM, IPPROTO_SCTP),
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
    ];
    let families: Map<String, Value> = table
        .into_iter()
        // SAFETY: socket takes numbers only.
        .map(|(name, family, kind, protocol)| {
            (name.to_owned(), outcome(i64::from(unsafe { libc::socket(family, kind, protocol) })))
        })
        .collect();
    json!({"ok": true, "errno": 0, "families": families})
}

fn exchange(address: SocketAddr, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(address)?;
    socket.send(bytes)?;
    let mut buffer = vec![0; 1500];
    let count = socket.recv(&mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

fn open(family: i32, kind: i32, protocol: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: socket takes numbers only.
    match unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) } {
        -1 => Err(Error::last_os_error()),
        // SAFETY: a new descriptor that nothing else owns.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

trait Literal: Sized {
    fn parse(text: &str) -> std::io::Result<Self>;
}

impl Literal for SocketAddr {
    fn parse(text: &str) -> std::io::Result<Self> {
        text.parse().map_err(|_| Error::from_raw_os_error(libc::EINVAL))
    }
}
