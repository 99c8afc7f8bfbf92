//! The files of `/etc` and `/run` that are made for the jail.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::settings::{Profile, Protect, Settings, StateMode};
use crate::plan::operation::{Access, Veil};
use crate::policy::files::inside;
use crate::policy::host_rule::HostPattern;
use crate::policy::http_rule::HttpRule;
use crate::policy::net::NetPolicy;
use crate::policy::origin::{Layer, Sourced};
use crate::policy::secrets::SecretRule;
use crate::policy::{Asked, Facts, Hidden, NetworkRule, ProtectedPath, env};
use crate::sanitize::escape;

use super::bindings::{Bound, listed};
use super::home::{INSTALLED, project_name};

/// Where the trust bundle is found inside.
pub(super) const TRUST: &str = "/run/ai-jail/ca-certificates.pem";
/// Where the carried git settings are found inside.
pub(super) const GIT_CONFIG: &str = "/run/ai-jail/gitconfig";
/// Paths of one kind that the agent is told.
const LISTED: usize = 200;
/// Where git finds what it leaves alone when nobody names it.
const GIT_EXCLUDES: &str = "/run/ai-jail/gitignore";

/// What the agent is told. It is also what stands in the place of a socket or FIFO that appeared and is not the jail's.
pub(crate) const ABOUT: &str = "/run/ai-jail/about";

/// The credentials that the jail has.
pub(super) struct Credentials<'a> {
    /// Fakes.
    pub(super) bound: &'a Bound,
    /// Variables, some of which may be real ones.
    pub(super) environment: &'a BTreeMap<String, Sourced<OsString>>,
}

impl Credentials<'_> {
    /// The variables that are called like credentials and are no fakes: the user passes them on as they are.
    fn real(&self) -> impl Iterator<Item = &String> {
        self.environment.keys().filter(|name| env::looks_secret(name) && env::own_reason(name).is_none())
    }
}

/// Path and content of each.
pub(super) fn made(
    settings: &Settings,
    facts: &Facts,
    network: &NetworkRule,
    protected: &[ProtectedPath],
    secrets: &[SecretRule],
    credentials: &Credentials<'_>,
    hidden: &[Hidden],
) -> Vec<(PathBuf, Vec<u8>)> {
    let user = &facts.user;
    let (uid, gid, name, group) = (user.uid, user.gid, &user.name, &user.group);
    let (home_text, shell) = (user.home_real.display(), user.shell.display());
    let mut passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n".to_owned();
    let mut groups = "root:x:0:\nnogroup:x:65534:\n".to_owned();
    if uid == 0 {
        passwd = format!("root:x:0:0:root:{home_text}:{shell}\nnobody:x:65534:65534:nobody:/:/bin/false\n");
    } else {
        passwd.push_str(&format!("{name}:x:{uid}:{gid}:{name}:{home_text}:{shell}\n"));
    }
    if gid != 0 {
        groups.push_str(&format!("{group}:x:{gid}:\n"));
    }
    let resolver = match (network, &facts.resolv_conf) {
        (NetworkRule::DangerOpen, Some(host)) => host.clone(),
        _ => "nameserver 127.0.0.1\noptions attempts:1 timeout:2\n".to_owned(),
    };
    let unlike = unlike_outside(facts, secrets, credentials.bound);
    let mut made: Vec<(&str, String)> = vec![
        ("/etc/passwd", passwd),
        ("/etc/group", groups),
        ("/etc/hosts", "127.0.0.1\tlocalhost ai-jail\n::1\tlocalhost\n".to_owned()),
        ("/etc/hostname", "ai-jail\n".to_owned()),
        ("/etc/nsswitch.conf", nsswitch(network)),
        ("/etc/resolv.conf", resolver),
        ("/etc/machine-id", format!("{}\n", machine_id(&facts.project))),
        (GIT_CONFIG, git_config(&facts.git_config, !unlike.is_empty())),
        (ABOUT, about(settings, facts, network, protected, secrets, credentials, hidden)),
    ];
    let mut files: Vec<(PathBuf, Vec<u8>)> =
        made.drain(..).map(|(path, text)| (PathBuf::from(path), text.into_bytes())).collect();
    if !unlike.is_empty() {
        files.push((GIT_EXCLUDES.into(), git_excludes(&unlike)));
    }
    files
}

