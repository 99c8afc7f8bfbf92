//! Where a work tree keeps its git data, read from files: nothing here runs git.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ini;
use super::user::User;
use crate::error::{Error, Kind, Result};

/// What `.git` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitKind {
    /// A directory of the project's own.
    Directory,
    /// A file that leads to `worktrees/NAME` of another repository's git directory.
    Worktree,
    /// A file that leads to a git directory with a `core.worktree`: a submodule's, inside its superproject's.
    Submodule,
}

/// The git directories of a work tree. All paths are free of symlinks, save [`GitLayout::dot_git`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLayout {
    /// `.git` of the work tree: a directory, a file or a symlink.
    pub dot_git: PathBuf,
    /// `HEAD`, the index and what else is of this work tree alone.
    pub git_dir: PathBuf,
    /// `objects`, `refs`, `config` and `hooks`; the same as `git_dir` but for linked worktrees.
    pub common_dir: PathBuf,
    /// What `.git` is.
    pub kind: GitKind,
}

/// Entries of a bare repository; one with more is taken for another directory.
const BARE_ENTRIES: usize = 1000;
/// What git makes in a bare repository, less `*_HEAD`.
const BARE: [&str; 25] = [
    "HEAD",
    "objects",
    "refs",
    "config",
    "config.worktree",
    "hooks",
    "info",
    "description",
    "branches",
    "logs",
    "packed-refs",
    "index",
    "worktrees",
    "modules",
    "lfs",
    "shallow",
    "gc.log",
    "gc.pid",
    "maintenance.lock",
    "rr-cache",
    "reftable",
    "COMMIT_EDITMSG",
    "COMMIT_MSG",
    "svn",
    "sequencer",
];

impl GitLayout {
    /// Reads the layout of the work tree at `root`, which has no symlinks. `user` is whom it must belong to.
    ///
    /// Returns `None` when `.git` is missing or leads to no repository: git would not work outside either.
    ///
    /// # Errors
    /// When a git or common directory lies outside `root` and does not point back to it, or belongs to someone else: a
    /// repository must not choose what is mounted.
    pub fn read(root: &Path, user: &User) -> Result<Option<Self>> {
        let dot_git = root.join(".git");
        let Ok(meta) = fs::metadata(&dot_git) else { return Ok(None) };
        let named = if meta.is_dir() {
            Some(dot_git.clone())
        } else {
            read_path(&dot_git, "gitdir: ").map(|path| root.join(path))
        };
        let Some(git_dir) = named.and_then(|dir| dir.canonicalize().ok()) else { return Ok(None) };
        if !git_dir.join("HEAD").symlink_metadata().is_ok_and(|head| head.is_file() || head.is_symlink()) {
            return Ok(None);
        }
        let common_dir = match read_path(&git_dir.join("commondir"), "") {
            Some(path) => match git_dir.join(path).canonicalize() {
                Ok(dir) => dir,
                Err(_) => return Ok(None),
            },
            None => git_dir.clone(),
        };
        let kind = kind_of(meta.is_file(), &git_dir, &common_dir);
        let layout = Self { dot_git, git_dir, common_dir, kind };
        layout.check(root, user)?;
        Ok(Some(layout))
    }

    /// The directories that lie outside `project` and have to be mounted for git to work, the common directory first.
    pub fn outside<'a>(&'a self, project: &'a Path) -> impl Iterator<Item = &'a Path> {
        let dirs = [self.common_dir.as_path(), self.git_dir.as_path()];
        let nested = self.git_dir.starts_with(&self.common_dir);
        dirs.into_iter().take(if nested { 1 } else { 2 }).filter(move |dir| !dir.starts_with(project))
    }

    fn check(&self, root: &Path, user: &User) -> Result<()> {
        let Some(outside) = self.outside(root).next() else { return Ok(()) };
        let refuse = |why: String| {
            let what =
                format!("{} leads to {}, outside the project", self.dot_git.display(), outside.display());
            Error::new(Kind::Refused, what).because(why)
        };
        for dir in self.outside(root) {
            if root.starts_with(dir) || !is_place_of_git(dir) {
                return Err(refuse("that is no git directory by its place, but an ordinary one".into())
                    .hint("start with --project there if that is what you mean"));
            }
        }
        if !self.points_back(root) {
            return Err(refuse("the repository there does not say that this is its work tree".into()).hint(
                "run `git worktree repair` in that repository if it is yours, or start with --project there",
            ));
        }
        if [&user.home_real, &user.home].into_iter().any(|home| home.starts_with(&self.common_dir)) {
            return Err(refuse("that holds your home directory".into()));
        }
        for dir in [root, &self.git_dir, &self.common_dir] {
            let owner =
                fs::metadata(dir).map_err(|errno| refuse(format!("{}: {errno}", dir.display())))?.uid();
            if owner != user.uid {
                return Err(refuse(format!("{} belongs to user {owner}, not to you", dir.display())));
            }
        }
        Ok(())
    }

