//! The text and the JSON of `--dry-run`: every rule with the place it came from, and every operation in order.

mod bindings;
mod protection;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::settings::{Limits, TerminalFilter, TerminalSettings};
use crate::plan::operation::{Access, AtLaunch, BwrapOp, Content, DoorOp, Veil};
use crate::plan::seccomp::Debuggers;
use crate::plan::{NetworkPlan, Plan};
use crate::policy::files::{FileRule, Source};
use crate::policy::origin::{Layer, Sourced};
use crate::policy::secrets::SecretRule;
use crate::policy::{Hidden, NetworkRule, Policy, env};
use crate::sanitize::escape;
use crate::secrets::Concealed;
use crate::terminal::Class;

pub use self::protection::{protection, protection_json};

/// What is said where the value of a secret was typed. Every program can read a command line.
const IN_ARGUMENTS: &str =
    "is the value of a secret, or looks like one: in arguments every program of this machine can read it";

/// Every rule of the policy, for people, without what `concealed` hides.
pub fn rules(policy: &Policy, concealed: &Concealed) -> String {
    let mut out = String::new();
    let command = policy.argv.iter().map(|argument| concealed.text(&argument.to_string_lossy()));
    let command: Vec<String> = command.map(|argument| escape(&argument).to_string()).collect();
    line(&mut out, "command", &format!("{} ({})", command.join(" "), path(&policy.program)));
    if policy.argv.iter().any(|argument| concealed.is_in(argument.as_bytes())) {
        line(&mut out, "", &format!("*** {IN_ARGUMENTS}"));
    }
    line(&mut out, "profile", &format!("{} ({})", word(&policy.profile.value), policy.profile.origin));
    line(&mut out, "agent", policy.agent.as_deref().unwrap_or("none"));
    line(&mut out, "project", &path(&policy.project));
    line(&mut out, "directory", &path(&policy.cwd));
    line(
        &mut out,
        "home",
        &format!("{} ({}, {})", path(&policy.home), word(&policy.home_mode.value), policy.home_mode.origin),
    );
    out.push_str("\nfiles:\n");
    for rule in policy.files.iter() {
        let _ = writeln!(
            out,
            "  {} {}  {}  ({})",
            access(rule.access),
            path(&rule.dest),
            source(rule),
            rule.origin
        );
    }
    let _ = writeln!(out, "  ro {} entries of the system", policy.system.len());
    if !policy.protected.is_empty() {
        out.push_str("\nprotected (read-only; pinned: cannot be renamed or removed):\n");
        for held in &policy.protected {
            let how = match held.access {
                Access::ReadOnly => "ro    ",
                Access::Writable => "pinned",
            };
            let _ = writeln!(out, "  {how} {}  ({})", path(&held.root.join(&held.below)), held.reason);
        }
    }
    secrets(&mut out, &policy.secrets);
    let known: HashSet<&Path> = policy.secrets.iter().map(|secret| secret.path.as_path()).collect();
    let secret = |path: &Path| known.contains(path);
    if !policy.asked.is_empty() {
        out.push_str("\ndenied and masked:\n");
        for asked in &policy.asked {
            let _ = writeln!(out, "  {} {}  ({})", veil(asked.veil), escape(&asked.text), asked.origin);
        }
    }
    let hidden = policy.hidden.iter().filter(|hidden| hidden.is_asked || !secret(&inside(hidden)));
    let hidden: Vec<&Hidden> = hidden.collect();
    if !hidden.is_empty() {
        out.push_str("\ncovered:\n");
    }
    for hidden in hidden {
        let _ = writeln!(out, "  {} {}  ({})", how(hidden), path(&inside(hidden)), hidden.reason);
    }
    if !policy.opened.is_empty() {
        out.push_str("\nof this machine:\n");
        for opened in &policy.opened {
            let _ =
                writeln!(out, "  {}: {}  ({})", escape(&*opened.name), escape(&*opened.opens), opened.origin);
        }
    }
    bindings::secrets(&mut out, policy);
    out.push_str("\nenvironment:\n");
    for (name, value) in &policy.environment {
        let _ = writeln!(out, "  {name}={}  ({})", shown(name, value), value.origin);
    }
    out.push_str("\nnetwork:\n");
    network(&mut out, &policy.network);
    out.push_str("\nterminal:\n");
    terminal(&mut out, &policy.settings.terminal);
    out.push_str("\nkernel:\n");
    let landlock = policy.landlock_abi.map_or("unavailable".to_owned(), |abi| format!("ABI {abi}"));
    let debuggers = match policy.debuggers {
        Debuggers::Allowed => "debuggers work inside",
        Debuggers::Refused => "no debuggers",
    };
    let _ = writeln!(out, "  Landlock {landlock}; seccomp; {debuggers}");
    limits(&mut out, &policy.limits);
    // The escaped form of a value may be another one: what was typed is hidden before it is escaped, as above.
    concealed.text(&out)
}

