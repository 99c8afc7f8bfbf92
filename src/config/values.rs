//! The grammar of single values: grants, hosts, resolve targets, limits, names of variables. Pure.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::settings::ResolveTarget;
use super::words::Problem;
use crate::policy::authority::Host;
use crate::policy::glob::Glob;
use crate::policy::host_rule::HostPattern;
use crate::policy::net::DOOR_PORTS;
use crate::policy::upstream::{Proxy, UpstreamChoice};
use crate::secrets::looks_like_token;

/// Where the paths of a layer start.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// Where relative paths start; `None` refuses them.
    pub relative: Option<&'a Path>,
    /// What `~` means.
    pub home: &'a Path,
}

/// What a path of a grant turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantPath {
    /// An absolute path. `.` and `..` are left in it: only the file system can tell where they lead.
    Path(PathBuf),
    /// An entry that is left out with a warning; this is the reason.
    Skip(&'static str),
}

/// Reads the path of a grant (FS-3): a trailing `/**` or `/*` means the directory before it, `~` is the home.
///
/// Fails on an empty path, a NUL byte, and a relative path where there is nothing that it could start from.
pub fn grant_path(raw: &OsStr, base: Base<'_>) -> Result<GrantPath, Problem> {
    let bytes = raw.as_bytes();
    if bytes.is_empty() {
        return Err(Problem::new("the path is empty"));
    }
    if bytes.contains(&0) {
        return Err(Problem::new("a path cannot hold a NUL byte"));
    }
    if bytes.first().is_some_and(u8::is_ascii_whitespace) || bytes.last().is_some_and(u8::is_ascii_whitespace)
    {
        return Ok(GrantPath::Skip("it begins or ends with white space, which would be part of the path"));
    }
    let plain = match bytes.strip_suffix(b"/**").or_else(|| bytes.strip_suffix(b"/*")) {
        Some(b"") => b"/",
        Some(directory) => directory,
        None => bytes,
    };
    if plain.iter().any(|byte| b"*?[]{}".contains(byte)) {
        return Ok(GrantPath::Skip(
            "a grant is a directory or a file, not a glob (only a trailing /** or /* is understood)",
        ));
    }
    let path = Path::new(OsStr::from_bytes(plain));
    if let Ok(rest) = path.strip_prefix("~") {
        return Ok(GrantPath::Path(base.home.join(rest)));
    }
    match base.relative {
        _ if path.is_absolute() => Ok(GrantPath::Path(path.to_path_buf())),
        Some(directory) => Ok(GrantPath::Path(directory.join(path))),
        None => Err(Problem::new("a path in this file must be absolute").hint("begin it with / or ~/")),
    }
}

/// Reads the path of a socket.
///
/// Fails on an abstract one, on an empty path, a NUL byte, and a relative path where there is nothing that it could start
/// from.
pub fn socket_path(raw: &OsStr, base: Base<'_>) -> Result<PathBuf, Problem> {
    let bytes = raw.as_bytes();
    if bytes.first() == Some(&b'@') || bytes.starts_with(b"unix-abstract:") || bytes.starts_with(b"abstract:")
    {
        return Err(Problem::new(
            "an abstract socket has no path: it belongs to the host's network, which the jail does not see",
        )
        .hint("let the service listen at a path too (a file that begins with @ is written ./@NAME)"));
    }
    if bytes.is_empty() {
        return Err(Problem::new("the path is empty"));
    }
    if bytes.contains(&0) {
        return Err(Problem::new("a path cannot hold a NUL byte"));
    }
    let path = Path::new(raw.to_str().and_then(|text| text.strip_prefix("unix://")).map_or(raw, OsStr::new));
    if let Ok(rest) = path.strip_prefix("~") {
        return Ok(base.home.join(rest));
    }
    match base.relative {
        _ if path.is_absolute() => Ok(path.to_path_buf()),
        Some(directory) => Ok(directory.join(path)),
        None => Err(Problem::new("a path in this file must be absolute").hint("begin it with / or ~/")),
    }
}

/// Reads a glob of `deny` or `mask` (FS-8); `~` is `home`.
pub fn glob(raw: &OsStr, home: &Path) -> Result<Glob, Problem> {
    Glob::parse(raw, home).map_err(|refused| Problem::new(refused.why).hint(refused.fix))
}

