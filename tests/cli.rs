//! The command line: wrong input, exit statuses, `--dry-run`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

mod common;
#[path = "cli/defaults.rs"]
mod defaults;
#[path = "cli/repeated.rs"]
mod repeated;
#[path = "cli/secret_hints.rs"]
mod secret_hints;
#[path = "cli/secrets.rs"]
mod secrets;

use common::{DEADLINE, Feature, SYSTEM_PATH, TestEnv, missing, output_of};

/// Arguments that must be refused before anything runs, and a word that the one error line must hold.
const WRONG: &[(&str, &[&str], &str)] = &[
    ("an unknown flag", &["--no-such-flag", "--", "true"], "no-such-flag"),
    ("an unknown profile", &["--profile", "nothing", "--", "true"], "nothing"),
    ("an unknown network mode", &["--network", "most", "--", "true"], "most"),
    ("a grant that does not exist", &["--ro", "/no/such/place", "--", "true"], "/no/such/place"),
    ("a writable grant that does not exist", &["--rw", "/no/such/place", "--", "true"], "/no/such/place"),
    ("a project that does not exist", &["--project", "/no/such/place", "--", "true"], "/no/such/place"),
    ("the root as the project", &["--project", "/", "--", "true"], "/"),
    ("a home of one's own", &["--env", "HOME=/x", "--", "true"], "HOME is the jail's own"),
    ("a word for the jail of one's own", &["--env", "AI_JAIL=0", "--", "true"], "always 1"),
    ("nothing to explain", &["explain", ""], "an empty word"),
    ("a URL that no rule is about", &["explain", "ftp://a.test/x"], "only http and https URLs"),
    (
        "a URL with a password",
        &["explain", "https://me:word@a.test/x"],
        "this URL cannot be explained; it holds",
    ),
    ("no command", &[], "command"),
    ("no command after the dashes", &["--"], "command"),
    ("a bad host pattern", &["--allow-host", "*.com", "--", "true"], "*.com"),
    ("a bad limit", &["--limit", "memory=lots", "--", "true"], "lots"),
    ("a secret without a host", &["--secret", "KEY", "--", "true"], "NAME=HOST"),
    ("a secret for every host", &["--secret", "KEY=*", "--", "true"], "not to every one"),
    ("a secret over plain HTTP", &["--secret", "KEY=a.test:80", "--", "true"], "ports 22 and 80"),
    ("a secret for any bytes", &["--secret", "KEY=a.test/tcp", "--", "true"], "/tcp"),
    ("a secret that is the home", &["--secret", "HOME=a.test", "--", "true"], "HOME is no secret"),
    ("a glob of secret files", &["--secret-file", "/a/*=a.test", "--", "true"], "not a glob"),
    ("a file of values without a name", &["--env-file", "", "--", "true"], "--env-file"),
    ("a bad address to dial", &["--resolve", "example.com=nowhere", "--", "true"], "nowhere"),
];

/// Config files that must be refused, and what the error must cite.
const WRONG_CONFIG: &[(&str, &str, &str)] = &[
    ("an unknown key", "profil = \"workspace\"\n", "config.toml:1:1"),
    ("an unknown key in a table", "[network]\nalow = [\"example.com\"]\n", "config.toml:2:1"),
    ("a wrong type", "[network]\nallow = 7\n", "config.toml:2:9"),
    ("a duplicate", "profile = \"strict\"\nprofile = \"strict\"\n", "config.toml:2:1"),
    ("an unknown key of a secret", "[secrets]\nA = { host = [\"a.test\"] }\n", "config.toml:2:7"),
    ("a secret without a table", "[secrets]\nA = \"a.test\"\n", "config.toml:2:5"),
    (
        "an HTTP rule that is none",
        "[[network.http]]\nhost = \"a.test\"\ndeny = [\"get /\"]\n",
        "config.toml:3:9",
    ),
    (
        "an HTTP rule of no method",
        "[[network.http]]\nhost = \"a.test\"\nallow = [\"GETT /\"]\n",
        "did you mean GET?",
    ),
    ("no TOML at all", "{\"profile\": \"strict\"}\n", "config.toml:1:"),
];

