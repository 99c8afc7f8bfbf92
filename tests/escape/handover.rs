//! What a session leaves for other tools to run or obey is told when it ends (FS-14), and no mode or device node that
//! gives rights away stays (KERN-10).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::common::{Git, Output, TestEnv};

const SAID: &str = "look at what other tools run or obey";

fn said(output: &Output) -> &str {
    output.stderr.lines().find(|line| line.contains(SAID)).unwrap_or_default()
}

/// A repository with a file of each kind in it.
fn repository() -> TestEnv {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file("Makefile", "all:\n");
    env.file("build.rs", "fn main() {}\n");
    env.file("package.json", "{\"name\": \"x\", \"scripts\": {\"test\": \"true\"}}\n");
    env.file(".github/workflows/ci.yml", "on: push\n");
    env.file("CLAUDE.md", "# Notes\n");
    env.file("scripts/run.sh", "#!/bin/sh\n");
    env.file("templates/old.yml", "on: push\n");
    git.run(&["add", "."]).ok();
    git.run(&["commit", "-q", "-m", "all"]).ok();
    // What was written in the moment of a launch counts as new.
    std::thread::sleep(std::time::Duration::from_millis(50));
    env
}

/// An identity, and submodules that lie on this machine.
fn git_config(env: &TestEnv) {
    let text = "[user]\n\tname = x\n\temail = x@y\n[protocol \"file\"]\n\tallow = always\n";
    env.file(env.home().join(".gitconfig"), text);
}

#[test]
fn each_kind_is_told_by_its_name() {
    for (script, expected) in [
        ("echo x >> Makefile", "build scripts: Makefile"),
        ("echo x >> build.rs; touch -d 2001-01-01 build.rs", "build scripts: build.rs"),
        ("cp build.rs n && mv n build.rs", "build scripts: build.rs"),
        ("mkdir -p sub && echo x > sub/conftest.py", "build scripts: sub/conftest.py"),
        ("echo '{\"scripts\": {\"test\": \"evil\"}}' > package.json", "package scripts: package.json"),
        ("echo x >> .github/workflows/ci.yml", "CI workflows: .github/workflows/ci.yml"),
        ("echo x > .github/workflows/new.yml", "CI workflows: .github/workflows/new.yml"),
        (
            "rm -r .github/workflows && mv templates .github/workflows",
            "CI workflows: .github/workflows/old.yml",
        ),
        ("echo x > justfile", "task files: justfile"),
        ("echo x > vite.config.ts", "configurations that are programs: vite.config.ts"),
        ("echo x >> CLAUDE.md", "agents' instructions: CLAUDE.md"),
        ("mkdir docs && echo x > docs/AGENTS.md", "agents' instructions: docs/AGENTS.md"),
        ("git init -q new", "new repositories: new"),
        ("git worktree add -q linked 2>/dev/null", "new repositories: linked"),
        ("ln -s /etc link", "symlinks that lead out: link"),
        ("ln -s ../../../outside link", "symlinks that lead out: link"),
        ("ln -s /tmp/made-later link", "symlinks that lead out: link"),
        ("echo x > scripts/new && chmod +x scripts/new", "new programs: scripts/new"),
        ("for n in 1 2 3 4; do echo x > $n.mk; done", "build scripts: 1.mk and 3 more"),
    ] {
        let env = repository();
        let output = env.inside(script);
        output.ok();
        assert!(said(&output).contains(expected), "{script}: {output:#?}");
        let log = env.log();
        assert!(log.contains("\"hand-over\""), "{script}: {log}");
        // The next session does not tell it again.
        let next = env.inside("true");
        assert_eq!(said(&next), "", "{script}: {next:#?}");
    }
}

#[test]
fn what_nothing_runs_by_itself_is_not_told() {
    for script in [
        "true",
        "cat Makefile build.rs CLAUDE.md > /dev/null; git status; ls -lR > /dev/null",
        "echo x > notes.txt; echo x >> README.md; mkdir new; echo x > new/y",
        "sed -i 's/\"x\"/\"y\"/' package.json",
        "ln -s README.md link; mkdir s; ln -s ../README.md s/up",
        "mkdir -p target/debug && cp /bin/true target/debug/x && echo x > target/Makefile",
        "mkdir -p out && cp /bin/true out/x",
        "git checkout -q -b other",
    ] {
        let env = repository();
        let output = env.inside(script);
        output.ok();
        assert_eq!(said(&output), "", "{script}: {output:#?}");
    }
}

#[test]
fn everything_is_told_in_detail_when_asked_and_one_line_otherwise() {
    let env = repository();
    let script = "echo x >> Makefile; echo x > .github/workflows/a.yml; echo x > AGENTS.md; ln -s /etc e; git init -q n";
    let output = env.jail(["-v", "--", "sh", "-c", script]);
    for line in [
        "Makefile (build scripts)",
        "a.yml (CI workflows)",
        "AGENTS.md (agents' instructions)",
        "/e (symlinks",
    ] {
        assert!(output.stderr.contains(line), "{line}: {output:#?}");
    }
    assert_eq!(output.stderr.matches(SAID).count(), 1, "{output:#?}");
    let quiet = env.jail(["--no-summary", "--", "sh", "-c", "echo y >> Makefile"]);
    quiet.ok();
    assert_eq!(said(&quiet), "");
    assert_eq!(fs::read_to_string(env.project().join("Makefile")).expect("read"), "all:\nx\ny\n", "control");
}

