//! `[secrets]` and `[[network.http]]`: tables whose values are tables.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::reader::{Entry, Text, Value, unknown_field};
use super::secret_values;
use super::values::{self, Base};
use super::words::{Problem, Word as _, nearest};
use crate::error::Result;
use crate::policy::bindings::SecretMode;
use crate::policy::host_rule::HostPattern;
use crate::policy::http_rule::{HttpRule, HttpRules};
use crate::policy::origin::{Origin, Sourced};
use crate::secrets::{Decode, Place, Places};

/// What one or more layers say of a variable that is a secret. Nothing is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// `mode`.
    pub mode: Option<SecretMode>,
    /// `hosts`.
    pub hosts: Option<Vec<HostPattern>>,
    /// `in`.
    pub places: Option<Places>,
    /// `from`: a command that prints the value.
    pub from: Option<Vec<String>>,
    /// `revoke`: a command for the end.
    pub revoke: Option<Vec<String>>,
    /// The highest layer that says something.
    pub origin: Origin,
}

/// The same of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// `mode`.
    pub mode: Option<SecretMode>,
    /// `hosts`.
    pub hosts: Option<Vec<HostPattern>>,
    /// `in`.
    pub places: Option<Places>,
    /// `extract`.
    pub extract: Option<String>,
    /// `decode`.
    pub decode: Option<Decode>,
    /// `mask_claims`.
    pub mask_claims: Option<Vec<String>>,
    /// The highest layer that says something.
    pub origin: Origin,
}

impl SecretEntry {
    /// An entry that says nothing yet.
    pub fn new(origin: Origin) -> Self {
        Self { mode: None, hosts: None, places: None, from: None, revoke: None, origin }
    }

    /// This one over that of a lower layer: key by key.
    fn over(self, lower: Self) -> Self {
        Self {
            mode: self.mode.or(lower.mode),
            hosts: self.hosts.or(lower.hosts),
            places: self.places.or(lower.places),
            from: self.from.or(lower.from),
            revoke: self.revoke.or(lower.revoke),
            origin: self.origin,
        }
    }
}

impl FileEntry {
    /// An entry that says nothing yet.
    pub fn new(origin: Origin) -> Self {
        Self { mode: None, hosts: None, places: None, extract: None, decode: None, mask_claims: None, origin }
    }

    /// This one over that of a lower layer: key by key.
    fn over(self, lower: Self) -> Self {
        Self {
            mode: self.mode.or(lower.mode),
            hosts: self.hosts.or(lower.hosts),
            places: self.places.or(lower.places),
            extract: self.extract.or(lower.extract),
            decode: self.decode.or(lower.decode),
            mask_claims: self.mask_claims.or(lower.mask_claims),
            origin: self.origin,
        }
    }
}

/// Takes the variables of a higher layer over.
pub fn join(lower: &mut BTreeMap<String, SecretEntry>, higher: &BTreeMap<String, SecretEntry>) {
    for (name, entry) in higher {
        let entry = match lower.remove(name) {
            Some(below) => entry.clone().over(below),
            None => entry.clone(),
        };
        lower.insert(name.clone(), entry);
    }
}

/// Takes the files of a higher layer over.
pub fn join_files(lower: &mut BTreeMap<PathBuf, FileEntry>, higher: &BTreeMap<PathBuf, FileEntry>) {
    for (path, entry) in higher {
        let entry = match lower.remove(path) {
            Some(below) => entry.clone().over(below),
            None => entry.clone(),
        };
        lower.insert(path.clone(), entry);
    }
}

