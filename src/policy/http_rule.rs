//! HTTP rules of a host: which methods and paths may be asked there (NET-6). Every inspected request is put to
//! [`decide_http`].
//!
//! Fail closed: a path that servers may read in more than one way passes only where no path counts.

mod methods;
mod path;

use std::borrow::Cow;
use std::fmt;

use crate::egress::decide::option_for;
use crate::policy::authority::Authority;
use crate::policy::host_rule::HostPattern;
use crate::policy::net::NetPolicy;
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::sanitize::escape;

use self::path::{Case, PathGlob, RequestPath};

pub use self::path::{Ambiguity, GlobError};

/// The longest part of a method or path that is shown (bytes).
const SHOWN: usize = 200;
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

/// A refusal: one line for whoever asked, and its parts for the log. It holds nothing unescaped of the request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpDenial {
    /// Where it was asked.
    pub target: Authority,
    /// The method, escaped and cut.
    pub method: String,
    /// The path without the query, escaped and cut.
    pub path: String,
    /// Why not.
    pub reason: HttpReason,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpReason {
    /// A rule denies it.
    Rule {
        /// The rule's text.
        rule: String,
        /// Where it came from. Not part of the line, which the jail reads.
        origin: Origin,
    },
    /// The host has rules that allow, and none of them matches.
    NoRule {
        /// Whose rules they are.
        rules: Owner,
        /// Where one that could be changed came from. Not part of the line, which the jail reads.
        origin: Origin,
    },
    /// What its path means cannot be told.
    Ambiguous {
        /// What makes it so.
        why: Ambiguity,
        /// Whether it may be what a rule denies; else rules that allow do not cover each way to read it.
        denying: bool,
    },
}

/// Whose rules are not met, and so who could change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Ours: a registry of tools is for reading.
    Registry,
    /// The user's.
    User,
    /// The project's.
    Project,
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

/// Headers by which many servers take another method than the one that was sent.
pub const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
/// Headers by which some servers take another path.
pub const PATH_OVERRIDES: [&str; 2] = ["x-original-url", "x-rewrite-url"];
/// Headers of these two kinds that are looked at. More has no client.
const MAX_OVERRIDES: usize = 8;

/// Whether a header's `name` is `known`, which is in lower case. Servers that hand headers on as variables (CGI, WSGI) take `_`
/// for `-`.
pub fn is_header(name: &str, known: &str) -> bool {
    let folded = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() });
    folded.eq(known.bytes())
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
    if !policy.http.iter().any(|entry| entry.value.host.matches(target)) {
        return decision;
    }
    let mut methods = vec![Cow::Borrowed(method)];
    let mut paths = vec![Cow::Borrowed(path_and_query)];
    for (name, value) in fields {
        let any = |known: &[&str]| known.iter().any(|known| is_header(name, known));
        let text = || String::from_utf8_lossy(value).trim().to_owned();
        if any(&METHOD_OVERRIDES) {
            methods.push(text().to_ascii_uppercase().into());
        } else if any(&PATH_OVERRIDES) {
            paths.push(path_of(&text()).into());
        }
    }
    let others = methods.len() + paths.len() - 2;
    if others == 0 || matches!(decision, HttpDecision::Denied(_)) {
        return decision;
    }
    if others > MAX_OVERRIDES {
        let path = path_and_query.split('?').next().unwrap_or_default();
        let reason = HttpReason::Ambiguous { why: Ambiguity::Overridden, denying: true };
        return deny(target, method, path, reason);
    }
    let readings = paths.iter().flat_map(|path| methods.iter().map(move |method| (method, path)));
    let denied = readings
        .map(|(method, path)| decide_http(policy, target, method, path))
        .find(|other| matches!(other, HttpDecision::Denied(_)));
    denied.unwrap_or(decision)
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
    HttpReason::NoRule { rules, origin }
}

/// How a sign of a request's path is written in a rule, so that it stands for itself.
fn sign_in_rule(sign: char) -> String {
    match sign {
        '*' | '[' | ']' | '{' | '}' => format!("%{:02X}", u32::from(sign)),
        _ => sign.to_string(),
    }
}

/// What was sent, escaped and cut.
fn shown(text: &str) -> String {
    let cut = text.floor_char_boundary(SHOWN.min(text.len()));
    let more = if cut < text.len() { "..." } else { "" };
    format!("{}{more}", escape(&text[..cut]))
}

