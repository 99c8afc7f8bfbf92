//! The layers that are no files: options of the command line and a few variables. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::schema::Tables;
use super::secret_values;
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
    let bad = |problem| usage("--secret", raw, problem);
    let (name, hosts) = secret_values::bound(OsStr::new(raw)).map_err(bad)?;
    // Of text both halves are text.
    let name = name.to_string_lossy().into_owned();
    values::env_name(&name).map_err(bad)?;
    Ok((name, hosts))
}

fn secret_files(raw: &[OsString], base: Base<'_>) -> Result<BTreeMap<PathBuf, FileEntry>> {
    let mut files = BTreeMap::new();
    for text in raw {
        let bad = |problem| usage("--secret-file", text, problem);
        let (path, hosts) = secret_values::bound(text).map_err(bad)?;
        let path = secret_values::secret_path(path, base).map_err(bad)?;
        let entry = files.entry(path).or_insert_with(|| FileEntry::new(Origin::flag("--secret-file")));
        entry.mode = Some(SecretMode::Mask);
        entry.hosts.get_or_insert_default().extend(hosts);
    }
    Ok(files)
}

fn env_files(raw: &[OsString], base: Base<'_>) -> Result<Vec<Sourced<PathBuf>>> {
    let read = |raw: &OsString| {
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
    let bad = |problem| usage("--env", raw, problem);
    // Names and values travel as text through the policy and its JSON form.
    let text = raw.to_str().ok_or_else(|| bad(Problem::new("a variable must be UTF-8")))?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, EnvValue::Set(value.to_owned())),
        None => (text, EnvValue::Pass),
    };
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

