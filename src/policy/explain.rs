//! Why one path, host or variable is, or is not, in the jail.

mod fakes;
mod url;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::settings::Profile;
use crate::egress::decide::{Decision, Reason, decide};
use crate::egress::reach::has_listener;
use crate::host::system::MountKind;
use crate::host::things;
use crate::plan::operation::{Access, Veil};
use crate::policy::authority::{Authority, AuthorityError, Host};
use crate::policy::bindings::{SecretMode, ValueFrom};
use crate::policy::files::{Source, inside};
use crate::policy::host_rule::HostPattern;
use crate::policy::meant::meant;
use crate::policy::net::{DOOR_PORTS, Inspected, NetPolicy};
use crate::policy::origin::{Layer, Origin};
use crate::policy::{Asked, NetworkRule, Policy, env};
use crate::secrets::{Place, Places};

pub use self::url::{Url, UrlError, explain_url};

/// An answer: what was asked, what holds, by which rule, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// What was asked, as it was understood.
    pub asked: String,
    /// What holds: "writable", "readable", "reachable" (a socket or a device), "absent", "masked", "allowed", "denied",
    /// "set", "unset"; "masked" for a variable or file that is a fake.
    pub verdict: &'static str,
    /// The deciding rule and its source.
    pub because: String,
    /// The flag that would change it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Explains `question`: an absolute path (`paths` has resolved a relative one), `NAME` of a variable when it is written in
/// capitals or is set, else a host, with or without a port, on a machine with the addresses `own`.
pub fn explain(policy: &Policy, own: &[IpAddr], question: &str, path: Option<&Path>) -> Answer {
    match path {
        Some(path) => explain_path(policy, path),
        None if is_variable(policy, question) => explain_variable(policy, question),
        None => explain_host(policy, own, question, Rules::Listed),
    }
}

/// Whether the HTTP rules of a host are part of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// All of them.
    Listed,
    /// None: the one that decides is named by itself.
    Left,
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
    let covered = covered(policy, path);
    let secret = policy.secrets.iter().find(|secret| secret.path == path && secret.is_masked());
    if let (Some(secret), Some((ABSENT, _))) = (secret, &covered) {
        let because = format!("{} holds secrets: {}", path.display(), secret.why());
        let hint = (policy.profile.value != Profile::Lockdown).then(|| format!("--ro {}", path.display()));
        return answer("masked", because, hint);
    }
    if let Some(file) = policy.files_bound.iter().find(|file| file.path == path) {
        return match file.mode {
            SecretMode::Mask => {
                let whole = match &file.extract {
                    None => "its value is all of the file on this machine".to_owned(),
                    Some(extract) => {
                        format!("its value is what `{extract}` finds in the file on this machine")
                    }
                };
                answer(FAKE, works_at(&file.hosts, file.places, &whole, &file.origin), None)
            }
            SecretMode::Deny => {
                answer("denied", format!("it is a secret that is denied ({})", file.origin), None)
            }
        };
    }
    if let Some((verdict, because)) = covered {
        return answer(verdict, because, None);
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
        if let Source::Socket(source) | Source::Device(source) = &rule.source {
            let because = format!("{} of this machine ({})", source.display(), rule.origin);
            return answer("reachable", because, None);
        }
        if let Source::Symlink(target) = &rule.source
            && let Some(copy) = policy.files.deciding(target)
            && matches!(copy.source, Source::Content(_))
        {
            let because = format!(
                "{} inside is a copy of what it is at launch; changes are not kept ({})",
                rule.dest.display(),
                copy.origin
            );
            return answer("writable", because, None);
        }
        if !matches!(rule.source, Source::Host(_)) {
            let because = format!(
                "the jail has its own {} ({}); the host's is not visible",
                rule.dest.display(),
                rule.origin
            );
            return answer("absent", because, Some(format!("--ro {}", path.display())));
        }
        let secret = policy.secrets.iter().find(|secret| secret.path == path);
        let secret = secret.map_or(String::new(), |secret| format!("; it holds secrets: {}", secret.why()));
        return match rule.access {
            Access::Writable => {
                answer("writable", format!("{} ({}){secret}", rule.dest.display(), rule.origin), None)
            }
            Access::ReadOnly => answer(
                "readable",
                format!("{} ({}){secret}", rule.dest.display(), rule.origin),
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
            Some(format!("--ro {0}, or --socket {0} if it is a socket", path.display())),
        );
    }
    answer(
        "absent",
        "no rule shows it".to_owned(),
        Some(format!("--ro {} or --rw {}", path.display(), path.display())),
    )
}

