//! Typed access to the values of a parsed file: a wrong type is an error that cites the value.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::cite::Source;
use super::keys::{Availability, KEYS, TABLES, keys_of};
use super::words::{Problem, Word, nearest};
use crate::error::{Error, Result};
use crate::policy::origin::Sourced;
use crate::sanitize::escape;

/// A value with the dotted name of its key.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub source: Source<'a>,
    pub key: &'a str,
    pub value: &'a Spanned<DeValue<'a>>,
}

/// A string of a file and where it is.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    pub text: &'a str,
    pub span: Range<usize>,
}

/// One entry of a table.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub key: &'a Spanned<DeString<'a>>,
    pub value: &'a Spanned<DeValue<'a>>,
}

/// The entries of `table` in the order of the file, so that the first error is the first one there.
pub(super) fn entries<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = table.iter().map(|(key, value)| Entry { key, value }).collect();
    entries.sort_by_key(|entry| entry.key.span().start);
    entries
}

impl<'a> Value<'a> {
    /// `true` or `false`.
    pub fn bool(self) -> Result<Sourced<bool>> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Ok(self.sourced(*value)),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    /// A word of a list.
    pub fn word<T: Word>(self) -> Result<Sourced<T>> {
        let text = self.text("a word in quotes")?;
        let value = self.check(&text, T::from_word(text.text))?;
        Ok(self.sourced(value))
    }

    /// A value that `parse` reads from a string, or from a whole number written without quotes.
    pub fn parsed<T>(self, wanted: &str, parse: impl Fn(&str) -> Result<T, Problem>) -> Result<Sourced<T>> {
        let span = self.value.span();
        let parsed = match self.value.get_ref() {
            DeValue::String(text) => parse(text),
            DeValue::Integer(number) if number.radix() == 10 => parse(number.as_str()),
            _ => return Err(self.wrong_type(wanted)),
        };
        match parsed {
            Ok(value) => Ok(self.sourced(value)),
            Err(problem) => Err(self.problem(span, problem)),
        }
    }

    /// A list of strings.
    pub fn texts(self) -> Result<Vec<Text<'a>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            return Err(self.wrong_type("a list of strings"));
        };
        array.iter().map(|value| Value { value, ..self }.text("a string in each place")).collect()
    }

    /// A list, each string read by `parse`.
    pub fn list<T>(self, parse: impl Fn(&str) -> Result<T, Problem>) -> Result<Vec<Sourced<T>>> {
        self.texts()?
            .into_iter()
            .map(|text| {
                let value = self.check(&text, parse(text.text))?;
                Ok(Sourced::new(value, self.source.origin(self.key, text.span.start)))
            })
            .collect()
    }

    /// A list of numbers, each read by `parse` from its decimal digits.
    pub fn numbers<T>(
        self,
        wanted: &str,
        parse: impl Fn(&str) -> Result<T, Problem>,
    ) -> Result<Vec<Sourced<T>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            return Err(self.wrong_type(wanted));
        };
        array.iter().map(|value| Value { value, ..self }.parsed(wanted, &parse)).collect()
    }

    /// A table of strings: each name and its value.
    pub fn pairs(self) -> Result<Vec<(Text<'a>, Text<'a>)>> {
        let mut pairs = Vec::new();
        for Entry { key: name, value } in
            self.table("a table of strings, for example { NAME = \"value\" }")?
        {
            let name = Text { text: name.get_ref(), span: name.span() };
            pairs.push((name, Value { value, ..self }.text("a string for each name")?));
        }
        Ok(pairs)
    }

    /// The entries of a table, in the order of the file.
    pub fn table(self, wanted: &str) -> Result<Vec<Entry<'a>>> {
        self.value.get_ref().as_table().map(entries).ok_or_else(|| self.wrong_type(wanted))
    }

    /// The value of `parsed`, or an error about `text`.
    pub fn check<T>(self, text: &Text<'_>, parsed: Result<T, Problem>) -> Result<T> {
        parsed.map_err(|problem| {
            let what = format!("`{}` is no good for {}", escape(text.text), self.named());
            self.source.error(text.span.clone(), &what, problem)
        })
    }

    /// [`Self::check`] without a word of `text`, which may be the value of a secret.
    pub fn check_unseen<T>(self, text: &Text<'_>, parsed: Result<T, Problem>) -> Result<T> {
        parsed.map_err(|problem| self.problem(text.span.clone(), problem))
    }

    /// `value` with the place of this one.
    pub fn sourced<T>(self, value: T) -> Sourced<T> {
        Sourced::new(value, self.source.origin(self.key, self.value.span().start))
    }

    /// A string.
    pub fn text(self, wanted: &str) -> Result<Text<'a>> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(Text { text, span: self.value.span() }),
            _ => Err(self.wrong_type(wanted)),
        }
    }

    /// The error for a value of another type than `wanted`.
    pub fn wrong_type(self, wanted: &str) -> Error {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let what = format!("{} has the wrong type", self.named());
        self.source.error(self.value.span(), &what, Problem::new(format!("it takes {wanted}, not {found}")))
    }

    /// An error about a part of this value.
    pub fn problem(self, span: Range<usize>, problem: Problem) -> Error {
        self.source.error(span, &format!("{} is no good", self.named()), problem)
    }

    fn named(self) -> String {
        format!("`{}`", escape(self.key))
    }
}

