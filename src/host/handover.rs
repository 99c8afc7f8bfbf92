//! The trust hand-over (FS-14): what a session made or changed that other tools run, load or obey by themselves.
//!
//! A file counts as changed by its change time, which only the kernel sets: a jail can set every other time back. A name
//! that was not there at launch counts as new, for a directory can be renamed with what is in it.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::host::names::NameIndex;
use crate::host::read_bytes;
use crate::presets::preset;

/// JSON files whose parts are remembered at launch.
const REMEMBERED: usize = 500;
/// No longer JSON file is read (bytes).
const JSON_LIMIT: u64 = 1 << 20;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The kinds, most important first.
    pub kind: Vec<Kind>,
}

/// One kind of file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Its name in the plural.
    pub what: String,
    /// Names, with directories before them where those matter.
    pub names: Vec<String>,
    /// The part of a JSON file that counts.
    #[serde(default)]
    pub key: Option<String>,
    /// Who runs, loads or obeys it.
    pub reason: String,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("handover")).expect("handover.toml parses"));

/// The names of the table, each with the directory that it counts in.
struct Lookup {
    names: NameIndex<(&'static Path, &'static Kind)>,
    /// Directories in which every name counts.
    directories: Vec<(&'static Path, &'static Kind)>,
}

static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
    let rows = TABLE.kind.iter().flat_map(|kind| kind.names.iter().map(move |name| (name.as_str(), kind)));
    let (whole, names): (Vec<_>, Vec<_>) = rows
        .map(|(name, kind)| {
            let (directory, name) = name.rsplit_once('/').unwrap_or(("", name));
            (name, (Path::new(directory), kind))
        })
        .partition(|(name, _)| *name == "*");
    Lookup {
        names: NameIndex::new(names),
        directories: whole.into_iter().map(|(_, directory)| directory).collect(),
    }
});

/// The kind that every file in the directory `below` is of, if there is one.
pub fn kind_of_all(below: &Path) -> Option<&'static Kind> {
    LOOKUP.directories.iter().find(|(directory, _)| below.ends_with(directory)).map(|(_, kind)| *kind)
}

/// The kind that `name` in the directory `below` is of by its name, if it is of any.
pub fn kind_by_name(below: &Path, name: &OsStr) -> Option<&'static Kind> {
    let found = LOOKUP.names.of(name.as_bytes());
    found.into_iter().find(|(directory, _)| below.ends_with(directory)).map(|(_, kind)| kind)
}

/// The kind that the file `below` is of.
fn kind(below: &Path) -> Option<&'static Kind> {
    let directory = below.parent()?;
    kind_of_all(directory).or_else(|| kind_by_name(directory, below.file_name()?))
}

/// What something that was found is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A repository that was not there.
    Repository,
    /// A symlink that leads out of the tree.
    Symlink,
    /// A file of a kind of the table, by its position.
    Kind(usize),
    /// A program.
    Executable,
}

impl What {
    /// Of a kind of the table.
    pub fn of(kind: &'static Kind) -> Self {
        Self::Kind(TABLE.kind.iter().position(|other| std::ptr::eq(other, kind)).unwrap_or_default())
    }

    /// In the plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repository => "new repositories",
            Self::Symlink => "symlinks that lead out",
            Self::Kind(at) => TABLE.kind.get(at).map_or("files", |kind| kind.what.as_str()),
            Self::Executable => "new programs",
        }
    }
}

/// One thing that is handed over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handed {
    /// What it is.
    pub what: What,
    /// Where, below the root of its tree.
    pub below: PathBuf,
}

/// A moment on the kernel's clock for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    seconds: i64,
    nanoseconds: i64,
}

impl Moment {
    /// Now, as the kernel would write it on a file.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }

    /// When something was last changed in any way.
    pub fn of_change(stat: &Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
        Self { seconds: stat.st_ctime, nanoseconds }
    }
}

/// A tree as it was when a session began.
#[derive(Debug, Clone)]
pub struct Launch {
    /// When it began.
    pub since: Moment,
    /// The files of the table's kinds that were there, below the root; `None` when that is not known any more.
    pub known: Option<HashSet<PathBuf>>,
    /// What the parts of JSON files said.
    parts: HashMap<PathBuf, [u8; 32]>,
}

impl Launch {
    /// Of a session that begins now, in the tree at `root`.
    pub fn now(root: &Path, known: &[PathBuf]) -> Self {
        let since = Moment::now();
        let keyed = known.iter().filter_map(|below| {
            let key = kind(below)?.key.as_deref()?;
            Some((below.clone(), part(&root.join(below), key)?))
        });
        let parts = keyed.take(REMEMBERED).collect();
        Self { since, known: Some(known.iter().cloned().collect()), parts }
    }

