//! Refused requests: why, and what would allow them.

use std::fmt;

use super::path::RequestPath;
use super::{Ambiguity, HttpRule, HttpRuleError};
use crate::egress::decide::option_for;
use crate::policy::authority::Authority;
use crate::policy::origin::Origin;
use crate::sanitize::escape;

/// The longest part of a method or path that is shown (bytes).
const SHOWN: usize = 200;

/// A refusal: one line for whoever asked, and its parts for the log. It holds nothing unescaped of the request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpDenial {
    /// Where it was asked.
    pub target: Authority,
    /// The method, escaped and cut.
    pub method: String,
    /// The path without the query, escaped and cut.
    pub path: String,
    /// The headers that make it this method or this path, escaped and cut; none when it was asked so.
    pub headers: Vec<String>,
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
        /// The path as it is written plainly, where it is not.
        plain: Option<Plain>,
    },
    /// What its path means cannot be told.
    Ambiguous {
        /// What makes it so.
        why: Ambiguity,
        /// Whether it may be what a rule denies; else rules that allow do not cover each way to read it.
        denying: bool,
    },
}

/// A path that was written with `..` or with empty segments, without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// The path, escaped and cut.
    pub path: String,
    /// Whether it passes.
    pub passes: bool,
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

/// How a sign of a request's path is written in a rule, so that it stands for itself.
fn sign_in_rule(sign: char) -> String {
    match sign {
        '*' | '[' | ']' | '{' | '}' => format!("%{:02X}", u32::from(sign)),
        _ => sign.to_string(),
    }
}

/// What was sent, escaped and cut.
pub(super) fn shown(text: &str) -> String {
    let cut = text.floor_char_boundary(SHOWN.min(text.len()));
    let more = if cut < text.len() { "..." } else { "" };
    format!("{}{more}", escape(&text[..cut]))
}

fn list(headers: &[String]) -> String {
    let word = if headers.len() == 1 { "header" } else { "headers" };
    format!("{word} {}", headers.join(" and "))
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
        let why = self.reason_in_words();
        match &self.headers[..] {
            [] => why,
            _ if matches!(self.reason, HttpReason::Ambiguous { why: Ambiguity::Overridden, .. }) => why,
            headers => format!("{why}; servers take it for that by the {}", list(headers)),
        }
    }

    fn reason_in_words(&self) -> String {
        match &self.reason {
            HttpReason::Rule { rule, .. } => format!("by the HTTP rule {rule}"),
            HttpReason::NoRule { rules: Owner::Registry, .. } => {
                "a registry of packages is for reading: GET and HEAD".to_owned()
            }
            HttpReason::NoRule { rules: Owner::User, .. } => "no HTTP rule of the host matches".to_owned(),
            HttpReason::NoRule { rules: Owner::Project, .. } => {
                "no HTTP rule of the project's configuration matches".to_owned()
            }
            HttpReason::Ambiguous { why: Ambiguity::Overridden, .. } => Ambiguity::Overridden.to_string(),
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
        match (&self.headers[..], &self.reason) {
            ([], _) => self.change(),
            (headers, HttpReason::Ambiguous { .. }) => format!("leave out the {}", list(headers)),
            (headers, _) => format!("leave out the {}, or {}", list(headers), self.change()),
        }
    }

    /// What would allow it as it is.
    fn change(&self) -> String {
        let Self { target, .. } = self;
        match &self.reason {
            HttpReason::Rule { .. } => "remove that rule to allow it".to_owned(),
            HttpReason::NoRule { rules: Owner::Registry, .. } => {
                format!("allow it with {}", option_for(target))
            }
            HttpReason::NoRule { plain: Some(Plain { path, passes: true }), .. } => {
                format!("write the path plainly, as {path}")
            }
            HttpReason::NoRule { rules, plain, .. } => {
                let whose = if *rules == Owner::Project { " in the project's configuration" } else { "" };
                let place = format!("in allow of [[network.http]] for {}{whose}", target.host);
                let (path, before) = match plain {
                    Some(Plain { path, .. }) => (path, format!("write the path plainly, as {path}, and ")),
                    None if self.is_lower_case() => {
                        (&self.path, "send the method in capitals, or ".to_owned())
                    }
                    None => (&self.path, String::new()),
                };
                match self.rule_for(path) {
                    Some(rule) => format!("{before}allow it with \"{rule}\" {place}"),
                    None => self.or_every_path(&place),
                }
            }
            HttpReason::Ambiguous { denying: false, .. } => {
                self.or_every_path(&format!("in allow of [[network.http]] for {}", target.host))
            }
            HttpReason::Ambiguous { denying: true, .. } => {
                "write the path plainly: rules deny some paths of this host, and this may be one of them"
                    .to_owned()
            }
        }
    }

    /// What to do where no rule can name the path as it is written, and none denies it. Every path is allowed only for what
    /// programs cannot write otherwise.
    fn or_every_path(&self, place: &str) -> String {
        match RequestPath::read(&self.path) {
            Err(why) if why.is_slip() => {
                "write the path plainly: servers read what stands there in different ways".to_owned()
            }
            Ok(_) if self.path.len() > SHOWN => {
                format!(
                    "allow it with a rule for \"{}\" and a shorter path with a star {place}",
                    self.rule_method()
                )
            }
            _ => format!("write the path plainly, or allow it with \"{} /**\" {place}", self.rule_method()),
        }
    }

    /// The rule that would allow it where it is added, if that is all it needs.
    pub fn rule_to_add(&self) -> Option<String> {
        match self.reason {
            HttpReason::NoRule { rules: Owner::User | Owner::Project, plain: None, .. } => {
                self.rule_for(&self.path)
            }
            HttpReason::NoRule { .. } | HttpReason::Rule { .. } | HttpReason::Ambiguous { .. } => None,
        }
    }

    /// The rule that matches requests of its method for `path` and as little else as can be; `None` when none can be written.
    fn rule_for(&self, path: &str) -> Option<String> {
        if path.len() > SHOWN {
            return None;
        }
        let path: String = path.chars().map(sign_in_rule).collect();
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
