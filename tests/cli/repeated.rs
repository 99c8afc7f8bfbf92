//! What is typed is repeated in errors and answers, but never the value of a secret: a shell puts it where `$NAME` stands for
//! NAME.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::common::TestEnv;

/// One that looks like a token, and one that does not.
const VALUES: [&str; 2] = ["ghp_R3aLvAlUe0123456789ABCdefghijklmnop", "correct-horse-Battery9"];

#[test]
fn a_credential_of_the_environment_is_never_repeated() {
    let env = TestEnv::new().var("GITHUB_TOKEN", VALUES[0]).var("MY_PASSWORD", VALUES[1]);
    for value in VALUES {
        for words in [
            &["explain", "VALUE"][..],
            &["explain", "--json", "VALUE"],
            &["explain", "x VALUE"],
            &["explain", "VALUE.example.com"],
            &["explain", "./VALUE"],
            &["explain", "https://x:VALUE@h.test/x"],
            &["explain", "ftp://VALUE@h.test"],
            &["explain", "https://h.test:99999/VALUE"],
            &["explain", "https://h.test/VALUE?x"],
            &["explain", "https://h.test/?VALUE"],
            &["explain", "https://VALUE/"],
            &["explain", "GET https://h.test/VALUE"],
            &["explain", "VALUE https://h.test/"],
            &["explain", "--zzVALUE"],
            &["completions", "VALUE"],
            &["doctor", "VALUE"],
            &["--zzVALUE", "--", "true"],
            &["--json=VALUE", "--", "true"],
            &["--network", "VALUE", "true"],
            &["--profile", "VALUE", "true"],
            &["--state", "VALUE", "true"],
            &["--grant", "VALUE", "true"],
            &["--limit", "VALUE", "true"],
            &["--limit", "VALUE=5", "true"],
            &["--forward", "VALUE", "true"],
            &["--resolve", "h.test=VALUE", "true"],
            &["--allow-host", "https://x:VALUE@h.test", "true"],
            &["--allow-host", "VALUE", "--dry-run", "true"],
            &["--env", "VALUE", "--dry-run", "true"],
            &["--project", "VALUE", "true"],
            &["--ro", "VALUE", "--dry-run", "true"],
            &["--secret", "VALUE", "true"],
            &["--secret", "VALUE=h.test", "true"],
            &["--secret", "A=VALUE", "true"],
            &["--secret-file", "VALUE=h.test", "true"],
            &["--env-file", "VALUE", "true"],
            &["VALUE"],
        ] {
            let words: Vec<String> = words.iter().map(|word| word.replace("VALUE", value)).collect();
            let output = env.jail(&words);
            let said = format!("{}{}", output.stdout, output.stderr);
            for shown in [value.to_owned(), value.to_ascii_lowercase()] {
                assert!(!said.contains(&shown), "{words:?}: {said}");
            }
        }
    }
}

#[test]
fn a_secret_of_the_run_and_what_looks_like_one_is_not_repeated_however_its_variable_is_called() {
    let env = TestEnv::new().var("PW", VALUES[1]).var("PAT", VALUES[0]).var("SHELL_LEVEL", VALUES[1]);
    let secret: [&str; 2] = ["--secret", "PW=h.test"];
    for (bound, value) in [(&secret[..], VALUES[1]), (&["--secret=PW=h.test"], VALUES[1]), (&[], VALUES[0])] {
        for words in [
            &["--", "VALUE"][..],
            &["--", "/opt/VALUE"],
            &["--project", "VALUE", "--", "true"],
            &["--ro", "/x/VALUE", "--", "true"],
            &["--rw", "VALUE", "--", "true"],
            &["--ro", "/etc/hosts:/opt/x/../VALUE", "--", "true"],
            &["--socket", "/x/VALUE", "--", "true"],
            &["--env", "VALUE", "--dry-run", "--", "true"],
            &["--profile", "VALUE", "--", "true"],
            &["--env-file", "VALUE", "--", "true"],
        ] {
            let words: Vec<String> = words.iter().map(|word| word.replace("VALUE", value)).collect();
            let output = env.jail(bound.iter().copied().chain(words.iter().map(String::as_str)));
            let said = format!("{}{}", output.stdout, output.stderr);
            assert!(!said.contains(value), "{bound:?} {words:?}: {said}");
        }
    }
    let restored = env.jail(["quarantine", "restore", VALUES[0]]);
    assert!(!restored.stderr.contains(VALUES[0]), "{restored:#?}");
}

#[test]
fn what_only_looks_like_a_secret_is_not_repeated_either() {
    let env = TestEnv::new();
    for words in [
        &["explain", VALUES[0]][..],
        &["--network", VALUES[0], "true"],
        &["--grant", VALUES[0], "true"],
        &["completions", VALUES[0]],
    ] {
        let output = env.jail(words);
        let said = output.refused();
        assert!(!said.to_ascii_lowercase().contains("r3alvalue"), "{words:?}: {said}");
    }
    let asked = env.jail(["explain", VALUES[0]]);
    assert!(asked.refused().contains("ask about a variable by its name, without a `$`"), "{asked:#?}");
    // Names stay.
    let named = env.jail(["explain", "GITHUB_TOKEN_2024_SECOND", "d111111abcdef8.cloudfront.example"]);
    assert!(named.ok().contains("GITHUB_TOKEN_2024_SECOND: unset"), "{named:#?}");
    assert!(named.ok().contains("d111111abcdef8.cloudfront.example: denied"), "{named:#?}");
}

