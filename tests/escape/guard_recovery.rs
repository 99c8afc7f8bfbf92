//! What the guard does when something goes wrong, or is renamed: after a SIGKILL, at its bounds, across file systems, without
//! watches, with odd names; and how the user gets back what it took.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::common::{DEADLINE, Feature, Git, Output, TestEnv, eventually, missing, output_of};
use super::run_inside;

/// How long the guard may take on a loaded machine.
const SOON: Duration = Duration::from_secs(5);

fn read(env: &TestEnv, name: &str) -> Option<String> {
    std::fs::read_to_string(env.project().join(name)).ok()
}

/// Everything that the quarantine holds, one line each.
fn listed(env: &TestEnv) -> String {
    env.jail(["quarantine", "list"]).ok().to_owned()
}

/// The name of the only session that the quarantine knows.
fn session(env: &TestEnv) -> String {
    listed(env).split('/').next().expect("an item").to_owned()
}

/// A package with protected paths of the user's, tracked by git, and a secrets file.
fn packages() -> TestEnv {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file("packages/a/.vscode/tasks.json", "mine\n");
    env.file("packages/a/.claude/settings.json", "mine\n");
    env.file("packages/a/tools/.envrc", "mine\n");
    env.file("packages/a/.env", "SECRET=mine\n");
    env.file("packages/a/src/main.txt", "code\n");
    env.file("packages/b/src/main.txt", "other\n");
    git.run(&["add", "-f", "."]).ok();
    git.run(&["commit", "-q", "-m", "packages"]).ok();
    git.run(&["rm", "-q", "--cached", "packages/a/.env"]).ok();
    git.run(&["commit", "-q", "-m", "no secrets"]).ok();
    env
}

const NESTED: [&str; 3] = [".vscode/tasks.json", ".claude/settings.json", "tools/.envrc"];

/// FS-7: what is protected does not stand in the way of moving code.
#[test]
fn refactoring_works_around_what_is_protected() {
    for (what, script, place) in [
        (
            "a file moves to another package",
            "git mv packages/a/src/main.txt packages/b/src/moved.txt",
            "packages/a",
        ),
        ("a directory moves to another package", "git mv packages/a/src packages/b/sources", "packages/a"),
        (
            "a directory that holds a protected path",
            "git mv packages/a/tools packages/b/tools && mv packages/b/tools packages/a/tools",
            "packages/a",
        ),
        ("a package gets another name", "git mv packages/a packages/c", "packages/c"),
        ("a package moves into another", "git mv packages/a packages/b/a", "packages/b/a"),
        ("all packages move", "git mv packages libs", "libs/a"),
        ("there and back", "git mv packages/a packages/c && git mv packages/c packages/a", "packages/a"),
        ("without git", "mv packages/a x && mkdir -p deep/er && mv x deep/er/a", "deep/er/a"),
    ] {
        let control = packages();
        control.outside(script).ok();
        let env = packages();
        let output = run_inside(
            &env,
            &[],
            &format!("set -e; {script}; git status --short > /dev/null; git commit -q -a -m moved || true"),
        );
        output.ok();
        for name in NESTED {
            assert_eq!(
                read(&env, &format!("{place}/{name}")).as_deref(),
                Some("mine\n"),
                "{what}: {name}: {output:#?}"
            );
        }
        assert_eq!(
            read(&env, &format!("{place}/.env")).as_deref(),
            Some("SECRET=mine\n"),
            "{what}: {output:#?}"
        );
        assert_eq!(listed(&env), "", "{what}: {output:#?}");
        let write = NESTED.map(|name| format!("echo x >> {place}/{name}")).join(" || ");
        let still = run_inside(&env, &[], &write);
        assert!(!still.success(), "{what}: it is protected under its new name: {still:#?}");
    }
}

