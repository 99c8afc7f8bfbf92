//! Variables that send an agent's key somewhere else than to the hosts that it is bound to.

use std::ffi::OsStr;

use crate::config::settings::{EnvValue, Settings};
use crate::policy::Facts;
use crate::policy::authority::{Authority, Host};
use crate::policy::bindings::SecretMode;

use super::{Bound, credential};

/// A key goes where the agent is told to send it only when the user binds it there.
pub(super) fn leads_elsewhere(settings: &Settings, facts: &Facts, bound: &Bound, warnings: &mut Vec<String>) {
    let masked = bound.variables.iter().filter(|binding| binding.mode == SecretMode::Mask);
    for binding in masked {
        let Some((_, credential)) = credential(facts.agent.as_ref(), &binding.name) else { continue };
        for variable in &credential.urls {
            let named = settings.env.get(variable);
            let url = match named.map(|named| &named.value) {
                Some(EnvValue::Set(value)) => Some(value.as_str()),
                Some(EnvValue::Pass) | None => {
                    facts.environment.get(OsStr::new(variable)).and_then(|value| value.to_str())
                }
            };
            let Some((scheme, target)) = url.and_then(target_of) else { continue };
            let is_bound = binding.hosts.iter().any(|host| host.matches(&target));
            let way = match (scheme, target.port) {
                (Scheme::Http, _) => {
                    format!(
                        "over plain HTTP no secret is put in; --env {} gives the jail the real one",
                        binding.name
                    )
                }
                (Scheme::Https, _) if is_bound => continue,
                (Scheme::Https, 443) => {
                    format!("--secret {}={} puts the real one in there", binding.name, target.host)
                }
                (Scheme::Https, _) => {
                    format!("--secret {}={target} puts the real one in there", binding.name)
                }
            };
            let whose = match named {
                Some(named) => named.origin.to_string(),
                None => format!("set here, not in the jail; --env {variable} passes it on"),
            };
            warnings.push(format!(
                "{variable} leads to {target} ({whose}), where {} is a fake; {way}",
                binding.name
            ));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Where a URL leads; `None` for what is none, and for a server in the jail, which gets what the jail has.
fn target_of(url: &str) -> Option<(Scheme, Authority)> {
    let (scheme, rest) = url.split_once("://")?;
    let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (Scheme::Http, 80),
        "https" => (Scheme::Https, 443),
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let target = Authority::parse_with_default(authority.as_bytes(), port).ok()?;
    let own = match &target.host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(name) => name.is_localhost(),
    };
    (!own).then_some((scheme, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_a_host_unless_it_is_the_jails_own() {
        let cases = [
            ("https://gw.example", Some((Scheme::Https, "gw.example:443"))),
            ("https://gw.example:8443/v1?x#y", Some((Scheme::Https, "gw.example:8443"))),
            ("HTTPS://me:pw@GW.example/v1", Some((Scheme::Https, "gw.example:443"))),
            ("http://gw.example:8080", Some((Scheme::Http, "gw.example:8080"))),
            ("http://localhost:4000", None),
            ("https://127.0.0.1:4000", None),
            ("http://[::1]:4000", None),
            ("gw.example", None),
            ("unix:///x", None),
            ("ftp://gw.example", None),
            ("https://", None),
            ("https://a b", None),
        ];
        for (url, want) in cases {
            let got = target_of(url).map(|(scheme, target)| (scheme, target.to_string()));
            assert_eq!(got, want.map(|(scheme, target)| (scheme, target.to_owned())), "{url}");
        }
    }
}