    /// Whether the directories outside say that `root` is their work tree. What lies inside the project has no say: the
    /// project may be somebody else's.
    fn points_back(&self, root: &Path) -> bool {
        let named = match self.kind {
            _ if self.git_dir.starts_with(root) => None,
            GitKind::Worktree => read_path(&self.git_dir.join("gitdir"), "")
                .and_then(|dot_git| Some(self.git_dir.join(dot_git).parent()?.to_path_buf())),
            GitKind::Submodule => core_worktree(&self.git_dir).map(|dir| self.git_dir.join(dir)),
            GitKind::Directory => None,
        };
        let repository = ["objects", "refs"].iter().all(|name| self.common_dir.join(name).is_dir());
        repository && named.and_then(|dir| dir.canonicalize().ok()).is_some_and(|dir| dir == root)
    }
}

/// Whether `dir` is where git keeps git directories: `.git`, something in its `modules` or `worktrees`, or the same of a
/// bare repository. What is in the directory proves little, for an earlier jail may have written it: an ordinary directory
/// of another project, made to look like a repository, must not be mounted.
fn is_place_of_git(dir: &Path) -> bool {
    let mut at = Some(dir);
    while let Some(git_dir) = at {
        if git_dir.file_name().is_some_and(|name| name == ".git") || holds_nothing_but_git(git_dir) {
            return true;
        }
        // `modules/NAME`, where NAME may have slashes, or `worktrees/NAME`.
        at = git_dir.ancestors().skip(1).find_map(|parent| {
            let name = parent.file_name()?;
            let known = name == "modules" || (name == "worktrees" && git_dir.parent() == Some(parent));
            if known { parent.parent() } else { None }
        });
    }
    false
}

/// Whether `dir` is a bare repository with no name in it that git does not make.
fn holds_nothing_but_git(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let repository = ["HEAD", "objects", "refs"].iter().all(|part| dir.join(part).exists());
    repository
        && entries.enumerate().all(|(at, entry)| {
            at < BARE_ENTRIES
                && entry.is_ok_and(|entry| {
                    let name = entry.file_name();
                    BARE.iter().any(|known| name == *known) || name.as_bytes().ends_with(b"_HEAD")
                })
        })
}

/// What the layout of the directories alone makes of them.
fn kind_of(dot_git_is_file: bool, git_dir: &Path, common_dir: &Path) -> GitKind {
    if git_dir != common_dir && git_dir.parent() == Some(&common_dir.join("worktrees")) {
        GitKind::Worktree
    } else if git_dir == common_dir && dot_git_is_file {
        GitKind::Submodule
    } else {
        GitKind::Directory
    }
}

