//! The layers that are no files: options of the command line and a few variables. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::schema::Tables;
use super::secret_values::{self, Bound};
use super::secrets::{FileEntry, SecretEntry};
use super::settings::{EnvValue, GrantSpec, HomeMode, Limits, NetworkMode, Profile, StateMode};
use super::values::{self, Base, GrantPath};
use super::words::{Problem, Word, nearest};
use crate::cli::RunOptions;
use crate::error::{Error, Kind, Result};
use crate::policy::bindings::SecretMode;
use crate::policy::glob::Glob;
use crate::policy::host_rule::HostPattern;
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::sanitize::escape;
use crate::secrets::without_tokens;

/// The `AI_JAIL_*` variables of the launcher that are a layer of configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvScalars {
    /// `AI_JAIL_PROFILE`.
    pub profile: Option<Sourced<Profile>>,
    /// `AI_JAIL_NETWORK`.
    pub network: Option<Sourced<NetworkMode>>,
    /// `AI_JAIL_HOME`.
    pub home: Option<Sourced<HomeMode>>,
    /// `AI_JAIL_STATE`.
    pub state: Option<Sourced<StateMode>>,
    /// A sentence for each variable that looks like one of these and is none.
    pub warnings: Vec<String>,
}

/// The variables that are read.
const SCALARS: &[&str] = &["AI_JAIL_PROFILE", "AI_JAIL_NETWORK", "AI_JAIL_HOME", "AI_JAIL_STATE"];

/// What only the program's own tests read.
const FOR_TESTS: &str = "AI_JAIL_TEST_";

impl EnvScalars {
    /// Reads the variables through `lookup`. One that is not set, or empty, says nothing. `names` are all variables
    /// that are set: among them, one that begins like these and is none is worth a warning.
    ///
    /// Fails on a value that is none of the words that the variable takes.
    pub fn read<'n>(
        lookup: impl Fn(&str) -> Option<OsString>,
        names: impl Iterator<Item = &'n OsStr>,
    ) -> Result<Self> {
        let unknown = names.filter_map(|name| {
            let name = name.to_string_lossy();
            let looks_ours = name.starts_with("AI_JAIL_") && !name.starts_with(FOR_TESTS);
            (looks_ours && !SCALARS.contains(&&*name)).then(|| unknown_variable(&name))
        });
        Ok(Self {
            warnings: unknown.collect(),
            profile: scalar(&lookup, "AI_JAIL_PROFILE")?,
            network: scalar(&lookup, "AI_JAIL_NETWORK")?,
            home: scalar(&lookup, "AI_JAIL_HOME")?,
            state: scalar(&lookup, "AI_JAIL_STATE")?,
        })
    }

    /// The values as a layer (the profile is chosen before).
    pub fn tables(&self) -> Tables {
        Tables {
            network: self.network.clone(),
            home: self.home.clone(),
            state: self.state.clone(),
            ..Tables::default()
        }
    }
}

/// Reads the values of `options` as a layer; entries that are skipped add a sentence to `warnings`.
///
/// Relative paths start at `cwd`, `~` is `home`. Fails with [`Kind::Usage`], naming the option.
pub fn tables(options: &RunOptions, cwd: &Path, home: &Path, warnings: &mut Vec<String>) -> Result<Tables> {
    let base = Base { relative: Some(cwd), home };
    let mut tables = Tables {
        read_only: grants("--ro", &options.ro, base, warnings)?,
        read_write: grants("--rw", &options.rw, base, warnings)?,
        things: options.grant.iter().map(|thing| (*thing, flag("--grant", true))).collect(),
        sockets: sockets(&options.socket, base)?,
        deny_files: globs("--deny", &options.deny, home)?,
        mask_files: globs("--mask", &options.mask, home)?,
        home: options.home.map(|mode| flag("--home", mode)),
        state: options.state.map(|mode| flag("--state", mode)),
        inherit: options.inherit_env.map(|base| flag("--inherit-env", base)),
        network: options.network.map(|mode| flag("--network", mode)),
        allow: list("--allow-host", &options.allow_host, values::host_pattern)?,
        deny: list("--deny-host", &options.deny_host, values::host_pattern)?,
        allow_private: list("--allow-private", &options.allow_private, values::host)?,
        forward: list("--forward", &options.forward, values::forward_port)?,
        publish: list("--publish", &options.publish, values::publish_port)?,
        secret_files: secret_files(&options.secret_file, base)?,
        env_files: env_files(&options.env_file, base)?,
        limits: limits(&options.limit)?,
        summary: options.no_summary.then(|| flag("--no-summary", false)),
        ..Tables::default()
    };
    for raw in &options.env {
        let (name, value) = variable(raw)?;
        tables.env.insert(name, flag("--env", value));
    }
    for raw in &options.secret {
        let (name, hosts) = secret(raw)?;
        let new = || SecretEntry::new(Origin::flag("--secret"));
        let entry = tables.secrets.entry(name).or_insert_with(new);
        entry.mode = Some(SecretMode::Mask);
        entry.hosts.get_or_insert_default().extend(hosts);
    }
    for text in &options.resolve {
        let (host, target) = text
            .split_once('=')
            .ok_or_else(|| usage("--resolve", text, Problem::new("it takes HOST=ADDR or HOST=ADDR:PORT")))?;
        let host = values::host(host).map_err(|problem| usage("--resolve", text, problem))?;
        let target = values::resolve_target(target).map_err(|problem| usage("--resolve", text, problem))?;
        tables.resolve.insert(host, flag("--resolve", target));
    }
    Ok(tables)
}

