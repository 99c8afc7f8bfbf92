//! How a credential gets into the jail: as a fake where that can be, and only else as it is.

use crate::host::agents;
use crate::policy::authority::Authority;
use crate::policy::host_rule::HostPattern;
use crate::policy::{NetworkRule, Policy, env};

/// What stands for a host that is not known.
const ANY: &str = "HOST";

/// The options that give the jail a variable `name` of the launcher's.
pub(super) fn options(policy: &Policy, name: &str) -> String {
    let real = format!("--env {name}");
    let known = hosts(policy, name);
    let is_open = matches!(policy.network, NetworkRule::DangerOpen);
    if is_open || known.is_none() && !env::looks_secret(name) {
        return real;
    }
    let known = known.unwrap_or_default();
    let listed = match &known[..] {
        [] => ANY.to_owned(),
        known => known.join(","),
    };
    let mut options = format!("--secret {name}={listed}");
    let missing = known.iter().map(String::as_str).filter(|host| !is_allowed(policy, host));
    let missing: Vec<&str> = if known.is_empty() { vec![ANY] } else { missing.collect() };
    if !missing.is_empty() && matches!(policy.network, NetworkRule::Off) {
        options.push_str(" --network filtered");
    }
    for host in missing {
        options.push_str(&format!(" --allow-host {host}"));
    }
    format!("{options}, and the jail has a fake that works there over HTTPS; {real} gives it the real one")
}

/// Where a credential belongs, by the presets: that of the agent that is started, or of any. Of those that name hosts one by one
/// only these.
fn hosts(policy: &Policy, name: &str) -> Option<Vec<String>> {
    let is_started = |agent: &&agents::Agent| policy.agent.as_ref() == Some(&agent.name.0);
    let (own, others): (Vec<_>, Vec<_>) = agents::all().partition(is_started);
    let mut credentials = own.into_iter().chain(others).flat_map(|agent| &agent.credentials);
    let hosts = &credentials.find(|credential| credential.variable == name)?.hosts;
    let single: Vec<String> = hosts.iter().filter(|host| !host.contains('*')).cloned().collect();
    Some(if single.is_empty() { hosts.clone() } else { single })
}

fn is_allowed(policy: &Policy, host: &str) -> bool {
    let NetworkRule::Filtered(net) = &policy.network else { return false };
    let Ok(pattern) = HostPattern::parse(host) else { return false };
    let target = Authority::parse(format!("{host}:443").as_bytes()).ok();
    net.allow.iter().any(|rule| match &target {
        Some(target) => rule.value.matches(target),
        None => rule.value == pattern,
    })
}
