//! Why HTTP/2 failed, in words for users. What the other side adds in its own words is left out: it may be anything, a secret
//! among it.

/// What is the matter, as a part of a sentence.
pub(super) fn why(error: &h2::Error) -> String {
    if let Some(reason) = error.reason() {
        let whose = if error.is_remote() { "it said" } else { "HTTP/2 failed" };
        return format!("{whose}: {}", reason.description());
    }
    match error.get_io() {
        // The library's text holds what the other side said when it closed the connection.
        Some(io) => format!("the connection broke: {}", io.kind()),
        None => "it cannot be asked so over HTTP/2".to_owned(),
    }
}
