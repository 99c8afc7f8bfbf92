//! What an agent asks for once goes along to its other projects: a few values of its settings, by the names of its preset.
//!
//! The settings were written by an agent in another jail. So only plain values under listed keys are taken, and nothing
//! that could name a program, a path or a host is listed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;

/// How deep a value may be.
const DEPTH: usize = 3;
/// How many items a list or table may have.
const ITEMS: usize = 64;
/// How long a string may be (bytes).
const TEXT: usize = 1024;

/// What goes along at a launch. Paths are below ai-jail's data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carry {
    /// The directory of this project and agent.
    pub place: PathBuf,
    /// The file that names the directory of the project where the agent ran last.
    pub pointer: PathBuf,
    /// The files, below such a directory, with their keys.
    pub files: Vec<(PathBuf, Vec<String>)>,
}

/// `own` with the values that `last` has under `keys` (with dots where one is in another). `None` when nothing changes, or
/// one of them is no JSON table.
pub fn merge(own: Option<&[u8]>, last: &[u8], keys: &[String]) -> Option<Vec<u8>> {
    let last: Table = serde_json::from_slice(last).ok()?;
    let mut table: Table = match own {
        Some(own) => serde_json::from_slice(own).ok()?,
        None => Table::default(),
    };
    let mut changed = false;
    for key in keys {
        let way: Vec<&str> = key.split('.').collect();
        if let Some(value) = last.at(&way).filter(|value| is_plain(value, DEPTH)) {
            changed |= table.put(&way, &value);
        }
    }
    changed.then(|| serde_json::to_vec_pretty(&table).ok()).flatten()
}

/// A table whose values are left as they are written.
#[derive(Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
struct Table(BTreeMap<String, Box<RawValue>>);

impl Table {
    fn at(&self, way: &[&str]) -> Option<Value> {
        let (first, rest) = way.split_first()?;
        let value = self.0.get(*first)?.get();
        if rest.is_empty() {
            return serde_json::from_str(value).ok();
        }
        serde_json::from_str::<Self>(value).ok()?.at(rest)
    }

    /// Returns whether that changed anything.
    fn put(&mut self, way: &[&str], value: &Value) -> bool {
        let Some((first, rest)) = way.split_first() else { return false };
        let before = self.0.get(*first).map(|raw| raw.get());
        let new = if rest.is_empty() {
            if before.is_some_and(|raw| serde_json::from_str::<Value>(raw).is_ok_and(|known| known == *value))
            {
                return false;
            }
            serde_json::value::to_raw_value(value)
        } else {
            // Something that is no table there is the agent's own business.
            let Ok(mut inner) = before.map_or(Ok(Self::default()), serde_json::from_str::<Self>) else {
                return false;
            };
            if !inner.put(rest, value) {
                return false;
            }
            serde_json::value::to_raw_value(&inner)
        };
        let Ok(new) = new else { return false };
        self.0.insert((*first).to_owned(), new);
        true
    }
}

fn is_plain(value: &Value, depth: usize) -> bool {
    let text = |text: &str| text.len() <= TEXT && !text.chars().any(char::is_control);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(string) => text(string),
        Value::Array(items) => {
            depth > 0 && items.len() <= ITEMS && items.iter().all(|item| is_plain(item, depth - 1))
        }
        Value::Object(fields) => {
            depth > 0
                && fields.len() <= ITEMS
                && fields.iter().all(|(name, value)| text(name) && is_plain(value, depth - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(own: Option<&str>, last: &str) -> Option<Value> {
        let keys = ["done", "who", "a.b"].map(str::to_owned);
        let text = merge(own.map(str::as_bytes), last.as_bytes(), &keys)?;
        Some(serde_json::from_slice(&text).expect("JSON"))
    }

    #[test]
    fn only_listed_keys_go_along() {
        let last = r#"{"done": true, "mcpServers": {"x": {"command": "evil"}}, "hooks": [1], "a": {"b": "t", "c": "evil"}}"#;
        assert_eq!(merged(None, last), Some(serde_json::json!({"done": true, "a": {"b": "t"}})));
        let own = r#"{"done": false, "mcpServers": {"mine": {}}, "a": {"c": 1}, "who": "me"}"#;
        let want = serde_json::json!({"done": true, "mcpServers": {"mine": {}}, "a": {"b": "t", "c": 1}, "who": "me"});
        assert_eq!(merged(Some(own), last), Some(want));
    }

    #[test]
    fn nothing_is_written_that_is_there_already_or_cannot_be_read() {
        for (own, last) in [
            (Some(r#"{"done": true}"#), r#"{"done": true}"#),
            (Some(r#"{"a": 1}"#), r#"{"a": {"b": 1}}"#),
            (Some("{"), r#"{"done": true}"#),
            (None, "{"),
            (None, "[]"),
            (None, "{}"),
            (None, ""),
            (None, r#"{"mcpServers": {}}"#),
        ] {
            assert_eq!(merged(own, last), None, "{own:?} {last}");
        }
    }

    #[test]
    fn what_is_not_plain_stays_where_it_is() {
        let long = format!("{{\"who\": \"{}\"}}", "x".repeat(TEXT + 1));
        let many = format!("{{\"who\": {:?}}}", [1; ITEMS + 1]);
        for last in [r#"{"who": "\u001b[2J"}"#, r#"{"who": [[[[1]]]]}"#, long.as_str(), many.as_str()] {
            assert_eq!(merged(None, last), None, "{last}");
        }
        assert!(merged(None, r#"{"who": {"name": "ann", "ids": [1, 2]}}"#).is_some());
    }

    #[test]
    fn what_is_not_understood_is_left_as_it_was() {
        let own = br#"{"history": "\ud83d", "n": 123456789012345678901234567890}"#;
        let text = merge(Some(own), br#"{"done": 1}"#, &["done".to_owned()]).expect("merged");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains(r#""\ud83d""#) && text.contains("123456789012345678901234567890"), "{text}");
    }
}
