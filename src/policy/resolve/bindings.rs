//! Which secrets the jail has fakes of: those that the user names, and the agent's own keys (TLS-6).

mod allowed;
mod elsewhere;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::config::settings::{EnvValue, NetworkMode, Settings};
use crate::error::{Error, Kind, Result};
use crate::host::agents::{Agent, Credential};
use crate::host::system::MountKind;
use crate::plan::operation::{Access, AtLaunch};
use crate::policy::bindings::{FileBinding, SecretBinding, SecretMode, ValueFrom};
use crate::policy::files::{FileRule, FileRules, Shape, Source, Tree};
use crate::policy::glob::{Anchor, Below};
use crate::policy::host_rule::HostPattern;
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::policy::{Facts, env};
use crate::sanitize::escape;
use crate::secrets::{SecretValue, Seed, sentinel};

pub(super) use self::allowed::check;
use self::elsewhere::leads_elsewhere;

/// What is bound.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pub(super) variables: Vec<SecretBinding>,
    pub(super) files: Vec<FileBinding>,
    /// The agent's own keys that are set here and of which the jail has nothing, with the reason.
    pub(super) left_out: BTreeMap<String, String>,
}

/// Fills in what the settings leave open, and adds the agent's own keys.
pub(super) fn resolve(settings: &Settings, facts: &Facts, warnings: &mut Vec<String>) -> Result<Bound> {
    let mut bound = Bound {
        variables: variables(settings, facts, warnings)?,
        files: files(settings, facts, warnings)?,
        left_out: BTreeMap::new(),
    };
    own_keys(settings, facts, &mut bound, warnings)?;
    for binding in bound.masked() {
        if settings.network.value == NetworkMode::Off && binding.origin.layer == Layer::CommandLine {
            warnings.push(format!(
                "the network is off ({}): the fake of {} works nowhere ({})",
                settings.network.origin, binding.name, binding.origin
            ));
        }
    }
    warnings.extend(unused_files(settings, facts, &bound));
    leads_elsewhere(settings, facts, &bound, warnings);
    Ok(bound)
}

/// A secret of which the jail has a fake, whatever it is.
pub(super) struct Masked<'b> {
    /// How it is called: a variable, or an escaped path.
    pub(super) name: String,
    pub(super) hosts: &'b [HostPattern],
    pub(super) origin: &'b Origin,
}

impl Bound {
    /// The secrets of which the jail has fakes.
    pub(super) fn masked(&self) -> impl Iterator<Item = Masked<'_>> {
        let variables = self.variables.iter().filter(|binding| binding.mode == SecretMode::Mask);
        let files = self.files.iter().filter(|binding| binding.mode == SecretMode::Mask);
        let variables = variables.map(|binding| Masked {
            name: escape(&binding.name).to_string(),
            hosts: &binding.hosts,
            origin: &binding.origin,
        });
        variables.chain(files.map(|binding| Masked {
            name: escape(&binding.path).to_string(),
            hosts: &binding.hosts,
            origin: &binding.origin,
        }))
    }

    /// The copy of the file at `path`, which has no symlinks above it, when it is one with fakes.
    pub(super) fn copy(&self, facts: &Facts, path: &Path) -> Option<AtLaunch> {
        let is_it = |file: &FileBinding| {
            let mut places = facts.secret_files.iter().filter(|known| known.named == file.path);
            file.mode == SecretMode::Mask && places.any(|known| known.place == path || known.real == path)
        };
        self.files.iter().position(is_it).map(AtLaunch::Masked)
    }

    /// Rules for the copies of files that nothing else shows.
    pub(super) fn rules(&self, facts: &Facts, rules: &FileRules) -> Vec<FileRule> {
        let masked = self.files.iter().enumerate().filter(|(_, file)| file.mode == SecretMode::Mask);
        let missing = masked.filter_map(|(position, file)| {
            let known = facts.secret_files.iter().find(|known| known.named == file.path)?;
            let user = &facts.user;
            let named = match file.path.strip_prefix(&user.home) {
                Ok(below) => user.home_real.join(below),
                Err(_) => file.path.clone(),
            };
            // In a tree that is shown there may be a symlink that leads to a file which is not.
            let dest = [named, known.real.clone()].into_iter().find(|path| !shown(facts, rules, path))?;
            (!shown(facts, rules, &known.real)).then(|| FileRule {
                dest,
                source: Source::AtLaunch(AtLaunch::Masked(position)),
                shape: Shape::File,
                access: Access::ReadOnly,
                tree: Tree::Fixed,
                origin: file.origin.clone(),
            })
        });
        missing.collect()
    }

    /// The hosts where a secret is put in.
    pub(super) fn hosts(&self) -> Vec<Sourced<HostPattern>> {
        let hosts = self.masked().flat_map(|one| one.hosts.iter().map(move |host| (host, one.origin)));
        hosts.map(|(host, origin)| Sourced::new(host.clone(), origin.clone())).collect()
    }

    /// Whether the jail does not inherit a variable, because it gets a fake or nothing.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.variables.iter().any(|binding| binding.name == name)
    }
}

