//! SOCKS5 from the jail (RFC 1928): CONNECT by name or address, without a login. No BIND, no UDP, and no SOCKS4, which knows
//! addresses alone.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::timeout;

use crate::egress::Door;
use crate::egress::decide::stream_check;
use crate::egress::gate::Gate;
use crate::egress::http::{self, Role};
use crate::egress::resolve::DialError;
use crate::egress::wire::{Wire, write_within};
use crate::policy::authority::{Authority, Host};
use crate::policy::host_rule::StreamCheck;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// SOCKS4's "request rejected", with the six bytes that it ignores.
const SOCKS4_REFUSED: &[u8] = &[0, 0x5b, 0, 0, 0, 0, 0, 0];

/// The answers of RFC 1928, 6, that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The connection stands.
    Succeeded = 0,
    /// What was asked for cannot be understood.
    GeneralFailure = 1,
    /// The policy denies it.
    NotAllowed = 2,
    /// The name has no address.
    HostUnreachable = 4,
    /// No address answers.
    Refused = 5,
    /// BIND, UDP.
    NoSuchCommand = 7,
    /// Neither a name nor an address.
    NoSuchAddress = 8,
}

impl Answer {
    /// The reply. The address in it is ours and says nothing.
    fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]
    }
}

/// What is known of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<T> {
    /// More bytes are needed.
    Incomplete,
    /// It is this, and this many bytes long.
    Whole(T, usize),
}

/// Whether a greeting offers a connection without a login.
pub fn greeting(bytes: &[u8]) -> Message<bool> {
    match bytes {
        [_, count, methods @ ..] if methods.len() >= usize::from(*count) => {
            let methods = &methods[..usize::from(*count)];
            Message::Whole(methods.contains(&NO_LOGIN), 2 + methods.len())
        }
        _ => Message::Incomplete,
    }
}

/// The target of a request, or why there is none.
pub fn request(bytes: &[u8]) -> Message<Result<Authority, Answer>> {
    let [version, command, _, kind, rest @ ..] = bytes else { return Message::Incomplete };
    // Nothing else has a length that is known.
    if *version != VERSION {
        return Message::Whole(Err(Answer::GeneralFailure), bytes.len());
    }
    let (start, length) = match (*kind, rest.first()) {
        (IPV4, _) => (0, 4),
        (IPV6, _) => (0, 16),
        (NAME, Some(length)) => (1, usize::from(*length)),
        (NAME, None) => return Message::Incomplete,
        _ => return Message::Whole(Err(Answer::NoSuchAddress), bytes.len()),
    };
    let (Some(host), Some([high, low])) =
        (rest.get(start..start + length), rest.get(start + length..start + length + 2))
    else {
        return Message::Incomplete;
    };
    let port = u16::from_be_bytes([*high, *low]);
    let whole = 4 + start + length + 2;
    if *command != CONNECT {
        return Message::Whole(Err(Answer::NoSuchCommand), whole);
    }
    let host = match *kind {
        // The one grammar of names; an address in the place of a name is the address.
        NAME => Host::parse(host).ok(),
        IPV4 => <[u8; 4]>::try_from(host).ok().map(|octets| Host::Ip(IpAddr::from(octets))),
        _ => <[u8; 16]>::try_from(host).ok().map(|octets| Host::Ip(IpAddr::from(octets))),
    };
    let target = host.filter(|_| port != 0).map(|host| canonical(host, port));
    Message::Whole(target.ok_or(Answer::GeneralFailure), whole)
}

fn canonical(host: Host, port: u16) -> Authority {
    match host {
        Host::Ip(ip) => Authority { host: Host::Ip(ip.to_canonical()), port },
        host => Authority { host, port },
    }
}

/// Serves a connection whose first byte is there and is 4 or 5.
pub(super) async fn serve(gate: &Arc<Gate>, mut wire: Wire) {
    if wire.ahead.first() != Some(&VERSION) {
        return end(gate, wire, SOCKS4_REFUSED).await;
    }
    let asked = timeout(gate.deadlines.head, ask(gate, &mut wire)).await;
    let target = match asked {
        Ok(Some(Ok(target))) => target,
        Ok(Some(Err(refusal))) => return end(gate, wire, &refusal).await,
        Ok(None) | Err(_) => return,
    };
    if target.port == 80 && stream_check(&gate.policy, &target) == Some(StreamCheck::Protocol) {
        // As behind CONNECT: every request is decided about, and told, by itself.
        if write_within(&wire.stream, &Answer::Succeeded.bytes(), gate.deadlines.head).await.is_ok() {
            http::serve(gate, wire, Role::Origin { door: Door::Socks, origin: target }).await;
        }
        return;
    }
    let allowed = match gate.admit(Door::Socks, &target) {
        Ok(allowed) => allowed,
        Err(_) => return end(gate, wire, &Answer::NotAllowed.bytes()).await,
    };
    let upstream = match http::dial(gate, Door::Socks, &target, allowed.dial).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let answer = match error {
                DialError::Denied(_) => Answer::NotAllowed,
                DialError::Lookup { .. } => Answer::HostUnreachable,
                DialError::Connect { .. } => Answer::Refused,
            };
            return end(gate, wire, &answer.bytes()).await;
        }
    };
    if write_within(&wire.stream, &Answer::Succeeded.bytes(), gate.deadlines.head).await.is_ok() {
        http::tunnel(gate, Door::Socks, &target, wire, upstream).await;
    }
}

