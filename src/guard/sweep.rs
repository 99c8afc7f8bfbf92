//! What is protected now and was absent at launch.

use std::collections::HashSet;
use std::path::Path;

use crate::host::handover::{Handed, Launch, What};
use crate::host::protected::{self, GIT_DIRECTORY, Handover, Hold, Known, Protected, Scope};
use crate::policy::TreeKind;

use super::handover;
use super::quarantine::{self, Quarantine};
use super::record::Tree;
use super::repository;

/// How often the tree is looked at again for directories that were closed in directories that were closed.
const ROUNDS: usize = 16;
/// Closed directories that are open at once.
const MAX_OPENED: usize = 500;

/// What a sweep found beside what it held back.
#[derive(Debug, Default)]
pub struct Swept {
    /// What is handed over.
    pub handed: Vec<Handed>,
    /// Sentences about operations of git that would run commands.
    pub operations: Vec<String>,
    /// Sentences about modes that no file may keep, what could not be done first.
    pub modes: Vec<String>,
}

/// Holds back what appeared in `tree`, and compares the rest with `launch`.
pub fn sweep(tree: &Tree, quarantine: &mut Quarantine, launch: Option<&Launch>) -> Swept {
    let known = Known::new(&tree.protected, &tree.read_only);
    let scope = Scope {
        root: &tree.root,
        more: &tree.more,
        parts: &tree.parts,
        settings: &[],
        home: &tree.home,
        uid: rustix::process::getuid().as_raw(),
        own: &tree.own,
        secrets: None,
        handover: launch.map_or(Handover::No, Handover::Compare),
        known: Some(&known),
    };
    let scan = || match tree.kind {
        TreeKind::Files => protected::scan(&scope),
        TreeKind::GitDirectory => protected::git_directory(&scope),
    };
    let mut found = scan();
    // What cannot be listed can still be used by its name. Each gets its mode back when this returns.
    let mut opened = Vec::new();
    for _ in 0..ROUNDS {
        let before = opened.len();
        let closed = found.closed.iter().filter(|closed| !known.covers(closed));
        opened.extend(
            closed
                .take(MAX_OPENED.saturating_sub(before))
                .filter_map(|closed| quarantine::unlocked(&tree.root, closed).ok()),
        );
        if opened.len() == before {
            break;
        }
        found = scan();
    }
    for closed in found.closed.iter().filter(|closed| !known.covers(closed)) {
        quarantine.leave(
            &tree.root,
            closed,
            "it was closed by `chmod`, and what is in it cannot be searched",
        );
    }
    if let Some(why) = &found.unsearched {
        quarantine.leave(&tree.root, Path::new(""), why);
    }
    let mut new: Vec<&Protected> = found.paths.iter().filter(|found| !known.covers(&found.below)).collect();
    // The bound of the quarantine is not used up by what lies deep before what lies where it is run soonest.
    new.sort_by_cached_key(|found| (found.below.components().count(), &found.below));
    let repositories: HashSet<&Path> = new
        .iter()
        .filter(|found| found.hold == Hold::Pinned && repository::in_git_directory(&tree.root, &found.below))
        .map(|found| found.below.as_path())
        .collect();
    let mut gone: HashSet<&Path> = HashSet::new();
    for found in &new {
        let below = found.below.as_path();
        if found.hold == Hold::Pinned || is_in(below, &gone) {
            continue;
        }
        let in_new_repository = is_in(below, &repositories);
        match repository::judge(&tree.root, below, in_new_repository) {
            repository::Verdict::Keep => {}
            repository::Verdict::HoldBack => {
                quarantine.hold_back(&tree.root, below);
                gone.insert(below);
            }
            repository::Verdict::Hooks => repository::hold_back_hooks(&tree.root, below, quarantine),
            repository::Verdict::Config => repository::hold_back_config(&tree.root, below, quarantine),
        }
    }
    let Some(launch) = launch else { return Swept::default() };
    let mut handed = found.handed.clone();
    handed.extend(new.iter().filter(|found| is_repository(found)).map(|found| {
        let below = found.below.as_path();
        let below = if below.ends_with(".git") { below.parent().unwrap_or(below) } else { below };
        Handed { what: What::Repository, below: below.to_path_buf() }
    }));
    handed.retain(|handed| !is_in(&handed.below, &gone));
    let operations = found
        .paths
        .iter()
        .filter(|found| found.hold == Hold::Pinned)
        .map(|found| tree.root.join(&found.below))
        .chain((tree.kind == TreeKind::GitDirectory).then(|| tree.root.clone()))
        .filter(|directory| directory.join("HEAD").symlink_metadata().is_ok())
        .flat_map(|directory| handover::operations(&directory, launch.since))
        .collect();
    Swept { handed, operations, modes: handover::disarm_all(&tree.root, &found.modes) }
}

