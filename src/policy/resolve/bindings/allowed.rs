//! What has to be looked into, against what is allowed and denied.

use crate::config::settings::Settings;
use crate::error::{Error, Kind, Result};
use crate::policy::authority::Host;
use crate::policy::host_rule::{HostPattern, Hosts, StreamCheck};
use crate::policy::http_rule::HttpRules;
use crate::policy::meant::nearest;
use crate::policy::net::{PLAIN_PORTS, closes};
use crate::policy::origin::{Layer, Origin, Sourced};

use super::Bound;

/// Compares what has to be inspected with what is allowed.
///
/// # Errors
/// When a host of a secret or of HTTP rules is allowed for any bytes, which cannot be looked into.
pub(in crate::policy::resolve) fn check(
    bound: &Bound,
    http: &[Sourced<HttpRules>],
    allow: &[Sourced<HostPattern>],
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for one in bound.masked() {
        let (name, origin) = (&one.name, one.origin);
        let mut works = false;
        let mut lines = Vec::new();
        for host in one.hosts {
            let is_allowed =
                can_be_inspected(host, &PLAIN_PORTS, allow, &format!("the secret {name}"), origin)?;
            match settings.deny.iter().find(|rule| closes(&rule.value, host)) {
                _ if host.names_loopback() => lines.push(own_loopback(name, host, origin)),
                Some(rule) => lines.push(format!(
                    "{name}: {host} is denied ({}), so that the fake is worth nothing there ({origin})",
                    rule.origin
                )),
                None if !is_allowed => lines.push(match on_another_port(host, allow) {
                    Some(rule) => format!(
                        "{name}: {host} is not allowed, but {} is ({}), and the secret is for other ports ({origin}); bind it to \
                         those: {}",
                        rule.value,
                        rule.origin,
                        rebound(name, &rule.value, origin)
                    ),
                    None => format!(
                        "{name}: {host} is not allowed, and a secret does not allow it ({origin}); {}allow it with --allow-host {host}",
                        meant(host, allow, settings)
                    ),
                }),
                None => works = true,
            }
        }
        // What was typed is for this run. What is configured may be for others too: one host will do.
        match origin.layer {
            Layer::CommandLine => warnings.extend(lines),
            _ if !works => warnings.extend(lines.into_iter().next()),
            _ => {}
        }
    }
    // Many may be given for every run; one that is nearly an allowed host is a slip.
    let typed = settings.resolve.iter().filter(|(_, target)| target.origin.layer == Layer::CommandLine);
    for (name, target) in typed {
        let Ok(host) = HostPattern::parse(name) else { continue };
        let is_allowed = allow.iter().any(|rule| rule.value.hosts() == host.hosts())
            || Host::parse(name.as_bytes())
                .is_ok_and(|host| allow.iter().any(|rule| rule.value.matches_host(&host)));
        let meant = meant(&host, allow, settings);
        if !is_allowed && !meant.is_empty() {
            warnings.push(format!(
                "{name} is not allowed, so that its address counts for nothing ({}); {meant}allow it with --allow-host {name}",
                target.origin
            ));
        }
    }
    for rules in http {
        let (host, origin) = (&rules.value.host, &rules.origin);
        // Requests over plain HTTP are judged as well.
        let is_allowed = can_be_inspected(host, &[22], allow, &format!("the HTTP rules of {host}"), origin)?;
        if host.names_loopback() {
            let shown = host.without_every_port();
            let unread = settings.forward.iter().find(|port| host.ports().contains(port.value));
            match unread {
                // A project's file stops no launch by it.
                Some(port) if origin.layer != Layer::Project => {
                    return Err(Error::new(Kind::Refused, format!("the HTTP rules of {shown} ({origin}) cannot hold"))
                        .because(format!(
                            "port {} is forwarded to this machine ({}), and what goes that way is not read",
                            port.value, port.origin
                        ))
                        .hint(NAMED));
                }
                _ => warnings.push(format!(
                    "the HTTP rules of {shown} hold nowhere ({origin}): it is the jail's own loopback, where nothing is read; {NAMED}"
                )),
            }
            continue;
        }
        // A project's own only narrow what the user may allow.
        if !is_allowed && !matches!(origin.layer, Layer::BuiltIn | Layer::Project) {
            let shown = host.without_every_port();
            warnings.push(format!(
                "the HTTP rules of {shown} allow nothing by themselves, and the host is not allowed ({origin}); {}allow it with \
                 --allow-host {shown}",
                meant(host, allow, settings)
            ));
        }
    }
    Ok(())
}

/// The way to a server of this machine on which ai-jail is.
const NAMED: &str = "for a server of this machine use a name: --allow-host dev.internal:PORT --resolve dev.internal=127.0.0.1";

/// A question about the allowed host of which `host` may be a misspelling; nothing where none is near.
fn meant(host: &HostPattern, allow: &[Sourced<HostPattern>], settings: &Settings) -> String {
    let Hosts::Exact(name) = host.hosts() else { return String::new() };
    let allowed = allow.iter().map(|rule| &rule.value);
    let mut near = nearest(name, allowed).into_iter().map(Host::Name);
    let near = near.find(|near| !settings.deny.iter().any(|rule| rule.value.matches_host(near)));
    near.map_or(String::new(), |near| format!("did you mean {near}, which is allowed? else "))
}

/// A rule that allows the same hosts where TLS is possible, and so on other ports.
fn on_another_port<'a>(
    host: &HostPattern,
    allow: &'a [Sourced<HostPattern>],
) -> Option<&'a Sourced<HostPattern>> {
    allow.iter().find(|rule| {
        rule.value.hosts() == host.hosts()
            && rule.value.covers_tls()
            && rule.value.check() == StreamCheck::Protocol
    })
}

/// How a secret is bound to what is allowed.
fn rebound(name: &str, allowed: &HostPattern, origin: &Origin) -> String {
    match origin.layer {
        Layer::CommandLine => format!("{} {name}={allowed}", origin.what),
        _ => format!("hosts = [\"{allowed}\"]"),
    }
}

/// What is said of a secret that belongs to a loopback.
fn own_loopback(name: &str, host: &HostPattern, origin: &Origin) -> String {
    format!(
        "{name}: {host} is the jail's own loopback, where nobody puts the real value in, on forwarded ports neither ({origin}); for a \
         server of this machine that speaks HTTPS bind it to a name, dev.internal:PORT, with --allow-host dev.internal:PORT \
         --resolve dev.internal=127.0.0.1"
    )
}

/// Whether a rule allows `host`. Fails when one does that lets any bytes pass.
fn can_be_inspected(
    host: &HostPattern,
    without: &[u16],
    allow: &[Sourced<HostPattern>],
    what: &str,
    origin: &Origin,
) -> Result<bool> {
    let mut rules = allow.iter().filter(|rule| rule.value.overlaps(host, without)).peekable();
    let is_allowed = rules.peek().is_some();
    match rules.find(|rule| rule.value.check() == StreamCheck::DangerAnyBytes) {
        None => Ok(is_allowed),
        Some(rule) => Err(Error::new(Kind::Refused, format!("{what} ({origin}) cannot hold at {host}"))
            .because(format!(
                "{} ({}) lets any bytes pass there, which nobody can read",
                rule.value, rule.origin
            ))
            .hint("leave /tcp out of that rule, or name the ports where the other one is to hold")),
    }
}
