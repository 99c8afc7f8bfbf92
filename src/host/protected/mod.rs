//! Finds the protected paths of a tree (FS-5): what exists and would be run by something outside afterwards.
//!
//! Nothing is run. What lies in the tree may have been put there by an earlier jail: what cannot be looked at is held as a
//! whole, and what is not looked at is said.

mod channels;
mod finder;
mod fold;
mod git;
mod handover;
mod hard_links;
mod scan;
mod secrets;
mod settings;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use self::channels::{Channel, ChannelKind, channels, has_program, is_bound, is_bound_at};
pub use self::fold::folded;
pub use self::table::{GitSetting, NamedScripts, Names, Row, TABLE, Table, Value, Where};
pub use self::trees::{Trees, project, trees};

use self::finder::Finder;
pub use self::handover::Handover;
use super::handover::Handed;
use super::secrets::{Catalogue, Secret};

/// The reason for which a git directory is pinned.
pub const GIT_DIRECTORY: &str = "a git directory";

/// How a path is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hold {
    /// Pinned: it cannot be renamed or removed; what is below it stays as it is.
    Pinned,
    /// Read-only.
    ReadOnly,
}

/// One protected path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protected {
    /// Below the root of the tree.
    pub below: PathBuf,
    /// How it is held.
    pub hold: Hold,
    /// Why.
    pub reason: String,
}

/// What is searched.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The root of the tree, absolute and free of symlinks.
    pub root: &'a Path,
    /// Names beside the table's that count anywhere in the tree: those of a preset of the user's.
    pub more: &'a [String],
    /// Names that count at the root alone: the executable parts of an agent's state.
    pub parts: &'a [String],
    /// Settings outside the tree whose scripts may lie in it, absolute.
    pub settings: &'a [PathBuf],
    /// The user's home, free of symlinks.
    pub home: &'a Path,
    /// The user.
    pub uid: u32,
    /// ai-jail's own directories, which are not searched.
    pub own: &'a [PathBuf],
    /// Which files count as secrets; `None` when they are not searched for.
    pub secrets: Option<&'a Catalogue>,
    /// Whether, and how, it is noted what is handed over.
    pub handover: Handover<'a>,
    /// What was protected before, for a search after a session. What has come since is listed as itself, but what it names
    /// or leads to is not: a name that the jail wrote must not choose what is moved away. What cannot be searched is told,
    /// but not listed.
    pub known: Option<&'a Known>,
}

/// What was protected in a tree at an earlier time.
#[derive(Debug, Default)]
pub struct Known {
    paths: HashSet<PathBuf>,
    read_only: HashSet<PathBuf>,
}

impl Known {
    /// From the paths that were listed, all of them and those that were read-only.
    pub fn new(paths: &[PathBuf], read_only: &[PathBuf]) -> Self {
        Self { paths: paths.iter().cloned().collect(), read_only: read_only.iter().cloned().collect() }
    }

    /// Whether `below` was protected: by itself, or as part of something that was read-only as a whole.
    pub fn covers(&self, below: &Path) -> bool {
        self.paths.contains(below) || below.ancestors().any(|whole| self.read_only.contains(whole))
    }
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Found {
    /// The paths, parents before children. Nothing is listed below a path that is read-only.
    pub paths: Vec<Protected>,
    /// What the user could not look into, and so is read-only as a whole. The empty path is the root itself.
    pub closed: Vec<PathBuf>,
    /// The files that hold secrets, in order.
    pub secrets: Vec<Secret>,
    /// The files of the hand-over's kinds that are there, when they are noted.
    pub handover_known: Vec<PathBuf>,
    /// What is handed over, when it is compared.
    pub handed: Vec<Handed>,
    /// Files that were changed and are set-user-ID or set-group-ID, and device nodes.
    pub modes: Vec<PathBuf>,
    /// The sockets and FIFOs.
    pub channels: Vec<Channel>,
    /// Why the tree was not searched to its end, as a clause about it; `None` when it was.
    pub unsearched: Option<String>,
}

/// Searches a tree.
pub fn scan(scope: &Scope<'_>) -> Found {
    let mut finder = Finder::new(scope);
    finder.tree();
    finder.other_names();
    finder.finish()
}

/// Searches a git directory, which is the root of the scope.
pub fn git_directory(scope: &Scope<'_>) -> Found {
    let mut finder = Finder::new(scope);
    finder.git_directory(Path::new(""), Path::new(""));
    finder.walk(Path::new(""), scan::Area::Dependencies);
    finder.other_names();
    finder.finish()
}