/// Splits `PATH[:DEST]` at the last `:` that a `/` follows.
///
/// So `/a:b` is one path, and a host path that holds `:/` cannot be given this way: `read_only` and `read_write` in
/// the configuration file take whole paths.
pub fn split_destination(raw: &OsStr) -> (OsString, Option<OsString>) {
    let bytes = raw.as_bytes();
    match bytes.windows(2).rposition(|pair| pair == b":/") {
        Some(at) if at > 0 => {
            (OsString::from_vec(bytes[..at].to_vec()), Some(OsString::from_vec(bytes[at + 1..].to_vec())))
        }
        _ => (raw.to_os_string(), None),
    }
}

/// The canonical form of a single host: a name in lower case without its trailing dot, or an address (IPv6 in
/// brackets).
///
/// Fails on wildcards, ports, odd spellings of an address and everything that is no host.
pub fn host(text: &str) -> Result<String, Problem> {
    let bracketed = text.parse::<Ipv6Addr>().map(|addr| format!("[{addr}]"));
    let host = Host::parse(bracketed.as_deref().unwrap_or(text).as_bytes()).map_err(|error| {
        Problem::new(error.to_string()).hint("give one host name or address, without wildcard, port or path")
    })?;
    match host {
        Host::Ip(IpAddr::V4(addr)) if addr.to_string() != text => {
            Err(Problem::new("this is another spelling of an address").hint(format!("write {addr}")))
        }
        _ => Ok(host.to_string()),
    }
}

/// Reads a host pattern of `allow` or `deny`.
pub fn host_pattern(text: &str) -> Result<HostPattern, Problem> {
    // Hosts are shown, also to the jail.
    if looks_like_token(text) {
        return Err(Problem::new("it looks like a secret").hint(
            "write a host such as api.example.com, and treat that secret as seen; a host that looks like a secret is taken with its \
             port, HOST:443",
        ));
    }
    HostPattern::parse(text).map_err(|error| {
        let problem = Problem::new(error.to_string());
        match text.contains([',', ';', ' ']) {
            true => problem.hint("it is one host; of several each is given by itself"),
            false => problem,
        }
    })
}

/// Fails on a NUL byte, which no argument and no variable can hold.
pub fn no_nul(text: &str) -> Result<(), Problem> {
    if text.contains('\0') { Err(Problem::new("it cannot hold a NUL byte")) } else { Ok(()) }
}

/// Reads `ADDR[:PORT]`; an IPv6 address with a port is written in brackets.
pub fn resolve_target(text: &str) -> Result<ResolveTarget, Problem> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(addr) = bare.parse::<IpAddr>() {
        return Ok(ResolveTarget { addr, port: None });
    }
    match text.parse::<SocketAddr>() {
        Ok(socket) if socket.port() != 0 => {
            Ok(ResolveTarget { addr: socket.ip(), port: Some(socket.port()) })
        }
        _ => Err(Problem::new(
            "the target is an address and perhaps a port, for example 192.0.2.7:8443 or [2001:db8::1]:8443",
        )),
    }
}

/// Reads bytes: a number with `K`, `M`, `G` or `T` (powers of 1024) or without.
pub fn memory(text: &str) -> Result<u64, Problem> {
    let problem = || Problem::new("memory is a number above 0 with K, M, G or T, for example 8G");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[split..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(problem()),
    };
    let number = text[..split].parse::<u64>().map_err(|_| problem())?;
    number.checked_mul(1_u64 << shift).filter(|bytes| *bytes > 0).ok_or_else(problem)
}

/// Reads a count of at least one.
pub fn count(text: &str) -> Result<u64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|n| digits && *n > 0)
        .ok_or_else(|| Problem::new("it takes a whole number above 0"))
}

/// Reads a TCP port.
fn port(text: &str) -> Result<u16, Problem> {
    if text.contains(':') {
        return Err(Problem::new("one port cannot be mapped to another: it is the same inside and outside"));
    }
    count(text)
        .ok()
        .and_then(|port| u16::try_from(port).ok())
        .ok_or_else(|| Problem::new("it takes a port, 1 to 65535"))
}

/// Reads a port of the host's loopback that the jail is to reach at its own. Those of our doors are taken there.
pub fn forward_port(text: &str) -> Result<u16, Problem> {
    let port = port(text).map_err(|problem| match text.contains(':') {
        false => problem,
        true => problem.hint(
            "name it alone, or give the server a name: --allow-host dev.internal:5432 --resolve dev.internal=127.0.0.1:5433",
        ),
    })?;
    if DOOR_PORTS.contains(&port) {
        return Err(Problem::new(format!("the jail's own doors listen on port {port}")).hint(format!(
            "give the server a name: --allow-host dev.internal:{port} --resolve dev.internal=127.0.0.1:{port}"
        )));
    }
    Ok(port)
}

