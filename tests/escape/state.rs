//! An agent's state: what of it is shared with the user's own or with other projects, and that nothing of it which is run
//! can be planted there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::common::{DEADLINE, Feature, Output, SYSTEM_PATH, TestEnv, eventually, missing};

/// An agent, what it keeps, a file and a directory of it that are run, and two such names that are not there yet.
struct Agent {
    command: &'static str,
    login: &'static str,
    file: &'static str,
    directory: &'static str,
    absent: [&'static str; 2],
}

const AGENTS: [Agent; 5] = [
    Agent {
        command: "claude",
        login: ".claude/.credentials.json",
        file: ".claude/settings.json",
        directory: ".claude/hooks",
        absent: [".claude/commands/x.md", ".claude/settings.local.json"],
    },
    Agent {
        command: "codex",
        login: ".codex/auth.json",
        file: ".codex/hooks.json",
        directory: ".codex/skills",
        absent: [".codex/prompts/x.md", ".codex/AGENTS.md"],
    },
    Agent {
        command: "gemini",
        login: ".gemini/oauth_creds.json",
        file: ".gemini/settings.json",
        directory: ".gemini/extensions",
        absent: [".gemini/hooks/x", ".gemini/.env"],
    },
    Agent {
        command: "grok",
        login: ".grok/auth.json",
        file: ".grok/config.toml",
        directory: ".grok/hooks",
        absent: [".grok/plugins/x", ".grok/mcp.json"],
    },
    Agent {
        command: "opencode",
        login: ".local/share/opencode/auth.json",
        file: ".config/opencode/opencode.json",
        directory: ".config/opencode/plugin",
        absent: [".local/share/opencode/bin/x", ".local/share/opencode/bin/y"],
    },
];

/// A home in which every agent's command is a shell.
fn environment() -> TestEnv {
    with_variables(&[])
}

fn with_variables(variables: &[(&str, &Path)]) -> TestEnv {
    with_agents(TestEnv::new(), variables)
}

fn with_agents(mut env: TestEnv, variables: &[(&str, &Path)]) -> TestEnv {
    let bin = env.home().join("bin");
    for agent in &AGENTS {
        env.script(bin.join(agent.command), "exec sh \"$@\"");
    }
    for (name, value) in variables {
        env = env.var(name, value);
    }
    env.path(&format!("{}:{SYSTEM_PATH}", bin.display()))
}

fn run(env: &TestEnv, flags: &[&str], command: &str, script: &str) -> Output {
    let begun = format!("cd; echo begun; {script}; true");
    let output = env.jail(flags.iter().copied().chain(["--", command, "-c", &begun]));
    assert!(output.stdout.starts_with("begun"), "the jail did not start: {output:#?}");
    output
}

fn in_home(env: &TestEnv, path: &str) -> String {
    fs::read_to_string(env.home().join(path)).unwrap_or_default()
}

impl Agent {
    fn prepare(&self, env: &TestEnv) {
        let home = env.home();
        env.file(home.join(self.login), "token\n");
        env.file(home.join(self.file), "{}\n");
        env.file(home.join(self.directory).join("known"), "mine\n");
    }

    /// What is run: files that are there, and new ones.
    fn run(&self) -> [String; 5] {
        let [known, new] = ["known", "new"].map(|name| format!("{}/{name}", self.directory));
        [self.file.to_owned(), known, new, self.absent[0].to_owned(), self.absent[1].to_owned()]
    }