/// Whether the jail sees something of the host's at `path`.
fn shown(facts: &Facts, rules: &FileRules, path: &Path) -> bool {
    match rules.deciding(path) {
        Some(rule) => matches!(rule.source, Source::Host(_)),
        None => {
            facts.system.iter().any(|mount| mount.kind == MountKind::Bind && path.starts_with(&mount.dest))
        }
    }
}

/// A file of `--env-file` gives the jail nothing: its values are for secrets that are bound to a host.
fn unused_files(settings: &Settings, facts: &Facts, bound: &Bound) -> Option<String> {
    let is_used = |binding: &SecretBinding| matches!(binding.from, ValueFrom::File { .. });
    if settings.env_files.is_empty() || bound.variables.iter().any(is_used) {
        return None;
    }
    let files: Vec<String> = settings.env_files.iter().map(|file| escape(&*file.value).to_string()).collect();
    let first = facts.file_variables.keys().next().map_or("NAME".to_owned(), |name| escape(name).to_string());
    Some(format!(
        "--env-file {}: no variable of it is bound to a host, so that nothing of it is used; bind one with --secret {first}=HOST, \
         and the jail has a fake of it",
        files.join(", ")
    ))
}

fn variables(settings: &Settings, facts: &Facts, warnings: &mut Vec<String>) -> Result<Vec<SecretBinding>> {
    let mut bindings = Vec::new();
    for (name, entry) in &settings.secrets {
        let shown = escape(name);
        if let Some(named) = settings.env.get(name) {
            match named.origin.layer.cmp(&entry.origin.layer) {
                Ordering::Less => {}
                Ordering::Equal => {
                    return Err(Error::new(
                        Kind::Refused,
                        format!("{shown} cannot be a variable of the jail and a secret"),
                    )
                    .because(format!(
                        "{} gives the jail the real value, {} keeps it out",
                        named.origin, entry.origin
                    ))
                    .hint("leave one of them out"));
                }
                // It is said that it is not set.
                Ordering::Greater
                    if named.value == EnvValue::Pass && !facts.environment.contains_key(OsStr::new(name)) =>
                {
                    continue;
                }
                Ordering::Greater => {
                    warnings.push(format!(
                        "{shown}: the jail has the real value ({}), although it is a secret elsewhere ({})",
                        named.origin, entry.origin
                    ));
                    continue;
                }
            }
        }
        let mut mode = entry.mode.unwrap_or(SecretMode::Mask);
        if mode == SecretMode::Mask {
            mode = mode_of(settings, &shown.to_string(), &entry.origin, warnings)?;
        }
        let own = || credential(facts.agent.as_ref(), name);
        let hosts = match (mode, &entry.hosts, own()) {
            (SecretMode::Deny, ..) => Vec::new(),
            (_, Some(hosts), _) => hosts.clone(),
            (_, None, Some((agent, credential))) => own_hosts(agent, credential)?,
            (_, None, None) => return Err(no_host(&shown.to_string(), &entry.origin)),
        };
        bindings.push(SecretBinding {
            name: name.clone(),
            mode,
            hosts,
            places: entry.places.unwrap_or_default(),
            from: entry.from.clone().map_or_else(|| value_from(facts, name), ValueFrom::Command),
            revoke: entry.revoke.clone(),
            origin: entry.origin.clone(),
        });
    }
    Ok(bindings)
}

