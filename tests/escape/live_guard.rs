//! What happens to protected places while a jail runs: what appears goes at once, what is replaced outside is covered
//! again, and git goes on working.

use std::time::Duration;

use super::common::{DEADLINE, Feature, Git, TestEnv, eventually, missing};

/// How long the guard may take. It needs milliseconds; machines that test are loaded.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn what_makes_a_directory_and_fills_it_does_not_fail_and_leaves_nothing() {
    let env = TestEnv::new();
    let git = Git::new(&env);
    let _ = git.init();
    env.file(".vscode/settings.json", "{}");
    env.file(".husky/pre-commit", "true");
    env.file("zz", "last");
    env.outside("git add -A && git -c user.name=t -c user.email=t@e commit -qm all").ok();
    let script = "set -e; git worktree add -q wt HEAD; git clone -q . cl; mkdir t; git archive HEAD | tar x -C t; \
                  mkdir -p n/.vscode; echo x > n/.vscode/extensions.json";
    let running = env.jail_waiting(&[], script, "echo all-done");
    let places = ["wt/.vscode", "wt/.husky", "cl/.vscode", "cl/.husky", "t/.vscode", "t/.husky", "n/.vscode"];
    let left = || places.iter().filter(|place| env.project().join(place).exists()).collect::<Vec<_>>();
    assert!(eventually(SOON, || left().is_empty()), "there while the jail runs: {:?}", left());
    let inside = env.let_go(running);
    assert_eq!(inside.ok(), "all-done\n", "{inside:#?}");
    assert_eq!(left(), Vec::<&&str>::new(), "{inside:#?}");
    for made in ["wt/zz", "cl/zz", "t/zz"] {
        assert!(env.project().join(made).exists(), "{made}");
    }
    let listed = env.jail(["quarantine", "list"]);
    let held = listed.ok();
    for place in places {
        assert!(held.contains(&format!("/{place}")), "{place}: {held}");
    }
}

#[test]
fn a_directory_that_is_filled_without_an_end_is_gone_while_the_jail_runs() {
    let env = repository();
    // It ends when nothing can be put there any more, long before ten seconds have passed; more work takes no less time.
    let fill = "mkdir .vscode; i=0; while [ $i -lt 1000 ] && echo x > .vscode/$i; do i=$((i+1)); sleep 0.01; done; \
                echo $i; ls .vscode; true";
    let output = env.inside(fill);
    let count: u32 = output.ok().trim().parse().unwrap_or_else(|_| panic!("it is there: {output:#?}"));
    assert!((1..1000).contains(&count), "{output:#?}");
    assert!(!env.project().join(".vscode").exists() && output.stderr.contains("held back"), "{output:#?}");
}

#[test]
fn what_appears_in_a_protected_place_is_gone_while_the_jail_runs() {
    let git = "mkdir -p evil && cp -r .git evil/g";
    let cases = [
        (".vscode/tasks.json", "mkdir .vscode && echo x > .vscode/tasks.json"),
        (".envrc", "echo x > .envrc"),
        ("sub/deeper/.envrc", "mkdir -p sub/deeper && echo x > sub/deeper/.envrc"),
        (".claude/settings.json", "mkdir .claude && echo x > .claude/settings.json"),
        (".claude/settings.json", "mkdir a && echo x > a/settings.json && mv a .claude"),
        (".envrc", "ln -s /tmp/x .envrc"),
        ("evil/.git", "echo 'gitdir: g' > evil/.git"),
        ("evil/.git", "ln -s g evil/.git"),
        (".git/commondir", "echo ../evil/g > .git/commondir"),
    ];
    for (name, script) in cases {
        let there = |env: &TestEnv| env.project().join(name).symlink_metadata().is_ok();
        let control = repository();
        control.outside(&format!("{git}; {script}")).ok();
        assert!(there(&control), "control: {script} makes it outside");

        let env = repository();
        let running = env.jail_waiting(&[], &format!("{git}; {script}; true"), "");
        assert!(eventually(SOON, || !there(&env)), "{script}: {name} is there while the jail runs");
        let output = env.let_go(running);
        assert!(output.stderr.contains("held back"), "{script}: {output:#?}");
        assert!(!there(&env), "{script}: {name} is there afterwards");
        let listed = env.jail(["quarantine", "list"]);
        assert_eq!(listed.ok().lines().count(), 1, "{script}: {listed:#?}");
    }
}

