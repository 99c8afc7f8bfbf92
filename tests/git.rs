//! Git inside the jail: everyday work goes on, and nothing of ours is left in the repository.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

mod common;

use common::{Git, Output, TestEnv};

/// Everyday commands, in order, in one repository: each must work inside.
const EVERYDAY: &[(&str, &str)] = &[
    ("status", "git status --short"),
    ("add", "echo new > added.txt && git add added.txt"),
    ("commit", "git commit -q -m second"),
    ("log", "git log --oneline | grep second"),
    ("diff", "echo more >> README.md && git diff | grep '^+more'"),
    ("commit of a change", "git commit -q -a -m third"),
    ("branch", "git branch topic && git branch --list topic | grep topic"),
    ("switch", "git switch -q topic"),
    ("commit on a branch", "echo topic > topic.txt && git add topic.txt && git commit -q -m topic"),
    ("switch back", "git switch -q main"),
    ("merge", "git merge -q --no-ff -m merged topic && test -f topic.txt"),
    (
        "a second branch",
        "git switch -q -c other HEAD~1 && echo o > o.txt && git add o.txt && git commit -q -m other",
    ),
    ("rebase", "git rebase -q main && git log --oneline | grep merged"),
    (
        "stash",
        "echo dirty >> README.md && git stash -q && git diff --quiet && git stash pop -q && ! git diff --quiet",
    ),
    ("restore", "git restore README.md && git diff --quiet"),
    ("tag", "git tag v1 && git tag --list | grep v1"),
    ("switch to main", "git switch -q main"),
    (
        "worktree",
        "git worktree add -q tree other && cd tree && echo w > w.txt && git add w.txt && git commit -q -m w",
    ),
    (
        "commit in that worktree",
        "cd tree && test -f o.txt && echo v > v.txt && git add v.txt && git commit -q -m v",
    ),
    (
        "a worktree of this session",
        "git worktree add -q gone HEAD && git worktree remove --force gone && ! test -e gone",
    ),
    ("gc", "git gc -q"),
    ("fsck", "git fsck --no-dangling"),
];

#[test]
fn everyday_commands_work_inside() {
    let control = TestEnv::new();
    Git::new(&control).init();
    let env = TestEnv::new();
    Git::new(&env).init();
    for (claim, script) in EVERYDAY {
        let output = control.outside(script);
        assert!(output.success(), "control: {claim} works outside: {output:#?}");
        let output = env.inside(script);
        assert!(output.success(), "{claim} works inside: {output:#?}");
    }
    let log = |env: &TestEnv| env.outside("git log --format='%s %an' --all | sort").ok().to_owned();
    assert_eq!(log(&env), log(&control), "the same history, by the same author");
}

#[test]
fn the_status_is_the_same_before_and_after() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file("untracked.txt", "mine");
    let tree = |env: &TestEnv| {
        env.outside("find . -path ./.git/index -prune -o -printf '%p %m %y %s %l\\n' | sort").ok().to_owned()
    };
    let (status, files) = (git.status(), tree(&env));
    for profile in ["workspace", "read-only", "strict", "lockdown"] {
        env.jail(["--profile", profile, "--", "true"]).ok();
        assert_eq!(git.status(), status, "{profile}: git sees no difference");
        assert_eq!(tree(&env), files, "{profile}: nothing was left in the project");
    }
}

#[test]
fn the_host_sees_no_difference_while_the_jail_runs() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file(".git/info/exclude", "go\n");
    let before = git.status();
    let jail = env.jail_waiting(&[], "", "rm go");
    assert_eq!(git.run(&["status", "--porcelain"]).ok(), before, "no mount point of ours shows on the host");
    env.let_go(jail).ok();
    assert_eq!(git.status(), "", "nor afterwards");
}

#[test]
fn a_linked_worktree_takes_a_commit() {
    let env = TestEnv::with_project_name("linked");
    let main = env.dir(env.root().join("main"));
    std::fs::remove_dir(env.project()).expect("an empty project");
    env.file(env.home().join(".gitconfig"), "[user]\n\tname = Test User\n\temail = test@example.com\n");
    let script = format!(
        "cd '{main}' && git init -q -b main && echo x > x && git add x && git commit -q -m first \
         && git worktree add -q -b linked '{linked}'",
        main = main.display(),
        linked = env.project().display(),
    );
    let setup = {
        let mut shell = env.command("sh");
        shell.args(["-c", &script]).current_dir(env.root());
        common::output_of(&mut shell, common::DEADLINE)
    };
    setup.ok();
    let work = "echo y > y && git add y && git commit -q -m inside && git status --porcelain";
    assert_eq!(env.inside(work).ok(), "");
    let log = Git::new(&env).run_in(&main, &["log", "--format=%s", "linked"]);
    assert!(log.ok().starts_with("inside\n"), "the main repository has the commit: {log:#?}");
    let plant = format!("echo x > '{}/.git/hooks/post-commit'", main.display());
    assert!(env.outside(&format!("{plant} && rm '{}/.git/hooks/post-commit'", main.display())).success());
    refused_by_file_system(&env.inside(&plant), "hooks of the common directory");
}

