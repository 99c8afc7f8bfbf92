//! On temporary trees: which names matter.

use std::fs;

use super::*;

fn ground(root: &Path, kind: TreeKind) -> Ground {
    let more = vec![".mine/hooks".to_owned()];
    let protected = vec![PathBuf::from(".git"), PathBuf::from("kept/.envrc")];
    Ground::with(
        vec![Tree {
            root: root.to_path_buf(),
            protected,
            read_only: Vec::new(),
            objects: Vec::new(),
            kind,
            since: None,
            more,
            parts: vec!["hooks2".to_owned(), "deep/er".to_owned()],
            home: PathBuf::new(),
            own: Vec::new(),
        }],
        Arc::default(),
        BTreeMap::new(),
        Vec::new(),
        Veils::default(),
    )
}

fn tree(paths: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for path in paths {
        fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        fs::write(dir.path().join(path), "x").unwrap();
    }
    dir
}

fn at(below: &str) -> Spot {
    Spot { tree: 0, below: below.into() }
}

#[test]
fn a_name_touches_what_it_makes_or_completes() {
    let dir = tree(&[
        ".git/HEAD",
        ".git/modules/a/b/HEAD",
        ".claude/settings.json",
        "s/.claude/hooks/x",
        ".mine/hooks",
        ".bashrc",
        "s/.bashrc",
        "s/t/.bashrc",
    ]);
    let ground = ground(dir.path(), TreeKind::Files);
    let cases: [(&str, &str, &[&str]); 22] = [
        ("", ".envrc", &[]),
        ("", ".claude", &[".claude/settings.json"]),
        (".claude", "settings.json", &[".claude/settings.json"]),
        (".claude", "other.json", &[]),
        ("s/.claude", "hooks", &["s/.claude/hooks"]),
        ("s", "hooks", &[]),
        ("", "settings.json", &[]),
        (".mine", "hooks", &[".mine/hooks"]),
        ("", ".bashrc", &[".bashrc"]),
        ("s", ".bashrc", &["s/.bashrc"]),
        ("s/t", ".bashrc", &[]),
        ("s", ".git", &["s/.git"]),
        (".git", "config", &[".git/config"]),
        (".git", "config.lock", &[]),
        (".git/info", "attributes", &[".git/info/attributes"]),
        (".git/info", "exclude", &[]),
        (".git/worktrees/w", "commondir", &[".git/worktrees/w/commondir"]),
        (".git/worktrees", "commondir", &[]),
        (".git/modules/a/b", "config", &[".git/modules/a/b/config"]),
        (".git/modules/a", "config", &[]),
        (".git/refs", ".envrc", &[]),
        ("s", "config", &[]),
    ];
    for (directory, name, expected) in cases {
        let touched: Vec<_> = ground
            .touched(&at(directory), OsStr::new(name))
            .into_iter()
            .filter(|below| {
                // Git's parts are told whether they are there or not.
                below.starts_with(".git") || dir.path().join(below).exists() || below.ends_with(".git")
            })
            .collect();
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(touched, expected, "{name} in {directory:?}");
    }
}

#[test]
fn directories_that_hold_nothing_of_interest_are_not_entered() {
    let dir = tree(&[".git/HEAD"]);
    let files = ground(dir.path(), TreeKind::Files);
    let git = ground(dir.path(), TreeKind::GitDirectory);
    for (ground, directory, name, expected) in [
        (&files, "", "src", true),
        (&files, "", ".git", true),
        (&files, "", "node_modules", false),
        (&files, "a", "target", false),
        (&files, ".git", "objects", false),
        (&files, ".git", "hooks", false),
        (&files, ".git", "info", true),
        (&files, ".git/modules", "target", true),
        (&files, ".git/modules/a", "objects", false),
        (&files, ".git/worktrees", "w", true),
        (&files, ".git/worktrees/w", "logs", false),
        (&git, "", "objects", false),
        (&git, "", "worktrees", true),
    ] {
        assert_eq!(ground.enters(&at(directory), OsStr::new(name)), expected, "{name} in {directory:?}");
    }
}

#[test]
fn a_name_that_a_directory_without_case_takes_for_another_touches_it() {
    // What such a directory would answer to the table's spelling is there by that spelling.
    let dir = tree(&[".envrc", "s/.git/HEAD", ".claude/settings.json"]);
    let ground = ground(dir.path(), TreeKind::Files);
    for (directory, name, expected) in [
        ("", ".ENVRC", &[".envrc"][..]),
        ("", ".Envr\u{200c}c", &[".envrc"]),
        ("s", ".GIT", &["s/.git"]),
        (".claude", "Settings.JSON", &[".claude/settings.json"]),
        // On a file system with case there is nothing by the table's spelling.
        ("", ".VSCODE", &[]),
        ("", "README", &[]),
    ] {
        let touched = ground.touched(&at(directory), OsStr::new(name));
        assert_eq!(touched, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{directory} {name}");
    }
}