#[test]
fn the_value_of_a_secret_in_the_place_of_a_host_is_refused_and_not_repeated() {
    let env = TestEnv::new();
    for value in [
        "hunter2hunter2",
        "hunter2",
        "correcthorsebatterystaple",
        "abc-123-DEF-456",
        "Tr0ub4dor3xyz",
        "mysecretpassword1",
        "0a1b2c3d4e5f",
    ] {
        let env = TestEnv::new().var("PW", value).var("MY_TOKEN", "tiger-in-the-tank");
        env.file("../pw", format!("{value}\n"));
        env.file("../pw.json", format!("{{\"pw\": \"{value}\", \"user\": \"somebody\"}}"));
        let private = env.file("../pw.env", format!("FROM_FILE={value}\n"));
        fs::set_permissions(private, Permissions::from_mode(0o600)).expect("chmod");
        let pw = env.root().join("pw").display().to_string();
        let json = env.root().join("pw.json").display().to_string();
        let dotenv = env.root().join("pw.env").display().to_string();
        let refused = |words: &[&str], config: &str| {
            env.config(&config.replace("VALUE", value));
            let words: Vec<String> = words.iter().map(|word| word.replace("VALUE", value)).collect();
            for more in [&["--", "true"][..], &["--dry-run", "--", "true"]] {
                let output = env.jail(words.iter().map(String::as_str).chain(more.iter().copied()));
                let said = output.refused().to_ascii_lowercase();
                assert!(said.contains("secret where a host belongs"), "{words:?} {config}: {output:#?}");
                for kept in [&value.to_ascii_lowercase(), "tiger-in-the-tank"] {
                    assert!(!said.contains(kept), "{words:?} {config}: {said}");
                }
            }
        };
        let bound = ["--secret", "PW=api.example.com"];
        refused(&["--secret", "PW=VALUE"], "");
        refused(&["--secret", "PW=VALUE:8443", "--allow-host", "api.example.com"], "");
        refused(&["--secret", "PW=api.example.com,VALUE"], "");
        refused(&["--network", "off", "--secret", "PW=VALUE"], "");
        refused(&[&bound[..], &["--allow-host", "VALUE"]].concat(), "");
        refused(&[&bound[..], &["--deny-host", "VALUE"]].concat(), "");
        refused(&[&bound[..], &["--resolve", "VALUE=127.0.0.1"]].concat(), "");
        refused(&["--secret-file", &format!("{pw}=VALUE")], "");
        refused(&["--secret-file", &format!("{json}=VALUE")], "");
        refused(&["--env-file", &dotenv, "--secret", "FROM_FILE=VALUE"], "");
        refused(&["--allow-host", "tiger-in-the-tank"], "");
        refused(&[], "[secrets]\nPW = { hosts = [\"VALUE\"] }\n");
        refused(&[], "[secrets]\nPW = { mode = \"deny\" }\n[network]\nallow = [\"VALUE\"]\n");
        refused(&[], &format!("[[secrets.files]]\npath = \"{pw}\"\nhosts = [\"VALUE\"]\n"));
        refused(&bound, "[[network.http]]\nhost = \"VALUE\"\ndeny = [\"GET /\"]\n");
        // What is no host is refused where it is read.
        for (flags, config) in [
            (&["--secret", "PW=.VALUE"][..], ""),
            (&["--secret", "PW=VALUE:0"], ""),
            (&["--secret", "PW=http://VALUE"], ""),
            (&[], "[secrets]\nPW = { hosts = [\".VALUE\"] }\n"),
        ] {
            env.config(&config.replace("VALUE", value));
            let flags = flags.iter().map(|word| word.replace("VALUE", value)).chain(["true".to_owned()]);
            let said = env.jail(flags).refused().to_ascii_lowercase();
            assert!(value.len() < 8 || !said.contains(&value.to_ascii_lowercase()), "{said}");
        }
        // What is printed is known when it was printed, and what was wrong before that is not said first.
        env.config(&format!("[secrets]\nPRINTED = {{ from = [\"printf\", \"{value}\"] }}\n"));
        let printed = env.jail(["--secret", &format!("PRINTED={value}"), "--", "true"]);
        let said = printed.refused().to_ascii_lowercase();
        let is_long = value.len() >= 8;
        assert!(
            said.contains(if is_long { "secret where a host belongs" } else { "cannot be masked" }),
            "{said}"
        );
        assert!(!said.contains(&value.to_ascii_lowercase()), "{said}");
    }
    // What names a place is none.
    let env =
        env.var("KEYCLOAK_HOST", "sso.example.com").var("KEY_STORE", "localhost").var("MY_KEY", "example");
    env.jail(["--allow-host", "sso.example.com", "--dry-run", "--", "true"]).ok();
    env.jail(["--allow-host", "localhost", "--dry-run", "--", "true"]).ok();
}
