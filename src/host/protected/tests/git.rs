//! What git keeps and names.

use super::*;

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
