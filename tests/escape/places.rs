//! Places that are reached in unusual ways, places that change while jails start, and what is done with a project outside.

use std::time::Duration;

use super::common::{DEADLINE, Feature, Git, TestEnv, missing, output_of};
use super::run_inside;

/// M18: a jail starts while another one swaps the directories of the project for symlinks; the script has its control.
#[test]
fn jails_that_start_while_another_swaps_directories_for_symlinks_reach_nothing() {
    if !Feature::Program("python3").needed_for("swapped directories") {
        return;
    }
    let env = TestEnv::new();
    // Compiled in: whoever runs the tests need not be able to read the sources.
    let script = env.file(env.root().join("stress-swap"), include_str!("../../scripts/stress-swap"));
    let mut stress = env.command("python3");
    stress.arg(script).args(["--launches", "20", "--binary", env!("CARGO_BIN_EXE_ai-jail")]);
    let output = output_of(&mut stress, Duration::from_secs(240));
    assert!(output.ok().contains("the tree beside is as it was"), "{output:#?}");
}

/// M2: a destination behind a symlink, absolute or relative, and a parent that can only be passed through.
#[test]
fn grants_behind_symlinks_and_narrow_parents_are_no_obstacle() {
    for (link, target) in [("absolute", "/real/data"), ("relative", "real/data"), ("up", "../real/data")] {
        let env = TestEnv::new();
        let root = env.root().to_owned();
        env.file(root.join("real/data/file"), "granted\n");
        env.dir(root.join("links"));
        let (place, target) = match link {
            "absolute" => (root.join("links/absolute"), root.join(&target[1..])),
            "relative" => (root.join("relative"), target.into()),
            _ => (root.join("links/up"), target.into()),
        };
        std::os::unix::fs::symlink(target, &place).expect("symlink");
        output_of(env.command("chmod").arg("0711").arg(root.join("real")), DEADLINE).ok();
        let place = place.to_str().expect("UTF-8");
        for flag in ["--ro", "--rw"] {
            let read = format!("cat '{}'", root.join("real/data/file").display());
            assert_eq!(run_inside(&env, &[flag, place], &read).ok(), "begun\ngranted\n", "{link} {flag}");
        }
    }
}

/// M15: nobody may write beside the project, and it is no repository.
#[test]
fn a_project_in_a_directory_that_cannot_be_written_works() {
    let Some(env) = TestEnv::ordinary() else {
        missing(Feature::OrdinaryUser, "a parent that cannot be written", "root may write everywhere");
        return;
    };
    let project = env.dir(env.root().join("closed/project"));
    let chmod = |mode: &str| {
        output_of(env.command("chmod").arg(mode).arg(env.root().join("closed")), DEADLINE).ok();
    };
    chmod("0555");
    let outside = format!("touch '{}/beside'", env.root().join("closed").display());
    assert!(!env.outside(&outside).success(), "control");
    let mut launcher = env.launcher(["--", "sh", "-c", "echo x > made && mkdir .vscode && cat made"]);
    let output = output_of(launcher.current_dir(&project), DEADLINE);
    let left: Vec<_> =
        std::fs::read_dir(&project).expect("the project").flatten().map(|e| e.file_name()).collect();
    chmod("0755");
    assert_eq!(output.ok(), "x\n");
    assert_eq!(left, ["made"], "{output:#?}");
}

/// FS-17: git runs what a repository's settings name, so nothing of ours starts it, nor anything else, outside.
#[test]
fn no_program_is_run_on_the_project_outside() {
    let tools = ["git", "npm", "node", "sh", "bash", "env", "find", "python3", "ssh", "gpg", "cargo", "make"];
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    let fired = env.root().join("fired");
    let fire = env.script(env.root().join("fire"), &format!("echo \"$0 $*\" >> '{}'", fired.display()));
    for tool in tools {
        env.script(
            env.root().join("tools").join(tool),
            &format!("echo \"$0 $*\" >> '{}'; exit 1", fired.display()),
        );
    }
    for key in ["core.fsmonitor", "core.pager", "diff.external", "filter.x.clean", "filter.x.smudge"] {
        git.run(&["config", key, fire.to_str().expect("UTF-8")]).ok();
    }
    env.file(".gitattributes", "* filter=x\n");
    env.script(".git/hooks/post-checkout", &format!("echo hook >> '{}'", fired.display()));
    env.file("README.md", "changed\n");
    // Started by absolute path, so that the shell of the test is not among the tools.
    let path = format!("{}:/usr/bin:/bin", env.root().join("tools").display());
    let run = |args: &[&str]| {
        let mut launcher = env.launcher(args);
        output_of(launcher.env("PATH", &path), DEADLINE)
    };
    for args in [
        &["--", "/bin/true"][..],
        &["--dry-run", "--", "/bin/true"],
        &["explain", "README.md", "--", "/bin/true"],
        &["quarantine", "list"],
        // Something to hold back, and a repository to judge.
        &[
            "--",
            "/bin/dash",
            "-c",
            ": > .envrc; /bin/mkdir -p n/.git/hooks; : > n/.git/HEAD; : > n/.git/hooks/x",
        ],
    ] {
        let output = run(args);
        assert_ne!(output.code(), 125, "{args:?}: {output:#?}");
        let text = std::fs::read_to_string(&fired).unwrap_or_default();
        assert_eq!(text, "", "{args:?} started something outside: {output:#?}");
    }
    // The control: it fires as soon as git is asked.
    git.run(&["status"]);
    assert!(fired.exists(), "control: git runs what the settings name");
}

/// FS-18: the agent is told what is protected and that it is inside; a jail in a jail says so at once.
#[test]
fn the_agent_is_told_where_it_is() {
    let env = TestEnv::new();
    env.file(".envrc", "x\n");
    let about = run_inside(&env, &[], "echo $AI_JAIL; cat /run/ai-jail/about");
    let about = about.ok();
    for expected in
        ["begun\n1\n", ".envrc\n", "read-only in the project", "moved away", "--allow-host", "--env NAME"]
    {
        assert!(about.contains(expected), "{expected}: {about}");
    }
    let copy = env.project().join("nested");
    output_of(env.command("cp").arg(env!("CARGO_BIN_EXE_ai-jail")).arg(&copy), DEADLINE).ok();
    let nested = run_inside(&env, &[], "./nested -- true; echo $?");
    assert!(
        nested.ok().ends_with("125\n") && nested.stderr.contains("the inside of an ai-jail already"),
        "{nested:#?}"
    );
}