/// Every operation in order, for people.
pub fn operations(plan: &Plan) -> String {
    let mut out = String::from("\noperations of bubblewrap:\n");
    for operation in &plan.operations {
        let _ = writeln!(out, "  {}", bwrap(operation));
    }
    out.push_str("\noperations at the held door:\n");
    for operation in &plan.door {
        let _ = writeln!(out, "  {}", door(operation));
    }
    out
}

/// The plan for programs, without what `concealed` hides.
pub fn json(policy: &Policy, plan: &Plan, concealed: &Concealed) -> Value {
    let mut json = whole(policy, plan);
    concealed.json(&mut json);
    json
}

fn whole(policy: &Policy, plan: &Plan) -> Value {
    json!({
        "command": policy.argv.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>(),
        "program": policy.program.to_string_lossy(),
        "profile": policy.profile,
        "agent": policy.agent,
        "project": policy.project.to_string_lossy(),
        "directory": policy.cwd.to_string_lossy(),
        "home": { "path": policy.home.to_string_lossy(), "mode": policy.home_mode },
        "files": policy.files.iter().map(|rule| json!({
            "path": rule.dest.to_string_lossy(), "source": source(rule), "access": rule.access, "origin": rule.origin,
        })).collect::<Vec<_>>(),
        "protected": policy.protected.iter().map(|held| json!({
            "path": held.root.join(&held.below).to_string_lossy(), "access": held.access, "reason": held.reason,
        })).collect::<Vec<_>>(),
        "opened": policy.opened,
        "secrets_files": policy.secrets.iter().map(|secret| json!({
            "path": secret.path.to_string_lossy(), "masked": secret.is_masked(), "reason": secret.why(),
        })).collect::<Vec<_>>(),
        "asked": policy.asked.iter().map(|asked| json!({
            "glob": asked.text.to_string_lossy(), "how": veil(asked.veil), "origin": asked.origin,
        })).collect::<Vec<_>>(),
        "covered": policy.hidden.iter().map(|hidden| json!({
            "path": inside(hidden).to_string_lossy(), "how": how(hidden), "reason": hidden.reason,
        })).collect::<Vec<_>>(),
        "environment": policy.environment.iter().map(|(name, value)| json!({ "name": name, "origin": value.origin })).collect::<Vec<_>>(),
        "secrets": bindings::secrets_json(policy),
        "network": match &policy.network {
            NetworkRule::Off => json!({ "mode": "off" }),
            NetworkRule::DangerOpen => json!({ "mode": "open" }),
            NetworkRule::Filtered(policy) => json!(**policy),
        },
        "terminal": terminal_json(&policy.settings.terminal),
        "landlock_abi": policy.landlock_abi,
        "seccomp_instructions": plan.seccomp.len() / 8,
        "network_namespace": !matches!(plan.network, NetworkPlan::DangerOpen),
        "bubblewrap": plan.operations.iter().map(bwrap).collect::<Vec<_>>(),
        "door": plan.door.iter().map(door).collect::<Vec<_>>(),
        "warnings": policy.warnings,
    })
}

fn secrets(out: &mut String, secrets: &[SecretRule]) {
    if !secrets.is_empty() {
        out.push_str("\nfiles that hold secrets (masked: empty and read-only inside):\n");
    }
    for secret in secrets {
        let how = if secret.is_masked() { "masked" } else { "shown " };
        let _ = writeln!(out, "  {how} {}  ({})", path(&secret.path), secret.why());
    }
}

