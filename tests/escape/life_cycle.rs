//! However the jail ends, nothing of it stays; and it never runs unguarded, whenever it is killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::common::{
    DEADLINE, Feature, Output, Running, Terminal, TestEnv, descendants, eventually, handles, missing,
    output_of, start,
};
use super::unique;

/// After this time nothing of a killed jail may be left. Generous for loaded machines; usually it takes
/// milliseconds.
const GONE: Duration = Duration::from_secs(10);

/// The command: it records what guards it, then waits. Each line is written whole.
const RECORD: &str = "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status > \"$1.tmp\"; \
    tail -n +3 /proc/net/dev | cut -d: -f1 | sed 's/^ */device /' >> \"$1.tmp\"; mv \"$1.tmp\" \"$1\"; \
    while :; do sleep 1; done";

#[test]
fn a_supervisor_killed_at_any_moment_leaves_nothing_and_nothing_ran_unguarded() {
    let delays: Vec<Duration> = (0..200)
        .map(|step| Duration::from_micros(step * 100))
        .chain((1..=50).map(|step| Duration::from_millis(20 + step * 10)))
        .collect();
    let env = TestEnv::new();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(delay) = delays.get(next.fetch_add(1, Ordering::Relaxed)) {
                    kill_after(&env, *delay);
                }
            });
        }
    });
    let records: Vec<PathBuf> = fs::read_dir(env.project())
        .expect("the project")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "tmp"))
        .collect();
    assert!(!records.is_empty(), "some were killed only after they had begun");
    for record in &records {
        guarded(&fs::read_to_string(record).expect("a record"), record.to_str().expect("UTF-8"));
    }
    // A run that is left alone shows that the command does record.
    let whole = unique("record");
    let jail = env.jail_running(["-q", "--", "sh", "-c", RECORD, "sh", &whole]);
    assert!(eventually(DEADLINE, || env.project().join(&whole).exists()), "the command records");
    guarded(&fs::read_to_string(env.project().join(&whole)).expect("a record"), &whole);
    drop(jail);
    nothing_is_left(&whole, Duration::ZERO);
}

#[track_caller]
fn kill_after(env: &TestEnv, delay: Duration) {
    let name = unique("record");
    let begun = Instant::now();
    let mut jail = env.jail_running(["-q", "--", "sh", "-c", RECORD, "sh", &name]);
    std::thread::sleep(delay.saturating_sub(begun.elapsed()));
    jail.kill();
    nothing_is_left(&name, delay);
    drop(jail);
}

#[track_caller]
fn guarded(record: &str, name: &str) {
    for line in record.lines() {
        let good = ["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "device lo"];
        assert!(good.contains(&line), "{name}: the command ran with {line:?}: {record}");
    }
    assert!(record.contains("Seccomp:\t2") && record.contains("device lo"), "{name}: {record}");
}

/// No process has the marker in its arguments any more.
#[track_caller]
fn nothing_is_left(marker: &str, delay: Duration) {
    let mut left = Vec::new();
    let gone = eventually(GONE, || {
        left = processes_with(marker);
        left.is_empty()
    });
    assert!(gone, "killed after {delay:?}: these are left: {left:?}");
}

/// The processes, zombies apart, whose arguments hold the marker: id and name.
fn processes_with(marker: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let holds = |file: &str| {
            fs::read(entry.path().join(file))
                .is_ok_and(|bytes| bytes.windows(marker.len()).any(|window| window == marker.as_bytes()))
        };
        if holds("cmdline") || holds("environ") {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push((pid, name.trim().to_owned()));
        }
    }
    found
}

/// A jail whose command waits, started and running; the marker is in the arguments of its processes.
fn waiting_jail(env: &TestEnv) -> (Running, String) {
    let marker = unique("waiting");
    let script = format!("touch {marker}; while :; do sleep 1; done");
    let jail = env.jail_running(["-q", "--env", &format!("MARKER={marker}"), "--", "sh", "-c", &script]);
    let started = env.project().join(&marker);
    assert!(eventually(DEADLINE, || started.exists()), "the jail starts");
    (jail, marker)
}

#[track_caller]
fn kill(pids: impl IntoIterator<Item = i32>, signal: Signal) -> usize {
    let mut count = 0;
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        count += usize::from(rustix::process::kill_process(pid, signal).is_ok());
    }
    count
}

