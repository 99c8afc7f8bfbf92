//! Nothing that the command writes is run by other tools of the host: agents, editors, shells, ai-jail itself, and another
//! jail. Where the tool is no part of every machine, what it would read is looked for.

use std::fs;
use std::time::Duration;

use super::common::{DEADLINE, Feature, TestEnv, eventually, missing, output_of};
use super::run_inside;

/// A name that counts in the project, and whose it is.
struct Name {
    agent: String,
    name: String,
}

macro_rules! presets {
    ($($name:literal)+) => {
        &[$(include_str!(concat!("../../src/presets/agents/", $name, ".toml"))),+]
    };
}

/// Compiled in: whoever runs the tests need not be able to read the sources.
const PRESETS: &[&str] = presets! {
    "aider" "amp" "claude" "codex" "copilot" "crush" "cursor-agent" "devin" "gemini" "goose" "grok" "kiro" "opencode" "qwen"
};

/// The protected names of every agent's preset.
fn names_of_agents() -> Vec<Name> {
    let mut names = Vec::new();
    for text in PRESETS {
        let preset: toml::Table = text.parse().expect("a table");
        let agent = preset["name"].as_str().expect("a name").to_owned();
        for name in preset["protected"].as_array().expect("names") {
            names.push(Name { agent: agent.clone(), name: name.as_str().expect("a name").to_owned() });
        }
    }
    names
}

/// What stands for a protected name: itself as a file, and as a directory with a file in it.
fn variants(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{name}/inside")]
}

fn write(path: &str, text: &str) -> String {
    format!("mkdir -p \"$(dirname '{path}')\" && echo '{text}' > '{path}'\n")
}

#[test]
fn the_presets_name_fourteen_agents() {
    let mut agents: Vec<String> = names_of_agents().into_iter().map(|name| name.agent).collect();
    agents.sort();
    agents.dedup();
    let expected =
        "aider amp claude codex copilot crush cursor-agent devin gemini goose grok kiro opencode qwen";
    assert_eq!(agents.join(" "), expected);
}

/// T14: in the project, in a package of it, and above the directory that the agent is started in.
#[test]
fn what_an_agent_runs_by_itself_and_was_absent_is_absent_afterwards() {
    for variant in 0..2 {
        let paths: Vec<(String, String)> = names_of_agents()
            .into_iter()
            .flat_map(|Name { agent, name }| {
                ["", "packages/a/"]
                    .map(|below| (agent.clone(), format!("{below}{}", variants(&name)[variant])))
            })
            .collect();
        let script: String = paths.iter().map(|(_, path)| write(path, "planted")).collect();
        let there = |env: &TestEnv| -> Vec<String> {
            let there = |path: &&(String, String)| env.project().join(&path.1).symlink_metadata().is_ok();
            paths.iter().filter(there).map(|(agent, path)| format!("{agent}: {path}")).collect()
        };
        let prepared = || {
            let env = TestEnv::new();
            env.outside("git init -q; mkdir -p packages/a/src").ok();
            env
        };
        let control = prepared();
        control.outside(&script).ok();
        assert_eq!(there(&control).len(), paths.len(), "control: they can all be made outside");

        let env = prepared();
        let mut jail = env.launcher(["--", "sh", "-c", &format!("cd ../../.. && {{ {script} }}; true")]);
        let output = output_of(jail.current_dir(env.project().join("packages/a/src")), DEADLINE);
        output.ok();
        assert_eq!(there(&env), Vec::<String>::new(), "{output:#?}");
    }
}

