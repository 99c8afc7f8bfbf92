use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Tree(tempfile::TempDir);

fn scope<'a>(root: &'a Path, home: &'a Path) -> Scope<'a> {
    Scope {
        root,
        more: &[],
        parts: &[],
        settings: &[],
        home,
        uid: rustix::process::getuid().as_raw(),
        own: &[],
        secrets: None,
        handover: Handover::No,
        known: None,
    }
}

impl Tree {
    /// Files, directories (`a/`) and symlinks (`a -> b`).
    fn new(paths: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for path in paths {
            if let Some((link, target)) = path.split_once(" -> ") {
                fs::create_dir_all(tree.path(link).parent().unwrap()).unwrap();
                symlink(target, tree.path(link)).unwrap();
            } else if path.ends_with('/') {
                fs::create_dir_all(tree.path(path)).unwrap();
            } else {
                tree.write(path, "x");
            }
        }
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn found_with(&self, more: &[String], own: &[PathBuf]) -> Found {
        self.found_at("", more, own)
    }

    fn found_at(&self, root: &str, more: &[String], own: &[PathBuf]) -> Found {
        let (root, home) = (self.path(root), self.path("home/u"));
        scan(&Scope { more, own, ..scope(&root, &home) })
    }

    /// What `search` makes of the tree.
    fn searched(&self, search: impl FnOnce(&mut Finder<'_>)) -> Found {
        let (root, home) = (self.path(""), self.path("home/u"));
        let scope = scope(&root, &home);
        let mut finder = Finder::new(&scope);
        search(&mut finder);
        finder.finish()
    }

    fn found(&self) -> Found {
        self.found_with(&[], &[])
    }

    fn held(&self) -> Vec<(String, Hold)> {
        let paths = self.found().paths.into_iter();
        paths.map(|found| (found.below.display().to_string(), found.hold)).collect()
    }
}

/// The paths, with `!` in front of what is read-only.
fn shown(found: &Found) -> Vec<String> {
    let mark = |hold| if hold == Hold::ReadOnly { "!" } else { "" };
    found.paths.iter().map(|path| format!("{}{}", mark(path.hold), path.below.display())).collect()
}

fn expect(tree: &Tree, claim: &str, expected: &[&str]) {
    let held = shown(&tree.found());
    let missing: Vec<_> = expected.iter().filter(|path| !held.contains(&(**path).to_owned())).collect();
    assert!(missing.is_empty(), "{claim}: {missing:?} not in {held:?}");
}

#[test]
fn names_of_a_preset_count_anywhere() {
    let tree = Tree::new(&[".mine/hooks/x", "a/.mine/hooks/x", ".mine/state"]);
    let found = tree.found_with(&[".mine/hooks".to_owned()], &[]).paths;
    let read_only: Vec<_> =
        found.iter().filter(|f| f.hold == Hold::ReadOnly).map(|f| f.below.as_path()).collect();
    assert_eq!(read_only, [Path::new(".mine/hooks"), Path::new("a/.mine/hooks")]);
}

#[test]
fn git_directories_are_pinned_and_what_runs_programs_is_read_only() {
    let tree = Tree::new(&[
        ".git/HEAD",
        ".git/config",
        ".git/hooks/",
        ".git/info/attributes",
        ".git/objects/",
        ".git/refs/",
        ".git/modules/a/b/HEAD",
        ".git/modules/a/b/config",
        ".git/modules/a/b/hooks/",
        ".git/modules/junk/",
        ".git/worktrees/w/gitdir",
        "sub/.git/config",
        "sub/.git/HEAD",
        "src/main.rs",
    ]);
    let expected = [
        (".git", Hold::Pinned),
        (".git/config", Hold::ReadOnly),
        (".git/hooks", Hold::ReadOnly),
        (".git/info", Hold::Pinned),
        (".git/info/attributes", Hold::ReadOnly),
        (".git/modules", Hold::Pinned),
        (".git/modules/a", Hold::Pinned),
        (".git/modules/a/b", Hold::Pinned),
        (".git/modules/a/b/config", Hold::ReadOnly),
        (".git/modules/a/b/hooks", Hold::ReadOnly),
        (".git/worktrees", Hold::Pinned),
        (".git/worktrees/w", Hold::Pinned),
        (".git/worktrees/w/gitdir", Hold::ReadOnly),
        ("sub/.git", Hold::Pinned),
        ("sub/.git/config", Hold::ReadOnly),
    ];
    let expected: Vec<_> = expected.iter().map(|(path, hold)| ((*path).to_owned(), *hold)).collect();
    assert_eq!(tree.held(), expected);
}

#[test]
fn git_directories_are_found_wherever_git_finds_them() {
    for (claim, paths, files, expected) in [
        (
            "a .git file that leads to a directory of the tree",
            &["gd/data/config", "gd/data/hooks/"][..],
            &[(".git", "gitdir: gd/data\n")][..],
            &["!.git", "gd", "gd/data", "!gd/data/config", "!gd/data/hooks"][..],
        ),
        ("a .git symlink", &["real/config", ".git -> real"], &[], &["!.git", "real", "!real/config"]),
        (
            "a common directory",
            &[".git/HEAD", "shared/config", "shared/hooks/"],
            &[(".git/commondir", "../shared\n")],
            &["!.git/commondir", "shared", "!shared/config", "!shared/hooks"],
        ),
        (
            "links of hooks",
            &["scripts/hooks/x", ".git/hooks -> ../scripts/hooks"],
            &[],
            &["!.git/hooks", "scripts", "!scripts/hooks"],
        ),
        ("a chain of links", &["b/x", ".git/hooks -> ../a", "a -> b"], &[], &["!.git/hooks", "!a", "!b"]),
        ("a linked config", &["cfg", ".git/config -> ../cfg"], &[], &["!.git/config", "!cfg"]),
        (
            "a linked hook",
            &["tools/pc", ".git/hooks/pre-commit -> ../../tools/pc"],
            &[],
            &["!.git/hooks", "tools", "!tools/pc"],
        ),
        (
            "a hook that is linked behind a link",
            &["h/pre-commit -> ../t/pc", "t/pc", ".git/hooks -> ../h"],
            &[],
            &["!h", "!t/pc"],
        ),
        ("a submodule without HEAD", &[".git/modules/lib/config"], &[], &["!.git/modules/lib/config"]),
        ("a submodule with hooks alone", &[".git/modules/lib/hooks/"], &[], &["!.git/modules/lib/hooks"]),
        (
            "a submodule of a linked work tree",
            &[".git/worktrees/w/gitdir", ".git/worktrees/w/modules/s/config"],
            &[],
            &["!.git/worktrees/w/modules/s/config"],
        ),
        (
            "a dependency folder",
            &["vendor/lib/.git", "node_modules/a/node_modules/b/.git/config"],
            &[],
            &["!vendor/lib/.git", "!node_modules/a/node_modules/b/.git/config"],
        ),
        ("one that was moved into another", &[".git/x/y/.git/config"], &[], &["!.git/x/y/.git/config"]),
        (
            "a bare repository",
            &["f/r.git/HEAD", "f/r.git/objects/", "f/r.git/refs/", "f/r.git/config", "f/r.git/hooks/"],
            &[],
            &["f/r.git", "f/r.git/objects", "f/r.git/refs", "!f/r.git/config", "!f/r.git/hooks"],
        ),
        ("a bare one whose HEAD is away", &["r/objects/", "r/refs/", "r/config"], &[], &["r", "!r/config"]),
        (
            "a bare one in a dependency folder",
            &["build/r/objects/", "build/r/refs/", "build/r/config"],
            &[],
            &["!build/r/config"],
        ),
        ("the tree itself", &["HEAD", "objects/", "refs/", "config", "hooks/"], &[], &["!config", "!hooks"]),
    ] {
        let tree = Tree::new(paths);
        for (path, text) in files {
            tree.write(path, text);
        }
        expect(&tree, claim, expected);
    }
}

#[test]
fn single_names_of_a_repository_are_nobodys_business() {
    for paths in [&["HEAD", "config"][..], &["objects/", "HEAD", "config"], &["refs/", "hooks/", "HEAD"]] {
        assert_eq!(Tree::new(paths).held(), [], "{paths:?}");
    }
}

#[test]
fn every_directory_below_modules_is_looked_at() {
    let tree = Tree::new(&[".git/modules/zz/config"]);
    for n in 0..3000 {
        fs::create_dir(tree.path(&format!(".git/modules/{n}"))).unwrap();
    }
    expect(&tree, "the last of many", &["!.git/modules/zz/config"]);
    assert_eq!(tree.held().len(), 4, "directories that are no repository are not held");
}

#[test]
fn files_that_git_settings_name_are_protected() {
    for (text, expected) in [
        ("[core]\nhooksPath = t/h", &["t", "!t/h"][..]),
        ("[core]\nhooksPath = .", &["!pre-commit"]),
        ("[core]\nhooksPath = $ROOT/t/h", &["!t/h"]),
        ("[core]\nhooksPath = ~/h", &["home", "home/u", "!home/u/h"]),
        ("[include]\npath = ../c/inc", &["c", "!c/inc", "!t/inner.sh"]),
        ("[includeIf \"gitdir:/x\"]\npath = ../c/inc", &["!c/inc", "!t/inner.sh"]),
        ("[core]\nattributesFile = t/a.sh", &["!t/a.sh"]),
        ("[filter \"x\"]\nclean = ./t/a.sh %f", &["!t/a.sh"]),
        ("[filter \"x\"]\nsmudge = t/data", &["!t/data"]),
        ("[filter \"x\"]\nprocess = python3 t/b.py", &["!t/b.py"]),
        ("[diff \"x\"]\ntextconv = sh -c './t/a.sh'", &["!t/a.sh"]),
        ("[merge \"x\"]\ndriver = t/a.sh %O", &["!t/a.sh"]),
        ("[core]\nfsmonitor = t/a.sh", &["!t/a.sh"]),
        ("[core]\nsshCommand = A=1 t/a.sh", &["!t/a.sh"]),
        ("[gpg \"ssh\"]\nprogram = t/a.sh", &["!t/a.sh"]),
        ("[credential \"https://x\"]\nhelper = !t/a.sh", &["!t/a.sh"]),
        ("[alias]\nx = !t/a.sh", &["!t/a.sh"]),
        ("[pager]\nlog = t/a.sh", &["!t/a.sh"]),
        ("[sequence]\neditor = t/link", &["!t/link", "!t/a.sh"]),
    ] {
        let tree = Tree::new(&[
            "t/h/x",
            "t/a.sh",
            "t/data",
            "t/b.py",
            "t/link -> a.sh",
            "t/inner.sh",
            "pre-commit",
            "home/u/h/x",
        ]);
        tree.write("c/inc", "[core]\npager = t/inner.sh");
        tree.write(
            ".git/config",
            &text.replace("$ROOT", tree.path("").to_str().unwrap().trim_end_matches('/')),
        );
        expect(&tree, text, expected);
        let config = fs::read_to_string(tree.path(".git/config")).unwrap();
        // The same settings of a submodule, and of a git directory outside.
        let submodule = Tree::new(&["sub/t/h/x", "sub/t/a.sh", "sub/t/data"]);
        submodule.write(".git/modules/s/config", &format!("{config}\n[core]\nworktree = ../../../sub\n"));
        if text.contains("./t/a.sh") {
            expect(&submodule, text, &["sub/t", "!sub/t/a.sh"]);
        }
        let outside = Tree::new(&[]);
        outside.write("config", &config);
        fs::remove_dir_all(tree.path(".git")).unwrap();
        tree.write(".git", &format!("gitdir: {}", outside.path("").display()));
        if !text.contains("include") {
            expect(&tree, text, expected);
        }
    }
}

#[test]
fn settings_count_whatever_else_is_in_them_and_what_cannot_be_read_is_said() {
    let tree = Tree::new(&["t/h/x"]);
    let config = tree.path(".git/config");
    fs::create_dir_all(tree.path(".git")).unwrap();
    fs::write(&config, b"[user]\nname = J\xfcrg\n[core]\nhooksPath = t/h\n").unwrap();
    expect(&tree, "a name in Latin-1", &["!t/h"]);
    assert_eq!(tree.found().unsearched, None);
    let long = format!("#{}\n[core]\nhooksPath = t/h\n", "x".repeat(2 << 20));
    fs::write(&config, long).unwrap();
    expect(&tree, "settings of two million bytes", &["!t/h"]);
    fs::File::options().write(true).open(&config).unwrap().set_len(17 << 20).unwrap();
    let why = tree.found().unsearched.unwrap();
    assert!(why.contains(".git/config cannot be read"), "{why}");
}

#[test]
fn values_that_name_no_program_are_the_agents_to_write() {
    let tree = Tree::new(&["t/a.sh", "x", "vim", "log"]);
    tree.write(
        ".git/config",
        "[remote \"o\"]\nurl = x\n[core]\nexcludesFile = x\nhooksPath = /nonexistent\neditor = vim\n[alias]\nl = log t/a.sh\nm = !cat x\n[user]\nname = t/a.sh\n[branch \"x\"]\nmerge = x",
    );
    assert_eq!(tree.held(), [(".git".to_owned(), Hold::Pinned), (".git/config".to_owned(), Hold::ReadOnly)]);
}

#[test]
fn scripts_that_settings_of_agents_name_are_protected() {
    let hook =
        |command: &str| format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{{\"command\":{command:?}}}]}}]}}}}");
    for (file, text, expected) in [
        (".claude/settings.json", hook("./s/h.sh"), &[".claude", "s", "!s/h.sh"][..]),
        (".claude/settings.local.json", hook("$CLAUDE_PROJECT_DIR/s/h.sh arg"), &["!s/h.sh"]),
        (".claude/settings.json", hook("\"$CLAUDE_PROJECT_DIR\"/s/h.sh"), &["!s/h.sh"]),
        (".claude/settings.json", hook("bash ${CLAUDE_PROJECT_DIR}/s/h.sh"), &["!s/h.sh"]),
        (".claude/settings.json", hook("$ROOT/s/h.sh"), &["!s/h.sh"]),
        (".claude/settings.json", hook("s/run"), &["!s/run"]),
        (".gemini/settings.json", hook("s/h.sh"), &["!s/h.sh"]),
        (
            ".mcp.json",
            "{\"mcpServers\":{\"x\":{\"command\":\"node\",\"args\":[\"s/m.mjs\"]}}}".into(),
            &["!s/m.mjs"],
        ),
        (".codex/config.toml", "notify = [\"python3\", \"s/n.py\"]".into(), &["!s/n.py"]),
        ("sub/.mcp.json", "{\"command\": \"./s/h.sh\"}".into(), &["sub/s", "!sub/s/h.sh"]),
        (
            ".vscode/tasks.json",
            "{ // comment\n\"tasks\": [{\"command\": \"${workspaceFolder}/s/h.sh\",}] }".into(),
            &["!s/h.sh"],
        ),
    ] {
        let tree = Tree::new(&["s/h.sh", "s/run", "s/m.mjs", "s/n.py", "s/data", "sub/s/h.sh"]);
        fs::set_permissions(tree.path("s/run"), fs::Permissions::from_mode(0o755)).unwrap();
        tree.write(file, &text.replace("$ROOT", tree.path("").to_str().unwrap().trim_end_matches('/')));
        expect(&tree, file, expected);
    }
}

#[test]
fn data_and_directories_that_settings_name_are_not_held() {
    let tree = Tree::new(&["s/data", "s/h.sh"]);
    tree.write(
        ".mcp.json",
        "{\"command\": \"s/data\", \"args\": [\".\", \"s\"], \"permissions\": [\"s/h.sh\"]}",
    );
    assert_eq!(tree.held(), [(".mcp.json".to_owned(), Hold::ReadOnly)]);
}

#[test]
fn rows_count_where_they_say() {
    let tree = Tree::new(&[
        ".bashrc",
        "bash/.bashrc",
        "a/b/.bashrc",
        "home/u/.zshrc",
        "home/u/.config/fish/",
        "sub/sub/.envrc",
        "node_modules/p/.envrc",
        ".claude/settings.json",
        ".claude/x",
        ".vscode/tasks.json",
    ]);
    let held: Vec<_> =
        tree.held().into_iter().filter(|(_, hold)| *hold == Hold::ReadOnly).map(|(path, _)| path).collect();
    let expected = [
        ".bashrc",
        ".claude/settings.json",
        ".vscode",
        "bash/.bashrc",
        "home/u/.config/fish",
        "home/u/.zshrc",
        "sub/sub/.envrc",
    ];
    assert_eq!(held, expected);
    expect(&tree, "the directory of a protected file cannot be moved away", &[".claude", "home/u/.config"]);
}

#[test]
fn a_symlink_is_pinned_and_its_target_inside_is_protected() {
    let tree = Tree::new(&[
        "real/settings.json",
        "elsewhere/",
        ".claude -> real",
        ".envrc -> /etc/passwd",
        ".vscode -> gone",
        ".idea -> elsewhere",
    ]);
    let expected = ["!.claude", "real", "!real/settings.json", "!.envrc", "!.vscode", "!.idea", "!elsewhere"];
    expect(&tree, "symlinks", &expected);
    assert!(!tree.held().iter().any(|(path, _)| path.contains("etc")));
}

#[test]
fn what_is_below_a_read_only_path_needs_no_hold_of_its_own() {
    let tree = Tree::new(&[".vscode/.envrc", ".vscode/sub/.git/config"]);
    assert_eq!(tree.held(), [(".vscode".to_owned(), Hold::ReadOnly)]);
}

#[test]
fn ai_jails_own_directories_are_not_searched() {
    let tree = Tree::new(&["own/homes/x/.envrc", ".envrc"]);
    let found = tree.found_with(&[], &[tree.path("own")]).paths;
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn what_is_nested_too_deep_is_held_as_a_whole_and_said() {
    let deep = vec!["d"; 70].join("/");
    let tree = Tree::new(&[&format!("{deep}/.envrc")]);
    let found = tree.found();
    assert!(found.unsearched.is_some_and(|why| why.contains("64 deep")));
    assert_eq!(found.paths.len(), 1);
    assert!(Path::new(&deep).starts_with(&found.paths[0].below));
    assert_eq!(found.paths[0].hold, Hold::ReadOnly);
}

/// Root may look everywhere: there the directories can be listed all the same, and their parts are held one by one.
#[test]
fn what_cannot_be_looked_at_is_held_as_a_whole() {
    for (closed, mode, names) in [
        (".git", 0o000, &[".git/config"][..]),
        (".git", 0o444, &[".git/config"]),
        (".claude", 0o000, &[".claude/settings.json"]),
        ("sub", 0o000, &["sub/.vscode/tasks.json"]),
        ("sub", 0o111, &["sub/x"]),
        ("sub", 0o600, &["sub/.envrc"]),
        ("node_modules", 0o000, &["node_modules/x"]),
        (".git/modules", 0o000, &[".git/modules/lib/config"]),
        (".git/modules/lib", 0o000, &[".git/modules/lib/config"]),
        ("a/b", 0o000, &["a/b/c/.envrc"]),
    ] {
        let tree = Tree::new(names);
        let path = tree.path(closed);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let found = tree.found();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        if rustix::process::getuid().is_root() {
            assert!(found.closed.is_empty(), "{closed}");
            continue;
        }
        let whole = Protected {
            below: closed.into(),
            hold: Hold::ReadOnly,
            reason: "it cannot be searched for protected paths".into(),
        };
        assert!(found.paths.contains(&whole), "{closed} {mode:o}: {:?}", found.paths);
        assert_eq!(found.closed, [PathBuf::from(closed)], "{closed} {mode:o}");
    }
}

/// Root may list it.
#[test]
fn a_directory_that_can_be_entered_but_not_listed_is_said() {
    for (mode, said) in [(0o311, true), (0o000, false)] {
        for area in [scan::Area::Channels, scan::Area::Sources] {
            let tree = Tree::new(&["a/b/x"]);
            let set = |mode| fs::set_permissions(tree.path("a/b"), fs::Permissions::from_mode(mode)).unwrap();
            set(mode);
            let found = tree.searched(|finder| finder.walk(Path::new(""), area));
            set(0o700);
            let expected = said && !rustix::process::getuid().is_root();
            let why = found.unsearched.unwrap_or_default();
            assert_eq!(
                why.contains("a/b can be entered but not listed"),
                expected,
                "{mode:o} {area:?}: {why}"
            );
        }
    }
}

#[test]
fn a_root_that_cannot_be_listed_is_said_and_its_names_are_looked_up() {
    let tree = Tree::new(&[".envrc"]);
    fs::set_permissions(tree.path(""), fs::Permissions::from_mode(0o300)).unwrap();
    let found = tree.found();
    fs::set_permissions(tree.path(""), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found.paths.len(), 1);
    assert_eq!(found.closed.is_empty(), rustix::process::getuid().is_root());
}

#[test]
fn every_name_of_a_protected_file_is_read_only() {
    let tree = Tree::new(&[
        ".envrc",
        ".vscode/tasks.json",
        ".git/HEAD",
        ".git/hooks/pre-commit",
        ".git/objects/",
        "sub/deep/",
        "node_modules/x/",
        ".opencode/node_modules/y/index.js",
        "plain",
    ]);
    let link = |from: &str, to: &str| fs::hard_link(tree.path(from), tree.path(to)).unwrap();
    link(".envrc", "sub/deep/copy");
    link(".vscode/tasks.json", "tasks");
    link(".vscode/tasks.json", ".vscode/inside");
    link(".git/hooks/pre-commit", "node_modules/x/hook");
    link("plain", "plain2");
    // A store of a package manager's links everything.
    link(".opencode/node_modules/y/index.js", "store");
    let held: Vec<String> =
        tree.held().into_iter().filter(|(_, hold)| *hold == Hold::ReadOnly).map(|(path, _)| path).collect();
    assert_eq!(
        held,
        [".envrc", ".git/hooks", ".opencode", ".vscode", "node_modules/x/hook", "sub/deep/copy", "tasks"]
    );
}

#[test]
fn a_tree_that_begins_inside_a_protected_name_holds_the_rest_of_it() {
    for (claim, root, paths, settings, expected) in [
        (
            "what is there",
            "home/u/.claude",
            &["home/u/.claude/hooks/x", "home/u/.claude/projects/hooks/x"][..],
            "{}",
            &["!hooks", "!settings.json"][..],
        ),
        (
            "what is deeper than one name",
            "home/u/.local",
            &["home/u/.local/share/applications/x"],
            "",
            &["share", "!share/applications"],
        ),
        (
            "pinned because a link leads into it, and read-only all the same",
            "home/u/.local",
            &["home/u/.local/bin/x", "home/u/.local/.envrc -> bin/x"],
            "",
            &["!.envrc", "!bin"],
        ),
        (
            "where a link leads",
            "home/u/.claude",
            &["home/u/.claude/dot/x", "home/u/.claude/hooks -> dot"],
            "{}",
            &["!dot", "!hooks", "!settings.json"],
        ),
        (
            "scripts that the settings name, by the home and by the project",
            "home/u/.claude",
            &["home/u/.claude/a.sh", "home/u/.claude/b.sh"],
            "{\"hooks\": [\"~/.claude/a.sh\", \"$CLAUDE_PROJECT_DIR/.claude/b.sh\"]}",
            &["!a.sh", "!b.sh", "!settings.json"],
        ),
        ("nothing of the sort", "home/u/.claude/projects", &["home/u/.claude/projects/hooks/x"], "", &[]),
    ] {
        let tree = Tree::new(paths);
        if !settings.is_empty() {
            tree.write("home/u/.claude/settings.json", settings);
            fs::hard_link(tree.path("home/u/.claude/settings.json"), tree.path("home/u/.claude/zz")).unwrap();
        }
        let mut expected: Vec<&str> = expected.to_vec();
        expected.extend((!settings.is_empty()).then_some("!zz"));
        assert_eq!(shown(&tree.found_at(root, &[], &[])), expected, "{claim}");
    }
}

#[test]
fn names_of_a_preset_count_in_a_tree_that_begins_inside_them() {
    let tree = Tree::new(&[".mine/hooks/x"]);
    let found = tree.found_at(".mine", &[".mine/hooks".to_owned()], &[]);
    assert_eq!(shown(&found), ["!hooks"]);
}

#[test]
fn the_search_for_other_names_has_a_count_of_its_own() {
    let tree = Tree::new(&[".envrc"]);
    fs::hard_link(tree.path(".envrc"), tree.path("copy")).unwrap();
    let found = tree.searched(|finder| {
        // As a walk leaves it that came to its end just so.
        assert!((0..finder::SCAN_LIMIT).all(|_| finder.count()));
        finder.hold(Path::new(".envrc"), Hold::ReadOnly, "it is run");
        finder.other_names();
    });
    assert_eq!(found.unsearched, None);
    assert_eq!(shown(&found), ["!.envrc", "!copy"]);
}
