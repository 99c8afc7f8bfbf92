//! The doors to the network, bound inside the jail's network namespace and held outside.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use crate::policy::net::PROXY_PORT;

use super::Failure;

/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;
/// Loopback's own address besides 127.0.0.1: without one, `getaddrinfo` with `AI_ADDRCONFIG` finds nothing.
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The block that names get their addresses from (RFC 2544, never routed).
const NAMES: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Makes the addresses, routes and listeners: DNS over UDP and TCP, HTTP, HTTPS, the proxy, then those on `ports`.
pub(super) fn doors(routes: &[(Ipv4Addr, u8)], ports: &[u16]) -> Result<Vec<OwnedFd>, Failure> {
    let mut netlink = Netlink::open()?;
    netlink
        .add_address(OWN_ADDRESS)
        .map_err(|error| Failure::new("cannot add an address to the jail's loopback", error))?;
    for (network, length) in std::iter::once(&NAMES).chain(routes) {
        netlink
            .add_local_route(*network, *length)
            .map_err(|error| Failure::new(format!("cannot add the local route {network}/{length}"), error))?;
    }
    let tcp = |address: Ipv4Addr, port| {
        listener(SocketAddrV4::new(address, port))
            .map_err(|error| Failure::new(format!("cannot listen on port {port} in the jail"), error))
    };
    let dns = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53))
        .map_err(|error| Failure::new("cannot listen on UDP port 53 in the jail", error))?;
    let mut doors = vec![
        dns.into(),
        tcp(Ipv4Addr::LOCALHOST, 53)?,
        tcp(Ipv4Addr::UNSPECIFIED, 80)?,
        tcp(Ipv4Addr::UNSPECIFIED, 443)?,
        tcp(Ipv4Addr::LOCALHOST, PROXY_PORT)?,
    ];
    for port in ports {
        doors.push(tcp(Ipv4Addr::LOCALHOST, *port)?);
    }
    Ok(doors)
}

/// A TCP listener in the namespace that was entered.
pub(super) fn listener(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener.into())
}

/// A TCP connection in the namespace that was entered, begun and not waited for.
pub(super) fn connection(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// A socket to the kernel's rtnetlink(7).
struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, sequence: 0 })
    }

    fn add_address(&mut self, address: Ipv4Addr) -> io::Result<()> {
        const IFA_ADDRESS: u16 = 1;
        const IFA_LOCAL: u16 = 2;
        let mut body = vec![libc::AF_INET as u8, 32, 0, libc::RT_SCOPE_HOST];
        body.extend(LOOPBACK.to_ne_bytes());
        attribute(&mut body, IFA_LOCAL, &address.octets());
        attribute(&mut body, IFA_ADDRESS, &address.octets());
        self.ask(libc::RTM_NEWADDR, &body)
    }

    fn add_local_route(&mut self, network: Ipv4Addr, length: u8) -> io::Result<()> {
        let mut body = vec![
            libc::AF_INET as u8,
            length,
            0,
            0,
            libc::RT_TABLE_LOCAL,
            libc::RTPROT_BOOT,
            libc::RT_SCOPE_HOST,
            libc::RTN_LOCAL,
        ];
        body.extend(0_u32.to_ne_bytes());
        attribute(&mut body, libc::RTA_DST, &network.octets());
        attribute(&mut body, libc::RTA_OIF, &LOOPBACK.to_ne_bytes());
        self.ask(libc::RTM_NEWROUTE, &body)
    }

    /// Sends one request and waits for its acknowledgement, which the kernel makes before `send` returns.
    fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        const HEADER: usize = 16;
        self.sequence += 1;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0; 1024];
        let (length, _) = recv(self.socket.as_fd(), &mut answer[..], RecvFlags::DONTWAIT)?;
        let code = answer[..length]
            .get(HEADER..HEADER + 4)
            .and_then(|bytes| bytes.first_chunk())
            .map(|bytes| i32::from_ne_bytes(*bytes));
        match code {
            Some(0) => Ok(()),
            Some(code) if code == -libc::EEXIST => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::other("the kernel's answer is too short")),
        }
    }
}

/// Appends one attribute; all of ours are multiples of four bytes, so there is no padding.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    const HEADER: u16 = 4;
    message.extend((HEADER + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
}