/// Reads `env`, `none`, or the URL of a proxy.
pub fn upstream(text: &str) -> Result<UpstreamChoice, Problem> {
    match text {
        "env" => Ok(UpstreamChoice::Environment),
        "none" => Ok(UpstreamChoice::Direct),
        url => Proxy::parse(url).map(UpstreamChoice::Proxy),
    }
}

/// Reads a port of the jail's loopback that this machine is to reach at its own. At those of our doors it would reach them,
/// and the hosts that the jail may reach.
pub fn publish_port(text: &str) -> Result<u16, Problem> {
    let port = port(text).map_err(|problem| match text.contains(':') {
        false => problem,
        true => problem.hint("let the server in the jail listen on the port that you want outside"),
    })?;
    if DOOR_PORTS.contains(&port) {
        return Err(Problem::new(format!("the jail's own doors listen on port {port}"))
            .hint("let the server in the jail listen on another port, for example 8080"));
    }
    Ok(port)
}

/// Reads a share of processors: `200%` is two of them.
pub fn cpu_percent(text: &str) -> Result<u32, Problem> {
    text.strip_suffix('%')
        .and_then(|digits| count(digits).ok())
        .and_then(|percent| u32::try_from(percent).ok())
        .ok_or_else(|| Problem::new("cpu is a percentage of one processor, for example 200% for two"))
}

/// Reads a span of time in seconds: numbers with `d`, `h`, `m` and `s`, for example `2h`, `90s`, `1h30m`.
pub fn seconds(text: &str) -> Result<u64, Problem> {
    let problem = || Problem::new("time is numbers with d, h, m or s, for example 2h, 90s or 1h30m");
    let mut total = 0_u64;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| !c.is_ascii_digit()) {
        let number = rest[..at].parse::<u64>().map_err(|_| problem())?;
        let (unit, after) = rest[at..].split_at_checked(1).ok_or_else(problem)?;
        let factor = match unit {
            "d" => 86_400,
            "h" => 3_600,
            "m" => 60,
            "s" => 1,
            _ => return Err(problem()),
        };
        total = number.checked_mul(factor).and_then(|n| total.checked_add(n)).ok_or_else(problem)?;
        rest = after;
    }
    if rest.is_empty() && total > 0 { Ok(total) } else { Err(problem()) }
}

/// Variables without which the jail would be another, with the reason why nobody sets them.
const OWN: &[(&str, &str)] = &[
    ("HOME", "HOME is the jail's own; --home and --state say what is in it"),
    ("AI_JAIL", "AI_JAIL tells programs that they run in a jail and is always 1"),
];