#[test]
fn an_operation_of_git_that_would_run_commands_is_told_first() {
    let plant = "mkdir -p .git/rebase-merge && echo interactive > .git/rebase-merge/interactive && printf 'exec touch %s/planted\\n' \"$PWD\" > .git/rebase-merge/git-rebase-todo && git rev-parse HEAD > .git/rebase-merge/onto && cp .git/rebase-merge/onto .git/rebase-merge/orig-head && echo refs/heads/main > .git/rebase-merge/head-name && echo 1 > .git/rebase-merge/end && echo 0 > .git/rebase-merge/msgnum && : > .git/rebase-merge/done";
    let planted = |env: &TestEnv| env.project().join("planted").exists();
    let control = repository();
    control.outside(plant).ok();
    let _ = Git::new(&control).run(&["rebase", "--continue"]);
    assert!(planted(&control), "control: git runs it");

    let sequencer = "mkdir -p .git/sequencer && echo 'exec touch x' > .git/sequencer/todo";
    let real = "GIT_SEQUENCE_EDITOR='printf \"break\\nexec touch planted\\n\" >' git rebase -q -i HEAD~1";
    for script in [plant, sequencer, real] {
        let env = repository();
        let output = env.jail([
            "--env",
            "GIT_COMMITTER_NAME=x",
            "--env",
            "GIT_COMMITTER_EMAIL=x@y",
            "--",
            "sh",
            "-c",
            script,
        ]);
        output.ok();
        assert!(!planted(&env));
        let told = output.stderr.lines().find(|line| line.contains("runs a command when git goes on"));
        assert!(told.is_some_and(|line| line.contains("exec touch")), "{script}: {output:#?}");
        let next = env.inside("true");
        assert!(!next.stderr.contains("when git goes on"), "{script}: {next:#?}");
    }
}

#[test]
fn a_session_that_did_nothing_leaves_the_status_as_it_was() {
    let tree = |env: &TestEnv| {
        let listing = "find . -path ./.git -prune -o -printf '%p %M %s %T@ %l\\n' | sort";
        env.outside(listing).ok().to_owned()
    };
    let same = |env: &TestEnv, what: &str, state: &dyn Fn() -> String| {
        let before = state();
        for profile in ["workspace", "read-only", "strict", "lockdown"] {
            env.jail(["--profile", profile, "--", "true"]).ok();
            assert_eq!(state(), before, "{what}: {profile}");
        }
    };
    // Git comes last: it refreshes its index, which is not looked at.
    let repository_same =
        |env: &TestEnv, what: &str| same(env, what, &|| tree(env) + &Git::new(env).status());
    let env = repository();
    env.file(".env", "TOKEN=x\n");
    env.file("untracked", "x");
    env.file(".gitignore", "ignored\n");
    env.file("ignored", "x");
    repository_same(&env, "a repository");

    let env = TestEnv::new();
    env.file(".env", "TOKEN=x\n");
    same(&env, "no repository", &|| tree(&env));

    let env = TestEnv::with_project_name("linked");
    fs::remove_dir(env.project()).expect("an empty project");
    let main = env.dir(env.root().join("main"));
    let make = "git init -q -b main && echo x > x && git add x && git commit -q -m x";
    git_config(&env);
    env.shell_in(&main, &format!("{make} && git worktree add -q ../linked")).ok();
    env.file(".env", "TOKEN=x\n");
    repository_same(&env, "a worktree");

    let env = TestEnv::with_project_name("super/module");
    fs::remove_dir(env.project()).expect("an empty project");
    let (origin, outer) = (env.dir(env.root().join("origin")), env.root().join("super"));
    git_config(&env);
    env.shell_in(&origin, make).ok();
    let module =
        format!("{make} && git submodule --quiet add {} module && git commit -qm module", origin.display());
    env.shell_in(&outer, &module).ok();
    env.file(".env", "TOKEN=x\n");
    let outer_status = || env.shell_in(&outer, "git status --porcelain").ok().to_owned();
    let outer_before = outer_status();
    repository_same(&env, "a submodule");
    assert_eq!(outer_status(), outer_before, "of the outer repository");
}

#[test]
fn modes_that_give_rights_away_do_not_stay() {
    let mode = |env: &TestEnv, name: &str| {
        env.project().join(name).metadata().expect("it is there").permissions().mode() & 0o7777
    };
    let set = "cp /bin/true gid && chmod 2755 gid && mkdir -p node_modules/x dir && cp /bin/true node_modules/x/gid && chmod g+s node_modules/x/gid dir";
    let control = repository();
    control.outside(set).ok();
    assert_eq!((mode(&control, "gid"), mode(&control, "node_modules/x/gid")), (0o2755, 0o2755), "control");
    let env = repository();
    let output = env.inside(set);
    output.ok();
    assert_eq!((mode(&env, "gid"), mode(&env, "node_modules/x/gid")), (0o755, 0o755), "{output:#?}");
    assert_eq!(mode(&env, "dir") & 0o2000, 0o2000, "on a directory it is everyday");
    assert!(output.stderr.contains("took set-user-ID and set-group-ID from"), "{output:#?}");
    // The user's own stay.
    let env = repository();
    env.outside("cp /bin/true mine && chmod 6755 mine").ok();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let output = env.inside("echo x > new");
    assert_eq!(mode(&env, "mine"), 0o6755, "{output:#?}");
}
