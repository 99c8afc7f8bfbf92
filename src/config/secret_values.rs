//! The grammar of single values of secrets and HTTP rules. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use ipnet::IpNet;

use super::values::{self, Base, GrantPath, grant_path, host_pattern};
use super::words::Problem;
use crate::policy::env;
use crate::policy::host_rule::{HostPattern, Hosts, Ports, StreamCheck};
use crate::secrets::{FileError, FileMask, looks_like_token, token_like};

/// Reads a host where a secret is put in.
///
/// Fails on what cannot be inspected, and on `*` and networks that are nearly as wide: the secret would go wherever the
/// jail may go.
pub fn secret_host(text: &str) -> Result<HostPattern, Problem> {
    const WHY: &str = "a secret is put in on the way to its host only where TLS ends at ai-jail";
    // Between commas.
    match text.trim() {
        "" => return Err(Problem::new("a host is missing").hint("write HOST, or HOST,HOST,...")),
        host if host != text => {
            return Err(
                Problem::new("there is white space beside a host").hint("write HOST,HOST,... without")
            );
        }
        _ => {}
    }
    let pattern = host_pattern(text)?;
    if pattern.check() == StreamCheck::DangerAnyBytes {
        return Err(Problem::new(format!("{WHY}, and not for any bytes")).hint("leave /tcp out"));
    }
    if !pattern.covers_tls() {
        let why = format!("{WHY}, and ports 22 and 80 carry none");
        return Err(Problem::new(why).hint("name the port of TLS, or none"));
    }
    match pattern.hosts() {
        Hosts::Any => Err(Problem::new("a secret belongs to some hosts, not to every one")
            .hint("name them, for example api.example.com")),
        Hosts::Net(net) if net.prefix_len() < shortest_prefix(net) => {
            let why = format!("a secret belongs to some hosts, not to a network as wide as {net}");
            Err(Problem::new(why).hint("name its hosts, or a network no wider than /8 (IPv6: /32)"))
        }
        _ => Ok(pattern),
    }
}

/// The shortest prefix of a network that a secret may be bound to: what one organisation has at most.
fn shortest_prefix(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => 8,
        IpNet::V6(_) => 32,
    }
}

/// Reads the host of HTTP rules, which hold on every port when none is written. Fails on what is not HTTP.
pub fn http_host(text: &str) -> Result<HostPattern, Problem> {
    let pattern = host_pattern(text)?;
    if pattern.check() == StreamCheck::DangerAnyBytes {
        return Err(Problem::new("HTTP rules are not for any bytes").hint("leave /tcp out"));
    }
    if pattern.ports() == Ports::One(22) {
        return Err(Problem::new("port 22 carries SSH, and no HTTP").hint("name another port, or none"));
    }
    Ok(pattern.on_every_port_by_default())
}

/// Checks the name of a variable that is a secret.
///
/// Fails on what is no name, and on what the jail or its programs need as it is.
pub fn secret_name(text: &str) -> Result<&str, Problem> {
    if let Some(why) = env::own_reason(text) {
        return Err(Problem::new(format!(
            "{text} is no secret: {why}, and a fake in it would only break that"
        ))
        .hint("name the variable that holds the credential, for example GITHUB_TOKEN"));
    }
    values::env_name(text)
}

/// What is bound to hosts on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A variable, by its name.
    Variable,
    /// A file, by its path.
    File,
}

/// Reads `NAME=HOST[,HOST...]` or `PATH=HOST[,HOST...]`: what stands before the last `=`, and the hosts.
pub fn bound(raw: &OsStr, what: Bound) -> Result<(&OsStr, Vec<HostPattern>), Problem> {
    let form = || {
        let word = if what == Bound::File { "PATH" } else { "NAME" };
        Problem::new(format!("it takes {word}=HOST, or {word}=HOST,HOST,..."))
    };
    let bytes = raw.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'=').filter(|at| *at > 0).ok_or_else(form)?;
    let hosts = std::str::from_utf8(&bytes[at + 1..]).map_err(|_| form())?;
    if let Some(problem) = misplaced(&OsStr::from_bytes(&bytes[..at]).to_string_lossy(), hosts, what) {
        return Err(problem);
    }
    if hosts.is_empty() {
        return Err(form());
    }
    let hosts: Vec<_> = hosts.split(',').map(secret_host).collect::<Result<_, _>>()?;
    Ok((OsStr::from_bytes(&bytes[..at]), hosts))
}

