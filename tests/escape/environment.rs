//! Variables of the launcher, and limits that this machine cannot apply.

use super::common::TestEnv;
use super::run_inside;

/// The variables inside, as `NAME=VALUE`.
fn variables(env: &TestEnv, flags: &[&str]) -> Vec<String> {
    run_inside(env, flags, "env").ok().lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn the_policy_of_variables_is_applied_in_its_order() {
    let env = ["ACME_YES", "ACME_NOT", "ACME_NONE", "ACME_TOKEN", "OTHER_YES"]
        .iter()
        .fold(TestEnv::new(), |env, name| env.var(name, "host"));
    let policy = "[environment]\ninherit = \"all\"\n";
    let narrow = "exclude = [\"acme_no*\"]\ninclude_only = [\"acme_*\", \"PATH\"]\n";
    let set = "set = { ACME_NOT = \"set\", ACME_NEW = \"set\", OTHER_NEW = \"set\" }\n";
    let told = "ignore_default_excludes = true\n";
    let all = [
        "ACME_NEW=set",
        "ACME_NONE=host",
        "ACME_NOT=host",
        "ACME_NOT=set",
        "ACME_TOKEN=host",
        "ACME_YES=host",
    ];
    let others = ["OTHER_NEW=set", "OTHER_YES=host"];
    let cases: [(&[&str], &[&str]); 5] = [
        (&[policy], &["ACME_NONE=host", "ACME_NOT=host", "ACME_YES=host", "OTHER_YES=host"]),
        (
            &[policy, told],
            &["ACME_NONE=host", "ACME_NOT=host", "ACME_TOKEN=host", "ACME_YES=host", "OTHER_YES=host"],
        ),
        (
            &[policy, set],
            &[
                "ACME_NEW=set",
                "ACME_NONE=host",
                "ACME_NOT=set",
                "ACME_YES=host",
                "OTHER_NEW=set",
                "OTHER_YES=host",
            ],
        ),
        // What is excluded can be set, and what is set is dropped when it is not among those that are kept.
        (&[policy, narrow, set], &["ACME_NEW=set", "ACME_NOT=set", "ACME_YES=host"]),
        (&[policy, narrow, set, told], &["ACME_NEW=set", "ACME_NOT=set", "ACME_TOKEN=host", "ACME_YES=host"]),
    ];
    for (lines, wanted) in cases {
        env.config(&lines.concat());
        let inside = variables(&env, &[]);
        let found: Vec<&str> = all
            .iter()
            .chain(&others)
            .copied()
            .filter(|variable| inside.iter().any(|one| one == variable))
            .collect();
        assert_eq!(found, wanted, "{lines:?}: {inside:?}");
    }
}

#[test]
fn nothing_is_inherited_when_none_is_asked_for() {
    let env = TestEnv::new().var("TZ", "Asia/Tokyo").var("EDITOR", "acme-editor").var("LC_TIME", "C.UTF-8");
    let host = ["TZ=Asia/Tokyo", "EDITOR=acme-editor", "LC_TIME=C.UTF-8"];
    let has = |inside: &[String], variable: &str| inside.iter().any(|one| one == variable);
    let core = variables(&env, &[]);
    let none = variables(&env, &["--inherit-env", "none"]);
    for variable in host {
        assert!(has(&core, variable), "control: core has {variable}: {core:?}");
        assert!(!has(&none, variable), "{variable}: {none:?}");
    }
    // What the jail itself sets is there.
    assert!(has(&none, "AI_JAIL=1"), "{none:?}");
}

#[test]
fn a_limit_that_this_machine_cannot_apply_is_refused() {
    // The runtime directory of these tests has no systemd of the user's.
    let env = TestEnv::new();
    for limit in ["memory=256M", "pids=100", "cpu=50%"] {
        let output = env.jail(["--limit", limit, "--", "true"]);
        assert!(output.refused().contains("the user's systemd"), "{limit}: {output:#?}");
    }
    env.config("[limits]\npids = 100\n");
    assert!(env.jail(["--", "true"]).refused().contains("the user's systemd"));
}