/// T14, and M7: what is there stays as it is, whatever is tried.
#[test]
fn what_an_agent_runs_by_itself_and_is_there_stays_as_it_is() {
    for variant in 0..2 {
        let paths: Vec<String> =
            names_of_agents().into_iter().map(|name| variants(&name.name)[variant].clone()).collect();
        let tries: String = names_of_agents()
            .iter()
            .zip(&paths)
            .map(|(Name { name, .. }, path)| {
                format!(
                    "echo planted > '{path}'; echo planted > other; mv -f other '{path}'; ln -f other '{path}'; rm -f '{path}'
                     rm -rf '{name}'; mv '{name}' gone; {}",
                    write(path, "planted")
                )
            })
            .collect();
        let prepared = || {
            let env = TestEnv::new();
            paths.iter().for_each(|path| drop(env.file(path, "mine\n")));
            env
        };
        let changed = |env: &TestEnv| -> Vec<String> {
            let mine = |path: &&String| {
                fs::read_to_string(env.project().join(path)).is_ok_and(|text| text == "mine\n")
            };
            paths.iter().filter(|path| !mine(path)).cloned().collect()
        };
        let control = prepared();
        control.outside(&tries);
        let mut unchanged = paths.clone();
        unchanged.retain(|path| !changed(&control).contains(path));
        assert_eq!(unchanged, Vec::<String>::new(), "control: all of them are changed outside");

        let env = prepared();
        let output = run_inside(&env, &[], &format!("{{ {tries} }} 2>/dev/null; true"));
        assert_eq!(changed(&env), Vec::<String>::new(), "{output:#?}");
    }
}

/// T15: the project is a repository of dotfiles, kept as they are or by package, and a shell is started with them.
#[test]
fn start_up_files_of_a_dotfiles_repository_do_not_run() {
    let plants = [
        (".bashrc", "", "bash -ic true"),
        (".bash_profile", "", "bash -lc true"),
        (".profile", "", "bash -lc true"),
        (".bash_logout", "", "bash -lc true; bash -lc exit"),
        ("bash/.bashrc", "bash", "bash -ic true"),
        ("shell/.profile", "shell", "bash -lc true"),
    ];
    let fires = |env: &TestEnv, home: &str, shell: &str| {
        let mut command = env.command("sh");
        command.args(["-c", shell]).env("HOME", env.project().join(home));
        assert!(!output_of(&mut command, DEADLINE).timed_out);
        env.root().join("fired").exists()
    };
    for (name, home, shell) in plants {
        for before in [None, Some("# mine\n")] {
            let prepared = || {
                let env = TestEnv::new();
                env.script(
                    env.root().join("fire"),
                    &format!("touch '{}'", env.root().join("fired").display()),
                );
                env.file("README", "dotfiles");
                if let Some(text) = before {
                    env.file(name, text);
                }
                let fire = env.root().join("fire").display().to_string();
                let plant = format!("mkdir -p \"$(dirname {name})\"; echo '{fire}' >> {name}");
                (env, plant)
            };
            let (control, plant) = prepared();
            control.outside(&plant).ok();
            let runs = fires(&control, home, shell);
            if !runs && name == ".bash_logout" {
                missing(
                    Feature::Program("bash that reads .bash_logout"),
                    name,
                    "bash was not built to read it",
                );
            } else {
                assert!(runs, "control: {name} is run outside");
            }
            let (env, plant) = prepared();
            run_inside(&env, &[], &format!("{plant}; true"));
            assert!(!fires(&env, home, shell), "{name} ran on the host");
        }
    }
}

/// T17: ai-jail's own configuration of the project.
#[test]
fn the_next_run_is_not_configured_by_what_this_one_wrote() {
    let write = "printf '[network]\\ndeny = [\"kept.example\"]\\n' > .ai-jail.toml; mkdir -p .ai-jail; cp .ai-jail.toml .ai-jail/config.toml";
    let denied = |env: &TestEnv| {
        let explained = env.jail(["--allow-host", "kept.example", "explain", "kept.example"]);
        explained.ok().contains(".ai-jail.toml")
    };
    let control = TestEnv::new();
    control.outside("printf '[network]\\ndeny = [\"kept.example\"]\\n' > .ai-jail.toml").ok();
    assert!(denied(&control), "control: such a file is read");
    let env = TestEnv::new();
    run_inside(&env, &[], &format!("{write}; true"));
    assert!(!denied(&env) && !env.project().join(".ai-jail").exists());
}

