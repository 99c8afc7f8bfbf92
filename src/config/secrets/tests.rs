use std::path::Path;

use super::*;
use crate::config::schema::{Tables, parse};
use crate::config::settings::{Ech, Inspect};
use crate::policy::origin::Layer;

fn read(text: &str) -> Result<Tables> {
    let base = Base { relative: None, home: Path::new("/home/me") };
    parse(text, Path::new("/c.toml"), Layer::User, base).map(|file| file.tables)
}

fn shown(hosts: &Option<Vec<HostPattern>>) -> String {
    hosts.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_key_of_secrets_and_http_rules_is_read() {
    let tables = read(
        r#"
[secrets]
ANTHROPIC_API_KEY = { hosts = ["api.anthropic.com"] }
GITHUB_TOKEN = { hosts = ["github.com", "*.github.com"], in = ["header", "body"], mode = "mask", from = ["gh", "auth", "token"], revoke = ["true"] }
AWS_PROFILE = { mode = "deny" }
[[secrets.files]]
path = "~/.config/tool/auth.json"
hosts = ["api.tool.example"]
extract = '"access_token"\s*:\s*"([^"]+)"'
[[secrets.files]]
path = "/srv/token"
hosts = ["api.tool.example"]
decode = "jwt"
mask_claims = ["email"]
[[secrets.files]]
path = "/srv/key"
mode = "deny"
[network]
inspect = "all"
ech = "allow"
[[network.http]]
host = "api.github.com"
allow = ["GET /repos/**", "POST /graphql"]
deny = ["DELETE /**"]
[[network.http]]
host = "*.example.com:8443"
deny = ["* /admin/**"]
"#,
    )
    .unwrap();
    let token = &tables.secrets["GITHUB_TOKEN"];
    assert_eq!(shown(&token.hosts), "github.com *.github.com");
    assert_eq!(token.places, Some([Place::Header, Place::Body].into_iter().collect()));
    assert_eq!(token.mode, Some(SecretMode::Mask));
    assert_eq!(token.from.as_deref(), Some(&["gh", "auth", "token"].map(str::to_owned)[..]));
    assert_eq!(token.revoke.as_ref().map(Vec::len), Some(1));
    assert_eq!(token.origin.to_string(), "/c.toml:4 (secrets.GITHUB_TOKEN)");
    let key = &tables.secrets["ANTHROPIC_API_KEY"];
    assert_eq!((shown(&key.hosts).as_str(), key.mode, key.places), ("api.anthropic.com", None, None));
    assert_eq!(tables.secrets["AWS_PROFILE"].mode, Some(SecretMode::Deny));
    let paths: Vec<_> = tables.secret_files.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["/home/me/.config/tool/auth.json", "/srv/key", "/srv/token"]);
    let file = |path: &str| &tables.secret_files[Path::new(path)];
    assert!(file("/home/me/.config/tool/auth.json").extract.as_ref().unwrap().contains("access_token"));
    assert_eq!(file("/srv/token").decode, Some(Decode::Jwt));
    assert_eq!(file("/srv/token").mask_claims.as_deref(), Some(&["email".to_owned()][..]));
    assert_eq!(file("/srv/key").mode, Some(SecretMode::Deny));
    assert_eq!(tables.inspect.map(|inspect| inspect.value), Some(Inspect::All));
    assert_eq!(tables.ech.map(|ech| ech.value), Some(Ech::Allow));
    let rules: Vec<_> =
        tables.http.iter().map(|rules| (rules.value.host.to_string(), rules.origin.to_string())).collect();
    assert_eq!(rules[0], ("api.github.com:*".into(), "/c.toml:21 (network.http)".into()));
    assert_eq!((tables.http[0].value.allow.len(), tables.http[0].value.deny.len()), (2, 1));
    assert_eq!(rules[1].0, "*.example.com:8443");
}

