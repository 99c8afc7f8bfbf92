//! PURE: what a request head asks of a door. The target and Host are read by our own grammar and must agree.

use std::borrow::Cow;

use crate::egress::head::{Framing, HeadError, Request, Version};
use crate::policy::authority::{Authority, AuthorityError};

/// The port of `http:`.
const HTTP_PORT: u16 = 80;
/// The port of `https:`.
const HTTPS_PORT: u16 = 443;

/// What a client of the HTTP proxy door asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask<'a> {
    /// A tunnel.
    Tunnel(Authority),
    /// One plain request.
    Forward(Forward<'a>),
}

/// A plain request: where to, and what is asked of the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward<'a> {
    /// The origin.
    pub target: Authority,
    /// The target in origin-form: a path with its query, or `*`.
    pub path: Cow<'a, str>,
    /// How the body's end is found.
    pub framing: Framing,
}

/// Why a request is refused with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// An authority, in the target or in Host.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// Not `http://`, where a proxy needs it.
    #[error("the target is not http://HOST/..., nor is this CONNECT HOST:PORT")]
    NotForProxy,
    /// Neither a path nor a URL of this origin.
    #[error("the target is not a path")]
    NotForOrigin,
    /// A fragment, which never leaves a client.
    #[error("the target has a fragment")]
    Fragment,
    /// No Host.
    #[error("the Host header is missing")]
    NoHost,
    /// Host names something else than the target.
    #[error("the Host header and the target differ")]
    OtherHost,
    /// CONNECT with a body.
    #[error("CONNECT has no body")]
    ConnectBody,
}

/// Reads what a request to the proxy door asks.
pub fn ask_proxy<'a>(request: &Request<'a>) -> Result<Ask<'a>, AskError> {
    if request.method == "CONNECT" {
        return ask_tunnel(request).map(Ask::Tunnel);
    }
    let (authority, path) = split_url(request).ok_or(AskError::NotForProxy)??;
    let target = Authority::parse_with_default(authority.as_bytes(), HTTP_PORT)?;
    check_host(request, &target, HTTP_PORT)?;
    Ok(Ask::Forward(Forward { target, path, framing: request.framing()? }))
}

/// Reads a request that arrived on a connection to `origin` itself.
pub fn ask_origin<'a>(request: &Request<'a>, origin: &Authority) -> Result<Forward<'a>, AskError> {
    let path = match split_url(request) {
        Some(url) => {
            let (authority, path) = url?;
            if Authority::parse_with_default(authority.as_bytes(), HTTP_PORT)? != *origin {
                return Err(AskError::OtherHost);
            }
            Some(path)
        }
        None => None,
    };
    ask_at(request, origin, HTTP_PORT, path)
}

/// Reads a request that arrived on a TLS connection to `origin`.
pub fn ask_secure<'a>(request: &Request<'a>, origin: &Authority) -> Result<Forward<'a>, AskError> {
    ask_at(request, origin, HTTPS_PORT, None)
}

/// `path` is that of a target which is a URL of `origin`.
fn ask_at<'a>(
    request: &Request<'a>,
    origin: &Authority,
    default_port: u16,
    path: Option<Cow<'a, str>>,
) -> Result<Forward<'a>, AskError> {
    check_host(request, origin, default_port)?;
    let path = match path {
        // An origin leads nowhere else, whatever form the target has.
        _ if request.method == "CONNECT" => return Err(AskError::NotForOrigin),
        Some(path) => path,
        None if request.target.contains('#') => return Err(AskError::Fragment),
        None if request.target.starts_with('/') => request.target.into(),
        None if request.target == "*" && request.method == "OPTIONS" => request.target.into(),
        None => return Err(AskError::NotForOrigin),
    };
    Ok(Forward { target: origin.clone(), path, framing: request.framing()? })
}

fn ask_tunnel(request: &Request<'_>) -> Result<Authority, AskError> {
    let target = Authority::parse(request.target.as_bytes())?;
    match check_host(request, &target, target.port) {
        // Python before 3.12, and so pip, asks like this.
        Err(AskError::NoHost) if request.version == Version::Http10 => {}
        other => other?,
    }
    match request.framing()? {
        Framing::Unstated | Framing::Length(0) => Ok(target),
        _ => Err(AskError::ConnectBody),
    }
}

/// The authority and the origin-form of an `http:` URL; `None` when the target is none.
fn split_url<'a>(request: &Request<'a>) -> Option<Result<(&'a str, Cow<'a, str>), AskError>> {
    let (scheme, rest) = request.target.split_at_checked("http://".len())?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return None;
    }
    if rest.contains('#') {
        return Some(Err(AskError::Fragment));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = match path {
        "" if request.method == "OPTIONS" => "*".into(),
        path if path.starts_with('/') => path.into(),
        query => format!("/{query}").into(),
    };
    Some(Ok((authority, path)))
}

