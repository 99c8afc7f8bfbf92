//! PURE: heads of HTTP/1 messages, read strictly (NET-12). What two parsers could read in two ways is refused, so that
//! what is decided here is what the origin sees.

use crate::egress::limits::{MAX_HEAD, MAX_HEADERS, MAX_METHOD};

/// The HTTP versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// A request's head. Everything borrows from the bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method, case as sent.
    pub method: &'a str,
    /// The target: printable ASCII without spaces.
    pub target: &'a str,
    /// The version.
    pub version: Version,
    /// The header fields.
    pub fields: Fields<'a>,
}

/// A response's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// The version.
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase, possibly empty.
    pub reason: &'a [u8],
    /// The header fields.
    pub fields: Fields<'a>,
}

/// Header fields in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields<'a>(Vec<(&'a str, &'a [u8])>);

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Neither Content-Length nor Transfer-Encoding.
    Unstated,
    /// Content-Length.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// Why a head is refused. The texts quote nothing of what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// More than [`MAX_HEAD`] bytes or [`MAX_HEADERS`] fields.
    #[error("the head is larger than 64 KiB or has more than 256 fields")]
    TooLarge,
    /// A line feed without its carriage return, or the other way round.
    #[error("a line does not end in CR LF")]
    LineEnd,
    /// The first line is not three words with a version that we speak.
    #[error("the first line is not a method, a target and HTTP/1.0 or HTTP/1.1")]
    FirstLine,
    /// The first line of a response.
    #[error("the first line is not a version and a status")]
    StatusLine,
    /// A header line without a name of token characters right before the colon.
    #[error("a header line is not a name, a colon and a value")]
    FieldName,
    /// A continuation line.
    #[error("a header is folded over several lines")]
    Folded,
    /// A control byte.
    #[error("a header value has a control character")]
    FieldValue,
    /// A field twice that may come once.
    #[error("Host, Content-Length or Transfer-Encoding comes more than once")]
    Repeated,
    /// Content-Length is not plain digits, or Transfer-Encoding not `chunked`.
    #[error("Content-Length is not a number in digits, or Transfer-Encoding is not chunked")]
    BadFraming,
    /// Both framings at once, or chunks under HTTP/1.0.
    #[error("Transfer-Encoding comes together with Content-Length or with HTTP/1.0")]
    TwoFramings,
    /// Connection names a field that must arrive.
    #[error("Connection names Host, Content-Length or Transfer-Encoding")]
    ConnectionNames,
}

/// Looks for the end of a head in `bytes`, of which the first `seen` were looked at before. Returns the length of the
/// head with its empty line, or `None` when more is needed; fails as soon as the head cannot become a good one.
pub fn head_length(bytes: &[u8], seen: usize) -> Result<Option<usize>, HeadError> {
    let start = seen.saturating_sub(3);
    for (offset, byte) in bytes[start..].iter().enumerate() {
        let at = start + offset;
        if at >= MAX_HEAD {
            return Err(HeadError::TooLarge);
        }
        if *byte == b'\n' {
            if !bytes[..at].ends_with(b"\r") {
                return Err(HeadError::LineEnd);
            }
            if bytes[..at].ends_with(b"\r\n\r") {
                return Ok(Some(at + 1));
            }
        }
    }
    Ok(None)
}

impl<'a> Request<'a> {
    /// Reads a whole head, its empty line included.
    pub fn parse(head: &'a [u8]) -> Result<Self, HeadError> {
        let mut lines = Lines(head);
        let line = lines.next_line()?;
        let mut words = line.split(|&byte| byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(HeadError::FirstLine);
        };
        let visible = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
        let method = token(method)
            .filter(|method| visible && method.len() <= MAX_METHOD)
            .ok_or(HeadError::FirstLine)?;
        let target = std::str::from_utf8(target).map_err(|_| HeadError::FirstLine)?;
        let version = Version::parse(version).ok_or(HeadError::FirstLine)?;
        Ok(Self { method, target, version, fields: Fields::parse(lines)? })
    }

    /// How the body's end is found; no framing at all means that there is no body.
    pub fn framing(&self) -> Result<Framing, HeadError> {
        self.fields.framing(self.version)
    }
}

impl<'a> Response<'a> {
    /// Reads a whole head, its empty line included.
    pub fn parse(head: &'a [u8]) -> Result<Self, HeadError> {
        let mut lines = Lines(head);
        let line = lines.next_line()?;
        let (version, rest) = line.split_at_checked(8).ok_or(HeadError::StatusLine)?;
        let version = Version::parse(version).ok_or(HeadError::StatusLine)?;
        let [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] = rest else {
            return Err(HeadError::StatusLine);
        };
        let reason = match rest {
            [] => rest,
            [b' ', reason @ ..] if is_text(reason) => reason,
            _ => return Err(HeadError::StatusLine),
        };
        let status = [a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        Ok(Self { version, status, reason, fields: Fields::parse(lines)? })
    }

    /// How the body's end is found; no framing at all means that the connection's end is the body's.
    pub fn framing(&self) -> Result<Framing, HeadError> {
        self.fields.framing(self.version)
    }
}

impl Version {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"HTTP/1.1" => Some(Self::Http11),
            b"HTTP/1.0" => Some(Self::Http10),
            _ => None,
        }
    }
}

