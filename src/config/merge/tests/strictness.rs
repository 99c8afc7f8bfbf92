//! What counts in `strict` and `lockdown`.

use super::*;

#[test]
fn the_user_configuration_cannot_widen_lockdown() {
    let cases = [
        "[filesystem]\nread_write = [\"/data\"]",
        "[filesystem]\nread_only = [\"/data\"]",
        "[filesystem]\nprotect = false",
        "[home]\nmode = \"persistent\"",
        "[home]\nstate = \"jail\"",
        "[home]\nstate = \"shared\"",
        "[home]\ncaches = \"shared\"",
        "[home]\ntoolchains = true",
        "[environment]\ninherit = \"all\"",
        "[environment]\nignore_default_excludes = true",
        "[environment]\nset = { A = \"1\" }",
        "[environment]\npass = [\"SSH_AUTH_SOCK\"]",
        "[network]\nmode = \"open\"",
        "[network]\nallow = [\"a.example\"]",
        "[network]\nallow_private = [\"a.example\"]",
        "[network]\nresolve = { \"a.example\" = \"192.0.2.1\" }",
        "[log]\nsummary = false",
        "weaker_nested = true",
        "[agents.claude]\nnetwork.mode = \"open\"",
    ];
    for user in cases {
        let lockdown = || options(|o| o.lockdown = true);
        let agent = Some("claude");
        let with = Case { user, agent, options: lockdown(), ..Case::default() }.settings();
        let without = Case { agent, options: lockdown(), ..Case::default() }.settings();
        assert_eq!(with.warnings.len(), 1, "{user}: {:?}", with.warnings);
        assert_eq!(values(with), values(without), "{user}");
    }
    for env in [&[("AI_JAIL_NETWORK", "open")][..], &[("AI_JAIL_HOME", "persistent")]] {
        let case =
            Case { env, agent: Some("claude"), options: options(|o| o.lockdown = true), ..Case::default() };
        let settings = case.settings();
        assert_eq!(
            (settings.network.value, settings.home.value),
            (NetworkMode::Filtered, HomeMode::Ephemeral)
        );
    }
}

#[test]
fn the_user_configuration_can_tighten_lockdown() {
    let user = "[network]\nmode = \"off\"\ndeny = [\"a.example\"]\n[limits]\nmemory = \"1G\"\n[log]\nrequired = true";
    let settings =
        Case { user, agent: Some("claude"), options: options(|o| o.lockdown = true), ..Case::default() }
            .settings();
    assert_eq!((settings.network.value, settings.deny.len()), (NetworkMode::Off, 1));
    assert!(settings.log_required.value && settings.limits.memory.is_some() && settings.warnings.is_empty());
}

#[test]
fn lockdown_takes_hosts_variables_and_state_of_the_command_line_only() {
    let settings = Case {
        options: options(|o| {
            o.lockdown = true;
            o.allow_host = vec!["a.example".into()];
            o.env = vec!["CI".into()];
            o.state = Some(StateMode::Jail);
        }),
        ..Case::default()
    }
    .settings();
    assert_eq!((settings.allow.len(), settings.env.len()), (1, 1));
    assert_eq!((settings.network.value, settings.state.value), (NetworkMode::Filtered, StateMode::Jail));
    let lockdown = || options(|o| o.lockdown = true);
    let refused = [
        (RunOptions { ro: vec!["/data".into()], ..lockdown() }, "--ro /data"),
        (RunOptions { rw: vec!["/data".into()], ..lockdown() }, "--rw /data"),
        (RunOptions { network: Some(NetworkMode::Open), ..lockdown() }, "--network open"),
        (RunOptions { home: Some(HomeMode::Persistent), ..lockdown() }, "--home persistent"),
        (RunOptions { inherit_env: Some(Inherit::All), ..lockdown() }, "--inherit-env all"),
    ];
    for (options, what) in refused {
        let error = Case { options, ..Case::default() }.merge().unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
        assert_eq!(
            error.to_string(),
            format!(
                "{what} does not go with the profile lockdown; nothing widens that profile but hosts, ports, variables and \
                 --state of the command line; leave it out, or use --profile strict"
            )
        );
    }
}

#[test]
fn in_strict_only_hosts_and_ports_of_the_command_line_count() {
    let settings = Case {
        user: "[network]\nallow = [\"a.example\"]\nforward = [1]\npublish = [2]",
        options: options(|o| {
            o.profile = Some(Profile::Strict);
            o.allow_host = vec!["b.example".into()];
            o.forward = vec!["5432".into()];
            o.publish = vec!["3000".into()];
        }),
        ..Case::default()
    }
    .settings();
    assert_eq!(settings.allow.len(), 1);
    assert_eq!(settings.allow[0].origin, Origin::flag("--allow-host"));
    assert_eq!(settings.forward, [Sourced::new(5432, Origin::flag("--forward"))]);
    assert_eq!(settings.publish, [Sourced::new(3000, Origin::flag("--publish"))]);
    assert_eq!(
        settings.warnings,
        [
            "profile strict: ignored network.allow (line 2), network.forward (line 3), network.publish (line 4) of the configuration; it cannot widen this profile; what the \
             profile allows can be named on the command line"
        ]
    );
}
