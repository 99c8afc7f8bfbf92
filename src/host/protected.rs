//! Finds the protected paths of a tree (FS-5): what exists and would be run by something outside afterwards.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::presets::preset;

/// Directory entries that a scan looks at; beyond it the caller is told (`Found::complete`).
pub const SCAN_LIMIT: usize = 1_000_000;
/// How deep directories are followed.
const DEPTH_LIMIT: usize = 64;

/// One row of `presets/protected.toml`.
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
    /// At the root of the writable tree.
    Root,
    /// In any directory of it that is not a dependency folder.
    Anywhere,
}

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The rows.
    pub path: Vec<Row>,
    /// Folders that are not searched.
    pub dependencies: Dependencies,
}

/// Folders that are not searched for the rows.
#[derive(Debug, Deserialize)]
pub struct Dependencies {
    /// Their names.
    pub names: Vec<String>,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("protected")).expect("protected.toml parses"));

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

/// What a scan found.
#[derive(Debug, Default)]
pub struct Found {
    /// The paths, parents before children.
    pub paths: Vec<Protected>,
    /// Whether the whole tree was looked at.
    pub complete: bool,
}

/// Scans the tree at `root`. Nothing is followed and nothing is run; what cannot be read is passed over, since the
/// jail, which runs as the same user, cannot read it either.
///
/// `more` are names beside the table's that count anywhere in the tree: those of a preset of the user's.
pub fn scan(root: &Path, more: &[String]) -> Found {
    let mut scan = Scan { root, names: Names::new(more), found: Vec::new(), entries: 0 };
    let complete = scan.directory(Path::new(""), 0);
    let mut paths = scan.found;
    paths.sort();
    paths.dedup_by(|a, b| a.below == b.below);
    Found { paths, complete }
}

/// The parts of a git directory that make git run programs or trust another repository. `git_dir` is below `root`.
pub fn git_directory(root: &Path, git_dir: &Path) -> Vec<Protected> {
    let mut found = vec![hold(git_dir.to_path_buf(), Hold::Pinned, "a git directory")];
    parts(root, git_dir, &mut found);
    modules(root, &git_dir.join("modules"), 0, &mut found);
    if let Ok(worktrees) = fs::read_dir(root.join(git_dir).join("worktrees")) {
        for entry in worktrees.flatten().take(1000) {
            let worktree = git_dir.join("worktrees").join(entry.file_name());
            for name in ["config.worktree", "commondir", "gitdir"] {
                present(root, worktree.join(name), "git finds its configuration by it", &mut found);
            }
        }
    }
    found
}

fn parts(root: &Path, git_dir: &Path, found: &mut Vec<Protected>) {
    let rows = [
        ("hooks", "git runs hooks"),
        ("config", "git's settings name programs that it runs"),
        ("config.worktree", "git's settings name programs that it runs"),
        ("commondir", "git finds its configuration by it"),
        ("gitdir", "git finds a work tree by it"),
        ("info/attributes", "attributes choose filters and diff programs"),
    ];
    for (name, reason) in rows {
        present(root, git_dir.join(name), reason, found);
    }
}

/// The git directories of submodules, which may lie in sub-folders of `modules`.
fn modules(root: &Path, below: &Path, depth: usize, found: &mut Vec<Protected>) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten().take(1000) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let directory = below.join(entry.file_name());
        if root.join(&directory).join("HEAD").symlink_metadata().is_ok() {
            found.push(hold(directory.clone(), Hold::Pinned, "a submodule's git directory"));
            parts(root, &directory, found);
            modules(root, &directory.join("modules"), depth + 1, found);
        } else if depth < DEPTH_LIMIT {
            modules(root, &directory, depth + 1, found);
        }
    }
}

fn present(root: &Path, below: PathBuf, reason: &str, found: &mut Vec<Protected>) {
    if root.join(&below).symlink_metadata().is_ok() {
        found.push(hold(below, Hold::ReadOnly, reason));
    }
}

fn hold(below: PathBuf, hold: Hold, reason: &str) -> Protected {
    Protected { below, hold, reason: reason.to_owned() }
}

/// The names by their first component: the whole name, where it counts, and why.
struct Names<'a> {
    rows: HashMap<&'a OsStr, Vec<(&'a Path, Where, &'a str)>>,
}