/// The profile that `options` ask for.
pub fn profile(options: &RunOptions) -> Option<Sourced<Profile>> {
    if options.lockdown {
        return Some(flag("--lockdown", Profile::Lockdown));
    }
    options.profile.map(|profile| flag("--profile", profile))
}

fn scalar<T: Word>(lookup: impl Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<Sourced<T>>> {
    let Some(raw) = lookup(name).filter(|raw| !raw.is_empty()) else { return Ok(None) };
    // What is not UTF-8 is no word either.
    match T::from_word(&raw.to_string_lossy()) {
        Ok(value) => {
            let origin = Origin { layer: Layer::Environment, what: name.to_owned(), place: None };
            Ok(Some(Sourced::new(value, origin)))
        }
        Err(problem) => {
            Err(with(Error::new(Kind::Usage, format!("{name} cannot be `{}`", escape(&raw))), problem))
        }
    }
}

fn unknown_variable(name: &str) -> String {
    let hint = match nearest(name, SCALARS.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the known ones are {}", SCALARS.join(", ")),
    };
    format!("the variable {} is not known and has no effect; {hint}", escape(name))
}

fn grants(
    name: &str,
    raw: &[OsString],
    base: Base<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Sourced<GrantSpec>>> {
    let mut grants = Vec::new();
    for whole in raw {
        let (source, dest) = values::split_destination(whole);
        let bad = |problem| usage(name, whole, problem);
        let source = match values::grant_path(&source, base).map_err(bad)? {
            GrantPath::Path(path) => path,
            GrantPath::Skip(why) => {
                warnings.push(format!("{name}: skipped `{}`; {why}", escape(whole)));
                continue;
            }
        };
        let dest = match dest {
            None => source.clone(),
            Some(dest) if Path::new(&dest).components().any(|part| part.as_os_str() == "..") => {
                return Err(bad(Problem::new("the path inside cannot hold `..`")));
            }
            Some(dest) => dest.into(),
        };
        grants.push(flag(name, GrantSpec { source, dest }));
    }
    Ok(grants)
}

fn secret(raw: &str) -> Result<(String, Vec<HostPattern>)> {
    if secret_values::is_value_for_name(raw) {
        return Err(Error::new(
            Kind::Usage,
            "--secret has something like a secret where the name of a variable belongs",
        )
        .because("its value is read from your environment, for every program can read a command line")
        .hint("write --secret NAME=api.example.com, without a `$`, and treat that secret as seen"));
    }
    if let Some(several) = secret_values::several(raw) {
        return Err(usage("--secret", raw, several));
    }
    if secret_values::is_value_of_variable(raw) {
        return Err(value_for_host("--secret NAME", "your environment"));
    }
    let bad = |problem| usage("--secret", raw, problem);
    let (name, hosts) = secret_values::bound(OsStr::new(raw), Bound::Variable).map_err(bad)?;
    // Of text both halves are text.
    let name = name.to_string_lossy().into_owned();
    secret_values::secret_name(&name).map_err(bad)?;
    Ok((name, hosts))
}

/// A secret's value where hosts belong; it is not repeated.
fn value_for_host(form: &str, source: &str) -> Error {
    Error::new(Kind::Usage, format!("{form}=... has something like a secret where a host belongs"))
        .because(format!("its value is read from {source}, for every program can read a command line"))
        .hint(format!("write {form}=api.example.com, and treat that secret as seen"))
        .hint("a host that looks like a secret is taken with its port, HOST:443")
}

/// A secret's value where the path of a file belongs; it is not repeated.
fn value_for_path(flag: &str, rest: &str) -> Error {
    Error::new(Kind::Usage, format!("{flag} has something like a secret where the path of a file belongs"))
        .because("its value is read from the file, for every program can read a command line")
        .hint(format!("write {flag} PATH{rest}, and treat that secret as seen"))
        .hint("a file that is called so is written ./NAME")
}

fn secret_files(raw: &[OsString], base: Base<'_>) -> Result<BTreeMap<PathBuf, FileEntry>> {
    let mut files = BTreeMap::new();
    for text in raw {
        if secret_values::is_value_of_file(text) {
            return Err(value_for_host("--secret-file PATH", "the file"));
        }
        let bad = |problem| usage("--secret-file", text, problem);
        let (path, hosts) = secret_values::bound(text, Bound::File).map_err(bad)?;
        if secret_values::is_value_for_path(path) {
            return Err(value_for_path("--secret-file", "=api.example.com"));
        }
        let path = secret_values::secret_path(path, base).map_err(bad)?;
        let entry = files.entry(path).or_insert_with(|| FileEntry::new(Origin::flag("--secret-file")));
        entry.mode = Some(SecretMode::Mask);
        entry.hosts.get_or_insert_default().extend(hosts);
    }
    Ok(files)
}

fn env_files(raw: &[OsString], base: Base<'_>) -> Result<Vec<Sourced<PathBuf>>> {
    let read = |raw: &OsString| {
        if secret_values::is_value_for_path(raw) {
            return Err(value_for_path("--env-file", ""));
        }
        let path =
            secret_values::secret_path(raw, base).map_err(|problem| usage("--env-file", raw, problem))?;
        Ok(flag("--env-file", path))
    };
    raw.iter().map(read).collect()
}

fn sockets(raw: &[OsString], base: Base<'_>) -> Result<Vec<Sourced<PathBuf>>> {
    let read = |raw: &OsString| {
        let path = values::socket_path(raw, base).map_err(|problem| usage("--socket", raw, problem))?;
        Ok(flag("--socket", path))
    };
    raw.iter().map(read).collect()
}

fn globs(name: &str, raw: &[OsString], home: &Path) -> Result<Vec<Sourced<Glob>>> {
    raw.iter()
        .map(|text| {
            let read = values::glob(text, home).map_err(|problem| usage(name, text, problem))?;
            Ok(flag(name, read))
        })
        .collect()
}

fn list<T>(
    name: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, Problem>,
) -> Result<Vec<Sourced<T>>> {
    texts
        .iter()
        .map(|text| parse(text).map(|value| flag(name, value)).map_err(|problem| usage(name, text, problem)))
        .collect()
}

fn variable(raw: &OsStr) -> Result<(String, EnvValue)> {
    // What is behind the name may be a secret.
    let bad = |problem| usage("--env", before_equals(raw), problem);
    // Names and values travel as text through the policy and its JSON form.
    let text = raw.to_str().ok_or_else(|| bad(Problem::new("a variable must be UTF-8")))?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, EnvValue::Set(value.to_owned())),
        None => (text, EnvValue::Pass),
    };
    if secret_values::is_value_for_name(name) {
        let why = "it looks like a secret, and names of variables are not hidden in the jail";
        return Err(usage(
            "--env",
            name,
            Problem::new(why).hint("write the name, without a `$`, and treat that secret as seen"),
        ));
    }
    values::env_name(name).map_err(bad)?;
    Ok((name.to_owned(), value))
}

