//! PURE: the heads that are sent on. A head is written anew from what was understood, never passed through.

use std::borrow::Cow;

use crate::egress::ask::Forward;
use crate::egress::chunk::LAST_CHUNK;
use crate::egress::head::{Fields, Framing, Request, Response, Version};
use crate::policy::authority::Authority;
use crate::policy::http_rule::{METHOD_OVERRIDES, PATH_OVERRIDES, is_header};

/// A header that is not passed on.
#[derive(Debug, Clone, Copy)]
pub struct Dropped {
    /// The name in lower case.
    pub name: &'static str,
    /// Why not.
    pub reason: &'static str,
}

const fn drop(name: &'static str, reason: &'static str) -> Dropped {
    Dropped { name, reason }
}

/// The headers that end at a door, besides those that Connection names.
pub const DROPPED: &[Dropped] = &[
    drop("connection", "about this connection alone (RFC 9110, 7.6.1)"),
    drop("keep-alive", "about this connection alone; its timings are not ours"),
    drop("proxy-connection", "what old clients say to proxies for Connection"),
    drop("proxy-authenticate", "about a proxy, of which the client must see no other than us"),
    drop("proxy-authorization", "a credential for a proxy, not for the origin"),
    drop("te", "about this connection alone"),
    drop("upgrade", "a change of protocol is agreed with the door, which passes WebSocket alone"),
    drop(
        "http2-settings",
        "part of an upgrade to HTTP/2 (h2c), behind which requests could no longer be read",
    ),
    drop("x-ai-jail-denied", "the doors' own word for a denial, which an origin must not speak"),
    drop("host", "written anew from the target that was decided about"),
    drop("content-length", "written anew from the framing that was read"),
    drop("transfer-encoding", "written anew from the framing that was read"),
];

/// What is no trailer (RFC 9110, 6.5.1), besides what is dropped: whoever merges trailers into the head would find another
/// message than the one that was decided about.
pub const NO_TRAILERS: &[Dropped] = &[
    drop("trailer", "announces trailers, and is none"),
    drop("expect", "asks for something before the body"),
    drop("range", "asks for another answer"),
    drop("authorization", "credentials are judged before the body"),
    drop("cookie", "credentials are judged before the body"),
    drop("set-cookie", "is kept and sent again"),
    drop("www-authenticate", "asks for credentials"),
    drop("location", "leads somewhere else"),
    drop("content-encoding", "how the body before it is read"),
    drop("content-range", "how the body before it is read"),
    drop("content-type", "how the body before it is read"),
    drop("cache-control", "how the whole is kept"),
    drop("forwarded", "says who asks and where, on which servers behind proxies rely"),
    drop("x-forwarded-for", "as Forwarded"),
    drop("x-forwarded-host", "as Forwarded"),
    drop("x-forwarded-port", "as Forwarded"),
    drop("x-forwarded-proto", "as Forwarded"),
    drop("x-real-ip", "as Forwarded"),
];

/// Whether the header `name` ends at a door.
fn is_dropped(name: &str) -> bool {
    DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped.name))
}

/// Whether `name` may be passed on as a trailer. Another method or another path was not decided about.
pub fn is_trailer(name: &str) -> bool {
    let dropped = DROPPED.iter().chain(NO_TRAILERS).map(|dropped| dropped.name);
    !dropped.chain(METHOD_OVERRIDES).chain(PATH_OVERRIDES).any(|other| is_header(name, other))
}

/// What ends a chunked body: the trailers that are passed on, with the name and the value that `change` makes of each.
pub fn body_end<'t>(
    trailers: impl Iterator<Item = (&'t str, &'t [u8])>,
    mut change: impl FnMut(&'t str, &'t [u8]) -> (Cow<'t, [u8]>, Cow<'t, [u8]>),
) -> Vec<u8> {
    let mut end = LAST_CHUNK.to_vec();
    for (name, value) in trailers.filter(|(name, _)| is_trailer(name)) {
        let (name, value) = change(name, value);
        end.extend([&name[..], b": ", &value, b"\r\n"].concat());
    }
    end.extend_from_slice(b"\r\n");
    end
}

