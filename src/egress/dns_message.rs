//! PURE: DNS messages, as much as a resolver needs that knows one record type. Read strictly, written by hand.

use std::net::Ipv4Addr;

use crate::policy::authority::HostName;

/// The longest name on the wire (RFC 1035).
const MAX_WIRE_NAME: usize = 255;
const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_OPT: u16 = 41;
const TYPE_ANY: u16 = 255;
const CLASS_IN: u16 = 1;
/// What we say that we can take over UDP; the value that avoids fragments (DNS flag day 2020).
const UDP_SIZE: u16 = 1232;
/// How long an answer may be kept, in seconds. An address never changes its meaning, so this only bounds how long a
/// program goes without asking.
const TTL: u32 = 60;

/// A query that can be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    id: u16,
    flags: u16,
    question: Vec<u8>,
    has_opt: bool,
    /// What is asked.
    pub ask: Ask,
}

/// What a query asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The IPv4 address of a name.
    Address(HostName),
    /// Some other record of a name.
    Other(HostName),
    /// A record of something that is no host name: an address in disguise, escapes, the root.
    NoName,
    /// An operation or a class that we do not have.
    Unsupported,
}

/// The answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name has this address.
    Address(Ipv4Addr),
    /// The name exists and has no such record.
    NoData,
    /// The name does not exist.
    NoSuchName,
    /// Not now.
    Failure,
    /// Never.
    NotImplemented,
}

impl Query {
    /// Reads a query. `None` for what is no well-formed query with exactly one question: it gets no answer.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let [id, flags, questions, answers, authorities, additionals] = header(message)?;
        // A response, a truncated message, or records where a query has none.
        if flags & 0x8200 != 0 || questions != 1 || answers != 0 || authorities != 0 || additionals > 1 {
            return None;
        }
        let (name, rest) = read_name(&message[HEADER..])?;
        let (fixed, rest) = rest.split_first_chunk::<4>()?;
        let question = message[HEADER..message.len() - rest.len()].to_vec();
        let has_opt = match additionals {
            0 if rest.is_empty() => false,
            1 => is_opt(rest)?,
            _ => return None,
        };
        let (kind, class) =
            (u16::from_be_bytes([fixed[0], fixed[1]]), u16::from_be_bytes([fixed[2], fixed[3]]));
        let ask = match (flags >> 11 & 0xf, class, HostName::parse(&name)) {
            (0, CLASS_IN, Ok(name)) if kind == TYPE_A || kind == TYPE_ANY => Ask::Address(name),
            (0, CLASS_IN, Ok(name)) => Ask::Other(name),
            (0, CLASS_IN, Err(_)) => Ask::NoName,
            _ => Ask::Unsupported,
        };
        Some(Self { id, flags, question, has_opt, ask })
    }

    /// Writes the response. It has at most 300 bytes, so that it is never truncated.
    pub fn respond(&self, answer: Answer) -> Vec<u8> {
        let code: u16 = match answer {
            Answer::Address(_) | Answer::NoData => 0,
            Answer::Failure => 2,
            Answer::NoSuchName => 3,
            Answer::NotImplemented => 4,
        };
        // A response, recursion available; the operation and "recursion desired" as they were asked.
        let flags = 0x8080 | self.flags & 0x7900 | code;
        let counts = [1, u16::from(matches!(answer, Answer::Address(_))), 0, u16::from(self.has_opt)];
        let mut message = Vec::with_capacity(HEADER + self.question.len() + 32);
        for field in [self.id, flags].into_iter().chain(counts) {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message.extend_from_slice(&self.question);
        if let Answer::Address(ip) = answer {
            // The name is a pointer to the question's.
            message.extend_from_slice(&[0xc0, HEADER as u8]);
            message.extend_from_slice(&TYPE_A.to_be_bytes());
            message.extend_from_slice(&CLASS_IN.to_be_bytes());
            message.extend_from_slice(&TTL.to_be_bytes());
            message.extend_from_slice(&4u16.to_be_bytes());
            message.extend_from_slice(&ip.octets());
        }
        if self.has_opt {
            message.push(0);
            message.extend_from_slice(&TYPE_OPT.to_be_bytes());
            message.extend_from_slice(&UDP_SIZE.to_be_bytes());
            message.extend_from_slice(&[0; 6]);
        }
        message
    }
}

fn header(message: &[u8]) -> Option<[u16; 6]> {
    let bytes = message.first_chunk::<HEADER>()?;
    Some(std::array::from_fn(|field| u16::from_be_bytes([bytes[2 * field], bytes[2 * field + 1]])))
}

/// A name in dotted form, and what follows it. Compression has no place in a question, so a pointer is malformed.
fn read_name(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut name = Vec::new();
    loop {
        let (&length, rest) = bytes.split_first()?;
        if length == 0 {
            return Some((name, rest));
        }
        if length > 63 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(length))?;
        if !name.is_empty() {
            name.push(b'.');
        }
        // A dot inside a label would read as a border of labels. A NUL is in no name, so the whole stays none.
        name.extend(label.iter().map(|&byte| if byte == b'.' { 0 } else { byte }));
        if name.len() + 2 > MAX_WIRE_NAME {
            return None;
        }
        bytes = rest;
    }
}