fn check_host(request: &Request<'_>, target: &Authority, default_port: u16) -> Result<(), AskError> {
    let host = request.fields.single("host")?.ok_or(AskError::NoHost)?;
    match Authority::parse_with_default(host, default_port)? == *target {
        true => Ok(()),
        false => Err(AskError::OtherHost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(head: &str) -> Result<String, AskError> {
        let head = format!("{head}\r\n\r\n");
        Ok(match ask_proxy(&Request::parse(head.as_bytes())?)? {
            Ask::Tunnel(target) => format!("tunnel {target}"),
            Ask::Forward(forward) => format!("{} {}", forward.target, forward.path),
        })
    }

    #[test]
    fn the_proxy_door_takes_tunnels_and_plain_urls_alone() {
        for (head, want) in [
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443", Some("tunnel a.test:443")),
            ("CONNECT A.test.:443 HTTP/1.1\r\nHost: a.test", Some("tunnel a.test:443")),
            ("CONNECT a.test:443 HTTP/1.0", Some("tunnel a.test:443")),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0", Some("tunnel a.test:443")),
            ("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443", Some("tunnel [::1]:443")),
            ("CONNECT a.test:443 HTTP/1.1", None),
            ("CONNECT a.test:443 HTTP/1.0\r\nHost: b.test", None),
            ("CONNECT a.test:443 HTTP/1.0\r\nHost: a.test\r\nHost: a.test", None),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:80", None),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost:", None),
            ("CONNECT a.test HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT a.test:00443 HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT a.test:65979 HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT u@a.test:443 HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT http://a.test:443/ HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4", None),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked", None),
            ("connect a.test:443 HTTP/1.1\r\nHost: a.test", None),
            ("GET http://a.test HTTP/1.1\r\nHost: a.test", Some("a.test:80 /")),
            ("GET HTTP://A.TEST?q=http://b/ HTTP/1.1\r\nHost: a.test:80", Some("a.test:80 /?q=http://b/")),
            ("GET http://a.test:8080/x?y HTTP/1.1\r\nHost: a.test:8080", Some("a.test:8080 /x?y")),
            ("OPTIONS http://a.test HTTP/1.1\r\nHost: a.test", Some("a.test:80 *")),
            ("GET http://a.test:8080/ HTTP/1.1\r\nHost: a.test", None),
            ("GET http://a.test/ HTTP/1.0", None),
            ("GET http://a.test/#f HTTP/1.1\r\nHost: a.test", None),
            ("GET http://a.test\\@b.test/ HTTP/1.1\r\nHost: a.test", None),
            ("GET http:///x HTTP/1.1\r\nHost: a.test", None),
            ("GET http://a.test:/ HTTP/1.1\r\nHost: a.test", None),
            ("GET https://a.test/ HTTP/1.1\r\nHost: a.test", None),
            ("GET /x HTTP/1.1\r\nHost: a.test", None),
            ("GET //a.test/ HTTP/1.1\r\nHost: a.test", None),
            ("OPTIONS * HTTP/1.1\r\nHost: a.test", None),
        ] {
            assert_eq!(proxy(head).ok().as_deref(), want, "{head}");
        }
    }

    #[test]
    fn an_origin_is_asked_for_itself_alone() {
        let origin = Authority::parse(b"a.test:80").unwrap();
        for (head, want) in [
            ("GET /x?y HTTP/1.1\r\nHost: A.test.", Some("/x?y")),
            ("GET http://a.test/z HTTP/1.1\r\nHost: a.test", Some("/z")),
            ("OPTIONS * HTTP/1.1\r\nHost: a.test", Some("*")),
            ("GET * HTTP/1.1\r\nHost: a.test", None),
            ("GET http://b.test/z HTTP/1.1\r\nHost: a.test", None),
            ("GET https://a.test/z HTTP/1.1\r\nHost: a.test", None),
            ("GET / HTTP/1.1\r\nHost: b.test", None),
            ("GET / HTTP/1.1\r\nHost: a.test:8080", None),
            ("GET / HTTP/1.1", None),
            ("GET / HTTP/1.0", None),
            ("GET /#x HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT /x HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT b.test:443 HTTP/1.1\r\nHost: a.test", None),
            ("CONNECT http://a.test HTTP/1.1\r\nHost: a.test", None),
        ] {
            let head = format!("{head}\r\n\r\n");
            let forward = Request::parse(head.as_bytes())
                .map_err(AskError::from)
                .and_then(|request| ask_origin(&request, &origin).map(|forward| forward.path.into_owned()));
            assert_eq!(forward.ok().as_deref(), want, "{head}");
        }
    }
}