    /// Plants in everything that is run, and changes the login.
    fn plant(&self) -> String {
        let mut script = format!("echo new > {}; ", self.login);
        for path in self.run() {
            script.push_str(&format!("mkdir -p $(dirname {path}); echo PLANTED > {path}; "));
            script.push_str(&format!("echo PLANTED > n; mv n {path}; "));
        }
        script.push_str("true");
        script
    }
}

#[test]
fn what_is_run_of_the_users_own_state_is_as_it_was_and_the_rest_is_shared() {
    for agent in &AGENTS {
        let command = agent.command;
        let control = environment();
        agent.prepare(&control);
        control.outside(&format!("cd; {}", agent.plant())).ok();
        for path in [agent.file, agent.absent[0], agent.absent[1]] {
            assert_eq!(in_home(&control, path), "PLANTED\n", "control: {command} {path}");
        }

        let env = environment();
        agent.prepare(&env);
        let output =
            run(&env, &["--state", "shared"], command, &format!("cat {}; {}", agent.login, agent.plant()));
        assert!(output.stdout.contains("token"), "{command} has the login: {output:#?}");
        assert_eq!(in_home(&env, agent.login), "new\n", "{command} keeps the login: {output:#?}");
        let found = env.outside(
            "cd; rm -r .local/share/ai-jail; grep -rl PLANTED . | grep -v .local/state/ai-jail; true",
        );
        assert_eq!(found.stdout, "", "{command}: {output:#?}");
        for path in agent.absent {
            assert!(!env.home().join(path).exists(), "{command}: {path} stays: {output:#?}");
        }
        assert!(output.stderr.contains("works on your own state (--state)"), "{command}: {output:#?}");
    }
}

#[test]
fn a_file_that_mixes_state_with_settings_is_a_copy() {
    let env = environment();
    for (command, file) in [("claude", ".claude.json"), ("codex", ".codex/config.toml")] {
        env.file(env.home().join(file), "host = 1\n");
        env.file(env.home().join(".claude/x"), "");
        for replace in ["echo mine > $f", "r=$(readlink -f $f); echo mine > $r.new; mv $r.new $r"] {
            let script = format!("f={file}; cat $f; {replace}; cat $f");
            let output = run(&env, &["--state", "shared"], command, &script);
            assert_eq!(output.stdout, "begun\nhost = 1\nmine\n", "{command}: {output:#?}");
            assert_eq!(in_home(&env, file), "host = 1\n", "{command}: {output:#?}");
        }
        assert_eq!(in_home(&env, file), "host = 1\n");
    }
    // What the private home has of its own is not touched by that.
    let output = run(&env, &[], "claude", "cat .claude.json");
    assert_eq!(output.stdout, "begun\n{}\n", "{output:#?}");
}

#[test]
fn what_a_session_makes_for_itself_is_no_part_of_the_users_state() {
    let env = environment();
    env.file(env.home().join(".claude/shell-snapshots/mine.sh"), "mine\n");
    let script = "cd .claude/shell-snapshots; ls; echo PLANTED > mine.sh; echo PLANTED > new.sh; ls";
    let output = run(&env, &["--state", "shared"], "claude", script);
    assert_eq!(output.stdout, "begun\nmine.sh\nnew.sh\n", "{output:#?}");
    assert_eq!(in_home(&env, ".claude/shell-snapshots/mine.sh"), "mine\n");
    assert!(!env.home().join(".claude/shell-snapshots/new.sh").exists());
}

#[test]
fn a_script_that_the_users_settings_name_is_held() {
    let env = environment();
    let settings = r#"{"statusLine": {"command": "bash ~/.claude/line.sh"}}"#;
    env.file(env.home().join(".claude/settings.json"), settings);
    env.file(
        env.home().join(".claude.json"),
        r#"{"mcpServers": {"x": {"command": "~/.claude/mcp/run.py"}}}"#,
    );
    env.file(env.home().join(".claude/line.sh"), "mine\n");
    env.file(env.home().join(".claude/mcp/run.py"), "mine\n");
    let script =
        "for f in line.sh mcp/run.py other.sh; do echo PLANTED > .claude/$f; done; mv .claude/mcp .claude/m2";
    let output = run(&env, &["--state", "shared"], "claude", script);
    assert_eq!(in_home(&env, ".claude/line.sh"), "mine\n", "{output:#?}");
    assert_eq!(in_home(&env, ".claude/mcp/run.py"), "mine\n", "{output:#?}");
    assert_eq!(in_home(&env, ".claude/other.sh"), "PLANTED\n", "control: the rest is writable: {output:#?}");
}

#[test]
fn what_is_replaced_outside_is_covered_again() {
    let env = environment();
    env.file(env.home().join(".codex/config.toml"), "a = 1\n");
    env.file(env.home().join(".codex/hooks.json"), "{}\n");
    for name in ["config.toml", "hooks.json"] {
        let file = env.home().join(".codex").join(name);
        // Covered is what does not show the new file, or cannot be opened for writing; opening changes nothing.
        let covered = "[ \"$(cat $f)\" != '# replaced' ] || ! (: >> $f)";
        let script = format!(
            ": > begun; while [ ! -e go ]; do sleep 0.02; done; f=~/.codex/{name}; i=0; \
             until {covered}; do i=$((i+1)); [ $i -lt 500 ] || exit 9; sleep 0.02; done; \
             echo PLANTED > $f; rm -f begun go"
        );
        let running = env.jail_running(["--state", "shared", "--", "codex", "-c", &script]);
        assert!(eventually(DEADLINE, || env.project().join("begun").exists()), "the jail did not start");
        let new = env.file(env.home().join("new"), "# replaced\n");
        fs::rename(new, &file).expect("rename");
        env.file("go", "");
        let output = running.finish(DEADLINE);
        assert_eq!(output.code(), 0, "{name} is covered: {output:#?}");
        assert_eq!(fs::read_to_string(&file).expect("read"), "# replaced\n", "{name}: {output:#?}");
    }
}

#[test]
fn a_state_directory_that_is_or_becomes_a_symlink_is_refused() {
    let shared = ["--state", "shared"];
    let env = environment();
    let home = env.home();
    let victim = env.dir(home.join("victim"));
    env.file(victim.join("secret"), "secret\n");
    env.file(home.join(".claude/x"), "");
    run(&env, &shared, "claude", "true").ok();
    // Between two runs.
    fs::rename(home.join(".claude"), home.join("old")).expect("rename");
    symlink(&victim, home.join(".claude")).expect("symlink");
    env.refused_saying(&shared, &["claude", "-c", "true"], "it is a symlink");
    fs::remove_file(home.join(".claude")).expect("remove");
    fs::rename(home.join("old"), home.join(".claude")).expect("rename");
    // On the way.
    env.file(home.join("dotfiles/opencode/auth.json"), "secret\n");
    fs::create_dir_all(home.join(".local")).expect("mkdir");
    env.outside("cd; mv .local/share .local/s2; ln -s ../dotfiles .local/share").ok();
    let output = env.jail(["--state", "shared", "--", "opencode", "-c", "true"]);
    assert!(output.refused().contains("reached through the symlink"), "{output:#?}");
    env.outside("cd; rm .local/share; mv .local/s2 .local/share").ok();
    // A part of it.
    symlink(&victim, home.join(".claude/shell-snapshots")).expect("symlink");
    env.refused_saying(&shared, &["claude", "-c", "true"], "it is a symlink");
    fs::remove_file(home.join(".claude/shell-snapshots")).expect("remove");
    // A file in its place, and one that nobody may look into.
    fs::rename(home.join(".claude"), home.join("old")).expect("rename");
    env.file(home.join(".claude"), "");
    env.refused_saying(&shared, &["claude", "-c", "true"], "it is not a directory");
    fs::remove_file(home.join(".claude")).expect("remove");
    fs::rename(home.join("old"), home.join(".claude")).expect("rename");
    run(&env, &shared, "claude", "true").ok();
}

#[test]
fn a_state_directory_that_may_not_be_looked_into_is_refused() {
    // Closing a directory stops nobody who is root outside.
    let Some(env) = TestEnv::ordinary() else {
        return missing(Feature::OrdinaryUser, "a closed state directory", "there is nobody else");
    };
    let env = with_agents(env, &[]);
    let claude = env.home().join(".claude");
    env.file(claude.join("x"), "");
    let shared = ["--state", "shared"];
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o000)).expect("chmod");
    assert!(!env.outside("ls ~/.claude").success(), "control: the mode holds");
    env.refused_saying(&shared, &["claude", "-c", "true"], ".claude");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o700)).expect("chmod");
    run(&env, &shared, "claude", "true").ok();
}

