//! What a project that is not trusted may say.

use super::*;

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
