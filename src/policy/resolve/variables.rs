//! The variables that ai-jail sets in the jail.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::settings::{EnvValue, Settings};
use crate::host::system::MountKind;
use crate::host::toolchains::InstallRow;
use crate::plan::operation::Access;
use crate::policy::files::{FileRules, Source};
use crate::policy::net::{NetPolicy, PROXY_PORT};
use crate::policy::origin::{Origin, Sourced};
use crate::policy::trust::{JAVA_ROOTS, Java, Trust};
use crate::policy::{Facts, NetworkRule, env};
use crate::tls::jks::PASSWORD;

use super::bindings::Bound;
use super::etc::{GIT_CONFIG, TRUST};
use super::home::{INSTALLED, installed};

/// Names and addresses of the jail's own servers, which are reached without the proxy.
const OWN_HOSTS: &str = "localhost,.localhost,ai-jail,127.0.0.1,127.0.0.0/8,0.0.0.0,::1";

/// Variables in which programs look for a trust bundle: OpenSSL, curl, git, Node, Python, Deno, cargo, Nix, AWS, gRPC, and
/// Google's tools.
const TRUST_VARIABLES: [&str; 12] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
];

/// Further ones, of tools whose own setting names another file, which the session's authority is not in: npm, yarn, bundler,
/// httplib2, composer, hex, Perl's LWP, Julia, Haskell, codex.
const SESSION_VARIABLES: [&str; 11] = [
    "npm_config_cafile",
    "NPM_CONFIG_CAFILE",
    "YARN_HTTPS_CA_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
    "HTTPLIB2_CA_CERTS",
    "COMPOSER_CAFILE",
    "HEX_CACERTS_PATH",
    "PERL_LWP_SSL_CA_FILE",
    "JULIA_SSL_CA_ROOTS_PATH",
    "SYSTEM_CERTIFICATE_PATH",
    "CODEX_CA_CERTIFICATE",
];
/// Whether npm sends the registry what it installs, to be told what is known about it.
const NPM_AUDIT: &str = "npm_config_audit";
/// What leads Java to its roots. Each Java prints it at its start, so that it is set only where it has to be.
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// Git settings that must win over the repository's own: nothing that would write `.git/config` behind a commit, and no
/// signing with a key that is not here.
const GIT_OVERRIDES: [(&str, &str); 4] = [
    ("branch.autoSetupMerge", "false"),
    ("push.default", "current"),
    ("commit.gpgsign", "false"),
    ("tag.gpgsign", "false"),
];

