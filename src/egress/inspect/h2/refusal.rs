//! Answers of our own to requests over HTTP/2.

use bytes::Bytes;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

/// gRPC's code for what is not permitted, and for what cannot be reached.
pub(super) const PERMISSION_DENIED: &str = "7";
pub(super) const UNAVAILABLE: &str = "14";

/// What an answer of ours has to be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// gRPC has its own way to say no.
    grpc: bool,
    /// There must be no body.
    head: bool,
}

impl Asked {
    pub(super) fn of(parts: &Parts) -> Self {
        let kind = parts.headers.get(CONTENT_TYPE);
        let grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        Self { grpc, head: parts.method == Method::HEAD }
    }
}

/// An answer of ours: a line of text, or what gRPC has for it.
pub(super) fn refusal(
    status: StatusCode,
    line: String,
    asked: Asked,
    code: &'static str,
) -> Response<Option<Bytes>> {
    let mut headers = HeaderMap::new();
    let (status, body) = if asked.grpc {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static(code));
        // Percent signs begin escapes in messages of gRPC.
        if let Ok(message) = HeaderValue::from_str(&line.replace('%', "%25")) {
            headers.insert("grpc-message", message);
        }
        (StatusCode::OK, None)
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        (status, (!asked.head).then(|| Bytes::from(line + "\n")))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Gives an answer of ours. A client that is gone does not get it.
pub(super) fn say(respond: &mut SendResponse<Bytes>, answer: Response<Option<Bytes>>) {
    let (parts, line) = answer.into_parts();
    if let Ok(mut body) = respond.send_response(Response::from_parts(parts, ()), line.is_none())
        && let Some(line) = line
    {
        let _ = body.send_data(line, true);
    }
}