/// What is wrong when the two sides are those of another form, with the form that was meant.
fn misplaced(left: &str, right: &str, what: Bound) -> Option<Problem> {
    let is_path = |text: &str| ["/", "~", "./", "../"].iter().any(|start| text.starts_with(start));
    let is_name = |text: &str| {
        let sign = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        text.bytes().any(|byte| byte.is_ascii_uppercase()) && text.bytes().all(sign)
    };
    let is_host = |text: &str| {
        !text.contains('/') && (text.contains('.') || text == "localhost") && host_pattern(text).is_ok()
    };
    let problem = |why: &str, option: &str, bound: &str, host: &str| {
        Some(Problem::new(why).hint(format!("write {option} {bound}={host}")))
    };
    match what {
        Bound::Variable if is_host(left) && is_name(right) => {
            problem("the name of the variable stands first", "--secret", right, left)
        }
        Bound::File if is_host(left) && is_path(right) => {
            problem("the path of the file stands first", "--secret-file", right, left)
        }
        Bound::Variable if is_path(left) => {
            problem("a path is no name of a variable", "--secret-file", left, right)
        }
        Bound::Variable if is_path(right) => problem("a path is no host", "--secret-file", right, left),
        Bound::File if is_host(left) && is_name(right) => {
            problem("this is the name of a variable, and its host", "--secret", right, left)
        }
        _ => None,
    }
}

/// What is wrong when several are written in one word, `A=h,B=g` or `A=h B=g`, with the form that was meant. In `A=h,B=g` the last
/// host of A would be the name of B.
pub fn several(raw: &str) -> Option<Problem> {
    let mut each: Vec<Vec<&str>> = Vec::new();
    let between = |sign: char| matches!(sign, ',' | ';') || sign.is_whitespace();
    for part in raw.split(between).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((name, host)) => {
                secret_name(name).ok().filter(|name| is_plain_name(name))?;
                each.push(vec![name, host]);
            }
            None => each.last_mut()?.push(part),
        }
    }
    let hosts = each.iter().flat_map(|one| &one[1..]);
    if each.len() < 2 || hosts.clone().any(|host| looks_like_token(host) || secret_host(host).is_err()) {
        return None;
    }
    let options: Vec<String> =
        each.iter().map(|one| format!("--secret {}={}", one[0], one[1..].join(","))).collect();
    Some(Problem::new("each variable has an option of its own").hint(format!("write {}", options.join(" "))))
}

fn is_plain_name(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(sign) && !looks_like_token(text)
}

/// Whether a secret's value stands where [`bound`] reads the hosts of a variable. A variable's name holds no `=`.
pub fn is_value_of_variable(raw: &str) -> bool {
    match raw.split_once('=') {
        Some((_, hosts)) => hosts.contains('=') || hosts.split(',').any(looks_like_token),
        None => raw.contains(|sign: char| sign.is_ascii_lowercase()) && looks_like_token(raw),
    }
}

/// Whether a secret's value stands where the name of a variable belongs, as after `$NAME` for `NAME`. Names of variables that
/// mix capitals, small letters and digits, and are long, do not occur.
pub fn is_value_for_name(raw: &str) -> bool {
    let name = raw.split_once('=').map_or(raw, |(name, _)| name);
    let has = |test: fn(char) -> bool| name.contains(test);
    has(|sign| sign.is_ascii_lowercase()) && has(|sign| sign.is_ascii_uppercase()) && looks_like_token(name)
}

/// [`is_value_of_variable`] for a file, whose path may hold `=`.
pub fn is_value_of_file(raw: &OsStr) -> bool {
    let text = raw.to_string_lossy();
    text.rsplit_once('=').is_some_and(|(_, hosts)| hosts.split(',').any(looks_like_token))
}

/// Whether a secret's value stands where the path of a file belongs: all of it looks like one. A file that is called so is
/// written `./NAME`.
pub fn is_value_for_path(raw: &OsStr) -> bool {
    token_like(raw.as_bytes()).first().is_some_and(|token| *token == (0..raw.len()))
}