/// Reads `NAME = { ... }` of `[secrets]`.
pub(super) fn variable(value: Value<'_>, name: &str) -> Result<SecretEntry> {
    const KEYS: [&str; 5] = ["hosts", "in", "mode", "from", "revoke"];
    value.check(&Text { text: name, span: value.value.span() }, secret_values::secret_name(name))?;
    let mut entry = SecretEntry::new(value.sourced(()).origin);
    let no_value = "the value is not written here: it is that of your environment, of a file of --env-file, or what `from` prints";
    let entries = value.table("a table such as { hosts = [\"api.example.com\"] }").map_err(|error| {
        match matches!(value.value.get_ref(), DeValue::Array(_)) && nearest(name, ["files"]).is_some() {
            true => error.hint("did you mean [[secrets.files]]?"),
            false => error,
        }
    });
    for Entry { key, value: inner } in entries.map_err(|error| error.hint(no_value))? {
        let dotted = format!("{}.{}", value.key, key.get_ref());
        let inner = Value { source: value.source, key: &dotted, value: inner };
        match key.get_ref().as_ref() {
            "hosts" => entry.hosts = Some(hosts(inner)?),
            "in" => entry.places = Some(places(inner)?),
            "mode" => entry.mode = Some(inner.word()?.value),
            "from" => entry.from = Some(command(inner)?),
            "revoke" => entry.revoke = Some(command(inner)?),
            _ => {
                let error = unknown_field(value.source, value.key, key, &KEYS);
                // One that is nearly right is a slip, and not a value.
                return Err(if error.hints().is_empty() { error.hint(no_value) } else { error });
            }
        }
    }
    let more =
        entry.hosts.is_some() || entry.places.is_some() || entry.from.is_some() || entry.revoke.is_some();
    denied_alone(value, entry.mode, more)?;
    Ok(entry)
}

/// Reads `[[secrets.files]]`; each path once.
pub(super) fn files(value: Value<'_>, base: Base<'_>) -> Result<BTreeMap<PathBuf, FileEntry>> {
    let mut files = BTreeMap::new();
    for one in tables(value, "a list of tables, each below a line [[secrets.files]] with two brackets")? {
        let (path, entry) = file(Value { value: one, ..value }, base)?;
        if files.insert(path, entry).is_some() {
            return Err(value.problem(one.span(), Problem::new("the file is named twice")));
        }
    }
    Ok(files)
}

fn file(value: Value<'_>, base: Base<'_>) -> Result<(PathBuf, FileEntry)> {
    const KEYS: [&str; 7] = ["path", "hosts", "in", "mode", "extract", "decode", "mask_claims"];
    let mut path = None;
    let mut entry = FileEntry::new(value.sourced(()).origin);
    for Entry { key, value: inner } in value.table("a table")? {
        let dotted = format!("{}.{}", value.key, key.get_ref());
        let inner = Value { source: value.source, key: &dotted, value: inner };
        match key.get_ref().as_ref() {
            "path" => {
                let text = inner.text("a path in quotes")?;
                path = Some(inner.check(&text, secret_values::secret_path(OsStr::new(text.text), base))?);
            }
            "hosts" => entry.hosts = Some(hosts(inner)?),
            "in" => entry.places = Some(places(inner)?),
            "mode" => entry.mode = Some(inner.word()?.value),
            "extract" => {
                let text = inner.text("a regular expression in quotes")?;
                entry.extract = Some(inner.check(&text, secret_values::extract(text.text))?);
            }
            "decode" => entry.decode = Some(inner.word()?.value),
            "mask_claims" => {
                let claims = inner.texts()?.into_iter().map(|claim| claim.text.to_owned());
                entry.mask_claims = Some(claims.collect());
            }
            _ => return Err(unknown_field(value.source, value.key, key, &KEYS)),
        }
    }
    let Some(path) = path else {
        return Err(value.problem(value.value.span(), Problem::new("it has no `path`")));
    };
    if entry.mask_claims.is_some() && entry.decode != Some(Decode::Jwt) {
        let problem = Problem::new("`mask_claims` is about tokens").hint("add decode = \"jwt\"");
        return Err(value.problem(value.value.span(), problem));
    }
    let more =
        entry.hosts.is_some() || entry.places.is_some() || entry.extract.is_some() || entry.decode.is_some();
    denied_alone(value, entry.mode, more)?;
    Ok((path, entry))
}

