//! Secrets, inspection and HTTP rules: the user's alone, but for HTTP rules, which only tighten.

use super::*;
use crate::config::settings::{Ech, Inspect};
use crate::policy::bindings::SecretMode;

const NEVER: &str = "ignored {} of the project's configuration; a project may never set these; set them in your own \
                     configuration or on the command line";

#[test]
fn a_project_has_no_say_about_secrets_and_inspection() {
    let cases = [
        ("[secrets]\nGITHUB_TOKEN = { hosts = [\"evil.example\"] }", "secrets.GITHUB_TOKEN (line 2)"),
        ("[secrets]\nGITHUB_TOKEN = { mode = \"deny\" }", "secrets.GITHUB_TOKEN (line 2)"),
        (
            "[secrets]\nT = { hosts = [\"e.example\"], from = [\"sh\", \"-c\", \"touch /tmp/x\"] }",
            "secrets.T (line 2)",
        ),
        (
            "[secrets]\nT = { from = [\"./x\"] }\nU = { revoke = [\"./x\"] }",
            "secrets.T (line 2), secrets.U (line 3)",
        ),
        ("[[secrets.files]]\npath = \"x.json\"\nhosts = [\"evil.example\"]", "secrets.files (line 1)"),
        ("[network]\ninspect = \"all\"", "network.inspect (line 2)"),
        ("[agents.claude.secrets]\nT = { hosts = [\"evil.example\"] }", "secrets.T (line 2)"),
    ];
    for (project, list) in cases {
        for user in ["", "[secrets]\nGITHUB_TOKEN = { hosts = [\"github.com\"] }"] {
            let agent = Some("claude");
            let with = Case { user, project, agent, ..Case::default() }.settings();
            assert_eq!(with.warnings, [NEVER.replace("{}", list)], "{project}");
            assert_eq!(values(with), values(Case { user, agent, ..Case::default() }.settings()), "{project}");
        }
    }
}

#[test]
fn a_project_may_not_let_hidden_names_pass_and_may_refuse_them() {
    let with = Case { project: "[network]\nech = \"allow\"", ..Case::default() }.settings();
    assert_eq!((with.ech.value, with.warnings.len()), (Ech::Refuse, 1));
    let user = "[network]\nech = \"allow\"\ninspect = \"all\"";
    let with = Case { user, project: "[network]\nech = \"refuse\"\ninspect = \"needed\"", ..Case::default() }
        .settings();
    assert_eq!((with.ech.value, with.inspect.value), (Ech::Refuse, Inspect::All));
    assert_eq!(with.warnings, [NEVER.replace("{}", "network.inspect (line 3)")]);
}

#[test]
fn http_rules_of_all_layers_are_kept_with_their_layer() {
    let user = "[[network.http]]\nhost = \"a.test\"\nallow = [\"GET /**\"]\n[[agents.claude.network.http]]\nhost = \"b.test\"\ndeny = [\"* /x\"]";
    let project = "[[network.http]]\nhost = \"a.test\"\nallow = [\"POST /**\"]";
    let settings = Case { user, project, agent: Some("claude"), ..Case::default() }.settings();
    let layers: Vec<_> = settings.http.iter().map(|rules| rules.origin.layer).collect();
    assert_eq!(layers, [Layer::User, Layer::User, Layer::Project]);
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn secrets_of_files_and_flags_are_one_table() {
    let user = "[secrets]\nA = { hosts = [\"a.test\"], from = [\"x\"] }\nB = { mode = \"deny\" }\n\
                [agents.claude.secrets]\nA = { in = [\"basic\"] }";
    let typed = options(|o| {
        o.secret = vec!["A=b.test".into(), "C=c.test".into()];
        o.secret_file = vec!["f=c.test".into()];
        o.env_file = vec!["/e".into()];
    });
    let settings = Case { user, agent: Some("claude"), options: typed, ..Case::default() }.settings();
    let a = &settings.secrets["A"];
    assert_eq!(a.hosts.as_ref().unwrap()[0].to_string(), "b.test");
    assert!(a.from.is_some() && a.places.is_some());
    assert_eq!((a.mode, a.origin.layer), (Some(SecretMode::Mask), Layer::CommandLine));
    assert_eq!(settings.secrets.keys().collect::<Vec<_>>(), ["A", "B", "C"]);
    assert_eq!(settings.secret_files.keys().collect::<Vec<_>>(), [Path::new("/p/sub/f")]);
    assert_eq!(settings.env_files[0].value, Path::new("/e"));
    let other = Case { user, agent: Some("codex"), ..Case::default() }.settings();
    assert!(other.secrets["A"].places.is_none());
}

#[test]
fn lockdown_takes_fakes_of_the_command_line_and_what_is_denied_by_the_user() {
    let user = "[secrets]\nA = { hosts = [\"a.test\"] }\nB = { mode = \"deny\" }\n[network]\ninspect = \"all\"\nech = \"allow\"\n\
                [[network.http]]\nhost = \"a.test\"\ndeny = [\"* /x\"]";
    let lockdown = options(|o| {
        o.lockdown = true;
        o.secret = vec!["C=c.test".into()];
    });
    let settings = Case { user, agent: Some("claude"), options: lockdown, ..Case::default() }.settings();
    assert_eq!(settings.secrets.keys().collect::<Vec<_>>(), ["B", "C"]);
    assert_eq!(
        (settings.inspect.value, settings.ech.value, settings.http.len()),
        (Inspect::All, Ech::Refuse, 1)
    );
    assert_eq!(settings.warnings.len(), 1);
    for part in ["secrets.A (line 2)", "network.ech (line 6)"] {
        assert!(settings.warnings[0].contains(part), "{:?}", settings.warnings);
    }
}
