//! What cannot be looked at, and what is too much to be.

use super::*;

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