/// Checks the name of an environment variable: not empty, no `=`, no NUL.
pub fn env_name(text: &str) -> Result<&str, Problem> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err(Problem::new("the name of a variable is not empty and holds no `=` and no NUL byte"));
    }
    if let Some((_, why)) = OWN.iter().find(|(own, _)| *own == text) {
        return Err(Problem::new(*why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(relative: Option<&'static str>) -> Base<'static> {
        Base { relative: relative.map(Path::new), home: Path::new("/home/me") }
    }

    #[test]
    fn a_grant_is_a_path_not_a_glob() {
        let path = |text: &str| Ok(GrantPath::Path(PathBuf::from(text)));
        let glob = Ok(GrantPath::Skip(
            "a grant is a directory or a file, not a glob (only a trailing /** or /* is understood)",
        ));
        let blank =
            Ok(GrantPath::Skip("it begins or ends with white space, which would be part of the path"));
        let cases = [
            ("/data", path("/data")),
            ("/data/", path("/data/")),
            ("/data/**", path("/data")),
            ("/data/*", path("/data")),
            ("/**", path("/")),
            ("~", path("/home/me")),
            ("~/x", path("/home/me/x")),
            ("~/x/**", path("/home/me/x")),
            ("/a b", path("/a b")),
            ("/data/*.pem", glob.clone()),
            ("/data/**/x", glob.clone()),
            ("/data/x?", glob.clone()),
            ("/data/[ab]", glob.clone()),
            ("/data/{a,b}", glob.clone()),
            ("/data/***", glob.clone()),
            ("/data/*/**", glob.clone()),
            (" /data", blank.clone()),
            ("/data\t", blank.clone()),
            ("/data/**\n", blank.clone()),
        ];
        for (text, want) in cases {
            assert_eq!(grant_path(OsStr::new(text), base(None)), want, "{text:?}");
        }
        assert_eq!(grant_path(OsStr::new("x"), base(Some("/work"))), path("/work/x"));
        assert_eq!(grant_path(OsStr::new("~you/x"), base(Some("/work"))), path("/work/~you/x"));
        for refused in ["", "x", "./x", "~you", "/a\0b"] {
            assert!(grant_path(OsStr::new(refused), base(None)).is_err(), "{refused:?}");
        }
        let raw = OsStr::from_bytes(b"/d\xff/**");
        assert_eq!(
            grant_path(raw, base(None)),
            Ok(GrantPath::Path(PathBuf::from(OsStr::from_bytes(b"/d\xff"))))
        );
    }

    #[test]
    fn the_destination_follows_the_last_colon_before_a_slash() {
        let cases = [
            ("/a", "/a", None),
            ("/a:/b", "/a", Some("/b")),
            ("a:/b", "a", Some("/b")),
            ("/a:b", "/a:b", None),
            ("/a:b:/c", "/a:b", Some("/c")),
            ("/a:/b:/c", "/a:/b", Some("/c")),
            ("/a:", "/a:", None),
            (":/b", ":/b", None),
        ];
        for (text, source, dest) in cases {
            assert_eq!(
                split_destination(OsStr::new(text)),
                (OsString::from(source), dest.map(OsString::from)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_host_is_one_name_or_one_address() {
        let cases = [
            ("Git.Corp.Example", Some("git.corp.example")),
            ("git.corp.example.", Some("git.corp.example")),
            ("localhost", Some("localhost")),
            ("a_b.example", Some("a_b.example")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("0:0::1", Some("[::1]")),
            ("*.example.com", None),
            ("example.com:443", None),
            ("example.com/x", None),
            ("user@example.com", None),
            ("ex ample.com", None),
            ("bücher.example", None),
            ("127.1", None),
            ("2130706433", None),
            ("0x7f.0x1", None),
            ("a..b", None),
            ("", None),
            (".", None),
            ("-a.example", None),
        ];
        for (text, want) in cases {
            assert_eq!(host(text).ok().as_deref(), want, "{text:?}");
        }
        assert!(host(&format!("{}.example", "a".repeat(64))).is_err());
        assert!(host(&["a"; 128].join(".")).is_err());
    }

    #[test]
    fn a_resolve_target_is_an_address_and_perhaps_a_port() {
        let cases = [
            ("192.0.2.7", Some(("192.0.2.7", None))),
            ("192.0.2.7:8443", Some(("192.0.2.7", Some(8443)))),
            ("::1", Some(("::1", None))),
            ("[::1]", Some(("::1", None))),
            ("[::1]:80", Some(("::1", Some(80)))),
            ("192.0.2.7:0", None),
            ("192.0.2.7:65536", None),
            ("192.0.2.7:", None),
            ("example.com", None),
            ("127.1", None),
            ("", None),
        ];
        for (text, want) in cases {
            let got = resolve_target(text).ok().map(|t| (t.addr.to_string(), t.port));
            assert_eq!(got, want.map(|(addr, port)| (addr.to_owned(), port)), "{text:?}");
        }
    }

    #[test]
    fn limits_have_units() {
        let memory_cases = [
            ("8G", Some(8 << 30)),
            ("512M", Some(512 << 20)),
            ("1k", Some(1024)),
            ("1T", Some(1 << 40)),
            ("4096", Some(4096)),
            ("0", None),
            ("0G", None),
            ("G", None),
            ("8 G", None),
            ("8GB", None),
            ("-1", None),
            ("1.5G", None),
            ("99999999999T", None),
            ("", None),
        ];
        for (text, want) in memory_cases {
            assert_eq!(memory(text).ok(), want, "{text:?}");
        }
        let time_cases = [
            ("90s", Some(90)),
            ("2h", Some(7_200)),
            ("1h30m", Some(5_400)),
            ("1d", Some(86_400)),
            ("90", None),
            ("0s", None),
            ("h", None),
            ("2h5", None),
            ("2ü", None),
            ("2 h", None),
            ("99999999999999999999h", None),
            ("999999999999999999h", None),
            ("", None),
        ];
        for (text, want) in time_cases {
            assert_eq!(seconds(text).ok(), want, "{text:?}");
        }
        for (text, want) in [
            ("200%", Some(200)),
            ("1%", Some(1)),
            ("0%", None),
            ("200", None),
            ("%", None),
            ("5000000000%", None),
        ] {
            assert_eq!(cpu_percent(text).ok(), want, "{text:?}");
        }
        for (text, want) in
            [("512", Some(512)), ("0", None), ("+5", None), ("-5", None), ("1e3", None), ("", None)]
        {
            assert_eq!(count(text).ok(), want, "{text:?}");
        }
    }
}
