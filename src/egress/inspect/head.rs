//! PURE: the heads of requests and answers that are read. They were written anew by [`rewrite`](crate::egress::rewrite), so
//! that each line is a name and a value; here they get their secrets, or lose them.

use crate::egress::head::Framing;
use crate::policy::authority::Authority;
use crate::policy::http_rule::is_header;
use crate::secrets::{Outgoing, Vault};

/// The port of `https:`.
pub(super) const HTTPS_PORT: u16 = 443;

/// What a request to a host with secrets says of its own about how it wants the answer, and why not.
pub(super) const LEFT_OUT: &[(&str, &str)] = &[
    ("accept-encoding", "a compressed answer could not be searched; identity is asked for instead"),
    ("sec-websocket-extensions", "the extension that is in use compresses messages"),
];
/// What a request that carries a secret, or may carry one in what follows its head, must not ask for either: a part of an
/// answer may be a part of the secret.
pub(super) const PARTS: &[&str] = &["range", "if-range", "request-range"];

/// The value of Host or `:authority` for `target`.
pub(super) fn host_of(target: &Authority) -> String {
    match target.port {
        HTTPS_PORT => target.host.to_string(),
        _ => target.to_string(),
    }
}

/// Whether the header `name` of a request to a host with secrets is left out.
pub(super) fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|(left_out, _)| is_header(name, left_out))
}

/// Whether a Content-Encoding changes nothing: what servers send though the standard has no such coding, or that says none.
pub(super) fn codes_nothing(value: &[u8]) -> bool {
    const NOTHING: [&[u8]; 7] = [b"", b"identity", b"none", b"utf-8", b"8bit", b"binary", b"aws-chunked"];
    value
        .split(|byte| *byte == b',')
        .all(|coding| NOTHING.iter().any(|nothing| coding.trim_ascii().eq_ignore_ascii_case(nothing)))
}

/// Whether the header `name` asks for a part.
pub(super) fn asks_for_part(name: &str) -> bool {
    PARTS.iter().any(|part| is_header(name, part))
}

/// The head of a request, `head`, as the host gets it. The connection to the host is kept, but for WebSocket.
pub(super) fn request(
    head: &[u8],
    framing: Framing,
    target: &Authority,
    bound: bool,
    outgoing: &mut Outgoing<'_>,
) -> Vec<u8> {
    let mut lines = lines(head);
    let mut first = Vec::new();
    if let Some(line) = lines.next() {
        let text = String::from_utf8_lossy(line);
        let mut words = text.splitn(3, ' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = outgoing.target(path);
        let version = words.next().unwrap_or_default();
        first.extend_from_slice(format!("{method} {path} {version}\r\n").as_bytes());
    }
    let mut fields: Vec<(&str, Vec<u8>)> = Vec::new();
    for (name, value) in lines.filter_map(field) {
        if name.eq_ignore_ascii_case("host")
            || bound && is_left_out(name)
            || name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case(b"close")
        {
            continue;
        }
        let value = outgoing.header(name, value).into_owned();
        fields.push((name, value));
    }
    let carries = !outgoing.noted().used.is_empty() || bound && framing != Framing::Unstated;
    let mut out = first;
    put(&mut out, "Host", host_of(target).as_bytes());
    for (name, value) in &fields {
        if !(carries && asks_for_part(name)) {
            put(&mut out, name, value);
        }
    }
    if bound {
        put(&mut out, "Accept-Encoding", b"identity");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The head of an answer without the secrets.
pub(super) fn answer(head: &[u8], vault: &Vault) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len());
    let mut lines = lines(head);
    if let Some(line) = lines.next() {
        out.extend_from_slice(&vault.scrub_value(line));
        out.extend_from_slice(b"\r\n");
    }
    for (name, value) in lines.filter_map(field) {
        let name = vault.scrub_value(name.as_bytes());
        out.extend_from_slice(&name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(&vault.scrub_value(value));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    // No value holds a line end: the heads were read strictly.
    head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = &line[colon + 1..];
    Some((std::str::from_utf8(&line[..colon]).ok()?, value.strip_prefix(b" ").unwrap_or(value)))
}

fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
