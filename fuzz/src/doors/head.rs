//! Heads of HTTP, what they ask of a door, and what is sent on. The first byte says how the rest is cut for the second
//! reading.

use ai_jail::egress::ask::{Ask, Forward, ask_origin, ask_proxy};
use ai_jail::egress::head::{Fields, Framing, Request, Response, Version, head_length};
use ai_jail::egress::limits::MAX_HEAD;
use ai_jail::egress::rewrite::{
    After, Body, DROPPED, request_head, response_body, response_head, wants_websocket,
};
use ai_jail::policy::authority::{Authority, Host};

use super::chunk::{self, End};
use super::message::Head;
use super::{authority, growing};

/// The origin that is asked on a connection to it.
const ORIGIN: &[u8] = b"a.test:80";

pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    let found = head_length(input, 0);
    let (mut seen, mut early) = (0, Ok(None));
    for length in growing(input, *cut) {
        early = head_length(&input[..length], seen);
        if early != Ok(None) {
            break;
        }
        seen = length;
    }
    assert_eq!(early, found, "cut by {cut}");
    let Ok(Some(length)) = found else {
        return assert!(found.is_err() || input.len() <= MAX_HEAD, "{} bytes are not enough", input.len());
    };
    let (head, rest) = input.split_at(length);
    assert!(length <= MAX_HEAD && head.ends_with(b"\r\n\r\n"));
    if let Ok(request) = Request::parse(head) {
        check_request(head, rest, &request);
    }
    if let Ok(response) = Response::parse(head) {
        check_response(head, &response);
    }
}

fn check_request(head: &[u8], rest: &[u8], request: &Request<'_>) {
    clean(head);
    let Some(seen) = Head::request(head) else { panic!("another reader refuses {}", head.escape_ascii()) };
    assert_eq!(seen.first, [request.method, request.target]);
    agree(head, &seen, request.version, &request.fields);
    if let Ok(Ask::Tunnel(target)) = ask_proxy(request) {
        authority::canonical(&target.host);
        assert!(
            request.method == "CONNECT"
                && Authority::parse(request.target.as_bytes()).as_ref() == Ok(&target)
        );
        check_host(&seen, &target, target.port);
        one_framing(&seen);
    }
    if let Ok(Ask::Forward(forward)) = ask_proxy(request) {
        check_forward(&seen, rest, request, &forward);
    }
    let Ok(origin) = Authority::parse(ORIGIN) else { panic!("the origin is none") };
    if let Ok(forward) = ask_origin(request, &origin) {
        assert_eq!(forward.target, origin);
        check_forward(&seen, rest, request, &forward);
    }
}

/// Holds that what is sent on is one request, to the target alone, and is read by others as it was understood.
fn check_forward(seen: &Head, rest: &[u8], request: &Request<'_>, forward: &Forward<'_>) {
    authority::canonical(&forward.target.host);
    check_host(seen, &forward.target, 80);
    one_framing(seen);
    let sent = request_head(request, forward);
    clean(&sent);
    assert_eq!(head_length(&sent, 0), Ok(Some(sent.len())), "{}", sent.escape_ascii());
    let Ok(again) = Request::parse(&sent) else { panic!("not a head: {}", sent.escape_ascii()) };
    let Ok(asked) = ask_origin(&again, &forward.target) else {
        panic!("not for its origin: {}", sent.escape_ascii())
    };
    assert!(asked == *forward && again.method == request.method, "{}", sent.escape_ascii());
    assert!(
        forward.path.starts_with('/') || request.method == "OPTIONS" && forward.path == "*",
        "{}",
        forward.path
    );

    let Some(other) = Head::request(&sent) else { panic!("another reader refuses {}", sent.escape_ascii()) };
    assert!(other.length == sent.len() && other.first == [request.method, &*forward.path]);
    agree(&sent, &other, Version::Http11, &again.fields);
    check_host(&other, &forward.target, 80);
    one_framing(&other);
    ends_here(&other, wants_websocket(request));
    check_body(&sent, rest, forward.framing);
}

/// Holds that another reader finds the end of the message that is sent on where it is.
fn check_body(sent: &[u8], rest: &[u8], framing: Framing) {
    let (data, wire) = match framing {
        Framing::Unstated => (Vec::new(), Vec::new()),
        Framing::Length(length) => match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(body) => (body.to_vec(), body.to_vec()),
            None => return,
        },
        Framing::Chunked => {
            let body = chunk::read([rest]);
            if !matches!(body.end, End::There(_)) {
                return;
            }
            (body.data, body.sent)
        }
    };
    let next = b"GET /next HTTP/1.1\r\n\r\n";
    let all = [sent, &wire, next].concat();
    let Some(head) = Head::request(&all) else { panic!("another reader refuses {}", all.escape_ascii()) };
    assert_eq!(head.length, sent.len());
    assert_eq!(head.body(&all[head.length..]), Some((data, wire.len())), "{}", all.escape_ascii());
}

