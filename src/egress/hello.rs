//! PURE: the first bytes that a client sends on a checked port (NET-5). On 443 a TLS ClientHello with the name that was
//! asked for, on 22 an SSH identification; anything else is cut, unless the rule ends in `/tcp`.
//!
//! RFC 8446 (TLS 1.3), RFC 6066 (server_name), RFC 4253 (SSH). Nothing is trusted: every length is checked, and what is
//! not understood is refused.

use crate::policy::authority::{Host, HostName};

/// A ClientHello is no longer, over all its records (bytes). Post-quantum key shares make 2 KiB of it common.
pub const HELLO_LIMIT: usize = 16 * 1024;
/// An SSH identification is no longer, with its line end (RFC 4253, 4.2).
pub const SSH_LIMIT: usize = 255;

const RECORD_HANDSHAKE: u8 = 22;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const EXTENSION_ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// What the bytes so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// More bytes are needed.
    Incomplete,
    /// The stream may pass.
    Passes,
    /// It may not, for this reason.
    Refused(Objection),
}

/// Why a stream is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// It is not TLS.
    NotTls,
    /// It is not SSH.
    NotSsh,
    /// The ClientHello names no host.
    NoName,
    /// It names another host.
    OtherName(String),
    /// It hides the name (encrypted ClientHello).
    Encrypted,
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTls => f.write_str("what is sent is not TLS"),
            Self::NotSsh => f.write_str("what is sent is not SSH"),
            Self::NoName => f.write_str("the TLS handshake names no host"),
            Self::OtherName(name) => write!(f, "the TLS handshake names {name}"),
            Self::Encrypted => f.write_str("the TLS handshake hides the host's name (encrypted ClientHello)"),
        }
    }
}

/// What becomes of a ClientHello that hides a name (encrypted ClientHello): it shows another one, or the same in disguise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// It is refused.
    Refused,
    /// It passes, whatever name it shows.
    DangerPasses,
    /// What is hidden is no concern of whoever ends the connection here: the name that it shows counts.
    Ignored,
}

/// Judges the first `bytes` of a TLS client that asked for `host`.
///
/// A host that is an address needs no name, since clients send none for addresses; a name that is sent all the same
/// has no rule that could allow it.
pub fn tls(bytes: &[u8], host: &Host, hidden: Hidden) -> Opening {
    // What is said must not depend on how much came at once.
    let bytes = &bytes[..bytes.len().min(HELLO_LIMIT)];
    let hello = match client_hello(bytes) {
        Ok(Some(hello)) => hello,
        Ok(None) if bytes.len() < HELLO_LIMIT => return Opening::Incomplete,
        Ok(None) | Err(Malformed) => return Opening::Refused(Objection::NotTls),
    };
    let names = match names(&hello) {
        Ok(names) => names,
        Err(Malformed) => return Opening::Refused(Objection::NotTls),
    };
    match hidden {
        Hidden::Refused if names.encrypted => return Opening::Refused(Objection::Encrypted),
        Hidden::DangerPasses if names.encrypted => return Opening::Passes,
        _ => {}
    }
    match (host, names.server) {
        (Host::Ip(_), None) => Opening::Passes,
        (Host::Name(_), None) => Opening::Refused(Objection::NoName),
        (_, Some(sent)) => match (host, HostName::parse(&sent)) {
            (Host::Name(asked), Ok(name)) if name == *asked => Opening::Passes,
            (_, Ok(name)) => Opening::Refused(Objection::OtherName(name.to_string())),
            (_, Err(_)) => Opening::Refused(Objection::OtherName("what is no host name".to_owned())),
        },
    }
}

/// Judges the first `bytes` of a client on port 22: it must identify itself as SSH at once.
pub fn ssh(bytes: &[u8]) -> Opening {
    const START: &[u8] = b"SSH-";
    let length = bytes.len().min(START.len());
    if bytes[..length] != START[..length] {
        return Opening::Refused(Objection::NotSsh);
    }
    match bytes.iter().take(SSH_LIMIT).position(|byte| *byte == b'\n') {
        Some(_) => Opening::Passes,
        None if bytes.len() >= SSH_LIMIT => Opening::Refused(Objection::NotSsh),
        None => Opening::Incomplete,
    }
}

/// The bytes are no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Malformed;