/// What is covered without anybody having asked for it is not there.
/// The verdict on a variable or file of which the jail has a fake, and on what is masked.
pub const FAKE: &str = "masked";
/// The verdict on a variable that the jail does not have.
pub const UNSET: &str = "unset";
const ABSENT: &str = "absent";

/// What covers a path, or would if it were there. A more specific rule decides for itself.
fn covered(policy: &Policy, path: &Path) -> Option<(&'static str, String)> {
    let verdict = |veil| match veil {
        Veil::Closed => "denied",
        Veil::Empty => "masked",
    };
    let rule = policy.files.deciding(path);
    let hidden = policy.hidden.iter().map(|hidden| (inside(&hidden.root, &hidden.below), hidden));
    let hidden = hidden
        .filter(|(place, _)| path.starts_with(place))
        .filter(|(place, _)| !rule.is_some_and(|rule| rule.dest != *place && rule.dest.starts_with(place)))
        .max_by_key(|(place, _)| place.components().count());
    if let Some((place, hidden)) = hidden {
        return Some(match hidden.is_asked {
            true => (verdict(hidden.veil), format!("{} is {}", place.display(), hidden.reason)),
            false => (ABSENT, format!("{} is covered: {}", place.display(), hidden.reason)),
        });
    }
    let rule = rule?;
    let Source::Host(source) = &rule.source else { return None };
    let host = inside(source, path.strip_prefix(&rule.dest).ok()?);
    let mut asked: Vec<&Asked> = policy.asked.iter().collect();
    asked.sort_by_key(|asked| std::cmp::Reverse(asked.veil));
    let asked = asked.into_iter().find(|asked| {
        let mut places = host.ancestors().take_while(|place| place.starts_with(source));
        places.any(|place| place != source && asked.matches.matches(place))
    })?;
    Some((verdict(asked.veil), format!("what is made there is {}", asked.reason())))
}

fn explain_variable(policy: &Policy, name: &str) -> Answer {
    let answer = |verdict, because: String, hint| Answer { asked: name.to_owned(), verdict, because, hint };
    if let Some(binding) = policy.bindings.iter().find(|binding| binding.name == name) {
        return match binding.mode {
            SecretMode::Mask => {
                let source = value_from(&binding.from);
                answer(FAKE, works_at(&binding.hosts, binding.places, &source, &binding.origin), None)
            }
            SecretMode::Deny => {
                answer(UNSET, format!("it is a secret that is denied ({})", binding.origin), None)
            }
        };
    }
    if let Some(value) = policy.environment.get(name) {
        return answer("set", value.origin.to_string(), None);
    }
    if let Some(why) = policy.left_out.get(name) {
        return answer(UNSET, format!("it is the agent's own key, and {why}"), Some(format!("--env {name}")));
    }
    let why = match env::inheritance(name, &policy.settings) {
        env::Verdict::Dropped(why) => why,
        env::Verdict::Inherited(_) => "the launcher's environment does not have it".to_owned(),
    };
    // The value alone names a socket that is not there.
    let hint = things::table::grant_of(name).map(|grant| format!("--grant {grant}"));
    answer(UNSET, why, Some(hint.unwrap_or_else(|| fakes::options(policy, name))))
}

fn explain_host(policy: &Policy, own: &[IpAddr], question: &str, rules: Rules) -> Answer {
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
    let answer = explain_target(net, own, question);
    let Some(target) = target_of(question).ok().filter(|_| answer.verdict == "allowed") else {
        return answer;
    };
    let more = [way(net, &target), inspection(policy, net, &target, rules)].into_iter().flatten();
    let because = std::iter::once(answer.because).chain(more).collect::<Vec<_>>().join("; ");
    Answer { because, ..answer }
}