/// A value that we chose or that is harmless by its name. What the user named may be a secret.
fn shown(name: &str, value: &Sourced<OsString>) -> String {
    if value.origin.layer == Layer::BuiltIn && !env::looks_secret(name) {
        return escape(value.value.as_os_str()).to_string();
    }
    "(not shown)".to_owned()
}

fn terminal(out: &mut String, settings: &TerminalSettings) {
    let TerminalSettings { filter, passes } = settings;
    if filter.value == TerminalFilter::DangerOff {
        let _ = writeln!(out, "  filter OFF: every byte passes as it is  ({})", filter.origin);
        return;
    }
    let _ = writeln!(out, "  filter on  ({})", filter.origin);
    for (key, class) in Class::SWITCHES {
        if let Some(switch) = passes.get(&class) {
            let what = if switch.value { "passes" } else { "dropped" };
            let _ = writeln!(out, "  {key} {what}  ({})", switch.origin);
        }
    }
}

fn terminal_json(settings: &TerminalSettings) -> Value {
    let mut all = serde_json::Map::from_iter([("filter".to_owned(), json!(settings.filter))]);
    for (key, class) in Class::SWITCHES {
        all.insert(key.to_owned(), json!(settings.passes.get(&class)));
    }
    Value::Object(all)
}

fn limits(out: &mut String, limits: &Limits) {
    let rows = [
        ("memory", "bytes", limits.memory.as_ref().map(|limit| (limit.value, &limit.origin))),
        ("pids", "", limits.pids.as_ref().map(|limit| (limit.value, &limit.origin))),
        ("cpu", "%", limits.cpu_percent.as_ref().map(|limit| (limit.value.into(), &limit.origin))),
        ("files", "", limits.files.as_ref().map(|limit| (limit.value, &limit.origin))),
        ("time", "s", limits.time_seconds.as_ref().map(|limit| (limit.value, &limit.origin))),
    ];
    for (name, unit, limit) in rows {
        if let Some((value, origin)) = limit {
            let _ = writeln!(out, "  limit {name} {value} {unit}  ({origin})");
        }
    }
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<10} {value}");
}

fn network(out: &mut String, rule: &NetworkRule) {
    let policy = match rule {
        NetworkRule::Off => return out.push_str("  off\n"),
        NetworkRule::DangerOpen => return out.push_str("  OPEN: everything that this machine reaches\n"),
        NetworkRule::Filtered(policy) => policy,
    };
    for (verb, rules) in [("deny ", &policy.deny), ("allow", &policy.allow)] {
        for rule in rules {
            let _ = writeln!(out, "  {verb} {}  ({})", rule.value, rule.origin);
        }
    }
    bindings::http(out, policy);
    for (host, target) in &policy.resolve {
        let port = target.value.port.map_or(String::new(), |port| format!(":{port}"));
        let _ = writeln!(out, "  {host} is dialled at {}{port}  ({})", target.value.addr, target.origin);
    }
    for (proxy, what) in [(&policy.upstream.plain, "port 80"), (&policy.upstream.others, "other ports")] {
        if let Some(proxy) = proxy {
            let _ = writeln!(out, "  {what} through the proxy {}  ({})", proxy.value.at, proxy.origin);
        }
    }
    for (flag, ports) in [("--forward", &policy.forward), ("--publish", &policy.publish)] {
        for port in ports {
            let what = match flag {
                "--forward" => "this machine's port, at the jail's loopback",
                _ => "the jail's port, at this machine's loopback",
            };
            let _ = writeln!(out, "  {} {what}  ({})", port.value, port.origin);
        }
    }
    out.push_str(if policy.allow.is_empty() {
        "  no host is allowed\n"
    } else {
        "  everything else is refused\n"
    });
}