fn check_response(head: &[u8], response: &Response<'_>) {
    clean(head);
    let Some(seen) = Head::response(head) else { panic!("another reader refuses {}", head.escape_ascii()) };
    assert_eq!(seen.first, [response.status.to_string()]);
    agree(head, &seen, response.version, &response.fields);
    let Ok(framing) = response.framing() else { return };
    one_framing(&seen);
    for method in ["GET", "HEAD"] {
        for after in [After::KeepAlive, After::Close] {
            let body = response_body(response, framing, method);
            let sent = response_head(response, body, after);
            clean(&sent);
            let Some(other) = Head::response(&sent) else {
                panic!("another reader refuses {}", sent.escape_ascii())
            };
            assert!(other.length == sent.len() && other.first == seen.first, "{}", sent.escape_ascii());
            let Ok(again) = Response::parse(&sent) else { panic!("not a head: {}", sent.escape_ascii()) };
            agree(&sent, &other, Version::Http11, &again.fields);
            assert_eq!(again.reason, response.reason);
            one_framing(&other);
            ends_here(&other, response.status == 101);
            let Ok(framing) = again.framing() else { panic!("no framing: {}", sent.escape_ascii()) };
            assert_eq!(response_body(&again, framing, method), body, "{}", sent.escape_ascii());
            let bare = matches!(body, Body::None(None) | Body::UntilClose);
            assert!(!bare || framing == Framing::Unstated, "{}", sent.escape_ascii());
        }
    }
}

/// Holds that there is no byte in `head` that two readers could take for different line ends or none.
fn clean(head: &[u8]) {
    let shown = head.escape_ascii();
    for (at, byte) in head.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(head.get(at + 1), Some(&b'\n'), "{shown}"),
            b'\n' => assert!(at > 0 && head[at - 1] == b'\r', "{shown}"),
            byte => assert!(*byte == b'\t' || *byte >= b' ' && *byte != 0x7f, "{shown}"),
        }
    }
}

fn agree(head: &[u8], seen: &Head, version: Version, fields: &Fields<'_>) {
    assert_eq!(seen.length, head.len(), "{}", head.escape_ascii());
    assert_eq!(seen.minor, u8::from(version == Version::Http11));
    let ours = fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect::<Vec<_>>();
    assert_eq!(seen.fields, ours, "{}", head.escape_ascii());
}

/// Holds that there is one Host, and that it is `target`.
fn check_host(seen: &Head, target: &Authority, default_port: u16) {
    let hosts = seen.all("host");
    let host = match hosts[..] {
        // What CONNECT of HTTP/1.0 has.
        [] if seen.minor == 0 && seen.first[0] == "CONNECT" => return,
        [host] => host,
        _ => panic!("{hosts:?}"),
    };
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let name = match &target.host {
        // Addresses have many spellings.
        Host::Ip(_) => {
            return assert_eq!(
                Authority::parse_with_default(host.as_bytes(), default_port).as_ref(),
                Ok(target)
            );
        }
        Host::Name(name) => name,
    };
    let (sent, port) = host.split_once(':').unwrap_or((&host, ""));
    assert_eq!(sent.strip_suffix('.').unwrap_or(sent), name.as_str());
    assert_eq!(port.parse().unwrap_or(default_port), target.port, "{host}");
}

fn one_framing(seen: &Head) {
    let (lengths, codings) = (seen.all("content-length"), seen.all("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{seen:?}");
    assert!(
        lengths.iter().all(|length| length.iter().all(u8::is_ascii_digit) && !length.is_empty()),
        "{seen:?}"
    );
    assert!(codings.iter().all(|coding| coding.eq_ignore_ascii_case(b"chunked")), "{seen:?}");
}

/// Holds that of the headers that end at a door there are those alone that it writes itself.
fn ends_here(sent: &Head, upgraded: bool) {
    for dropped in DROPPED {
        let values = sent.all(dropped.name);
        let fine = match dropped.name {
            "host" | "content-length" | "transfer-encoding" => values.len() <= 1,
            "connection" if upgraded => values == [b"Upgrade"],
            "connection" => values.is_empty() || values == [&b"close"[..]] || values == [&b"keep-alive"[..]],
            "upgrade" if upgraded => values == [b"websocket"],
            _ => values.is_empty(),
        };
        assert!(fine, "{}: {values:?}", dropped.name);
    }
}
