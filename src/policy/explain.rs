//! Why one path, host or variable is, or is not, in the jail.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::egress::decide::{Decision, decide};
use crate::host::system::MountKind;
use crate::plan::operation::Access;
use crate::policy::authority::Authority;
use crate::policy::files::Source;
use crate::policy::{NetworkRule, Policy, env};

/// An answer: what was asked, what holds, by which rule, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// What was asked, as it was understood.
    pub asked: String,
    /// What holds: "writable", "readable", "absent", "allowed", "denied", "set", "unset".
    pub verdict: &'static str,
    /// The deciding rule and its source.
    pub because: String,
    /// The flag that would change it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Explains `question`: an absolute path (`paths` has resolved a relative one), `NAME` of a variable when it is written in
/// capitals or is set, else a host, with or without a port.
pub fn explain(policy: &Policy, question: &str, path: Option<&Path>) -> Answer {
    match path {
        Some(path) => explain_path(policy, path),
        None if is_variable(policy, question) => explain_variable(policy, question),
        None => explain_host(policy, question),
    }
}

/// Whether a question is about a path: it holds a slash or begins with a dot or a tilde.
pub fn is_path(question: &str) -> bool {
    question.contains('/') || question.starts_with('.') || question.starts_with('~')
}

fn is_variable(policy: &Policy, question: &str) -> bool {
    let capitals = !question.is_empty()
        && question.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    capitals || policy.environment.contains_key(question)
}

fn explain_path(policy: &Policy, path: &Path) -> Answer {
    let answer =
        |verdict, because: String, hint| Answer { asked: path.display().to_string(), verdict, because, hint };
    let deepest = |held: &(PathBuf, String)| held.0.components().count();
    let hidden = policy.hidden.iter().map(|hidden| (hidden.root.join(&hidden.below), hidden.reason.clone()));
    if let Some((place, reason)) = hidden.filter(|(place, _)| path.starts_with(place)).max_by_key(deepest) {
        return answer("absent", format!("{} is covered: {reason}", place.display()), None);
    }
    let held = policy
        .protected
        .iter()
        .filter(|held| held.access == Access::ReadOnly)
        .map(|held| (held.root.join(&held.below), held.reason.clone()));
    if let Some((place, reason)) = held.filter(|(place, _)| path.starts_with(place)).max_by_key(deepest) {
        return answer("readable", format!("{} is protected: {reason}", place.display()), None);
    }
    if let Some(rule) = policy.files.deciding(path) {
        if !matches!(rule.source, Source::Host(_)) {
            let because = format!(
                "the jail has its own {} ({}); the host's is not visible",
                rule.dest.display(),
                rule.origin
            );
            return answer("absent", because, Some(format!("--ro {}", path.display())));
        }
        return match rule.access {
            Access::Writable => {
                answer("writable", format!("{} ({})", rule.dest.display(), rule.origin), None)
            }
            Access::ReadOnly => answer(
                "readable",
                format!("{} ({})", rule.dest.display(), rule.origin),
                Some(format!("--rw {}", path.display())),
            ),
        };
    }
    if let Some(mount) = policy.system.iter().find(|mount| path.starts_with(&mount.dest)) {
        let what = match &mount.kind {
            MountKind::Bind => mount.dest.display().to_string(),
            MountKind::Symlink(target) => format!("{} leads to {}", mount.dest.display(), target.display()),
        };
        return answer("readable", format!("{what} is part of the system"), None);
    }
    if policy.made.iter().any(|(made, _)| made == path) {
        return answer("readable", "it is made for the jail".to_owned(), None);
    }
    if ["/tmp", "/var/tmp", "/run", "/dev/shm"].iter().any(|tmpfs| path.starts_with(tmpfs)) {
        return answer(
            "absent",
            "a tmpfs of the jail's own, not the host's directory".to_owned(),
            Some(format!("--ro {}", path.display())),
        );
    }
    answer(
        "absent",
        "no rule shows it".to_owned(),
        Some(format!("--ro {} or --rw {}", path.display(), path.display())),
    )
}

fn explain_variable(policy: &Policy, name: &str) -> Answer {
    let answer = |verdict, because: String, hint| Answer { asked: name.to_owned(), verdict, because, hint };
    if let Some(value) = policy.environment.get(name) {
        return answer("set", value.origin.to_string(), None);
    }
    let why = match env::inheritance(name, &policy.settings) {
        env::Verdict::Dropped(why) => why,
        env::Verdict::Inherited(_) => "the launcher's environment does not have it".to_owned(),
    };
    answer("unset", why, Some(format!("--env {name}")))
}

fn explain_host(policy: &Policy, question: &str) -> Answer {
    let answer =
        |verdict, because: String, hint| Answer { asked: question.to_owned(), verdict, because, hint };
    let net = match &policy.network {
        NetworkRule::Off => {
            return answer(
                "denied",
                "the network is off".to_owned(),
                Some(format!("--network filtered --allow-host {question}")),
            );
        }
        NetworkRule::DangerOpen => return answer("allowed", "the network is open".to_owned(), None),
        NetworkRule::Filtered(net) => net,
    };
    let authority = Authority::parse(question.as_bytes())
        .or_else(|_| Authority::parse(format!("{question}:443").as_bytes()));
    let target = match authority {
        Ok(target) => target,
        Err(error) => return answer("denied", error.to_string(), None),
    };
    match decide(net, &target) {
        Decision::Allow(allowed) => {
            answer("allowed", format!("{} ({})", allowed.rule.value, allowed.rule.origin), None)
        }
        Decision::Deny(denial) => {
            answer("denied", denial.to_string(), Some(format!("--allow-host {question}")))
        }
    }
}