#[test]
fn what_writes_the_config_fails_in_gits_words() {
    for script in ["git remote add origin https://example.com/x.git", "git config --local core.pager evil"] {
        let control = TestEnv::new();
        Git::new(&control).init();
        control.outside(script).ok();
        let env = TestEnv::new();
        Git::new(&env).init();
        refused_by_file_system(&env.inside(script), script);
    }
}

#[test]
fn a_repository_that_points_elsewhere_is_not_mounted() {
    let env = TestEnv::new();
    let victim = env.dir(env.root().join("victim"));
    Git::new(&env).run_in(&victim, &["init", "-q"]).ok();
    env.file(victim.join(".git/secret"), "secret of another repository");
    env.file(".git", format!("gitdir: {}/.git\n", victim.display()));
    let read = format!("cat '{}/.git/secret'", victim.display());
    assert_eq!(env.outside(&read).ok(), "secret of another repository");
    let output = env.inside(&read);
    assert!(!output.success(), "a repository must not choose what is mounted: {output:#?}");
}

#[test]
fn what_the_jail_sets_for_git_beats_the_repositorys_own() {
    let settings = [
        ("branch.autoSetupMerge", "always", "false"),
        ("push.default", "matching", "current"),
        ("commit.gpgsign", "true", "false"),
        ("tag.gpgsign", "true", "false"),
    ];
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    for (name, own, jails) in settings {
        git.run(&["config", name, own]).ok();
        let read = format!("git config {name}");
        assert_eq!(env.outside(&read).ok().trim(), own, "control: {name}");
        assert_eq!(env.inside(&read).ok().trim(), jails, "{name}");
    }
    assert_eq!(env.inside("echo $GIT_CONFIG_COUNT").ok().trim(), settings.len().to_string());
}

#[test]
fn a_repository_that_is_granted_is_pushed_to_and_fetched_from() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    let remote = env.dir(env.root().join("remote.git"));
    let remote = remote.to_str().expect("UTF-8");
    git.run(&["init", "-q", "--bare", remote]).ok();
    git.run(&["remote", "add", "origin", remote]).ok();
    let push = "echo i > i && git add i && git commit -q -m inside && git push -q origin main";
    assert!(!env.inside(push).success(), "it is not there when it is not granted");
    let log = |directory: &str, of: &str| {
        git.run_in(directory.as_ref(), &["log", "-1", "--format=%s", of]).ok().trim().to_owned()
    };
    env.jail(["--rw", remote, "--", "git", "push", "-q", "origin", "main"]).ok();
    assert_eq!(log(remote, "main"), "inside");

    let second = env.root().join("second");
    let second = second.to_str().expect("UTF-8");
    git.run(&["clone", "-q", remote, second]).ok();
    git.run_in(second.as_ref(), &["commit", "-q", "--allow-empty", "-m", "outside"]).ok();
    git.run_in(second.as_ref(), &["push", "-q", "origin", "HEAD:main"]).ok();
    let fetch = "git fetch -q origin && git log -1 --format=%s origin/main";
    assert_eq!(env.jail(["--ro", remote, "--", "sh", "-c", fetch]).ok(), "outside\n");
}

#[test]
fn objects_that_another_repository_lends_are_not_followed() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    let other = env.dir(env.root().join("other"));
    git.run_in(&other, &["init", "-q"]).ok();
    env.file(other.join("secret"), "secret of another repository\n");
    let object = git.run_in(&other, &["hash-object", "-w", "secret"]).ok().trim().to_owned();
    let objects = other.join(".git/objects");
    env.file(".git/objects/info/alternates", format!("{}\n", objects.display()));
    let read = format!("git cat-file -p {object}");
    assert_eq!(env.outside(&read).ok(), "secret of another repository\n", "control");
    let inside = env.inside(&format!("git log -1 --format=%s && ! {read} && ! ls '{}'", objects.display()));
    assert_eq!(inside.ok(), "first\n", "{inside:#?}");
}

#[track_caller]
fn refused_by_file_system(output: &Output, claim: &str) {
    assert!(!output.success(), "{claim}: must fail inside: {output:#?}");
    assert_ne!(output.code(), 125, "{claim}: the jail itself starts: {output:#?}");
}