/// The project's files, from the project, that are something else inside: empty, or a copy with fakes.
fn unlike_outside(facts: &Facts, secrets: &[SecretRule], bound: &Bound) -> Vec<PathBuf> {
    let masked = secrets.iter().filter(|secret| secret.is_masked()).map(|secret| secret.below.clone());
    let copies = bound
        .files
        .iter()
        .flat_map(|file| facts.secret_files.iter().filter(|place| place.named == file.path));
    let places = copies.flat_map(|place| [&place.place, &place.real]);
    let below = places.filter_map(|path| Some(path.strip_prefix(&facts.project).ok()?.to_path_buf()));
    masked.chain(below).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Where names are looked up. Without a network there is no resolver to ask, so that an answer is "no such host" at once
/// and not "try again", which some clients do for minutes.
fn nsswitch(network: &NetworkRule) -> String {
    let hosts = match network {
        NetworkRule::Off => "files",
        NetworkRule::Filtered(_) | NetworkRule::DangerOpen => "files dns",
    };
    let others =
        "passwd: files\ngroup: files\nshadow: files\nnetworks: files\nprotocols: files\nservices: files\n";
    format!("{others}hosts: {hosts}\n")
}

/// Stable for a project, and says nothing about the machine.
fn machine_id(project: &Path) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(project_name(project).as_bytes())
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The carried settings in git's own syntax. Section and key names come from an allowlist; a subsection is quoted.
fn git_config(values: &[(String, String)], excludes: bool) -> String {
    let mut text = String::new();
    if excludes {
        text.push_str(&format!("[core]\n\texcludesFile = {GIT_EXCLUDES}\n"));
    }
    for (name, value) in values {
        let Some((section, key)) = name.rsplit_once('.') else { continue };
        match section.split_once('.') {
            Some((section, subsection)) => {
                text.push_str(&format!("[{section} \"{}\"]\n", quoted(subsection)))
            }
            None => text.push_str(&format!("[{section}]\n")),
        }
        text.push_str(&format!("\t{key} = \"{}\"\n", quoted(value)));
    }
    text
}

/// So that `git add -A` does not add what stands in a secret's place. The path is given from the project and
/// from each directory above the file, one of which may be a repository's root.
fn git_excludes(paths: &[PathBuf]) -> Vec<u8> {
    let mut text = b"# Masked by ai-jail: empty here, or a copy with fakes, not outside.\n".to_vec();
    for path in paths {
        let path = path.as_os_str().as_bytes();
        if path.contains(&b'\n') {
            continue;
        }
        let starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        for from in std::iter::once(0).chain(starts) {
            text.push(b'/');
            for byte in &path[from..] {
                if b"\\*?[ ".contains(byte) {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'\n');
        }
    }
    text
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
}

/// What the agent is told (FS-18).
fn about(
    settings: &Settings,
    facts: &Facts,
    network: &NetworkRule,
    protected: &[ProtectedPath],
    secrets: &[SecretRule],
    credentials: &Credentials<'_>,
    hidden: &[Hidden],
) -> String {
    let mut text = String::from(
        "You are inside ai-jail: a sandbox that the Linux kernel enforces. What is missing here was left out on purpose;\n\
         there is no switch inside that opens it. When you need more, ask the user for the flag named below.\n\n",
    );
    let project = escape(&facts.project);
    text.push_str(&format!("profile: {}\nproject: {project}\n", word(&settings.profile.value)));
    let lockdown = settings.profile.value == Profile::Lockdown;
    let written = match settings.profile.value {
        Profile::Lockdown | Profile::ReadOnly => "the project (read-only)",
        _ => "the project",
    };
    let more = if lockdown { "" } else { "; more by --ro PATH or --rw PATH" };
    text.push_str(&format!("files: {written}, the system's programs, a private home and /tmp{more}\n"));
    for grant in &facts.grants {
        let how = match grant.access {
            Access::ReadOnly => "readable",
            Access::Writable => "writable",
        };
        text.push_str(&format!("granted: {} ({how})\n", escape(&grant.dest)));
    }
    for opened in &facts.things.opened {
        text.push_str(&format!("granted of this machine: {} - {}\n", opened.name, opened.opens));
    }
    let more = if lockdown { "" } else { "; more by --grant NAME or --socket PATH" };
    text.push_str(&format!(
        "sockets and devices of this machine: none but those{more}\n\
         sockets of programs outside that lie in the project are covered; those that you make here work\n",
    ));
    if let Some(agent) = &facts.agent {
        text.push_str(&format!("state of {}: {}\n", agent.title, state(settings, facts)));
    }
    match network {
        NetworkRule::Off => text.push_str("network: none; hosts by --allow-host HOST\n"),
        NetworkRule::DangerOpen => text.push_str("network: open\n"),
        NetworkRule::Filtered(policy) => {
            let which = if policy.allow.is_empty() { "no host" } else { "only these hosts" };
            text.push_str(&format!("network: {which}; more by --allow-host HOST (or HOST:PORT)\n"));
            for Sourced { value, .. } in &policy.allow {
                text.push_str(&format!("  {value}\n"));
            }
            http(&mut text, policy);
            for port in &policy.forward {
                text.push_str(&format!("  a server of this machine at 127.0.0.1:{}\n", port.value));
            }
            for port in &policy.publish {
                text.push_str(&format!(
                    "your server at 127.0.0.1:{0} is this machine's 127.0.0.1:{0} too\n",
                    port.value
                ));
            }
        }
    }
    real(&mut text, credentials);
    fakes(&mut text, credentials, network);
    if secrets.iter().any(SecretRule::is_masked) {
        let ask = if lockdown { "" } else { ";\nask the user for --ro FILE when you need one" };
        text.push_str(&format!(
            "masked in the project, because they hold secrets: empty and read-only here, not outside (do not commit them{ask}):\n"
        ));
        list(&mut text, secrets.iter().filter(|secret| secret.is_masked()).map(|secret| secret.path.clone()));
    }
    covered(&mut text, facts, hidden);
    if !protected.is_empty() {
        text.push_str("read-only in the project, because other tools run them by themselves (ask the user to change them outside):\n");
        let paths = protected.iter().filter(|path| path.access == Access::ReadOnly);
        list(&mut text, paths.map(|path| path.root.join(&path.below)));
    }
    if settings.protect.value != Protect::DangerOff {
        text.push_str("new files of that kind (git hooks, .envrc, .vscode, shell start-up files, settings and hooks of agents, ...) are moved away\nas soon as they are made (directories after 0.3 s, or up to 3 s while they are filled); the user can bring them back with `ai-jail quarantine restore`\n");
    }
    if !facts.installs.is_empty() {
        text.push_str(&format!(
            "installs: npm install -g, cargo install, go install and uv tool install go to ~/{INSTALLED} (in PATH); for Python packages make a virtual environment\n"
        ));
    }
    if matches!(settings.profile.value, Profile::Lockdown | Profile::ReadOnly) {
        text.push_str("git: what reads works; the project, and so its repository, cannot be written\n");
        return text;
    }
    text.push_str("git: commits work; what writes .git/config (remote add, config, submodule init, branch tracking) is for the user to run outside;\n     a worktree has to be added below the project: anywhere else it would be in this private home only\n");
    text
}

/// What may be asked of hosts where that is limited.
fn http(text: &mut String, policy: &NetPolicy) {
    for Sourced { value, origin } in &policy.http {
        let rules = |rules: &[HttpRule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if origin.layer == Layer::BuiltIn {
            text.push_str(&format!(
                "  at {} only {} (it is for reading; more by --allow-host)\n",
                value.host,
                rules(&value.allow)
            ));
            continue;
        }
        if !value.allow.is_empty() {
            text.push_str(&format!("  at {} only {}\n", value.host, rules(&value.allow)));
        }
        if !value.deny.is_empty() {
            text.push_str(&format!("  at {} never {}\n", value.host, rules(&value.deny)));
        }
    }
}

/// Which variables are real credentials.
fn real(text: &mut String, credentials: &Credentials<'_>) {
    let names: Vec<String> = credentials.real().map(|name| escape(name).to_string()).collect();
    if !names.is_empty() {
        text.push_str(&format!(
            "real secrets: the user gives these variables as they are, and no fakes of them; do not write or send their values where they\n\
             \u{20}        do not belong: {}\n",
            names.join(", ")
        ));
    }
}

/// Which secrets are fakes, and where they work. Values are said nowhere.
fn fakes(text: &mut String, credentials: &Credentials<'_>, network: &NetworkRule) {
    let mut masked = credentials.bound.masked().peekable();
    if masked.peek().is_none() && credentials.real().next().is_some() {
        return;
    }
    if masked.peek().is_none() {
        text.push_str(
            "secrets: none of the user's credentials are here; a variable comes in as a fake by --secret NAME=HOST, or as it is by --env NAME\n",
        );
        return;
    }
    text.push_str(
        "secrets: these are fakes; the real ones are put in outside, only over HTTPS on the way to their hosts. Use them as they are, and\n         do not write them anywhere to be used elsewhere; more by --secret NAME=HOST\n",
    );
    for one in masked {
        let reached = |host: &&HostPattern| match network {
            NetworkRule::Filtered(net) => net.reaches(host),
            NetworkRule::Off | NetworkRule::DangerOpen => false,
        };
        let hosts: Vec<HostPattern> = one.hosts.iter().filter(reached).cloned().collect();
        let line = match &hosts[..] {
            [] => format!("{}: works nowhere in this run: {} cannot be reached", one.name, listed(one.hosts)),
            hosts => format!("{}: works at {}", one.name, listed(hosts)),
        };
        text.push_str(&format!("  {line}\n"));
    }
}

/// One path a line, escaped: the names are a repository's, and the sentences are ours. So many, and how many more.
fn list(text: &mut String, mut paths: impl Iterator<Item = PathBuf>) {
    for path in paths.by_ref().take(LISTED) {
        text.push_str(&format!("  {}\n", escape(&path)));
    }
    match paths.count() {
        0 => {}
        more => text.push_str(&format!("  and {more} more\n")),
    }
}

/// What the user denies and masks.
fn covered(text: &mut String, facts: &Facts, hidden: &[Hidden]) {
    for (veil, line) in [
        (
            Veil::Closed,
            "denied by the user: cannot be read, written, renamed or listed, also when it is made now (ask the user to change --deny or filesystem.deny)",
        ),
        (
            Veil::Empty,
            "masked by the user: something empty is in its place (ask the user to change --mask or filesystem.mask; do not commit it as empty)",
        ),
    ] {
        let is_file = |asked: &Asked| {
            facts.secret_files.iter().any(|known| known.named.as_os_str() == asked.text)
                || veil == Veil::Closed && asked.origin.what.ends_with("secrets.files")
        };
        let (files, globs): (Vec<&Asked>, Vec<&Asked>) =
            facts.asked.iter().filter(|asked| asked.veil == veil).partition(|asked| is_file(asked));
        if veil == Veil::Closed && !files.is_empty() {
            // In the private home there is none, and nothing is in the way of one that is made there.
            text.push_str("files of secrets that the user keeps out: what they hold outside is not here (ask the user to change mode = \"deny\" in [[secrets.files]]):\n");
            list(text, files.iter().map(|file| PathBuf::from(&file.text)));
        }
        if globs.is_empty() {
            continue;
        }
        text.push_str(&format!("{line}:\n"));
        for asked in globs {
            text.push_str(&format!("  what matches {}\n", escape(&asked.text)));
        }
        let paths =
            hidden.iter().filter(|hidden| hidden.is_asked && hidden.veil == veil && hidden.copy.is_none());
        list(text, paths.map(|hidden| inside(&hidden.root, &hidden.below)));
    }
}

/// What becomes of the agent's own state.
fn state(settings: &Settings, facts: &Facts) -> String {
    let kept = match settings.state.value {
        StateMode::Jail => {
            return "login and sessions are kept for all projects, settings for this one, apart from the user's own"
                .to_owned();
        }
        StateMode::None => return "kept nowhere".to_owned(),
        StateMode::Shared => &facts.host_state,
    };
    let mut text = "the user's own; settings, hooks, commands and the like in it are read-only, and new ones are taken away".to_owned();
    if let Some((first, rest)) = kept.copies.split_first() {
        let more: String = rest.iter().map(|copy| format!(", ~/{}", copy.path.display())).collect();
        text.push_str(&format!("; ~/{}{more}: a copy, changes are not kept", first.path.display()));
    }
    text
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