    /// Of a session that was killed: only its begin is known.
    pub fn at(since: Moment) -> Self {
        Self { since, known: None, parts: HashMap::new() }
    }

    /// Whether a file of a kind of the table is new or changed.
    pub fn is_handed(&self, root: &Path, below: &Path, kind: &Kind, stat: &Stat) -> bool {
        let is_new = self.known.as_ref().is_some_and(|known| !known.contains(below));
        if !is_new && Moment::of_change(stat) < self.since {
            return false;
        }
        let Some(key) = &kind.key else { return true };
        // Without the part there is nothing to run; with the same nothing has changed.
        match part(&root.join(below), key) {
            Some(now) => self.parts.get(below) != Some(&now),
            None => false,
        }
    }
}

/// A digest of one part of a JSON file; `None` when it has none. What cannot be read is a part too.
fn part(path: &Path, key: &str) -> Option<[u8; 32]> {
    let digest = |bytes: &[u8]| Some(Sha256::digest(bytes).into());
    let Some(bytes) = read_bytes(path, JSON_LIMIT) else { return digest(b"unreadable") };
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(value) => digest(value.get(key)?.to_string().as_bytes()),
        Err(_) => digest(&bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_names_of_a_known_form_and_a_reason() {
        for kind in &TABLE.kind {
            assert!(!kind.names.is_empty() && kind.reason.len() > 8 && kind.what.len() > 4, "{kind:?}");
            for whole in &kind.names {
                let (directory, name) = whole.rsplit_once('/').unwrap_or(("", whole));
                let stars = name.bytes().filter(|byte| *byte == b'*').count();
                let form = stars == 0 || (stars == 1 && (name.starts_with('*') || name.ends_with('*')));
                let plain = name.trim_matches('*');
                assert!(form && (plain.len() >= 2 || !directory.is_empty()), "{whole}");
                assert!(!directory.contains('*') && !directory.starts_with('/'), "{whole}");
            }
        }
    }

    #[test]
    fn files_are_of_the_kind_that_the_table_says() {
        for (path, expected) in [
            ("build.rs", Some("build scripts")),
            ("crates/a/build.rs", Some("build scripts")),
            ("sub/Makefile", Some("build scripts")),
            ("cmake/x.cmake", Some("build scripts")),
            ("package.json", Some("package scripts")),
            (".github/workflows/ci.yml", Some("CI workflows")),
            ("sub/.github/workflows/ci.yml", Some("CI workflows")),
            ("workflows/ci.yml", None),
            ("CLAUDE.md", Some("agents' instructions")),
            ("docs/AGENTS.md", Some("agents' instructions")),
            ("justfile", Some("task files")),
            ("vite.config.ts", Some("configurations that are programs")),
            (".cargo/config.toml", Some("configurations that are programs")),
            ("config.toml", None),
            ("src/main.rs", None),
            ("README.md", None),
        ] {
            let found = kind(Path::new(path));
            assert_eq!(found.map(|kind| kind.what.as_str()), expected, "{path}");
        }
    }

    #[test]
    fn only_a_change_of_the_scripts_of_a_package_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("package.json");
        let below = PathBuf::from("package.json");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let kind = kind(&below).unwrap();
        let stat = || rustix::fs::stat(&file).unwrap();
        write(r#"{"name": "x", "scripts": {"test": "a"}}"#);
        let launch = Launch::now(dir.path(), std::slice::from_ref(&below));
        for (text, handed) in [
            (r#"{"name": "y", "version": "2", "scripts": {"test": "a"}}"#, false),
            (r#"{"name": "x", "scripts": {"test": "b"}}"#, true),
            (r#"{"name": "x"}"#, false),
            ("no JSON", true),
        ] {
            write(text);
            assert_eq!(launch.is_handed(dir.path(), &below, kind, &stat()), handed, "{text}");
        }
        write(r#"{"scripts": {}}"#);
        assert!(Launch::now(dir.path(), &[]).is_handed(dir.path(), &below, kind, &stat()), "a new one");
    }

    #[test]
    fn the_time_of_a_change_cannot_be_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("Makefile");
        let below = PathBuf::from("Makefile");
        std::fs::write(&file, "a").unwrap();
        let kind = kind(&below).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let launch = Launch::now(dir.path(), std::slice::from_ref(&below));
        let stat = || rustix::fs::stat(&file).unwrap();
        assert!(!launch.is_handed(dir.path(), &below, kind, &stat()));
        std::fs::write(&file, "b").unwrap();
        let past = std::time::UNIX_EPOCH;
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(past).unwrap();
        assert!(launch.is_handed(dir.path(), &below, kind, &stat()));
    }
}
