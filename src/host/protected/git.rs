//! Git directories: what in them makes git run programs or trust another repository.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::finder::Finder;
use super::{GIT_DIRECTORY, Hold};
use crate::host::git::read_path;

/// What is read-only in every git directory.
const PARTS: [(&str, &str); 6] = [
    ("hooks", "git runs hooks"),
    ("config", "git's settings name programs that it runs"),
    ("config.worktree", "git's settings name programs that it runs"),
    ("commondir", "git finds its configuration by it"),
    ("gitdir", "git finds a work tree by it"),
    ("info/attributes", "attributes choose filters and diff programs"),
];
/// What is read-only in `worktrees/NAME`.
const WORKTREE_PARTS: [&str; 3] = ["config.worktree", "commondir", "gitdir"];
/// How deep submodules' directories lie below `modules` at most.
const DEPTH_LIMIT: usize = 64;

impl Finder<'_> {
    /// `.git` of the directory `below`: a directory, a file that leads to one, or a symlink to either.
    pub(super) fn dot_git(&mut self, below: &Path) {
        let dot_git = below.join(".git");
        let path = self.at(&dot_git);
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.closed(&dot_git);
                }
                return;
            }
        };
        if metadata.is_dir() {
            self.git_directory(&dot_git, below);
            return;
        }
        self.hold(&dot_git, Hold::ReadOnly, "it leads git to a git directory");
        if !self.trusts(&dot_git) {
            return;
        }
        let leads = if path.is_dir() {
            self.named_as(&path, Hold::Pinned, "a git directory");
            Some(path)
        } else {
            if metadata.is_symlink() {
                self.named(&path, "it leads git to a git directory");
            }
            read_path(&path, "gitdir: ").map(|target| self.at(below).join(target))
        };
        if let Some(leads) = leads {
            self.leads_to(&leads, below);
        }
    }

    /// A git directory of the work tree `below` that something leads to, in the tree or out of it. One that is outside is
    /// protected, if it is mounted, as a tree of its own; its settings may name files of this one.
    fn leads_to(&mut self, git_dir: &Path, below: &Path) {
        match self.named_as(git_dir, Hold::Pinned, "a git directory") {
            Some(inside) => self.git_directory(&inside, below),
            None => {
                let common = read_path(&git_dir.join("commondir"), "").map(|common| git_dir.join(common));
                for directory in [Some(git_dir), common.as_deref()].into_iter().flatten() {
                    self.settings_of(directory, below);
                }
            }
        }
    }

    /// A bare repository, or what looks like one. Its parts cannot change places either: it is known by them.
    pub(super) fn repository(&mut self, below: &Path) {
        if self.git_directories.contains(below) {
            return;
        }
        for name in ["objects", "refs"] {
            self.hold(&below.join(name), Hold::Pinned, "a git directory is known by it");
        }
        self.git_directory(below, below);
    }

    /// Protects the parts of the git directory `below`, whose work tree is `work_tree`.
    pub(super) fn git_directory(&mut self, below: &Path, work_tree: &Path) {
        if !self.git_seen.insert((below.to_path_buf(), work_tree.to_path_buf())) {
            return;
        }
        self.settings_of(&self.at(below), work_tree);
        if !self.git_directories.insert(below.to_path_buf()) {
            return;
        }
        self.hold(below, Hold::Pinned, GIT_DIRECTORY);
        for (name, reason) in PARTS {
            self.place(below, Path::new(name), reason);
        }
        self.hooks_in(&below.join("hooks"));
        self.modules(&below.join("modules"), 0);
        self.worktrees(&below.join("worktrees"), work_tree);
        let path = self.at(below);
        let common = read_path(&path.join("commondir"), "");
        if let Some(common) = common.filter(|_| self.trusts(&below.join("commondir"))) {
            self.leads_to(&path.join(common), work_tree);
        }
    }

    /// Hooks that are symlinks run what they lead to.
    pub(super) fn hooks_in(&mut self, below: &Path) {
        if !self.trusts(below) {
            return;
        }
        for name in self.names_in(below) {
            let hook = self.at(below).join(name);
            if hook.is_symlink() {
                self.named(&hook, "git runs it as a hook");
            }
        }
    }

    /// The git directories of submodules, which may lie in directories below `modules`. A directory is one as soon as it
    /// holds what git would run or read.
    fn modules(&mut self, below: &Path, depth: usize) {
        if depth == 0 && self.at(below).is_dir() {
            self.hold(below, Hold::Pinned, "the git directories of submodules lie in it");
        }
        if depth > DEPTH_LIMIT {
            self.hold_whole(below, "it is too deep to be searched for git directories");
            self.incomplete(|| "its submodules are nested too deep".to_owned());
            return;
        }
        for name in self.names_in(below) {
            let directory = below.join(name);
            let path = self.at(&directory);
            if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            if ["HEAD", "config", "hooks"].iter().any(|part| path.join(part).symlink_metadata().is_ok()) {
                self.hold_named(&directory, Hold::Pinned, "a submodule's git directory");
                self.git_directory(&directory, &directory);
            } else {
                self.modules(&directory, depth + 1);
            }
        }
    }

    fn worktrees(&mut self, below: &Path, work_tree: &Path) {
        if self.at(below).is_dir() {
            self.hold(below, Hold::Pinned, "the git directories of linked work trees lie in it");
        }
        for name in self.names_in(below) {
            let directory = below.join(name);
            let mut found = false;
            for part in WORKTREE_PARTS {
                found |= self.place(&directory, Path::new(part), "git finds its configuration by it");
            }
            if found {
                self.hold(&directory, Hold::Pinned, "the git directory of a linked work tree");
                self.settings_of(&self.at(&directory), work_tree);
                self.modules(&directory.join("modules"), 0);
            }
        }
    }

    /// The names in a directory of the tree; none where there is no directory.
    fn names_in(&mut self, below: &Path) -> Vec<OsString> {
        let entries = match fs::read_dir(self.at(below)) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.closed(below);
                }
                return Vec::new();
            }
        };
        let mut names = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) if self.count() => names.push(entry.file_name()),
                Ok(_) => break,
                Err(error) => {
                    self.incomplete(|| format!("a directory of git's cannot be read ({error})"));
                    break;
                }
            }
        }
        names
    }

    /// Reads the settings of a git directory, an absolute path, for the work tree `below`.
    fn settings_of(&mut self, git_dir: &Path, below: &Path) {
        for name in ["config", "config.worktree"] {
            let file: PathBuf = git_dir.join(name);
            self.git_settings(&file, below, 0);
        }
    }
}