#[test]
fn the_jails_own_state_that_becomes_a_symlink_is_refused() {
    let env = environment();
    let victim = env.dir(env.root().join("victim"));
    run(&env, &[], "claude", "echo x > .claude/x").ok();
    let store = env.home().join(".local/share/ai-jail/state/claude/.claude");
    assert!(store.join("x").exists(), "control: it is kept there");
    fs::rename(&store, env.root().join("old")).expect("rename");
    symlink(&victim, &store).expect("symlink");
    env.refused_saying(&[], &["claude", "-c", "true"], "symlink");
    assert_eq!(fs::read_dir(&victim).expect("read").count(), 0);
}

#[test]
fn a_link_that_leads_out_of_the_state_leads_nowhere_and_stays() {
    let env = environment();
    let home = env.home();
    env.file(home.join("dotfiles/agents/a.md"), "secret\n");
    env.file(home.join(".claude/x"), "");
    symlink("../dotfiles/agents", home.join(".claude/agents")).expect("symlink");
    let script =
        "cat .claude/agents/a.md; rm .claude/agents; ln -sf /tmp .claude/agents; mkdir -p dotfiles/agents";
    let output = run(&env, &["--state", "shared"], "claude", script);
    assert_eq!(output.stdout, "begun\n", "{output:#?}");
    assert_eq!(fs::read_link(home.join(".claude/agents")).expect("a link"), Path::new("../dotfiles/agents"));
}

