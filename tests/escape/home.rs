//! The private home: where tools keep downloads and installs, its two names, and what is found on PATH.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::common::{DEADLINE, Feature, Output, SYSTEM_PATH, TestEnv, eventually, missing, on_path, text};

fn run(env: &TestEnv, project: &Path, script: &str) -> Output {
    let begun = format!("echo begun; {script}; true");
    let output = env.jail(["--project", text(project), "--", "sh", "-c", &begun]);
    assert!(output.stdout.starts_with("begun"), "the jail did not start: {output:#?}");
    output
}

#[test]
fn caches_are_kept_and_shared_between_projects_only_when_the_user_says_so() {
    let write = "for d in .npm/_cacache .cache/pip .cargo/registry go/pkg .cache/uv; do mkdir -p ~/$d; echo mine > ~/$d/x; done";
    let read = "cat ~/.npm/_cacache/x ~/.cache/pip/x ~/.cargo/registry/x ~/go/pkg/x ~/.cache/uv/x";
    let kept = format!("begun\n{}", "mine\n".repeat(5));
    for (mode, other) in [("project", "begun\n"), ("shared", kept.as_str())] {
        let env = TestEnv::new();
        let second = env.dir(env.root().join("second"));
        env.config(&format!("[home]\ncaches = \"{mode}\"\n"));
        run(&env, &env.project(), write);
        assert_eq!(run(&env, &env.project(), read).stdout, kept, "{mode}: they are kept");
        assert_eq!(run(&env, &second, read).stdout, other, "{mode}: another project");
        let outside = env.outside("cd; ls -d .npm .cargo go .cache 2>/dev/null; true");
        assert_eq!(outside.stdout, "", "{mode}: nothing is made in the real home");
    }
    let env = TestEnv::new();
    let second = env.dir(env.root().join("second"));
    env.file(".ai-jail.toml", "[home]\ncaches = \"shared\"\n");
    env.file(second.join(".ai-jail.toml"), "[home]\ncaches = \"shared\"\n");
    let output = run(&env, &env.project(), write);
    assert!(output.stderr.contains("home.caches"), "a project cannot choose that: {output:#?}");
    assert_eq!(run(&env, &second, read).stdout, "begun\n");
}

#[test]
fn a_project_in_the_home_needs_no_mount_points_and_nothing_is_left_in_it() {
    let env = TestEnv::new();
    let home = env.home();
    env.file(home.join(".pip/pip.conf"), "[global]\nindex-url = https://r.example/\n");
    env.file(env.root().join("cargo/config.toml"), "[net]\nretry = 3\n");
    env.script(env.root().join("bin/opencode"), "echo begun");
    env.file(home.join("own/ai-jail/config.toml"), "[home]\ncaches = \"shared\"\n");
    let (cargo, path) =
        (env.root().join("cargo"), format!("{}:{SYSTEM_PATH}", env.root().join("bin").display()));
    let env = env.var("CARGO_HOME", &cargo).var("XDG_CONFIG_HOME", home.join("own")).path(&path);
    for below in [".config", ".cache", ".cargo", ".npm", "go", ".local/share", ".local"] {
        let project = env.dir(home.join(below));
        let list = || env.shell_in(&project, "find . -not -path '*ai-jail*' | sort").stdout;
        let before = list();
        run(&env, &project, "true");
        let agent = env.jail(["--project", text(&project), "opencode"]);
        assert_eq!(agent.stdout, "begun\n", "{below}: {agent:#?}");
        assert_eq!(list(), before, "{below}");
    }
}