/// The body of the ClientHello, put together from its records; `None` while some of it is missing.
fn client_hello(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let mut handshake = Vec::new();
    loop {
        // The first byte already shows whether it is one.
        if handshake.first().is_some_and(|kind| *kind != HANDSHAKE_CLIENT_HELLO) {
            return Err(Malformed);
        }
        if let [_, a, b, c, body @ ..] = handshake.as_slice() {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length > HELLO_LIMIT {
                return Err(Malformed);
            }
            if body.len() >= length {
                return Ok(Some(body[..length].to_vec()));
            }
        }
        let header = match bytes {
            [kind, ..] if *kind != RECORD_HANDSHAKE => return Err(Malformed),
            [_, major, ..] if *major != 3 => return Err(Malformed),
            [_, _, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => return Ok(None),
        };
        // An empty record would let a client go on for ever.
        if header == 0 || header > 1 << 14 {
            return Err(Malformed);
        }
        let record = &bytes[5..];
        handshake.extend_from_slice(&record[..record.len().min(header)]);
        bytes = record.get(header..).unwrap_or_default();
    }
}

/// What a ClientHello says about names.
struct Names {
    server: Option<Vec<u8>>,
    encrypted: bool,
}

fn names(hello: &[u8]) -> Result<Names, Malformed> {
    let mut reader = Reader(hello);
    reader.take(2 + 32)?;
    reader.vector8()?;
    reader.vector16()?;
    reader.vector8()?;
    let mut found = Names { server: None, encrypted: false };
    if reader.0.is_empty() {
        return Ok(found);
    }
    let mut extensions = Reader(reader.vector16()?);
    if !reader.0.is_empty() {
        return Err(Malformed);
    }
    let mut seen_name = false;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let body = extensions.vector16()?;
        match kind {
            EXTENSION_ENCRYPTED_CLIENT_HELLO => found.encrypted = true,
            EXTENSION_SERVER_NAME => {
                // Twice could mean one to us and another to the server.
                if std::mem::replace(&mut seen_name, true) {
                    return Err(Malformed);
                }
                found.server = Some(server_name(body)?);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The one host name of a server_name extension.
fn server_name(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut outer = Reader(body);
    let mut list = Reader(outer.vector16()?);
    let (kind, name) = (list.take(1)?, list.vector16()?);
    if kind != [0] || name.is_empty() || !list.0.is_empty() || !outer.0.is_empty() {
        return Err(Malformed);
    }
    Ok(name.to_vec())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number16(&mut self) -> Result<u16, Malformed> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)).ok_or(Malformed)
    }

    fn vector8(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    fn vector16(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = kind.to_be_bytes().to_vec();
        out.extend((body.len() as u16).to_be_bytes());
        out.extend(body);
        out
    }

    fn name_extension(name: &[u8]) -> Vec<u8> {
        let mut entry = vec![0];
        entry.extend((name.len() as u16).to_be_bytes());
        entry.extend(name);
        let mut body = (entry.len() as u16).to_be_bytes().to_vec();
        body.extend(entry);
        extension(EXTENSION_SERVER_NAME, &body)
    }

    fn handshake(extensions: &[Vec<u8>]) -> Vec<u8> {
        let all = extensions.concat();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend((all.len() as u16).to_be_bytes());
        body.extend(all);
        let mut out = vec![1, 0];
        out.extend((body.len() as u16).to_be_bytes());
        out.extend(body);
        out
    }

    fn records(handshake: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let mut out = vec![22, 3, 1];
            out.extend((part.len() as u16).to_be_bytes());
            out.extend(part);
            out
        };
        handshake.chunks(size).flat_map(record).collect()
    }

    /// A ClientHello that shows `name` and hides another.
    pub(crate) fn hiding(name: &str) -> Vec<u8> {
        records(&handshake(&[name_extension(name.as_bytes()), extension(0xfe0d, &[0, 1])]), 1000)
    }

    fn host(text: &str) -> Host {
        Host::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_hello_passes_with_the_name_that_was_asked_for_and_no_other() {
        let other = |name: &str| Opening::Refused(Objection::OtherName(name.to_owned()));
        let cases = [
            (vec![name_extension(b"example.com")], "example.com", Opening::Passes),
            (vec![name_extension(b"EXAMPLE.com.")], "example.com", Opening::Passes),
            (vec![extension(43, &[2, 3, 4]), name_extension(b"example.com")], "example.com", Opening::Passes),
            (vec![name_extension(b"evil.com")], "example.com", other("evil.com")),
            (vec![name_extension(b"example.com.evil.com")], "example.com", other("example.com.evil.com")),
            (vec![name_extension(b"example.com\0.evil.com")], "example.com", other("what is no host name")),
            (vec![], "example.com", Opening::Refused(Objection::NoName)),
            (vec![], "192.0.2.1", Opening::Passes),
            (vec![name_extension(b"example.com")], "192.0.2.1", other("example.com")),
            (
                vec![name_extension(b"example.com"), extension(0xfe0d, &[0, 1])],
                "example.com",
                Opening::Refused(Objection::Encrypted),
            ),
            (
                vec![name_extension(b"example.com"), name_extension(b"evil.com")],
                "example.com",
                Opening::Refused(Objection::NotTls),
            ),
        ];
        for (extensions, asked, expected) in cases {
            for size in [1, 2, 5, 100, 16384] {
                let bytes = records(&handshake(&extensions), size);
                assert_eq!(
                    tls(&bytes, &host(asked), Hidden::Refused),
                    expected,
                    "{asked}, records of {size}"
                );
                for cut in 0..bytes.len() {
                    let early = tls(&bytes[..cut], &host(asked), Hidden::Refused);
                    assert_eq!(early, Opening::Incomplete, "{asked}, cut at {cut} of records of {size}");
                }
            }
        }
    }

    #[test]
    fn a_hidden_name_is_refused_passes_or_is_ignored() {
        let other = Opening::Refused(Objection::OtherName("public.test".to_owned()));
        let encrypted = Opening::Refused(Objection::Encrypted);
        let cases = [
            ("public.test", true, [encrypted.clone(), Opening::Passes, other.clone()]),
            ("example.com", true, [encrypted, Opening::Passes, Opening::Passes]),
            ("public.test", false, [other.clone(), other.clone(), other]),
            ("example.com", false, [Opening::Passes, Opening::Passes, Opening::Passes]),
        ];
        for (shown, hides, expected) in cases {
            let mut extensions = vec![name_extension(shown.as_bytes())];
            extensions.extend(hides.then(|| extension(0xfe0d, &[0, 1])));
            let bytes = records(&handshake(&extensions), 100);
            for (hidden, expected) in
                [Hidden::Refused, Hidden::DangerPasses, Hidden::Ignored].into_iter().zip(expected)
            {
                assert_eq!(tls(&bytes, &host("example.com"), hidden), expected, "{shown} {hides} {hidden:?}");
            }
        }
    }

    #[test]
    fn what_is_not_tls_is_refused_as_soon_as_it_shows() {
        let refused = Opening::Refused(Objection::NotTls);
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"\x16\x02\x00",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x00\x05\x02",
            b"\x17\x03\x03\x00\x01x",
        ] {
            assert_eq!(tls(bytes, &host("example.com"), Hidden::Refused), refused, "{bytes:?}");
        }
        let endless = [
            b"\x16\x03\x01\x00\x01\x01".to_vec(),
            b"\x16\x03\x01\x00\x03\x00\xff\xff".to_vec(),
            [&b"\x16\x03\x01\x3f\xff"[..], &[0; 0x3fff]].concat().repeat(8),
        ]
        .concat();
        assert_eq!(tls(&endless, &host("example.com"), Hidden::Refused), refused);
        let late = records(&handshake(&[name_extension(b"example.com"), extension(21, &[0; 3000])]), 1);
        for length in [HELLO_LIMIT, HELLO_LIMIT + 1, late.len()] {
            let verdict = tls(&late[..length], &host("example.com"), Hidden::Refused);
            assert_eq!(verdict, refused, "{length} of {}", late.len());
        }
    }

    #[test]
    fn only_ssh_passes_on_its_port() {
        let refused = Opening::Refused(Objection::NotSsh);
        let cases = [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], Opening::Passes),
            (b"SSH-2.0-OpenSSH_9.2", Opening::Incomplete),
            (b"SS", Opening::Incomplete),
            (b"", Opening::Incomplete),
            (b"SSL-", refused.clone()),
            (b"GET / HTTP/1.1\r\n", refused.clone()),
            (b"\x16\x03\x01", refused.clone()),
        ];
        for (bytes, expected) in cases {
            assert_eq!(ssh(bytes), expected, "{bytes:?}");
        }
        assert_eq!(ssh(&[&b"SSH-2.0-"[..], &[b'x'; 300]].concat()), refused);
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = tls(&bytes, &host("example.com"), Hidden::DangerPasses);
            let mut framed = vec![22, 3, 1, 1, 0];
            framed.extend(&bytes);
            let _ = tls(&framed, &host("example.com"), Hidden::Ignored);
            let _ = ssh(&bytes);
        }
    }
}