/// After a SIGKILL of the supervisor the next launch knows what was renamed inside.
#[test]
fn after_a_kill_what_was_renamed_is_the_users_and_what_stands_in_its_place_is_not() {
    let plant = "mv packages/a packages/c && mkdir -p packages/a/.vscode packages/a/tools";
    let env = packages();
    let mut running = env.jail_waiting(&[], plant, "");
    running.kill();
    drop(running);
    // By another hand, so that nobody takes them away before the next launch.
    env.file("packages/a/.vscode/tasks.json", "planted\n");
    env.file("packages/a/tools/.envrc", "planted\n");
    let output = env.jail(["--", "true"]);
    output.ok();
    for name in NESTED {
        assert_eq!(
            read(&env, &format!("packages/c/{name}")).as_deref(),
            Some("mine\n"),
            "{name}: {output:#?}"
        );
    }
    for name in ["packages/a/.vscode/tasks.json", "packages/a/tools/.envrc"] {
        assert_eq!(read(&env, name), None, "{name}: {output:#?}");
    }
    assert!(output.stderr.contains("held back"), "{output:#?}");
}

/// What a killed session left is said when it is held back, whatever becomes of the launch that does it, and once.
#[test]
fn what_is_held_back_after_a_kill_is_said_also_when_the_launch_fails() {
    for config in ["nonsense = 1\n", ""] {
        let env = TestEnv::new();
        let mut running = env.jail_waiting(&[], "true", "");
        running.kill();
        drop(running);
        env.file(".envrc", "planted\n");
        env.config(config);
        let output = env.jail(["--", "true"]);
        assert_eq!(output.success(), config.is_empty(), "{output:#?}");
        assert_eq!(output.stderr.matches("held back").count(), 1, "{output:#?}");
        assert_eq!(read(&env, ".envrc"), None, "{output:#?}");
    }
}

/// A launch that fails when its guard has begun ran nothing: what the user makes then is the user's.
#[test]
fn after_a_launch_that_failed_nothing_of_the_users_is_held_back() {
    let env = TestEnv::new();
    env.config("[log]\nrequired = true\n");
    let state = env.home().join(".local/state/ai-jail");
    let log = env.file(state.join("log"), "in the way of the logs\n");
    let failed = env.jail(["--", "true"]);
    assert!(!failed.success() && failed.stderr.contains("log.required"), "{failed:#?}");
    std::fs::remove_file(log).unwrap();
    let records = std::fs::read_dir(state.join("sessions")).unwrap().count();
    env.file(".envrc", "mine\n");
    let output = env.jail(["--", "true"]);
    output.ok();
    assert_eq!(read(&env, ".envrc").as_deref(), Some("mine\n"), "{output:#?}");
    assert_eq!((records, listed(&env).as_str()), (0, ""), "{output:#?}");
}

/// With fewer descriptors than protected paths.
#[test]
fn many_protected_paths_are_followed_with_few_descriptors() {
    const MANY: usize = 1500;
    let env = TestEnv::new();
    let make =
        format!("i=0; while [ $i -lt {MANY} ]; do mkdir -p d/$i; echo mine > d/$i/.envrc; i=$((i+1)); done");
    env.outside(&make).ok();
    let script = "mv d e && mkdir -p d/7 && echo planted > d/7/.envrc; true";
    let mut launcher = env.command("sh");
    launcher.args([
        "-c",
        "ulimit -Sn 1024; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_ai-jail"),
        "--",
        "sh",
        "-c",
        script,
    ]);
    let output = output_of(&mut launcher, 2 * DEADLINE);
    output.ok();
    let count = env.outside("cat e/*/.envrc | sort | uniq -c | tr -s ' '; find d -name .envrc");
    assert_eq!(count.ok(), format!(" {MANY} mine\n"), "{output:#?}");
}

/// The guard of a running jail would take again what is brought back.
#[test]
fn nothing_is_brought_back_while_a_jail_runs_there() {
    let env = TestEnv::new();
    run_inside(&env, &[], "echo planted > .envrc").ok();
    let session = session(&env);
    let running = env.jail_waiting(&[], "", "");
    let refused = env.jail(["quarantine", "restore", &session]);
    assert!(refused.refused().contains("runs there"), "{refused:#?}");
    env.let_go(running).ok();
    env.jail(["quarantine", "restore", &session]).ok();
    assert_eq!(read(&env, ".envrc").as_deref(), Some("planted\n"));
    let output = env.jail(["--", "true"]);
    output.ok();
    assert_eq!(read(&env, ".envrc").as_deref(), Some("planted\n"), "it stays: {output:#?}");
}