fn usage(name: &str, given: impl AsRef<OsStr>, problem: Problem) -> Error {
    let given = escape(given.as_ref().as_bytes()).to_string();
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
mod tests {
    use super::*;
    use crate::config::settings::ResolveTarget;

    fn read(change: impl FnOnce(&mut RunOptions)) -> Result<(Tables, Vec<String>)> {
        let mut options = RunOptions::default();
        change(&mut options);
        let mut warnings = Vec::new();
        let tables = tables(&options, Path::new("/work/p"), Path::new("/home/me"), &mut warnings)?;
        Ok((tables, warnings))
    }

    #[test]
    fn a_grant_of_the_command_line_starts_at_the_current_directory() {
        let cases = [
            ("/a", "/a", "/a"),
            ("x", "/work/p/x", "/work/p/x"),
            ("../x", "/work/p/../x", "/work/p/../x"),
            ("~/x", "/home/me/x", "/home/me/x"),
            ("x:/in", "/work/p/x", "/in"),
            ("/a/**:/in", "/a", "/in"),
        ];
        for (text, source, dest) in cases {
            let (tables, warnings) = read(|options| options.rw = vec![text.into()]).unwrap();
            let want = GrantSpec { source: source.into(), dest: dest.into() };
            assert_eq!(tables.read_write, [Sourced::new(want, Origin::flag("--rw"))], "{text}");
            assert!(warnings.is_empty());
        }
    }

    #[test]
    fn a_grant_with_a_glob_or_white_space_is_skipped_with_its_reason() {
        let (tables, warnings) = read(|options| options.ro = vec!["/a/*.pem".into(), " /b".into()]).unwrap();
        assert!(tables.read_only.is_empty());
        assert_eq!(
            warnings,
            [
                "--ro: skipped `/a/*.pem`; a grant is a directory or a file, not a glob (only a trailing /** or /* is \
                 understood)",
                "--ro: skipped ` /b`; it begins or ends with white space, which would be part of the path",
            ]
        );
    }

    #[test]
    fn values_are_read_and_remember_their_option() {
        let (tables, _) = read(|options| {
            options.env = vec!["A=b=c".into(), "CI".into(), "E=".into()];
            options.resolve = vec!["API.example.com=192.0.2.7:8443".into()];
            options.limit = vec!["memory=1G".into(), "time=90s".into()];
            options.allow_private = vec!["Git.corp.example".into()];
        })
        .unwrap();
        assert_eq!(tables.env["A"].value, EnvValue::Set("b=c".to_owned()));
        assert_eq!(tables.env["CI"].value, EnvValue::Pass);
        assert_eq!(tables.env["E"].value, EnvValue::Set(String::new()));
        let target = ResolveTarget { addr: "192.0.2.7".parse().unwrap(), port: Some(8443) };
        assert_eq!(tables.resolve["api.example.com"].value, target);
        assert_eq!(tables.limits.memory, Some(flag("--limit memory", 1 << 30)));
        assert_eq!(tables.limits.time_seconds, Some(flag("--limit time", 90)));
        assert_eq!(tables.allow_private, [flag("--allow-private", "git.corp.example".to_owned())]);
    }

    #[test]
    fn secrets_of_one_name_are_one_with_all_hosts() {
        let (tables, _) = read(|options| {
            options.secret = vec!["A=a.test,.b.test:8443".into(), "B=b.test".into(), "A=c.test".into()];
            options.secret_file = vec!["~/f=x.test".into(), "g=h=x.test".into()];
            options.env_file = vec![".env".into()];
        })
        .unwrap();
        let hosts = |name: &str| {
            let entry = &tables.secrets[name];
            assert_eq!((entry.mode, &entry.origin), (Some(SecretMode::Mask), &Origin::flag("--secret")));
            entry.hosts.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!((hosts("A").as_str(), hosts("B").as_str()), ("a.test .b.test:8443 c.test", "b.test"));
        let files: Vec<_> = tables.secret_files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(files, ["/home/me/f", "/work/p/g=h"]);
        assert_eq!(tables.env_files, [flag("--env-file", PathBuf::from("/work/p/.env"))]);
    }

    #[test]
    fn a_bad_value_names_its_option() {
        let none = RunOptions::default;
        let cases = [
            (RunOptions { ro: vec!["".into()], ..none() }, "--ro cannot be ``; the path is empty"),
            (
                RunOptions { ro: vec!["/a:/b/../c".into()], ..none() },
                "--ro cannot be `/a:/b/../c`; the path inside cannot hold `..`",
            ),
            (
                RunOptions { env: vec!["=x".into()], ..none() },
                "--env cannot be `=x`; the name of a variable is not empty and holds no `=` and no NUL byte",
            ),
            (
                RunOptions { env: vec!["HOME=/x".into()], ..none() },
                "--env cannot be `HOME=/x`; HOME is the jail's own; --home and --state say what is in it",
            ),
            (
                RunOptions { env: vec!["HOME".into()], ..none() },
                "--env cannot be `HOME`; HOME is the jail's own; --home and --state say what is in it",
            ),
            (
                RunOptions { env: vec!["AI_JAIL=0".into()], ..none() },
                "--env cannot be `AI_JAIL=0`; AI_JAIL tells programs that they run in a jail and is always 1",
            ),
            (
                RunOptions { resolve: vec!["h".into()], ..none() },
                "--resolve cannot be `h`; it takes HOST=ADDR or HOST=ADDR:PORT",
            ),
            (
                RunOptions { secret: vec!["KEY".into()], ..none() },
                "--secret cannot be `KEY`; it takes NAME=HOST, or NAME=HOST,HOST,...",
            ),
            (
                RunOptions { secret: vec!["KEY=*".into()], ..none() },
                "--secret cannot be `KEY=*`; a secret belongs to some hosts, not to every one; name them, for example \
                 api.example.com",
            ),
            (
                RunOptions { secret: vec!["HOME=a.test".into()], ..none() },
                "--secret cannot be `HOME=a.test`; HOME is the jail's own; --home and --state say what is in it",
            ),
            (
                RunOptions { secret_file: vec!["/a/*=a.test".into()], ..none() },
                "--secret-file cannot be `/a/*=a.test`; it is one file, not a glob; name a file in /a",
            ),
            (
                RunOptions { env_file: vec!["".into()], ..none() },
                "--env-file cannot be ``; the path is empty",
            ),
            (
                RunOptions { limit: vec!["memry=1G".into()], ..none() },
                "--limit cannot be `memry=1G`; a limit is one of memory, pids, cpu, files, time; did you mean `memory`?",
            ),
            (
                RunOptions { limit: vec!["time=90".into()], ..none() },
                "--limit cannot be `time=90`; time is numbers with d, h, m or s, for example 2h, 90s or 1h30m",
            ),
            (
                RunOptions { limit: vec!["memory".into()], ..none() },
                "--limit cannot be `memory`; it takes KEY=VALUE; for example --limit memory=8G",
            ),
        ];
        for (options, want) in cases {
            assert_eq!(read(|o| *o = options).map(|_| ()).unwrap_err().to_string(), want);
        }
        assert!(read(|o| o.allow_host = vec!["*.com".into()]).is_err());
        assert!(read(|o| o.deny_host = vec!["".into()]).is_err());
    }

    #[test]
    fn variables_of_the_launcher_are_words() {
        let set = |value: &'static str| {
            move |name: &str| (name == "AI_JAIL_NETWORK").then(|| OsString::from(value))
        };
        let none = std::iter::empty;
        let read = EnvScalars::read(set("off"), none()).unwrap();
        assert_eq!(read.network.map(|network| network.value), Some(NetworkMode::Off));
        assert_eq!(EnvScalars::read(set(""), none()).unwrap(), EnvScalars::default());
        assert_eq!(
            EnvScalars::read(set("on"), none()).unwrap_err().to_string(),
            "AI_JAIL_NETWORK cannot be `on`; a network mode is one of off, filtered, open"
        );
    }

    #[test]
    fn every_variable_of_the_launcher_is_read_and_others_of_the_name_are_a_warning() {
        let values = [
            ("AI_JAIL_PROFILE", "strict"),
            ("AI_JAIL_NETWORK", "off"),
            ("AI_JAIL_HOME", "ephemeral"),
            ("AI_JAIL_STATE", "none"),
        ];
        let lookup = |name: &str| {
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        assert_eq!(values.map(|(name, _)| name), SCALARS);
        let names = SCALARS.iter().copied().chain([
            "AI_JAIL",
            "AI_JAIL_TEST_REQUIRE",
            "PATH",
            "AI_JAIL_NETWRK",
            "AI_JAIL_ALLOW_HOST_LIST",
        ]);
        let read = EnvScalars::read(lookup, names.map(OsStr::new)).unwrap();
        assert_eq!(read.profile.as_ref().map(|profile| profile.value), Some(Profile::Strict));
        let tables = read.tables();
        assert_eq!(tables.network.map(|network| network.value), Some(NetworkMode::Off));
        assert_eq!(tables.home.map(|home| home.value), Some(HomeMode::Ephemeral));
        assert_eq!(tables.state.map(|state| state.value), Some(StateMode::None));
        assert_eq!(
            read.warnings,
            [
                "the variable AI_JAIL_NETWRK is not known and has no effect; did you mean AI_JAIL_NETWORK?",
                "the variable AI_JAIL_ALLOW_HOST_LIST is not known and has no effect; the known ones are \
                 AI_JAIL_PROFILE, AI_JAIL_NETWORK, AI_JAIL_HOME, AI_JAIL_STATE",
            ]
        );
    }
}
