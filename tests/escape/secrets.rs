//! Files of the project that hold secrets (FS-10, FS-16).

use std::fs;

use super::common::{Feature, Git, TestEnv, missing};
use super::{run_inside, unique};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIE\n-----END PRIVATE KEY-----\n";

/// A path, and what is written there; the second `$` of each is the marker.
fn cases() -> Vec<(&'static str, String)> {
    let account = format!(
        "{{\n  \"type\": \"service_account\",\n  \"private_key\": \"{}$\"\n}}",
        KEY.replace('\n', "\\n")
    );
    vec![
        (".env", "TOKEN=$\n".into()),
        ("api/.env.production", "TOKEN=$\n".into()),
        ("certs/server.pem", format!("{KEY}$\n")),
        ("certs/server.key", format!("{KEY}$\n")),
        ("certs/server.p12", "$".into()),
        ("deploy/anything.json", account),
        (".npmrc", "//registry.example/:_authToken=$\n".into()),
        (".pypirc", "[pypi]\npassword = $\n".into()),
        (".netrc", "machine a.example login me password $\n".into()),
        ("kubeconfig", "clusters:\nusers:\n- user:\n    token: $\n".into()),
        ("infra/cluster.yaml", "clusters:\nusers:\n- user:\n    token: $\n".into()),
        ("infra/terraform.tfstate", "{\"version\": 4, \"x\": \"$\"}".into()),
    ]
}

fn with_secrets(env: &TestEnv) -> String {
    let marker = unique("marker");
    for (path, text) in cases() {
        env.file(path, text.replace('$', &marker));
    }
    marker
}

#[test]
fn secrets_of_the_project_cannot_be_read_in_any_profile() {
    for profile in ["workspace", "read-only", "strict", "lockdown", "devbox"] {
        let env = TestEnv::new();
        let marker = with_secrets(&env);
        let search = format!("grep -rl {marker} .");
        assert_eq!(env.outside(&search).ok().lines().count(), cases().len(), "control");
        let output = env.jail(["--profile", profile, "--", "sh", "-c", &format!("{search}; test -e .env")]);
        assert_eq!(output.ok(), "", "{profile}: {output:#?}");
        let said = output.stderr.lines().find(|line| line.contains("masked, for they hold secrets"));
        assert!(said.is_some_and(|line| line.contains(".env")), "{profile}: {output:#?}");
        assert!(!output.stderr.contains(&marker), "{profile}: {output:#?}");
        // Nor be changed, or moved, or removed.
        for write in ["echo x >> .env", "rm .env", "mv .env e", "echo x > n && mv n .env", "ln .env e"] {
            let output = env.jail(["--profile", profile, "--", "sh", "-c", write]);
            assert!(!output.success() && output.code() != 125, "{profile}: {write}: {output:#?}");
        }
        for (path, text) in cases() {
            let now = fs::read_to_string(env.project().join(path)).expect("it is there");
            assert_eq!(now, text.replace('$', &marker), "{profile}: {path}");
        }
    }
}