#[test]
fn what_is_wrong_is_cited() {
    let cases = [
        (
            "[secrets]\nA = 5",
            "/c.toml:2:5: `secrets.A` has the wrong type; it takes a table such as { hosts = [\"api.example.com\"] }, not a whole number; the value is not written here: it is that of your environment, of a file of --env-file, or what `from` prints",
        ),
        (
            "[secrets]\nA = { hots = [\"a.test\"] }",
            "/c.toml:2:7: unknown key `secrets.A.hots`; did you mean `hosts`?",
        ),
        (
            "[secrets]\nA = { zzzzzz = 1 }",
            "/c.toml:2:7: unknown key `secrets.A.zzzzzz`; it has hosts, in, mode, from, revoke; the value is not written here: it is that of your environment, of a file of --env-file, or what `from` prints",
        ),
        (
            "[secrets]\nA = { hosts = \"a.test\" }",
            "/c.toml:2:15: `secrets.A.hosts` has the wrong type; it takes a list of strings, not a string",
        ),
        ("[secrets]\nA = { hosts = [] }", "/c.toml:2:15: `secrets.A.hosts` is no good; it names no host"),
        (
            "[secrets]\nA = { hosts = [\"*\"] }",
            "/c.toml:2:16: `*` is no good for `secrets.A.hosts`; a secret belongs to some hosts, not to every one; name them, for example api.example.com",
        ),
        (
            "[secrets]\nA = { hosts = [\"a.test/tcp\"] }",
            "/c.toml:2:16: `a.test/tcp` is no good for `secrets.A.hosts`; a secret is put in on the way to its host only where TLS ends at ai-jail, and not for any bytes; leave /tcp out",
        ),
        (
            "[secrets]\nA = { hosts = [\"a.test\"], in = [] }",
            "/c.toml:2:32: `secrets.A.in` is no good; it names no place",
        ),
        (
            "[secrets]\nA = { hosts = [\"a.test\"], in = [\"haeder\"] }",
            "/c.toml:2:33: `haeder` is no good for `secrets.A.in`; a place in a request is one of header, basic, query, path, body; did you mean `header`?",
        ),
        (
            "[secrets]\nA = { mode = \"hide\" }",
            "/c.toml:2:14: `hide` is no good for `secrets.A.mode`; a mode of a secret is one of mask, deny",
        ),
        (
            "[secrets]\nA = { mode = \"deny\", hosts = [\"a.test\"] }",
            "/c.toml:2:5: `secrets.A` is no good; with mode = \"deny\" the jail does not have it, so that nothing else counts; leave the other keys out",
        ),
        ("[secrets]\nA = { from = [] }", "/c.toml:2:14: `secrets.A.from` is no good; it names no program"),
        (
            "[secrets]\nA = { from = \"gh auth token\" }",
            "/c.toml:2:14: `secrets.A.from` has the wrong type; it takes a list of strings, not a string",
        ),
        (
            "[secrets]\nA = { revoke = [\"\"] }",
            "/c.toml:2:16: `secrets.A.revoke` is no good; it names no program",
        ),
        (
            "[secrets]\nHOME = { hosts = [\"a.test\"] }",
            "/c.toml:2:8: `HOME` is no good for `secrets.HOME`; HOME is no secret: the jail has its own, and a fake in it would only break that; name the variable that holds the credential, for example GITHUB_TOKEN",
        ),
        (
            "[secrets]\n\"A=B\" = { hosts = [\"a.test\"] }",
            "/c.toml:2:9: `A=B` is no good for `secrets.A=B`; the name of a variable is not empty and holds no `=` and no NUL byte",
        ),
        (
            "[secrets.files]\npath = \"/x\"",
            "/c.toml:1:1: `secrets.files` has the wrong type; it takes a list of tables, each below a line [[secrets.files]] with two brackets, not a table",
        ),
        (
            "[[secrets.files]]\nhosts = [\"a.test\"]",
            "/c.toml:1:1: `secrets.files` is no good; it has no `path`",
        ),
        (
            "[[secrets.files]]\npath = \"x\"",
            "/c.toml:2:8: `x` is no good for `secrets.files.path`; a path in this file must be absolute; begin it with / or ~/",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\nhost = [\"a.test\"]",
            "/c.toml:3:1: unknown key `secrets.files.host`; did you mean `hosts`?",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\nhosts = [\"a.test\"]\nmask_claims = [\"email\"]",
            "/c.toml:1:1: `secrets.files` is no good; `mask_claims` is about tokens; add decode = \"jwt\"",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\ndecode = \"base64\"",
            "/c.toml:3:10: `base64` is no good for `secrets.files.decode`; a form of a secret is one of plain, jwt",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\nextract = \"\"",
            "/c.toml:3:11: `` is no good for `secrets.files.extract`; the expression has no group that says what is secret; put parentheses around that part",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\nextract = \"x=(\"",
            "/c.toml:3:11: `x=(` is no good for `secrets.files.extract`; this is no regular expression: unclosed group",
        ),
        (
            "[[secrets.files]]\npath = \"/x\"\n[[secrets.files]]\npath = \"/x\"",
            "/c.toml:3:1: `secrets.files` is no good; the file is named twice",
        ),
        (
            "[network]\ninspect = true",
            "/c.toml:2:11: `network.inspect` has the wrong type; it takes a word in quotes, not true or false",
        ),
        (
            "[network]\ninspect = \"some\"",
            "/c.toml:2:11: `some` is no good for `network.inspect`; a choice of what is inspected is one of needed, all",
        ),
        (
            "[network.http]\nhost = \"a.test\"",
            "/c.toml:1:1: `network.http` has the wrong type; it takes a list of tables, each below a line [[network.http]] with two brackets, not a table",
        ),
        ("[[network.http]]\nallow = [\"GET /\"]", "/c.toml:1:1: `network.http` is no good; it has no `host`"),
        (
            "[[network.http]]\nhost = \"a.test\"",
            "/c.toml:1:1: `network.http` is no good; it has neither `allow` nor `deny`",
        ),
        (
            "[[network.http]]\nhost = \"a.test\"\nallow = []",
            "/c.toml:1:1: `network.http` is no good; an empty `allow` would allow everything; leave it out, or deny everything with deny = [\"* /**\"]",
        ),
        (
            "[[network.http]]\nhost = \"a.test:22\"\ndeny = [\"* /\"]",
            "/c.toml:2:8: `a.test:22` is no good for `network.http.host`; port 22 carries SSH, and no HTTP; name another port, or none",
        ),
        (
            "[[network.http]]\nhost = \"a.test\"\nallow = [\"get /\"]",
            "/c.toml:3:10: `get /` is no good for `network.http.allow`; methods are in capitals; write GET",
        ),
        (
            "[[network.http]]\nhost = \"a.test\"\nalow = [\"GET /\"]",
            "/c.toml:3:1: unknown key `network.http.alow`; did you mean `allow`?",
        ),
    ];
    for (text, want) in cases {
        let message = read(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message.lines().next(), Some(want), "{text}");
        assert!(message.ends_with('^'), "{message}");
    }
}

#[test]
fn a_higher_layer_changes_the_keys_that_it_names() {
    let entry = |text: &str| read(&format!("[secrets]\nA = {text}")).unwrap().secrets;
    let mut all = entry("{ hosts = [\"a.test\"], from = [\"x\"], in = [\"basic\"] }");
    join(&mut all, &entry("{ hosts = [\"b.test\"] }"));
    let joined = &all["A"];
    assert_eq!(shown(&joined.hosts), "b.test");
    assert!(joined.from.is_some() && joined.places.is_some() && joined.mode.is_none());
    join(&mut all, &entry("{ mode = \"deny\" }"));
    assert_eq!(all["A"].mode, Some(SecretMode::Deny));

    let file = |text: &str| read(&format!("[[secrets.files]]\npath = \"/x\"\n{text}")).unwrap().secret_files;
    let mut all = file("hosts = [\"a.test\"]\nextract = \"(x)\"");
    join_files(&mut all, &file("hosts = [\"b.test\"]"));
    let joined = &all[Path::new("/x")];
    assert_eq!((shown(&joined.hosts).as_str(), joined.extract.as_deref()), ("b.test", Some("(x)")));
}

proptest::proptest! {
    #[test]
    fn no_table_makes_the_reader_panic(key in "hosts|in|mode|from|path|host|allow|extract", value in "[\\[\\]{}\"'=,.*/a-zA-Z0-9 \\-]{0,24}") {
        for head in ["[secrets]\nA = {", "[[secrets.files]]\n", "[[network.http]]\n"] {
            let tail = if head.ends_with('{') { "}" } else { "" };
            let _ = read(&format!("{head}{key} = {value}{tail}")).map_err(|error| error.to_string());
            let _ = read(&format!("{head}{key} = [\"{value}\"]{tail}")).map_err(|error| error.to_string());
        }
    }
}