#[test]
fn what_a_mount_in_the_home_needed_is_gone_with_it_and_not_taken_from_another_jail() {
    let env = TestEnv::new().var("TOKEN", "x");
    let home = env.home();
    let secret = env.file(home.join("keys/deep/token"), "ghp_R3aLvAlUe0123456789ABCdefghijklmnop");
    let granted = env.file(home.join("notes/file"), "granted\n");
    let bound = format!("{}=api.example.com", secret.display());
    let flags = ["--secret-file", &bound, "--ro", text(&granted), "--allow-host", "api.example.com", "--"];
    let read = "test -s ~/keys/deep/token && cat ~/notes/file";
    let with = |script: &str| env.jail(flags.iter().copied().chain(["sh", "-c", script]));
    let left = || env.inside("cd; find keys notes 2>/dev/null; true").ok().to_owned();
    assert_eq!(with(read).ok(), "granted\n");
    assert_eq!(left(), "");
    // While another jail has it nothing is taken away.
    let first = env.jail_running(flags.iter().copied().chain([
        "sh",
        "-c",
        "until test -e stop; do sleep 0.05; done; cat ~/notes/file; test -s ~/keys/deep/token",
    ]));
    assert!(eventually(DEADLINE, || env.inside("cd; find notes -type f").stdout.contains("notes/file")));
    assert_eq!(with(read).ok(), "granted\n");
    env.file("stop", "");
    assert_eq!(first.finish(DEADLINE).ok(), "granted\n");
    assert_eq!(left(), "");
    // What a killed one left goes with the next one.
    let mut killed = env.jail_running(flags.iter().copied().chain(["sh", "-c", "echo up; sleep 60"]));
    assert_eq!(killed.line().trim_end(), "up");
    killed.kill();
    assert_eq!(with(read).ok(), "granted\n");
    assert_eq!(left(), "");
    // What the command put beside it is its own.
    with("echo mine > ~/keys/deep/own").ok();
    assert_eq!(left(), "keys\nkeys/deep\nkeys/deep/own\n");
}

/// What the README says of `~/.git-credentials`.
#[test]
fn git_reads_a_store_of_credentials_with_fakes() {
    let readme = include_str!("../../README.md").replace('\n', " ");
    let way = readme.split_once("credential.helper='").expect("the README says how").1;
    let helper = format!("credential.helper={}", way.split_once('\'').expect("a quote").0);
    let password = "ghp_R3aLvAlUe0123456789ABCdefghijklmnop";
    let env = TestEnv::new();
    env.file(env.home().join(".git-credentials"), format!("https://me:{password}@git.example.com\n"));
    env.config(
        "[network]\nallow = [\"git.example.com\"]\n[[secrets.files]]\npath = \"~/.git-credentials\"\n\
         hosts = [\"git.example.com\"]\nextract = '://[^:@/]*:([^@/]+)@'\n",
    );
    let ask = |verb: &str, helper: &str| {
        let script = format!(
            "printf 'protocol=https\\nhost=git.example.com\\nusername=me\\npassword=%s\\n\\n' \"$P\" | \
             git -c '{helper}' credential {verb}"
        );
        env.jail([
            "--env",
            "P=x",
            "--",
            "sh",
            "-c",
            &script.replace(if verb == "fill" { "password=%s\\n" } else { "\0" }, ""),
        ])
    };
    let filled = ask("fill", &helper);
    assert!(filled.ok().contains("password=ghp_") && !filled.stdout.contains(password), "{filled:#?}");
    let approved = ask("approve", &helper);
    assert!(!approved.stderr.contains("fatal"), "{approved:#?}");
    let stored = ask("approve", "credential.helper=store");
    assert!(stored.stderr.contains("unable to write credential store"), "control: {stored:#?}");
}

#[test]
fn a_cache_lies_in_the_toolchain_that_is_shown_only_as_it_is() {
    let env = TestEnv::new();
    env.file(env.home().join(".local/share/pnpm/pnpm"), "x");
    env.config("[home]\ncaches = \"shared\"\n");
    let output = run(&env, &env.project(), "cat ~/.local/share/pnpm/pnpm; ls ~/.local/share/pnpm");
    assert_eq!(output.stdout, "begun\nxpnpm\n", "{output:#?}");
}