/// What a killed session left is swept before anything is brought back, else the next launch would take both.
#[test]
fn what_is_brought_back_after_a_kill_stays() {
    let env = TestEnv::new();
    let mut running = env.jail_waiting(&[], "echo planted > .envrc", "");
    assert!(eventually(SOON, || !listed(&env).is_empty()), "it is taken while the jail runs");
    running.kill();
    drop(running);
    let session = session(&env);
    assert!(eventually(SOON, || env.jail(["quarantine", "restore", &session]).success()));
    env.jail(["--", "true"]).ok();
    assert_eq!(read(&env, ".envrc").as_deref(), Some("planted\n"));
}

/// What is too large for another file system stays, is said, and is said again by the next launch until it is dealt with.
#[test]
fn what_was_left_in_its_place_is_said_at_every_launch_until_it_is_changed() {
    let Ok(state) = tempfile::Builder::new().prefix("ai-jail-test-").tempdir_in("/dev/shm") else {
        missing(
            Feature::Kernel("shm"),
            "a thing that is too large to be copied",
            "/dev/shm cannot be written",
        );
        return;
    };
    let env = TestEnv::new().var("XDG_STATE_HOME", state.path());
    if env.outside("test \"$(stat -c %d .)\" != \"$(stat -c %d \"$XDG_STATE_HOME\")\"").code() != 0 {
        missing(Feature::Kernel("shm"), "a thing that is too large to be copied", "it is one file system");
        return;
    }
    let said = |output: &Output| output.stderr.contains(".envrc") && output.stderr.contains("too large");
    let first = run_inside(
        &env,
        &[],
        "truncate -s 300M big; chmod +x big; mv big .envrc; mkdir v; echo x > v/tasks.json; mv v .vscode; true",
    );
    assert!(said(&first), "{first:#?}");
    assert!(read(&env, ".vscode/tasks.json").is_none(), "what is small is copied, then removed: {first:#?}");
    assert_eq!(env.outside("test -x .envrc").code(), 1, "it lost its executable bit");
    for _ in 0..2 {
        let next = env.jail(["--", "true"]);
        assert!(said(&next), "{next:#?}");
        assert!(!run_inside(&env, &[], "echo x >> .envrc").success(), "it is read-only now");
    }
    env.outside("rm .envrc && echo mine > .envrc").ok();
    let last = env.jail(["--", "true"]);
    assert!(!said(&last), "{last:#?}");
    let restored = env.jail(["quarantine", "restore", &session(&env)]);
    restored.ok();
    assert_eq!(read(&env, ".vscode/tasks.json").as_deref(), Some("x\n"), "and back again");
}

/// Closed directories in what was held back.
#[test]
fn what_was_closed_can_be_removed_from_the_quarantine() {
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "closed directories in the quarantine", "root may remove them anyway");
        return;
    };
    let closed = "mkdir -p v/a/b && echo x > v/a/b/f && chmod 555 v/a/b v/a v";
    env.outside(&format!("{closed}; ! rm -rf v 2>/dev/null && chmod -R u+w v && rm -rf v")).ok();
    run_inside(&env, &[], &format!("{closed}; mv v .vscode")).ok();
    let dropped = env.jail(["quarantine", "drop", &session(&env)]);
    dropped.ok();
    assert_eq!(listed(&env), "");
}

