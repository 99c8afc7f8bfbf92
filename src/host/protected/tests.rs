mod git;
mod limits;

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