#[test]
fn npm_keeps_downloads_and_global_installs_in_the_private_home() {
    let claim = "npm in the private home";
    if on_path("npm").is_none() {
        return missing(Feature::Program("npm"), claim, "it is not installed");
    }
    let env = TestEnv::new();
    let second = env.dir(env.root().join("second"));
    env.script("tool/main.js", "echo runs");
    env.file("tool/package.json", r#"{"name": "tool", "version": "1.0.0", "bin": {"own-tool": "main.js"}}"#);
    // A package of the project's own, packed: no registry is asked, and the tarball goes through the cache.
    let install = "cd /tmp && npm pack -s $OLDPWD/tool >&2 && npm install -g --offline ./tool-1.0.0.tgz >&2 && own-tool && ls ~/.npm";
    let output = run(&env, &env.project(), install);
    assert!(output.stdout.starts_with("begun\nruns\n_cacache"), "{output:#?}");
    let again = run(&env, &env.project(), "own-tool");
    assert_eq!(again.stdout, "begun\nruns\n", "{again:#?}");
    let other = run(&env, &second, "own-tool; ls -A ~/.npm");
    assert_eq!(other.stdout, "begun\n", "{other:#?}");
    assert!(!env.home().join(".npm").exists(), "nothing in the real home");
}

#[test]
fn installs_go_to_the_private_home_where_the_tools_own_place_is_the_hosts() {
    let names = ["CARGO_INSTALL_ROOT", "GOBIN", "UV_TOOL_BIN_DIR", "BUN_INSTALL_BIN", "DENO_INSTALL_ROOT"];
    let show = names.map(|name| format!("echo {name}=${name}")).join("; ");
    let env = TestEnv::new();
    let output = run(&env, &env.project(), &show);
    let unset: String = names.iter().map(|name| format!("{name}=\n")).collect();
    assert_eq!(output.stdout, format!("begun\n{unset}"), "the places of the private home do: {output:#?}");

    for place in [".cargo/bin", "go/bin", ".local/bin", ".bun/bin", ".deno/bin"] {
        env.script(env.home().join(place).join("known"), "true");
    }
    env.file(env.home().join(".bun/bin/bun"), "");
    env.file(env.home().join(".deno/bin/deno"), "");
    let script = format!(
        "{show}; for d in .cargo/bin go/bin .local/bin; do echo PLANTED > ~/$d/known; echo PLANTED > ~/$d/new; done; \
         printf '#!/bin/sh\necho mine\n' > ~/.local/jail/bin/own; chmod +x ~/.local/jail/bin/own; own; echo $PATH"
    );
    let output = run(&env, &env.project(), &script);
    let home = env.home();
    let home = text(&home);
    for (name, value) in names.iter().zip([
        ".local/jail",
        ".local/jail/bin",
        ".local/jail/bin",
        ".local/jail/bin",
        ".local/jail",
    ]) {
        assert!(output.stdout.contains(&format!("{name}={home}/{value}\n")), "{name}: {output:#?}");
    }
    assert!(output.stdout.ends_with(&format!(":{home}/.local/jail/bin\n")), "the last of PATH: {output:#?}");
    assert!(output.stdout.contains("\nmine\n"), "{output:#?}");
    let planted = env.outside("cd; grep -l PLANTED .cargo/bin/* go/bin/* .local/bin/*; true");
    assert_eq!(planted.stdout, "", "{output:#?}");
    // What the agent puts in the way does not stop the next launch.
    for trick in ["rm -r ~/.local/jail; : > ~/.local/jail", "rm ~/.local/jail; ln -s /etc ~/.local/jail"] {
        run(&env, &env.project(), trick);
        run(&env, &env.project(), "true");
    }
}

#[test]
fn a_home_behind_a_symlink_has_both_its_names() {
    let env = TestEnv::new();
    env.script(env.home().join("bin/claude"), "exec sh \"$@\"");
    env.script(env.home().join("bin/tool"), "echo runs");
    symlink("home", env.root().join("link")).expect("symlink");
    let link = env.root().join("link");
    let env = env.var("HOME", &link).path(&format!("{}/bin:{SYSTEM_PATH}", link.display()));
    let script = format!(
        "echo x > {link}/made; cat ~/made; command -v tool; tool; {link}/bin/tool; cd {link} && pwd -P",
        link = link.display()
    );
    let output = env.jail(["--", "claude", "-c", &script]);
    let real = env.home().canonicalize().expect("the home");
    let want = format!("x\n{0}/bin/tool\nruns\nruns\n{0}\n", real.display());
    assert_eq!(output.ok(), want, "{output:#?}");
    assert!(!real.join("made").exists(), "the home is private under both names");
}

#[test]
fn entries_of_path_that_a_project_could_fill_find_nothing() {
    let env = TestEnv::new();
    for place in ["bin/claude", "claude", "node_modules/.bin/tool"] {
        env.script(place, "echo PLANTED");
    }
    symlink(env.project().join("bin"), env.home().join("linked")).expect("symlink");
    let project = env.project();
    let path = format!(
        "{0}/bin:{0}/node_modules/.bin:.:bin::{1}/linked:{SYSTEM_PATH}",
        text(&project),
        text(&env.home())
    );
    let env = env.path(&path);
    assert!(env.outside("claude; tool").stdout.contains("PLANTED\nPLANTED"), "control: a shell finds them");
    let output = env.jail(["--", "claude"]);
    assert_eq!((output.code(), output.stdout.as_str()), (127, ""), "{output:#?}");
    let output = env.jail(["--", "sh", "-c", "echo $PATH; claude; tool; cd bin && claude; true"]);
    assert!(!output.stdout.contains("PLANTED"), "{output:#?}");
    assert!(!output.stdout.contains(text(&project)) && !output.stdout.contains("linked"), "{output:#?}");
    // By its path it runs, and is no agent.
    let output = env.jail(["--dry-run", "--", "./claude"]);
    assert!(output.ok().contains("agent      none"), "{output:#?}");
}

#[test]
fn a_command_behind_a_chain_of_links_is_found_and_has_what_it_needs() {
    let env = TestEnv::new();
    let home = env.home();
    env.script(
        home.join("tools/v2/bin/real"),
        "echo found; cat \"$(dirname \"$(readlink -f \"$0\")\")/../lib/data\"",
    );
    env.file(home.join("tools/v2/lib/data"), "data\n");
    env.file(home.join("tools/v2/package.json"), "{}");
    env.dir(home.join("bin"));
    symlink("v2", home.join("tools/current")).expect("symlink");
    symlink("current/bin/real", home.join("tools/latest")).expect("symlink");
    symlink("../tools/latest", home.join("bin/claude")).expect("symlink");
    let env = env.path(&format!("{}/bin:{SYSTEM_PATH}", home.display()));
    assert_eq!(env.outside("claude").stdout, "found\ndata\n", "control");
    for profile in ["workspace", "strict", "lockdown"] {
        let output = env.jail(["--profile", profile, "--", "claude"]);
        assert_eq!(output.stdout, "found\ndata\n", "{profile}: {output:#?}");
    }
}

#[test]
fn a_home_in_memory_keeps_nothing() {
    let word = super::unique("kept");
    let script = format!("cat ~/file; echo {word} > ~/file; cat ~/file");
    for (mode, second) in [("persistent", 2), ("ephemeral", 1)] {
        let env = TestEnv::new();
        let run = || {
            let output = super::run_inside(&env, &["--home", mode], &format!("{{ {script}; }} 2>/dev/null"));
            output.ok().lines().filter(|line| **line == word).count()
        };
        assert_eq!(run(), 1, "{mode}: the home can be written");
        assert_eq!(run(), second, "{mode}");
        let found = env.outside(&format!("grep -rl {word} '{}'", text(env.root()))).success();
        assert_eq!(found, mode == "persistent", "{mode}: on the disk");
    }
}