/// Reads `[[network.http]]`.
pub(super) fn http(value: Value<'_>) -> Result<Vec<Sourced<HttpRules>>> {
    tables(value, "a list of tables, each below a line [[network.http]] with two brackets")?
        .into_iter()
        .map(|one| http_rules(Value { value: one, ..value }))
        .collect()
}

fn http_rules(value: Value<'_>) -> Result<Sourced<HttpRules>> {
    const KEYS: [&str; 3] = ["host", "allow", "deny"];
    let (mut host, mut allow, mut deny) = (None, None, None);
    for Entry { key, value: inner } in value.table("a table")? {
        let dotted = format!("{}.{}", value.key, key.get_ref());
        let inner = Value { source: value.source, key: &dotted, value: inner };
        match key.get_ref().as_ref() {
            "host" => {
                let text = inner.text("a host in quotes")?;
                host = Some(inner.check(&text, secret_values::http_host(text.text))?);
            }
            "allow" => allow = Some(rules(inner)?),
            "deny" => deny = Some(rules(inner)?),
            _ => return Err(unknown_field(value.source, value.key, key, &KEYS)),
        }
    }
    let wrong = |why: &str| Err(value.problem(value.value.span(), Problem::new(why)));
    let Some(host) = host else { return wrong("it has no `host`") };
    if allow.as_ref().is_some_and(Vec::is_empty) {
        return wrong(
            "an empty `allow` would allow everything; leave it out, or deny everything with deny = [\"* /**\"]",
        );
    }
    if allow.is_none() && deny.is_none() {
        return wrong("it has neither `allow` nor `deny`");
    }
    let rules = HttpRules { host, allow: allow.unwrap_or_default(), deny: deny.unwrap_or_default() };
    Ok(value.sourced(rules))
}

fn rules(value: Value<'_>) -> Result<Vec<HttpRule>> {
    let parse = |text: &str| HttpRule::parse(text).map_err(|error| Problem::new(error.to_string()));
    Ok(value.list(parse)?.into_iter().map(|rule| rule.value).collect())
}

fn hosts(value: Value<'_>) -> Result<Vec<HostPattern>> {
    let hosts = value.list(secret_values::secret_host)?;
    if hosts.is_empty() {
        return Err(value.problem(value.value.span(), Problem::new("it names no host")));
    }
    Ok(hosts.into_iter().map(|host| host.value).collect())
}

fn places(value: Value<'_>) -> Result<Places> {
    let places = value.list(Place::from_word)?;
    if places.is_empty() {
        return Err(value.problem(value.value.span(), Problem::new("it names no place")));
    }
    Ok(places.into_iter().map(|place| place.value).collect())
}

fn command(value: Value<'_>) -> Result<Vec<String>> {
    let words = value.texts()?;
    if words.first().is_none_or(|program| program.text.is_empty()) {
        return Err(value.problem(value.value.span(), Problem::new("it names no program")));
    }
    for word in &words {
        value.check_unseen(word, values::no_nul(word.text))?;
    }
    Ok(words.into_iter().map(|word| word.text.to_owned()).collect())
}

fn denied_alone(value: Value<'_>, mode: Option<SecretMode>, more: bool) -> Result<()> {
    if mode == Some(SecretMode::Deny) && more {
        let problem =
            Problem::new("with mode = \"deny\" the jail does not have it, so that nothing else counts")
                .hint("leave the other keys out");
        return Err(value.problem(value.value.span(), problem));
    }
    Ok(())
}

fn tables<'a>(value: Value<'a>, wanted: &str) -> Result<Vec<&'a Spanned<DeValue<'a>>>> {
    let Some(array) = value.value.get_ref().as_array() else {
        return Err(value.wrong_type(wanted));
    };
    Ok(array.iter().collect())
}

#[cfg(test)]
mod tests;