/// Two things of one name in one session: nothing is overwritten, on the way there and back.
#[test]
fn the_quarantine_overwrites_nothing_and_loses_nothing() {
    let env = TestEnv::new();
    let script = "for i in 1 2 3; do echo $i > .envrc; while [ -e .envrc ]; do sleep 0.01; done; done";
    run_inside(&env, &[], script).ok();
    let items: Vec<String> =
        listed(&env).lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    assert_eq!(items.len(), 3, "{items:?}");
    env.file(".envrc", "mine\n");
    let refused = env.jail(["quarantine", "restore", &items[0]]);
    assert!(refused.refused().contains("move what is there away"), "{refused:#?}");
    let mut texts = Vec::new();
    for item in &items {
        env.outside("mv .envrc old").ok();
        env.jail(["quarantine", "restore", item]).ok();
        texts.extend(read(&env, ".envrc"));
    }
    assert_eq!(texts, ["1\n", "2\n", "3\n"]);
}

/// Names with line ends, escape sequences and bytes that are no text.
#[test]
fn odd_names_are_shown_escaped_and_come_back() {
    for name in [&b"a\nb"[..], b"\x1b[31mred\x1b]0;title\x07", b"\xff\xfe", b"a b;c"] {
        let env = TestEnv::new();
        let directory = env.dir(std::ffi::OsStr::from_bytes(name));
        let file = directory.join(".envrc");
        run_inside(&env, &[], "for d in */; do echo planted > \"$d.envrc\"; done; true");
        let output = env.jail(["--", "true"]);
        assert!(!file.exists());
        let list = listed(&env);
        for text in [&output.stderr, &list] {
            assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
        }
        assert_eq!(list.lines().count(), 1, "{list:?}");
        env.jail(["quarantine", "restore", &session(&env)]).ok();
        assert!(file.exists(), "{list:?}");
    }
}

/// What the kernel lets a user watch is used up: it is said, and the sweep does the rest.
#[test]
fn without_watches_it_is_said_and_the_sweep_does_the_rest() {
    // In a namespace that an ordinary user makes no bwrap is root's.
    if !Feature::Root.needed_for("a limit of watches of its own") {
        return;
    }
    for (limit, says) in [
        ("max_inotify_watches", "more directories than can be watched"),
        ("max_inotify_instances", "cannot be watched"),
    ] {
        let env = TestEnv::new();
        env.outside("mkdir -p a/b c/d e/f").ok();
        let script = "mkdir -p a/b/.vscode e/f; echo x > a/b/.vscode/tasks.json; echo x > e/f/.envrc; echo x > .envrc; true";
        let limited = format!(
            "echo {} > /proc/sys/user/{limit} && exec \"$0\" \"$@\"",
            u8::from(limit.contains("watches"))
        );
        let mut launcher = env.command("unshare");
        launcher.args(["-Ur", "sh", "-c", &limited, env!("CARGO_BIN_EXE_ai-jail"), "--", "sh", "-c", script]);
        let output = output_of(&mut launcher, DEADLINE);
        if output.stderr.contains("unshare failed") || output.stderr.contains("max_inotify") {
            missing(Feature::UserNamespaces, "a limit of watches of its own", output.stderr.trim());
            return;
        }
        output.ok();
        assert!(output.stderr.contains(says), "{limit}: it is said: {output:#?}");
        assert!(output.stderr.contains("held back"), "{limit}: {output:#?}");
        assert_eq!(env.outside("find . -name .envrc -o -name .vscode").ok(), "", "{limit}: {output:#?}");
    }
}

/// The files of a project that cannot be written stay readable, and nothing is promised that does not hold.
#[test]
fn a_project_on_a_read_only_file_system_can_be_read() {
    if !Feature::Root.needed_for("a read-only file system") {
        return;
    }
    let env = TestEnv::new();
    env.file(".envrc", "mine\n");
    env.file("file", "text\n");
    env.outside("git init -q").ok();
    let mount = "mount --bind . . && mount -o remount,bind,ro . && cd . && cd \"$PWD\" && exec \"$0\" \"$@\"";
    let script = "cat file; echo x > file || echo refused; git status --short | sort";
    let mut launcher = env.command("unshare");
    launcher.args(["-Urm", "sh", "-c", mount, env!("CARGO_BIN_EXE_ai-jail"), "--", "sh", "-c", script]);
    let output = output_of(&mut launcher, DEADLINE);
    if output.stderr.contains("unshare") || output.stderr.contains("mount:") {
        missing(Feature::UserNamespaces, "a read-only file system", output.stderr.trim());
        return;
    }
    assert_eq!(output.ok(), "text\nrefused\n?? .envrc\n?? file\n", "{output:#?}");
}

