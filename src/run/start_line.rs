//! The line at the start that says what is in force (LOG-4).

use std::collections::BTreeSet;

use crate::config::settings::Inspect;
use crate::plan::operation::{Access, Veil};
use crate::policy::http_rule::HttpRules;
use crate::policy::origin::{Layer, Sourced};
use crate::policy::{NetworkRule, Policy};
use crate::sanitize::escape;

use super::masking;

/// One line that says what is in force.
pub(super) fn start_line(policy: &Policy) -> String {
    let profile = serde_json::to_value(policy.profile.value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default();
    let network = match &policy.network {
        NetworkRule::Off => "off".to_owned(),
        NetworkRule::DangerOpen => "OPEN".to_owned(),
        NetworkRule::Filtered(net) => {
            let mut text = match net.allow.len() {
                0 => "no host allowed".to_owned(),
                1 => "1 host".to_owned(),
                count => format!("{count} hosts"),
            };
            for (what, ports) in [("forwarded", &net.forward), ("published", &net.publish)] {
                if !ports.is_empty() {
                    let ports: Vec<_> = ports.iter().map(|port| port.value.to_string()).collect();
                    text.push_str(&format!(", port {} {what}", ports.join(", ")));
                }
            }
            text
        }
    };
    let landlock = policy.landlock_abi.map_or("no Landlock".to_owned(), |abi| format!("Landlock ABI {abi}"));
    let held = match policy.protected.iter().filter(|held| held.access == Access::ReadOnly).count() {
        1 => "1 protected path".to_owned(),
        count => format!("{count} protected paths"),
    };
    let masked = match policy.secrets.iter().filter(|secret| secret.is_masked()).count() {
        0 => String::new(),
        1 => "1 masked secrets file; ".to_owned(),
        count => format!("{count} masked secrets files; "),
    };
    let covered = covered(policy);
    let fakes = fakes(policy);
    format!("profile {profile}; network {network}; {held}{covered}; {masked}{fakes}{landlock}; seccomp")
}

/// How much of what the user denies and masks is there.
fn covered(policy: &Policy) -> String {
    let count = |veil| {
        let asked = policy.hidden.iter().filter(|hidden| hidden.is_asked && hidden.veil == veil);
        // A copy with fakes is named as such.
        let asked = asked.filter(|hidden| hidden.copy.is_none());
        asked.map(|hidden| &hidden.host).collect::<BTreeSet<_>>().len()
    };
    let (denied, masked) = (count(Veil::Closed), count(Veil::Empty));
    let settings = &policy.settings;
    // Files that are secrets are covered too, without a glob of the user's.
    if settings.deny_files.is_empty() && settings.mask_files.is_empty() && denied + masked == 0 {
        return String::new();
    }
    format!("; {denied} denied, {masked} masked")
}

/// The secrets that are fakes inside, and the hosts to which HTTPS is read for them and for rules.
fn fakes(policy: &Policy) -> String {
    const NAMED: usize = 3;
    let names: Vec<String> = masking::names(policy).map(|name| escape(&*name).to_string()).collect();
    let verb = if names.len() == 1 { "is a fake" } else { "are fakes" };
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let fakes = match names.len().saturating_sub(NAMED) {
        _ if names.is_empty() => String::new(),
        0 => format!("{named} {verb}; "),
        more => format!("{named} and {more} more {verb}; "),
    };
    let NetworkRule::Filtered(net) = &policy.network else { return fakes };
    if net.inspect == Inspect::All {
        return format!("{fakes}ai-jail decrypts HTTPS to every host; ");
    }
    // What the jail cannot reach is not read; a warning says so.
    let bound = net.secret_hosts.iter().filter(|host| net.reaches(&host.value));
    let bound: BTreeSet<String> = bound.map(|host| host.value.to_string()).collect();
    let mut read: Vec<String> = bound.iter().take(NAMED).cloned().collect();
    let count = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    read.extend(count(bound.len().saturating_sub(NAMED), "more host of secrets", "more hosts of secrets"));
    // One that a secret is bound to as well is the same host, whatever ports are written.
    let is_bound =
        |rules: &HttpRules| net.secret_hosts.iter().any(|host| host.value.hosts() == rules.host.hosts());
    let ruled = net.http.iter().filter(|rules| !is_bound(&rules.value) && net.reaches(&rules.value.host));
    let (registries, others): (Vec<_>, Vec<_>) =
        ruled.partition(|rules| rules.origin.layer == Layer::BuiltIn);
    let hosts = |rules: &[&Sourced<HttpRules>]| -> BTreeSet<String> {
        rules.iter().map(|rules| rules.value.host.to_string()).collect()
    };
    let (registries, others) = (hosts(&registries), hosts(&others));
    let registries = registries.difference(&others).count();
    read.extend(count(registries, "package registry", "package registries"));
    read.extend(count(others.len(), "host with HTTP rules", "hosts with HTTP rules"));
    // Registries alone are in every session, and get nothing put in.
    if read.is_empty() || names.is_empty() && others.is_empty() {
        return fakes;
    }
    format!("{fakes}ai-jail decrypts HTTPS to {}; ", read.join(", "))
}
