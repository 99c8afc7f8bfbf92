//! PURE: the proxy outside that connections go through (NET-8): what a URL says, and for which hosts it is not used.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;

use crate::config::words::Problem;
use crate::policy::authority::{Authority, Host, HostName};
use crate::policy::origin::{Origin, Sourced};

/// `network.upstream_proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamChoice {
    /// What the launcher's environment says.
    Environment,
    /// None.
    Direct,
    /// This one, for every host.
    Proxy(Proxy),
}

/// A proxy that speaks HTTP.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Proxy {
    /// Where it is.
    #[serde(serialize_with = "displayed")]
    pub at: Authority,
    /// The value of `Proxy-Authorization`.
    #[serde(skip)]
    pub login: Option<Login>,
}

/// A login; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login(String);

impl Login {
    /// The header's value.
    pub fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(not shown)")
    }
}

impl Proxy {
    /// Reads `http://[USER[:PASSWORD]@]HOST[:PORT][/]`. Without `http://` the port has to be there. No problem that is
    /// reported repeats the login.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let wanted = "write http://HOST:PORT, with USER:PASSWORD@ before the host if it asks for a login";
        let (rest, default_port) = match text.split_once("://") {
            None => (text, None),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (rest, Some(80)),
            Some(_) => {
                return Err(Problem::new("a proxy is spoken to in plain HTTP alone").hint(wanted));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, at) = match rest.rsplit_once('@') {
            Some((login, at)) => (Some(login), at),
            None => (None, rest),
        };
        let at = match default_port {
            Some(port) => Authority::parse_with_default(at.as_bytes(), port),
            None => Authority::parse(at.as_bytes()),
        };
        let at = at.map_err(|error| Problem::new(format!("the proxy's address: {error}")).hint(wanted))?;
        let login = login
            .map(|login| {
                let bytes = decoded(login).ok_or_else(|| {
                    Problem::new("the proxy's login has a % that is not followed by two hexadecimal digits")
                        .hint("write a % of the login as %25")
                })?;
                let bytes = if bytes.contains(&b':') { bytes } else { [&bytes[..], b":"].concat() };
                Ok(Login(format!("Basic {}", STANDARD.encode(bytes))))
            })
            .transpose()?;
        Ok(Self { at, login })
    }
}

/// The proxies of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Upstream {
    /// For port 80.
    pub plain: Option<Sourced<Proxy>>,
    /// For every other port.
    pub others: Option<Sourced<Proxy>>,
    /// For which hosts there is none, as the environment has it.
    pub no_proxy: String,
    #[serde(skip)]
    except: Vec<Exception>,
}

fn displayed<S: serde::Serializer>(at: &Authority, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    Everything,
    /// This name and those below it.
    Name(String, Option<u16>),
    Net(IpNet, Option<u16>),
}

impl Upstream {
    /// What `choice` means where the launcher's environment is `environment`. A variable that cannot be used is a sentence in
    /// `warnings`: connections are direct then.
    pub fn new(
        choice: &Sourced<UpstreamChoice>,
        environment: &BTreeMap<OsString, OsString>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let variable =
            |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str()).map(str::trim);
        if choice.value == UpstreamChoice::Environment {
            for name in
                ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"]
            {
                if environment.get(OsStr::new(name)).is_some_and(|value| value.to_str().is_none()) {
                    warnings.push(format!(
                        "{name} is not used: it is not UTF-8; set it anew, or upstream_proxy in [network]"
                    ));
                }
            }
        }
        let mut from_environment = |names: &[&str]| {
            let (name, text) = names
                .iter()
                .find_map(|name| variable(name).filter(|text| !text.is_empty()).map(|text| (*name, text)))?;
            match Proxy::parse(text) {
                Ok(proxy) => {
                    Some(Sourced::new(proxy, Origin::built_in(format!("{name} of the environment"))))
                }
                Err(problem) => {
                    let hint = problem.hint.map_or(String::new(), |hint| format!("; {hint}"));
                    warnings.push(format!(
                        "the proxy of {name} is not used, and connections are direct: {}{hint}",
                        problem.why
                    ));
                    None
                }
            }
        };
        match &choice.value {
            UpstreamChoice::Direct => Self::default(),
            UpstreamChoice::Proxy(proxy) => {
                let proxy = Some(Sourced::new(proxy.clone(), choice.origin.clone()));
                Self { plain: proxy.clone(), others: proxy, ..Self::default() }
            }
            UpstreamChoice::Environment => {
                let no_proxy = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
                Self {
                    // HTTP_PROXY in capitals may be a header of a request where the launcher is a CGI program; curl does not
                    // read it either.
                    plain: from_environment(&["http_proxy", "all_proxy", "ALL_PROXY"]),
                    others: from_environment(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
                    no_proxy: no_proxy.to_owned(),
                    except: exceptions(no_proxy),
                }
            }
        }
    }

    /// The proxy for a target, if there is one.
    pub fn of(&self, target: &Authority) -> Option<&Proxy> {
        let proxy = if target.port == 80 { &self.plain } else { &self.others };
        let proxy = proxy.as_ref().map(|proxy| &proxy.value)?;
        (!self.except.iter().any(|exception| exception.covers(target))).then_some(proxy)
    }
}

