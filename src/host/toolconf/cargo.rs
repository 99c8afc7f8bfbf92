//! cargo's configuration of the user's, reduced to where packages come from.

use toml::{Table, Value as Toml};

use super::Gather;
use super::rows::Value;

/// What may stay of a table: the path of keys, and what the last one holds.
static KEEP: &[(&[&str], Value)] = &[
    (&["registry", "default"], Value::Plain),
    (&["registries", "*", "index"], Value::Sources),
    (&["registries", "*", "protocol"], Value::Plain),
    (&["source", "*", "registry"], Value::Sources),
    (&["source", "*", "replace-with"], Value::Plain),
    (&["source", "*", "directory"], Value::Path),
    (&["source", "*", "local-registry"], Value::Path),
    (&["source", "*", "git"], Value::Sources),
    (&["source", "*", "branch"], Value::Plain),
    (&["source", "*", "tag"], Value::Plain),
    (&["source", "*", "rev"], Value::Plain),
    (&["http", "cainfo"], Value::Roots),
    (&["http", "check-revoke"], Value::Plain),
    (&["http", "timeout"], Value::Plain),
    (&["http", "low-speed-limit"], Value::Plain),
    (&["http", "multiplexing"], Value::Plain),
    (&["net", "retry"], Value::Plain),
    (&["net", "offline"], Value::Plain),
    (&["net", "git-fetch-with-cli"], Value::Plain),
];

/// The tables `source`, `registries`, `registry`, `net` and `http` of `text` without tokens, credential providers, proxies
/// and whatever runs a program (`build`, `target`, `alias`, `env`). `None` when nothing is left or it is not TOML.
pub(super) fn filtered(text: &str, gather: &mut Gather<'_>) -> Option<String> {
    let table: Table = text.parse().ok()?;
    let kept = keep(&table, &mut Vec::new(), gather);
    (!kept.is_empty()).then(|| kept.to_string())
}

fn keep(table: &Table, path: &mut Vec<String>, gather: &mut Gather<'_>) -> Table {
    let mut kept = Table::new();
    for (key, value) in table {
        path.push(key.clone());
        let value = match value {
            Toml::Table(inner) => {
                Some(keep(inner, path, gather)).filter(|inner| !inner.is_empty()).map(Toml::Table)
            }
            Toml::String(text) => kind(path).and_then(|kind| gather.clean(kind, text)).map(Toml::String),
            Toml::Integer(_) | Toml::Boolean(_) => kind(path).map(|_| value.clone()),
            _ => None,
        };
        path.pop();
        if let Some(value) = value {
            kept.insert(key.clone(), value);
        }
    }
    kept
}

fn kind(path: &[String]) -> Option<Value> {
    let fits = |pattern: &[&str]| {
        pattern.len() == path.len() && pattern.iter().zip(path).all(|(want, key)| *want == "*" || want == key)
    };
    KEEP.iter().find(|(pattern, _)| fits(pattern)).map(|(_, kind)| *kind)
}