/// How a client's connection goes on after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// With the next request.
    KeepAlive,
    /// Not at all.
    Close,
}

/// How a response's end is found, by whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// There is none; the length is that of the body that another method would have got.
    None(Option<u64>),
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

/// Whether `request` asks for a WebSocket, the one upgrade that is passed on.
pub fn wants_websocket(request: &Request<'_>) -> bool {
    request.version == Version::Http11
        && request.method == "GET"
        && request.fields.lists("connection", "upgrade")
        && matches!(request.fields.single("upgrade"), Ok(Some(value)) if value.eq_ignore_ascii_case(b"websocket"))
}

/// What the client wants to become of its connection.
pub fn after_request(request: &Request<'_>) -> After {
    let asks =
        |token| request.fields.lists("connection", token) || request.fields.lists("proxy-connection", token);
    match request.version {
        Version::Http11 if !asks("close") => After::KeepAlive,
        Version::Http10 if asks("keep-alive") && !asks("close") => After::KeepAlive,
        _ => After::Close,
    }
}

/// The head for the origin, which gets one request per connection.
pub fn request_head(request: &Request<'_>, forward: &Forward<'_>) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: ", request.method, forward.path).into_bytes();
    head.extend_from_slice(host_header(&forward.target).as_bytes());
    head.extend_from_slice(b"\r\n");
    pass_on(&request.fields, &mut head);
    match forward.framing {
        Framing::Unstated => {}
        Framing::Length(length) => head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes()),
        Framing::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    head.extend_from_slice(match wants_websocket(request) {
        true => b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        false => b"Connection: close\r\n\r\n",
    });
    head
}

/// How the end of `response`, whose framing is `framing`, to a request of `method` is found (RFC 9112, 6.3).
pub fn response_body(response: &Response<'_>, framing: Framing, method: &str) -> Body {
    if method == "HEAD" || response.status < 200 || matches!(response.status, 204 | 304) {
        return Body::None(match framing {
            Framing::Length(length) if response.status >= 200 && response.status != 204 => Some(length),
            _ => None,
        });
    }
    match framing {
        Framing::Length(length) => Body::Length(length),
        Framing::Chunked => Body::Chunked,
        Framing::Unstated => Body::UntilClose,
    }
}

