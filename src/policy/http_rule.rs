//! HTTP rules of a host: which methods and paths may be asked there (NET-6). Every inspected request is put to
//! [`decide_http`].
//!
//! Fail closed: a path that servers may read in more than one way passes only where no path counts.

mod ambiguity;
mod denial;
mod methods;
mod overrides;
mod path;

use std::fmt;

use crate::policy::authority::Authority;
use crate::policy::host_rule::HostPattern;
use crate::policy::net::NetPolicy;
use crate::policy::origin::{Layer, Origin, Sourced};

use self::denial::shown;
use self::path::{Case, PathGlob, RequestPath};

pub use self::ambiguity::Ambiguity;
pub use self::denial::{HttpDenial, HttpReason, Owner, Plain};
pub use self::methods::is_known as is_method;
pub use self::overrides::{METHOD_OVERRIDES, PATH_OVERRIDES, decide_request, is_header};
pub use self::path::GlobError;

/// The longest method of a rule (bytes).
const METHOD: usize = 40;

/// What may be asked of the hosts that a pattern covers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HttpRules {
    /// The hosts. A user's rules that name no port have every port here.
    pub host: HostPattern,
    /// When not empty, only what one of these matches passes.
    pub allow: Vec<HttpRule>,
    /// What one of these matches does not pass.
    pub deny: Vec<HttpRule>,
}

/// One rule: a method, or all, and the paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    /// `None` for every method.
    method: Option<String>,
    path: PathGlob,
}

impl HttpRule {
    /// Reads `METHOD /path` or `* /path`, where `*` in a path stands for a part of a segment and `**` for any number of
    /// segments. The error says what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, HttpRuleError> {
        let (method, path) = text.split_once(' ').ok_or(HttpRuleError::Form)?;
        let method = match method {
            "*" => None,
            _ if method.is_empty() || method.len() > METHOD => return Err(HttpRuleError::Form),
            _ if !method.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') => {
                return Err(HttpRuleError::Method);
            }
            _ if method.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                return Err(HttpRuleError::LowerCase(method.to_ascii_uppercase()));
            }
            _ if !methods::is_known(method) => {
                return Err(HttpRuleError::Unknown {
                    method: method.to_owned(),
                    near: methods::nearest_to(method),
                });
            }
            _ => Some(method.to_owned()),
        };
        let path = PathGlob::parse(path.trim_start_matches(' ')).map_err(HttpRuleError::Path)?;
        Ok(Self { method, path })
    }

    /// The rule that has this method, in capitals, and matches every path.
    pub fn every_path(method: &str) -> Self {
        Self { method: Some(method.to_owned()), path: PathGlob::every() }
    }

    /// Whether it allows requests of `method`: this very one.
    fn allows_method(&self, method: &str) -> bool {
        self.method.as_deref().is_none_or(|own| own == method)
    }

    /// Whether it denies requests of `method`, in upper or lower case. HEAD tells of what GET would get.
    fn denies_method(&self, method: &str) -> bool {
        self.method.as_deref().is_none_or(|own| {
            own.eq_ignore_ascii_case(method) || own == "GET" && method.eq_ignore_ascii_case("HEAD")
        })
    }
}

impl fmt::Display for HttpRule {
    /// The canonical text, which parses to the same rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_deref().unwrap_or("*"), self.path)
    }
}

impl serde::Serialize for HttpRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a rule is refused, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpRuleError {
    /// It is not two words.
    #[error("a rule is a method and a path, for example \"GET /repos/**\", or \"* /**\" for everything")]
    Form,
    /// The method holds something else than letters and dashes.
    #[error("a method is letters, such as GET or POST, or * for every one")]
    Method,
    /// Upper and lower case are different in methods.
    #[error("methods are in capitals; write {0}")]
    LowerCase(String),
    /// No server that we know of understands the method.
    #[error("{method} is no method of HTTP; {}", near.map_or("write * for every method".to_owned(), |near| format!("did you mean {near}?")))]
    Unknown {
        /// What was written.
        method: String,
        /// What was perhaps meant.
        near: Option<&'static str>,
    },
    /// The path is none.
    #[error("{0}")]
    Path(GlobError),
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpDecision<'p> {
    /// Nothing is said against it: the host has no rules, or none that allow.
    Free,
    /// This rule allows it.
    Allowed(&'p HttpRule),
    /// It may not pass.
    Denied(HttpDenial),
}

/// Decides about a request to `target`, whose connection is allowed. `path_and_query` is what was sent, its path
/// beginning with a slash.
///
/// Rules of several entries for one host count together, but for a project's: what it allows has to be allowed by the
/// others as well. A denying rule beats all that allow, and takes no notice of upper and lower case.
pub fn decide_http<'p>(
    policy: &'p NetPolicy,
    target: &Authority,
    method: &str,
    path_and_query: &str,
) -> HttpDecision<'p> {
    let entries: Vec<_> = policy.http.iter().filter(|entry| entry.value.host.matches(target)).collect();
    if entries.is_empty() {
        return HttpDecision::Free;
    }
    let path = path_and_query.split('?').next().unwrap_or_default();
    let request = Request { method, path: RequestPath::read(path) };
    let deny = |reason| deny(target, method, path, reason);
    if let Some(reason) = request.denied(&entries) {
        return deny(reason);
    }
    let (project, own): (Vec<&Sourced<HttpRules>>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.origin.layer == Layer::Project);
    let mut decision = HttpDecision::Free;
    for group in [project, own] {
        match request.allowed(&group) {
            Ok(Some(rule)) => decision = HttpDecision::Allowed(rule),
            Ok(None) => {}
            Err(HttpReason::NoRule { rules, origin, .. }) => {
                // The plain path has one reading alone.
                let path = request.path.as_ref().ok().filter(|path| path.readings().nth(1).is_some());
                let plain = path.map(ToString::to_string).map(|path| Plain {
                    passes: !matches!(decide_http(policy, target, method, &path), HttpDecision::Denied(_)),
                    path: shown(&path),
                });
                return deny(HttpReason::NoRule { rules, origin, plain });
            }
            Err(reason) => return deny(reason),
        }
    }
    decision
}

