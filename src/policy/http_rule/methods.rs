//! The methods that a rule may name. A misspelt one would allow or deny nothing, without a word.

use crate::config::words::nearest;

/// Whether a rule may name `method`, which is in capitals.
pub fn is_known(method: &str) -> bool {
    REGISTERED.contains(&method) || IN_USE.contains(&method)
}

/// The known method that `method` is most likely a misspelling of.
pub(super) fn nearest_to(method: &str) -> Option<&'static str> {
    nearest(method, REGISTERED.iter().chain(IN_USE).copied())
}

/// The registry of HTTP methods of IANA, which has those of WebDAV and its like; the common ones first, so that they are
/// the first to be proposed.
const REGISTERED: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Not registered, and understood by servers that many people run: caches (BAN, PURGE), stores of secrets (LIST), UPnP (the
/// others).
const IN_USE: &[&str] = &["BAN", "LIST", "M-SEARCH", "NOTIFY", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_method_that_a_rule_can_name_and_stands_once() {
        let all: Vec<_> = REGISTERED.iter().chain(IN_USE).collect();
        for method in &all {
            assert!(method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-'), "{method}");
            assert_eq!(all.iter().filter(|other| other == &method).count(), 1, "{method}");
        }
        for (wrong, near) in [
            ("GTE", Some("GET")),
            ("DELET", Some("DELETE")),
            ("PSOT", Some("POST")),
            ("FETCH", Some("PATCH")),
        ] {
            assert!(!is_known(wrong));
            assert_eq!(nearest_to(wrong), near, "{wrong}");
        }
        assert_eq!(nearest_to("FROBNICATE"), None);
    }
}