/// The error for a key that `table` (empty for the top level) does not have, or a table that is not there yet.
pub(super) fn refused_key(source: Source<'_>, table: &str, name: &str, span: Range<usize>) -> Error {
    let shown = if table.is_empty() { escape(name).to_string() } else { format!("{table}.{}", escape(name)) };
    let later = table.is_empty()
        && TABLES.iter().any(|(table, status)| *table == name && *status == Availability::Later);
    if later {
        let problem = Problem::new("ignoring it would silently not hold").hint("remove it");
        return source.error(span, &format!("`{shown}` is not supported by this version"), problem);
    }
    let here = keys_of(table).map(|key| key.name);
    let tables = TABLES.iter().filter(|(_, status)| table.is_empty() && *status == Availability::Here);
    let names: Vec<&str> = here.chain(tables.map(|(name, _)| *name)).collect();
    let problem = match nearest(name, names.iter().copied()) {
        Some(near) => Problem::new("").hint(format!("did you mean `{near}`?")),
        None => match elsewhere(table, name) {
            Some(place) => Problem::new("").hint(format!("`{}` belongs to {place}", escape(name))),
            None => Problem::new(format!("{} has {}", place_name(table), names.join(", "))),
        },
    };
    source.error(span, &format!("unknown key `{shown}`"), problem)
}

/// The error for a key of a table that is a value, `table` (dotted), whose keys are `known`.
pub(super) fn unknown_field(
    source: Source<'_>,
    table: &str,
    key: &Spanned<DeString<'_>>,
    known: &[&str],
) -> Error {
    let problem = match nearest(key.get_ref(), known.iter().copied()) {
        Some(near) => Problem::new("").hint(format!("did you mean `{near}`?")),
        None => Problem::new(format!("it has {}", known.join(", "))),
    };
    source.error(
        key.span(),
        &format!("unknown key `{}.{}`", escape(table), escape(key.get_ref().as_ref())),
        problem,
    )
}

/// The tables that a command can have of its own: all of the top level's but `agents` itself.
fn agent_tables() -> impl Iterator<Item = &'static str> {
    TABLES
        .iter()
        .filter(|(name, status)| *status == Availability::Here && *name != "agents")
        .map(|(name, _)| *name)
}

/// Whether a command can have the table `name` of its own.
pub(super) fn is_agent_table(name: &str) -> bool {
    agent_tables().any(|table| table == name)
}

/// The error for something in `[agents.AGENT]` that is none of its tables.
pub(super) fn refused_agent_key(source: Source<'_>, agent: &str, name: &str, span: Range<usize>) -> Error {
    let shown = format!("agents.{}.{}", escape(agent), escape(name));
    if TABLES.iter().any(|(table, status)| *table == name && *status == Availability::Later) {
        let problem = Problem::new("ignoring it would silently not hold").hint("remove it");
        return source.error(span, &format!("`{shown}` is not supported by this version"), problem);
    }
    let problem = if KEYS.iter().any(|key| key.table.is_empty() && key.name == name) || name == "agents" {
        Problem::new("").hint(format!("`{}` belongs to the top level", escape(name)))
    } else if let Some(near) = nearest(name, agent_tables()) {
        Problem::new("").hint(format!("did you mean `{near}`?"))
    } else if let Some(place) = elsewhere("agents", name) {
        let table = place.trim_matches(['[', ']']);
        Problem::new("").hint(format!("`{}` belongs to [agents.{}.{table}]", escape(name), escape(agent)))
    } else {
        let tables = agent_tables().collect::<Vec<_>>().join(", ");
        Problem::new(format!("[agents.{}] has the tables {tables}", escape(agent)))
    };
    source.error(span, &format!("unknown key `{shown}`"), problem)
}

/// Another table that has a key of this name.
fn elsewhere(table: &str, name: &str) -> Option<String> {
    KEYS.iter().find(|key| key.name == name && key.table != table).map(|key| place_name(key.table))
}

fn place_name(table: &str) -> String {
    if table.is_empty() { "the top level".to_owned() } else { format!("[{table}]") }
}