#[test]
fn what_is_held_back_goes_to_another_file_system_too() {
    let other = tempfile::Builder::new().prefix("ai-jail-test-").tempdir_in("/dev/shm").expect("/dev/shm");
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let env = with_variables(&[("XDG_STATE_HOME", &other.path().join("s"))]);
    env.file(env.home().join(".claude/x"), "");
    let script = "mkdir -p .claude/skills/a; echo PLANTED > .claude/skills/a/SKILL.md";
    let output = run(&env, &["--state", "shared"], "claude", script);
    assert!(output.stderr.contains("held back"), "{output:#?}");
    assert!(!env.home().join(".claude/skills").exists(), "{output:#?}");
    let listed = env.jail(["quarantine", "list"]);
    assert!(listed.ok().contains(".claude/skills"), "{listed:#?}");
}

#[test]
fn what_is_swept_after_a_kill_includes_the_users_state() {
    let env = environment();
    env.file(env.home().join(".claude/x"), "");
    let script = ": > begun; sleep 60";
    let mut running = env.jail_running(["--state", "shared", "--", "claude", "-c", script]);
    assert!(eventually(DEADLINE, || env.project().join("begun").exists()), "the jail did not start");
    running.kill();
    running.finish(DEADLINE);
    env.file(env.home().join(".claude/commands/x.md"), "PLANTED");
    let output = env.jail(["--", "true"]);
    assert!(output.success() && !env.home().join(".claude/commands").exists(), "{output:#?}");
}

