//! `presets/secrets.toml`: which files of a project hold secrets, as data.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use serde::Deserialize;

use super::content::Holds;
use crate::host::names::{NameIndex, matches};
use crate::presets::preset;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The rows.
    pub file: Vec<Row>,
}

/// One row: names that count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Exact names, and names that begin or end with one `*`.
    pub names: Vec<String>,
    /// Names that are left out, likewise.
    #[serde(default)]
    pub not: Vec<String>,
    /// What such a file has to hold; `None` when its name is enough.
    #[serde(default)]
    pub holds: Option<Holds>,
    /// What is in it.
    pub reason: String,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("secrets")).expect("secrets.toml parses"));

/// The same, to be asked by name.
pub static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::new(&TABLE));

/// The rows by the names that they have.
#[derive(Debug)]
pub struct Catalogue(NameIndex<&'static Row>);

impl Catalogue {
    fn new(table: &'static Table) -> Self {
        let names = table.file.iter().flat_map(|row| row.names.iter().map(move |name| (name.as_str(), row)));
        Self(NameIndex::new(names))
    }

    /// The names that are exact.
    pub fn exact(&self) -> impl Iterator<Item = &'static OsStr> {
        self.0.exact().map(OsStr::from_bytes)
    }

    /// The rows that `name` may be one of; which it is may depend on the contents.
    pub fn rows(&self, name: &OsStr) -> Vec<&'static Row> {
        let name = name.as_bytes();
        let mut rows = self.0.of(name);
        rows.retain(|row| !row.not.iter().any(|not| matches(not.as_bytes(), name)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_names_of_a_known_form_and_a_reason() {
        for row in &TABLE.file {
            assert!(!row.names.is_empty() && row.reason.len() > 8, "{row:?}");
            for name in row.names.iter().chain(&row.not) {
                let stars = name.bytes().filter(|byte| *byte == b'*').count();
                let at_an_end = name.starts_with('*') || name.ends_with('*');
                assert!(stars == 0 || (stars == 1 && at_an_end), "{name}");
                assert!(name.trim_matches('*').len() >= 2 && !name.contains('/'), "{name}");
            }
        }
    }

    #[test]
    fn names_are_found_as_the_table_says() {
        let cases = [
            (".env", true),
            (".env.local", true),
            (".env.test", true),
            (".env.example", false),
            (".env.sample", false),
            (".env.template", false),
            (".env.local.example", false),
            (".environment", false),
            ("env", false),
            ("x.env", false),
            ("server.pem", true),
            ("server.key", true),
            ("keystore.p12", true),
            ("id_ed25519", true),
            ("id_ed25519.pub", false),
            ("sa.json", true),
            ("package.json", false),
            ("terraform.tfstate", true),
            ("terraform.tfstate.backup", true),
            (".npmrc", true),
            (".pypirc", true),
            (".netrc", true),
            ("kubeconfig", true),
            ("prod.kubeconfig", true),
            ("k8s.yaml", true),
            ("main.rs", false),
            ("README.md", false),
            ("m", false),
            ("", false),
        ];
        for (name, expected) in cases {
            assert_eq!(!CATALOGUE.rows(OsStr::new(name)).is_empty(), expected, "{name}");
        }
    }
}
