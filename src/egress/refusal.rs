//! What is told outside of a denial. The jail is told its line alone.

use crate::egress::decide::{Denial, Reason};
use crate::policy::authority::Host;
use crate::policy::http_rule::{HttpDenial, HttpReason};
use crate::policy::meant::meant;
use crate::policy::net::NetPolicy;
use crate::policy::origin::Origin;
use crate::secrets::Vault;

/// A denial, for the log and the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for the reason.
    pub code: &'static str,
    /// The line that the jail was told, less what only the jail has.
    pub line: String,
    /// The rule that denies it, if one does.
    pub rule: Option<String>,
    /// Where that rule is from, or the rules that do not allow the request.
    pub origin: Option<Origin>,
    /// The allowed host that was perhaps meant.
    pub meant: Option<Host>,
    /// What was asked, when it is the request that is denied, and not its host.
    pub request: Option<RefusedRequest>,
}

/// A request that HTTP rules deny.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// Its method and its path without the query, escaped and cut.
    pub asked: String,
    /// The rule that would allow it, and as little else as can be; `None` where a rule has to go first, or none can be
    /// written.
    pub allow: Option<String>,
}

impl Refusal {
    /// Of a stream that is not what its port is for.
    pub fn of_stream(line: String) -> Self {
        Self { code: "protocol", line, rule: None, origin: None, meant: None, request: None }
    }

    /// Of a host.
    pub fn of_host(policy: &NetPolicy, denial: &Denial) -> Self {
        let (rule, origin) = match &denial.reason {
            Reason::Rule { rule, origin } => (Some(rule.clone()), Some(origin.clone())),
            Reason::NoDoors | Reason::NoRule | Reason::Address { .. } => (None, None),
        };
        let meant = match denial.reason {
            Reason::NoRule => meant(policy, &denial.target),
            Reason::NoDoors | Reason::Rule { .. } | Reason::Address { .. } => None,
        };
        Self { code: denial.reason.code(), line: denial.to_string(), rule, origin, meant, request: None }
    }

    /// The same with `*` for each fake: it is nothing to read, and a rule that names it holds for one project alone.
    pub fn without_fakes(self, vault: &Vault) -> Self {
        let request = self.request.map(|RefusedRequest { asked, allow }| RefusedRequest {
            asked: vault.starred(&asked),
            allow: allow.map(|rule| vault.starred(&rule)),
        });
        Self { line: vault.starred(&self.line), request, ..self }
    }

    /// The line for the user, who may also hear of files and of what is allowed.
    pub fn reason(&self) -> String {
        let mut reason = self.line.clone();
        match (&self.rule, &self.origin) {
            (Some(_), Some(origin)) => reason.push_str(&format!("; it is from {origin}")),
            (None, Some(origin)) => reason.push_str(&format!("; the rules are from {origin}")),
            (_, None) => {}
        }
        if let Some(host) = &self.meant {
            reason.push_str(&format!("; did you mean {host}, which is allowed?"));
        }
        reason
    }
}

impl From<&HttpDenial> for Refusal {
    fn from(denial: &HttpDenial) -> Self {
        let asked = format!("{} {}", denial.method, denial.path);
        let request = RefusedRequest { asked, allow: denial.rule_to_add() };
        let rule = match &denial.reason {
            HttpReason::Rule { rule, .. } => Some(rule.clone()),
            HttpReason::NoRule { .. } | HttpReason::Ambiguous { .. } => None,
        };
        let origin = denial.origin().cloned();
        let (code, line) = (denial.code(), denial.to_string());
        Self { code, line, rule, origin, meant: None, request: Some(request) }
    }
}