#[test]
fn a_program_outside_that_listens_in_the_users_state_is_not_reached() {
    let env = environment();
    env.file(env.home().join(".claude/x"), "");
    env.file(env.home().join(".config/opencode/x"), "");
    for (command, directory) in [("claude", ".claude"), ("opencode", ".config/opencode")] {
        let connect = |name: &str| {
            format!(
                "import os,socket; s=socket.socket(socket.AF_UNIX); s.connect(os.path.expanduser('~/{directory}/{name}'))"
            )
        };
        let listen = |name: &str| {
            let path = env.home().join(directory).join(name);
            let listener = std::os::unix::net::UnixListener::bind(&path).expect("bind");
            env.give_away(&path);
            listener
        };
        let _before = listen("before");
        assert!(env.outside(&format!("python3 -c \"{}\"", connect("before"))).success(), "control");
        // The later one is covered soon after it appeared.
        let script = format!(
            ": > begun; while [ ! -e go ]; do sleep 0.02; done; rm begun go; ls ~/{directory} | grep -c later; \
             python3 -c \"{}\" && echo reached before; i=0; \
             while python3 -c \"{}\"; do i=$((i+1)); [ $i -lt 100 ] || {{ echo reached later; break; }}; sleep 0.1; done",
            connect("before"),
            connect("later")
        );
        let running = env.jail_running(["--state", "shared", "--", command, "-c", &script]);
        assert!(eventually(DEADLINE, || env.project().join("begun").exists()), "the jail did not start");
        let _later = listen("later");
        assert!(env.outside(&format!("python3 -c \"{}\"", connect("later"))).success(), "control");
        env.file("go", "");
        let output = running.finish(DEADLINE);
        assert_eq!(output.ok(), "1\n", "{command}: {output:#?}");
    }
}

#[test]
fn one_projects_agent_plants_nothing_for_anothers() {
    for agent in &AGENTS {
        let env = environment();
        let second = env.dir(env.root().join("second"));
        let output = run(&env, &[], agent.command, &agent.plant());
        let read = format!("grep -rl PLANTED . /run/ai-jail-settings; cat {}", agent.login);
        let again = run(&env, &[], agent.command, &read);
        for path in agent.run() {
            // Settings that the agent writes anew are links to a place of their own.
            let places = [format!("./{path}\n"), format!("/run/ai-jail-settings/{path}\n")];
            assert!(
                places.iter().any(|place| again.stdout.contains(place)),
                "control: {} finds {path} in the same project: {output:#?} {again:#?}",
                agent.command
            );
        }
        let project = second.to_str().expect("UTF-8");
        let other = run(&env, &["--project", project], agent.command, &read);
        assert_eq!(other.stdout, "begun\nnew\n", "{}: {other:#?}", agent.command);
    }
}

#[test]
fn settings_files_can_be_replaced_by_renaming_and_are_kept_for_the_project() {
    let env = environment();
    let replace = "r=$(readlink -f .codex/config.toml); echo mine > $r.new; mv $r.new $r";
    run(&env, &[], "codex", replace).ok();
    let output = run(
        &env,
        &[],
        "codex",
        "cat .codex/config.toml; rm .codex/config.toml; ln -sf /tmp/x .codex/config.toml",
    );
    assert!(output.stdout.contains("mine"), "{output:#?}");
    let output = run(&env, &[], "codex", "cat .codex/config.toml");
    assert_eq!(output.stdout, "begun\nmine\n", "nobody replaces the link itself: {output:#?}");
}

#[test]
fn the_answers_of_the_first_start_go_along_and_nothing_else_does() {
    let env = environment();
    let second = env.dir(env.root().join("second"));
    let second = second.to_str().expect("UTF-8");
    let settings = r#"{"hasCompletedOnboarding": true, "oauthAccount": {"emailAddress": "a@example.com"}, "mcpServers": {"x": {"command": "PLANTED"}}, "projects": {"/": {"allowedTools": ["PLANTED"]}}, "hooks": "PLANTED"}"#;
    run(&env, &[], "claude", &format!("echo '{settings}' > .claude.json")).ok();
    let output = run(&env, &["--project", second], "claude", "cat .claude.json");
    assert!(
        output.stdout.contains("hasCompletedOnboarding") && output.stdout.contains("a@example.com"),
        "{output:#?}"
    );
    assert!(!output.stdout.contains("PLANTED"), "{output:#?}");
    // What the agent puts in the file's place stops nobody.
    run(&env, &["--project", second], "claude", "rm .claude.json; ln -s /etc/passwd .claude.json").ok();
    let output = run(&env, &[], "claude", "cat .claude.json");
    assert!(output.stdout.contains("PLANTED"), "its own stays: {output:#?}");
    run(&env, &["--project", second], "claude", "rm .claude.json; mkdir .claude.json").ok();
    run(&env, &[], "claude", "true").ok();
    run(&env, &["--project", second], "claude", "true").ok();
}