#[test]
fn a_killed_command_ends_the_jail() {
    let env = TestEnv::new();
    let (jail, marker) = waiting_jail(&env);
    let shells = processes_with(&marker).into_iter().filter(|(_, name)| name == "sh").map(|(pid, _)| pid);
    assert!(kill(shells, Signal::KILL) > 0, "the shell was found");
    let Output { status, timed_out, .. } = jail.finish(GONE);
    assert!(!timed_out, "the launcher ends too");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.code().or(status.signal().map(|signal| 128 + signal)), Some(137));
    nothing_is_left(&marker, Duration::ZERO);
}

#[test]
fn a_killed_bwrap_ends_the_jail() {
    let env = TestEnv::new();
    let (jail, marker) = waiting_jail(&env);
    let children = descendants(jail.pid() as i32);
    let bwrap = children.iter().filter(|(_, name)| name == "bwrap").map(|(pid, _)| *pid);
    assert!(kill(bwrap, Signal::KILL) > 0, "bwrap was found among {children:?}");
    let output = jail.finish(GONE);
    assert!(!output.timed_out && !output.status.success(), "the launcher ends too: {output:#?}");
    nothing_is_left(&marker, Duration::ZERO);
}

#[test]
fn every_child_of_ours_may_be_killed() {
    let env = TestEnv::new();
    let (jail, _) = waiting_jail(&env);
    let count = descendants(jail.pid() as i32).len();
    drop(jail);
    for index in 0..count {
        let (jail, marker) = waiting_jail(&env);
        if let Some((pid, _)) = descendants(jail.pid() as i32).get(index) {
            kill([*pid], Signal::KILL);
        }
        drop(jail);
        nothing_is_left(&marker, Duration::ZERO);
    }
}

#[test]
fn signals_to_the_launcher_end_the_jail() {
    let signals = [
        (Signal::TERM, 15),
        (Signal::INT, 2),
        (Signal::HUP, 1),
        (Signal::QUIT, 3),
        (Signal::USR1, 10),
        (Signal::ALARM, 14),
        (Signal::STKFLT, 16),
        (Signal::XCPU, 24),
        (Signal::VTALARM, 26),
        (Signal::PROF, 27),
        (Signal::IO, 29),
        (Signal::POWER, 30),
    ];
    for (signal, number) in signals {
        let env = TestEnv::new();
        let (jail, marker) = waiting_jail(&env);
        kill([jail.pid() as i32], signal);
        let output = jail.finish(GONE);
        assert!(!output.timed_out, "{signal:?} ends the launcher");
        assert_eq!(output.code(), 128 + number, "{signal:?}: {output:#?}");
        nothing_is_left(&marker, Duration::ZERO);
    }
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let env = TestEnv::new();
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT), ("TERM", Signal::TERM)] {
        let script = "touch $0; kill -$1 $$; sleep 0.5; echo survived";
        for launcher in [String::new(), format!("{jail} -q --")] {
            let marker = unique("ignored");
            let line = format!("trap '' {name}; exec {launcher} sh -c '{script}' {marker} {name}");
            let running = start(env.command("sh").args(["-c", &line]));
            assert!(eventually(DEADLINE, || env.project().join(&marker).exists()), "{launcher}: it starts");
            kill([running.pid() as i32], signal);
            let output = running.finish(DEADLINE);
            assert_eq!(
                (output.code(), output.stdout.as_str()),
                (0, "survived\n"),
                "{launcher} {name}: {output:#?}"
            );
        }
    }
}

#[test]
fn a_signal_ends_a_launch_that_has_not_come_to_the_command() {
    if !rustix::process::getuid().is_root() {
        missing(Feature::Root, "a slow bwrap", "only root can make one that is trusted");
        return;
    }
    // Below /tmp it would not be trusted.
    let directory = tempfile::tempdir_in("/root").expect("a directory of root's");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let bwrap = directory.path().join("bwrap");
    fs::write(&bwrap, "#!/bin/sh\nexec /bin/sleep 60\n").expect("a slow bwrap");
    fs::set_permissions(&bwrap, fs::Permissions::from_mode(0o755)).expect("chmod");
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1), (Signal::ALARM, 14)] {
        let env = TestEnv::new().path(directory.path().to_str().expect("UTF-8"));
        let running = env.jail_running(["-q", "--", "/bin/true"]);
        let launcher = running.pid() as i32;
        let waits = || descendants(launcher).iter().any(|(_, name)| name == "sleep");
        assert!(eventually(DEADLINE, waits), "bwrap was started");
        assert!(eventually(DEADLINE, || handles(launcher, number)), "the launcher waits for the warden");
        let begun = Instant::now();
        kill([launcher], signal);
        let output = running.finish(GONE);
        assert!(begun.elapsed() < Duration::from_secs(3), "{signal:?}: {:?}", begun.elapsed());
        assert_eq!(output.code(), 128 + number, "{signal:?}: {output:#?}");
    }
}

