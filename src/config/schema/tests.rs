use super::*;
use crate::config::keys::{Availability, KEYS, TABLES};

fn read(text: &str) -> Result<File> {
    parse(text, Path::new("/c.toml"), Layer::User, Base { relative: None, home: Path::new("/home/me") })
}

#[test]
fn a_full_file_is_read() {
    let file = read(
        r#"
profile = "read-only"
weaker_nested = true
[filesystem]
read_only  = ["/data/**", "~/notes"]
read_write = ["/tmp/scratch"]
protect = false
[home]
mode  = "ephemeral"
state = "none"
toolchains = false
[environment]
inherit = "none"
ignore_default_excludes = true
exclude = ["ACME_*"]
include_only = ["A*"]
set  = { MY_FLAG = "1" }
pass = ["CI"]
[network]
mode = "off"
allow = ["api.example.com", "*.example.org:443"]
deny  = ["metrics.example.com"]
allow_private = ["Git.corp.example."]
resolve = { "api.example.com" = "192.0.2.7:8443" }
agent_hosts = false
[grants]
ssh_agent = true
docker = false
sockets = ["/run/app.sock", "~/x.sock"]
[limits]
memory = "8G"
pids = 1024
cpu = "200%"
files = "4096"
time = "4h"
[terminal]
filter = false
title = false
clipboard_write = true
[log]
required = true
summary = false
[agents.claude]
home.state = "jail"
terminal.images = true
[agents.claude.network]
allow = ["docs.example.com"]
"#,
    )
    .unwrap();
    let tables = &file.tables;
    assert_eq!(file.profile.as_ref().map(|p| p.value), Some(Profile::ReadOnly));
    assert_eq!(file.weaker_nested.as_ref().map(|w| w.value), Some(true));
    let sources: Vec<_> = tables.read_only.iter().map(|grant| grant.value.source.to_str().unwrap()).collect();
    assert_eq!(sources, ["/data", "/home/me/notes"]);
    assert_eq!(tables.read_write[0].value.dest, Path::new("/tmp/scratch"));
    assert_eq!(tables.protect.as_ref().map(|p| p.value), Some(Protect::DangerOff));
    assert_eq!(tables.home.as_ref().map(|h| h.value), Some(HomeMode::Ephemeral));
    assert_eq!(tables.inherit.as_ref().map(|i| i.value), Some(Inherit::None));
    assert_eq!(tables.env["MY_FLAG"].value, EnvValue::Set("1".to_owned()));
    assert_eq!(tables.env["CI"].value, EnvValue::Pass);
    assert_eq!(tables.allow.len(), 2);
    assert_eq!(tables.allow_private[0].value, "git.corp.example");
    assert_eq!(tables.resolve["api.example.com"].value.port, Some(8443));
    assert_eq!((tables.things[&Thing::SshAgent].value, tables.things[&Thing::Docker].value), (true, false));
    let sockets: Vec<_> = tables.sockets.iter().map(|socket| socket.value.to_str().unwrap()).collect();
    assert_eq!(sockets, ["/run/app.sock", "/home/me/x.sock"]);
    assert_eq!(tables.limits.memory.as_ref().map(|m| m.value), Some(8 << 30));
    assert_eq!(tables.limits.pids.as_ref().map(|p| p.value), Some(1024));
    assert_eq!(tables.limits.cpu_percent.as_ref().map(|c| c.value), Some(200));
    assert_eq!(tables.limits.files.as_ref().map(|f| f.value), Some(4096));
    assert_eq!(tables.limits.time_seconds.as_ref().map(|t| t.value), Some(14_400));
    assert_eq!(tables.terminal_filter.as_ref().map(|f| f.value), Some(TerminalFilter::DangerOff));
    let switches: Vec<_> = tables.terminal.iter().map(|(class, switch)| (*class, switch.value)).collect();
    assert_eq!(switches, [(Class::Title, false), (Class::ClipboardWrite, true)]);
    assert_eq!(file.agents["claude"].terminal.len(), 1);
    assert_eq!(file.agents["claude"].state.as_ref().map(|s| s.value), Some(StateMode::Jail));
    assert_eq!(file.agents["claude"].allow.len(), 1);
    assert!(file.warnings.is_empty());
}

#[test]
fn every_value_remembers_key_file_and_line() {
    let file = read("[network]\nmode = \"off\"\nallow = [\n  \"a.example\",\n  \"b.example\",\n]\n").unwrap();
    let place = |line| Some((Path::new("/c.toml").to_path_buf(), line));
    let network = file.tables.network.unwrap().origin;
    assert_eq!(
        (network.layer, network.what.as_str(), network.place),
        (Layer::User, "network.mode", place(2))
    );
    let lines: Vec<_> = file.tables.allow.iter().map(|pattern| pattern.origin.place.clone()).collect();
    assert_eq!(lines, [place(4), place(5)]);
}