/// The whole environment of the jail.
pub(super) fn resolve(
    settings: &Settings,
    facts: &Facts,
    rules: &FileRules,
    network: &NetworkRule,
    trust: &Trust,
    bound: &Bound,
    home: &Path,
) -> BTreeMap<String, Sourced<OsString>> {
    let mut ours = BTreeMap::new();
    let mut set = |name: &str, value: OsString, why: &str| {
        ours.insert(name.to_owned(), Sourced::new(value, Origin::built_in(why)));
    };
    for (name, value) in &facts.toolchain_variables {
        set(name, value.clone(), "toolchain");
    }
    for (name, value) in &facts.tool_variables {
        set(name, value.clone(), "the tool's own configuration");
    }
    if let Some(agent) = &facts.agent {
        for (name, value) in agent.env.iter().chain(&agent.sandboxed.env) {
            set(name, value.into(), "agent preset");
        }
        for name in &agent.pass {
            if let Some(value) = facts.environment.get(std::ffi::OsStr::new(name)) {
                set(name, value.clone(), "agent preset");
            }
        }
    }
    for (name, value) in &facts.things.variables {
        ours.insert(name.clone(), value.clone());
    }
    let mut set = |name: &str, value: OsString, why: &str| {
        ours.insert(name.to_owned(), Sourced::new(value, Origin::built_in(why)));
    };
    let installed = installed(settings, facts, home).map(|_| home.join(INSTALLED));
    let installed = installed.filter(|place| rules.deciding(place).is_some_and(|rule| rule.dest == home));
    if installed.is_some() {
        for row in facts.installs.iter().filter(|row| leads_home(row, facts, rules, home)) {
            set(
                &row.variable,
                home.join(&row.value).into(),
                "what is installed inside stays in the private home",
            );
        }
    }
    set("HOME", home.into(), "the private home");
    set("USER", facts.user.name.clone().into(), "the user");
    set("LOGNAME", facts.user.name.clone().into(), "the user");
    set("PATH", path(facts, rules, installed), "the directories of PATH that exist inside");
    set("AI_JAIL", "1".into(), "tells programs where they are");
    if !facts.environment.contains_key(std::ffi::OsStr::new("LANG")) {
        set("LANG", "C.UTF-8".into(), "a locale that every system has");
    }
    for (index, (name, value)) in GIT_OVERRIDES.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), (*name).into(), "git settings of the jail");
        set(&format!("GIT_CONFIG_VALUE_{index}"), (*value).into(), "git settings of the jail");
    }
    set("GIT_CONFIG_COUNT", GIT_OVERRIDES.len().to_string().into(), "git settings of the jail");
    set("GIT_CONFIG_SYSTEM", GIT_CONFIG.into(), "the user's harmless git settings");
    if *trust != Trust::None {
        for name in TRUST_VARIABLES {
            set(name, TRUST.into(), "the jail's trust bundle");
        }
    }
    if let Trust::Session(places) = trust {
        for name in SESSION_VARIABLES {
            set(name, TRUST.into(), "the jail's trust bundle");
        }
        if places.java == Java::Own {
            set(JAVA_OPTIONS, java_options(settings, facts), "the jail's trust bundle for Java");
        }
    }
    if matches!(network, NetworkRule::Off) {
        // npm would ask again for more than a minute.
        set("npm_config_fetch_retries", "0".into(), "there is no network");
    }
    if matches!(network, NetworkRule::Filtered(_)) {
        // For programs that want a proxy; the others reach the same policy by name.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            set(name, format!("http://127.0.0.1:{PROXY_PORT}").into(), "the jail's door to the network");
        }
        for name in ["NO_PROXY", "no_proxy"] {
            set(name, OWN_HOSTS.into(), "the jail's own servers");
        }
    }
    if let NetworkRule::Filtered(net) = network
        && audits_in_vain(net, facts)
        && !settings.env.keys().any(|name| name.eq_ignore_ascii_case(NPM_AUDIT))
    {
        set(
            NPM_AUDIT,
            "false".into(),
            "npm's registry is for reading, and an audit sends it what is installed",
        );
    }
    let java = ours.get(JAVA_OPTIONS).cloned();
    let mut variables = env::resolve(settings, &facts.environment, ours);
    // What the user names for it is in ours too.
    variables.extend(java.map(|java| (JAVA_OPTIONS.to_owned(), java)));
    variables.retain(|name, _| !bound.holds(name));
    variables
}

/// Whether npm's registry is for reading only, and nothing of the user's says whether npm audits what it installs.
fn audits_in_vain(net: &NetPolicy, facts: &Facts) -> bool {
    let npmrc = facts.tool_files.iter().filter(|(path, _)| path == Path::new(".npmrc"));
    let settings: Vec<&str> = npmrc.flat_map(|(_, text)| text.lines()).collect();
    let variable = |wanted: &str| {
        let mut variables = facts.tool_variables.iter();
        variables
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.to_string_lossy())
    };
    if variable(NPM_AUDIT).is_some() || settings.iter().any(|line| line.starts_with("audit=")) {
        return false;
    }
    let url = variable("npm_config_registry");
    let urls = settings.iter().filter_map(|line| line.strip_prefix("registry="));
    let chosen: Vec<&str> = urls.chain(url.as_deref()).collect();
    facts.registries.iter().any(|registry| {
        let is_npms = match registry.tool() {
            Some(tool) => tool == "npm",
            None => chosen.iter().any(|url| url.contains(&registry.host)),
        };
        is_npms
            && net.http.iter().any(|rules| {
                rules.value.host.to_string() == registry.host && rules.origin == registry.origin()
            })
    })
}