#[test]
fn what_only_looks_like_a_secret_is_readable() {
    let env = TestEnv::new();
    let files = [
        (".env.example", "TOKEN=\n"),
        (".env.sample", "TOKEN=\n"),
        (".env.template", "TOKEN=\n"),
        ("certs/ca.pem", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"),
        ("config.json", "{\"type\": \"object\"}"),
        (".npmrc", "registry=https://registry.example/\n"),
        ("service.yaml", "kind: Service\n"),
        ("i18n.key", "words\n"),
        ("node_modules/x/test.pem", KEY),
        (".env/bin/activate", "a virtual environment\n"),
    ];
    for (path, text) in files {
        env.file(path, text);
    }
    for (path, text) in files {
        assert_eq!(env.inside(&format!("cat {path}")).ok(), text, "{path}");
    }
    let output = env.inside("true");
    assert!(!output.stderr.contains("masked"), "{output:#?}");
}

#[test]
fn an_agent_makes_and_changes_its_own_env_file() {
    let env = TestEnv::new();
    env.file(".env.example", "TOKEN=example\n");
    let script =
        "cp .env.example .env && cat .env && echo more >> .env && rm .env && cp .env.example .env.local";
    assert_eq!(env.inside(script).ok(), "TOKEN=example\n");
    assert_eq!(fs::read_to_string(env.project().join(".env.local")).expect("it stays"), "TOKEN=example\n");
    // An empty one hides nothing.
    env.file("sub/.env", "");
    env.inside("cp .env.example sub/.env && grep example sub/.env").ok();
}

#[test]
fn a_secret_is_kept_readable_when_the_user_says_so() {
    let env = TestEnv::new();
    env.file(".env", "TOKEN=x\n");
    env.file(".env.test", "TOKEN=y\n");
    assert_eq!(env.jail(["--ro", ".env", "--", "cat", ".env", ".env.test"]).ok(), "TOKEN=x\n");
    let file = env.config_dir().join("config.toml");
    env.config("[filesystem]\nunmask = [\".env.test\", \"**/certs\"]\n");
    env.file("a/certs/server.key", KEY);
    env.file("a/server.key", KEY);
    let read = "cat .env .env.test a/certs/server.key a/server.key";
    let output = env.inside(read);
    assert_eq!(output.ok(), format!("TOKEN=y\n{KEY}"));
    let explained = env.jail(["explain", ".env.test"]);
    assert!(
        explained.ok().contains("writable") && explained.stdout.contains("config.toml:2"),
        "{explained:#?}"
    );
    assert_eq!(
        env.jail(["--mask", ".env.test", "--", "cat", ".env.test"]).ok(),
        "",
        "the user's own mask beats it"
    );
    assert_eq!(env.jail(["--lockdown", "--", "sh", "-c", read]).ok(), "", "nothing widens lockdown");
    fs::remove_file(file).expect("remove");
    // A project's own file opens nothing.
    env.file(".ai-jail.toml", "[filesystem]\nunmask = [\".env\"]\n");
    let output = env.inside("cat .env");
    assert_eq!(output.ok(), "");
    assert!(output.stderr.contains("ignored filesystem.unmask"), "{output:#?}");
    fs::remove_file(env.project().join(".ai-jail.toml")).expect("remove");
    let output = env.jail(["--lockdown", "--ro", ".env", "--", "cat", ".env"]);
    output.refused();
}

#[test]
fn a_secret_behind_a_symlink_is_masked() {
    let env = TestEnv::new();
    env.file("config/real", "TOKEN=x\n");
    std::os::unix::fs::symlink("config/real", env.project().join(".env")).expect("symlink");
    assert_eq!(env.outside("cat .env config/real").ok(), "TOKEN=x\nTOKEN=x\n", "control");
    assert_eq!(env.inside("cat .env config/real").ok(), "");
}

#[test]
fn a_secret_with_another_name_is_masked_under_both() {
    let env = TestEnv::new();
    env.file(".env", "TOKEN=x\n");
    env.outside("mkdir -p sub node_modules/x && ln .env sub/notes.txt && ln .env node_modules/x/y").ok();
    let read = "cat .env sub/notes.txt node_modules/x/y";
    assert_eq!(env.outside(read).ok(), "TOKEN=x\n".repeat(3), "control");
    assert_eq!(env.inside(read).ok(), "");
}

#[test]
fn a_mode_hides_no_secret_from_the_search() {
    // Root reads whatever the mode.
    let Some(env) = TestEnv::ordinary() else {
        return missing(Feature::OrdinaryUser, "a mode hides no secret", "there is nobody else");
    };
    env.file("server.key", KEY);
    env.file("sub/.env", "TOKEN=x\n");
    env.outside("chmod 000 server.key; chmod 311 sub").ok();
    assert!(!env.outside("cat server.key || ls sub").success(), "control: the modes hold");
    let read = "chmod 700 server.key sub; cat server.key sub/.env";
    let output = run_inside(&env, &[], read);
    env.outside("chmod 700 server.key sub").ok();
    assert_eq!(output.stdout, "begun\n", "{output:#?}");
    assert!(env.outside(read).ok().contains("PRIVATE KEY"), "control");
}

#[test]
fn what_git_tracks_is_readable_and_said() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file("test/server.key", KEY);
    env.file(".env", "A=1\n");
    env.file(".env.local", "B=2\n");
    git.run(&["add", "-f", "test/server.key", ".env"]).ok();
    git.run(&["commit", "-q", "-m", "tracked"]).ok();
    let output =
        env.inside("cat .env .env.local test/server.key && echo more >> .env && git commit -qam inside");
    assert_eq!(output.ok(), format!("A=1\n{KEY}"));
    let said = output.stderr.lines().find(|line| line.contains("not masked")).unwrap_or_default();
    assert!(said.contains(".env, test/server.key") && !said.contains(".env.local"), "{output:#?}");
    assert_eq!(git.run(&["show", "HEAD:.env"]).ok(), "A=1\nmore\n");
    // With changes that are not committed it is tracked all the same.
    env.file(".env", "A=3\n");
    assert_eq!(env.inside("cat .env").ok(), "A=3\n");
}