impl<'a> Names<'a> {
    fn new(more: &'a [String]) -> Self {
        let mut rows: HashMap<_, Vec<_>> = HashMap::new();
        let table = TABLE.path.iter().flat_map(|row| {
            row.names.iter().map(|name| (Path::new(name.as_str()), row.r#where, row.reason.as_str()))
        });
        let more = more
            .iter()
            .map(|name| (Path::new(name.as_str()), Where::Anywhere, "the agent's own preset names it"));
        for row in table.chain(more) {
            if let Some(first) = row.0.iter().next() {
                rows.entry(first).or_default().push(row);
            }
        }
        Self { rows }
    }
}

struct Scan<'a> {
    root: &'a Path,
    names: Names<'a>,
    found: Vec<Protected>,
    entries: usize,
}

impl Scan<'_> {
    /// Returns false when the limit was reached.
    fn directory(&mut self, below: &Path, depth: usize) -> bool {
        let Ok(entries) = fs::read_dir(self.root.join(below)) else { return true };
        let mut directories: Vec<OsString> = Vec::new();
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > SCAN_LIMIT {
                return false;
            }
            let name = entry.file_name();
            if name == ".git" {
                self.git(&below.join(&name));
                continue;
            }
            self.rows(below, &name, depth);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_dependency(&name) {
                directories.push(name);
            }
        }
        depth >= DEPTH_LIMIT || directories.iter().all(|name| self.directory(&below.join(name), depth + 1))
    }

    fn rows(&mut self, below: &Path, name: &OsStr, depth: usize) {
        // Few names match: the clone costs nothing.
        let Some(rows) = self.names.rows.get(name).cloned() else { return };
        for (path, place, reason) in rows {
            if place == Where::Root && depth > 0 {
                continue;
            }
            self.place(&below.join(path), reason);
        }
    }

    /// Protects what a row names, if it exists. A symlink on the way or at the end is pinned as it is, and what it leads
    /// to inside the tree is protected too.
    fn place(&mut self, place: &Path, reason: &str) {
        let mut current = PathBuf::new();
        let mut linked = false;
        for name in place.iter() {
            current.push(name);
            let Ok(metadata) = self.root.join(&current).symlink_metadata() else { return };
            if metadata.is_symlink() {
                self.found.push(hold(current.clone(), Hold::ReadOnly, reason));
                linked = true;
                break;
            }
        }
        if !linked {
            self.found.push(hold(place.to_path_buf(), Hold::ReadOnly, reason));
        } else if let Some(target) = self.inside(place).filter(|target| !target.as_os_str().is_empty()) {
            self.found.push(hold(target, Hold::ReadOnly, reason));
        }
    }

    fn git(&mut self, dot_git: &Path) {
        let Ok(metadata) = self.root.join(dot_git).symlink_metadata() else { return };
        if metadata.is_dir() {
            self.found.extend(git_directory(self.root, dot_git));
        } else {
            self.found.push(hold(dot_git.to_path_buf(), Hold::ReadOnly, "it leads git to a git directory"));
            if metadata.is_symlink()
                && let Some(target) = self.inside(dot_git)
            {
                self.found.extend(git_directory(self.root, &target));
            }
        }
    }

    fn inside(&self, place: &Path) -> Option<PathBuf> {
        let target = self.root.join(place).canonicalize().ok()?;
        target.strip_prefix(self.root).ok().map(Path::to_path_buf)
    }
}

fn is_dependency(name: &OsStr) -> bool {
    TABLE.dependencies.names.iter().any(|known| OsStr::new(known) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in paths {
            let place = dir.path().join(path);
            if path.ends_with('/') {
                fs::create_dir_all(place).unwrap();
            } else {
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, "x").unwrap();
            }
        }
        dir
    }

    fn held(dir: &Path) -> Vec<(String, Hold)> {
        scan(dir, &[])
            .paths
            .into_iter()
            .map(|found| (found.below.display().to_string(), found.hold))
            .collect()
    }

    #[test]
    fn names_of_a_preset_count_anywhere() {
        let dir = tree(&[".mine/hooks/x", "a/.mine/hooks/x", ".mine/state"]);
        let more = [".mine/hooks".to_owned()];
        let found: Vec<_> = scan(dir.path(), &more).paths.into_iter().map(|found| found.below).collect();
        assert_eq!(found, [Path::new(".mine/hooks"), Path::new("a/.mine/hooks")]);
    }

    #[test]
    fn every_row_has_names_and_a_reason() {
        for row in &TABLE.path {
            assert!(!row.names.is_empty() && row.reason.len() > 8, "{row:?}");
            for name in &row.names {
                assert!(
                    Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_))),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn git_directories_are_pinned_and_what_runs_programs_is_read_only() {
        let dir = tree(&[
            ".git/HEAD",
            ".git/config",
            ".git/hooks/",
            ".git/info/attributes",
            ".git/modules/a/b/HEAD",
            ".git/modules/a/b/config",
            ".git/modules/a/b/hooks/",
            ".git/worktrees/w/gitdir",
            "sub/.git/config",
            "sub/.git/HEAD",
            "src/main.rs",
        ]);
        let expected = [
            (".git", Hold::Pinned),
            (".git/config", Hold::ReadOnly),
            (".git/hooks", Hold::ReadOnly),
            (".git/info/attributes", Hold::ReadOnly),
            (".git/modules/a/b", Hold::Pinned),
            (".git/modules/a/b/config", Hold::ReadOnly),
            (".git/modules/a/b/hooks", Hold::ReadOnly),
            (".git/worktrees/w/gitdir", Hold::ReadOnly),
            ("sub/.git", Hold::Pinned),
            ("sub/.git/config", Hold::ReadOnly),
        ];
        let expected: Vec<_> = expected.iter().map(|(path, hold)| ((*path).to_owned(), *hold)).collect();
        assert_eq!(held(dir.path()), expected);
    }

    #[test]
    fn rows_count_where_they_say() {
        let dir = tree(&[
            ".bashrc",
            "sub/.bashrc",
            "sub/.envrc",
            "node_modules/p/.envrc",
            ".claude/settings.json",
            ".claude/x",
            ".vscode/tasks.json",
        ]);
        let expected = [".claude/settings.json", ".bashrc", ".vscode", "sub/.envrc"];
        let found = held(dir.path());
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for path in expected {
            assert!(found.contains(&(path.to_owned(), Hold::ReadOnly)), "{path}");
        }
    }

    #[test]
    fn a_symlink_is_pinned_and_its_target_inside_is_protected() {
        let dir = tree(&["real/settings.json", "elsewhere/"]);
        let root = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("real", root.join(".claude")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join(".envrc")).unwrap();
        let found: Vec<_> = held(&root).into_iter().map(|(path, _)| path).collect();
        for path in [".claude", "real/settings.json", ".envrc"] {
            assert!(found.contains(&path.to_owned()), "{path} in {found:?}");
        }
        assert!(!found.iter().any(|path| path.contains("etc")), "{found:?}");
    }
}
