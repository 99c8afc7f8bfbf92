//! Toolchains that are installed below the home, or elsewhere off the system: what of them a jail is shown.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::needs::Needs;
use super::system::{MountKind, SystemMount};
use super::{Host, links};
use crate::presets::preset;

/// Files in which tools keep tokens, looked for in every root that is shown as a whole.
const HIDDEN: [&str; 14] = [
    ".npmrc",
    "etc/npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    "pip.conf",
    "etc/pip.conf",
    ".condarc",
    ".netrc",
    ".pypirc",
    ".env",
    "*.env",
    ".env.*",
    ".git",
];
/// Of a pattern's matches no more are looked at.
const MATCHES: usize = 4096;

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("toolchains")).expect("toolchains.toml parses"));

/// A row of `presets/toolchains.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolchainRow {
    /// Its name.
    pub name: String,
    /// Where it may be: `~/...` or `$NAME`; the first that exists counts.
    pub roots: Vec<String>,
    /// Parts of the root that are shown.
    pub mount: Vec<String>,
    /// What shows that a place which a variable names is what it should be: any of it will do.
    #[serde(default)]
    pub proof: Vec<String>,
    /// Files with credentials in what is shown, beside those of [`HIDDEN`].
    #[serde(default)]
    pub hide: Vec<String>,
    /// Variables of the launcher's that are carried.
    #[serde(default)]
    pub env: Vec<String>,
    /// Where it keeps downloads, relative to the home.
    #[serde(default)]
    pub caches: Vec<String>,
    /// Why it is shown, and what of it is not.
    pub reason: String,
}

/// A variable that leads a tool's installs into the private home.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallRow {
    /// The variable.
    pub variable: String,
    /// Its value, relative to the home.
    pub value: String,
    /// The tool's own place, relative to the home: it counts when that is the host's. Empty: always.
    pub at: String,
    /// A variable of the toolchains' with which it does not go.
    #[serde(default)]
    pub unless: Option<String>,
    /// Which command it is for.
    pub reason: String,
}

/// A toolchain that this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The row's name, or `PATH` for directories that only PATH names.
    pub name: String,
    /// What is shown read-only, and symlinks that lead to it. Never the home as a whole, nor a place of credentials.
    pub mounts: Vec<SystemMount>,
    /// Variables to carry.
    pub env: Vec<(String, OsString)>,
    /// Where it keeps downloads, relative to the home.
    pub caches: Vec<PathBuf>,
    /// Existing files and directories in what is shown that hold credentials.
    pub hidden: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    toolchain: Vec<ToolchainRow>,
    install: Vec<InstallRow>,
}

/// The rows of the table.
pub fn rows() -> &'static [ToolchainRow] {
    &TABLE.toolchain
}

/// The variables for installs.
pub fn installs() -> &'static [InstallRow] {
    &TABLE.install
}

/// Where tools keep downloads, below the home, whether they are installed there or not.
pub fn caches() -> Vec<PathBuf> {
    let mut caches: Vec<PathBuf> = rows().iter().flat_map(|row| &row.caches).map(PathBuf::from).collect();
    caches.sort();
    caches.dedup();
    caches
}

/// The toolchains of this machine: those of the table, then what else PATH leads to outside the system and the project.
pub fn detect(host: &Host, project: &Path) -> Vec<Toolchain> {
    let bounds = Needs::new(host, project);
    let mut found: Vec<Toolchain> = rows().iter().filter_map(|row| row.detect(host, &bounds)).collect();
    let path = off_the_table(host, project, &bounds, &found);
    if !path.is_empty() {
        let hidden = path
            .iter()
            .filter(|mount| mount.kind == MountKind::Bind)
            .flat_map(|mount| matches(&mount.source, &HIDDEN))
            .collect();
        found.push(Toolchain {
            name: "PATH".into(),
            mounts: path,
            env: Vec::new(),
            caches: Vec::new(),
            hidden,
        });
    }
    found
}