fn source(rule: &FileRule) -> String {
    match &rule.source {
        Source::Host(source) if *source == rule.dest => "as on the host".to_owned(),
        Source::Host(source) => format!("from {}", path(source)),
        Source::Socket(source) => format!("the socket {} of this machine", path(source)),
        Source::Device(source) => format!("the device {} of this machine", path(source)),
        Source::Store(place, _) => format!("ai-jail's own {}", path(place)),
        Source::Tmpfs => "a tmpfs".to_owned(),
        Source::Content(content) => format!("made, {} bytes", content.len()),
        Source::AtLaunch(made) => content(&Content::AtLaunch(*made)),
        Source::Symlink(target) => format!("a symlink to {}", path(target)),
    }
}

fn bwrap(operation: &BwrapOp) -> String {
    match operation {
        BwrapOp::Dir(dest) => format!("dir {}", path(dest)),
        BwrapOp::Tmpfs(dest, mode) => format!("tmpfs {mode:04o} {}", path(dest)),
        BwrapOp::Symlink { target, dest } => format!("symlink {} -> {}", path(dest), path(target)),
        BwrapOp::Bind { source, dest, access: how } => {
            format!("bind {} {} from {}", access(*how), path(dest), path(source.path()))
        }
        BwrapOp::Device { source, dest } => format!("device {} from {}", path(dest), path(source.path())),
        BwrapOp::File { content: made, dest, .. } => format!("file {} ({})", path(dest), content(made)),
        BwrapOp::Cover { content: made, dest } => format!("cover {} ({})", path(dest), content(made)),
        BwrapOp::DangerSurroundingProc(dest) => format!("surrounding proc {}", path(dest)),
        BwrapOp::Proc(dest) => format!("proc {}", path(dest)),
        BwrapOp::Dev(dest) => format!("dev {}", path(dest)),
        BwrapOp::RemountReadOnly(dest) => format!("remount read-only {}", path(dest)),
    }
}

fn content(content: &Content) -> String {
    match content {
        Content::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Content::AtLaunch(AtLaunch::Roots) => "the host's TLS roots and the session's".to_owned(),
        Content::AtLaunch(AtLaunch::JavaRoots) => "the same for Java".to_owned(),
        Content::AtLaunch(AtLaunch::Authority) => "the session's TLS root".to_owned(),
        Content::AtLaunch(AtLaunch::Masked(_)) => "a copy with fakes of its secrets".to_owned(),
    }
}

fn door(operation: &DoorOp) -> String {
    match operation {
        DoorOp::Verify { path: place, .. } => format!("verify {}", path(place)),
        DoorOp::Place { staged, root, below, access: how, .. } => {
            format!("place {} {} from {}", access(*how), path(&root.join(below)), path(staged))
        }
        DoorOp::Show { dest, host, .. } => format!("show {} from {}", path(dest), path(host)),
        DoorOp::Link { shown, dest } => format!("link the entries of {} in {}", path(shown), path(dest)),
        DoorOp::SealRoot => "remount read-only /".to_owned(),
        DoorOp::Pin { root, below, access: how } => {
            format!("pin {} {}", access(*how), path(&root.join(below)))
        }
        DoorOp::Seal { root, below } => format!("seal ro {}", path(&root.join(below))),
        DoorOp::Hide { root, below, veil, holes } => {
            let verb = match veil {
                Veil::Empty => "hide",
                Veil::Closed => "deny",
            };
            let but = match holes.len() {
                0 => String::new(),
                count => format!(" but for {count} in it"),
            };
            format!("{verb} {}{but}", path(&root.join(below)))
        }
        DoorOp::Store { path: place } => format!("store covers {}", path(place)),
    }
}

fn veil(veil: Veil) -> &'static str {
    match veil {
        Veil::Empty => "mask",
        Veil::Closed => "deny",
    }
}

fn how(hidden: &Hidden) -> &'static str {
    match (hidden.is_asked, hidden.veil) {
        _ if hidden.copy.is_some() => "a copy with fakes",
        (false, _) => "hidden",
        (true, Veil::Empty) => "masked",
        (true, Veil::Closed) => "denied",
    }
}

fn inside(hidden: &Hidden) -> PathBuf {
    crate::policy::files::inside(&hidden.root, &hidden.below)
}

fn access(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "ro",
        Access::Writable => "rw",
    }
}

fn path(path: &Path) -> String {
    escape(path.as_os_str()).to_string()
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
