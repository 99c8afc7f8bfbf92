//! Whether a file is more than the one secret: then only a part of it may be a fake, or no program could read it.

use std::fmt;

use serde_json::Value;

use super::jwt::is_jwt;
use super::shapes::looks_like_token;
use super::value::SecretValue;

/// Names that an example has.
const NAMED: usize = 16;
/// The longest of them.
const LONGEST: usize = 64;

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object or a list.
    Json,
    /// `name = value`: TOML, INI, a file of variables.
    Equals,
    /// `name: value`, as in YAML.
    Colon,
    /// URLs with a login and a password in them, as in `.git-credentials`.
    Login,
    /// `machine`, `login` and `password`, in one line or in many.
    Netrc,
    /// One line with white space or quotes in it.
    Words,
}

impl Form {
    fn sentence(self) -> &'static str {
        match self {
            Self::Json => "it is JSON",
            Self::Equals => "it has lines like `name = value`",
            Self::Colon => "it has lines like `name: value`",
            Self::Login => "it has a login and a password in a URL",
            Self::Netrc => "it has the words machine, login and password",
            Self::Words => "it holds white space or quotes",
        }
    }
}

/// What a variable's value is that programs take apart; `None` for what they pass on as it is, such as a phrase.
pub fn more_than_a_token(value: &SecretValue) -> Option<&'static str> {
    if is_jwt(value) {
        return Some("it is a JSON Web Token");
    }
    let form = structure(value.expose())?.form;
    let text = || String::from_utf8_lossy(value.expose()).into_owned();
    match form {
        Form::Json | Form::Login => Some(form.sentence()),
        Form::Words if text().split_whitespace().any(looks_like_token) => Some("it has words beside a token"),
        Form::Equals | Form::Colon | Form::Netrc | Form::Words => None,
    }
}

/// A file that holds more than a secret. No value is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    form: Form,
    /// Names whose values look like secrets, of letters, digits and `_-.:/@` alone.
    names: Vec<String>,
    /// Whether the value of each of these is a JSON Web Token.
    is_jwt: bool,
    /// Whether it has logins of more than one host.
    is_shared: bool,
}

impl fmt::Display for Structure {
    /// What it is, why it cannot be masked as a whole, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = self.form.sentence();
        write!(
            f,
            "{is}, and all of it would be a fake, so that programs could not read it, and a token from it would not be \
             replaced; say which part is the secret, in [[secrets.files]] of your configuration: extract = '{}'",
            self.extract()
        )?;
        if self.is_jwt {
            f.write_str(", and decode = \"jwt\", for it is a JSON Web Token")?;
        }
        if self.is_shared {
            // To narrow the expression would show the others as they are.
            f.write_str(
                ". It has logins of several hosts: all become fakes, and the real ones are put in at the hosts of this entry, where only \
                 one of them belongs; better give the jail a file with that login alone",
            )?;
        }
        if self.form == Form::Words { f.write_str(", or '(.+)' for the whole line") } else { Ok(()) }
    }
}