#[test]
fn state_none_keeps_nothing() {
    let script = "cat .claude/login .claude.json; echo kept > .claude/login; echo kept > .claude.json; cat .claude/login .claude.json";
    let env = environment();
    for (state, second) in [("none", "begun\nkept\nkept\n"), ("jail", "begun\nkept\nkept\nkept\nkept\n")] {
        run(&env, &["--state", state], "claude", script).ok();
        let output = run(&env, &["--state", state], "claude", script);
        assert_eq!(output.stdout, second, "{state}: {output:#?}");
    }
}

#[test]
fn a_login_outside_is_mentioned_at_the_first_run_alone() {
    let env = environment();
    env.file(env.home().join(".claude/.credentials.json"), "x\n");
    let hint = "--state shared";
    let says = |flags: &[&str]| run(&env, flags, "claude", "true").stderr.contains(hint);
    assert!(!says(&["--state", "none"]), "the user chose");
    assert!(says(&[]), "the first run");
    assert!(!says(&[]), "the second run");
}

#[test]
fn a_login_outside_is_a_fake_inside_where_the_user_says_so() {
    let env = environment();
    let key = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    let login = format!("{{\"OPENAI_API_KEY\": \"{key}\", \"tokens\": null}}\n");
    let file = env.file(env.home().join(".codex/auth.json"), &login);
    env.config(
        "[[agents.codex.secrets.files]]\npath = \"~/.codex/auth.json\"\nhosts = [\"api.openai.com\"]\n\
         extract = '\"OPENAI_API_KEY\"\\s*:\\s*\"([^\"]+)\"'\n",
    );
    for flags in [&[][..], &["--state", "shared"]] {
        let output = run(&env, flags, "codex", "cat ~/.codex/auth.json; echo x > ~/.codex/auth.json");
        let (before, after) = login.split_once(key).expect("it has the key");
        let shown = output.stdout.strip_prefix("begun\n").expect("it began");
        let fake = shown.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        let fake = fake.unwrap_or_else(|| panic!("{flags:?}: {output:#?}"));
        assert!(fake != key && fake.len() == key.len() && fake.starts_with("sk-proj-"), "{output:#?}");
        assert!(output.stderr.contains("Read-only file system"), "{output:#?}");
        assert!(!output.stderr.contains("is logged in outside"), "{output:#?}");
        assert_eq!(fs::read_to_string(&file).expect("the file"), login, "{flags:?}");
    }
}

#[test]
fn only_the_user_shares_and_under_lockdown_only_on_the_command_line() {
    let env = environment();
    env.file(env.home().join(".claude/.credentials.json"), "token\n");
    let read = "cat .claude/.credentials.json";
    env.file(".ai-jail.toml", "[home]\nstate = \"shared\"\n");
    let output = run(&env, &[], "claude", read);
    assert!(!output.stdout.contains("token") && output.stderr.contains("home.state"), "{output:#?}");
    env.config("[agents.claude]\nhome.state = \"shared\"\n");
    assert!(run(&env, &[], "claude", read).stdout.contains("token"), "the user's configuration");
    let output = run(&env, &["--lockdown"], "claude", read);
    assert!(!output.stdout.contains("token"), "{output:#?}");
    let script = format!("{read}; mkdir .claude/hooks; echo PLANTED > .claude/hooks/x");
    let output = run(&env, &["--lockdown", "--state", "shared"], "claude", &script);
    assert!(output.stdout.contains("token"), "{output:#?}");
    assert!(!env.home().join(".claude/hooks").exists(), "{output:#?}");
}
