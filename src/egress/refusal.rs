//! What is told outside of a denial. The jail is told its line alone.

use crate::egress::decide::Denial;
use crate::policy::http_rule::HttpDenial;

/// A denial, for the log and the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A word for the reason.
    pub code: &'static str,
    /// The line that the jail was told.
    pub line: String,
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
        Self { code: "protocol", line, request: None }
    }
}

impl From<&Denial> for Refusal {
    fn from(denial: &Denial) -> Self {
        Self { code: denial.reason.code(), line: denial.to_string(), request: None }
    }
}

impl From<&HttpDenial> for Refusal {
    fn from(denial: &HttpDenial) -> Self {
        let asked = format!("{} {}", denial.method, denial.path);
        let request = RefusedRequest { asked, allow: denial.rule_to_add() };
        Self { code: denial.code(), line: denial.to_string(), request: Some(request) }
    }
}
