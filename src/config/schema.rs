//! The keys of a file as typed values, each with the place it came from. Strict: what is not understood is refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::cite::Source;
use super::reader::{Entry, Text, Value, entries, is_agent_table, refused_agent_key, refused_key};
use super::secrets::{self, FileEntry, SecretEntry};
use super::settings::{
    CacheMode, Ech, EnvValue, GrantSpec, HomeMode, Inherit, Inspect, Limits, NetworkMode, Profile, Protect,
    ResolveTarget, StateMode, TerminalFilter, Thing,
};
use super::values::{self, Base, GrantPath};
use super::words::{Problem, Word as _};
use crate::error::Result;
use crate::policy::glob::Glob;
use crate::policy::host_rule::HostPattern;
use crate::policy::http_rule::HttpRules;
use crate::policy::origin::{Layer, Sourced};
use crate::policy::upstream::UpstreamChoice;
use crate::sanitize::escape;
use crate::terminal::Class;

/// What one layer says: every key that it sets, in the types of the settings. Nothing is filled in.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// `filesystem.read_only`.
    pub read_only: Vec<Sourced<GrantSpec>>,
    /// `filesystem.read_write`.
    pub read_write: Vec<Sourced<GrantSpec>>,
    /// `[grants]`: whether each thing is granted.
    pub things: BTreeMap<Thing, Sourced<bool>>,
    /// `grants.sockets`.
    pub sockets: Vec<Sourced<PathBuf>>,
    /// `filesystem.deny`.
    pub deny_files: Vec<Sourced<Glob>>,
    /// `filesystem.mask`.
    pub mask_files: Vec<Sourced<Glob>>,
    /// `filesystem.unmask`.
    pub unmask_files: Vec<Sourced<Glob>>,
    /// `filesystem.protect`.
    pub protect: Option<Sourced<Protect>>,
    /// `home.mode`.
    pub home: Option<Sourced<HomeMode>>,
    /// `home.state`.
    pub state: Option<Sourced<StateMode>>,
    /// `home.toolchains`.
    pub toolchains: Option<Sourced<bool>>,
    /// `home.caches`.
    pub caches: Option<Sourced<CacheMode>>,
    /// `environment.inherit`.
    pub inherit: Option<Sourced<Inherit>>,
    /// `environment.ignore_default_excludes`.
    pub ignore_default_excludes: Option<Sourced<bool>>,
    /// `environment.exclude`.
    pub env_exclude: Vec<Sourced<String>>,
    /// `environment.include_only`.
    pub env_include_only: Vec<Sourced<String>>,
    /// `environment.set` and `environment.pass`.
    pub env: BTreeMap<String, Sourced<EnvValue>>,
    /// `network.mode`.
    pub network: Option<Sourced<NetworkMode>>,
    /// `network.allow`.
    pub allow: Vec<Sourced<HostPattern>>,
    /// `network.deny`.
    pub deny: Vec<Sourced<HostPattern>>,
    /// `network.allow_private`, canonical.
    pub allow_private: Vec<Sourced<String>>,
    /// `network.upstream_proxy`.
    pub upstream: Option<Sourced<UpstreamChoice>>,
    /// `network.forward`.
    pub forward: Vec<Sourced<u16>>,
    /// `network.publish`.
    pub publish: Vec<Sourced<u16>>,
    /// `network.resolve`, by canonical host.
    pub resolve: BTreeMap<String, Sourced<ResolveTarget>>,
    /// `[[network.http]]`.
    pub http: Vec<Sourced<HttpRules>>,
    /// `network.inspect`.
    pub inspect: Option<Sourced<Inspect>>,
    /// `network.ech`.
    pub ech: Option<Sourced<Ech>>,
    /// `[secrets]`, by variable.
    pub secrets: BTreeMap<String, SecretEntry>,
    /// `[[secrets.files]]`, by path.
    pub secret_files: BTreeMap<PathBuf, FileEntry>,
    /// `--env-file`.
    pub env_files: Vec<Sourced<PathBuf>>,
    /// `network.agent_hosts`.
    pub agent_hosts: Option<Sourced<bool>>,
    /// `network.toolchain_hosts`.
    pub toolchain_hosts: Option<Sourced<bool>>,
    /// `[limits]`.
    pub limits: Limits,
    /// `terminal.filter`.
    pub terminal_filter: Option<Sourced<TerminalFilter>>,
    /// The switches of `[terminal]`.
    pub terminal: BTreeMap<Class, Sourced<bool>>,
    /// `log.required`.
    pub log_required: Option<Sourced<bool>>,
    /// `log.summary`.
    pub summary: Option<Sourced<bool>>,
}

