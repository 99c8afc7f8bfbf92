//! The doors' own HTTP answers: one line of plain text.

use crate::egress::rewrite::After;
use crate::policy::authority::Authority;

/// The status of an answer of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    BadRequest,
    Forbidden,
    HeadTooLarge,
    BadGateway,
}

/// The answer to CONNECT.
pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Writes an answer whose body is `line`. `denied` is the target that a denial is about; to `HEAD` the body is left out.
pub(super) fn reply(
    status: Status,
    line: &str,
    denied: Option<&Authority>,
    method: &str,
    after: After,
) -> Vec<u8> {
    let status = match status {
        Status::BadRequest => "400 Bad Request",
        Status::Forbidden => "403 Forbidden",
        Status::HeadTooLarge => "431 Request Header Fields Too Large",
        Status::BadGateway => "502 Bad Gateway",
    };
    let length = line.len() + 1;
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n"
    );
    if let Some(target) = denied {
        text.push_str(&format!("X-AI-Jail-Denied: {target}\r\n"));
    }
    text.push_str(match after {
        After::KeepAlive => "Connection: keep-alive\r\n\r\n",
        After::Close => "Connection: close\r\n\r\n",
    });
    if method != "HEAD" {
        text.push_str(line);
        text.push('\n');
    }
    text.into_bytes()
}