/// T18: one jail leaves something for another on the same project.
#[test]
fn what_one_jail_plants_is_gone_for_the_other() {
    let plants = [".envrc", ".vscode/tasks.json", ".claude/settings.json", ".mcp.json", "sub/.envrc"];
    let script: String = plants.iter().map(|path| write(path, "planted")).collect();
    let control = TestEnv::new();
    control.outside(&script).ok();
    assert!(plants.iter().all(|path| control.project().join(path).exists()), "control");

    let env = TestEnv::new();
    let look = format!(
        ": > begun; while [ ! -e go ]; do sleep 0.02; done; for f in {}; do [ -e $f ] && echo \"$f is there\"; done; true",
        plants.join(" ")
    );
    let other = env.jail_running(["--", "sh", "-c", &look]);
    assert!(eventually(DEADLINE, || env.project().join("begun").exists()), "the other jail starts");
    run_inside(&env, &[], &format!("{{ {script} }}; true"));
    std::thread::sleep(Duration::from_millis(200));
    env.file("go", "");
    let output = other.finish(DEADLINE);
    assert_eq!(output.ok(), "", "{output:#?}");
}

/// T13: what is read when a directory is entered or opened, held under every name and at every depth.
#[test]
fn what_direnv_and_editors_read_is_as_it_was_in_every_directory() {
    let names =
        [".envrc", ".vscode/settings.json", ".vscode/launch.json", ".idea/workspace.xml", ".mcp.json"];
    for below in ["", "a/b/c/"] {
        let tries: String = names
            .iter()
            .map(|name| {
                format!("echo planted >> {below}{name}; ") + &write(&format!("{below}new/{name}"), "planted")
            })
            .collect();
        let prepared = || {
            let env = TestEnv::new();
            names.iter().for_each(|name| drop(env.file(format!("{below}{name}"), "mine\n")));
            env
        };
        let planted = |env: &TestEnv| env.outside("grep -rl planted . | sort").stdout;
        let control = prepared();
        control.outside(&tries).ok();
        assert_eq!(planted(&control).lines().count(), 2 * names.len(), "control");
        let env = prepared();
        run_inside(&env, &[], &format!("{{ {tries} }} 2>/dev/null; true"));
        assert_eq!(planted(&env), "");
    }
}

/// T16: toolchains of the home and of a granted tree, which are on the user's PATH.
#[test]
fn programs_on_the_path_are_as_they_were() {
    let prepared = || {
        let env = TestEnv::new();
        for name in [".local/bin/tool", ".cargo/bin/tool", "data/node_modules/.bin/tool"] {
            env.script(env.home().join(name), "echo mine");
        }
        env
    };
    let path = |env: &TestEnv| {
        let own = [".local/bin", ".cargo/bin", "data/node_modules/.bin"].map(|name| env.home().join(name));
        format!("{}:/usr/bin:/bin", own.map(|own| own.display().to_string()).join(":"))
    };
    let write = |env: &TestEnv| {
        let home = env.home();
        let own = [".local/bin", ".cargo/bin", "data/node_modules/.bin"];
        own.map(|own| {
            let own = home.join(own);
            let own = own.display();
            format!("mkdir -p {own}; for f in tool new; do printf '#!/bin/sh\\necho planted' > {own}/$f; chmod +x {own}/$f; done; echo x > n; mv -f n {own}/tool;")
        })
        .concat()
    };
    let said = |env: &TestEnv| {
        let each = "for d in ~/.local/bin ~/.cargo/bin ~/data/node_modules/.bin; do $d/tool; ls $d; done";
        env.outside(each).stdout
    };
    let control = prepared();
    control.outside(&write(&control)).ok();
    let mine = said(&prepared());
    assert_eq!(mine, "mine\ntool\n".repeat(3));
    assert_ne!(said(&control), mine, "control: they can be changed outside");

    let env = prepared();
    let data = env.home().join("data");
    let script = format!("{{ {} }} 2>/dev/null; true", write(&env));
    let mut jail = env.launcher([
        "--ro".as_ref(),
        data.as_os_str(),
        "--".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
    ]);
    let output = output_of(jail.env("PATH", path(&env)), DEADLINE);
    output.ok();
    assert_eq!(said(&env), mine, "{output:#?}");
}