fn files(settings: &Settings, facts: &Facts, warnings: &mut Vec<String>) -> Result<Vec<FileBinding>> {
    let mut bindings = Vec::new();
    for (path, entry) in &settings.secret_files {
        let shown = escape(path).to_string();
        let mut mode = entry.mode.unwrap_or(SecretMode::Mask);
        if mode == SecretMode::Mask {
            mode = mode_of(settings, &shown, &entry.origin, warnings)?;
        }
        if let (SecretMode::Mask, Some(denied)) = (mode, denied(settings, facts, path)) {
            warnings.push(format!(
                "{shown}: the jail does not have it, not as a fake either: it is denied ({denied}), which wins ({})",
                entry.origin
            ));
            mode = SecretMode::Deny;
        }
        let hosts = match (mode, &entry.hosts) {
            (SecretMode::Deny, _) => Vec::new(),
            (SecretMode::Mask, Some(hosts)) => hosts.clone(),
            (SecretMode::Mask, None) => return Err(no_host(&shown, &entry.origin)),
        };
        bindings.push(FileBinding {
            path: path.clone(),
            mode,
            hosts,
            places: entry.places.unwrap_or_default(),
            extract: entry.extract.clone(),
            decode: entry.decode,
            mask_claims: entry.mask_claims.clone().unwrap_or_default(),
            origin: entry.origin.clone(),
        });
    }
    Ok(bindings)
}

/// Who denies the file at `path`, or something above it.
fn denied<'s>(settings: &'s Settings, facts: &Facts, path: &Path) -> Option<&'s Origin> {
    let reals =
        facts.secret_files.iter().filter(|known| known.named == path).map(|known| known.real.as_path());
    let names: Vec<&Path> = reals.chain([path]).collect();
    let globs = settings.deny_files.iter().map(|glob| {
        let base = match glob.value.anchor() {
            Anchor::Project => &facts.project,
            Anchor::Root => Path::new("/"),
        };
        (glob.value.below(base, 0), &glob.origin)
    });
    let is_denied =
        |glob: &Below| names.iter().flat_map(|name| name.ancestors()).any(|path| glob.matches(path));
    globs.filter(|(glob, _)| is_denied(glob)).map(|(_, origin)| origin).next()
}

/// What becomes of a secret that should be masked: with an open network nobody could put the real value in.
fn mode_of(
    settings: &Settings,
    name: &str,
    origin: &Origin,
    warnings: &mut Vec<String>,
) -> Result<SecretMode> {
    if settings.network.value != NetworkMode::Open {
        return Ok(SecretMode::Mask);
    }
    if origin.layer == Layer::CommandLine {
        return Err(Error::new(
            Kind::Refused,
            format!("{} {name} does not go with an open network", origin.what),
        )
        .because(format!(
            "nothing of ai-jail is on the way that could put the real value in ({})",
            settings.network.origin
        ))
        .hint("use --network filtered, or leave it out"));
    }
    warnings.push(format!(
        "{name}: the jail does not have it, since nobody can put the real value in where the network is open ({origin})"
    ));
    Ok(SecretMode::Deny)
}

fn no_host(name: &str, origin: &Origin) -> Error {
    Error::new(Kind::Config, format!("the secret {name} names no host ({origin})"))
        .because("the real value is put in only on the way to its hosts")
        .hint("add hosts = [\"...\"], or mode = \"deny\" to keep it out")
}

