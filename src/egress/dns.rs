//! The resolver inside. It answers names that a rule could allow with addresses of its own, and asks nobody: a name
//! leaves the machine only when an allowed connection to it is made.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::egress::dns_message::{Answer, Ask, Query};
use crate::egress::gate::Gate;
use crate::egress::limits::{MAX_DNS_ERRORS, MAX_DNS_WORK};
use crate::egress::listener;
use crate::egress::names::Owner;
use crate::egress::reach::{self, could_allow_name, single_ports};
use crate::egress::wire::{Wire, write_all};
use crate::policy::authority::HostName;

/// The largest query that is read; real ones have some sixty bytes.
const MAX_QUERY: usize = 4096;

/// Answers over UDP.
pub(super) async fn serve_udp(gate: &Arc<Gate>, socket: UdpSocket) -> io::Result<Infallible> {
    let socket = Arc::new(socket);
    let mut work = JoinSet::new();
    let mut buffer = vec![0; MAX_QUERY];
    let mut errors = 0;
    loop {
        let received = tokio::select! {
            Some(_) = work.join_next() => continue,
            received = socket.recv_from(&mut buffer) => received,
        };
        let (length, client) = match received {
            Ok(received) => received,
            // An error of a datagram (a client that is gone) is not one of the socket.
            Err(_) if errors < MAX_DNS_ERRORS => {
                errors += 1;
                tokio::time::sleep(listener::REST).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        errors = 0;
        let Some(query) = Query::parse(&buffer[..length]) else {
            continue;
        };
        let (answer, wanted) = answer(gate, &query);
        if wanted.addrs.is_empty() {
            // A client that takes no answer will ask again.
            let _ = socket.try_send_to(&query.respond(answer), client);
        } else if work.len() < MAX_DNS_WORK {
            let (gate, socket) = (Arc::clone(gate), Arc::clone(&socket));
            work.spawn(async move {
                gate.listen_late(&wanted.host, wanted.owner, wanted.addrs).await;
                let _ = socket.send_to(&query.respond(answer), client).await;
            });
        }
    }
}

/// Answers over TCP.
pub(super) async fn serve_tcp(gate: &Arc<Gate>, listener: TcpListener) -> io::Result<Infallible> {
    listener::accept(gate, listener, serve_connection).await
}

async fn serve_connection(gate: Arc<Gate>, stream: TcpStream) {
    let mut wire = Wire::new(stream);
    while let Ok(Some(message)) = timeout(gate.deadlines.dns, read_message(&mut wire)).await {
        let Some(query) = Query::parse(&message) else {
            return;
        };
        let (answer, wanted) = answer(&gate, &query);
        gate.listen_late(&wanted.host, wanted.owner, wanted.addrs).await;
        let response = query.respond(answer);
        // A response has at most 300 bytes.
        let framed = [&(response.len() as u16).to_be_bytes()[..], &response].concat();
        let Ok(Ok(())) = timeout(gate.deadlines.dns, write_all(&wire.stream, &framed)).await else {
            return;
        };
    }
}

async fn read_message(wire: &mut Wire) -> Option<Vec<u8>> {
    loop {
        if let Some((length, rest)) = wire.ahead.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length > MAX_QUERY {
                return None;
            }
            if let Some(message) = rest.get(..length) {
                let message = message.to_vec();
                wire.consume(2 + length);
                return Some(message);
            }
        }
        if wire.fill().await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// The listeners that must be there before a name is answered.
struct Wanted {
    host: String,
    owner: Owner,
    addrs: Vec<SocketAddrV4>,
}

fn answer(gate: &Gate, query: &Query) -> (Answer, Wanted) {
    let none = || Wanted { host: String::new(), owner: Owner::Exact, addrs: Vec::new() };
    let name = match &query.ask {
        Ask::Unsupported => return (Answer::NotImplemented, none()),
        Ask::NoName => return (Answer::NoSuchName, none()),
        Ask::Address(name) | Ask::Other(name) => name,
    };
    let is_address = matches!(query.ask, Ask::Address(_));
    // These mean the jail itself, whatever the rules say.
    if name.is_localhost() {
        let answer = if is_address { Answer::Address(Ipv4Addr::LOCALHOST) } else { Answer::NoData };
        return (answer, none());
    }
    if !could_allow_name(&gate.policy, name) {
        // Many programs ask for the name of an address that they got from us; nobody wanted to go there.
        if !is_reverse(name) {
            gate.tell_no_such_name(name, !is_address);
        }
        return (Answer::NoSuchName, none());
    }
    if !is_address {
        return (Answer::NoData, none());
    }
    let Some(ip) = gate.address_of(name) else {
        return (Answer::Failure, none());
    };
    let addrs =
        single_ports(&gate.policy, name).into_iter().map(|port| SocketAddrV4::new(ip, port)).collect();
    (Answer::Address(ip), Wanted { host: name.to_string(), owner: reach::owner(&gate.policy, name), addrs })
}

fn is_reverse(name: &HostName) -> bool {
    name.as_str().ends_with(".in-addr.arpa") || name.as_str().ends_with(".ip6.arpa")
}
