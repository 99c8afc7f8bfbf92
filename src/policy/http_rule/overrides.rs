//! Headers that make another request of the one that was sent.

use std::collections::BTreeSet;

use super::denial::shown;
use super::{Ambiguity, HttpDecision, HttpReason, decide_http, deny};
use crate::policy::authority::Authority;
use crate::policy::net::NetPolicy;

/// Headers by which many servers take another method than the one that was sent.
pub const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
/// Headers by which some servers take another path.
pub const PATH_OVERRIDES: [&str; 2] = ["x-original-url", "x-rewrite-url"];
/// The methods and paths in them that are looked at. More names no client.
const MAX_OVERRIDES: usize = 8;

/// Whether a header's `name` is `known`, which is in lower case. Servers that hand headers on as variables (CGI, WSGI) take `_`
/// for `-`, and some of them every other sign.
pub fn is_header(name: &str, known: &str) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.bytes().map(fold).eq(known.bytes())
}

/// A method or a path, and the header that names it; none for what was sent.
struct Named<'n> {
    text: String,
    header: Option<&'n str>,
}

/// Decides about a request that may name other methods and other paths in its `fields`, names and values: each way to read it
/// has to be allowed.
pub fn decide_request<'p, 'f>(
    policy: &'p NetPolicy,
    target: &Authority,
    method: &str,
    path_and_query: &str,
    fields: impl Iterator<Item = (&'f str, &'f [u8])>,
) -> HttpDecision<'p> {
    let decision = decide_http(policy, target, method, path_and_query);
    if matches!(decision, HttpDecision::Denied(_))
        || !policy.http.iter().any(|entry| entry.value.host.matches(target))
    {
        return decision;
    }
    let sent = |text: &str| vec![Named { text: text.to_owned(), header: None }];
    let (mut methods, mut paths) = (sent(method), sent(path_and_query));
    for (name, value) in fields {
        let any = |known: &[&str]| known.iter().any(|known| is_header(name, known));
        let named = |text| Named { text, header: Some(name) };
        if any(&METHOD_OVERRIDES) {
            methods.extend(methods_of(value).into_iter().map(named));
        } else if any(&PATH_OVERRIDES) {
            paths.extend(paths_of(value).into_iter().map(named));
        }
    }
    let headers = |named: &mut dyn Iterator<Item = &Named<'_>>| -> Vec<String> {
        let names: BTreeSet<&str> = named.filter_map(|named| named.header).collect();
        names.into_iter().take(MAX_OVERRIDES).map(shown).collect()
    };
    if methods.len() + paths.len() - 2 > MAX_OVERRIDES {
        let path = path_and_query.split('?').next().unwrap_or_default();
        let reason = HttpReason::Ambiguous { why: Ambiguity::Overridden, denying: true };
        return deny(target, method, path, reason).because_of(headers(&mut methods.iter().chain(&paths)));
    }
    for (path, method) in paths.iter().flat_map(|path| methods.iter().map(move |method| (path, method))) {
        let other = decide_http(policy, target, &method.text, &path.text);
        if matches!(other, HttpDecision::Denied(_)) {
            return other.because_of(headers(&mut [method, path].into_iter()));
        }
    }
    decision
}

impl HttpDecision<'_> {
    /// The same, when it is a denial, for what these headers make of the request.
    fn because_of(mut self, headers: Vec<String>) -> Self {
        if let Self::Denied(denial) = &mut self {
            denial.headers = headers;
        }
        self
    }
}

/// The methods that the value of a header names. Where it is a list, as of several headers that were joined, one server takes
/// the first and another the last; what no method of a rule holds is stripped by some.
fn methods_of(value: &[u8]) -> Vec<String> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || sign == '-';
    // Also of letters that are one of ASCII's in capitals alone.
    let text = String::from_utf8_lossy(value).to_uppercase();
    let words = text.split(|sign| !is_sign(sign)).filter(|word| !word.is_empty());
    words.take(MAX_OVERRIDES + 1).map(str::to_owned).collect()
}

/// The paths that the value of a header names: all of it, and where it is a list, each part that is a path.
fn paths_of(value: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(value);
    let parts = text.split([',', ' ', '\t']).filter(|part| part.starts_with('/') || part.contains("://"));
    let mut paths = vec![path_of(text.trim())];
    for part in parts.take(MAX_OVERRIDES + 1).map(path_of) {
        if !paths.contains(&part) {
            paths.push(part);
        }
    }
    paths
}

