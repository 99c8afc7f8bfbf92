//! Each protection made unavailable in turn: the launch is refused or does what is documented, never less.

use std::os::unix::fs::PermissionsExt;

use super::common::{DEADLINE, Feature, Output, TestEnv, missing, on_path, output_of};

/// Runs the launcher by way of the probe on a kernel that seems to lack `feature`.
fn without(env: &TestEnv, feature: &str, args: &[&str]) -> Output {
    let mut command = env.command(env.probe());
    command.args(["without", feature, "--", env!("CARGO_BIN_EXE_ai-jail")]).args(args);
    output_of(&mut command, DEADLINE)
}

#[test]
fn without_landlock_strict_profiles_are_refused() {
    if !Feature::Landlock.needed_for("a launch without Landlock is weaker than one with it") {
        return;
    }
    let env = TestEnv::new();
    for profile in ["strict", "lockdown"] {
        let output = without(&env, "landlock", &["--profile", profile, "--", "touch", "ran"]);
        assert!(output.refused().to_lowercase().contains("landlock"), "{profile}: {output:#?}");
        assert!(!env.project().join("ran").exists());
    }
}

#[test]
fn without_landlock_other_profiles_say_so_and_close_pid_1_in_another_way() {
    if !Feature::Landlock.needed_for("without Landlock pid 1 is out of reach") {
        return;
    }
    let env = TestEnv::new();
    let probe = env.probe();
    let probe = probe.to_str().expect("UTF-8");
    for target in [&["attack", "1"][..], &["sleep-child"]] {
        let output = without(&env, "landlock", &[&["--", probe], target].concat());
        if output.code() == 125 {
            output.refused();
            continue;
        }
        assert!(output.stderr.to_lowercase().contains("landlock"), "one line says so: {output:#?}");
        let answer = super::common::Answer::read(&output);
        for way in ["ptrace", "process_vm_readv", "pidfd_getfd"] {
            assert_eq!(answer.value["ways"][way]["ok"], false, "{target:?}: {way}: {output:#?}");
        }
        if target[0] == "attack" {
            for way in ["mem_read", "mem_write"] {
                assert_eq!(answer.value["ways"][way]["ok"], false, "pid 1: {way}: {output:#?}");
            }
        }
    }
}

#[test]
fn without_seccomp_every_profile_is_refused() {
    let env = TestEnv::new();
    for profile in ["workspace", "read-only", "strict", "lockdown"] {
        let output = without(&env, "seccomp", &["--profile", profile, "--", "touch", "ran"]);
        output.refused();
        assert!(!env.project().join("ran").exists(), "{profile}: the command ran");
    }
}

#[test]
fn without_user_namespaces_every_profile_is_refused() {
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "no user namespaces", "root needs none");
        return;
    };
    for profile in ["workspace", "lockdown"] {
        let output = without(&env, "userns", &["--profile", profile, "--", "touch", "ran"]);
        assert!(output.refused().contains("namespace"), "{profile}: {output:#?}");
        assert!(!env.project().join("ran").exists(), "{profile}: the command ran");
    }
    let mut nested = env.command("bwrap");
    nested.args([
        "--dev-bind",
        "/",
        "/",
        "--unshare-user",
        "--disable-userns",
        env!("CARGO_BIN_EXE_ai-jail"),
    ]);
    let output = output_of(nested.args(["--", "touch", "ran"]), DEADLINE);
    output.refused();
    assert!(!env.project().join("ran").exists(), "the command ran");
}

#[test]
fn a_setuid_bwrap_is_not_used() {
    if !rustix::process::getuid().is_root() {
        missing(Feature::Root, "a setuid bwrap", "only root can make one");
        return;
    }
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "a setuid bwrap", "root is not affected");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory of root's");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let bwrap = directory.path().join("bwrap");
    std::fs::copy(on_path("bwrap").expect("bwrap"), &bwrap).expect("copy");
    std::fs::set_permissions(&bwrap, std::fs::Permissions::from_mode(0o4755)).expect("chmod");
    let env = env.path(directory.path().to_str().expect("UTF-8"));
    let output = env.jail(["--", "/bin/touch", "ran"]);
    output.refused();
    assert!(!env.project().join("ran").exists(), "the command ran");
}

#[test]
fn a_log_that_cannot_be_written_is_said_or_refused() {
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "an unwritable log", "root may write everywhere");
        return;
    };
    let env = env.var("XDG_STATE_HOME", "/proc/ai-jail-state");
    let output = env.jail(["--", "echo", "ran"]);
    assert_eq!(output.ok(), "ran\n", "a warning is enough by default");
    assert!(
        output.stderr.lines().any(|line| line.starts_with("ai-jail: ") && line.contains("log")),
        "{output:#?}"
    );
    env.config("[log]\nrequired = true\n");
    env.jail(["--", "echo", "ran"]).refused();
}

#[test]
fn a_full_disk_is_said_or_refused() {
    // Every write to a file on this device fails with ENOSPC, or the directory cannot be made at all.
    let env = TestEnv::new();
    let tiny = env.root().join("tiny");
    let script = format!(
        "mkdir -p '{tiny}' && mount -t tmpfs -o size=4k,nr_inodes=4 none '{tiny}' && dd if=/dev/zero of='{tiny}/fill' bs=4k count=1 \
         2>/dev/null; XDG_STATE_HOME='{tiny}' exec '{jail}' -- echo ran",
        tiny = tiny.display(),
        jail = env!("CARGO_BIN_EXE_ai-jail"),
    );
    if !rustix::process::getuid().is_root() {
        missing(Feature::Root, "a full disk", "only root can mount a full one");
        return;
    }
    let output = output_of(env.command("unshare").args(["-m", "sh", "-c", &script]), DEADLINE);
    assert!(output.code() == 125 || output.stdout == "ran\n", "{output:#?}");
    let said = output.stderr.lines().any(|line| line.starts_with("ai-jail: ") && line.contains("log"));
    assert!(output.code() == 125 || said, "it is said: {output:#?}");
    env.config("[log]\nrequired = true\n");
    let output = output_of(env.command("unshare").args(["-m", "sh", "-c", &script]), DEADLINE);
    assert_eq!(output.code(), 125, "{output:#?}");
}