/// The greeting, its answer, the request. `None` when the client left; `Err` is what it is told last.
async fn ask(gate: &Gate, wire: &mut Wire) -> Option<Result<Authority, Vec<u8>>> {
    let offered = read(wire, greeting).await?;
    let method = if offered { NO_LOGIN } else { 0xff };
    if !offered {
        return Some(Err(vec![VERSION, method]));
    }
    write_within(&wire.stream, &[VERSION, method], gate.deadlines.head).await.ok()?;
    Some(read(wire, request).await?.map_err(|answer| answer.bytes().to_vec()))
}

async fn read<T>(wire: &mut Wire, parse: impl Fn(&[u8]) -> Message<T>) -> Option<T> {
    loop {
        match parse(&wire.ahead) {
            Message::Whole(found, length) => {
                wire.consume(length);
                return Some(found);
            }
            // No message is longer than 262 bytes, so neither is what is kept for it.
            Message::Incomplete => match wire.fill().await {
                Ok(1..) => {}
                _ => return None,
            },
        }
    }
}

async fn end(gate: &Gate, wire: Wire, answer: &[u8]) {
    if write_within(&wire.stream, answer, gate.deadlines.head).await.is_ok() {
        wire.linger(gate.deadlines.linger).await;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_name(name: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, 3, name.len() as u8][..], name, &port.to_be_bytes()].concat()
    }

    #[test]
    fn requests_are_read_by_the_one_grammar_of_hosts() {
        let v4 = |octets: [u8; 4]| [&[5, 1, 0, 1][..], &octets, &443_u16.to_be_bytes()].concat();
        let mapped =
            [&[5, 1, 0, 4][..], &[0; 10], &[0xff, 0xff, 10, 0, 0, 1], &443_u16.to_be_bytes()].concat();
        for (bytes, want) in [
            (by_name(b"Api.Example.com.", 443), Ok("api.example.com:443")),
            (by_name(b"127.1", 80), Ok("127.0.0.1:80")),
            (by_name(b"2130706433", 80), Ok("127.0.0.1:80")),
            (by_name(b"[::1]", 80), Ok("[::1]:80")),
            (v4([8, 8, 8, 8]), Ok("8.8.8.8:443")),
            (mapped, Ok("10.0.0.1:443")),
            (by_name(b"evil.test\0.example.com", 443), Err(Answer::GeneralFailure)),
            (by_name(b"a.test:80", 443), Err(Answer::GeneralFailure)),
            (by_name(b"user@a.test", 443), Err(Answer::GeneralFailure)),
            (by_name(b"", 443), Err(Answer::GeneralFailure)),
            (by_name(&[b'a'; 255], 443), Err(Answer::GeneralFailure)),
            (by_name(b"a.test", 0), Err(Answer::GeneralFailure)),
            ([&[5, 2][..], &by_name(b"a.test", 80)[2..]].concat(), Err(Answer::NoSuchCommand)),
            ([&[5, 3][..], &by_name(b"a.test", 80)[2..]].concat(), Err(Answer::NoSuchCommand)),
            (vec![5, 1, 0, 2, 1, 1], Err(Answer::NoSuchAddress)),
            (vec![4, 1, 0, 80, 1, 1], Err(Answer::GeneralFailure)),
        ] {
            let Message::Whole(got, length) = request(&bytes) else { panic!("{bytes:?}") };
            assert_eq!(length, bytes.len());
            assert_eq!(got.map(|target| target.to_string()), want.map(str::to_owned), "{bytes:?}");
        }
    }

    #[test]
    fn a_greeting_has_to_offer_no_login() {
        assert_eq!(greeting(&[5]), Message::Incomplete);
        assert_eq!(greeting(&[5, 2, 2]), Message::Incomplete);
        assert_eq!(greeting(&[5, 0]), Message::Whole(false, 2));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Message::Whole(true, 4));
        assert_eq!(greeting(&[5, 1, 2]), Message::Whole(false, 3));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_its_beginning(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Message::Whole(_, length) = request(&bytes) {
                prop_assert!(length <= bytes.len());
            }
            if let Message::Whole(_, length) = greeting(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn the_longest_message_is_never_incomplete(bytes in proptest::collection::vec(any::<u8>(), 262..300)) {
            prop_assert!(greeting(&bytes) != Message::Incomplete);
            prop_assert!(request(&bytes) != Message::Incomplete);
        }
    }
}