/// Adds the agent's own keys, as far as they are set: masked without anybody asking for it, unless the user says otherwise.
fn own_keys(settings: &Settings, facts: &Facts, bound: &mut Bound, warnings: &mut Vec<String>) -> Result<()> {
    let Some(agent) = &facts.agent else { return Ok(()) };
    for credential in &agent.credentials {
        let name = &credential.variable;
        let excluded = settings.env_exclude.iter().any(|pattern| env::matches(&pattern.value, name));
        if settings.secrets.contains_key(name) || excluded || !is_set(facts, name) {
            continue;
        }
        let named = settings.env.get(name);
        let network = &settings.network;
        let why = match network.value {
            NetworkMode::Filtered => {
                let hosts = own_hosts(agent, credential)?;
                if let Some(named) = named {
                    warnings.push(format!(
                        "{name}: the jail has the real value ({}); without that it gets a fake, and the real one is put in on the \
                         way to {} only",
                        named.origin,
                        listed(&hosts)
                    ));
                    continue;
                }
                let Some(why) = unfit(facts, name) else {
                    bound.variables.push(SecretBinding {
                        name: name.clone(),
                        mode: SecretMode::Mask,
                        hosts,
                        places: Default::default(),
                        from: value_from(facts, name),
                        revoke: None,
                        origin: agent.origin("its own key"),
                    });
                    continue;
                };
                format!("no fake can stand for it ({why})")
            }
            // Who inherits what looks like a secret has it.
            _ if named.is_some()
                || matches!(env::inheritance(name, settings), env::Verdict::Inherited(_)) =>
            {
                continue;
            }
            NetworkMode::Open => format!(
                "the network is open ({}), where nobody can put the real one in for a fake",
                network.origin
            ),
            NetworkMode::Off => format!("the network is off ({}), where it works nowhere", network.origin),
        };
        let way = match facts.environment.contains_key(OsStr::new(name)) {
            true => format!("; --env {name} gives the jail what it is"),
            // A file of --env-file is for fakes alone.
            false => String::new(),
        };
        warnings.push(format!("{name} is set, and the jail does not have it: {why}{way}"));
        bound.left_out.insert(name.clone(), why);
    }
    Ok(())
}

/// Why no fake can stand for the launcher's value. It may be no secret at all: a word that a program wants to be there.
fn unfit(facts: &Facts, name: &str) -> Option<String> {
    let value = facts.environment.get(OsStr::new(name)).filter(|value| !value.is_empty())?;
    match SecretValue::new(value.as_bytes().to_vec()) {
        Ok(value) => sentinel(&Seed::new([0; 32]), name, &value, &[]).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Where the value of a variable is read that no command prints: a file wins.
fn value_from(facts: &Facts, name: &str) -> ValueFrom {
    match facts.file_variables.get(name) {
        None => ValueFrom::Environment,
        Some(path) => ValueFrom::File {
            path: path.clone(),
            over_environment: facts.environment.contains_key(OsStr::new(name)),
        },
    }
}

/// Whether the launcher, or a file of `--env-file`, has a value.
fn is_set(facts: &Facts, name: &str) -> bool {
    facts.environment.get(OsStr::new(name)).is_some_and(|value| !value.is_empty())
        || facts.file_variables.contains_key(name)
}

fn credential<'f>(agent: Option<&'f Agent>, name: &str) -> Option<(&'f Agent, &'f Credential)> {
    let agent = agent?;
    agent.credentials.iter().find(|credential| credential.variable == name).map(|found| (agent, found))
}

fn own_hosts(agent: &Agent, credential: &Credential) -> Result<Vec<HostPattern>> {
    let hosts = credential.hosts.iter().map(|host| {
        HostPattern::parse(host).map_err(|error| {
            Error::new(Kind::Setup, format!("the preset of {} is wrong", agent.title)).because(error)
        })
    });
    hosts.collect()
}

/// Hosts for a sentence.
pub(super) fn listed(hosts: &[HostPattern]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