/// Whether `below` is one of `places`, or lies in one.
fn is_in(below: &Path, places: &HashSet<&Path>) -> bool {
    below.ancestors().any(|place| places.contains(place))
}

/// Whether something that is new is a repository, or the file that leads to one.
fn is_repository(found: &Protected) -> bool {
    let leads = found.hold == Hold::ReadOnly && found.below.ends_with(".git");
    let inside = found.below.parent().is_some_and(|parent| parent.iter().any(|part| part == ".git"));
    leads || (found.hold == Hold::Pinned && found.reason == GIT_DIRECTORY && !inside)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Case {
        dir: tempfile::TempDir,
        tree: Tree,
    }

    impl Case {
        fn new(before: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("project");
            fs::create_dir(&root).unwrap();
            let mut case = Self {
                dir,
                tree: Tree {
                    root,
                    protected: Vec::new(),
                    read_only: Vec::new(),
                    objects: Vec::new(),
                    kind: TreeKind::Files,
                    since: None,
                    more: Vec::new(),
                    parts: Vec::new(),
                    home: "/nonexistent".into(),
                    own: Vec::new(),
                },
            };
            case.write(before);
            let scope = Scope {
                root: &case.tree.root,
                more: &[],
                parts: &[],
                settings: &[],
                home: &case.tree.home,
                uid: rustix::process::getuid().as_raw(),
                own: &[],
                secrets: None,
                handover: Handover::No,
                known: None,
            };
            for found in protected::scan(&scope).paths {
                if found.hold == Hold::ReadOnly {
                    case.tree.read_only.push(found.below.clone());
                }
                case.tree.protected.push(found.below);
            }
            case
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (path, text) in files {
                let place = self.tree.root.join(path);
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, text).unwrap();
            }
        }

        fn sweep(&self) -> Vec<String> {
            let mut quarantine = Quarantine::new(&self.dir.path().join("quarantine"), "s");
            sweep(&self.tree, &mut quarantine, None);
            assert!(quarantine.left().is_empty(), "{:?}", quarantine.left());
            let prefix = format!("{}/", self.tree.root.display());
            quarantine.held().iter().map(|path| path.replace(&prefix, "")).collect()
        }

        fn has(&self, path: &str) -> bool {
            self.tree.root.join(path).symlink_metadata().is_ok()
        }
    }

    #[test]
    fn paths_that_are_too_long_to_be_searched_are_said() {
        let case = Case::new(&[]);
        // By descriptor, since no path is long enough.
        let mut at =
            rustix::fs::open(&case.tree.root, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        for _ in 0..25 {
            let name = "d".repeat(200);
            rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(&at, ".vscode", rustix::fs::Mode::RWXU).unwrap();
        let mut quarantine = Quarantine::new(&case.dir.path().join("quarantine"), "s");
        sweep(&case.tree, &mut quarantine, None);
        assert!(
            quarantine.left().iter().any(|left| left.why.contains("paths of more than")),
            "{:?}",
            quarantine.left()
        );
    }

    #[test]
    fn what_was_absent_and_is_protected_is_held_back_and_nothing_else() {
        let case = Case::new(&[(".envrc", "old"), ("src/main.rs", "")]);
        case.write(&[
            (".claude/settings.json", "{}"),
            (".claude/notes.txt", "x"),
            (".vscode/tasks.json", "{}"),
            ("sub/.envrc", "x"),
            (".envrc", "changed outside"),
            ("src/lib.rs", ""),
        ]);
        let mut held = case.sweep();
        held.sort();
        assert_eq!(held, [".claude/settings.json", ".vscode", "sub/.envrc"]);
        for (path, there) in [
            (".claude/settings.json", false),
            (".claude/notes.txt", true),
            (".vscode", false),
            ("sub/.envrc", false),
            (".envrc", true),
            ("src/lib.rs", true),
        ] {
            assert_eq!(case.has(path), there, "{path}");
        }
    }

    #[test]
    fn a_repository_that_the_agent_made_stays_without_what_runs_programs() {
        let case = Case::new(&[("README", "")]);
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = \"touch /tmp/x\"\n[remote \"o\"]\n\turl = https://example.com/x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n";
        case.write(&[
            ("new/.git/HEAD", "ref: refs/heads/main\n"),
            ("new/.git/config", config),
            ("new/.git/hooks/pre-commit", "#!/bin/sh\n"),
            ("new/.git/hooks/pre-commit.sample", "#!/bin/sh\n"),
            ("new/.git/objects/x", ""),
            ("new/.git/refs/heads/main", ""),
        ]);
        let held = case.sweep();
        assert_eq!(held.len(), 2, "{held:?}");
        assert!(case.has("new/.git/hooks/pre-commit.sample") && !case.has("new/.git/hooks/pre-commit"));
        let now = fs::read_to_string(case.tree.root.join("new/.git/config")).unwrap();
        assert!(
            !now.contains("fsmonitor") && now.contains("https://example.com/x") && now.contains("bare"),
            "{now}"
        );
        assert_eq!(case.sweep(), Vec::<String>::new(), "the second sweep finds nothing");
    }

    #[test]
    fn a_harmless_new_repository_is_left_alone() {
        let case = Case::new(&[]);
        let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[branch \"main\"]\n\tremote = o\n\tmerge = refs/heads/main\n";
        case.write(&[
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/config", config),
            (".git/hooks/x.sample", ""),
        ]);
        assert_eq!(case.sweep(), Vec::<String>::new());
        assert_eq!(fs::read_to_string(case.tree.root.join(".git/config")).unwrap(), config);
    }

    #[test]
    fn what_leads_git_elsewhere_is_held_back_and_a_worktree_of_the_project_stays() {
        let case = Case::new(&[
            (".git/HEAD", "ref: x\n"),
            (".git/config", "[core]\n"),
            (".git/objects/x", ""),
            (".git/refs/x", ""),
        ]);
        let root = case.tree.root.display().to_string();
        case.write(&[
            (".git/commondir", "/tmp/evil\n"),
            ("evil/.git", "gitdir: /tmp/evil\n"),
            ("wt/.git", &format!("gitdir: {root}/.git/worktrees/wt\n")),
            (".git/worktrees/wt/HEAD", "ref: x\n"),
            (".git/worktrees/wt/commondir", "../..\n"),
            (".git/worktrees/wt/gitdir", &format!("{root}/wt/.git\n")),
            (".git/worktrees/bad/HEAD", "ref: x\n"),
            (".git/worktrees/bad/commondir", "/tmp/evil\n"),
        ]);
        let mut held = case.sweep();
        held.sort();
        assert_eq!(held, [".git/commondir", ".git/worktrees/bad/commondir", "evil/.git"]);
        assert!(
            case.has("wt/.git")
                && case.has(".git/worktrees/wt/commondir")
                && case.has(".git/worktrees/wt/gitdir")
        );
    }

    #[test]
    fn a_new_name_does_not_choose_what_is_moved_away() {
        let case = Case::new(&[("src/config", "x"), ("run.sh", "x"), ("src/hooks/x", "x")]);
        case.write(&[
            (".vscode/tasks.json", "{\"tasks\": [{\"command\": \"./run.sh\"}]}"),
            ("a/.git", "gitdir: ../src\n"),
            ("new/.git/HEAD", "x"),
            ("new/.git/config", "[core]\n\tbare = false\n\thooksPath = ../src\n\teditor = ../run.sh\n"),
        ]);
        std::os::unix::fs::symlink("src", case.tree.root.join(".idea")).unwrap();
        let mut held = case.sweep();
        held.sort();
        assert_eq!(held, [".idea", ".vscode", "a/.git", "new/.git/config"]);
    }

    #[test]
    fn what_known_settings_name_is_held_back_when_it_appears() {
        let case = Case::new(&[(".git/config", "[core]\n\thooksPath = h\n\teditor = ./e.sh\n")]);
        case.write(&[("h/pre-commit", "x"), ("e.sh", "x")]);
        let mut held = case.sweep();
        held.sort();
        assert_eq!(held, ["e.sh", "h"]);
    }

    #[test]
    fn what_was_closed_before_stays_and_what_was_closed_meanwhile_is_searched() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |case: &Case, path: &str, mode| {
            fs::set_permissions(case.tree.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mut case = Case::new(&[("a/.envrc", "x"), ("b/x", "x")]);
        // As a launch leaves it that could not look into `a`.
        case.tree.protected = vec!["a".into()];
        case.tree.read_only = vec!["a".into()];
        case.write(&[("b/.envrc", "x")]);
        mode(&case, "b", 0);
        let mut quarantine = Quarantine::new(&case.dir.path().join("quarantine"), "s");
        sweep(&case.tree, &mut quarantine, None);
        let after = case.tree.root.join("b").metadata().unwrap().permissions().mode() & 0o777;
        mode(&case, "b", 0o700);
        assert_eq!(after, 0, "its mode is as it was");
        assert_eq!(quarantine.left(), []);
        assert_eq!(quarantine.held().len(), 1, "{:?}", quarantine.held());
        assert!(!case.has("b/.envrc"));
        assert!(case.has("a/.envrc") && case.has("b/x"));
    }

    #[test]
    fn a_mode_keeps_nothing_in_its_place() {
        use std::os::unix::fs::PermissionsExt;
        let case = Case::new(&[("README", "")]);
        case.write(&[
            (".vscode/tasks.json", "{}"),
            ("sub/.envrc", "x"),
            ("deep/er/.envrc", "x"),
            ("new/.git/HEAD", "ref: refs/heads/main\n"),
            ("new/.git/config", "[core]\n\tbare = false\n\tfsmonitor = \"touch x\"\n"),
            ("new/.git/hooks/pre-commit", "#!/bin/sh\n"),
            ("other/.git/HEAD", "ref: refs/heads/main\n"),
            ("other/.git/config", "[core]\n"),
            ("other/.git/hooks/pre-commit", "#!/bin/sh\n"),
        ]);
        let closed = [
            (".vscode", 0o555),
            ("sub", 0o555),
            ("deep/er", 0o100),
            ("deep", 0o311),
            ("new/.git/hooks", 0o555),
            ("new/.git", 0o555),
            ("other/.git/hooks", 0o311),
        ];
        let mode = |path: &str| case.tree.root.join(path).metadata().unwrap().permissions().mode() & 0o777;
        for (path, mode) in closed {
            fs::set_permissions(case.tree.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let held = case.sweep();
        assert_eq!(held.len(), 6, "{held:?}");
        assert!(!case.has(".vscode") && !case.has("sub/.envrc") && !case.has("other/.git/hooks/pre-commit"));
        assert!(!case.has("new/.git/hooks/pre-commit") && !case.has("deep/er/.envrc"));
        let now = fs::read_to_string(case.tree.root.join("new/.git/config")).unwrap();
        assert!(now.contains("bare") && !now.contains("fsmonitor"), "{now}");
        assert_eq!((mode("sub"), mode("new/.git"), mode("deep/er")), (0o555, 0o555, 0o100));
        for path in ["deep", "deep/er", "other/.git/hooks", "sub", "new/.git", "new/.git/hooks"] {
            fs::set_permissions(case.tree.root.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn many_decoys_keep_nothing_in_its_place() {
        let case = Case::new(&[("README", "")]);
        for number in 0..1200 {
            case.write(&[(&format!("d{number}/.envrc"), "x")]);
        }
        case.write(&[("z/.vscode/tasks.json", "{}")]);
        assert_eq!(case.sweep().len(), 1201);
        assert!(!case.has("z/.vscode"));
    }

    #[test]
    fn what_is_held_back_comes_back_by_its_name_and_never_over_something() {
        let case = Case::new(&[]);
        case.write(&[(".envrc", "one")]);
        assert_eq!(case.sweep(), [".envrc"]);
        let dir = case.dir.path().join("quarantine");
        let items = quarantine::list(&dir);
        assert_eq!(items.len(), 1);
        case.write(&[(".envrc", "two")]);
        assert!(quarantine::restore(&dir, &items[0]).is_err());
        fs::remove_file(case.tree.root.join(".envrc")).unwrap();
        quarantine::restore(&dir, &items[0]).unwrap();
        assert_eq!(fs::read_to_string(case.tree.root.join(".envrc")).unwrap(), "one");
        assert!(quarantine::list(&dir).is_empty());
    }
}