fn deny<'p>(target: &Authority, method: &str, path: &str, reason: HttpReason) -> HttpDecision<'p> {
    HttpDecision::Denied(HttpDenial {
        target: target.clone(),
        method: shown(method),
        path: shown(path),
        headers: Vec::new(),
        reason,
    })
}

struct Request<'r> {
    method: &'r str,
    path: Result<RequestPath, Ambiguity>,
}

impl Request<'_> {
    /// Why a denying rule refuses it, if one does.
    fn denied(&self, entries: &[&Sourced<HttpRules>]) -> Option<HttpReason> {
        let rules =
            entries.iter().flat_map(|entry| entry.value.deny.iter().map(|rule| (rule, &entry.origin)));
        let rules: Vec<_> = rules.filter(|(rule, _)| rule.denies_method(self.method)).collect();
        let matching = rules.iter().find(|(rule, _)| match &self.path {
            Ok(path) => path.readings().any(|reading| rule.path.matches(reading, Case::Ignored)),
            Err(_) => rule.path.is_any(),
        });
        match (matching, &self.path) {
            (Some((rule, origin)), _) => {
                Some(HttpReason::Rule { rule: rule.to_string(), origin: (*origin).clone() })
            }
            _ if rules.is_empty() => None,
            // It may be what one of them denies.
            (None, Err(ambiguity)) => Some(HttpReason::Ambiguous { why: *ambiguity, denying: true }),
            (None, Ok(path)) => path.doubt().map(|why| HttpReason::Ambiguous { why, denying: true }),
        }
    }

    /// The rule of `group` that allows it; `None` when the group does not say what is allowed.
    fn allowed<'p>(&self, group: &[&'p Sourced<HttpRules>]) -> Result<Option<&'p HttpRule>, HttpReason> {
        let all: Vec<&'p HttpRule> = group.iter().flat_map(|entry| &entry.value.allow).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let rules: Vec<_> = all.into_iter().filter(|rule| rule.allows_method(self.method)).collect();
        let by = |reading: &[String]| rules.iter().find(|rule| rule.path.matches(reading, Case::Counts));
        let found = match &self.path {
            // Every way to read it has to be allowed.
            Ok(path) => {
                path.readings().map(by).reduce(|first, other| first.filter(|_| other.is_some())).flatten()
            }
            Err(_) => rules.iter().find(|rule| rule.path.is_any()),
        };
        match (found, &self.path) {
            (Some(rule), _) => Ok(Some(rule)),
            (None, Err(ambiguity)) if !rules.is_empty() => {
                Err(HttpReason::Ambiguous { why: *ambiguity, denying: false })
            }
            (None, _) => Err(no_rule(group)),
        }
    }
}

/// Why nothing of `group`, which is a project's or has none of a project, allows a request.
fn no_rule(group: &[&Sourced<HttpRules>]) -> HttpReason {
    let allowing = group.iter().filter(|entry| !entry.value.allow.is_empty());
    // What several say counts together: the one that is easiest to change.
    let origin = allowing.map(|entry| &entry.origin).min_by_key(|origin| match origin.layer {
        Layer::Project | Layer::User => 0,
        Layer::Environment | Layer::CommandLine | Layer::Managed => 1,
        Layer::BuiltIn => 2,
    });
    let origin = origin.cloned().unwrap_or_else(|| Origin::built_in("no rule"));
    let rules = match origin.layer {
        Layer::BuiltIn => Owner::Registry,
        Layer::Project => Owner::Project,
        Layer::User | Layer::Environment | Layer::CommandLine | Layer::Managed => Owner::User,
    };
    HttpReason::NoRule { rules, origin, plain: None }
}

#[cfg(test)]
mod tests;