/// Reads the path of one file; `~` is the home.
///
/// Fails on an empty path, a NUL byte, a glob's star, and a relative path where there is nothing that it could start from.
pub fn secret_path(raw: &OsStr, base: Base<'_>) -> Result<PathBuf, Problem> {
    match grant_path(raw, base)? {
        GrantPath::Path(path) if raw.as_bytes().ends_with(b"*") => {
            Err(Problem::new("it is one file, not a glob").hint(format!("name a file in {}", path.display())))
        }
        GrantPath::Path(path) => Ok(path),
        GrantPath::Skip(_) => Err(Problem::new("it is one file, not a glob, without white space at an end")),
    }
}

/// Reads a regular expression that finds secrets in a file. Fails when it is none, or has no group.
pub fn extract(text: &str) -> Result<String, Problem> {
    match FileMask::new(Some(text), None, Vec::new()) {
        Ok(_) => Ok(text.to_owned()),
        Err(FileError::NoGroup) => Err(Problem::new("the expression has no group that says what is secret")
            .hint("put parentheses around that part")),
        Err(FileError::Extract(why)) => Err(Problem::new(format!("this is no regular expression: {why}"))),
        Err(error) => Err(Problem::new(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_value_is_told_from_the_name_of_a_variable() {
        for value in [
            "ghp_R3aLvAlUe0123456789abcdef",
            "ghp_R3aLvAlUe0123456789abcdef=a.example",
            "AbC_0123456789xyzabc=a.example",
        ] {
            assert!(is_value_for_name(value), "{value}");
        }
        for name in [
            "GITHUB_TOKEN_2024_SECOND=a.example",
            "npm_config_token_0123456789=a.example",
            "myToken=a.example",
            "K",
        ] {
            assert!(!is_value_for_name(name), "{name}");
        }
    }

    #[test]
    fn a_value_is_told_from_the_path_of_a_file() {
        let is_value = |text: &str| is_value_for_path(OsStr::new(text));
        for value in ["ghp_R3aLvAlUe0123456789abcdef", "0123456789abcdef0123456789abcdef"] {
            assert!(is_value(value) && !is_value(&format!("./{value}")), "{value}");
        }
        for path in ["", "token", "keys.env", ".env", "my_long_file_name_2024.json", "GITHUB_TOKEN"] {
            assert!(!is_value(path), "{path}");
        }
    }

    #[test]
    fn a_secret_is_bound_to_hosts_that_can_be_inspected() {
        let cases = [
            ("api.example.com", None),
            ("*.example.com:8443", None),
            ("192.0.2.7", None),
            ("api.example.com:*", None),
            ("10.0.0.0/8", None),
            ("[2001:db8::/32]", None),
            ("*", Some("a secret belongs to some hosts, not to every one")),
            ("0.0.0.0/0", Some("a secret belongs to some hosts, not to a network as wide as 0.0.0.0/0")),
            ("10.0.0.0/7", Some("a secret belongs to some hosts, not to a network as wide as 10.0.0.0/7")),
            ("[::/0]:*", Some("a secret belongs to some hosts, not to a network as wide as ::/0")),
            (
                "[2001:db8::/31]",
                Some("a secret belongs to some hosts, not to a network as wide as 2001:db8::/31"),
            ),
            (
                "api.example.com/tcp",
                Some(
                    "a secret is put in on the way to its host only where TLS ends at ai-jail, and not for any bytes",
                ),
            ),
            (
                "api.example.com:80",
                Some(
                    "a secret is put in on the way to its host only where TLS ends at ai-jail, and ports 22 and 80 carry none",
                ),
            ),
            (
                "api.example.com:22",
                Some(
                    "a secret is put in on the way to its host only where TLS ends at ai-jail, and ports 22 and 80 carry none",
                ),
            ),
            (
                "https://api.example.com",
                Some("a pattern is no URL; write the host alone, with :PORT unless it is 80 or 443"),
            ),
        ];
        for (text, want) in cases {
            let got = secret_host(text).err().map(|problem| problem.why);
            assert_eq!(got.as_deref(), want, "{text}");
        }
        assert!(http_host("*").is_ok() && http_host("a.test:80").is_ok());
        assert!(http_host("a.test:22").is_err() && http_host("a.test/tcp").is_err());
        for (text, want) in [("a.test", "a.test:*"), ("a.test:80", "a.test:80"), ("*:1-9", "*:1-9")] {
            assert_eq!(http_host(text).unwrap().to_string(), want, "rules without a port hold on every one");
        }
    }

    #[test]
    fn what_is_bound_stands_before_the_last_equals_sign() {
        let cases = [
            ("A=h.test", Some(("A", 1))),
            ("A=h.test,.g.test:8443", Some(("A", 2))),
            ("a=b=h.test", Some(("a=b", 1))),
            ("A", None),
            ("a.test=A", None),
            ("A=", None),
            ("=h.test", None),
            ("A=h.test,", None),
            ("A=h test", None),
        ];
        for (text, want) in cases {
            let got = bound(OsStr::new(text), Bound::Variable)
                .ok()
                .map(|(name, hosts)| (name.to_str().unwrap(), hosts.len()));
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn what_stands_on_the_wrong_side_is_said_with_the_form_that_was_meant() {
        use Bound::{File, Variable};
        for (text, what, want) in [
            ("api.a.test=TOKEN", Variable, Some("--secret TOKEN=api.a.test")),
            ("api.a.test:8443=TOKEN_2", Variable, Some("--secret TOKEN_2=api.a.test:8443")),
            ("localhost=TOKEN", Variable, Some("--secret TOKEN=localhost")),
            ("~/token=a.test", Variable, Some("--secret-file ~/token=a.test")),
            ("a.test=/srv/token", Variable, Some("--secret-file /srv/token=a.test")),
            ("a.test=./token", File, Some("--secret-file ./token=a.test")),
            ("a.test=~/token", File, Some("--secret-file ~/token=a.test")),
            ("a.test=TOKEN", File, Some("--secret TOKEN=a.test")),
            ("TOKEN=a.test", Variable, None),
            ("token=a.test", File, None),
            ("token.json=a.test", File, None),
            ("my.name=a.test", Variable, None),
        ] {
            let hint = bound(OsStr::new(text), what).err().and_then(|problem| problem.hint);
            assert_eq!(hint, want.map(|want| format!("write {want}")), "{text}");
        }
        for (what, want) in [(Variable, "it takes NAME=HOST"), (File, "it takes PATH=HOST")] {
            assert!(bound(OsStr::new("x"), what).unwrap_err().why.starts_with(want), "{what:?}");
        }
    }

    #[test]
    fn several_variables_in_one_word_are_told_from_a_value() {
        for (text, want) in [
            ("A=a.test,B=b.test", Some("write --secret A=a.test --secret B=b.test")),
            (
                "A=a.test,g.test,B=b.test:8443,.c.test",
                Some("write --secret A=a.test,g.test --secret B=b.test:8443,.c.test"),
            ),
            ("A=a.test B=b.test", Some("write --secret A=a.test --secret B=b.test")),
            ("A=a.test;B=b.test", Some("write --secret A=a.test --secret B=b.test")),
            ("A=a.test, g.test; B=b.test\n", Some("write --secret A=a.test,g.test --secret B=b.test")),
            ("A=a.test,g.test", None),
            ("A=a.test g.test", None),
            ("A=a.test B=ghp_R3aLvAlUe0123456789abcdef", None),
            ("A=a.test", None),
            ("A=ghp_R3aLvAlUe0123456789abcdef,B=b.test", None),
            ("A=a.test,ghp_R3aLvAlUe0123456789abcdef=b.test", None),
            ("A=a.test,x/y+z=", None),
            ("A=c2VjcmV0IHZhbHVl==", None),
        ] {
            assert_eq!(several(text).and_then(|problem| problem.hint).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn a_secret_file_is_one_file() {
        let base = Base { relative: Some(Path::new("/p")), home: Path::new("/home/me") };
        let read = |text: &str| secret_path(OsStr::new(text), base).ok();
        assert_eq!(read("~/a.json"), Some("/home/me/a.json".into()));
        assert_eq!(read("a=b.json"), Some("/p/a=b.json".into()));
        for refused in ["", "/a/*", "/a/**", "/a/*.json", "/a ", "/a\0b"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