fn limits(texts: &[String]) -> Result<Limits> {
    let mut limits = Limits::default();
    for text in texts {
        let bad = |problem| usage("--limit", text, problem);
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| bad(Problem::new("it takes KEY=VALUE").hint("for example --limit memory=8G")))?;
        let what = format!("--limit {key}");
        match key {
            "memory" => limits.memory = Some(flag(&what, values::memory(value).map_err(bad)?)),
            "pids" => limits.pids = Some(flag(&what, values::count(value).map_err(bad)?)),
            "cpu" => limits.cpu_percent = Some(flag(&what, values::cpu_percent(value).map_err(bad)?)),
            "files" => limits.files = Some(flag(&what, values::count(value).map_err(bad)?)),
            "time" => limits.time_seconds = Some(flag(&what, values::seconds(value).map_err(bad)?)),
            _ => {
                let problem = Problem::new(format!("a limit is one of {}", LIMITS.join(", ")));
                return Err(bad(match nearest(key, LIMITS.iter().copied()) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem,
                }));
            }
        }
    }
    Ok(limits)
}

const LIMITS: &[&str] = &["memory", "pids", "cpu", "files", "time"];

fn flag<T>(name: &str, value: T) -> Sourced<T> {
    Sourced::new(value, Origin::flag(name))
}

/// A name with its `=`, of what it is followed by some dots.
fn before_equals(raw: &OsStr) -> OsString {
    let text = raw.to_string_lossy();
    match text.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}=...").into(),
        _ => raw.to_os_string(),
    }
}

/// The error for what was `given`; what looks like a secret in it is not repeated.
fn usage(name: &str, given: impl AsRef<OsStr>, problem: Problem) -> Error {
    let given = escape(given.as_ref().as_bytes()).to_string();
    let given = without_tokens(&given);
    let problem = Problem { why: without_tokens(&problem.why), ..problem };
    with(Error::new(Kind::Usage, format!("{name} cannot be `{given}`")), problem)
}

fn with(error: Error, problem: Problem) -> Error {
    let error = if problem.why.is_empty() { error } else { error.because(problem.why) };
    match problem.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests;