#[test]
fn a_masked_file_does_not_get_into_git_unnoticed() {
    let env = TestEnv::new();
    let git = Git::new(&env).init();
    env.file(".env", "TOKEN=x\n");
    env.file("sub dir/.env", "TOKEN=y\n");
    assert!(git.run(&["status", "--porcelain"]).ok().contains("?? .env"), "control: git would add it");
    let output = env.inside("echo x > new && git add -A && git status --porcelain && git commit -qm all");
    assert_eq!(output.ok(), "A  new\n", "it is left alone");
    assert!(!output.stderr.contains("added empty"), "{output:#?}");
    for add in [
        "git add -f .env",
        "git add -f .env && git commit -qm x",
        "mv 'sub dir' other && git add -f other/.env",
    ] {
        let output = env.inside(add);
        output.ok();
        let said = output.stderr.lines().find(|line| line.contains("added empty")).unwrap_or_default();
        let name = if add.contains("other") { "other/.env" } else { ".env" };
        assert!(said.contains(&format!("git tracks {name} now")), "{add}: {output:#?}");
        // What the jail put into the index opens nothing in the next one.
        let next = env.inside(&format!("cat '{name}'"));
        assert_eq!(next.ok(), "", "{add}: {next:#?}");
        assert!(next.stderr.contains("stays masked"), "{add}: {next:#?}");
        git.run(&["rm", "-q", "--cached", "-f", name]).ok();
    }
}

#[test]
fn without_the_memory_of_what_was_masked_nothing_that_the_jail_added_to_git_opens() {
    let env = TestEnv::new();
    Git::new(&env).init();
    env.file(".env", "TOKEN=x\n");
    env.inside("git add -f .env").ok();
    let memory = fs::read_dir(env.home().join(".local/state/ai-jail/masked")).unwrap();
    let memory: Vec<_> = memory.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(memory.len(), 1, "{memory:?}");
    fs::write(&memory[0], "[{").unwrap();
    let output = env.inside("cat .env");
    assert_eq!(output.ok(), "", "{output:#?}");
    assert!(
        output.stderr.contains("cannot be read") && output.stderr.contains("stays masked"),
        "{output:#?}"
    );
}

#[test]
fn a_secret_that_was_moved_where_nothing_is_searched_is_said() {
    let env = TestEnv::new();
    env.file("config/.env", "TOKEN=x\n");
    let output = env.inside("mv config node_modules && cat node_modules/.env");
    assert_eq!(output.ok(), "");
    assert!(
        output.stderr.contains("config/.env, which was masked, is at node_modules/.env now"),
        "{output:#?}"
    );
    let env = TestEnv::new();
    env.file("config/.env", "TOKEN=x\n");
    let output = env.inside("mv config settings && cat settings/.env");
    assert_eq!(output.ok(), "");
    assert!(!output.stderr.contains("is at"), "{output:#?}");
    assert_eq!(env.inside("cat settings/.env").ok(), "");
}

#[test]
fn explain_dry_run_and_about_name_what_is_masked() {
    let env = TestEnv::new();
    env.file(".env", "TOKEN=x\n");
    let explained = env.jail(["explain", ".env"]);
    assert!(explained.ok().contains(".env: masked; ") && explained.stdout.contains("--ro"), "{explained:#?}");
    let path = env.project().join(".env").display().to_string();
    let dry = env.jail(["--dry-run", "--", "true"]);
    assert!(dry.ok().contains(&format!("masked {path}")), "{dry:#?}");
    assert!(env.inside("cat /run/ai-jail/about").ok().contains(&path));
    let quiet = env.jail(["-q", "--", "true"]);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_tree_with_too_many_secrets_is_said_and_refused_where_all_must_be_found() {
    let env = TestEnv::new();
    env.outside("i=0; while [ $i -lt 4001 ]; do echo T=$i > .env.$i; i=$((i+1)); done").ok();
    let output = env.inside("grep -l T= .env.* | wc -l");
    assert_eq!(output.ok().trim(), "1", "{output:#?}");
    assert!(output.stderr.contains("more than 4000 files that hold secrets"), "{output:#?}");
    for profile in ["strict", "lockdown"] {
        assert!(env.jail(["--profile", profile, "--", "true"]).refused().contains("4000"), "{profile}");
    }
}

#[test]
fn a_secret_that_is_replaced_outside_is_masked_again() {
    for replace in ["echo T=new > n && mv n .env", "mv .env .env~ && echo T=new > .env && rm .env~"] {
        let env = TestEnv::new();
        env.file(".env", "T=old\n");
        let covered = "i=0; while [ -s .env ] && [ $i -lt 500 ]; do i=$((i+1)); sleep 0.02; done";
        let running =
            env.jail_waiting(&[], "", &format!("test -e .env || exit 8; {covered}; cat .env; exit 0"));
        env.outside(replace).ok();
        let output = env.let_go(running);
        assert_eq!(output.ok(), "", "{replace}: {output:#?}");
        assert_eq!(fs::read_to_string(env.project().join(".env")).expect("it stays"), "T=new\n");
    }
}