/// The path of what names a path or a whole address.
fn path_of(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..]).to_owned()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{entry, user, with};
    use super::*;

    #[test]
    fn what_headers_make_of_a_request_has_to_be_allowed_as_well() {
        let net = with(vec![
            entry("a.test", &["GET /pub/**", "POST /pub/**"], &[], user()),
            entry("b.test", &[], &["* /admin/**", "DELETE /**"], user()),
            entry("f.test", &[], &["OPTIONS /**"], user()),
        ]);
        let eight = [("X-Http-Method", "GET"); 8];
        let nine = [("X-Http-Method", "GET"); 9];
        type Fields<'f> = &'f [(&'f str, &'f str)];
        let cases: &[(&str, Fields<'_>, Option<&str>)] = &[
            ("a.test", &[("accept", "DELETE")], None),
            ("a.test", &[("X-HTTP-Method-Override", "post")], None),
            ("a.test", &[("X-HTTP-Method-Override", "DELETE")], Some("http-rule")),
            ("a.test", &[("x_http_method_override", " delete ")], Some("http-rule")),
            ("a.test", &[("X-Method_Override", "PUT")], Some("http-rule")),
            // A list, of which servers take the first or the last, and what some of them strip or fold.
            ("a.test", &[("X-HTTP-Method-Override", "POST, GET")], None),
            ("a.test", &[("X-HTTP-Method-Override", ", ")], None),
            ("b.test", &[("X-HTTP-Method-Override", "DELETE, POST")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "POST,delete")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "POST\tDELETE")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "DELETE;q=1")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "\"DELETE\"")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "'delete'.")], Some("http-rule")),
            ("b.test", &[("X-HTTP-Method-Override", "\u{a0}DELETE\u{feff}")], Some("http-rule")),
            (
                "b.test",
                &[("X-HTTP-Method-Override", "put, put, put, put, put, put, put, put, delete")],
                Some("ambiguous-path"),
            ),
            ("f.test", &[("X-HTTP-Method-Override", "op\u{fb05}\u{131}ons")], None),
            ("f.test", &[("X-HTTP-Method-Override", "opt\u{131}on\u{17f}")], Some("http-rule")),
            ("b.test", &[("X.HTTP.Method Override", "DELETE")], Some("http-rule")),
            ("b.test", &[("X-Original-URL", "/y,/admin")], Some("http-rule")),
            ("b.test", &[("X-Original-URL", "/admin,/y")], Some("http-rule")),
            ("b.test", &[("X-Original-URL", "/y,https://b.test/admin/x")], Some("http-rule")),
            ("b.test", &[("X-Original-URL", "/y,z")], None),
            ("a.test", &[("X-Original-URL", "/pub/b?x=/admin")], None),
            ("a.test", &[("X-Original-URL", "/admin")], Some("http-rule")),
            ("a.test", &[("X_Rewrite_URL", "https://a.test/admin")], Some("http-rule")),
            ("a.test", &[("X-Rewrite-URL", "https://a.test/pub/c")], None),
            ("a.test", &[("X-Rewrite-URL", "https://a.test")], Some("http-rule")),
            ("a.test", &[("X-Rewrite-URL", "pub/c")], Some("ambiguous-path")),
            ("a.test", &eight, None),
            ("a.test", &nine, Some("ambiguous-path")),
            ("b.test", &[("X-Original-URL", "/admin/x")], Some("http-rule")),
            // Each path with each method.
            ("b.test", &[("X-Original-URL", "/y"), ("X-Http-Method", "DELETE")], Some("http-rule")),
            ("b.test", &nine, Some("ambiguous-path")),
            ("c.test", &nine, None),
            ("c.test", &[("X-Original-URL", "/admin/x")], None),
        ];
        for (host, fields, want) in cases {
            let target = Authority::parse(format!("{host}:443").as_bytes()).unwrap();
            let named = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
            let code = match decide_request(&net, &target, "GET", "/pub/a", named) {
                HttpDecision::Denied(denial) => Some(denial.code()),
                HttpDecision::Free | HttpDecision::Allowed(_) => None,
            };
            assert_eq!(code, *want, "{host} {fields:?}");
        }
    }

    #[test]
    fn a_denial_says_which_headers_led_to_it() {
        let net = with(vec![
            entry("a.test", &["GET /pub/**"], &[], user()),
            entry("b.test", &[], &["DELETE /admin"], user()),
        ]);
        let nine = "a b c d e f g h i".as_bytes();
        type Fields<'f> = &'f [(&'f str, &'f [u8])];
        let cases: [(&str, Fields<'_>, &str); 5] = [
            ("b.test", &[], "free"),
            (
                "a.test",
                &[("x-http-method-override", b"DELETE, POST")],
                "ai-jail: DELETE /pub/a at a.test:443 is not allowed (no HTTP rule of the host matches; servers take it for that by the \
                 header x-http-method-override); leave out the header x-http-method-override, or allow it with \"DELETE /pub/a\" in \
                 allow of [[network.http]] for a.test",
            ),
            (
                "b.test",
                &[("X-Method-Override", b"DELETE"), ("X-Original-URL", b"/admin")],
                "ai-jail: DELETE /admin at b.test:443 is denied (by the HTTP rule DELETE /admin; servers take it for that by the \
                 headers X-Method-Override and X-Original-URL); leave out the headers X-Method-Override and X-Original-URL, or \
                 remove that rule to allow it",
            ),
            (
                "a.test",
                &[("X-Original-URL", b"/a%2fb")],
                "ai-jail: GET /a%2fb at a.test:443 is not allowed (servers read its path in different ways: it holds an encoded slash \
                 or backslash; servers take it for that by the header X-Original-URL); leave out the header X-Original-URL",
            ),
            (
                "b.test",
                &[("X-HTTP-Method", nine)],
                "ai-jail: GET /pub/a at b.test:443 is not allowed (its headers name more than eight other methods and paths); leave \
                 out the header X-HTTP-Method",
            ),
        ];
        for (host, fields, want) in cases {
            let target = Authority::parse(format!("{host}:443").as_bytes()).unwrap();
            let said = match decide_request(&net, &target, "GET", "/pub/a", fields.iter().copied()) {
                HttpDecision::Denied(denial) => denial.to_string(),
                HttpDecision::Free | HttpDecision::Allowed(_) => "free".to_owned(),
            };
            assert_eq!(said, want, "{host} {fields:?}");
        }
    }
}