/// The head for the client. `body` is how the client will find the end.
pub fn response_head(response: &Response<'_>, body: Body, after: After) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} ", response.status).into_bytes();
    head.extend_from_slice(response.reason);
    head.extend_from_slice(b"\r\n");
    pass_on(&response.fields, &mut head);
    match body {
        Body::None(Some(length)) | Body::Length(length) => {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        Body::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Body::None(None) | Body::UntilClose => {}
    }
    head.extend_from_slice(match response.status {
        101 => b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        100..200 => b"\r\n",
        _ if after == After::KeepAlive => b"Connection: keep-alive\r\n\r\n",
        _ => b"Connection: close\r\n\r\n",
    });
    head
}

fn host_header(target: &Authority) -> String {
    match target.port {
        80 => target.host.to_string(),
        _ => target.to_string(),
    }
}

fn pass_on(fields: &Fields<'_>, head: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        if !is_dropped(name) && !fields.lists("connection", name) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::ask::{Ask, ask_proxy};

    fn sent(head: &str) -> String {
        let request = Request::parse(head.as_bytes()).unwrap();
        let Ask::Forward(forward) = ask_proxy(&request).unwrap() else { panic!("{head}") };
        String::from_utf8(request_head(&request, &forward)).unwrap()
    }

    #[test]
    fn every_dropped_header_stays_at_the_door() {
        for dropped in DROPPED.iter().chain(NO_TRAILERS) {
            assert!(!is_trailer(&dropped.name.to_ascii_uppercase()));
        }
        for dropped in DROPPED {
            assert!(dropped.reason.len() >= 10 && dropped.name == dropped.name.to_ascii_lowercase());
            let value = match dropped.name {
                "host" => "a.test",
                "content-length" => "7",
                "transfer-encoding" => "chunked",
                _ => "marker",
            };
            let host = if dropped.name == "host" { "" } else { "Host: a.test\r\n" };
            let name = dropped.name.to_ascii_uppercase();
            let out = sent(&format!("GET http://a.test/ HTTP/1.1\r\n{host}{name}: {value}\r\nX: y\r\n\r\n"));
            assert!(!out.contains(&name) && !out.contains("marker") && out.contains("\r\nX: y\r\n"), "{out}");
        }
    }

    #[test]
    fn requests_are_written_anew() {
        for (head, want) in [
            (
                "GET http://A.test.:8080/x HTTP/1.0\r\nHost: a.TEST:8080\r\nAccept:  */* \r\n\r\n",
                "GET /x HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            ),
            (
                "POST http://a.test/ HTTP/1.1\r\nContent-Length: 007\r\nHost: a.test:80\r\nConnection: x-1 , close\r\nX-1: a\r\nX-2: b\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: a.test\r\nX-2: b\r\nContent-Length: 7\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET http://a.test/ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
                "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            ),
            (
                "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
            ),
        ] {
            assert_eq!(sent(head), want);
        }
    }

    #[test]
    fn trailers_are_passed_on_unless_they_change_the_message() {
        let trailers = [("A", &b"b"[..]), ("Content-Length", b"1"), ("Set-Cookie", b"c"), ("D", b"")];
        let end = body_end(trailers.into_iter(), |name, value| match name {
            "A" => (Cow::Borrowed(b"a"), Cow::Owned(b"x".to_vec())),
            _ => (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value)),
        });
        assert_eq!(end, b"0\r\na: x\r\nD: \r\n\r\n");
        for name in METHOD_OVERRIDES.into_iter().chain(PATH_OVERRIDES) {
            assert!(!is_trailer(name) && !is_trailer(&name.replace('-', "_")), "{name}");
        }
        assert!(is_trailer("grpc-status") && is_trailer("x_checksum"));
    }

    #[test]
    fn the_end_of_a_response_is_found_as_the_standard_says() {
        for (head, method, want) in [
            ("200 OK\r\nContent-Length: 5", "GET", Body::Length(5)),
            ("200 OK\r\nContent-Length: 5", "HEAD", Body::None(Some(5))),
            ("304 Not Modified\r\nContent-Length: 5", "GET", Body::None(Some(5))),
            ("204 No Content\r\nContent-Length: 0", "GET", Body::None(None)),
            ("200 OK\r\nTransfer-Encoding: chunked", "HEAD", Body::None(None)),
            ("200 OK\r\nTransfer-Encoding: chunked", "GET", Body::Chunked),
            ("200 OK", "GET", Body::UntilClose),
            ("100 Continue", "POST", Body::None(None)),
        ] {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            let response = Response::parse(head.as_bytes()).unwrap();
            assert_eq!(response_body(&response, response.framing().unwrap(), method), want, "{head}");
        }
    }

    #[test]
    fn responses_are_written_anew() {
        let response = Response::parse(
            b"HTTP/1.0 200 Fine\r\nKeep-Alive: timeout=5\r\nA: b\r\nContent-Length: 3\r\n\r\n",
        )
        .unwrap();
        let head = response_head(&response, Body::Length(3), After::KeepAlive);
        assert_eq!(head, b"HTTP/1.1 200 Fine\r\nA: b\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n");
        let head = response_head(&response, Body::UntilClose, After::Close);
        assert_eq!(head, b"HTTP/1.1 200 Fine\r\nA: b\r\nConnection: close\r\n\r\n");
    }
}
