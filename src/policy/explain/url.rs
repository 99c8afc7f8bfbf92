//! `ai-jail explain [METHOD ]URL`: the host, and what its HTTP rules say of the request.

use std::fmt;
use std::net::IpAddr;

use super::{Answer, Rules, explain_host};
use crate::policy::authority::{Authority, AuthorityError};
use crate::policy::http_rule::{HttpDecision, HttpRule, HttpRuleError, decide_http};
use crate::policy::net::NetPolicy;
use crate::policy::{NetworkRule, Policy};

/// An `http` or `https` URL, of which the query and the fragment do not count, and the method with which it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Where none was written it is GET.
    method: Option<String>,
    scheme: &'static str,
    target: Authority,
    path: String,
}

/// Why a URL is none that can be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Rules are about the host of other schemes alone.
    #[error("only http and https URLs have paths that rules are about")]
    Scheme,
    /// It holds a user's name.
    #[error("it holds a user or a password, which no rule is about")]
    User,
    /// Its host or port is none.
    #[error("{0}")]
    Authority(AuthorityError),
    /// The word before it is no method.
    #[error("{0}")]
    Method(HttpRuleError),
}

impl Url {
    /// Reads a URL, or a method and a URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        let (method, text) = match text.split_once(' ') {
            Some((method, url)) if !method.contains("://") => {
                HttpRule::parse(&format!("{method} /")).map_err(UrlError::Method)?;
                ((method != "*").then(|| method.to_owned()), url.trim_start())
            }
            _ => (None, text),
        };
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
            "https" => ("https", 443),
            "http" => ("http", 80),
            _ => return Err(UrlError::Scheme),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let target =
            Authority::parse_with_default(authority.as_bytes(), port).map_err(UrlError::Authority)?;
        Ok(Self { method, scheme, target, path: path.to_owned() })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, scheme, target, path } = self;
        if let Some(method) = method {
            write!(f, "{method} ")?;
        }
        match (*scheme, target.port) {
            ("https", 443) | ("http", 80) => write!(f, "{scheme}://{}{path}", target.host),
            _ => write!(f, "{scheme}://{target}{path}"),
        }
    }
}

/// Explains the host of `url`, on a machine with the addresses `own`, and what becomes of a request for its path; which other
/// methods pass is said beside.
pub fn explain_url(policy: &Policy, own: &[IpAddr], url: &Url) -> Answer {
    let host =
        Answer { asked: url.to_string(), ..explain_host(policy, own, &url.target.to_string(), Rules::Left) };
    match &policy.network {
        NetworkRule::Filtered(net) if host.verdict == "allowed" => explain_path(net, host, url),
        _ => host,
    }
}

/// What is said of the path beside what holds for the `host`, which is allowed.
fn explain_path(net: &NetPolicy, host: Answer, url: &Url) -> Answer {
    if !net.http.iter().any(|rules| rules.value.host.matches(&url.target)) {
        let because = format!("{}; no HTTP rules are for it: every method and path passes", host.because);
        return Answer { because, ..host };
    }
    let (denied, passes): (Vec<&str>, Vec<_>) = METHODS.iter().partition(|method| {
        matches!(decide_http(net, &url.target, method, &url.path), HttpDecision::Denied(_))
    });
    let method = url.method.as_deref().unwrap_or("GET");
    let (verdict, why, hint) = match decide_http(net, &url.target, method, &url.path) {
        HttpDecision::Free => ("allowed", format!("no rule denies {method} of this path"), host.hint),
        HttpDecision::Allowed(rule) => {
            ("allowed", format!("{method} of this path is allowed by {rule}"), host.hint)
        }
        HttpDecision::Denied(denial) => {
            let from = denial.origin().map_or(String::new(), |origin| format!(", {origin}"));
            let why = format!("{method} of this path is denied ({}{from})", denial.why());
            ("denied", why, Some(denial.hint()))
        }
    };
    let list = |methods: Vec<&str>| if methods.is_empty() { "none".to_owned() } else { methods.join(", ") };
    let because = format!(
        "{}; {why}; of the usual methods pass: {}; do not: {}",
        host.because,
        list(passes),
        list(denied)
    );
    Answer { verdict, because, hint, ..host }
}

/// Those that are told of.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret_values::http_host;
    use crate::egress::decide::tests::policy;
    use crate::policy::http_rule::HttpRules;
    use crate::policy::origin::{Origin, Sourced};

    #[test]
    fn a_url_is_read_as_its_target_and_path() {
        for (text, want) in [
            ("https://a.test", Ok("https://a.test/")),
            ("HTTPS://A.test:443/x/y?key=1#z", Ok("https://a.test/x/y")),
            ("http://a.test:8080?x/y", Ok("http://a.test:8080/")),
            ("http://[2001:db8::1]/x", Ok("http://[2001:db8::1]/x")),
            ("GET https://a.test/x?y", Ok("GET https://a.test/x")),
            (" DELETE  https://a.test/x ", Ok("DELETE https://a.test/x")),
            ("get https://a.test/x", Err(UrlError::Method(HttpRuleError::LowerCase("GET".to_owned())))),
            ("ssh://a.test/x", Err(UrlError::Scheme)),
            ("https://me:secret@a.test/", Err(UrlError::User)),
        ] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()), want.map(str::to_owned), "{text}");
        }
        for text in ["https://", "https:///x", "https://a..b/", "https://a.test:99999/"] {
            assert!(matches!(Url::parse(text), Err(UrlError::Authority(_))), "{text}");
        }
    }

    #[test]
    fn a_path_is_explained_by_the_rules_of_its_host() {
        let mut net = policy(&["a.test", "free.test"], &[]);
        let rule = |text: &str| HttpRule::parse(text).unwrap();
        let rules = HttpRules {
            host: http_host("a.test").unwrap(),
            allow: vec![rule("GET /open/**"), rule("POST /open/**")],
            deny: vec![rule("* /open/secret")],
        };
        net.http.push(Sourced::new(rules, Origin::flag("--test")));
        for (url, verdict, parts, hint) in [
            ("https://free.test/x", "allowed", &["every method and path passes"][..], None),
            (
                "https://a.test/open/x?y",
                "allowed",
                &[
                    "GET of this path is allowed by GET /open/**",
                    "pass: GET, POST; do not: HEAD, PUT, PATCH, DELETE, OPTIONS",
                ],
                None,
            ),
            (
                "POST https://a.test/open/x",
                "allowed",
                &["POST of this path is allowed by POST /open/**", "pass: GET, POST; do not: HEAD"],
                None,
            ),
            (
                "DELETE https://a.test/open/x",
                "denied",
                &["DELETE of this path is denied (no HTTP rule of the host matches, --test)"],
                Some("allow it with \"DELETE /open/x\" in allow of [[network.http]] for a.test"),
            ),
            (
                "http://a.test/open/secret",
                "denied",
                &["by the HTTP rule * /open/secret, --test", "pass: none; do not: GET"],
                Some("remove that rule to allow it"),
            ),
            (
                "https://a.test/else",
                "denied",
                &["no HTTP rule of the host matches, --test"],
                Some("allow it with \"GET /else\" in allow of [[network.http]] for a.test"),
            ),
        ] {
            let host =
                Answer { asked: url.to_owned(), verdict: "allowed", because: "x".to_owned(), hint: None };
            let got = explain_path(&net, host, &Url::parse(url).unwrap());
            assert_eq!((got.verdict, got.hint.as_deref()), (verdict, hint), "{url}");
            for part in parts {
                assert!(
                    got.because.starts_with("x; ") && got.because.contains(part),
                    "{url}: {}",
                    got.because
                );
            }
        }
    }
}