/// Why TLS to a host ends at ai-jail, and what may be asked there; `None` when nothing is to be said.
fn inspection(policy: &Policy, net: &NetPolicy, target: &Authority, listed: Rules) -> Option<String> {
    let mut parts = Vec::new();
    match net.inspected(target) {
        None => {}
        Some(Inspected::All) => parts.push("TLS is inspected, as to every host".to_owned()),
        Some(Inspected::Http(_)) => parts.push("TLS is inspected for the HTTP rules".to_owned()),
        Some(Inspected::Secret(_)) => {
            let bound = |hosts: &[HostPattern]| hosts.iter().any(|host| host.matches(target));
            let variables = policy.bindings.iter().filter(|binding| bound(&binding.hosts));
            let files = policy.files_bound.iter().filter(|file| bound(&file.hosts));
            let names = variables.map(|binding| binding.name.clone());
            let names: Vec<_> = names.chain(files.map(|file| file.path.display().to_string())).collect();
            parts.push(format!("TLS is inspected, so that these are put in there: {}", names.join(", ")));
        }
    }
    // Plain HTTP has rules too.
    let rules = net.http.iter().filter(|rules| rules.value.host.matches(target));
    for rules in rules.filter(|_| listed == Rules::Listed) {
        for (verb, list) in [("only", &rules.value.allow), ("never", &rules.value.deny)] {
            if !list.is_empty() {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                parts.push(format!("{verb} {} ({})", list.join(", "), rules.origin));
            }
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Where a fake works, and where the real value is.
fn works_at(hosts: &[HostPattern], places: Places, source: &str, origin: &Origin) -> String {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let places: Vec<&str> = places.iter().map(Place::name).collect();
    format!(
        "the jail has a fake; the real one is put in on the way to {} ({origin}), in these parts of a request: {}; {source}",
        hosts.join(", "),
        places.join(", ")
    )
}

/// Where the value of a variable is read; nothing is read to say so.
fn value_from(from: &ValueFrom) -> String {
    match from {
        ValueFrom::Command(words) => format!("its value is what `{}` prints at the launch", words.join(" ")),
        ValueFrom::Environment => "its value is that of your environment".to_owned(),
        ValueFrom::File { path, over_environment } => {
            let over = if *over_environment { ", and not the one that is set here" } else { "" };
            format!("its value is that of {} (--env-file){over}", path.display())
        }
    }
}

/// Where connections to a host go instead of to its address; `None` when they go there. `--resolve` goes past the proxy.
fn way(net: &NetPolicy, target: &Authority) -> Option<String> {
    if let Some(mapped) = net.resolve.get(&target.host.to_string()) {
        let at = SocketAddr::new(mapped.value.addr, mapped.value.port.unwrap_or(target.port));
        return Some(format!("it is dialled at {at} ({})", mapped.origin));
    }
    let proxy = net.upstream.of(target)?;
    let mut sourced = [&net.upstream.plain, &net.upstream.others].into_iter().flatten();
    let origin = &sourced.find(|known| known.value == *proxy)?.origin;
    let origin = match origin.layer {
        Layer::BuiltIn => origin.what.clone(),
        _ => origin.to_string(),
    };
    Some(format!("by way of the proxy {} ({origin})", proxy.at))
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(name) => name.is_localhost(),
    }
}

fn target_of(question: &str) -> Result<Authority, AuthorityError> {
    Authority::parse(question.as_bytes()).or_else(|_| Authority::parse(format!("{question}:443").as_bytes()))
}

fn explain_target(net: &NetPolicy, own: &[IpAddr], question: &str) -> Answer {
    let answer =
        |verdict, because: String, hint| Answer { asked: question.to_owned(), verdict, because, hint };
    let target = match target_of(question) {
        Ok(target) => target,
        Err(error) => return answer("denied", error.to_string(), None),
    };
    match decide(net, own, &target) {
        Decision::Allow(allowed) => {
            let rule = format!("{} ({})", allowed.rule.value, allowed.rule.origin);
            if has_listener(net, &target) {
                return answer("allowed", rule, None);
            }
            let because = format!(
                "{rule}; only for programs that use the proxy (HTTP_PROXY), since no listener is made for {}",
                match target.host {
                    Host::Name(_) => "ports that a rule does not name one by one",
                    Host::Ip(_) => "this rule's addresses and ports",
                }
            );
            let hint = matches!(target.host, Host::Name(_)).then(|| format!("--allow-host {target}"));
            answer("allowed", because, hint)
        }
        Decision::Deny(denial) => {
            let (because, hint) = match &denial.reason {
                Reason::Rule { rule, origin } => {
                    (format!("the rule {rule} ({origin})"), Some("remove that rule".to_owned()))
                }
                // A rule would be about the jail's own.
                _ if is_loopback(&target.host) => {
                    let because = "the jail's loopback is its own".to_owned();
                    let port = target.port;
                    // Those of our doors are taken there.
                    let hint = if DOOR_PORTS.contains(&port) {
                        format!(
                            "--allow-host dev.internal:{port} --resolve dev.internal=127.0.0.1 for a server of this machine"
                        )
                    } else {
                        format!("--forward {port} for a server of this machine")
                    };
                    (because, Some(hint))
                }
                Reason::NoRule => {
                    let because = match meant(net, &target) {
                        Some(host) => format!("{}; did you mean {host}, which is allowed?", denial.why()),
                        None => denial.why(),
                    };
                    (because, denial.option())
                }
                Reason::NoDoors | Reason::Address { .. } => (denial.why(), denial.option()),
            };
            answer("denied", because, hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::decide::tests::{OWN, policy};

    #[test]
    fn a_host_is_explained_in_one_sentence_with_one_hint() {
        let net = policy(
            &["a.test", "r.test:8000-8010", "any.test:*", "git.test:22", "10.0.0.0/8:443", "*.l.test"],
            &["evil.a.test"],
        );
        let proxy = "only for programs that use the proxy (HTTP_PROXY), since no listener is made for ports that a rule \
                     does not name one by one";
        for (question, verdict, because, hint) in [
            ("a.test", "allowed", "a.test (--allow-host)".to_owned(), None),
            ("git.test:22", "allowed", "git.test:22 (--allow-host)".to_owned(), None),
            (
                "127.0.0.1:5432",
                "denied",
                "the jail's loopback is its own".to_owned(),
                Some("--forward 5432 for a server of this machine"),
            ),
            ("any.test:443", "allowed", "any.test:* (--allow-host)".to_owned(), None),
            (
                "any.test:22",
                "allowed",
                format!("any.test:* (--allow-host); {proxy}"),
                Some("--allow-host any.test:22"),
            ),
            (
                "r.test:8001",
                "allowed",
                format!("r.test:8000-8010 (--allow-host); {proxy}"),
                Some("--allow-host r.test:8001"),
            ),
            ("b.test", "denied", "no rule matches".to_owned(), Some("--allow-host b.test")),
            ("a.test:22", "denied", "no rule matches".to_owned(), Some("--allow-host a.test:22")),
            (
                "127.0.0.1",
                "denied",
                "the jail's loopback is its own".to_owned(),
                Some(
                    "--allow-host dev.internal:443 --resolve dev.internal=127.0.0.1 for a server of this machine",
                ),
            ),
            (
                "evil.a.test",
                "denied",
                "the rule evil.a.test (--deny-host)".to_owned(),
                Some("remove that rule"),
            ),
        ] {
            let got = explain_target(&net, &OWN, question);
            let want = (verdict, because, hint);
            assert_eq!((got.verdict, got.because, got.hint.as_deref()), want, "{question}");
        }
        let wide = explain_target(&policy(&["93.184.208.0/20:443"], &[]), &OWN, "93.184.216.9:443");
        assert!(
            wide.because.contains("only for programs that use the proxy") && wide.hint.is_none(),
            "{wide:?}"
        );
    }
}
