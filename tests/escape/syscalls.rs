//! System calls that are refused, and those that tools need.

use super::common::{Feature, TestEnv, missing};
use super::run_inside;

const PROFILES: &[&str] = &["workspace", "read-only", "strict", "lockdown"];

/// EPERM and ENOSYS come from the filter; outside they mean that the control could not be made.
const FILTERED: [i64; 2] = [libc::EPERM as i64, libc::ENOSYS as i64];

#[test]
fn refused_calls_do_not_reach_the_kernel() {
    let env = TestEnv::new();
    let outside = env.probe_outside(["calls"]).value["calls"].clone();
    let calls = outside.as_object().expect("the control reports").clone();
    let refused = |errno: i32| {
        let errno = i64::from(errno);
        calls.iter().filter(move |(_, control)| control["errno"] == errno).map(|(name, _)| name.as_str())
    };
    let absent: Vec<&str> = refused(libc::ENOSYS).collect();
    if !absent.is_empty() {
        missing(Feature::Kernel("every-call"), &absent.join(", "), "the kernel does not have them");
    }
    let privileged: Vec<&str> = refused(libc::EPERM).collect();
    if !privileged.is_empty() {
        missing(Feature::Root, &privileged.join(", "), "only root gets past the kernel's own check outside");
    }
    let unexpected = privileged.iter().find(|name| calls[**name]["needs_root"] == false);
    assert_eq!(unexpected, None, "the control is refused");

    let mut reached = Vec::new();
    for profile in PROFILES {
        let answer = env.probe_with(&["--profile", profile], ["calls"]);
        let inside = &answer.value["calls"];
        assert!(inside.is_object(), "{profile}: the probe reports: {answer:#?}");
        for (name, control) in &calls {
            let report = &inside[name];
            let held = report["ok"] == false
                && report["errno"].as_i64().is_some_and(|errno| FILTERED.contains(&errno));
            if !held {
                reached.push(format!("{profile}: {name} inside {report}, outside {control}"));
            }
        }
    }
    assert!(reached.is_empty(), "these reached the kernel:\n{}", reached.join("\n"));
}

#[test]
fn clone3_is_answered_so_that_libraries_fall_back() {
    let env = TestEnv::new();
    let answer = env.probe_inside(["calls"]);
    assert_eq!(answer.value["calls"]["clone3"]["errno"], libc::ENOSYS, "{answer:#?}");
}

#[test]
fn sockets_of_other_families_cannot_be_opened() {
    let env = TestEnv::new();
    let outside = env.probe_outside(["families"]).value["families"].clone();
    let answer = env.probe_inside(["families"]);
    let families = outside.as_object().expect("the control reports");
    let closed: Vec<&str> = families
        .iter()
        .filter(|(_, control)| control["ok"] == false)
        .map(|(name, _)| name.as_str())
        .collect();
    if !closed.is_empty() {
        missing(Feature::Kernel("every-family"), &closed.join(", "), "they cannot be opened outside");
    }
    let mut opened = Vec::new();
    for name in families.keys() {
        if answer.value["families"][name]["ok"] != false {
            opened.push(name);
        }
    }
    assert!(opened.is_empty(), "these could be opened: {opened:?}: {:#?}", answer.output);
}

#[test]
fn thirty_two_bit_calls_are_killed() {
    let env = TestEnv::new();
    let control = env.probe_outside(["int80"]);
    if !control.ok {
        missing(Feature::Kernel("int80"), "32-bit calls are killed", "the kernel has no 32-bit entry");
    }
    let inside = env.probe_inside(["int80"]);
    assert!(!inside.ok, "{inside:#?}");
    assert!(!control.ok || inside.output.code() == 128 + libc::SIGSYS, "dies of SIGSYS: {inside:#?}");
}

#[test]
fn x32_numbers_are_refused() {
    let env = TestEnv::new();
    if !env.probe_outside(["x32"]).ok {
        missing(Feature::Kernel("x32"), "x32 numbers are refused", "the kernel has no x32 ABI");
    }
    let inside = env.probe_inside(["x32"]);
    assert!(!inside.ok, "{inside:#?}");
    assert!(inside.filtered() || inside.output.code() == 128 + libc::SIGSYS, "{inside:#?}");
}

#[test]
fn the_command_is_guarded() {
    let env = TestEnv::new();
    for profile in PROFILES {
        let status = run_inside(&env, &["--profile", profile], "cat /proc/self/status; cat /proc/1/status");
        let count = |line: &str| status.stdout.lines().filter(|found| *found == line).count();
        assert_eq!(count("Seccomp:\t2"), 2, "{profile}: the command and pid 1 are filtered: {status:#?}");
        assert_eq!(count("NoNewPrivs:\t1"), 2, "{profile}: no new privileges");
        for set in ["CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"] {
            assert!(
                count(&format!("{set}:\t0000000000000000")) >= 1,
                "{profile}: {set} is empty: {status:#?}"
            );
        }
    }
}

#[test]
fn setuid_bits_cannot_be_made() {
    let env = TestEnv::new();
    for mode in ["4755", "6755", "u+s"] {
        let script = format!("touch file && chmod {mode} file && test -u file");
        env.outside(&script).ok();
        env.outside("rm file").ok();
        assert!(!run_inside(&env, &[], &script).success(), "chmod {mode} inside");
        assert!(!env.outside("test -u file").success(), "on the host's file");
    }
    let attribute =
        "touch cap && setfattr -n security.capability -v 0x0100000200000000000000000000000000000000 cap";
    if Feature::Program("setfattr").needed_for("a file capability") {
        assert!(!run_inside(&env, &[], attribute).success(), "a file capability");
    }
}

#[test]
fn what_tools_need_works() {
    let env = TestEnv::new();
    env.probe_outside(["features"]).must_work("every feature");
    for profile in PROFILES {
        let inside = env.probe_with(&["--profile", profile], ["features"]);
        assert!(inside.ok, "{profile}: {inside:#?}");
    }
}

#[test]
fn language_runtimes_work() {
    let runtimes: &[(&str, &str, &str)] = &[
        (
            "python3",
            "python3 -c \"import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(4).map(int, range(10))))\"",
            "45",
        ),
        (
            "node",
            "node -e \"const {Worker}=require('worker_threads'); new Worker('require(\\\"worker_threads\\\").parentPort.postMessage(45)',{eval:true}).on('message',m=>{console.log(m)})\"",
            "45",
        ),
        ("perl", "perl -e 'print 45'", "45"),
        ("awk", "awk 'BEGIN { print 45 }'", "45"),
        ("gcc", "printf 'int main(){return 45;}' > a.c && gcc a.c -o a.out && { ./a.out; echo $?; }", "45"),
        ("make", "printf 'all:\\n\\t@echo 45\\n' > Makefile && make", "45"),
        ("go", "go version >/dev/null && echo 45", "45"),
        ("java", "java -version 2>/dev/null && echo 45", "45"),
    ];
    let env = TestEnv::new();
    for (program, script, expected) in runtimes {
        if env.outside(&format!("command -v {program}")).code() != 0 {
            missing(Feature::Program(program), &format!("{program} works inside"), "it is not installed");
            continue;
        }
        assert!(env.outside(script).ok().contains(expected), "control: {program}");
        let inside = run_inside(&env, &[], script);
        assert!(inside.success() && inside.stdout.contains(expected), "{program}: {inside:#?}");
    }
}
