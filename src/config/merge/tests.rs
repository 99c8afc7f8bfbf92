mod project;
mod secrets;
mod strictness;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::*;
use crate::config::schema;
use crate::config::settings::{EnvValue, StateMode, TerminalFilter};
use crate::config::values::Base;
use crate::terminal::Class;

#[derive(Default)]
struct Case {
    user: &'static str,
    project: &'static str,
    options: RunOptions,
    env: &'static [(&'static str, &'static str)],
    agent: Option<&'static str>,
    command: Option<&'static str>,
}

impl Case {
    fn merge(&self) -> Result<Settings> {
        let home = Path::new("/home/me");
        let file = |text: &str, layer, path, relative| {
            (!text.is_empty())
                .then(|| schema::parse(text, Path::new(path), layer, Base { relative, home }).unwrap())
        };
        let files = Files {
            user: file(self.user, Layer::User, "/u.toml", None),
            project: file(self.project, Layer::Project, "/p/.ai-jail.toml", Some(Path::new("/p"))),
        };
        let lookup = |name: &str| {
            self.env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        merge(&Layers {
            options: &self.options,
            env: &EnvScalars::read(lookup, self.env.iter().map(|(name, _)| OsStr::new(*name)))?,
            files: &files,
            agent: self.agent,
            command: self.command,
            cwd: Path::new("/p/sub"),
            home,
        })
    }

    fn settings(&self) -> Settings {
        self.merge().unwrap()
    }
}

fn options(change: impl FnOnce(&mut RunOptions)) -> RunOptions {
    let mut options = RunOptions::default();
    change(&mut options);
    options
}

/// Everything but the warnings, as text: two equal ones came from equal settings, origins included.
fn values(mut settings: Settings) -> String {
    settings.warnings.clear();
    format!("{settings:#?}")
}

#[test]
fn without_any_layer_the_profile_decides() {
    use HomeMode::{Ephemeral, Persistent};
    use NetworkMode::{Filtered, Off, Open};
    let cases = [
        (Profile::Workspace, Persistent, StateMode::Jail, Filtered, true),
        (Profile::ReadOnly, Persistent, StateMode::Jail, Filtered, true),
        (Profile::Strict, Ephemeral, StateMode::None, Filtered, false),
        (Profile::Lockdown, Ephemeral, StateMode::None, Off, false),
        (Profile::Devbox, Persistent, StateMode::Shared, Open, true),
    ];
    for (profile, home, state, network, toolchains) in cases {
        let settings = Case { options: options(|o| o.profile = Some(profile)), ..Case::default() }.settings();
        assert_eq!(settings.profile, Sourced::new(profile, Origin::flag("--profile")));
        assert_eq!(
            (settings.home.value, settings.state.value, settings.network.value, settings.toolchains.value),
            (home, state, network, toolchains),
            "{profile:?}"
        );
        assert_eq!(settings.network.origin, Origin::built_in(format!("profile {}", profile.word())));
        assert_eq!(settings.protect.value, Protect::Enforce);
        assert_eq!(settings.inherit.value, Inherit::Core);
        assert!(settings.summary.value && !settings.weaker_nested.value && settings.warnings.is_empty());
    }
    let settings = Case::default().settings();
    assert_eq!(settings.profile, Sourced::new(Profile::Workspace, Origin::built_in("default")));
}

#[test]
fn the_profile_comes_from_flag_then_variable_then_files() {
    let strict = options(|o| o.profile = Some(Profile::Strict));
    let devbox = options(|o| o.profile = Some(Profile::Devbox));
    let lockdown = options(|o| o.lockdown = true);
    let user = "profile = \"read-only\"";
    let env: &[_] = &[("AI_JAIL_PROFILE", "devbox")];
    let cases = [
        (Case { options: strict, user, env, ..Case::default() }, Profile::Strict),
        (Case { options: lockdown, user, env, ..Case::default() }, Profile::Lockdown),
        (Case { user, env, ..Case::default() }, Profile::Devbox),
        (Case { user, ..Case::default() }, Profile::ReadOnly),
        (Case { user, project: "profile = \"lockdown\"", ..Case::default() }, Profile::Lockdown),
        (Case { user, project: "profile = \"workspace\"", ..Case::default() }, Profile::ReadOnly),
        (Case { user, project: "profile = \"strict\"", ..Case::default() }, Profile::ReadOnly),
        (Case { project: "profile = \"strict\"", ..Case::default() }, Profile::Strict),
        (Case { project: "profile = \"devbox\"", ..Case::default() }, Profile::Workspace),
        (Case { options: devbox, project: "profile = \"strict\"", ..Case::default() }, Profile::Devbox),
        (Case { env, project: "profile = \"strict\"", ..Case::default() }, Profile::Devbox),
    ];
    for (at, (case, want)) in cases.into_iter().enumerate() {
        assert_eq!(case.settings().profile.value, want, "case {at}");
    }
}

#[test]
fn a_higher_layer_beats_a_lower_one() {
    let user = "[network]\nmode = \"off\"\n[home]\nmode = \"ephemeral\"\n[agents.claude]\nhome.mode = \"persistent\"";
    let env: &[_] = &[("AI_JAIL_NETWORK", "filtered")];
    let case = Case { user, ..Case::default() };
    assert_eq!(case.settings().network.value, NetworkMode::Off);
    assert_eq!(case.settings().home.value, HomeMode::Ephemeral);
    let case = Case { user, env, agent: Some("claude"), ..Case::default() };
    assert_eq!(case.settings().network.value, NetworkMode::Filtered);
    assert_eq!(case.settings().network.origin.to_string(), "AI_JAIL_NETWORK");
    assert_eq!(case.settings().home.origin.to_string(), "/u.toml:6 (home.mode)");
    let case =
        Case { user, env, options: options(|o| o.network = Some(NetworkMode::Open)), ..Case::default() };
    assert_eq!(case.settings().network, Sourced::new(NetworkMode::Open, Origin::flag("--network")));
}

#[test]
fn the_tables_of_an_agent_are_for_that_command_only() {
    let user = "[agents.claude]\nnetwork.allow = [\"a.example\"]\n[agents.npx]\nnetwork.allow = [\"b.example\", \"c.example\"]";
    for (agent, command, want) in [
        (Some("claude"), Some("claude"), 1),
        (Some("codex"), Some("codex"), 0),
        (None, Some("npx"), 2),
        (None, Some("make"), 0),
        (None, None, 0),
    ] {
        let case = Case { user, agent, command, ..Case::default() };
        assert_eq!(case.settings().allow.len(), want, "{agent:?} {command:?}");
    }
}

#[test]
fn lists_of_all_trusted_layers_are_joined() {
    let case = Case {
        user: "[filesystem]\nread_only = [\"/data\"]\n[network]\nallow = [\"a.example\"]\ndeny = [\"b.example\"]\n\
               [environment]\npass = [\"CI\"]\nset = { A = \"file\" }",
        project: "[network]\ndeny = [\"c.example\"]\n[environment]\nexclude = [\"X*\"]",
        options: options(|o| {
            o.ro = vec!["x".into()];
            o.allow_host = vec!["d.example".into()];
            o.deny_host = vec!["e.example".into()];
            o.env = vec!["A=flag".into()];
            o.project = Some("..".into());
        }),
        ..Case::default()
    };
    let settings = case.settings();
    let sources: Vec<_> = settings.read_only.iter().map(|grant| grant.value.source.clone()).collect();
    assert_eq!(sources, [PathBuf::from("/data"), PathBuf::from("/p/sub/x")]);
    assert_eq!((settings.allow.len(), settings.deny.len()), (2, 3));
    assert_eq!(settings.env["A"].value, EnvValue::Set("flag".to_owned()));
    assert_eq!(settings.env["CI"].value, EnvValue::Pass);
    assert_eq!(settings.env_exclude[0].origin.to_string(), "/p/.ai-jail.toml:4 (environment.exclude)");
    assert_eq!(settings.project.unwrap().value, Path::new("/p/sub/.."));
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn the_terminal_is_the_users_to_open_but_in_lockdown() {
    let user = "[terminal]\nfilter = false\nclipboard_write = true\ntitle = false\n[agents.claude]\n\
                terminal.notifications = true";
    let passing = |settings: &Settings| {
        let classes = crate::policy::terminal::classes(&settings.terminal);
        let keys = Class::SWITCHES.into_iter().filter(|(_, class)| classes.allows(*class));
        (classes.is_filtered(), keys.map(|(key, _)| key).collect::<Vec<_>>())
    };
    let default = vec!["title", "hyperlinks", "colours", "progress", "shell_marks"];
    assert_eq!(passing(&Case::default().settings()), (true, default.clone()));

    let settings = Case { user, ..Case::default() }.settings();
    assert_eq!(passing(&settings), (false, default));
    let told = crate::policy::terminal::weaker(&settings.terminal).unwrap();
    assert!(told.starts_with("the terminal filter is off (/u.toml:2 (terminal.filter)): "), "{told}");

    let user = user.trim_start_matches("[terminal]\nfilter = false\n");
    let user: &'static str = format!("[terminal]\n{user}").leak();
    let open = vec!["hyperlinks", "colours", "progress", "shell_marks", "clipboard_write"];
    assert_eq!(passing(&Case { user, ..Case::default() }.settings()), (true, open));
    let settings = Case { user, agent: Some("claude"), ..Case::default() }.settings();
    assert!(passing(&settings).1.contains(&"notifications"));
    assert_eq!(crate::policy::terminal::weaker(&settings.terminal), None);

    let lockdown = options(|options| options.lockdown = true);
    let settings = Case { user, options: lockdown, agent: Some("claude"), ..Case::default() }.settings();
    assert_eq!(passing(&settings), (true, vec!["hyperlinks", "colours", "progress", "shell_marks"]));
    assert_eq!(
        settings.warnings,
        [
            "profile lockdown: ignored terminal.clipboard_write (line 2), terminal.notifications (line 5) of the \
          configuration; it cannot widen this profile; what the profile allows can be named on the command line"
        ]
    );
}

#[test]
fn things_of_the_machine_come_from_the_user_alone_and_the_higher_layer_has_the_last_word() {
    let granted = |case: &Case| {
        let settings = case.settings();
        let things: Vec<&str> = settings.things.values().flatten().map(|thing| thing.value.word()).collect();
        (things.join(" "), settings.sockets.len(), settings.warnings.join("; "))
    };
    let user =
        "[grants]\ndocker = true\nkvm = true\nsockets = [\"/a\"]\n[agents.codex.grants]\ndocker = false\n";
    let all = "[grants]\ndocker = false\ndbus = true\nsockets = [\"/b\"]\n";
    let typed = |profile| options(|o| (o.grant, o.profile) = (vec![Thing::Docker], Some(profile)));
    let case = |user, project, options, agent| Case { user, project, options, agent, ..Case::default() };
    assert_eq!(
        granted(&case(user, "", RunOptions::default(), None)),
        ("docker kvm".into(), 1, String::new())
    );
    assert_eq!(granted(&case(user, "", RunOptions::default(), Some("codex"))).0, "kvm");
    assert_eq!(granted(&case(user, "", typed(Profile::Workspace), Some("codex"))).0, "docker kvm");
    let (things, sockets, warnings) = granted(&case(user, all, RunOptions::default(), None));
    assert_eq!((things.as_str(), sockets), ("kvm", 1));
    assert!(warnings.contains("grants.dbus") && warnings.contains("grants.sockets"), "{warnings}");
    assert!(warnings.contains("a project may never set these"), "{warnings}");
    let (things, sockets, warnings) = granted(&case(user, "", typed(Profile::Strict), None));
    assert_eq!((things.as_str(), sockets), ("docker", 0));
    assert!(warnings.contains("grants.kvm") && warnings.contains("grants.sockets"), "{warnings}");
    let lockdown = options(|o| o.lockdown = true);
    assert_eq!((granted(&case(user, "", lockdown, None)).0.as_str()), "");
    assert_eq!(case("", "", typed(Profile::Lockdown), None).merge().unwrap_err().kind(), Kind::Refused);
}