/// Whether the one additional record is an OPT of the root that ends with the message; `None` when it is malformed.
fn is_opt(record: &[u8]) -> Option<bool> {
    let (name, rest) = read_name(record)?;
    let (fixed, data) = rest.split_first_chunk::<10>()?;
    let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
    let length = u16::from_be_bytes([fixed[8], fixed[9]]);
    (data.len() == usize::from(length)).then_some(name.is_empty() && kind == TYPE_OPT)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A query for `name`; a label may hold any byte but a dot.
    pub(crate) fn query(name: &[u8], kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split(|&byte| byte == b'.') {
            message.push(label.len() as u8);
            message.extend_from_slice(label);
        }
        message.push(0);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        message
    }

    fn name(text: &str) -> HostName {
        HostName::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn questions_are_told_apart() {
        for (text, kind, want) in [
            (&b"Example.COM"[..], 1, Ask::Address(name("example.com"))),
            (b"example.com", 255, Ask::Address(name("example.com"))),
            (b"example.com", 28, Ask::Other(name("example.com"))),
            (b"example.com", 65, Ask::Other(name("example.com"))),
            (b"127.0.0.1", 1, Ask::NoName),
            (b"a\0.example.com", 1, Ask::NoName),
            (b"a b.example.com", 16, Ask::NoName),
            (b"\xff.example.com", 1, Ask::NoName),
        ] {
            assert_eq!(Query::parse(&query(text, kind)).unwrap().ask, want, "{text:?}");
        }
        let mut chaos = query(b"version.bind", 16);
        *chaos.last_mut().unwrap() = 3;
        assert_eq!(Query::parse(&chaos).unwrap().ask, Ask::Unsupported);
        let mut update = query(b"example.com", 1);
        update[2] = 5 << 3;
        assert_eq!(Query::parse(&update).unwrap().ask, Ask::Unsupported);
        let dotted = [&query(b"", 1)[..12], b"\x0bexample.com\0\0\x01\0\x01"].concat();
        assert_eq!(Query::parse(&dotted).unwrap().ask, Ask::NoName, "a dot within a label");
    }

    #[test]
    fn malformed_messages_are_ignored() {
        let good = query(b"example.com", 1);
        for length in 0..good.len() {
            assert_eq!(Query::parse(&good[..length]), None, "cut at {length}");
        }
        let with = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut message = good.clone();
            edit(&mut message);
            Query::parse(&message)
        };
        assert!(with(&|_| ()).is_some());
        assert_eq!(with(&|m| m[2] |= 0x80), None, "a response");
        assert_eq!(with(&|m| m[2] |= 0x02), None, "truncated");
        assert_eq!(with(&|m| m[5] = 0), None, "no question");
        assert_eq!(with(&|m| m[5] = 2), None, "two questions");
        assert_eq!(with(&|m| m[7] = 1), None, "an answer");
        assert_eq!(with(&|m| m.push(0)), None, "trailing bytes");
        assert_eq!(with(&|m| m[12] = 0xc0), None, "a pointer");
        assert_eq!(with(&|m| m[11] = 1), None, "a missing record");
        let long = query([&[b'a'; 63][..]; 5].join(&b'.').as_slice(), 1);
        assert_eq!(Query::parse(&long), None, "a name of more than 255 bytes");
    }

    #[test]
    fn responses_echo_the_question_and_edns() {
        let mut message = query(b"ExAmple.com", 1);
        let plain = Query::parse(&message).unwrap();
        let answer = plain.respond(Answer::Address(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(answer[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[12..message.len()], message[12..]);
        assert_eq!(answer[message.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 2]);
        assert_eq!(plain.respond(Answer::NoSuchName)[3] & 0xf, 3);
        assert_eq!(plain.respond(Answer::NoData).len(), message.len());

        message[11] = 1;
        message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 10, 0, 0]);
        let edns = Query::parse(&message).unwrap().respond(Answer::NoData);
        assert_eq!(edns[edns.len() - 11..], [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        assert_eq!(edns[11], 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_ignored_or_answered_within_bounds(message in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(query) = Query::parse(&message) {
                prop_assert!(query.respond(Answer::Address(Ipv4Addr::LOCALHOST)).len() <= 300);
            }
        }

        #[test]
        fn any_name_survives_a_header(name in proptest::collection::vec(any::<u8>(), 0..40), kind in any::<u16>()) {
            let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            message.extend_from_slice(&name);
            message.extend_from_slice(&kind.to_be_bytes());
            message.extend_from_slice(&[0, 1]);
            if let Some(query) = Query::parse(&message) {
                prop_assert!(query.respond(Answer::NoData).len() <= 300);
            }
        }
    }
}