impl Structure {
    /// An `extract` for a file like this; what is in it fits into a literal string of TOML.
    fn extract(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| regex::escape(name)).collect();
        let names = match &names[..] {
            [] => "NAME".to_owned(),
            [name] => name.clone(),
            names => format!("(?:{})", names.join("|")),
        };
        match self.form {
            Form::Json => format!(r#""{names}"\s*:\s*"([^"]+)""#),
            // A single quote by its number: a literal string of TOML holds none.
            Form::Equals => {
                format!(r#"(?m)^\s*(?:export\s+)?"?{names}"?\s*=\s*["\x27]?([^"\x27\s]+)"#)
            }
            Form::Colon => format!(r#"(?m)^\s*"?{names}"?:\s+["\x27]?([^"\x27\s]+)"#),
            Form::Login => r#"://[^:@/\s]*:([^@/\s]+)@"#.to_owned(),
            Form::Netrc => r#"\bpassword\s+"?([^"\s]+)"#.to_owned(),
            Form::Words => r#"([^\s"\x27]{16,})"#.to_owned(),
        }
    }
}

/// What `content` is written in; `None` when it is one plain word, or nothing that is known.
pub(super) fn structure(content: &[u8]) -> Option<Structure> {
    let text = std::str::from_utf8(content).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    let json = serde_json::from_str::<Value>(text).ok().filter(|json| json.is_object() || json.is_array());
    if json.is_some() || text.starts_with('{') {
        let mut names = Names::default();
        if let Some(json) = &json {
            collect(json, &mut names);
        }
        return Some(names.of(Form::Json));
    }
    if is_netrc(text) {
        return Some(Structure { is_shared: machines(text) > 1, ..Names::default().of(Form::Netrc) });
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let mut found: Option<(Form, Names)> = None;
    for (form, name, value) in lines.filter_map(pair) {
        let (known, names) = found.get_or_insert_with(|| (form, Names::default()));
        if *known == form && telling(name, value) {
            names.add(name, value);
        }
    }
    // Where a name tells it, that is what counts.
    if found.as_ref().is_none_or(|(_, names)| names.names.is_empty())
        && text.split_whitespace().any(|word| login_host(word).is_some())
    {
        let mut hosts: Vec<&str> = text.split_whitespace().filter_map(login_host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        return Some(Structure { is_shared: hosts.len() > 1, ..Names::default().of(Form::Login) });
    }
    let found = found.map(|(form, names)| names.of(form));
    let is_section = |line: &str| line.starts_with('[') && line.ends_with(']');
    if found.is_none() && text.lines().any(|line| is_section(line.trim())) {
        return Some(Names::default().of(Form::Equals));
    }
    let is_words =
        || !text.contains('\n') && text.contains(|sign: char| sign.is_whitespace() || "\"'`".contains(sign));
    found.or_else(|| is_words().then(|| Names::default().of(Form::Words)))
}

/// Whether a text is what `ftp`, curl and git read as `.netrc`.
fn is_netrc(text: &str) -> bool {
    let mut words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    matches!(words.next(), Some("machine" | "default")) && words.any(|word| word == "password")
}

/// How many hosts a `.netrc` has logins for.
fn machines(text: &str) -> usize {
    let words = || text.split_whitespace();
    words()
        .filter(|word| matches!(*word, "machine" | "default"))
        .count()
        .min(words().filter(|word| *word == "password").count())
}

/// The host of a word that is, or ends in, a URL with a password.
fn login_host(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once("://")?;
    let (login, host) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    login.split_once(':').filter(|(_, password)| !password.is_empty()).map(|_| host)
}

/// A line's name and value. The padding of base64 is none, nor is the colon in a login or a URL.
fn pair(line: &str) -> Option<(Form, &str, &str)> {
    let at = line.find(['=', ' ', '\t']).unwrap_or(line.len());
    if let Some(name) =
        line[..at].strip_suffix(':').filter(|_| at < line.len() && !line[at..].starts_with('='))
    {
        return is_name(bare(name)).then(|| (Form::Colon, bare(name), plain(&line[at..])));
    }
    if let Some(name) = line.strip_suffix(':').filter(|name| is_name(bare(name))) {
        return Some((Form::Colon, bare(name), ""));
    }
    let (name, value) = line.split_once('=')?;
    let name = bare(name.strip_prefix("export ").unwrap_or(name).trim());
    let is_padding = value.bytes().all(|byte| byte == b'=');
    (is_name(name) && !is_padding).then(|| (Form::Equals, name, plain(value)))
}

/// A value without its quotes, and without the comment behind it.
fn plain(value: &str) -> &str {
    let value = value.trim();
    let is_comment = |rest: &str| rest.is_empty() || rest.trim_start().starts_with(['#', ';']);
    let quoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.split_once(*quote))
        .filter(|(_, rest)| is_comment(rest));
    match quoted {
        Some((inner, _)) => inner,
        None => bare(value.split_once(" #").map_or(value, |(value, _)| value.trim_end())),
    }
}

fn bare(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

fn is_name(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/@".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(sign)
}

/// Whether a value looks like a secret, or is called one.
fn telling(name: &str, value: &str) -> bool {
    // `_auth` of npm, `auth` of docker.
    const WORDS: [&str; 6] = ["token", "secret", "key", "password", "passwd", "credential"];
    let name = name.to_ascii_lowercase();
    let is_word = value.len() >= 12 && !value.contains(char::is_whitespace);
    looks_like_token(value)
        || is_word && (name.ends_with("auth") || WORDS.iter().any(|word| name.contains(word)))
}

/// The names whose values look like secrets.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    /// How many of the values are JSON Web Tokens, and how many there are.
    tokens: usize,
    all: usize,
}

impl Names {
    /// A name that is a token itself is not shown.
    fn add(&mut self, name: &str, value: &str) {
        let token = SecretValue::new(value.as_bytes().to_vec()).is_ok_and(|value| is_jwt(&value));
        self.tokens += usize::from(token);
        self.all += 1;
        let is_new = !self.names.iter().any(|known| known == name);
        if self.names.len() < NAMED && is_new && is_name(name) && !looks_like_token(name) {
            self.names.push(name.to_owned());
        }
    }

    fn of(self, form: Form) -> Structure {
        Structure {
            form,
            is_jwt: self.all > 0 && self.tokens == self.all,
            names: self.names,
            is_shared: false,
        }
    }
}

/// As deep as the parser goes, which has a bound.
fn collect(json: &Value, names: &mut Names) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(value) if telling(name, value) => names.add(name, value),
                    value => collect(value, names),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::Regex;

    use super::*;

    const TOKEN: &str = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    #[test]
    fn one_word_has_no_structure() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for word in [
            TOKEN,
            jwt,
            "QUJDREVGR0hJSktMTU5PUA==",
            "me:hunter2hunter2",
            "https://k3y@host.test/7?a=b",
            "",
            "\n",
        ] {
            assert_eq!(structure(word.as_bytes()), None, "{word}");
            assert_eq!(structure(format!("{word}\n").as_bytes()), None, "{word}");
        }
        assert_eq!(structure(b"\xff{\"a\": 1}"), None);
        assert_eq!(structure(b"-----BEGIN-----\nAAAA\nBBBB==\n"), None);
    }

    #[test]
    fn a_variable_that_programs_take_apart_is_told_of() {
        let jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.\
                   dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";
        for (value, want) in [
            (TOKEN.to_owned(), None),
            ("correct horse battery staple".to_owned(), None),
            (format!("session={TOKEN}"), None),
            (format!("Bearer {TOKEN}"), Some("words beside a token")),
            (format!("https://me:{TOKEN}@a.test/db"), Some("in a URL")),
            (format!("{{\"key\": \"{TOKEN}\"}}"), Some("JSON")),
            (jwt.to_owned(), Some("JSON Web Token")),
        ] {
            let found = more_than_a_token(&SecretValue::new(value.clone().into_bytes()).unwrap());
            assert_eq!(found.is_some(), want.is_some(), "{value}: {found:?}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{value}: {found:?}");
        }
    }

    #[test]
    fn the_example_of_a_structure_finds_the_secret_in_it() {
        let cases = [
            (Form::Json, format!("{{\"user\": \"me\", \"access_token\": \"{TOKEN}\"}}"), "access_token"),
            (Form::Json, format!("[{{\"a\": {{\"x\": \"{TOKEN}\"}}}}]\n"), "\"x\""),
            (
                Form::Json,
                format!("{{\"tokens\": {{\n \"id_token\": \"{TOKEN}\", \"refresh_token\": \"{TOKEN}\"}}}}"),
                "(?:id_token|",
            ),
            (Form::Equals, format!("[default]\nuser = me\napi_key = \"{TOKEN}\"\n"), "api_key"),
            (Form::Equals, format!("//registry.npmjs.org/:_authToken={TOKEN}\n"), ":_authToken"),
            (Form::Equals, format!("# mine\nexport TOKEN={TOKEN}\n"), "TOKEN"),
            (Form::Equals, format!("export NAME=\"x\"\nexport TOKEN=\"{TOKEN}\" # mine\n"), "TOKEN"),
            (Form::Equals, format!("TOKEN='{TOKEN}'\n"), "TOKEN"),
            (Form::Equals, format!("TOKEN = {TOKEN} # mine\n"), "TOKEN"),
            (Form::Equals, "export TOKEN=\"".to_owned() + TOKEN + "\" ; x=y\n", "TOKEN"),
            (Form::Colon, format!("api_token: '{TOKEN}'  # mine\n"), "api_token"),
            (Form::Words, format!("'Bearer {TOKEN}'\n"), "{16,}"),
            (Form::Colon, format!("github.com:\n    user: me\n    oauth_token: {TOKEN}\n"), "oauth_token"),
            (Form::Words, format!("Bearer {TOKEN}\n"), "{16,}"),
            (Form::Words, format!("\"{TOKEN}\""), "'(.+)'"),
        ];
        for (form, content, part) in cases {
            let found = structure(content.as_bytes()).unwrap_or_else(|| panic!("{content}"));
            let said = found.to_string();
            assert!(found.form == form && said.contains(part) && !said.contains(TOKEN), "{content}: {said}");
            let example = Regex::new(&found.extract()).unwrap();
            let group =
                example.captures(content.as_bytes()).and_then(|captures| captures.get(1)).expect(&content);
            assert_eq!(group.as_bytes(), TOKEN.as_bytes(), "{content}: {said}");
        }
    }

    #[test]
    fn logins_of_several_hosts_are_told_of() {
        for (content, want) in [
            (format!("https://me:{TOKEN}@a.test\n"), false),
            (format!("https://me:{TOKEN}@a.test\nhttps://you:{TOKEN}@a.test\n"), false),
            (format!("https://me:{TOKEN}@a.test\nhttps://me:{TOKEN}@b.test\n"), true),
            (format!("machine a.test login me password {TOKEN}\n"), false),
            (format!("machine a.test login me password {TOKEN}\nmachine b.test password {TOKEN}\n"), true),
        ] {
            let said = structure(content.as_bytes()).unwrap().to_string();
            assert_eq!(said.contains("logins of several hosts"), want, "{content}: {said}");
        }
    }

    #[test]
    fn what_is_said_shows_no_value_and_no_odd_name() {
        for content in [
            format!("{{\"{TOKEN}\": \"{TOKEN}\"}}"),
            format!("{{\"a\\u001b[2Jtoken\": \"{TOKEN}\"}}"),
            format!("{{\"it's token\": \"{TOKEN}\"}}"),
            format!("{TOKEN}: {TOKEN}"),
            format!("{{ // a comment\n \"token\": \"{TOKEN}\"}}"),
            "[section]\n".to_owned(),
        ] {
            let said = structure(content.as_bytes()).unwrap_or_else(|| panic!("{content}")).to_string();
            assert!(said.contains("NAME") && !said.contains("ghp_") && !said.contains('\x1b'), "{said}");
        }
    }
}
