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
fn a_project_may_tighten() {
    let loose = "[filesystem]\nprotect = false\n[environment]\ninherit = \"all\"\nignore_default_excludes = true\n\
                 [limits]\npids = 100\n[log]\nsummary = false\n[network]\nmode = \"open\"\n\
                 [terminal]\nfilter = false\nclipboard_write = true\nimages = true";
    let project = "[filesystem]\nprotect = true\n[home]\nmode = \"ephemeral\"\nstate = \"none\"\ntoolchains = false\n\
                   [environment]\ninherit = \"none\"\nignore_default_excludes = false\ninclude_only = [\"A*\"]\n\
                   [network]\nmode = \"filtered\"\nagent_hosts = false\n[limits]\npids = 50\nmemory = \"1G\"\n\
                   [log]\nrequired = true\nsummary = true\n\
                   [terminal]\nfilter = true\nclipboard_write = false\nimages = false\ntitle = false";
    let settings = Case { user: loose, project, ..Case::default() }.settings();
    assert_eq!(settings.protect.value, Protect::Enforce);
    assert_eq!(settings.home.value, HomeMode::Ephemeral);
    assert_eq!(settings.state.value, StateMode::None);
    assert_eq!(settings.inherit.value, Inherit::None);
    assert_eq!(settings.network.value, NetworkMode::Filtered);
    assert_eq!(settings.limits.pids.map(|pids| pids.value), Some(50));
    assert_eq!(settings.limits.memory.map(|memory| memory.value), Some(1 << 30));
    assert_eq!(settings.env_include_only.len(), 1);
    assert!(
        !settings.toolchains.value && !settings.ignore_default_excludes.value && !settings.agent_hosts.value
    );
    assert!(settings.log_required.value && settings.summary.value);
    assert_eq!(settings.terminal.filter.value, TerminalFilter::Enforce);
    for class in [Class::ClipboardWrite, Class::Image, Class::Title] {
        let switch = &settings.terminal.passes[&class];
        assert_eq!((switch.value, switch.origin.layer), (false, Layer::Project), "{class}");
    }
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
fn the_command_line_overrules_what_a_project_tightened() {
    let project = "[network]\nmode = \"off\"\n[home]\nmode = \"ephemeral\"\n[limits]\npids = 50";
    let overruled = options(|o| {
        o.network = Some(NetworkMode::Open);
        o.limit = vec!["pids=500".into()];
    });
    let env: &[_] = &[("AI_JAIL_NETWORK", "open"), ("AI_JAIL_HOME", "persistent")];
    let settings = Case { project, options: overruled, env, ..Case::default() }.settings();
    assert_eq!(settings.network.value, NetworkMode::Open);
    assert_eq!(settings.limits.pids.map(|pids| pids.value), Some(500));
    assert_eq!(settings.home.value, HomeMode::Ephemeral, "a variable is not the command line");
}

#[test]
fn nothing_that_a_project_loosens_has_any_effect() {
    // The user's file, what the project tries, and the key that the warning names.
    let cases = [
        ("profile = \"strict\"", "profile = \"devbox\"", "profile"),
        ("profile = \"read-only\"", "profile = \"workspace\"", "profile"),
        ("profile = \"read-only\"", "profile = \"strict\"", "profile"),
        ("", "[filesystem]\nread_only = [\"/home/me/.ssh\"]", "filesystem.read_only"),
        ("", "[filesystem]\nread_write = [\"/home/me\"]", "filesystem.read_write"),
        ("", "[filesystem]\nread_write = [\"..\"]", "filesystem.read_write"),
        ("[home]\nmode = \"ephemeral\"", "[home]\nmode = \"persistent\"", "home.mode"),
        ("[home]\nstate = \"none\"", "[home]\nstate = \"jail\"", "home.state"),
        ("", "[home]\nstate = \"shared\"", "home.state"),
        ("[home]\ntoolchains = false", "[home]\ntoolchains = true", "home.toolchains"),
        ("", "[home]\ncaches = \"shared\"", "home.caches"),
        ("", "[environment]\ninherit = \"all\"", "environment.inherit"),
        ("[environment]\ninherit = \"none\"", "[environment]\ninherit = \"core\"", "environment.inherit"),
        ("", "[environment]\nignore_default_excludes = true", "environment.ignore_default_excludes"),
        (
            "[environment]\ninclude_only = [\"A*\"]",
            "[environment]\ninclude_only = [\"*\"]",
            "environment.include_only",
        ),
        ("", "[environment]\nset = { ANTHROPIC_BASE_URL = \"https://evil.example\" }", "environment.set"),
        ("", "[environment]\nset = { LD_PRELOAD = \"./x.so\" }", "environment.set"),
        (
            "[environment]\nset = { A = \"mine\" }",
            "[environment]\nset = { A = \"theirs\" }",
            "environment.set",
        ),
        ("", "[network]\nmode = \"open\"", "network.mode"),
        ("[network]\nmode = \"off\"", "[network]\nmode = \"filtered\"", "network.mode"),
        ("", "[network]\nallow = [\"evil.example\"]", "network.allow"),
        ("[network]\nagent_hosts = false", "[network]\nagent_hosts = true", "network.agent_hosts"),
        ("[limits]\nmemory = \"1G\"", "[limits]\nmemory = \"2G\"", "limits.memory"),
        ("[limits]\npids = 10", "[limits]\npids = 11", "limits.pids"),
        ("[limits]\ncpu = \"100%\"", "[limits]\ncpu = \"200%\"", "limits.cpu"),
        ("[limits]\nfiles = 10", "[limits]\nfiles = 11", "limits.files"),
        ("[limits]\ntime = \"1h\"", "[limits]\ntime = \"2h\"", "limits.time"),
        ("[log]\nrequired = true", "[log]\nrequired = false", "log.required"),
        ("", "[log]\nsummary = false", "log.summary"),
        ("", "[terminal]\nnotifications = true", "terminal.notifications"),
        ("", "[terminal]\nimages = true", "terminal.images"),
        ("", "[terminal]\ncwd = true", "terminal.cwd"),
        ("[terminal]\ntitle = false", "[terminal]\ntitle = true", "terminal.title"),
        ("[terminal]\nhyperlinks = false", "[terminal]\nhyperlinks = true", "terminal.hyperlinks"),
        ("[terminal]\nshell_marks = false", "[terminal]\nshell_marks = true", "terminal.shell_marks"),
        ("[terminal]\ncolours = false", "[terminal]\ncolours = true", "terminal.colours"),
        ("[terminal]\nprogress = false", "[terminal]\nprogress = true", "terminal.progress"),
        ("", "[agents.claude]\nnetwork.allow = [\"evil.example\"]", "network.allow"),
        (
            "[agents.claude]\nnetwork.mode = \"off\"",
            "[agents.claude]\nnetwork.mode = \"open\"",
            "network.mode",
        ),
    ];
    for (user, project, key) in cases {
        let agent = Some("claude");
        let without = Case { user, agent, ..Case::default() }.settings();
        let with = Case { user, project, agent, ..Case::default() }.settings();
        let line = if project.contains('\n') { 2 } else { 1 };
        assert_eq!(
            with.warnings,
            [format!(
                "ignored {key} (line {line}) of the project's configuration; a project that is not trusted may only \
                 tighten, and `ai-jail trust` is not in this version yet; set them in your own configuration or on \
                 the command line"
            )],
            "{project}"
        );
        assert_eq!(values(with), values(without), "{project}");
    }
}

#[test]
fn some_keys_are_never_a_projects() {
    let cases = [
        ("[filesystem]\nprotect = false", "filesystem.protect (line 2)"),
        ("[environment]\npass = [\"SSH_AUTH_SOCK\", \"CI\"]", "environment.pass (line 2)"),
        ("[network]\nallow_private = [\"git.corp.example\"]", "network.allow_private (line 2)"),
        ("[network]\nresolve = { \"api.anthropic.com\" = \"192.0.2.1\" }", "network.resolve (line 2)"),
        ("[terminal]\nfilter = false", "terminal.filter (line 2)"),
        ("[terminal]\nclipboard_write = true", "terminal.clipboard_write (line 2)"),
        ("weaker_nested = true", "weaker_nested (line 1)"),
        (
            "weaker_nested = true\n[filesystem]\nprotect = false",
            "filesystem.protect (line 3), weaker_nested (line 1)",
        ),
    ];
    for (project, list) in cases {
        let with = Case { project, ..Case::default() }.settings();
        assert_eq!(
            with.warnings,
            [format!(
                "ignored {list} of the project's configuration; a project may never set these; set them in your own \
                 configuration or on the command line"
            )],
            "{project}"
        );
        assert_eq!(values(with), values(Case::default().settings()), "{project}");
    }
}

#[test]
fn all_loosening_keys_of_a_project_are_named_in_one_line() {
    let project = "[network]\nmode = \"open\"\nallow = [\"a.example\", \"b.example\"]\n[filesystem]\nread_write = [\"/\"]";
    let warnings = Case { project, ..Case::default() }.settings().warnings;
    assert_eq!(warnings.len(), 1);
    for part in
        ["filesystem.read_write (line 5)", "network.allow (line 3)", "network.mode (line 2)", "ai-jail trust"]
    {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
}

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
fn in_strict_only_hosts_of_the_command_line_count() {
    let settings = Case {
        user: "[network]\nallow = [\"a.example\"]",
        options: options(|o| {
            o.profile = Some(Profile::Strict);
            o.allow_host = vec!["b.example".into()];
        }),
        ..Case::default()
    }
    .settings();
    assert_eq!(settings.allow.len(), 1);
    assert_eq!(settings.allow[0].origin, Origin::flag("--allow-host"));
    assert_eq!(
        settings.warnings,
        [
            "profile strict: ignored network.allow (line 2) of the configuration; it cannot widen this profile; what the \
             profile allows can be named on the command line"
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