/// By an ordinary user, whom a mode keeps out.
#[test]
fn a_directory_that_was_closed_when_it_was_made_is_watched_from_when_it_is_open() {
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "closed directories", "root may look into them anyway");
        return;
    };
    let before = "mkdir -m 0 d && sleep 0.5 && chmod 755 d && sleep 0.5 && echo x > d/.envrc";
    let running = env.jail_waiting(&[], before, "");
    let is_gone = || env.project().join("d/.envrc").symlink_metadata().is_err();
    assert!(eventually(SOON, is_gone), "it is there while the jail runs");
    let output = env.let_go(running);
    assert!(output.stderr.contains("held back"), "{output:#?}");
}

#[test]
fn what_stands_in_the_place_of_a_renamed_directory_is_new_and_what_moved_with_it_stays() {
    let script = "mv sub moved && mkdir sub && echo evil > sub/.envrc";
    let prepared = || {
        let env = repository();
        env.file("sub/.envrc", "mine\n");
        env
    };
    let control = prepared();
    control.outside(script).ok();
    assert!(control.project().join("sub/.envrc").exists(), "control");

    let env = prepared();
    let running = env.jail_waiting(&[], script, "echo x >> moved/.envrc && exit 9; exit 0");
    let there = || env.project().join("sub/.envrc").exists();
    assert!(eventually(SOON, || !there()), "it is there while the jail runs");
    assert_eq!(env.let_go(running).code(), 0, "what moved can be written");
    assert!(!there());
    assert_eq!(std::fs::read_to_string(env.project().join("moved/.envrc")).expect("it stays"), "mine\n");
}

#[test]
fn what_is_moved_outside_stays_protected_and_what_takes_its_place_is_new() {
    let env = repository();
    env.file("sub/.envrc", "mine\n");
    let write = "mkdir sub; echo evil > sub/.envrc; : > made; while [ ! -e gone ]; do sleep 0.02; done";
    let after = format!("{write}; echo x >> moved/.envrc && exit 9; exit 0");
    let running = env.jail_waiting(&[], "", &after);
    env.outside("mv sub moved").ok();
    env.file("go", "");
    assert!(eventually(DEADLINE, || env.project().join("made").exists()), "the script goes on");
    let there = || env.project().join("sub/.envrc").exists();
    assert!(eventually(SOON, || !there()), "it is there while the jail runs");
    env.file("gone", "");
    let output = running.finish(DEADLINE);
    assert_eq!(output.code(), 0, "what moved can be written: {output:#?}");
    assert!(!there());
    assert_eq!(std::fs::read_to_string(env.project().join("moved/.envrc")).expect("it stays"), "mine\n");
}

#[test]
fn a_name_that_is_made_again_and_again_is_gone_in_the_end() {
    let env = repository();
    let script = "i=0; while [ $i -lt 400 ]; do echo $i > .envrc; i=$((i+1)); sleep 0.002; done; true";
    let output = env.inside(script);
    output.ok();
    assert!(!env.project().join(".envrc").exists());
    assert!(output.stderr.contains("held back"), "{output:#?}");
}

#[test]
fn a_protected_file_that_is_replaced_outside_is_covered_again() {
    let replaced = [
        ("git config", "git config user.name someone", ".git/config"),
        ("an editor", "echo '# new' > n && mv n .envrc", ".envrc"),
        ("the git directory", "cp -r .git n && mv .git old && mv n .git", ".git/config"),
        ("a directory", "mkdir n && mv .vscode old && mv n .vscode", ".vscode/tasks.json"),
    ];
    for (what, host, name) in replaced {
        let env = repository();
        env.file(".envrc", "# mine\n");
        env.file(".vscode/tasks.json", "{}\n");
        env.outside(&format!("echo '#' >> {name}")).ok();
        let write = format!("echo '#' >> {name}");
        let running = env.jail_waiting(&[], &format!("{write} && exit 9"), &until_refused(&write));
        env.outside(host).ok();
        let output = env.let_go(running);
        assert_eq!(output.code(), 0, "{what}: {name} can be written inside: {output:#?}");
    }
}

#[test]
fn a_loop_of_replacements_leaves_the_file_covered() {
    let env = repository();
    let running = env.jail_waiting(&[], "", &until_refused("echo '#' >> .git/config"));
    let script = "end=$(($(date +%s) + 2)); while [ $(date +%s) -le $end ]; do cp .git/config n; mv n .git/config; done";
    env.outside(script).ok();
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "{output:#?}");
}

#[test]
fn a_setting_that_runs_programs_and_came_meanwhile_is_the_first_thing_to_be_said() {
    let env = repository();
    let covered = format!("({}); status=$?; sleep 0.3; exit $status", until_refused(": >> .git/config"));
    let running = env.jail_waiting(&[], "echo x > .envrc", &covered);
    env.outside("git config user.name someone; git config core.fsmonitor true").ok();
    let output = env.let_go(running);
    output.ok();
    let line = output.stderr.lines().find(|line| line.contains(".git/config")).unwrap_or_default();
    assert!(line.contains("now says core.fsmonitor: look at it"), "{output:#?}");
    let first = output.stderr.find("core.fsmonitor").expect("said");
    assert!(output.stderr.find("held back").is_none_or(|other| first < other), "{output:#?}");

    let env = repository();
    let running = env.jail_waiting(&[], "", &covered);
    env.outside("git config user.name someone").ok();
    let output = env.let_go(running);
    output.ok();
    assert!(!output.stderr.contains("look at it"), "a harmless setting is nothing to look at: {output:#?}");
}