#[test]
fn an_error_cites_the_place_and_the_nearest_key() {
    let cases = [
        (
            "[netwrk]\nmode = \"off\"",
            "/c.toml:1:2: unknown key `netwrk`; did you mean `network`?\n  1 | [netwrk]\n    |  ^^^^^^",
        ),
        (
            "profil = \"strict\"",
            "/c.toml:1:1: unknown key `profil`; did you mean `profile`?\n  1 | profil = \"strict\"\n    | ^^^^^^",
        ),
        (
            "[network]\nallowed = [\"x\"]",
            "/c.toml:2:1: unknown key `network.allowed`; did you mean `allow`?\n  2 | allowed = [\"x\"]\n    | ^^^^^^^",
        ),
        (
            "[network]\nread_only = []",
            "/c.toml:2:1: unknown key `network.read_only`; `read_only` belongs to [filesystem]\n  2 | read_only = []\n    | \
             ^^^^^^^^^",
        ),
        (
            "[log]\nzzzzzz = 1",
            "/c.toml:2:1: unknown key `log.zzzzzz`; [log] has required, summary\n  2 | zzzzzz = 1\n    | ^^^^^^",
        ),
        (
            "[agents.claude]\nhom.state = \"none\"",
            "/c.toml:2:1: unknown key `agents.claude.hom`; did you mean `home`?\n  2 | hom.state = \"none\"\n    | ^^^",
        ),
        (
            "[network]\nech = \"refse\"",
            "/c.toml:2:7: `refse` is no good for `network.ech`; a word for encrypted ClientHello is one of refuse, allow; \
             did you mean `refuse`?\n  2 | ech = \"refse\"\n    |       ^^^^^^^",
        ),
        (
            "[filesystem]\ndeny = [\"*.{pem,key}\"]",
            "/c.toml:2:9: `*.{pem,key}` is no good for `filesystem.deny`; braces are not understood; write *.pem and \
             *.key as two entries\n  2 | deny = [\"*.{pem,key}\"]\n    |         ^^^^^^^^^^^^^",
        ),
        (
            "[managed]\nrequired = true",
            "/c.toml:1:2: `managed` is not supported by this version; ignoring it would silently not hold; remove \
             it\n  1 | [managed]\n    |  ^^^^^^^",
        ),
        (
            "[home]\nmode = true",
            "/c.toml:2:8: `home.mode` has the wrong type; it takes a word in quotes, not true or false\n  2 | mode = \
             true\n    |        ^^^^",
        ),
        (
            "[home]\ntoolchains = \"yes\"",
            "/c.toml:2:14: `home.toolchains` has the wrong type; it takes true or false, not a string\n  2 | toolchains \
             = \"yes\"\n    |              ^^^^^",
        ),
        (
            "[network]\nmode = \"filterd\"",
            "/c.toml:2:8: `filterd` is no good for `network.mode`; a network mode is one of off, filtered, open; did \
             you mean `filtered`?\n  2 | mode = \"filterd\"\n    |        ^^^^^^^^^",
        ),
        (
            "[network]\nallow = [\"a.example\", 5]",
            "/c.toml:2:23: `network.allow` has the wrong type; it takes a string in each place, not a whole number\n  2 \
             | allow = [\"a.example\", 5]\n    |                       ^",
        ),
        (
            "[network]\nallow = \"a.example\"",
            "/c.toml:2:9: `network.allow` has the wrong type; it takes a list of strings, not a string\n  2 | allow = \
             \"a.example\"\n    |         ^^^^^^^^^^^",
        ),
        (
            "[limits]\nmemory = \"8 GB\"",
            "/c.toml:2:10: `limits.memory` is no good; memory is a number above 0 with K, M, G or T, for example 8G\n  2 \
             | memory = \"8 GB\"\n    |          ^^^^^^",
        ),
        (
            "[filesystem]\nread_only = [\"data\"]",
            "/c.toml:2:14: `data` is no good for `filesystem.read_only`; a path in this file must be absolute; begin it \
             with / or ~/\n  2 | read_only = [\"data\"]\n    |              ^^^^^^",
        ),
        (
            "[agents.x]\nprofile = \"strict\"",
            "/c.toml:2:1: unknown key `agents.x.profile`; `profile` belongs to the top level\n  2 | profile = \
             \"strict\"\n    | ^^^^^^^",
        ),
        (
            "[agents.x]\nnetwrk = {}",
            "/c.toml:2:1: unknown key `agents.x.netwrk`; did you mean `network`?\n  2 | netwrk = {}\n    | ^^^^^^",
        ),
        (
            "[agents.x]\nallow = []",
            "/c.toml:2:1: unknown key `agents.x.allow`; `allow` belongs to [agents.x.network]\n  2 | allow = []\n    | \
             ^^^^^",
        ),
        (
            "[agents.x]\nzzz = 1",
            "/c.toml:2:1: unknown key `agents.x.zzz`; [agents.x] has the tables filesystem, home, environment, network, \
             limits, grants, terminal, log, secrets\n  2 | zzz = 1\n    | ^^^",
        ),
        (
            "[agents.x.agents.y]",
            "/c.toml:1:11: unknown key `agents.x.agents`; `agents` belongs to the top level\n  1 | [agents.x.agents.y]\n    \
             |           ^^^^^^",
        ),
        (
            "[agents.x]\nmanaged = {}",
            "/c.toml:2:1: `agents.x.managed` is not supported by this version; ignoring it would silently not hold; \
             remove it\n  2 | managed = {}\n    | ^^^^^^^",
        ),
        (
            "[environment]\nset = { HOME = \"/x\" }",
            "/c.toml:2:9: `HOME` is no good for `environment.set`; HOME is the jail's own; --home and --state say what \
             is in it\n  2 | set = { HOME = \"**\" }\n    |         ^^^^",
        ),
        (
            "network = 5",
            "/c.toml:1:11: `network` has the wrong type; it takes a table, not a whole number\n  1 | network = 5\n    |     \
             \x20     ^",
        ),
        (
            "[environment]\nset = { A = \"1\" }\npass = [\"A\"]",
            "/c.toml:3:9: `A` is no good for `environment.pass`; the variable is named twice\n  3 | pass = [\"A\"]\n    |  \
             \x20      ^^^",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(read(text).unwrap_err().to_string(), want, "{text}");
    }
}

#[test]
fn what_is_no_toml_is_cited_too() {
    let cases = [
        ("profile = ", "/c.toml:1:"),
        ("profile = \"a\"\nprofile = \"b\"", "/c.toml:2:1: "),
        ("[home]\nmode = \"persistent\"\n[home]\nstate = \"none\"", "/c.toml:3:"),
        ("a = \"\x01\"", "/c.toml:1:"),
        ("[", "/c.toml:1:"),
    ];
    for (text, start) in cases {
        let message = read(text).unwrap_err().to_string();
        assert!(message.starts_with(start), "{text:?}: {message}");
        assert!(message.contains("this is not TOML that can be read; "), "{message}");
        assert!(message.lines().count() == 3 && message.ends_with('^'), "{message}");
    }
}

#[test]
fn foreign_text_in_an_error_is_escaped() {
    let message = read("\"a\\u001b[2J\" = 1").unwrap_err().to_string();
    assert!(message.starts_with("/c.toml:1:1: unknown key `a\\x1b[2J`"), "{message}");
}

#[test]
fn deep_nesting_and_many_keys_do_not_panic() {
    for text in
        ["[".repeat(10_000), format!("a = {}", "[".repeat(10_000)), "a.".repeat(10_000), "{".repeat(10_000)]
    {
        assert!(read(&text).is_err());
    }
}

#[test]
fn a_grant_that_is_a_glob_is_skipped_with_its_place() {
    let file = read("[filesystem]\nread_write = [\n  \"/a\",\n  \"/b/*.txt\",\n  \"/c \"]\n").unwrap();
    assert_eq!(file.tables.read_write.len(), 1);
    assert_eq!(
        file.warnings,
        [
            "/c.toml:4 (filesystem.read_write): skipped `/b/*.txt`; a grant is a directory or a file, not a glob (only \
             a trailing /** or /* is understood)",
            "/c.toml:5 (filesystem.read_write): skipped `/c `; it begins or ends with white space, which would be part \
             of the path",
        ]
    );
}

#[test]
fn the_table_of_keys_and_the_reader_agree() {
    for key in KEYS {
        let (at, dotted) = if key.table.is_empty() {
            (format!("{} = 1979-05-27", key.name), key.name.to_owned())
        } else {
            (format!("[{}]\n{} = 1979-05-27", key.table, key.name), format!("{}.{}", key.table, key.name))
        };
        let message = read(&at).unwrap_err().to_string();
        // No key takes a date.
        assert!(message.contains(&format!("`{dotted}` has the wrong type")), "{message}");
    }
    for (table, availability) in TABLES {
        let message = read(&format!("{table} = 1")).unwrap_err().to_string();
        let want = match availability {
            Availability::Here => "has the wrong type",
            Availability::Later => "is not supported by this version",
        };
        assert!(message.contains(want), "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = read(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_value_makes_a_key_panic(at in 0..KEYS.len(), value in "[\\[\\]{}\"'=,.0-9a-z%~/ \\-]{0,24}") {
        let key = &KEYS[at];
        let text = format!("[{}]\n{} = {value}", key.table, key.name);
        let _ = read(&text).map_err(|error| error.to_string());
        let quoted = format!("[{}]\n{} = [\"{value}\"]", key.table, key.name);
        let _ = read(&quoted).map_err(|error| error.to_string());
    }
}
