//! Attempts to leave the jail, one file per boundary. Only the built program and the probe are used.
//!
//! Every attempt is made twice: outside, where it must succeed (else it proves nothing), and inside, where it
//! must fail. Where a control cannot be made on a machine, the test says so by name.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

#[path = "../common/mod.rs"]
mod common;

mod channels;
mod covers;
mod environment;
mod grants;
mod guard_recovery;
mod handover;
mod home;
mod http_rules;
mod ipc;
mod later_execution;
mod later_sessions;
mod later_tools;
mod life_cycle;
mod live_guard;
mod masking;
mod missing_protection;
mod mounts;
mod network;
mod network_clients;
mod network_doors;
mod network_streams;
mod places;
mod private_addresses;
mod regression;
mod secret_clients;
mod secrets;
mod shell;
mod state;
mod syscalls;
mod terminal;
mod things;
mod tmux;

use common::{Output, TestEnv};

/// One attempt as a shell script: status 0 means that it got through.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    claim: &'static str,
    script: &'static str,
    control: Control,
}

/// Whether the attempt can be made outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    /// By anybody.
    Anybody,
    /// By root only.
    Root,
}

/// Makes each attempt in `env`, outside and then in a jail started with `flags`. The scripts find the directory
/// of the test in `$ROOT`.
#[track_caller]
fn must_not_get_out(env: &TestEnv, flags: &[&str], attempts: &[Attempt]) {
    let each = attempts.iter().filter_map(|attempt| {
        make_controls(env, &[*attempt]);
        through(env, flags, attempt)
    });
    none(flags, each.collect());
}

/// Makes each attempt outside, where it must get through.
#[track_caller]
fn make_controls(env: &TestEnv, attempts: &[Attempt]) {
    for attempt in attempts {
        if attempt.control == Control::Anybody || env.uid() == 0 {
            let outside = env.outside(&with_root(env, attempt.script));
            assert!(outside.success(), "control: {} should get through outside: {outside:#?}", attempt.claim);
        }
    }
}

/// Makes each attempt in a jail started with `flags`, where it must fail. The controls were made before.
#[track_caller]
fn must_fail_inside(env: &TestEnv, flags: &[&str], attempts: &[Attempt]) {
    none(flags, attempts.iter().filter_map(|attempt| through(env, flags, attempt)).collect());
}

/// What is said of an attempt that gets through in a jail.
#[track_caller]
fn through(env: &TestEnv, flags: &[&str], attempt: &Attempt) -> Option<String> {
    let inside = run_inside(env, flags, &with_root(env, attempt.script));
    inside.success().then(|| format!("{}: {inside:#?}", attempt.claim))
}

#[track_caller]
fn none(flags: &[&str], through: Vec<String>) {
    assert!(through.is_empty(), "{flags:?}: these got through:\n{}", through.join("\n"));
}

/// Runs a script in a jail started with `flags`, and makes sure that the jail came up and the script was begun.
#[track_caller]
fn run_inside(env: &TestEnv, flags: &[&str], script: &str) -> Output {
    let begun = format!("echo begun; {script}");
    let output = env.jail(flags.iter().copied().chain(["--", "sh", "-c", &begun]));
    assert!(output.stdout.starts_with("begun"), "the jail did not start: {output:#?}");
    output
}

/// The script with `$ROOT` set to the directory of the test.
fn with_root(env: &TestEnv, script: &str) -> String {
    format!("ROOT='{}'; {script}", env.root().display())
}

/// A word that occurs nowhere else on the machine.
fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    format!("{prefix}{}x{}x{}", std::process::id(), now.as_nanos(), COUNT.fetch_add(1, Ordering::Relaxed))
}