/// The path in a file of one line, after `prefix`; trailing line ends are no part of it. At most 4096 bytes.
pub(in crate::host) fn read_path(file: &Path, prefix: &str) -> Option<PathBuf> {
    let bytes = super::read_bytes(file, 4096 + 16)?;
    let mut path = bytes.strip_prefix(prefix.as_bytes())?;
    while let Some(shorter) = path.strip_suffix(b"\n").or_else(|| path.strip_suffix(b"\r")) {
        path = shorter;
    }
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// `core.worktree` of a git directory, from `config` or, when there is one, `config.worktree`.
fn core_worktree(git_dir: &Path) -> Option<PathBuf> {
    ["config.worktree", "config"].iter().find_map(|name| {
        let text = super::read_text(&git_dir.join(name))?;
        let entry = ini::git(&text).into_iter().rfind(|entry| entry.name() == "core.worktree")?;
        Some(PathBuf::from(entry.value))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn repository(&self, dir: &str) {
            self.write(&format!("{dir}/HEAD"), "ref: refs/heads/main\n");
            for name in ["objects", "refs"] {
                fs::create_dir_all(self.path(dir).join(name)).unwrap();
            }
        }

        fn user(&self) -> User {
            let home = self.path("home");
            fs::create_dir_all(&home).unwrap();
            let uid = rustix::process::getuid().as_raw();
            let (name, shell) = ("u".to_owned(), "/bin/sh".into());
            User { uid, gid: 0, group: name.clone(), name, home_real: home.clone(), home, shell }
        }

        fn read(&self, project: &str) -> Result<Option<GitLayout>> {
            GitLayout::read(&self.path(project), &self.user())
        }
    }

    #[test]
    fn a_plain_repository_is_its_own() {
        let tree = Tree::new();
        tree.repository("p/.git");
        let layout = tree.read("p").unwrap().unwrap();
        assert_eq!(layout.kind, GitKind::Directory);
        assert_eq!(layout.common_dir, tree.path("p/.git"));
        assert_eq!(layout.outside(&tree.path("p")).count(), 0);
    }

    #[test]
    fn a_linked_worktree_that_is_pointed_back_to_is_accepted() {
        for (gitdir, commondir, back) in [
            ("gitdir: {}/main/.git/worktrees/w\n", "../..\n", "{}/w/.git\n"),
            ("gitdir: ../main/.git/worktrees/w", "../..", "../../../../w/.git"),
        ] {
            let tree = Tree::new();
            let fill = |text: &str| text.replace("{}", tree.path("").to_str().unwrap().trim_end_matches('/'));
            tree.repository("main/.git");
            tree.write("w/.git", &fill(gitdir));
            tree.write("main/.git/worktrees/w/HEAD", "x");
            tree.write("main/.git/worktrees/w/commondir", commondir);
            tree.write("main/.git/worktrees/w/gitdir", &fill(back));
            let layout = tree.read("w").unwrap().unwrap();
            assert_eq!(layout.kind, GitKind::Worktree);
            let project = tree.path("w");
            let outside: Vec<_> = layout.outside(&project).collect();
            assert_eq!(outside, [tree.path("main/.git")]);
        }
    }

    #[test]
    fn a_submodule_with_core_worktree_is_accepted() {
        let tree = Tree::new();
        tree.repository("super/.git/modules/s");
        tree.write("super/.git/modules/s/config", "[core]\n\tworktree = ../../../s\n");
        tree.write("super/s/.git", "gitdir: ../.git/modules/s\n");
        let layout = tree.read("super/s").unwrap().unwrap();
        assert_eq!(layout.kind, GitKind::Submodule);
        assert_eq!(layout.git_dir, tree.path("super/.git/modules/s"));
    }

    #[test]
    fn a_directory_outside_that_does_not_point_back_is_refused() {
        let refused = |build: &dyn Fn(&Tree), case: &str| {
            let tree = Tree::new();
            tree.repository("victim/.git");
            fs::create_dir_all(tree.path("p")).unwrap();
            build(&tree);
            let error = tree.read("p").expect_err(case);
            assert_eq!(error.kind(), Kind::Refused, "{case}");
        };
        refused(&|t| t.write("p/.git", "gitdir: ../victim/.git"), "another repository");
        refused(&|t| symlink("../victim/.git", t.path("p/.git")).unwrap(), "a symlink to one");
        refused(
            &|t| {
                t.repository("p/.git");
                t.write("p/.git/commondir", "../../victim/.git");
                t.write("p/.git/config", "[core]\nworktree = ..\n");
                t.write("p/.git/gitdir", "../.git");
            },
            "a common directory of the repository's choosing",
        );
        refused(
            &|t| {
                t.write("p/.git", "gitdir: ../victim/.git/worktrees/w");
                t.write("victim/.git/worktrees/w/HEAD", "x");
                t.write("victim/.git/worktrees/w/commondir", "../..");
                t.write("victim/.git/worktrees/w/gitdir", "/elsewhere/.git");
            },
            "another work tree's directory",
        );
        refused(
            &|t| {
                t.write("p/.git", "gitdir: ../victim/.git/worktrees/w");
                t.write("victim/.git/worktrees/w/HEAD", "x");
                t.write("victim/.git/worktrees/w/commondir", "../../../../home");
                t.write("victim/.git/worktrees/w/gitdir", "../../../../p/.git");
                fs::create_dir_all(t.path("home")).unwrap();
            },
            "a common directory that does not hold the git directory",
        );
    }

    #[test]
    fn a_linked_worktree_of_a_bare_repository_is_accepted_when_it_is_nothing_else() {
        for (extra, accepted) in [(None, true), (Some("src"), false)] {
            let tree = Tree::new();
            tree.repository("r");
            tree.write("w/.git", "gitdir: ../r/worktrees/w");
            tree.write("r/worktrees/w/HEAD", "x");
            tree.write("r/worktrees/w/commondir", "../..");
            tree.write("r/worktrees/w/gitdir", "../../../w/.git");
            if let Some(extra) = extra {
                tree.write(&format!("r/{extra}"), "x");
            }
            assert_eq!(tree.read("w").is_ok(), accepted, "{extra:?}");
        }
    }

    #[test]
    fn many_names_do_not_hide_what_a_bare_repository_would_not_hold() {
        let tree = Tree::new();
        tree.repository("r");
        assert!(holds_nothing_but_git(&tree.path("r")));
        for number in 0..BARE_ENTRIES {
            tree.write(&format!("r/{number}_HEAD"), "");
        }
        assert!(!holds_nothing_but_git(&tree.path("r")));
    }

    #[test]
    fn a_directory_that_an_earlier_jail_made_a_repository_is_refused() {
        // The directory that holds the project, and one beside it.
        for (git_dir, project, gitdir, worktree) in [
            ("nf", "nf/sub", "..", "sub"),
            ("nf/data", "nf/sub", "../data", "../sub"),
            ("modules/x", "p", "../modules/x", "../../p"),
        ] {
            let tree = Tree::new();
            tree.repository(git_dir);
            tree.write(&format!("{git_dir}/src"), "x");
            tree.write(&format!("{git_dir}/config"), &format!("[core]\nworktree = {worktree}\n"));
            tree.write(&format!("{project}/.git"), &format!("gitdir: {gitdir}"));
            let error = tree.read(project).unwrap_err();
            assert!(error.to_string().contains("by its place"), "{git_dir}: {error}");
        }
    }

    #[test]
    fn the_places_of_git_are_known() {
        for (place, known) in [
            ("/x/.git", true),
            ("/x/.git/modules/s", true),
            ("/x/.git/modules/a/b/modules/c", true),
            ("/x/.git/worktrees/w", true),
            ("/x/.git/worktrees/w/modules/s", true),
            ("/x/.git/hooks", false),
            ("/x/.git/worktrees/w/y", false),
            ("/x", false),
            ("/x/modules/y", false),
            ("/x/worktrees/y", false),
            ("/", false),
        ] {
            assert_eq!(is_place_of_git(Path::new(place)), known, "{place}");
        }
    }

    #[test]
    fn a_project_called_worktrees_cannot_claim_its_parent() {
        let tree = Tree::new();
        tree.repository(".");
        tree.write("worktrees/.git", "gitdir: x");
        tree.write("worktrees/x/HEAD", "x");
        tree.write("worktrees/x/commondir", "../..");
        tree.write("worktrees/x/gitdir", "../.git");
        assert_eq!(tree.read("worktrees").unwrap_err().kind(), Kind::Refused);
    }

    #[test]
    fn what_git_would_not_use_is_no_repository() {
        for text in ["gitdir: ../gone", "nonsense", "", "gitdir: "] {
            let tree = Tree::new();
            tree.write("p/.git", text);
            assert_eq!(tree.read("p").unwrap(), None, "{text:?}");
        }
        let tree = Tree::new();
        fs::create_dir_all(tree.path("p/.git")).unwrap();
        assert_eq!(tree.read("p").unwrap(), None, "empty directory");
        assert_eq!(tree.read("p/.git").unwrap(), None, "no .git");
    }

    #[test]
    fn a_repository_of_another_user_is_refused() {
        let tree = Tree::new();
        tree.repository("super/.git/modules/s");
        tree.write("super/.git/modules/s/config", "[core]\n\tworktree = ../../../s\n");
        tree.write("super/s/.git", "gitdir: ../.git/modules/s\n");
        let user = User { uid: tree.user().uid + 1, ..tree.user() };
        let error = GitLayout::read(&tree.path("super/s"), &user).unwrap_err();
        assert!(error.to_string().contains("belongs to user"), "{error}");
    }
}
