//! Secrets that are fakes inside, and what is said to hosts that are looked into.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::settings::{Ech, Inspect};
use crate::policy::Policy;
use crate::policy::bindings::{SecretMode, ValueFrom};
use crate::policy::host_rule::HostPattern;
use crate::policy::net::NetPolicy;
use crate::policy::origin::Origin;
use crate::sanitize::escape;
use crate::secrets::Places;

/// Every secret with its hosts, for people. No value is known here.
pub(super) fn secrets(out: &mut String, policy: &Policy) {
    if policy.bindings.is_empty() && policy.files_bound.is_empty() {
        return;
    }
    out.push_str("\nsecrets (masked: a fake inside, the real one is put in on the way to the hosts):\n");
    for binding in &policy.bindings {
        let name = escape(&binding.name).to_string();
        let from = match &binding.from {
            ValueFrom::Environment => String::new(),
            ValueFrom::File { path: file, over_environment } => {
                let over = if *over_environment { ", not the one that is set here" } else { "" };
                format!("; from {}{over}", path(file))
            }
            ValueFrom::Command(words) => format!("; from `{}`", escape(&words.join(" "))),
        };
        let revoke = binding.revoke.as_ref();
        let revoke =
            revoke.map_or(String::new(), |words| format!("; at the end `{}`", escape(&words.join(" "))));
        row(
            out,
            binding.mode,
            &name,
            &binding.hosts,
            binding.places,
            &format!("{from}{revoke}"),
            &binding.origin,
        );
    }
    for file in &policy.files_bound {
        row(out, file.mode, &path(&file.path), &file.hosts, file.places, "", &file.origin);
    }
}

fn row(
    out: &mut String,
    mode: SecretMode,
    name: &str,
    hosts: &[HostPattern],
    places: Places,
    more: &str,
    origin: &Origin,
) {
    let _ = match mode {
        SecretMode::Deny => writeln!(out, "  denied {name}  ({origin})"),
        SecretMode::Mask => {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            writeln!(
                out,
                "  masked {name}  at {} in {}{more}  ({origin})",
                hosts.join(", "),
                names(places).join(", ")
            )
        }
    };
}

/// The same for programs.
pub(super) fn secrets_json(policy: &Policy) -> Value {
    let variables = policy.bindings.iter().map(|binding| {
        json!({
            "variable": binding.name,
            "mode": mode(binding.mode),
            "hosts": binding.hosts,
            "in": names(binding.places),
            "from": match &binding.from {
                ValueFrom::Environment => json!("environment"),
                ValueFrom::File { path, .. } => json!({ "env_file": path.to_string_lossy() }),
                ValueFrom::Command(words) => json!(words),
            },
            "revoke": binding.revoke,
            "origin": binding.origin,
        })
    });
    let files = policy.files_bound.iter().map(|file| {
        json!({
            "file": file.path.to_string_lossy(),
            "mode": mode(file.mode),
            "hosts": file.hosts,
            "in": names(file.places),
            "origin": file.origin,
        })
    });
    Value::Array(variables.chain(files).collect())
}

/// What is inspected, and the HTTP rules, for people.
pub(super) fn http(out: &mut String, policy: &NetPolicy) {
    for rules in &policy.http {
        for (verb, list) in [("only ", &rules.value.allow), ("never", &rules.value.deny)] {
            for rule in list {
                let _ = writeln!(out, "  {verb} {rule} at {}  ({})", rules.value.host, rules.origin);
            }
        }
    }
    if policy.inspect == Inspect::All {
        out.push_str("  TLS to every host is inspected\n");
    }
    if policy.ech == Ech::Allow {
        out.push_str("  TLS handshakes that hide the host's name pass where they are not inspected\n");
    }
}

fn names(places: Places) -> Vec<&'static str> {
    places.iter().map(|place| place.name()).collect()
}

fn mode(mode: SecretMode) -> &'static str {
    match mode {
        SecretMode::Mask => "mask",
        SecretMode::Deny => "deny",
    }
}

fn path(path: &Path) -> String {
    escape(path).to_string()
}
