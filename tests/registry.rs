//! Package managers in the jail, against the registry that each tool itself is configured for.
//!
//! A registry that does not answer outside is reported, and is a failure under CI.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

mod common;

use std::net::{IpAddr, ToSocketAddrs};

use common::{Feature, Output, TestEnv, missing, on_path};

/// Without these variables a tool knows of no proxy and connects by name.
const NO_PROXY_VARIABLES: &str =
    "env -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u http_proxy -u https_proxy -u all_proxy";

/// What the tool needs to reach its registry on this machine: the trust store and the tool's own configuration.
const CARRIED: &[&str] =
    &["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_INDEX_URL", "npm_config_registry"];

struct Tool {
    program: &'static str,
    /// Prints the URL of the registry, or nothing when it is the tool's default.
    registry: &'static str,
    /// What the tool uses when nothing is configured, as its own verbose output names it.
    found_in: &'static str,
    work: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "npm",
        registry: "npm config get registry",
        found_in: "",
        work: "npm view is-odd version --fetch-retries 0 --cache \"$HOME/npm-cache\"",
    },
    Tool {
        program: "pip",
        registry: "pip config get global.index-url 2>/dev/null || pip config get :env:.index-url 2>/dev/null",
        found_in: "COLUMNS=500 pip help download | grep -o 'default https*:[^)]*' | head -n 1",
        work: "pip download --no-deps --no-cache-dir --disable-pip-version-check --retries 0 -q -d downloaded idna \
               && ls downloaded",
    },
];

#[test]
fn registries_answer_through_the_jail_with_and_without_proxy_variables() {
    for tool in TOOLS {
        let claim = format!("{} through the jail", tool.program);
        if on_path(tool.program).is_none() {
            missing(Feature::Program(tool.program), &claim, "it is not installed");
            continue;
        }
        let env = CARRIED.iter().fold(TestEnv::new(), |env, name| match std::env::var(name) {
            Ok(value) => env.var(name, value),
            Err(_) => env,
        });
        let Some(host) = tool.host(&env) else {
            missing(Feature::Registry, &claim, "the tool does not say which registry it uses");
            continue;
        };
        let control = env.outside(tool.work);
        if !control.success() {
            missing(Feature::Registry, &claim, control.stderr.trim());
            continue;
        }
        tool.works(&env, &host, tool.work);
        tool.works(&env, &host, &format!("{NO_PROXY_VARIABLES} sh -c '{}'", tool.work));
    }
}

impl Tool {
    fn host(&self, env: &TestEnv) -> Option<String> {
        [self.registry, self.found_in].into_iter().filter(|script| !script.is_empty()).find_map(|script| {
            let output = env.outside(script);
            let rest = output.stdout.trim().split_once("://")?.1;
            Some(rest.split(['/', ':']).next()?.to_owned())
        })
    }

    fn works(&self, env: &TestEnv, host: &str, script: &str) {
        let _ = std::fs::remove_dir_all(env.project().join("downloaded"));
        // Package files may be served by another host than the index; the tool's own output names it.
        let mut hosts = vec![host.to_owned()];
        let output = loop {
            let flags: Vec<String> = hosts.iter().flat_map(|host| flags_for(host)).collect();
            let output = env.jail(flags.iter().map(String::as_str).chain(["--", "sh", "-c", script]));
            match other_host(&output, &hosts) {
                Some(other) if hosts.len() < 3 && !output.success() => hosts.push(other),
                _ => break output,
            }
        };
        assert!(output.success(), "{} with {hosts:?}: {script}: {output:#?}", self.program);
        let bare = env.jail(["--profile", "strict", "--", "sh", "-c", script]);
        assert!(!bare.success(), "{}: not without --allow-host: {bare:#?}", self.program);
    }
}

/// Allows a host. Where the machine's resolver gives it an address that is no public one (a mirror, a test
/// network), the user's word is needed as well.
fn flags_for(host: &str) -> Vec<String> {
    let mut flags = vec!["--allow-host".to_owned(), host.to_owned()];
    let special =
        (host, 443).to_socket_addrs().into_iter().flatten().find_map(|address| match address.ip() {
            IpAddr::V4(ip) if ip.is_private() || ip.is_loopback() || ip.is_documentation() => Some(ip),
            _ => None,
        });
    flags.extend(special.map(|ip| format!("--resolve={host}={ip}")));
    flags
}

/// The first host that the output names and that is not allowed yet.
fn other_host(output: &Output, known: &[String]) -> Option<String> {
    let text = format!("{}{}", output.stdout, output.stderr);
    text.match_indices("host='").find_map(|(at, found)| {
        let host = text[at + found.len()..].split('\'').next()?.to_owned();
        (!known.contains(&host)).then_some(host)
    })
}