/// M9: made before, it is held by both names; made meanwhile, the kernel refuses it.
#[test]
fn a_hard_link_of_a_protected_file_does_not_open_it() {
    let before = "ln .envrc copy; mkdir -p deep/er && ln .vscode/tasks.json deep/er/tasks && ln .git/hooks/post-commit hook";
    let prepared = || {
        let env = TestEnv::new();
        env.outside("git init -q").ok();
        env.file(".envrc", "mine\n");
        env.file(".vscode/tasks.json", "mine\n");
        env.file(".git/hooks/post-commit", "mine\n");
        env
    };
    let changed = |env: &TestEnv| {
        [".envrc", ".vscode/tasks.json", ".git/hooks/post-commit"]
            .into_iter()
            .filter(|name| read(env, name).as_deref() != Some("mine\n"))
            .collect::<Vec<_>>()
    };
    let write = "for f in copy deep/er/tasks hook; do echo planted >> $f; done; true";
    for (links_outside, script) in [(true, write.to_owned()), (false, format!("{before}; {write}"))] {
        let control = prepared();
        control.outside(&format!("{before} && {write}")).ok();
        assert_eq!(changed(&control).len(), 3, "control: they are one file");
        let env = prepared();
        if links_outside {
            env.outside(before).ok();
        }
        let output = run_inside(&env, &[], &script);
        assert_eq!(changed(&env), Vec::<&str>::new(), "{output:#?}");
    }
}

/// M11: the same files by another way.
#[test]
fn a_protected_file_is_protected_by_every_way_to_it() {
    let ways = [
        "echo planted >> \"/proc/self/root$PWD/.envrc\"",
        "echo planted >> /proc/self/cwd/.envrc",
        "exec 9< . ; echo planted >> /proc/self/fd/9/.envrc",
        "cd sub && echo planted >> ../.envrc",
        "ln -s .envrc link && echo planted >> link",
        "ln -s \"$PWD\" whole && echo planted >> whole/.envrc",
        "exec 9< .envrc; echo planted >> /proc/self/fd/9",
        "for p in /proc/[0-9]*; do [ \"$p/cwd/.\" -ef . ] && echo planted >> \"$p/cwd/.envrc\"; done 2>/dev/null",
    ];
    for way in ways {
        let prepared = || {
            let env = TestEnv::new();
            env.file(".envrc", "mine\n");
            env.dir("sub");
            env
        };
        let control = prepared();
        control.outside(way);
        assert!(read(&control, ".envrc").is_some_and(|text| text.contains("planted")), "control: {way}");
        let env = prepared();
        let output = run_inside(&env, &[], way);
        assert_eq!(read(&env, ".envrc").as_deref(), Some("mine\n"), "{way}: {output:#?}");
    }
}

/// A directory of credentials is no project, by its own name or by what it leads to, unless it is named.
#[test]
fn a_place_of_credentials_is_no_project() {
    let env = TestEnv::new();
    env.file(env.home().join(".ssh/id"), "key\n");
    env.file(env.root().join("elsewhere/credentials"), "key\n");
    std::os::unix::fs::symlink(env.root().join("elsewhere"), env.home().join(".aws")).expect("symlink");
    for place in [env.home().join(".ssh"), env.home().join(".aws"), env.root().join("elsewhere")] {
        let mut launcher = env.launcher(["--", "ls"]);
        let output = output_of(launcher.current_dir(&place), DEADLINE);
        assert!(output.refused().contains("place of credentials"), "{output:#?}");
        let named = env.jail(["--project", place.to_str().expect("UTF-8"), "--", "true"]);
        named.ok();
    }
}
