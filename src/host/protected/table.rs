//! `presets/protected.toml`: what is protected, as data.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::host::ini::Entry;
use crate::presets::preset;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The rows.
    pub path: Vec<Row>,
    /// Git's settings that name files.
    pub git_setting: Vec<GitSetting>,
    /// Settings of agents and editors that name scripts.
    pub named_scripts: NamedScripts,
    /// What git runs in a hooks directory.
    pub hooks: Names,
    /// Folders in which only git directories are looked for.
    pub dependencies: Names,
}

/// One row: names that are protected.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Where the names count.
    pub r#where: Where,
    /// Names, or short paths, below such a directory.
    pub names: Vec<String>,
    /// Why they are protected.
    pub reason: String,
}

/// Where a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// At the root of the writable tree, in the directories right below it, and in the user's home.
    Root,
    /// In any directory of it that is not a dependency folder.
    Anywhere,
}

/// Settings of git whose values name files that git reads or runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitSetting {
    /// `section.key` in lower case, with any subsection; the key `*` is any.
    pub keys: Vec<String>,
    /// What the value is.
    pub value: Value,
    /// Why what it names is protected.
    pub reason: String,
}

/// What a setting's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// The directory of hooks, relative to the work tree.
    Hooks,
    /// A path, relative to the work tree.
    Path,
    /// Another file of settings, relative to the one that names it.
    Include,
    /// A command, which runs in the work tree.
    Command,
}

/// Files of settings whose values are searched for scripts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedScripts {
    /// The files, below a directory of the tree.
    pub files: Vec<String>,
    /// Keys whose values, and what is below them, are commands. In lower case.
    pub keys: Vec<String>,
    /// What the name of a script ends with when it is not executable.
    pub extensions: Vec<String>,
    /// Why such scripts are protected.
    pub reason: String,
}

/// Plain names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// The names.
    pub names: Vec<String>,
}

impl Names {
    /// Whether `name` is one of them.
    pub fn contain(&self, name: &OsStr) -> bool {
        self.names.iter().any(|known| OsStr::new(known) == name)
    }
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("protected")).expect("protected.toml parses"));

impl Table {
    /// The row that says what the value of `entry` names, if it names anything.
    pub fn git_setting(&self, entry: &Entry) -> Option<&GitSetting> {
        self.git_setting.iter().find(|row| {
            row.keys.iter().any(|key| {
                key.split_once('.').is_some_and(|(section, key)| {
                    section == entry.section && (key == "*" || key == entry.key)
                })
            })
        })
    }
}

/// One name of the table or of a preset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) path: &'a Path,
    pub(super) place: Where,
    pub(super) reason: &'a str,
}

/// The names by their first component.
pub(super) struct Lookup<'a> {
    rows: HashMap<&'a OsStr, Vec<Named<'a>>>,
    settings: HashMap<&'a OsStr, Vec<&'a Path>>,
}

impl<'a> Lookup<'a> {
    /// The table's names and `more`, which count anywhere.
    pub(super) fn new(more: &'a [String]) -> Self {
        let mut rows: HashMap<_, Vec<_>> = HashMap::new();
        let table = TABLE.path.iter().flat_map(|row| {
            row.names.iter().map(|name| Named {
                path: Path::new(name),
                place: row.r#where,
                reason: row.reason.as_str(),
            })
        });
        let more = more.iter().map(|name| Named {
            path: Path::new(name),
            place: Where::Anywhere,
            reason: "the agent's own preset names it",
        });
        for named in table.chain(more) {
            if let Some(first) = named.path.iter().next() {
                rows.entry(first).or_default().push(named);
            }
        }
        let mut settings: HashMap<_, Vec<_>> = HashMap::new();
        for file in TABLE.named_scripts.files.iter().map(Path::new) {
            if let Some(first) = file.iter().next() {
                settings.entry(first).or_default().push(file);
            }
        }
        Self { rows, settings }
    }

    /// Every first component.
    pub(super) fn firsts(&self) -> Vec<&'a OsStr> {
        self.rows.keys().copied().collect()
    }

    /// Every row.
    pub(super) fn all(&self) -> impl Iterator<Item = Named<'a>> {
        self.rows.values().flatten().copied()
    }

    /// The rows whose names begin with `first`.
    pub(super) fn rows(&self, first: &OsStr) -> &[Named<'a>] {
        self.rows.get(first).map_or(&[], Vec::as_slice)
    }

    /// The files of settings that name scripts and whose paths begin with `first`.
    pub(super) fn settings(&self, first: &OsStr) -> &[&'a Path] {
        self.settings.get(first).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use super::*;

    #[test]
    fn every_row_has_plain_names_and_a_reason() {
        let names = TABLE.path.iter().map(|row| (&row.names, &row.reason));
        let scripts = &TABLE.named_scripts;
        for (names, reason) in names.chain([(&scripts.files, &scripts.reason)]) {
            assert!(!names.is_empty() && reason.len() > 8, "{names:?}");
            for name in names {
                assert!(
                    Path::new(name).components().all(|part| matches!(part, Component::Normal(_))),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn every_git_setting_is_a_section_and_a_key_in_lower_case() {
        for row in &TABLE.git_setting {
            assert!(!row.keys.is_empty() && row.reason.len() > 8, "{row:?}");
            for key in &row.keys {
                assert!(key.split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.contains('.')), "{key}");
                assert_eq!(key, &key.to_ascii_lowercase());
            }
        }
    }

    #[test]
    fn settings_that_name_scripts_are_protected_themselves() {
        let rows: Vec<&String> = TABLE.path.iter().flat_map(|row| &row.names).collect();
        for file in &TABLE.named_scripts.files {
            assert!(rows.iter().any(|row| Path::new(file).starts_with(row)), "{file}");
        }
    }
}
