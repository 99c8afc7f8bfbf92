//! What a launch does without being asked, and says: registries that tools ask by default, what npm is told, keys that stay outside.

use serde_json::Value;

use crate::common::{SYSTEM_PATH, TestEnv};

const KEY: &str = "sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJ";
const NAMED: &str = "--env";
const AUDIT: &str = "npm's registry is for reading, and an audit sends it what is installed";

/// An environment with a program of each name, which does nothing.
fn with(programs: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    let bin = env.root().join("bin");
    for program in programs {
        env.script(bin.join(program), "true");
    }
    env.path(&format!("{}:{SYSTEM_PATH}", bin.display()))
}

fn plan(env: &TestEnv, args: &[&str]) -> Value {
    let output = env.jail(["--dry-run", "--json"].iter().chain(args));
    serde_json::from_str(output.ok()).unwrap_or_else(|error| panic!("{error}: {output:#?}"))
}

fn warnings(plan: &Value) -> Vec<String> {
    let list = plan["warnings"].as_array().expect("a list");
    list.iter().map(|warning| warning.as_str().expect("a sentence").to_owned()).collect()
}

/// Why a variable is inside, whatever the case of its name; of values the plan shows nothing.
fn variable(plan: &Value, name: &str) -> Option<String> {
    let variables = plan["environment"].as_array().expect("a list");
    let is_it =
        |variable: &&Value| variable["name"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name));
    let found: Vec<&str> = variables
        .iter()
        .filter(is_it)
        .map(|one| one["origin"]["what"].as_str().expect("an origin"))
        .collect();
    (!found.is_empty()).then(|| found.join(" and "))
}

#[test]
fn a_fresh_cargo_reaches_its_registry_and_a_mirrored_one_the_mirror() {
    let env = with(&["cargo"]);
    let explained = |host: &str| env.jail(["explain", host, "--", "true"]).ok().to_owned();
    for host in ["index.crates.io", "static.crates.io"] {
        let line = explained(host);
        assert!(line.contains("allowed") && line.contains("registry that cargo asks by default"), "{line}");
        assert!(line.contains("only GET /**, HEAD /**"), "it is for reading: {line}");
    }
    env.file(
        env.home().join(".cargo/config.toml"),
        "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://mirror.test/\"\n",
    );
    assert!(explained("index.crates.io").contains("denied"));
    assert!(explained("mirror.test").contains("allowed"));
}

#[test]
fn npm_sends_no_audit_where_its_registry_is_for_reading() {
    let audit = |env: &TestEnv, args: &[&str]| {
        variable(&plan(env, &[args, &["--", "true"]].concat()), "npm_config_audit")
    };
    let off = Some(AUDIT.to_owned());
    let registry = "registry=https://npm.corp.test/\n";

    let env = with(&[]);
    env.file(env.home().join(".npmrc"), registry);
    assert_eq!(audit(&env, &[]), off);
    assert_eq!(audit(&env, &["--allow-host", "npm.corp.test"]), None, "it may be asked anything");
    assert_eq!(audit(&env, &["--network", "open"]), None);
    assert_eq!(audit(&env, &["--env", "npm_config_audit=true"]).as_deref(), Some(NAMED));
    assert_eq!(audit(&env, &["--env", "NPM_CONFIG_AUDIT=true"]).as_deref(), Some(NAMED));
    env.file(env.home().join(".npmrc"), format!("{registry}audit=true\n"));
    assert_eq!(audit(&env, &[]), None, "the file says it");

    let env = with(&[]).var("npm_config_audit", "true").var("NPM_CONFIG_REGISTRY", "https://npm.corp.test/");
    assert_eq!(audit(&env, &[]), Some("the tool's own configuration".to_owned()));
    let env = with(&[]).var("NPM_CONFIG_REGISTRY", "https://npm.corp.test/");
    assert_eq!(audit(&env, &[]), off);
}

#[test]
fn a_key_of_the_agents_that_stays_outside_is_named_with_the_way_in() {
    let env = with(&["claude"]).var("ANTHROPIC_API_KEY", KEY);
    for (args, why) in [
        (&["--network", "open"][..], "the network is open (--network), where nobody can put the real one in"),
        (
            &["--profile", "devbox"],
            "the network is open (built in (profile devbox)), where nobody can put the real one in",
        ),
        (&["--network", "off"], "the network is off (--network), where it works nowhere"),
    ] {
        let about = |said: &[String]| {
            said.iter().filter(|line| line.contains("ANTHROPIC_API_KEY")).cloned().collect::<Vec<_>>()
        };
        let without = plan(&env, &[args, &["claude"]].concat());
        let said = about(&warnings(&without));
        assert_eq!(said.len(), 1, "{args:?}: {said:?}");
        for part in ["is set, and the jail does not have it", why, "--env ANTHROPIC_API_KEY"] {
            assert!(said[0].contains(part), "{args:?}: {part}: {said:?}");
        }
        assert_eq!(variable(&without, "ANTHROPIC_API_KEY"), None, "{args:?}");
        let asked = [&["explain"], args, &["ANTHROPIC_API_KEY", "--", "claude"]].concat();
        let explained = env.jail(asked);
        for part in ["unset; it is the agent's own key, and ", why, "to change it: --env ANTHROPIC_API_KEY"] {
            assert!(explained.ok().contains(part), "{args:?}: {part}: {explained:#?}");
        }
        let with = plan(&env, &[args, &["--env", "ANTHROPIC_API_KEY", "claude"]].concat());
        assert_eq!(variable(&with, "ANTHROPIC_API_KEY").as_deref(), Some(NAMED), "{args:?}");
        assert_eq!(about(&warnings(&with)), Vec::<String>::new(), "{args:?}");
    }
    let other = plan(&env, &["--network", "open", "--", "true"]);
    assert!(!warnings(&other).concat().contains("ANTHROPIC_API_KEY"), "it is no other command's key");
}