#[test]
fn wrong_arguments_are_refused_with_one_error() {
    let env = TestEnv::new();
    for (claim, args, word) in WRONG {
        let output = env.jail(*args);
        assert!(output.refused().contains(word), "{claim}: the error names {word:?}: {}", output.stderr);
        let errors = output.stderr.lines().filter(|line| line.starts_with("ai-jail:")).count();
        assert_eq!(errors, 1, "{claim}: one error: {}", output.stderr);
    }
}

#[test]
fn wrong_config_is_refused_with_its_place() {
    for (claim, text, cited) in WRONG_CONFIG {
        let env = TestEnv::new();
        env.config(text);
        let output = env.jail(["--", "true"]);
        assert!(output.refused().contains(cited), "{claim}: cites {cited}: {}", output.stderr);
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest() {
    let env = TestEnv::new();
    env.config("[network]\nalow = [\"example.com\"]\n");
    assert!(env.jail(["--", "true"]).refused().contains("allow"));
}

#[test]
fn a_command_of_no_letters_is_shown_in_quotes() {
    let output = TestEnv::new().jail([""]);
    assert!(output.stderr.starts_with("ai-jail: '' was not found"), "{}", output.stderr);
}

#[test]
fn a_variable_that_cannot_have_an_effect_is_one_warning() {
    let warned = |env: &TestEnv, args: &[&str], part: &str| {
        let output = env.jail(args);
        let warnings = output.stderr.lines().filter(|line| line.contains(part)).count();
        assert_eq!(warnings, 1, "{part}: {}", output.stderr);
    };
    let env = TestEnv::new();
    let pass = ["--env", "NOT_SET_HERE", "--", "true"];
    warned(&env, &pass, "--env NOT_SET_HERE: it is not set here");
    let env = env.var("AI_JAIL_ALOW_HOST", "x.test");
    warned(&env, &["--", "true"], "AI_JAIL_ALOW_HOST is not known and has no effect");
}

#[test]
fn the_home_is_no_project_unless_it_is_named() {
    let env = TestEnv::new();
    env.file(env.home().join(".ssh/id_ed25519"), "private");
    for directory in [env.home(), env.root().to_path_buf()] {
        let output = output_of(env.launcher(["--", "true"]).current_dir(&directory), DEADLINE);
        assert!(output.refused().contains("--project"), "names the flag: {}", output.stderr);
    }
    let home = env.home();
    let args = ["--project", home.to_str().expect("UTF-8"), "--", "sh", "-c", "cat ~/.ssh/id_ed25519; true"];
    let output = output_of(env.launcher(args).current_dir(&home), DEADLINE);
    assert_eq!(output.ok(), "", "credential places stay hidden: {output:#?}");
}

#[test]
fn root_does_not_work_in_somebody_elses_project() {
    if !rustix::process::getuid().is_root() {
        missing(Feature::Root, "root in somebody else's project", "the tests run as an ordinary user");
        return;
    }
    let env = TestEnv::new();
    std::os::unix::fs::chown(env.project(), Some(12345), Some(12345)).expect("chown");
    let output = env.jail(["--", "touch", "ran"]);
    assert!(output.refused().contains("runuser"), "{}", output.stderr);
    assert!(!env.project().join("ran").exists());
}

#[test]
fn a_missing_bwrap_is_refused() {
    let env = TestEnv::new();
    let empty = env.file(env.root().join("empty"), "");
    // In a view of the system where every bwrap is an empty file that cannot be executed.
    let mut command = env.command("bwrap");
    command.args(["--dev-bind", "/", "/"]);
    for place in ["/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap"] {
        if let Ok(place) = std::fs::canonicalize(place) {
            command.arg("--ro-bind").arg(&empty).arg(place);
        }
    }
    command.args([env!("CARGO_BIN_EXE_ai-jail"), "--", "/bin/touch", "ran"]);
    let output = output_of(&mut command, DEADLINE);
    assert!(output.refused().contains("bwrap"), "{}", output.stderr);
    assert!(!env.project().join("ran").exists());
}

#[test]
fn a_bwrap_that_others_could_replace_is_refused_or_passed_over() {
    let env = TestEnv::new();
    let marker = env.root().join("fake-bwrap-ran");
    env.script(env.root().join("bin/bwrap"), &format!("touch '{}'", marker.display()));
    let bin = env.root().join("bin");
    // Writable by others as well, so that it is refused even when root runs the tests.
    output_of(env.command("chmod").args(["-R", "a+w"]).arg(&bin), DEADLINE).ok();
    let env = env.path(&format!("{}:{SYSTEM_PATH}", bin.display()));
    let output = env.jail(["--", "echo", "ran"]);
    assert!(!marker.exists(), "a bwrap from a writable directory was started: {output:#?}");
    assert!(output.code() == 125 || output.stdout == "ran\n", "{output:#?}");
}

#[test]
fn the_exit_status_is_the_commands() {
    let env = TestEnv::new();
    env.file("data.txt", "no program");
    let table: &[(&str, &[&str], i32)] = &[
        ("success", &["true"], 0),
        ("failure", &["false"], 1),
        ("any status", &["sh", "-c", "exit 42"], 42),
        ("a status that is also ours", &["sh", "-c", "exit 125"], 125),
        ("death of SIGTERM", &["sh", "-c", "kill -TERM $$"], 128 + 15),
        ("death of SIGKILL", &["sh", "-c", "kill -KILL $$"], 128 + 9),
        ("death of SIGSEGV", &["sh", "-c", "kill -SEGV $$"], 128 + 11),
        ("not executable", &["./data.txt"], 126),
        ("not found by name", &["no-such-command-anywhere"], 127),
        ("not found by path", &["/no/such/command"], 127),
    ];
    for (claim, command, status) in table {
        let output = env.jail(["--"].iter().chain(command.iter()));
        assert_eq!(output.code(), *status, "{claim}: {output:#?}");
    }
}

#[test]
fn errors_about_the_command_are_ours_and_say_so() {
    let env = TestEnv::new();
    let output = env.jail(["--", "no-such-command-anywhere"]);
    assert!(output.stderr.contains("ai-jail: "), "{output:#?}");
    assert!(output.stderr.contains("no-such-command-anywhere"), "{output:#?}");
}

#[test]
fn streams_are_the_commands_own() {
    let env = TestEnv::new();
    let output = env.jail(["-q", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((output.ok(), output.stderr.as_str()), ("out\n", "err\n"));
    env.file("input", "from a file");
    let file = std::fs::File::open(env.project().join("input")).expect("open");
    let output = output_of(env.launcher(["-q", "--", "cat"]).stdin(file), DEADLINE);
    assert_eq!(output.ok(), "from a file");
}

#[test]
fn arguments_arrive_as_they_are() {
    let env = TestEnv::new();
    let odd = ["a b", "", "--", "-x", "'\"$HOME`", "new\nline", "*", "é"];
    let output = env.jail(["-q", "--", "printf", "<%s>"].iter().chain(odd.iter()));
    let expected: String = odd.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!(output.ok(), expected);
}

#[test]
fn a_dry_run_prints_the_plan_and_starts_nothing() {
    let env = TestEnv::new();
    let before = listing(&env);
    for args in
        [["--dry-run", "--", "touch", "made"].as_slice(), &["--dry-run", "--json", "--", "touch", "made"]]
    {
        let output = env.jail(args);
        let project = env.project();
        assert!(output.ok().contains(project.to_str().expect("UTF-8")), "shows the project: {output:#?}");
        assert!(!project.join("made").exists(), "nothing was started");
    }
    let output = env.jail(["--dry-run", "--json", "--", "true"]);
    serde_json::from_str::<serde_json::Value>(output.ok()).expect("one JSON value");
    assert_eq!(listing(&env), before, "a dry run writes nothing");
}

#[test]
fn one_line_at_start_says_what_is_in_force() {
    let env = TestEnv::new();
    let output = env.jail(["--", "true"]);
    output.ok();
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("ai-jail: ")), "{output:#?}");
    assert!(lines.first().is_some_and(|line| line.contains("workspace")), "names the profile: {output:#?}");
    assert_eq!(env.jail(["-q", "--", "true"]).stderr, "", "-q drops it");
}

fn listing(env: &TestEnv) -> String {
    let script = format!("find '{}' '{}' | sort", env.home().display(), env.project().display());
    env.outside(&script).ok().to_owned()
}

#[test]
fn explain_lists_the_protected_names_whole() {
    let env = TestEnv::new();
    env.file("sub/.envrc", "x\n");
    let text = env.jail(["explain"]);
    let text = text.ok();
    for expected in [
        "*.envrc ",
        " .direnv",
        ".claude/settings.json ",
        "at the root: .bashrc",
        "direnv runs it when a shell enters",
        "watched while the jail runs, up to ",
        "not below: node_modules ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json = env.jail(["explain", "--json"]);
    let json: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    let names: Vec<_> = json["protection"]["names"]
        .as_array()
        .expect("rows")
        .iter()
        .flat_map(|row| row["names"].as_array().expect("names"))
        .filter(|name| name["there"] == true)
        .filter_map(|name| name["name"].as_str())
        .collect();
    assert_eq!(names, [".envrc"]);
    let none = env.jail(["--profile", "read-only", "explain"]);
    assert!(none.ok().contains("nothing of the host's can be written"), "{none:#?}");
}

#[test]
fn explain_takes_a_url_and_says_which_methods_pass() {
    let env = TestEnv::new();
    let file = env.config(
        "[network]\nallow = [\"a.test\", \"b.test\"]\n[[network.http]]\nhost = \"a.test\"\nallow = [\"GET /repos/**\"]\n",
    );
    let urls = [
        "https://a.test/repos/x?key=1",
        "http://a.test/user",
        "https://b.test/user",
        "https://c.test/",
        "POST https://a.test/repos/x",
        "DELETE",
        "https://b.test/user",
    ];
    let output = env.jail(["explain"].iter().chain(&urls));
    let lines: Vec<&str> = output.ok().lines().collect();
    let from = format!("(no HTTP rule of the host matches, {}:", file.display());
    let want: [(&str, &[&str]); 6] = [
        (
            "https://a.test/repos/x: allowed; ",
            &["GET of this path is allowed by GET /repos/**", "pass: GET; do not: HEAD, POST"],
        ),
        (
            "http://a.test/user: denied; ",
            &[&from, "pass: none; ", "to change it: allow it with \"GET /user\" in allow of"],
        ),
        ("https://b.test/user: allowed; ", &["every method and path passes"]),
        ("https://c.test/: denied; no rule matches; ", &["--allow-host c.test"]),
        (
            "POST https://a.test/repos/x: denied; ",
            &["POST of this path is denied (no HTTP rule", "\"POST /repos/x\" in allow"],
        ),
        ("DELETE https://b.test/user: allowed; ", &["every method and path passes"]),
    ];
    for (word, part) in [
        ("get https://a.test/", "write GET"),
        ("PSOT https://a.test/", "did you mean POST?; write it as in"),
        ("GET /repos/x", "\"GET https://api.example.com/path\""),
    ] {
        let refused = env.jail(["explain", word]);
        assert!(refused.refused().contains(part), "{word}: {refused:#?}");
    }
    assert_eq!(lines.len(), want.len(), "{output:#?}");
    for (line, (begins, parts)) in lines.iter().zip(want) {
        assert!(line.starts_with(begins) && parts.iter().all(|part| line.contains(part)), "{begins}: {line}");
    }
}
