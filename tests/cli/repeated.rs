//! What is typed is repeated in errors and answers, but never the value of a secret: a shell puts it where `$NAME` stands for
//! NAME.

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