impl ToolchainRow {
    fn detect(&self, host: &Host, bounds: &Needs<'_>) -> Option<Toolchain> {
        let root = self
            .roots
            .iter()
            .filter_map(|root| Some((root.starts_with('$'), place(host, root)?)))
            .find(|(named, root)| root.is_dir() && (!named || self.proven(root)))?
            .1;
        let mounts: Vec<SystemMount> = self
            .mount
            .iter()
            .filter_map(|part| shown(host, bounds, &if part == "." { root.clone() } else { root.join(part) }))
            .collect();
        // A variable that leads to something else is of no use inside either.
        let leads = |name: &str, value: &OsStr| {
            !self.roots.iter().any(|root| root.strip_prefix('$') == Some(name)) || Path::new(value) == root
        };
        let carried = |name: &String| {
            let value = host.environment.var(name).filter(|value| leads(name, value))?;
            Some((name.clone(), value.to_owned()))
        };
        let env: Vec<_> = self.env.iter().filter_map(carried).collect();
        if mounts.is_empty() && env.is_empty() {
            return None;
        }
        let caches = self.caches.iter().map(PathBuf::from).collect();
        let mut hidden = Vec::new();
        if let Some(real) = host.real(&root) {
            hidden = matches(&real, &self.hide);
            if self.mount.iter().any(|part| part == ".") {
                hidden.extend(matches(&real, &HIDDEN));
                hidden.sort();
                hidden.dedup();
            }
        }
        Some(Toolchain { name: self.name.clone(), mounts, env, caches, hidden })
    }

    fn proven(&self, root: &Path) -> bool {
        self.proof.is_empty() || !matches(root, &self.proof).is_empty()
    }
}

/// What exists below `root` of the patterns, in which a `*` stands for a whole name or for the beginning or end of one.
fn matches(root: &Path, patterns: &[impl AsRef<str>]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in patterns {
        let mut places = vec![root.to_path_buf()];
        for part in pattern.as_ref().split('/') {
            places = match part.split_once('*') {
                None => places.into_iter().map(|place| place.join(part)).collect(),
                Some((start, end)) => {
                    places.iter().flat_map(|place| names(place, start, end)).take(MATCHES).collect()
                }
            };
        }
        found.extend(places.into_iter().filter(|place| place.symlink_metadata().is_ok()));
    }
    found.sort();
    found.dedup();
    found
}

fn names(dir: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.as_bytes();
            name.len() >= start.len() + end.len()
                && name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
        })
        .map(|entry| entry.path())
        .collect()
}

/// Where a root is: `$NAME` needs an absolute value.
fn place(host: &Host, root: &str) -> Option<PathBuf> {
    match (root.strip_prefix('$'), root.strip_prefix("~/")) {
        (Some(name), _) => host.environment.var(name).map(PathBuf::from).filter(|path| path.is_absolute()),
        (None, Some(rest)) => Some(host.user.home_real.join(rest)),
        (None, None) => None,
    }
}

/// A bind of what exists, at its own path, unless every jail shows it anyway or none may.
fn shown(host: &Host, bounds: &Needs<'_>, path: &Path) -> Option<SystemMount> {
    let source = host.real(path)?;
    // A path through a symlink above is the same place; a link at the end is shown as what it leads to.
    let dest = host.real(path.parent()?)?.join(path.file_name()?);
    if !bounds.foreign(&dest) {
        return None;
    }
    if !bounds.foreign(&source) {
        // A link into the system or the project, which are there anyway.
        let kind = MountKind::Symlink(source.clone());
        return (!bounds.holds_home(&source)).then_some(SystemMount { source: dest.clone(), dest, kind });
    }
    let allowed = if source.is_dir() { bounds.may_show(&source) } else { !bounds.credential(&source) };
    allowed.then_some(SystemMount { source, dest, kind: MountKind::Bind })
}

/// Entries of PATH that nothing shows yet, and the symlinks on their way.
fn off_the_table(host: &Host, project: &Path, bounds: &Needs<'_>, found: &[Toolchain]) -> Vec<SystemMount> {
    let mut mounts: Vec<SystemMount> = Vec::new();
    let covered = |mounts: &[SystemMount], path: &Path| {
        found.iter().flat_map(|known| &known.mounts).chain(mounts).any(|mount| path.starts_with(&mount.dest))
    };
    for entry in host.environment.path_entries() {
        let Ok(route) = links::follow(&entry) else { continue };
        // Drives of Windows and snaps: nothing there runs in a jail.
        let useless =
            ["/mnt", "/snap", "/var/lib/snapd"].iter().any(|place| route.end.starts_with(host.at(place)));
        if useless
            || route.end.starts_with(project)
            || !fs::metadata(&route.end).is_ok_and(|meta| meta.is_dir())
        {
            continue;
        }
        if bounds.foreign(&route.end) && !covered(&mounts, &route.end) {
            let dirs = bounds.program_directory(&route.end);
            if dirs.is_empty() {
                continue;
            }
            mounts.extend(dirs.into_iter().map(SystemMount::bind));
        }
        for link in route.links {
            if bounds.foreign(&link.path) && !covered(&mounts, &link.path) {
                let kind = MountKind::Symlink(link.target);
                mounts.push(SystemMount { source: link.path.clone(), dest: link.path, kind });
            }
        }
    }
    mounts
}

#[cfg(test)]
mod tests;