impl HttpDenial {
    /// A word for the log and for programs.
    pub fn code(&self) -> &'static str {
        match self.reason {
            HttpReason::Rule { .. } | HttpReason::NoRule { .. } => "http-rule",
            HttpReason::Ambiguous { .. } => "ambiguous-path",
        }
    }

    /// Why, in a few words.
    pub fn why(&self) -> String {
        match &self.reason {
            HttpReason::Rule { rule, .. } => format!("by the HTTP rule {rule}"),
            HttpReason::NoRule { rules: Owner::Registry, .. } => {
                "a registry of packages is for reading: GET and HEAD".to_owned()
            }
            HttpReason::NoRule { rules: Owner::User, .. } => "no HTTP rule of the host matches".to_owned(),
            HttpReason::NoRule { rules: Owner::Project, .. } => {
                "no HTTP rule of the project's configuration matches".to_owned()
            }
            HttpReason::Ambiguous { why, .. } => format!("servers read its path in different ways: {why}"),
        }
    }

    /// Where the rule that denies it is from, or one of those that do not allow it; `None` where nobody wrote them.
    pub fn origin(&self) -> Option<&Origin> {
        match &self.reason {
            HttpReason::Rule { origin, .. } => Some(origin),
            HttpReason::NoRule { rules: Owner::Registry, .. } | HttpReason::Ambiguous { .. } => None,
            HttpReason::NoRule { origin, .. } => Some(origin),
        }
    }

    /// What would allow it.
    pub fn hint(&self) -> String {
        let Self { target, .. } = self;
        match &self.reason {
            HttpReason::Rule { .. } => "remove that rule to allow it".to_owned(),
            HttpReason::NoRule { rules: Owner::Registry, .. } => {
                format!("allow it with {}", option_for(target))
            }
            HttpReason::NoRule { rules, .. } => {
                let whose = if *rules == Owner::Project { " in the project's configuration" } else { "" };
                let place = format!("in allow of [[network.http]] for {}{whose}", target.host);
                match self.allowing_rule() {
                    Some(rule) => {
                        let other =
                            if self.is_lower_case() { "send the method in capitals, or " } else { "" };
                        format!("{other}allow it with \"{rule}\" {place}")
                    }
                    None => format!(
                        "no rule can name this path as it is written: write it plainly, or allow it with \"{} /**\" {place}",
                        self.rule_method(),
                    ),
                }
            }
            HttpReason::Ambiguous { why: Ambiguity::Overridden, .. } => {
                "leave out X-HTTP-Method-Override, X-Original-URL and their like".to_owned()
            }
            HttpReason::Ambiguous { denying: false, .. } => {
                format!("write the path plainly, or allow it with \"{} /**\"", self.rule_method())
            }
            HttpReason::Ambiguous { denying: true, .. } => {
                "write the path plainly: rules deny some paths of this host, and this may be one of them"
                    .to_owned()
            }
        }
    }

    /// The rule that would allow it where it is added, if that is all it needs.
    pub fn rule_to_add(&self) -> Option<String> {
        match self.reason {
            HttpReason::NoRule { rules: Owner::User | Owner::Project, .. } => self.allowing_rule(),
            HttpReason::NoRule { rules: Owner::Registry, .. }
            | HttpReason::Rule { .. }
            | HttpReason::Ambiguous { .. } => None,
        }
    }

    /// The rule that matches this request and as little else as can be; `None` when none can be written.
    fn allowing_rule(&self) -> Option<String> {
        if self.path.len() > SHOWN {
            return None;
        }
        let path: String = self.path.chars().map(sign_in_rule).collect();
        let text = format!("{} {path}", self.rule_method());
        HttpRule::parse(&text).ok().filter(|_| !path.contains("//")).map(|_| text)
    }

    /// The method of a rule that matches this request's.
    fn rule_method(&self) -> &str {
        let method = self.method.as_str();
        if HttpRule::parse(&format!("{method} /")).is_ok() { method } else { "*" }
    }

    fn is_lower_case(&self) -> bool {
        matches!(HttpRule::parse(&format!("{} /", self.method)), Err(HttpRuleError::LowerCase(_)))
    }
}

impl fmt::Display for HttpDenial {
    /// One line: what; why; what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, method, path, .. } = self;
        let verb = match self.reason {
            HttpReason::Rule { .. } => "denied",
            _ => "not allowed",
        };
        write!(f, "ai-jail: {method} {path} at {target} is {verb} ({}); {}", self.why(), self.hint())
    }
}

#[cfg(test)]
mod tests;