#[test]
fn a_closed_terminal_ends_the_jail() {
    let env = TestEnv::new();
    let marker = unique("terminal");
    let script = format!("trap '' HUP; echo started; : {marker}; while :; do sleep 1; done");
    let mut terminal = Terminal::jail(&env, ["--", "sh", "-c", &script]);
    terminal.wait_for("started");
    assert!(!processes_with(&marker).is_empty(), "the search finds the running jail");
    terminal.hang_up();
    assert!(terminal.wait(GONE).is_some(), "the launcher ends");
    nothing_is_left(&marker, Duration::ZERO);
}

#[test]
fn a_closed_terminal_ends_no_jail_that_ignores_the_hang_up() {
    let env = TestEnv::new();
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    // Longer than a jail is left after its terminal is gone.
    let inner = "echo started; sleep 5; touch survived";
    for launcher in [String::new(), format!("{jail} -q -- ")] {
        let script = format!("trap '' HUP; exec {launcher}sh -c '{inner}'");
        let mut terminal = Terminal::outside(&env, ["sh", "-c", &script]);
        terminal.wait_for("started");
        terminal.hang_up();
        let survived = env.project().join("survived");
        assert!(eventually(DEADLINE, || survived.exists()), "{launcher:?}");
        assert_eq!(terminal.wait(GONE), Some(0), "{launcher:?}");
        fs::remove_file(survived).expect("removed");
    }
}

#[test]
fn a_background_process_does_not_outlive_the_command() {
    let env = TestEnv::new();
    let marker = unique("daemon");
    let script = format!(
        "(setsid sh -c 'trap \"\" TERM HUP; : {marker}; while :; do sleep 1; done' >/dev/null 2>&1 &) ; exit 3"
    );
    let output = env.jail(["-q", "--", "sh", "-c", &script]);
    assert_eq!(output.code(), 3, "{output:#?}");
    nothing_is_left(&marker, Duration::ZERO);
}

#[test]
fn two_jails_in_one_project_do_not_disturb_each_other() {
    let env = TestEnv::new();
    let (first, marker) = waiting_jail(&env);
    assert_eq!(env.jail(["-q", "--", "echo", "second"]).ok(), "second\n");
    assert!(!processes_with(&marker).is_empty(), "the first goes on");
    let (second, other) = waiting_jail(&env);
    drop(first);
    nothing_is_left(&marker, Duration::ZERO);
    assert!(!processes_with(&other).is_empty(), "the second goes on");
    drop(second);
    nothing_is_left(&other, Duration::ZERO);
}

#[test]
fn a_limit_of_file_sizes_that_leaves_no_room_for_the_roots_is_named() {
    let env = TestEnv::new();
    let script = format!("ulimit -f 4; exec {} -q -- true", env!("CARGO_BIN_EXE_ai-jail"));
    let output = output_of(env.command("sh").args(["-c", &script]), DEADLINE);
    assert!(output.refused().contains("ulimit -f"), "{output:#?}");
}

#[test]
fn hostile_circumstances_make_no_difference() {
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let table = [
        ("a umask that forbids everything", format!("umask 0777; exec {jail} -q -- echo x")),
        (
            "a umask that allows everything",
            format!("umask 0; exec {jail} -q -- sh -c 'echo x > f2 && cat f2'"),
        ),
        ("closed standard input", format!("exec {jail} -q -- sh -c 'cat; echo x' <&-")),
        ("closed standard error", format!("exec {jail} -q -- sh -c 'echo x' 2>&-")),
        ("few descriptors", format!("ulimit -S -n 64; exec {jail} -q -- sh -c 'echo x'")),
        ("the end of children ignored", format!("exec env --ignore-signal=CHLD {jail} -q -- sh -c 'echo x'")),
        ("every signal ignored", format!("exec env --ignore-signal {jail} -q -- sh -c 'echo x'")),
        ("every signal blocked", format!("exec env --block-signal {jail} -q -- sh -c 'echo x'")),
        ("a limit of file sizes", format!("ulimit -f 4096; exec {jail} -q -- sh -c 'echo x'")),
        ("ignored signals", format!("trap '' PIPE CHLD TERM; exec {jail} -q -- sh -c 'echo x'")),
    ];
    let mut different = Vec::new();
    for (claim, script) in table {
        // An environment of its own each: what one leaves must not disturb the next.
        let env = TestEnv::new();
        let output = output_of(env.command("sh").args(["-c", &script]), DEADLINE);
        if !output.success() || output.stdout != "x\n" {
            different.push(format!("{claim}: {output:#?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
