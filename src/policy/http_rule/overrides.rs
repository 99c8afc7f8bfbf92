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
/// the first and another the last; what no method holds is white space to some.
fn methods_of(value: &[u8]) -> Vec<String> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(sign);
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