impl Exception {
    fn covers(&self, target: &Authority) -> bool {
        let port = |wanted: &Option<u16>| wanted.is_none_or(|port| port == target.port);
        match (self, &target.host) {
            (Self::Everything, _) => true,
            (Self::Name(name, wanted), Host::Name(host)) => {
                let below = host.as_str().strip_suffix(name.as_str());
                below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) && port(wanted)
            }
            (Self::Net(net, wanted), Host::Ip(ip)) => net.contains(ip) && port(wanted),
            _ => false,
        }
    }
}

/// The entries that can be understood; others cover nothing, as with every program that reads this variable.
fn exceptions(text: &str) -> Vec<Exception> {
    let words = text.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|word| !word.is_empty());
    words.filter_map(exception).collect()
}

fn exception(word: &str) -> Option<Exception> {
    if word == "*" {
        return Some(Exception::Everything);
    }
    let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
    if let Some(net) = net(bare) {
        return Some(Exception::Net(net, None));
    }
    let (host, port) = match word.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (word, None),
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Some(net) = net(bare) {
        return Some(Exception::Net(net, port));
    }
    let name = host.strip_prefix("*.").or_else(|| host.strip_prefix('.')).unwrap_or(host);
    let name = HostName::parse(name.as_bytes()).ok()?;
    Some(Exception::Name(name.as_str().to_owned(), port))
}

fn net(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// `%XX` is the byte of that number.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            byte => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Authority {
        Authority::parse(text.as_bytes()).unwrap()
    }

    fn environment(pairs: &[(&str, &str)]) -> (Upstream, Vec<String>) {
        let variables = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut warnings = Vec::new();
        let choice = Sourced::new(UpstreamChoice::Environment, Origin::built_in("default"));
        (Upstream::new(&choice, &variables, &mut warnings), warnings)
    }

    #[test]
    fn urls_of_proxies_are_read_and_their_logins_never_shown() {
        for (text, at, login) in [
            ("http://proxy.corp.example:3128", "proxy.corp.example:3128", None),
            ("HTTP://proxy.corp.example/", "proxy.corp.example:80", None),
            ("proxy:8080", "proxy:8080", None),
            ("http://[fd00::1]:3128", "[fd00::1]:3128", None),
            ("http://ann:s%40cret@10.0.0.1:3128", "10.0.0.1:3128", Some("Basic YW5uOnNAY3JldA==")),
            ("http://ann@proxy:1", "proxy:1", Some("Basic YW5uOg==")),
            ("http://a:b@c@proxy:1", "proxy:1", Some("Basic YTpiQGM=")),
        ] {
            let proxy = Proxy::parse(text).unwrap_or_else(|problem| panic!("{text}: {}", problem.why));
            assert_eq!(proxy.at.to_string(), at, "{text}");
            assert_eq!(proxy.login.as_ref().map(Login::header), login, "{text}");
            let shown = format!("{proxy:?} {}", serde_json::to_string(&proxy).unwrap());
            assert!(!shown.contains("Basic") && !shown.contains("cret"), "{shown}");
        }
        for text in [
            "",
            "proxy",
            "https://proxy:1",
            "socks5h://proxy:1",
            "http://proxy:0",
            "http://u:%zz@proxy:1",
            "http://a b:1",
            "http://proxy:1/x",
        ] {
            let problem = Proxy::parse(text).unwrap_err();
            assert!(!problem.why.contains("zz"), "{text}: {}", problem.why);
        }
    }

    #[test]
    fn the_environment_is_read_as_curl_reads_it() {
        let (upstream, warnings) = environment(&[
            ("http_proxy", "http://plain:1"),
            ("HTTPS_PROXY", "http://tls:2"),
            (
                "no_proxy",
                "corp.example, .internal,*.wild.example 10.0.0.0/8,[fd00::/8],odd.example:8443,192.0.2.7, b\u{fc}cher",
            ),
        ]);
        assert_eq!(warnings, [] as [String; 0]);
        for (text, want) in [
            ("a.example:80", Some("plain:1")),
            ("a.example:443", Some("tls:2")),
            ("a.example:22", Some("tls:2")),
            ("corp.example:443", None),
            ("git.corp.example:443", None),
            ("notcorp.example:443", Some("tls:2")),
            ("x.internal:80", None),
            ("wild.example:443", None),
            ("10.1.2.3:443", None),
            ("11.1.2.3:443", Some("tls:2")),
            ("192.0.2.7:443", None),
            ("[fd00::9]:443", None),
            ("odd.example:8443", None),
            ("odd.example:443", Some("tls:2")),
        ] {
            let got = upstream.of(&target(text)).map(|proxy| proxy.at.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
        assert_eq!(
            environment(&[("all_proxy", "http://p:1"), ("NO_PROXY", "*")]).0.of(&target("a.test:443")),
            None
        );
        assert_eq!(
            environment(&[("HTTP_PROXY", "http://p:1")]).0,
            Upstream::default(),
            "capitals are not read for http"
        );
        let (upstream, warnings) = environment(&[("https_proxy", "socks5h://u:secret@p:1")]);
        assert_eq!(upstream, Upstream::default());
        assert!(warnings.len() == 1 && !warnings[0].contains("secret"), "{warnings:?}");
    }
}