/// The options for Java, behind those that the user names.
fn java_options(settings: &Settings, facts: &Facts) -> OsString {
    let named = settings.env.get(JAVA_OPTIONS).and_then(|wanted| match &wanted.value {
        EnvValue::Set(value) => Some(OsString::from(value)),
        EnvValue::Pass => facts.environment.get(std::ffi::OsStr::new(JAVA_OPTIONS)).cloned(),
    });
    let mut options = named.filter(|named| !named.is_empty()).unwrap_or_default();
    if !options.is_empty() {
        options.push(" ");
    }
    options.push(format!(
        "-Djavax.net.ssl.trustStore={JAVA_ROOTS} -Djavax.net.ssl.trustStoreType=jks \
         -Djavax.net.ssl.trustStorePassword={PASSWORD}"
    ));
    options
}

/// PATH inside: the launcher's entries that exist inside and are not the project's, in their order.
fn path(facts: &Facts, rules: &FileRules, installed: Option<PathBuf>) -> OsString {
    let visible = |entry: &Path| {
        !entry.starts_with(&facts.project) && (system_shows(facts, entry) || host_shows(rules, entry))
    };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in facts.path_entries.iter().filter(|entry| visible(entry)) {
        if !entries.contains(entry) {
            entries.push(entry.clone());
        }
    }
    if entries.is_empty() {
        entries = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec();
    }
    // Last: nothing of it takes the place of a program of the user's.
    entries.extend(installed.filter(|installed| std::env::join_paths([installed]).is_ok()));
    std::env::join_paths(entries).unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Whether a tool's own place for installs is the host's, so that it needs another one.
fn leads_home(row: &InstallRow, facts: &Facts, rules: &FileRules, home: &Path) -> bool {
    let conflicts = row
        .unless
        .as_ref()
        .is_some_and(|name| facts.toolchain_variables.iter().any(|(known, _)| known == name));
    let is_hosts = row.at.is_empty()
        || rules
            .deciding(&home.join(&row.at))
            .is_some_and(|rule| matches!(rule.source, Source::Host(_)) && rule.access == Access::ReadOnly);
    is_hosts && !conflicts
}

fn system_shows(facts: &Facts, entry: &Path) -> bool {
    facts.system.iter().any(|mount| match mount.kind {
        MountKind::Bind | MountKind::Symlink(_) => entry.starts_with(&mount.dest),
    })
}

/// Whether a rule shows the host's own directory at the same path, or a directory of the entry's that holds a mount.
fn host_shows(rules: &FileRules, entry: &Path) -> bool {
    let same = rules.deciding(entry).is_some_and(|rule| match &rule.source {
        Source::Host(source) => *source == rule.dest,
        _ => false,
    });
    same || rules.iter().any(|rule| rule.dest.parent() == Some(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_can_be_called_like_what_ai_jail_sets() {
        let ours = TRUST_VARIABLES.iter().chain(&SESSION_VARIABLES);
        for name in
            ours.chain(&[NPM_AUDIT, JAVA_OPTIONS, "HOME", "USER", "PATH", "AI_JAIL", "LANG", "no_proxy"])
        {
            assert!(env::own_reason(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_variable_of_trust_is_documented() {
        let docs = include_str!("../../../docs/configuration.md");
        let part = docs.split("\n#### TLS roots\n").nth(1).unwrap().split("\n### ").next().unwrap();
        for name in
            TRUST_VARIABLES.iter().chain(&SESSION_VARIABLES).filter(|name| !name.starts_with("NPM_CONFIG"))
        {
            assert!(part.contains(&format!("`{name}`")), "{name}");
        }
        assert!(part.contains(&format!("`{TRUST}`")));
    }
}