impl<'a> Fields<'a> {
    fn parse(mut lines: Lines<'a>) -> Result<Self, HeadError> {
        let mut fields = Vec::new();
        loop {
            let line = lines.next_line()?;
            if line.is_empty() {
                let fields = Self(fields);
                fields.check_connection()?;
                return if lines.0.is_empty() { Ok(fields) } else { Err(HeadError::LineEnd) };
            }
            if matches!(line[0], b' ' | b'\t') {
                return Err(HeadError::Folded);
            }
            let colon = line.iter().position(|&byte| byte == b':').ok_or(HeadError::FieldName)?;
            let name = token(&line[..colon]).ok_or(HeadError::FieldName)?;
            let value = &line[colon + 1..];
            if !is_text(value) {
                return Err(HeadError::FieldValue);
            }
            if fields.len() == MAX_HEADERS {
                return Err(HeadError::TooLarge);
            }
            fields.push((name, value.trim_ascii()));
        }
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    /// The value of a field that may come once; `None` when it does not come.
    pub fn single(&self, name: &str) -> Result<Option<&'a [u8]>, HeadError> {
        let mut values = self.0.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (first, None) => Ok(first.map(|(_, value)| *value)),
            _ => Err(HeadError::Repeated),
        }
    }

    /// Whether a list field such as Connection has `token` among its members, case ignored.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.members(name).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
    }

    fn members<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
        let fields = self.0.iter().filter(move |(have, _)| have.eq_ignore_ascii_case(name));
        fields.flat_map(|(_, value)| value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii))
    }

    /// Connection takes fields away; taking these would change where a message goes or ends.
    fn check_connection(&self) -> Result<(), HeadError> {
        let vital = ["host", "content-length", "transfer-encoding"];
        match vital.iter().any(|name| self.lists("connection", name)) {
            true => Err(HeadError::ConnectionNames),
            false => Ok(()),
        }
    }

    fn framing(&self, version: Version) -> Result<Framing, HeadError> {
        match (self.single("content-length")?, self.single("transfer-encoding")?) {
            (None, None) => Ok(Framing::Unstated),
            (Some(length), None) => plain_number(length).map(Framing::Length).ok_or(HeadError::BadFraming),
            (None, Some(coding)) if version == Version::Http11 => {
                let chunked = coding.eq_ignore_ascii_case(b"chunked");
                chunked.then_some(Framing::Chunked).ok_or(HeadError::BadFraming)
            }
            _ => Err(HeadError::TwoFramings),
        }
    }
}

struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Result<&'a [u8], HeadError> {
        let end = self.0.iter().position(|byte| matches!(byte, b'\r' | b'\n')).ok_or(HeadError::LineEnd)?;
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.strip_prefix(b"\r\n").ok_or(HeadError::LineEnd)?;
        Ok(line)
    }
}

fn token(text: &[u8]) -> Option<&str> {
    let good = !text.is_empty() && text.iter().all(|byte| is_token(*byte));
    std::str::from_utf8(text).ok().filter(|_| good)
}

/// Whether a method or the name of a field may have `byte` (RFC 9110, 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_text(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f)
}