/// One configuration file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// `profile`.
    pub profile: Option<Sourced<Profile>>,
    /// `weaker_nested`.
    pub weaker_nested: Option<Sourced<bool>>,
    /// The tables for every command.
    pub tables: Tables,
    /// `[agents.NAME]`: the same tables for one command.
    pub agents: BTreeMap<String, Tables>,
    /// Entries that were skipped, one sentence each.
    pub warnings: Vec<String>,
}

/// Reads `text`, the contents of the file at `path`.
///
/// Fails with an error that cites the place: on a syntax error, a key that is unknown, given twice or not in this
/// version, a value of a wrong type, and a value that its key cannot take.
pub fn parse(text: &str, path: &Path, layer: Layer, base: Base<'_>) -> Result<File> {
    let source = Source::new(path, text, layer);
    let root = DeTable::parse(text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        source.error(
            error.span().unwrap_or(0..0),
            "this is not TOML that can be read",
            Problem::new(escape(&message).to_string()),
        )
    })?;
    let mut walk = Walk { source, base, warnings: Vec::new() };
    let mut file = File::default();
    for Entry { key, value } in entries(root.get_ref()) {
        let at = |value| Value { source, key: key.get_ref(), value };
        match key.get_ref().as_ref() {
            "profile" => file.profile = Some(at(value).word()?),
            "weaker_nested" => file.weaker_nested = Some(at(value).bool()?),
            "agents" => {
                for Entry { key: name, value: tables } in at(value).table("a table for each command")? {
                    let mut agent = Tables::default();
                    for Entry { key: table, value } in at(tables).table("the tables of one command")? {
                        if !is_agent_table(table.get_ref()) {
                            return Err(refused_agent_key(
                                source,
                                name.get_ref(),
                                table.get_ref(),
                                table.span(),
                            ));
                        }
                        walk.table(&mut agent, table, value)?;
                    }
                    file.agents.insert(name.get_ref().to_string(), agent);
                }
            }
            _ => walk.table(&mut file.tables, key, value)?,
        }
    }
    file.warnings = walk.warnings;
    Ok(file)
}

struct Walk<'a> {
    source: Source<'a>,
    base: Base<'a>,
    warnings: Vec<String>,
}

