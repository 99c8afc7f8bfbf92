//! The system directories and the entries of `/etc` that a jail sees, as far as this machine has them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::links;
use crate::error::{Error, Kind, Result};

static PRESET: &str = include_str!("../presets/system.toml");

/// How a path of the system is made in the jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountKind {
    /// A read-only bind of the source.
    Bind,
    /// A symlink that says this, as the host has it.
    Symlink(PathBuf),
}

/// One thing that is shown read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemMount {
    /// The host path that is bound, free of symlinks; for a symlink the link itself.
    pub source: PathBuf,
    /// The path in the jail, absolute. No component before the last is a symlink on the host.
    pub dest: PathBuf,
    /// Bind or symlink.
    pub kind: MountKind,
}

/// How a row of the table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// As the host has it: a directory is bound, a symlink is made anew.
    AsIs,
    /// Its contents: a symlink is resolved and its end is bound at the row's own path.
    Resolved,
}

/// A row of `presets/system.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRow {
    /// An absolute path; the last component may end in `*`.
    pub path: String,
    /// How it is shown.
    pub show: Show,
    /// Whether `lockdown`, which has a minimal system, leaves it out.
    #[serde(default)]
    pub extra: bool,
    /// Why a jail needs it.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mount: Vec<SystemRow>,
}

/// How much of the system is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every row.
    Whole,
    /// Only what nearly every program needs (`lockdown`).
    Minimal,
}

/// The rows of the table.
///
/// # Errors
/// Never for the table that is compiled in, which a test reads.
pub fn rows() -> Result<Vec<SystemRow>> {
    let table: Table = toml::from_str(PRESET)
        .map_err(|error| Error::new(Kind::Setup, "the system preset cannot be read").because(error))?;
    Ok(table.mount)
}

/// What of the table exists below `root` (which is `/` but in tests), in the order in which it is to be mounted: a parent
/// comes before what lies below it.
///
/// # Errors
/// As [`rows`].
pub fn mounts(root: &Path, extent: Extent) -> Result<Vec<SystemMount>> {
    let mut mounts: Vec<SystemMount> = Vec::new();
    for row in rows()?.iter().filter(|row| extent == Extent::Whole || !row.extra) {
        for path in expand(root, &row.path) {
            if let Some(mount) = show(root, &path, row.show) {
                add(&mut mounts, mount);
            }
        }
    }
    mounts.sort_by(|a, b| a.dest.cmp(&b.dest));
    Ok(mounts)
}

/// Leaves out what a bind of a parent shows anyway.
fn add(mounts: &mut Vec<SystemMount>, mount: SystemMount) {
    let covered = mounts.iter().any(|known| {
        known.kind == MountKind::Bind
            && mount.source.starts_with(&known.source)
            && mount.dest.starts_with(&known.dest)
    });
    if !covered && mounts.iter().all(|known| known.dest != mount.dest) {
        mounts.push(mount);
    }
}

fn show(root: &Path, path: &Path, show: Show) -> Option<SystemMount> {
    let host = super::below(root, path);
    let meta = fs::symlink_metadata(&host).ok()?;
    if meta.is_symlink() && show == Show::AsIs {
        let target = fs::read_link(&host).ok()?;
        return Some(SystemMount {
            source: host,
            dest: path.to_path_buf(),
            kind: MountKind::Symlink(target),
        });
    }
    let source = links::follow(&host).ok()?.end;
    let meta = fs::metadata(&source).ok()?;
    let dest = path.to_path_buf();
    (meta.is_dir() || meta.is_file()).then_some(SystemMount { source, dest, kind: MountKind::Bind })
}

/// The paths that a row names: itself, or what its `*` matches.
fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some(prefix) = pattern.strip_suffix('*') else { return vec![PathBuf::from(pattern)] };
    let (dir, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let Ok(entries) = fs::read_dir(super::below(root, Path::new(if dir.is_empty() { "/" } else { dir })))
    else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut paths: Vec<_> = names
        .filter(|name| name.starts_with(start))
        .map(|name| PathBuf::from(format!("{dir}/{name}")))
        .collect();
    paths.sort();
    paths
}