/// Digits only, at most nineteen of them, so that no parser overflows.
fn plain_number(text: &[u8]) -> Option<u64> {
    let good = (1..=19).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| good)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framing(head: &[u8]) -> Result<Framing, HeadError> {
        Request::parse(head).and_then(|request| request.framing())
    }

    #[test]
    fn request_shapes_that_could_be_read_in_two_ways_are_refused() {
        use HeadError::*;
        let cases: &[(&[u8], Result<Framing, HeadError>)] = &[
            (b"GET / HTTP/1.1\r\n\r\n", Ok(Framing::Unstated)),
            (b"GET / HTTP/1.0\r\nA:b\r\nC: \t d \r\n\r\n", Ok(Framing::Unstated)),
            (b"GET / HTTP/1.1\r\nX: \xc3\xa9\r\n\r\n", Ok(Framing::Unstated)),
            (b"GET  / HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b" GET / HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"GET / HTTP/1.1 \r\n\r\n", Err(FirstLine)),
            (b"GET /\r\n\r\n", Err(FirstLine)),
            (b"GET\t/ HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"GET /\x00 HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"G(T / HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"GET / HTTP/2.0\r\n\r\n", Err(FirstLine)),
            (b"PRI * HTTP/2.0\r\n\r\n", Err(FirstLine)),
            (b"GET / http/1.1\r\n\r\n", Err(FirstLine)),
            (b"\r\nGET / HTTP/1.1\r\n\r\n", Err(FirstLine)),
            (b"GET / HTTP/1.1\n\r\n", Err(LineEnd)),
            (b"GET / HTTP/1.1\r\nA: b\n\r\n", Err(LineEnd)),
            (b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", Err(LineEnd)),
            (b"GET / HTTP/1.1\r\nA: b\r\n", Err(LineEnd)),
            (b"GET / HTTP/1.1\r\n\r\nX", Err(LineEnd)),
            (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", Err(FieldName)),
            (b"GET / HTTP/1.1\r\n: b\r\n\r\n", Err(FieldName)),
            (b"GET / HTTP/1.1\r\nA\r\n\r\n", Err(FieldName)),
            (b"GET / HTTP/1.1\r\nA\x00: b\r\n\r\n", Err(FieldName)),
            (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Err(Folded)),
            (b"GET / HTTP/1.1\r\n A: b\r\n\r\n", Err(Folded)),
            (b"GET / HTTP/1.1\r\nA: b\x00\r\n\r\n", Err(FieldValue)),
            (b"GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n", Err(FieldValue)),
            (b"P / HTTP/1.1\r\nContent-Length: 42\r\n\r\n", Ok(Framing::Length(42))),
            (b"P / HTTP/1.1\r\ncontent-length: 007\r\n\r\n", Ok(Framing::Length(7))),
            (b"P / HTTP/1.1\r\nContent-Length:\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nContent-Length: +4\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nContent-Length: 4, 4\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nContent-Length: 0x4\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nContent-Length: 4\r\nContent-length: 4\r\n\r\n", Err(Repeated)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n\r\n", Ok(Framing::Chunked)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(BadFraming)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", Err(FieldValue)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: \x0cchunked\r\n\r\n", Err(FieldValue)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n", Err(Repeated)),
            (b"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", Err(TwoFramings)),
            (b"P / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(TwoFramings)),
            (b"P / HTTP/1.1\r\nConnection: close, hOst\r\n\r\n", Err(ConnectionNames)),
            (b"P / HTTP/1.1\r\nConnection: x\r\nConnection: Transfer-Encoding\r\n\r\n", Err(ConnectionNames)),
        ];
        for (head, want) in cases {
            assert_eq!(framing(head), *want, "{:?}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_method_is_short() {
        for (length, good) in [(1, true), (MAX_METHOD, true), (MAX_METHOD + 1, false)] {
            let head = format!("{} / HTTP/1.1\r\n\r\n", "M".repeat(length));
            assert_eq!(Request::parse(head.as_bytes()).is_ok(), good, "{length}");
        }
    }

    #[test]
    fn the_end_is_found_however_the_head_is_cut() {
        let head = b"GET / HTTP/1.1\r\nA: b\r\n\r\nbody";
        let end = head.len() - 4;
        for cut in 0..head.len() {
            let want = (cut >= end).then_some(end);
            assert_eq!(head_length(&head[..cut], 0), Ok(want), "{cut}");
            assert_eq!(head_length(head, cut.min(end - 1)), Ok(Some(end)), "{cut}");
        }
        assert_eq!(head_length(b"GET / HTTP/1.1\n", 0), Err(HeadError::LineEnd));
        let exact = [&vec![b'a'; MAX_HEAD - 4][..], b"\r\n\r\n"].concat();
        assert_eq!(head_length(&exact, 0), Ok(Some(MAX_HEAD)));
        assert_eq!(head_length(&vec![b'a'; MAX_HEAD], 0), Ok(None));
        assert_eq!(head_length(&vec![b'a'; MAX_HEAD + 1], 0), Err(HeadError::TooLarge));
    }

    #[test]
    fn too_many_fields_are_too_large() {
        let head = |count: usize| [&b"GET / HTTP/1.1\r\n"[..], &b"A: b\r\n".repeat(count), b"\r\n"].concat();
        assert!(Request::parse(&head(MAX_HEADERS)).is_ok());
        assert_eq!(Request::parse(&head(MAX_HEADERS + 1)), Err(HeadError::TooLarge));
    }

    #[test]
    fn response_heads_are_read() {
        for (head, want) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], Some((200, &b"OK"[..]))),
            (b"HTTP/1.0 404 Not  Found\r\n\r\n", Some((404, b"Not  Found"))),
            (b"HTTP/1.1 204\r\n\r\n", Some((204, b""))),
            (b"HTTP/1.1 204 \r\n\r\n", Some((204, b""))),
            (b"HTTP/1.1 20\r\n\r\n", None),
            (b"HTTP/1.1 2000\r\n\r\n", None),
            (b"HTTP/1.1  200 OK\r\n\r\n", None),
            (b"HTTP/1.1 099 OK\r\n\r\n", None),
            (b"HTTP/2 200 OK\r\n\r\n", None),
            (b"ICY 200 OK\r\n\r\n", None),
        ] {
            let got = Response::parse(head).ok().map(|response| (response.status, response.reason));
            assert_eq!(got, want, "{:?}", String::from_utf8_lossy(head));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (head_length(&bytes, bytes.len() / 2), Response::parse(&bytes));
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert!(bytes.ends_with(b"\r\n\r\n") && !request.target.contains(' '));
            }
        }
    }
}