impl Walk<'_> {
    fn table(
        &mut self,
        tables: &mut Tables,
        table: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<()> {
        let name = table.get_ref().as_ref();
        if !is_agent_table(name) {
            return Err(refused_key(self.source, "", name, table.span()));
        }
        for Entry { key, value } in (Value { source: self.source, key: name, value }).table("a table")? {
            let dotted = format!("{name}.{}", key.get_ref());
            let value = Value { source: self.source, key: &dotted, value };
            if !self.key(tables, &dotted, value)? {
                return Err(refused_key(self.source, name, key.get_ref(), key.span()));
            }
        }
        Ok(())
    }

    /// Takes one key in; `false` when there is none of that name.
    fn key(&mut self, tables: &mut Tables, dotted: &str, value: Value<'_>) -> Result<bool> {
        match dotted {
            "filesystem.read_only" => tables.read_only = self.grants(value)?,
            "filesystem.read_write" => tables.read_write = self.grants(value)?,
            "filesystem.deny" => tables.deny_files = self.globs(value)?,
            "filesystem.mask" => tables.mask_files = self.globs(value)?,
            "filesystem.unmask" => tables.unmask_files = self.globs(value)?,
            "filesystem.protect" => {
                let on = value.bool()?;
                let protect = if on.value { Protect::Enforce } else { Protect::DangerOff };
                tables.protect = Some(Sourced::new(protect, on.origin));
            }
            "home.mode" => tables.home = Some(value.word()?),
            "home.state" => tables.state = Some(value.word()?),
            "home.toolchains" => tables.toolchains = Some(value.bool()?),
            "home.caches" => tables.caches = Some(value.word()?),
            "environment.inherit" => tables.inherit = Some(value.word()?),
            "environment.ignore_default_excludes" => tables.ignore_default_excludes = Some(value.bool()?),
            "environment.exclude" => tables.env_exclude = value.list(name_pattern)?,
            "environment.include_only" => tables.env_include_only = value.list(name_pattern)?,
            "environment.set" => {
                for (name, text) in value.pairs()? {
                    value.check_unseen(&text, values::no_nul(text.text))?;
                    self.variable(tables, value, &name, EnvValue::Set(text.text.to_owned()))?;
                }
            }
            "environment.pass" => {
                for name in value.texts()? {
                    self.variable(tables, value, &name, EnvValue::Pass)?;
                }
            }
            "network.mode" => tables.network = Some(value.word()?),
            "network.allow" => tables.allow = value.list(values::host_pattern)?,
            "network.deny" => tables.deny = value.list(values::host_pattern)?,
            "network.allow_private" => tables.allow_private = value.list(values::host)?,
            "network.resolve" => {
                for (name, target) in value.pairs()? {
                    let host = value.check(&name, values::host(name.text))?;
                    let target_value = value.check(&target, values::resolve_target(target.text))?;
                    let origin = self.source.origin(value.key, name.span.start);
                    if tables.resolve.insert(host, Sourced::new(target_value, origin)).is_some() {
                        return value
                            .check(&name, Err(Problem::new("the host is named twice")))
                            .map(|()| true);
                    }
                }
            }
            "network.upstream_proxy" => {
                let wanted = "\"env\", \"none\" or a URL such as \"http://proxy.example:3128\"";
                tables.upstream = Some(value.parsed(wanted, values::upstream)?)
            }
            "network.forward" => tables.forward = value.numbers("a list of ports", values::forward_port)?,
            "network.publish" => tables.publish = value.numbers("a list of ports", values::publish_port)?,
            "network.http" => tables.http = secrets::http(value)?,
            "network.inspect" => tables.inspect = Some(value.word()?),
            "network.ech" => tables.ech = Some(value.word()?),
            "secrets.files" => tables.secret_files = secrets::files(value, self.base)?,
            "network.agent_hosts" => tables.agent_hosts = Some(value.bool()?),
            "network.toolchain_hosts" => tables.toolchain_hosts = Some(value.bool()?),
            "limits.memory" => {
                tables.limits.memory = Some(value.parsed("a size such as \"8G\"", values::memory)?)
            }
            "limits.pids" => tables.limits.pids = Some(value.parsed("a whole number", values::count)?),
            "limits.cpu" => {
                tables.limits.cpu_percent =
                    Some(value.parsed("a percentage such as \"200%\"", values::cpu_percent)?)
            }
            "limits.files" => tables.limits.files = Some(value.parsed("a whole number", values::count)?),
            "limits.time" => {
                tables.limits.time_seconds = Some(value.parsed("a span such as \"2h\"", values::seconds)?)
            }
            "terminal.filter" => {
                let on = value.bool()?;
                let filter = if on.value { TerminalFilter::Enforce } else { TerminalFilter::DangerOff };
                tables.terminal_filter = Some(Sourced::new(filter, on.origin));
            }
            "grants.sockets" => {
                for text in value.texts()? {
                    let path = value.check(&text, values::socket_path(OsStr::new(text.text), self.base))?;
                    let origin = self.source.origin(value.key, text.span.start);
                    tables.sockets.push(Sourced::new(path, origin));
                }
            }
            _ if dotted.starts_with("secrets.") => {
                let name = &dotted["secrets.".len()..];
                tables.secrets.insert(name.to_owned(), secrets::variable(value, name)?);
            }
            _ if dotted.starts_with("grants.") => {
                let word = dotted.trim_start_matches("grants.").replace('_', "-");
                // The key has one spelling, as every key.
                let thing = Thing::WORDS.iter().find(|(known, _)| *known == word && !dotted.contains('-'));
                let Some((_, thing)) = thing else { return Ok(false) };
                tables.things.insert(*thing, value.bool()?);
            }
            "log.required" => tables.log_required = Some(value.bool()?),
            "log.summary" => tables.summary = Some(value.bool()?),
            _ => match dotted.strip_prefix("terminal.").and_then(Class::of_key) {
                Some(class) => drop(tables.terminal.insert(class, value.bool()?)),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn globs(&self, value: Value<'_>) -> Result<Vec<Sourced<Glob>>> {
        value.list(|text| values::glob(OsStr::new(text), self.base.home))
    }

    fn grants(&mut self, value: Value<'_>) -> Result<Vec<Sourced<GrantSpec>>> {
        let mut grants = Vec::new();
        for text in value.texts()? {
            let origin = self.source.origin(value.key, text.span.start);
            match value.check(&text, values::grant_path(OsStr::new(text.text), self.base))? {
                GrantPath::Path(path) => {
                    grants.push(Sourced::new(GrantSpec { source: path.clone(), dest: path }, origin));
                }
                GrantPath::Skip(why) => {
                    self.warnings.push(format!("{origin}: skipped `{}`; {why}", escape(text.text)));
                }
            }
        }
        Ok(grants)
    }

    fn variable(
        &self,
        tables: &mut Tables,
        value: Value<'_>,
        name: &Text<'_>,
        setting: EnvValue,
    ) -> Result<()> {
        value.check(name, values::env_name(name.text))?;
        let origin = self.source.origin(value.key, name.span.start);
        match tables.env.insert(name.text.to_owned(), Sourced::new(setting, origin)) {
            None => Ok(()),
            Some(_) => value.check(name, Err(Problem::new("the variable is named twice"))),
        }
    }
}

fn name_pattern(text: &str) -> Result<String, Problem> {
    if text.is_empty() { Err(Problem::new("the pattern is empty")) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests;
