//! What is said when something about a secret is wrong: what to do, and never a value.

use crate::common::TestEnv;
use crate::secrets::{KEY, plan, warnings};

#[test]
fn what_belongs_to_the_jails_own_loopback_is_said_to_work_nowhere() {
    let env = TestEnv::new().var("TOKEN", KEY);
    let said = |args: &[&str]| warnings(&plan(&env, &[args, &["--", "true"]].concat()));
    for host in
        ["localhost", "localhost:18443", "127.0.0.1", "127.0.0.1:18443", "[::1]:18443", "api.localhost"]
    {
        let flag = format!("TOKEN={host}");
        for flags in [&["--secret", &flag][..], &["--secret", &flag, "--forward", "18443"]] {
            let said = said(flags);
            assert!(said.contains(&format!("TOKEN: {host} is the jail's own loopback")), "{flags:?}: {said}");
            assert!(
                said.contains("--resolve dev.internal=127.0.0.1") && !said.contains("allow it with"),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{flags:?}: {said}");
        }
    }
    assert_eq!(
        said(&[
            "--secret",
            "TOKEN=dev.internal:18443",
            "--allow-host",
            "dev.internal:18443",
            "--resolve",
            "dev.internal=127.0.0.1"
        ]),
        ""
    );
    env.config(
        "[secrets]\nTOKEN = { hosts = [\"localhost\", \"a.test\"] }\n[network]\nallow = [\"a.test\"]\n",
    );
    assert_eq!(said(&[]), "", "one of its hosts will do");
    let rules = "[[network.http]]\nhost = \"localhost\"\ndeny = [\"DELETE /**\"]\n";
    env.config(rules);
    let idle = said(&[]);
    assert!(idle.contains("the HTTP rules of localhost hold nowhere") && idle.lines().count() == 1, "{idle}");
    let forwarded = env.jail(["--forward", "18443", "--", "true"]);
    for part in
        ["the HTTP rules of localhost", "cannot hold", "port 18443 is forwarded", "--resolve dev.internal"]
    {
        assert!(forwarded.refused().contains(part), "{part}: {forwarded:#?}");
    }
    env.config("");
    env.file(".ai-jail.toml", rules);
    assert!(said(&["--forward", "18443"]).contains("hold nowhere"), "a project stops no launch by it");
}

#[test]
fn what_the_jail_needs_as_it_is_can_be_no_secret() {
    let env = TestEnv::new();
    for (name, why) in [
        ("PATH", "the jail has its own"),
        ("HOME", "the jail has its own"),
        ("TERM", "programs need it as it is"),
        ("LD_PRELOAD", "the loader"),
        ("https_proxy", "door to the network"),
        ("SSL_CERT_FILE", "certificates"),
    ] {
        env.config("");
        let typed = env.jail(["--secret", &format!("{name}=a.test"), "--", "true"]);
        for part in [&format!("{name} is no secret: "), why, "name the variable that holds the credential"] {
            assert!(typed.refused().contains(part), "{name}: {typed:#?}");
        }
        env.config(&format!("[secrets]\n{name} = {{ hosts = [\"a.test\"] }}\n"));
        let configured = env.jail(["--", "true"]);
        let said = configured.refused();
        assert!(said.contains("config.toml:2") && said.contains(why), "{name}: {configured:#?}");
    }
}

#[test]
fn a_value_of_which_there_is_no_fake_can_be_kept_out_as_is_said() {
    let env = TestEnv::new().var("SHORT_TOKEN", "hunter2");
    let allow = ["--allow-host", "a.test"];
    let typed = env.jail([&allow[..], &["--secret", "SHORT_TOKEN=a.test", "--", "true"]].concat());
    for part in
        ["needs 64", "leave --secret SHORT_TOKEN out", "SHORT_TOKEN = { mode = \"deny\" } in [secrets]"]
    {
        assert!(typed.refused().contains(part), "{part}: {typed:#?}");
    }
    env.config("[secrets]\nSHORT_TOKEN = { hosts = [\"a.test\"] }\n");
    let configured = env.jail([&allow[..], &["--", "true"]].concat());
    let way = "SHORT_TOKEN = { mode = \"deny\" } in [secrets] (";
    assert!(configured.refused().contains(way), "{configured:#?}");
    env.config("[secrets]\nSHORT_TOKEN = { mode = \"deny\" }\n");
    let kept = env.jail(["--", "sh", "-c", "test -z \"$SHORT_TOKEN\""]);
    assert!(kept.success(), "{kept:#?}");
    let file = env.file("token", "hunter2\n");
    let flag = format!("{}=a.test", file.display());
    let typed = env.jail([&allow[..], &["--secret-file", &flag, "--", "true"]].concat());
    let way = "its path with mode = \"deny\" and no other key in [[secrets.files]], instead of --secret-file";
    assert!(typed.refused().contains(way), "{typed:#?}");
}

#[test]
fn several_secrets_in_one_word_are_told_from_a_value() {
    let output = TestEnv::new().jail(["--secret", "A=a.test,B=b.test", "--", "true"]);
    let said = output.refused();
    assert!(
        said.contains("write --secret A=a.test --secret B=b.test") && !said.contains("something like"),
        "{said}"
    );
}

#[test]
fn a_misspelt_host_is_asked_about() {
    let env = TestEnv::new().var("TOKEN", KEY);
    env.config(
        "[network]\nallow = [\"api.github.com\", \"git.sourcehut.org\"]\ndeny = [\"git.sourcehut.org\"]\n\
         [[network.http]]\nhost = \"api.gihtub.com\"\nallow = [\"GET /**\"]\n",
    );
    let said = |host: &str| warnings(&plan(&env, &["--secret", &format!("TOKEN={host}"), "--", "true"]));
    let want = "did you mean api.github.com, which is allowed? else allow it with --allow-host api.gihub.com";
    let near = said("api.gihub.com");
    assert!(near.contains(want), "{near}");
    assert_eq!(
        near.matches("did you mean api.github.com").count(),
        2,
        "the HTTP rules are asked about too: {near}"
    );
    for host in ["git.sourcehat.org", "elsewhere.test"] {
        let far = said(host);
        assert!(
            !far.contains("did you mean git")
                && far.contains(&format!("(--secret); allow it with --allow-host {host}")),
            "{far}"
        );
    }
}

#[test]
fn a_secret_without_a_value_is_refused_with_its_place_and_a_way_out() {
    let env = TestEnv::new();
    let allow = ["--allow-host", "a.test"];
    let run = |args: &[&str]| env.jail([&allow[..], args, &["--", "true"]].concat());
    let typed = run(&["--secret", "TOKEN=a.test"]);
    assert!(typed.refused().contains("leave --secret TOKEN out"), "{typed:#?}");
    assert!(!typed.stderr.contains("did you mean"), "{typed:#?}");
    let near =
        TestEnv::new().var("GITHUB_TOKEN", KEY).jail(["--secret", "GITHUB_TOKNE=a.test", "--", "true"]);
    assert!(near.refused().contains("not set here; did you mean GITHUB_TOKEN, which is?"), "{near:#?}");
    env.config("[secrets]\nTOKEN = { hosts = [\"a.test\"] }\n");
    let configured = run(&[]);
    for part in [
        "the secret TOKEN has no value",
        "config.toml:2 (secrets.TOKEN)",
        "take the entry out",
        "--env TOKEN",
    ] {
        assert!(configured.refused().contains(part), "{part}: {configured:#?}");
    }
    assert!(!configured.stderr.contains("--secret TOKEN"), "{configured:#?}");
    assert!(run(&["--env", "TOKEN"]).success(), "the way out is one");
    // No word about the command that was asked for, which is there.
    for from in ["no-such-command", "/no/such/command", "false"] {
        env.config(&format!("[secrets]\nTOKEN = {{ hosts = [\"a.test\"], from = [\"{from}\"] }}\n"));
        let failed = run(&[]);
        assert_eq!(failed.code(), 125, "{failed:#?}");
        for part in [
            from,
            "below [agents.NAME]",
            "secrets.TOKEN = { ... }",
            "config.toml:2",
            "--env TOKEN gives the jail the real value of your environment, where it is set",
        ] {
            assert!(failed.stderr.contains(part), "{part}: {failed:#?}");
        }
        let without = run(&["--env", "TOKEN"]);
        assert!(without.success() && without.stderr.contains("it is not set here"), "{without:#?}");
        assert!(!without.stderr.contains("the real value"), "{without:#?}");
        // It is in the way of that command alone.
        env.config(&format!(
            "[agents.other]\nsecrets.TOKEN = {{ hosts = [\"a.test\"], from = [\"{from}\"] }}\n"
        ));
        assert!(run(&[]).success(), "{from}");
    }
}

#[test]
fn a_mistake_is_answered_with_what_was_meant() {
    let env = TestEnv::new().var("BROKEN", format!("{KEY}\n"));
    let file = env.file(env.home().join("keys.env"), format!("\u{feff}FILED={KEY}\nEMPTY=\n"));
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    let file = file.to_str().expect("UTF-8");
    for (args, parts) in [
        (&["--secret-file", "token"][..], &["it takes PATH=HOST"][..]),
        (&["--secret", "TOKEN"], &["it takes NAME=HOST"]),
        // A host in a word of its own is not told to be a command that is not there.
        (&["--secret", "TOKEN", "a.test"], &["it takes NAME=HOST"]),
        (
            &["--secret", "a.test=TOKEN"],
            &["the name of the variable stands first", "write --secret TOKEN=a.test"],
        ),
        (
            &["--secret-file", "a.test=~/t"],
            &["the path of the file stands first", "write --secret-file ~/t=a.test"],
        ),
        (&["--env-file", "missing.env"], &["missing.env cannot be read", "there is no such file"]),
        (
            &["--secret-file", "missing=a.test"],
            &["there is no such file", "a variable is --secret NAME=HOST"],
        ),
        (&["--secret", "BROKEN=a.test"], &["it ends in a line break", "$(cat FILE)"]),
        (&["--secret", "TOKEN=a.test,"], &["a host is missing", "write HOST, or HOST,HOST"]),
        (&["--secret", "TOKEN=a.test, b.test"], &["white space beside a host"]),
        (
            &["--env-file", file, "--secret", "EMPTY=a.test"],
            &["it is empty in ", "keys.env", "set it here or there"],
        ),
        (
            &["--env-file", file, "--secret", "FILE=a.test"],
            &["not set here, and ", "keys.env does not have it; did you mean FILED, which ", "keys.env has?"],
        ),
        (&["--allow-host", KEY], &["it looks like a secret", "HOST:443"]),
        (&["--env", KEY], &["--env cannot be `***`", "without a `$`"]),
        (&["--env", &format!("{KEY}=x")], &["--env cannot be `***`", "without a `$`"]),
    ] {
        let output = env.jail([args, &["--allow-host", "a.test", "--", "true"]].concat());
        for part in parts {
            assert!(output.refused().contains(part), "{args:?}: {part}: {output:#?}");
        }
        assert!(!output.stderr.contains("can write"), "{args:?}: {output:#?}");
    }
    let said = |args: &[&str]| warnings(&plan(&env, &[args, &["--", "true"]].concat()));
    let filed = said(&["--env-file", file, "--env", "FILED"]);
    assert!(
        filed.contains("--env FILED: only a file of --env-file has it")
            && filed.contains("--secret FILED=HOST"),
        "{filed}"
    );
    let unset = said(&["--env", "UNSET"]);
    assert!(unset.contains("--env UNSET: it is not set here"), "{unset}");
    let far = said(&["--allow-host", "api.github.com", "--resolve", "other.test=127.0.0.1"]);
    let near = said(&["--allow-host", "api.github.com", "--resolve", "api.gihub.com=127.0.0.1"]);
    let want = "api.gihub.com is not allowed, so that its address counts for nothing (--resolve); did you mean api.github.com";
    assert!(near.contains(want) && !far.contains("counts for nothing"), "{near} {far}");
    let right = said(&["--allow-host", "api.gihub.com", "--resolve", "api.gihub.com=127.0.0.1"]);
    assert!(!right.contains("counts for nothing"), "{right}");
}

#[test]
fn a_slip_in_the_name_of_a_table_does_not_pass_in_silence() {
    let env = TestEnv::new();
    let run = || env.jail(["--", "true"]);
    env.config("[[secrets.file]]\npath = \"~/t\"\nhosts = [\"a.test\"]\n");
    assert!(run().refused().contains("did you mean [[secrets.files]]?"), "{:#?}", run());
    env.config("[agents.cluade]\nnetwork.deny = [\"a.test\"]\n");
    let want = "[agents.cluade] of your configuration is for a command that is not there; did you mean [agents.claude]?";
    assert!(run().stderr.contains(want), "{:#?}", run());
    // One that is there is meant, and one that is like no agent may come.
    for known in ["claude", "opencode", "true", "mytool"] {
        env.config(&format!("[agents.{known}]\nnetwork.deny = [\"a.test\"]\n"));
        assert!(!run().stderr.contains("did you mean"), "{known}: {:#?}", run());
    }
}

#[test]
fn a_value_that_is_more_than_a_token_is_said_to_be_scrambled() {
    let env = TestEnv::new().var("DATABASE", format!("https://me:{KEY}@a.test/db")).var("TOKEN", KEY);
    let said = |name: &str| {
        let bound = format!("{name}=a.test");
        env.jail(["--secret", &bound, "--allow-host", "a.test", "--", "true"]).stderr
    };
    let want = "the value of DATABASE: it has a login and a password in a URL, and all of it is a fake";
    assert!(said("DATABASE").contains(want), "{}", said("DATABASE"));
    assert!(!said("TOKEN").contains("all of it is a fake"));
}

#[test]
fn a_credential_is_explained_with_the_way_to_a_fake_first() {
    let env = TestEnv::new().var("GITHUB_TOKEN", KEY).var("MY_TOKEN", KEY).var("OPENAI_API_KEY", KEY);
    let hint = |flags: &[&str], name: &str| {
        let output = env.jail([&["explain"], flags, &[name]].concat());
        let line = output.ok().trim_end().to_owned();
        let hint = line.split_once("; to change it: ").unwrap_or_else(|| panic!("{line}")).1;
        // Of what is not set.
        hint.trim_start_matches("set it, then ").to_owned()
    };
    let github = "--secret GITHUB_TOKEN=api.github.com";
    let fake = |name: &str| {
        format!(", and the jail has a fake that works there over HTTPS; --env {name} gives it the real one")
    };
    for (flags, name, want) in [
        (&[][..], "GITHUB_TOKEN", format!("{github} --allow-host api.github.com")),
        (&["--allow-host", ".github.com"], "GITHUB_TOKEN", github.to_owned()),
        (
            &["--network", "off"],
            "GITHUB_TOKEN",
            format!("{github} --network filtered --allow-host api.github.com"),
        ),
        (&[], "MY_TOKEN", "--secret MY_TOKEN=HOST --allow-host HOST".to_owned()),
        (
            &[],
            "OPENAI_API_KEY",
            "--secret OPENAI_API_KEY=api.openai.com --allow-host api.openai.com".to_owned(),
        ),
    ] {
        assert_eq!(hint(flags, name), want + &fake(name), "{flags:?} {name}");
    }
    assert_eq!(hint(&["--network", "open"], "GITHUB_TOKEN"), "--env GITHUB_TOKEN", "there are no fakes");
    assert_eq!(hint(&[], "MY_FLAG"), "--env MY_FLAG");
    assert_eq!(hint(&[], "ANTHROPIC_BASE_URL"), "--env ANTHROPIC_BASE_URL");
    // What is said is what works.
    let flags = ["--secret", "GITHUB_TOKEN=api.github.com", "--allow-host", "api.github.com"];
    let set = env
        .jail([&flags[..], &["--", "sh", "-c", "test -n \"$GITHUB_TOKEN\" && echo $GITHUB_TOKEN"]].concat());
    assert!(set.ok().len() == KEY.len() + 1 && !set.stdout.contains(KEY), "{set:#?}");
}

#[test]
fn what_is_more_than_a_token_is_refused_and_a_value_is_not_repeated() {
    let env = TestEnv::new();
    let token = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let file = env.file("auth.json", format!("{{\"access_token\": \"{token}\"}}\n"));
    let json = env.jail(["--secret-file", &format!("{}=a.test", file.display()), "--", "true"]);
    let want = r#"extract = '"access_token"\s*:\s*"([^"]+)"'"#;
    assert!(json.refused().contains("it is JSON") && json.stderr.contains(want), "{json:#?}");
    let pasted = env.jail(["--secret", &format!("GITHUB_TOKEN={token}"), "--", "true"]);
    assert!(pasted.stderr.contains("where a host belongs"), "{pasted:#?}");
    for output in [json, pasted] {
        assert!(!output.success() && !output.stderr.contains(token), "{output:#?}");
    }
    let ports = env.jail(["--forward", "5432:5433", "--", "true"]);
    assert!(
        ports.stderr.contains("cannot be mapped") && ports.stderr.contains("--resolve dev.internal"),
        "{ports:#?}"
    );
}

#[test]
fn a_value_that_was_typed_is_shown_nowhere() {
    let token = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let env = TestEnv::new().var("TOKEN", token);
    let filed = env.file(env.home().join("keys.env"), "FILED=filed-R3aLvAlUe0123456789abcdef\n");
    std::fs::set_permissions(&filed, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    let plain = env.file(env.home().join("plain"), "plain-R3aLvAlUe0123456789abcdef\n");
    let printed = "AbC0123456789xyzabcDEF0123456789";
    env.config(&format!(
        "[network]\nallow = [\"a.test\"]\n[secrets]\nPRINTED = {{ hosts = [\"a.test\"], from = [\"echo\", \"{printed}\"] }}\n\
         DENIED = {{ mode = \"deny\" }}\n"
    ));
    let env = env.var("DENIED", "denied-R3aLvAlUe0123456789abcdef");
    let file = format!("{}=a.test", plain.display());
    let flags = ["--secret", "TOKEN=a.test", "--secret-file", &file];
    let flags = [&flags[..], &["--env-file", filed.to_str().unwrap(), "--secret", "FILED=a.test"]].concat();
    let typed =
        format!("Bearer {token} {printed} filed-R3aLvAlUe0123456789abcdef plain-R3aLvAlUe0123456789abcdef");
    let command = ["--", "echo", "word", &typed, "denied-R3aLvAlUe0123456789abcdef"];
    for (how, said) in [
        (&["--dry-run"][..], "echo word Bearer *** "),
        (&["--dry-run", "-v"], "echo word Bearer *** "),
        (&["--dry-run", "--json"], "Bearer *** "),
        (&["explain"], "echo word Bearer *** "),
        (&["explain", "--json"], "Bearer *** "),
        (&["explain", "TOKEN", "PRINTED"], "its value is what `echo ***` prints"),
        (&["-v"], "echo word Bearer *** "),
    ] {
        let (first, rest) = how.split_at(usize::from(how[0] == "explain"));
        let output = env.jail([first, &flags, rest, &command].concat());
        let shown = output.ok().to_owned() + &output.stderr;
        assert!(shown.contains(said), "{how:?}: {output:#?}");
        for secret in [token, printed, "R3aLvAlUe"] {
            // What is denied is no fake, and the command itself prints what was typed.
            let ours = if how == ["-v"] { &output.stderr } else { &shown };
            assert!(!ours.contains(secret), "{how:?}: {secret}: {output:#?}");
        }
    }
    let ran = env.jail([&flags[..], &command].concat());
    assert!(ran.stderr.contains("every program can read a command line"), "{ran:#?}");
    assert!(!ran.ok().contains(token) && !ran.stdout.contains("filed-R3aL"), "{ran:#?}");
    // Also where nothing is a fake.
    let file = env.config_dir().join("config.toml");
    std::fs::write(file, "[secrets]\nDENIED = { mode = \"deny\" }\n[network]\nmode = \"off\"\n")
        .expect("write");
    let alone = env.jail(["-v", "--", "test", "-n", "denied-R3aLvAlUe0123456789abcdef"]);
    assert!(
        alone.success() && alone.stderr.contains("test -n ***") && !alone.stderr.contains("R3aL"),
        "{alone:#?}"
    );
}

#[test]
fn an_error_about_a_file_or_an_option_does_not_repeat_a_value() {
    let env = TestEnv::new();
    let token = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for value in ["hunter2", token] {
        for line in [
            format!("[secrets]\nT = {{ value = \"{value}\" }}"),
            format!("[secrets]\nT = \"{value}\""),
            format!("[secrets]\nT = {value}"),
            format!("[secrets]\nT = \"{value}"),
            format!("[secrets]\nT = [\"{value}\"]"),
            format!("[secrets]\nT = {{ from = \"{value}\" }}"),
            format!("[secrets.T]\nvalue = '{value}'"),
            format!("secrets.T.value = '{value}'"),
            format!("[[secrets.files]]\ncontent = \"{value}\""),
            format!("[environment]\nT = \"{value}\""),
            format!("[environment]\nset = {{ T = \"{value}\", U = 1 }}"),
            format!("[environment]\nset = {{ HOME = \"{value}\" }}"),
            format!("[environment]\nset = {{ T = \"{value}\\u0000\" }}"),
            format!("[network]\nupstream_proxy = \"http://me:{value}@\""),
            format!("[agents.claude.secrets]\nT = \"{value}\""),
        ] {
            env.config(&line);
            let output = env.jail(["--", "true"]);
            assert!(output.refused().contains("config.toml:"), "{line}: {output:#?}");
            assert!(!output.stderr.contains(value), "{line}: {output:#?}");
            let is_meant = line.starts_with("[secrets]\nT = { value") || line.starts_with("[secrets]\nT = [");
            assert!(
                !is_meant || output.stderr.contains("the value is not written here"),
                "{line}: {output:#?}"
            );
        }
    }
    env.config("");
    for args in [
        ["--env", "=hunter2"],
        ["--env", "HOME=hunter2"],
        ["--secret", "T=x,ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"],
        ["--secret", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"],
        ["--secret-file", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=a.test"],
        ["--env-file", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"],
    ] {
        let output = env.jail([args[0], args[1], "--", "true"]);
        output.refused();
        assert!(
            !output.stderr.contains("hunter2") && !output.stderr.contains(token),
            "{args:?}: {output:#?}"
        );
    }
}

#[test]
fn what_is_proposed_for_a_file_works_for_it() {
    let env = TestEnv::new();
    let token = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    for (name, content, secret, kept) in [
        (
            ".git-credentials",
            format!("https://longusername1234:{token}@a.test\n"),
            token,
            "https://longusername1234:ghp_",
        ),
        (
            ".netrc",
            format!("machine a.test login longusername1234 password {token}\n"),
            token,
            "login longusername1234 password ghp_",
        ),
        ("jwt", format!("{jwt}\n"), jwt, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0."),
    ] {
        let file = env.file(env.home().join(name), &content);
        env.config("[network]\nallow = [\"a.test\"]\n");
        let refused = env.jail(["--secret-file", &format!("{}=a.test", file.display()), "--", "true"]);
        let said = refused.refused().to_owned();
        let extract = said.split("extract = ").nth(1).and_then(|rest| rest.split('\'').nth(1));
        let keys = match extract {
            Some(extract) => format!("extract = '{extract}'"),
            None => "decode = \"jwt\"".to_owned(),
        };
        assert!(said.contains(&keys), "{said}");
        env.config(&format!("[network]\nallow = [\"a.test\"]\n[[secrets.files]]\npath = \"~/{name}\"\nhosts = [\"a.test\"]\n{keys}\n"));
        let shown = env.jail(["--", "cat", file.to_str().unwrap()]);
        assert!(shown.ok().contains(kept) && !shown.stdout.contains(secret), "{shown:#?}");
        assert_eq!(shown.stdout.len(), content.len(), "{shown:#?}");
    }
}

#[test]
fn a_secret_for_other_ports_than_those_that_are_allowed_is_told_with_these() {
    let env = TestEnv::new().var("TOKEN", KEY);
    let said = |args: &[&str]| warnings(&plan(&env, &[args, &["--", "true"]].concat()));
    let typed = said(&["--secret", "TOKEN=api.a.test", "--allow-host", "api.a.test:18443"]);
    assert!(typed.contains("bind it to those: --secret TOKEN=api.a.test:18443"), "{typed}");
    assert!(!typed.contains("allow it with"), "{typed}");
    assert_eq!(
        said(&["--secret", "TOKEN=api.a.test:18443", "--allow-host", "api.a.test:18443"]),
        "",
        "it does"
    );
    env.config("[secrets]\nTOKEN = { hosts = [\"api.a.test\"] }\n");
    let configured = said(&["--allow-host", "api.a.test:18443"]);
    assert!(configured.contains("bind it to those: hosts = [\"api.a.test:18443\"]"), "{configured}");
    for other in ["api.a.test:80", "b.test:18443"] {
        assert!(said(&["--allow-host", other]).contains("allow it with --allow-host api.a.test"), "{other}");
    }
}

#[test]
fn the_jail_is_told_of_real_credentials_that_it_has() {
    let env = TestEnv::new().var("GITHUB_TOKEN", KEY).var("OTHER_KEY", KEY);
    let about = |flags: &[&str]| {
        let output = env.jail(flags.iter().chain(&["--", "cat", "/run/ai-jail/about"]));
        output.ok().to_owned()
    };
    let real = about(&["--env", "GITHUB_TOKEN"]);
    assert!(real.contains("real secrets: ") && real.contains(" belong: GITHUB_TOKEN\n"), "{real}");
    assert!(!real.contains("none of the user's credentials") && !real.contains(KEY), "{real}");
    let both = about(&["--env", "GITHUB_TOKEN", "--secret", "OTHER_KEY=a.test", "--allow-host", "a.test"]);
    assert!(both.contains("GITHUB_TOKEN\n") && both.contains("OTHER_KEY: works at a.test"), "{both}");
    let none = about(&["--env", "LANG"]);
    assert!(
        none.contains("none of the user's credentials are here") && !none.contains("real secrets"),
        "{none}"
    );
}

#[test]
fn what_a_launch_refuses_is_refused_when_it_is_only_shown() {
    let env = TestEnv::new().var("TOKEN", KEY);
    env.file(env.home().join("key.json"), format!("{{\"a\": \"{KEY}\", \"b\": 1}}"));
    let home = env.home();
    let (json, gone) = (home.join("key.json"), home.join("gone"));
    let (json, gone) = (json.to_str().expect("UTF-8"), gone.to_str().expect("UTF-8"));
    for (flags, asked, why) in [
        (["--secret", "UNSET=a.test"].map(str::to_owned), "UNSET", "the secret UNSET has no value"),
        (["--secret-file".to_owned(), format!("{gone}=a.test")], gone, "there is no such file"),
        (["--secret-file".to_owned(), format!("{json}=a.test")], json, "cannot be masked"),
    ] {
        let flags = [flags[0].as_str(), &flags[1], "--allow-host", "a.test"];
        for (before, after) in [
            (&[][..], &["--", "true"][..]),
            (&["--dry-run"], &["--", "true"]),
            (&["--dry-run", "--json"], &["--", "true"]),
            (&["explain"], &[]),
            (&["explain"], &[asked]),
        ] {
            let output = env.jail([before, &flags[..], after].concat());
            assert!(
                output.refused().contains(why) && output.stdout.is_empty(),
                "{before:?} {asked}: {output:#?}"
            );
        }
        let other = env.jail([&["explain"], &flags[..], &["a.test"]].concat());
        assert!(other.ok().contains("a.test: allowed"), "{other:#?}");
    }
    // No command is run.
    env.config("[secrets]\nA = { hosts = [\"a.test\"], from = [\"touch\", \"ran\"], revoke = [\"touch\", \"ran\"] }\n");
    env.jail(["--dry-run", "--", "true"]).ok();
    env.jail(["explain", "A"]).ok();
    assert!(!env.project().join("ran").exists());
    // A file that is missing is named with the line that wants it.
    env.config("[[secrets.files]]\npath = \"~/gone\"\nhosts = [\"a.test\"]\n");
    let missing = env.jail(["--", "true"]);
    assert!(missing.refused().contains("config.toml:1"), "{missing:#?}");
}

#[test]
fn explain_says_of_a_variable_that_it_is_not_set_before_it_says_how_it_gets_in() {
    let env = TestEnv::new().var("GITHUB_TOKEN", KEY).var("EDITOR_X", "vi");
    for (name, want) in [
        (
            "GITHUB_TOKN",
            "it is not set here; did you mean GITHUB_TOKEN, which is?; to change it: set it, then --env GITHUB_TOKN",
        ),
        ("ZZ_KEY", "it is not set here; to change it: set it, then --secret ZZ_KEY=HOST"),
        ("GITHUB_TOKEN", "inherited variables; to change it: --secret GITHUB_TOKEN=api.github.com"),
        ("EDITOR_X", "inherited variables; to change it: --env EDITOR_X"),
    ] {
        let output = env.jail(["explain", name]);
        assert!(output.ok().contains(want), "{name}: {output:#?}");
    }
}

#[test]
fn the_jail_is_told_of_a_file_that_is_kept_out_with_what_keeps_it_out() {
    let env = TestEnv::new();
    env.file(env.home().join("there"), KEY);
    for name in ["there", "gone"] {
        env.config(&format!("[[secrets.files]]\npath = \"~/{name}\"\nmode = \"deny\"\n"));
        let output = env.jail(["--", "cat", "/run/ai-jail/about"]);
        let about = output.ok();
        let path = env.home().join(name);
        assert!(about.contains(&format!("[[secrets.files]]):\n  {}\n", path.display())), "{about}");
        assert!(!about.contains("--deny") && !about.contains("cannot be read, written"), "{about}");
    }
    let denied = env.jail(["--deny", "*.pem", "--", "cat", "/run/ai-jail/about"]);
    assert!(
        denied.ok().contains("change --deny or filesystem.deny):\n  what matches *.pem\n"),
        "{denied:#?}"
    );
}

#[test]
fn a_value_beyond_ascii_is_said_not_to_be_known_in_every_form() {
    let value = "p\u{e4}ssw\u{f6}rd-\u{fc}\u{f1}icode-1234567890abcdef";
    let env = TestEnv::new().var("ODD", value).var("TOKEN", KEY);
    env.file(env.home().join("odd"), value);
    let file = format!("{}=a.test", env.home().join("odd").display());
    for (flag, bound, is_odd) in [
        ("--secret", "ODD=a.test", true),
        ("--secret-file", file.as_str(), true),
        ("--secret", "TOKEN=a.test", false),
    ] {
        let output = env.jail([flag, bound, "--allow-host", "a.test", "--", "true"]);
        output.ok();
        let is_said = output.stderr.contains("has signs beyond ASCII")
            && output.stderr.contains("shows it to the jail");
        assert_eq!(is_said, is_odd, "{output:#?}");
        assert!(!output.stderr.contains("1234567890abcdef"), "{output:#?}");
    }
}

#[test]
fn a_slip_is_told_with_what_was_wrong() {
    let env = TestEnv::new().var("SSL_CERT_FILE", "/nonexistent/ca.pem");
    let directory = env.dir(env.home().join("keys"));
    for (args, want, not) in [
        (&["quarantine"][..], "quarantine list", "Show, bring back"),
        (&["--allow-host", "a.test,b.test", "--", "true"], "of several each is given by itself", "--secret"),
        (
            &["--env-file", directory.to_str().expect("UTF-8"), "--", "true"],
            "it is not a regular file",
            "chmod",
        ),
    ] {
        let output = env.jail(args);
        assert!(output.refused().contains(want) && !output.stderr.contains(not), "{args:?}: {output:#?}");
    }
    let missing = env.jail(["--", "true"]);
    assert!(
        missing.stderr.contains("SSL_CERT_FILE=/nonexistent/ca.pem cannot be used: there is no such file"),
        "{missing:#?}"
    );
}