#[test]
fn git_works_inside_and_what_it_makes_stays() {
    let env = repository();
    let script = "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q new; (cd new && git config user.name me && echo x > f && git add f && git commit -q -m one)
        git clone -q new copy; git clone -q --bare new bare.git; git worktree add -q wt; (cd wt && git status)
        (cd copy && git pull -q && git log -1)";
    env.inside(script).ok();
    for there in
        ["new/.git/HEAD", "copy/.git/config", "bare.git/HEAD", "wt/.git", ".git/worktrees/wt/commondir"]
    {
        assert!(env.project().join(there).exists(), "{there} was taken away");
    }
}

#[test]
fn the_project_is_watched_in_every_profile_for_sockets_appear_in_each() {
    for profile in ["read-only", "lockdown", "workspace", "strict"] {
        let env = repository();
        let wait = "while [ ! -e go ]; do sleep 0.02; done";
        let running = env.jail_running(["--profile", profile, "--network", "off", "--", "sh", "-c", wait]);
        let watched = eventually(DEADLINE, || watches_of(running.pid()) > 0);
        assert!(watched, "{profile}");
        env.let_go(running).ok();
    }
}

/// A shell script that ends with 0 when `write` is refused, else after ten seconds or more with 1.
fn until_refused(write: &str) -> String {
    format!(
        "i=0; while [ $i -lt 500 ]; do ({write}) 2>/dev/null || exit 0; i=$((i+1)); sleep 0.02; done; exit 1"
    )
}

fn repository() -> TestEnv {
    let env = TestEnv::new();
    let _ = Git::new(&env).init();
    env
}

/// How many inotify watches a process has.
fn watches_of(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return 0 };
    let texts = entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("inotify")).count()).sum()
}

#[test]
fn a_mode_keeps_nothing_in_its_place() {
    let cases = [
        (".vscode/tasks.json", "mkdir v && echo x > v/tasks.json && chmod 555 v && mv v .vscode"),
        ("sub/.envrc", "mkdir sub && echo x > sub/.envrc && chmod 555 sub"),
        (
            "new/.git/hooks/pre-commit",
            "mkdir -p h && git init -q new && echo x > h/pre-commit && rm -rf new/.git/hooks && mv h new/.git/hooks && chmod 555 new/.git/hooks new/.git",
        ),
        (
            "new/.git/hooks/pre-commit",
            "git init -q new && mkdir -p new/.git/hooks && echo x > new/.git/hooks/pre-commit && chmod 311 new/.git/hooks new/.git new",
        ),
    ];
    for (name, script) in cases {
        let there = |env: &TestEnv| env.project().join(name).symlink_metadata().is_ok();
        let open = |env: &TestEnv| {
            env.outside("chmod -R u+rwx .").ok();
        };
        let control = repository();
        control.outside(script).ok();
        open(&control);
        assert!(there(&control), "control: {script} makes it outside");

        let env = repository();
        // What the guard takes away while the script goes on makes its later commands fail.
        let output = env.jail(["--", "sh", "-c", &format!("{script}; true")]);
        open(&env);
        assert!(!there(&env), "{script}: {name} is there afterwards: {output:#?}");
        assert!(output.stderr.contains("held back"), "{script}: {output:#?}");
    }
}

#[test]
fn a_file_that_an_editor_saved_with_a_backup_stays_the_users_and_protected() {
    let env = repository();
    env.file("sub/.envrc", "mine\n");
    let plant = "mv sub moved && mkdir sub && echo evil > sub/.envrc";
    let covered = until_refused(": >> sub/.envrc");
    let after = format!("({covered}) || exit 8; echo x >> sub/.envrc && exit 9; {plant}; exit 0");
    let running = env.jail_waiting(&[], "", &after);
    env.outside("mv sub/.envrc sub/.envrc~ && echo saved > sub/.envrc && rm sub/.envrc~").ok();
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "what was saved can be written: {output:#?}");
    let read = |name: &str| std::fs::read_to_string(env.project().join(name)).ok();
    assert_eq!(read("moved/.envrc").as_deref(), Some("saved\n"), "{output:#?}");
    assert_eq!(read("sub/.envrc"), None, "{output:#?}");
}
