//! What is denied and masked: by every name, in every view, before and after what the jail does about it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use super::common::{DEADLINE, Feature, Git, TestEnv, missing, text};
use super::{Attempt, Control, make_controls, must_fail_inside};

/// A word that is in every file that has to stay unread.
const SECRET: &str = "s3cr3t-of-the-test";

/// A project with these files, each holding [`SECRET`].
fn project(files: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    for file in files {
        env.file(file, SECRET);
    }
    env
}

fn attempt(claim: &'static str, script: &'static str) -> Attempt {
    Attempt { claim, script, control: Control::Anybody }
}

#[test]
fn every_case_of_the_table_holds_in_a_jail() {
    let mut count = 0;
    for line in include_str!("../cases/glob.jsonl").lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let glob = case["glob"].as_str().expect("a glob");
        let tree: Vec<&str> =
            case["tree"].as_array().expect("files").iter().filter_map(|f| f.as_str()).collect();
        let env = project(&tree);
        // What git tracks is not masked by itself.
        let _ = Git::new(&env).init();
        let list: String = tree.iter().map(|file| format!(" '{file}'")).collect();
        let script = format!("for f in{list}; do grep -qs {SECRET} \"./$f\" && echo \"$f\"; done; echo end");
        for flag in ["--deny", "--mask"] {
            count += 1;
            let output = env.jail([flag, glob, "--", "sh", "-c", &script]);
            if case["covers"] == "refuse" {
                let error = output.refused();
                assert!(error.contains(&format!("{flag} cannot be `{glob}`")), "{error}");
                continue;
            }
            let seen: BTreeSet<&str> = output.ok().lines().filter(|line| *line != "end").collect();
            let covers = case["covers"].as_array().expect("files");
            let open = tree.iter().filter(|file| !covers.iter().any(|covered| covered == *file));
            assert_eq!(seen, open.copied().collect(), "{flag} {glob}: {output:#?}");
        }
    }
    assert!(count >= 28);
}

#[test]
fn what_is_denied_and_masked_cannot_be_used_in_any_way() {
    // M8, M9, M10, M11
    let files =
        ["a.pem", "sub/b.pem", "secrets/c", "secrets/d/e", "literal/x", "deep/er/f.key", "other/name.txt"];
    let attempts = [
        attempt("read", "cat a.pem | grep -q s3cr3t || cat secrets/c | grep -q s3cr3t"),
        attempt(
            "read by another way",
            "cat /proc/self/root$PWD/a.pem | grep -q s3cr3t || cat /proc/self/cwd/sub/b.pem | grep -q s3cr3t",
        ),
        attempt("search", "grep -rq s3cr3t a.pem sub secrets literal deep"),
        attempt("write", "echo x >> a.pem"),
        attempt("write into", "echo x > secrets/new || mkdir secrets/d/new"),
        attempt("replace", "cp a.pem keep && echo x > n && mv n a.pem && mv keep a.pem"),
        attempt("rename", "mv a.pem free && mv free a.pem"),
        attempt("rename a directory", "mv secrets free && mv free secrets"),
        attempt("remove", "cp a.pem s && rm a.pem && mv s a.pem"),
        attempt("open its mode", "chmod 777 a.pem && chmod 644 a.pem"),
        attempt("link", "ln a.pem hard && rm hard"),
        attempt("link symbolically", "ln -sf a.pem soft; grep -q s3cr3t soft"),
        attempt("list", "ls secrets | grep -q c"),
        attempt("rename what holds a file named literally", "mv literal moved && mv moved literal"),
        attempt(
            "rename the parents",
            "mv deep moved; grep -q s3cr3t moved/er/f.key; found=$?; mv moved deep; exit $found",
        ),
        attempt("copy", "cp -r sub copy; grep -q s3cr3t copy/b.pem"),
        attempt("archive", "tar cf - a.pem sub | grep -q s3cr3t"),
        attempt(
            "detach",
            "umount a.pem || umount -l secrets || ! grep -q s3cr3t other/name.txt || grep -q s3cr3t a.pem",
        ),
        attempt("through the covers", "echo x > /run/ai-jail/covers/empty-file || { echo x >> a.pem; }"),
    ];
    let globs = ["**/*.pem", "secrets", "literal/x", "deep/**/*.key"];
    for flag in ["--deny", "--mask"] {
        let env = project(&files);
        let flags: Vec<&str> = globs.iter().flat_map(|glob| [flag, glob]).collect();
        make_controls(&env, &attempts);
        let before = covered_things(&env);
        assert_eq!(before.matches(SECRET).count(), files.len() - 1, "{before}");
        must_fail_inside(&env, &flags, &attempts);
        assert_eq!(covered_things(&env), before, "what was covered is as it was");
    }
}

/// The names, modes, links and contents of what the globs of the test above cover.
fn covered_things(env: &TestEnv) -> String {
    let list = "find a.pem sub/b.pem secrets literal/x deep/er/f.key -printf '%p %M %n %l\\n' -type f -exec cat {} + | sort";
    env.outside(list).ok().to_owned()
}

#[test]
fn deny_shows_nothing_and_mask_shows_something_empty() {
    let env = project(&["a.pem", "dir/x"]);
    let script = "cat a.pem && [ ! -s a.pem ] && [ -z \"$(ls -A dir)\" ] && stat -c %A a.pem dir";
    let masked = env.jail(["--mask", "a.pem", "--mask", "dir", "--", "sh", "-c", script]);
    assert_eq!(masked.ok(), "-r--r--r--\ndr-xr-xr-x\n");
    let script = "cat a.pem; ls dir; cat dir/x; stat -c %A a.pem dir";
    let denied = env.jail(["--deny", "a.pem", "--deny", "dir", "--", "sh", "-c", script]);
    assert_eq!(denied.stdout, "----------\nd---------\n", "{denied:#?}");
    assert_eq!(denied.stderr.matches("Permission denied").count(), 3, "{denied:#?}");
}

#[test]
fn a_second_view_of_the_tree_is_covered_as_well() {
    // M11
    let env = project(&["a.pem", "sub/b.pem"]);
    let _ = Git::new(&env).init();
    let alias = format!("{}:/mnt/alias", env.project().display());
    for grant in ["--ro", "--rw"] {
        let script = "grep -rqs s3cr3t . /mnt/alias /proc/self/root/mnt/alias && exit 9; ls /mnt/alias/sub";
        let output = env.jail([grant, &alias, "--deny", "**/*.pem", "--", "sh", "-c", script]);
        assert_eq!(output.ok(), "b.pem\n", "{grant}");
        // Absolute globs start outside, and mean what is there.
        let glob = format!("{}/**/*.pem", env.root().display());
        let output = env.jail([grant, &alias, "--mask", &glob, "--", "sh", "-c", script]);
        assert_eq!(output.ok(), "b.pem\n", "{grant}");
    }
}

#[test]
fn a_second_view_of_the_systems_roots_shows_nothing_that_is_covered() {
    let env = TestEnv::new();
    let roots = Path::new("/etc/ssl/certs");
    let first = fs::read_dir(roots).ok().and_then(|mut entries| Some(entries.next()?.ok()?.file_name()));
    let Some(name) = first else {
        return missing(Feature::Roots, "roots that are covered", "there are none");
    };
    let root = roots.join(name).display().to_string();
    // Where TLS is read the directory is made anew, beside the session's authority.
    env.config(
        "[network]\nallow = [\"a.example\"]\n[[network.http]]\nhost = \"a.example\"\nallow = [\"GET /\"]\n",
    );
    let control = env.jail(["--", "ls", "-d", "/run/ai-jail/certificates"]);
    assert!(control.ok() == "/run/ai-jail/certificates\n", "control: {control:#?}");
    for denied in ["/etc/ssl/certs", &root, "/etc/ssl/**/nothing"] {
        let script = "ls -d /run/ai-jail/certificates && exit 9; ls /etc/ssl/certs | wc -l; cat \"$0\"";
        let output = env.jail(["--deny", denied, "--", "sh", "-c", script, &root]);
        let is_denied = output.stderr.contains("Permission denied");
        assert_eq!(is_denied, !denied.ends_with("nothing"), "{denied}: {output:#?}");
        assert!(output.stderr.contains("is shown as it is, since something in it is covered"), "{output:#?}");
    }
    // What cannot be there changes nothing.
    for denied in ["/nonexistent/x", "/nonexistent/**/x", "/etc/ssh/**"] {
        let output = env.jail(["--deny", denied, "--", "ls", "-d", "/run/ai-jail/certificates"]);
        output.ok();
        assert!(!output.stderr.contains("is shown as it is"), "{denied}: {output:#?}");
    }
}

#[test]
fn a_worktree_of_the_project_is_covered_as_well() {
    // M11
    let env = TestEnv::new();
    let _ = Git::new(&env).init();
    env.outside("git worktree add -q wt").ok();
    env.file("wt/a.pem", SECRET);
    let output = env.jail(["--deny", "**/*.pem", "--", "sh", "-c", "cat wt/a.pem && exit 9; ls wt"]);
    assert_eq!(output.ok(), "README.md\na.pem\nsrc\n");
}

#[test]
fn another_name_of_a_covered_file_is_covered() {
    // M9
    let env = project(&["a.pem"]);
    env.outside("mkdir other && ln a.pem other/innocent.txt").ok();
    assert!(env.outside("grep -q s3cr3t other/innocent.txt").success(), "control");
    for flag in ["--deny", "--mask"] {
        let output = env.jail([flag, "*.pem", "--", "sh", "-c", "grep -rqs s3cr3t . && exit 9; exit 0"]);
        output.ok();
    }
    let shown = env.jail(["explain", "--deny", "*.pem", "other/innocent.txt"]);
    assert!(shown.ok().contains("denied; ") && shown.ok().contains("another name of"), "{shown:#?}");
}

#[test]
fn a_symlink_and_what_it_leads_to_are_both_covered() {
    // M12, M13
    let env = project(&["real/secret", "data/x/secret", "chain/end"]);
    symlink("real/secret", env.project().join(".netrc")).expect("symlink");
    symlink("data/x", env.project().join("link")).expect("symlink");
    symlink("b", env.project().join("a")).expect("symlink");
    symlink("chain/end", env.project().join("b")).expect("symlink");
    symlink("nowhere", env.project().join("dangling")).expect("symlink");
    symlink("loop", env.project().join("loop")).expect("symlink");
    for flag in ["--deny", "--mask"] {
        let flags = [".netrc", "link/secret", "a", "dangling", "loop", "link/missing/x"];
        let flags: Vec<&str> = flags.iter().flat_map(|glob| [flag, glob]).collect();
        let script = "grep -rqs s3cr3t . .netrc link/secret a b && exit 9; rm link; ln -s x link; ls -d link real data";
        let output = env.jail(flags.iter().copied().chain(["--", "sh", "-c", script]));
        assert_eq!(output.ok(), "data\nlink\nreal\n", "{flag}");
        assert!(env.project().join("link/secret").exists(), "the symlink on the way kept its place");
    }
}

#[test]
fn a_symlink_out_of_the_project_is_covered_and_nothing_else() {
    let env = project(&["x"]);
    let outside = env.file(env.root().join("outside/secret.pem"), SECRET);
    symlink(&outside, env.project().join("l.pem")).expect("symlink");
    symlink("/etc", env.project().join("etc.pem")).expect("symlink");
    symlink(".", env.project().join("self.pem")).expect("symlink");
    let output = env.jail(["--mask", "**/*.pem", "--", "sh", "-c", "cat x /etc/passwd l.pem etc.pem"]);
    assert!(output.ok().contains(SECRET) && output.ok().contains("nobody"), "{output:#?}");
    assert!(output.stderr.contains("only the symlink is covered"), "{output:#?}");
}

#[test]
fn four_thousand_matches_are_covered_soon() {
    // M27
    let env = TestEnv::new();
    for directory in 0..40 {
        env.dir(format!("d{directory}"));
        for file in 0..100 {
            fs::write(env.project().join(format!("d{directory}/{file}.pem")), SECRET).expect("write");
        }
    }
    let script = "grep -rqs s3cr3t . && exit 9; find . -name '*.pem' | wc -l";
    for flag in ["--deny", "--mask"] {
        let started = Instant::now();
        let output = env.jail([flag, "**/*.pem", "--", "sh", "-c", script]);
        assert_eq!(output.ok().trim(), "4000", "{flag}");
        assert!(started.elapsed() < Duration::from_secs(20), "{flag}: it took {:?}", started.elapsed());
    }
}

#[test]
fn the_more_specific_path_wins_and_deny_beats_mask_and_grants() {
    let env = project(&["secrets/pub/a", "secrets/b", "x.pem", "data/y"]);
    let granted = env.project().join("secrets/pub");
    let script = "cat secrets/pub/a; ls secrets; cat secrets/b; cat x.pem; cat data/y; ls -d secrets/pub";
    let output = env.jail([
        "--deny",
        "secrets",
        "--rw",
        granted.to_str().expect("UTF-8"),
        "--mask",
        "*.pem",
        "--deny",
        "x.pem",
        "--ro",
        env.project().join("data").to_str().expect("UTF-8"),
        "--deny",
        "data",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.stdout, format!("{SECRET}secrets/pub\n"), "{output:#?}");
    let project = env.project();
    assert!(
        env.jail(["--deny", project.to_str().expect("UTF-8"), "--", "true"]).refused().contains("itself")
    );
}

#[test]
fn what_is_covered_is_said() {
    let env = project(&["a.pem", "sub/b.key"]);
    env.file(".ai-jail.toml", "[filesystem]\ndeny = [\"**/*.key\"]\n");
    env.config("[filesystem]\nmask = [\"*.pem\"]\n");
    let explained = env.jail(["explain", "a.pem", "sub/b.key", "new/c.key", "sub"]);
    let lines: Vec<&str> = explained.ok().lines().collect();
    let parts = [
        &["masked", "`*.pem`", "config.toml:2 (filesystem.mask)"][..],
        &["denied", "`**/*.key`", ".ai-jail.toml:2 (filesystem.deny)"],
        &["denied", "what is made there", "`**/*.key`"],
        &["writable"],
    ];
    assert_eq!(lines.len(), parts.len(), "{explained:#?}");
    for (line, parts) in lines.iter().zip(parts) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    let dry = env.jail(["--dry-run", "--", "true"]);
    for part in ["deny **/*.key  (", "mask *.pem  (", "denied ", "masked "] {
        assert!(dry.ok().contains(part), "{part}: {dry:#?}");
    }
    let json = env.jail(["--dry-run", "--json", "--", "true"]);
    let json: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    let door: Vec<&str> =
        json["door"].as_array().into_iter().flatten().filter_map(|line| line.as_str()).collect();
    for (verb, file) in [("hide", "a.pem"), ("deny", "sub/b.key")] {
        assert!(door.contains(&&*format!("{verb} {}", env.project().join(file).display())), "{door:?}");
    }
    assert_eq!(json["asked"][0]["glob"], "**/*.key");
    assert_eq!(json["covered"].as_array().map(Vec::len), Some(2));
    let about = env.inside("cat /run/ai-jail/about");
    assert!(about.ok().contains("what matches **/*.key") && about.ok().contains("sub/b.key"), "{about:#?}");
    assert!(about.stderr.contains("1 denied, 1 masked"), "{about:#?}");
}

#[test]
fn a_path_that_was_covered_by_its_name_and_is_missing_now_is_refused() {
    let env = project(&["conf/local.yml"]);
    let run = |env: &TestEnv| env.jail(["--mask", "conf/local.yml", "--", "true"]);
    env.jail(["--mask", "never/there", "--", "true"]).ok();
    env.jail(["--mask", "never/there", "--", "true"]).ok();
    run(&env).ok();
    fs::rename(env.project().join("conf"), env.project().join("elsewhere")).expect("rename");
    let refused = run(&env);
    let error = refused.refused();
    assert!(error.contains("conf/local.yml is missing") && error.contains("put it back"), "{error}");
    fs::rename(env.project().join("elsewhere"), env.project().join("conf")).expect("rename");
    run(&env).ok();
}

#[test]
fn what_is_too_wide_or_cannot_be_covered_is_refused() {
    let env = TestEnv::new();
    env.dir("d");
    for file in 0..10_001 {
        fs::write(env.project().join(format!("d/{file}")), "").expect("write");
    }
    let output = env.jail(["--deny", "**/d/*", "--", "true"]);
    let error = output.refused();
    assert!(
        error.contains("`**/d/*` cannot be denied") && error.contains("more than 10000 paths"),
        "{error}"
    );
    assert!(error.contains(&format!("stopped in {}", env.project().join("d").display())), "{error}");
    env.file(".ai-jail.toml", "[filesystem]\ndeny = [\"[[:digit:]]x\"]\n");
    let output = env.jail(["--", "true"]);
    assert!(output.refused().contains(".ai-jail.toml:2:9: `[[:digit:]]x` is no good for `filesystem.deny`"));
    env.file(".ai-jail.toml", "[filesystem]\ndeny = [\"/proc/self/x\"]\n");
    assert!(env.jail(["--", "true"]).refused().contains("kernel's own"));
}

#[test]
fn odd_file_names_are_covered_and_shown_escaped() {
    let env = TestEnv::new();
    let names = [&b"new\nline.pem"[..], b"esc\x1b[2J.pem", b"raw\xff.pem", b" blank .pem", b"--opt.pem"];
    for name in names {
        env.file(OsStr::from_bytes(name), SECRET);
    }
    let output = env.jail(["--deny", "*.pem", "--", "sh", "-c", "grep -rqs s3cr3t . && exit 9; ls | wc -l"]);
    assert_eq!(output.ok().trim(), "6", "{output:#?}");
    for args in [&["--dry-run", "--deny", "*.pem", "--", "true"][..], &["explain", "--deny", "*.pem"]] {
        let shown = env.jail(args);
        assert!(shown.ok().contains("\\x1b[2J.pem") && !shown.ok().contains('\x1b'), "{shown:#?}");
        assert!(shown.ok().contains("\\n") && !shown.ok().contains("new\nline"), "{shown:#?}");
    }
    let about = env.jail(["--deny", "*.pem", "--", "cat", "/run/ai-jail/about"]);
    assert!(!about.ok().contains('\x1b'), "{about:#?}");
    let command = env.launcher([
        OsStr::new("--deny"),
        OsStr::from_bytes(b"raw\xff*"),
        OsStr::new("--"),
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new("cat raw*"),
    ]);
    let output = super::common::output_of(&mut { command }, DEADLINE);
    assert!(!output.success() && output.stderr.contains("Permission denied"), "{output:#?}");
}

#[test]
fn a_directory_that_cannot_be_listed_is_covered_as_a_whole() {
    let Some(env) = TestEnv::ordinary() else {
        return missing(Feature::OrdinaryUser, "a closed directory is covered", "nobody else");
    };
    let file = env.file("closed/x.pem", SECRET);
    let closed = file.parent().expect("a parent");
    fs::set_permissions(closed, fs::Permissions::from_mode(0o300)).expect("chmod");
    assert!(env.outside("grep -q s3cr3t closed/x.pem").success(), "control");
    let script = "chmod 700 closed; grep -qs s3cr3t closed/x.pem && exit 9; exit 0";
    let output = env.jail(["--deny", "**/*.pem", "--", "sh", "-c", script]);
    fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).expect("chmod");
    output.ok();
    assert!(output.stderr.contains("covered as a whole"), "{output:#?}");
}

#[test]
fn nothing_is_left_behind() {
    let env = project(&["a.pem", "secrets/b"]);
    let git = Git::new(&env);
    let _ = git.init();
    let before = env.outside("git status --porcelain; find . | sort").ok().to_owned();
    env.jail(["--deny", "a.pem", "--mask", "secrets", "--deny", "not/there", "--", "true"]).ok();
    assert_eq!(env.outside("git status --porcelain; find . | sort").ok(), before);
}

/// Waits in the jail until none of the files can be read, for ten seconds at most.
fn until_covered(files: &[&str]) -> String {
    format!(
        "i=0; while grep -qs {SECRET} {}; do i=$((i+1)); [ $i -gt 500 ] && exit 9; sleep 0.02; done",
        files.join(" ")
    )
}

#[test]
fn what_appears_or_is_replaced_while_the_jail_runs_is_covered() {
    // From inside, from the host, by another jail; in a writable and in a read-only project.
    let files =
        ["a.pem", "new.pem", "n/e/w/b.pem", "node_modules/p/c.pem", "moved/d.pem", "conf/local.yml", "l.pem"];
    let make = format!(
        "echo {SECRET} > n1 && mv n1 a.pem; echo {SECRET} > new.pem; mkdir -p n/e/w node_modules/p/ from; \
         for f in n/e/w/b.pem node_modules/p/c.pem from/d.pem; do echo {SECRET} > $f; done; mv from moved; \
         echo {SECRET} > n2; mv n2 conf/local.yml; ln -s real l.pem"
    );
    for (profile, who) in [("workspace", "host"), ("read-only", "host"), ("workspace", "jail")] {
        let env = project(&["a.pem", "conf/local.yml", "real"]);
        let covered = until_covered(&files);
        let before = format!("grep -q {SECRET} real || exit 8");
        let after = format!("{covered}; grep -qs {SECRET} real && exit 7; exit 0");
        let flags = ["--profile", profile, "--deny", "**/*.pem", "--mask", "conf/local.yml"];
        let running = env.jail_waiting(&flags, &before, &after);
        match who {
            "host" => env.outside(&make).ok().to_owned(),
            _ => env.inside(&make).ok().to_owned(),
        };
        for file in files {
            assert!(env.outside(&format!("grep -q {SECRET} {file}")).success(), "control: {file}");
        }
        let output = env.let_go(running);
        assert_eq!(output.code(), 0, "{profile} {who}: {output:#?}");
        let log = env.log();
        let said = |part: &str| log.contains(part);
        assert!(said("new.pem appeared and is covered (denied)"), "{log}");
        assert!(said("conf/local.yml was replaced outside and is covered again (masked)"), "{log}");
        assert!(said("was covered") && said("times while the jail ran"), "{log}");
    }
}

#[test]
fn what_the_jail_makes_under_a_denied_name_is_covered() {
    let env = project(&[]);
    let script = format!(
        "echo {SECRET} > x.pem; mkdir -p a/b; echo {SECRET} > a/b/y.pem; mv a c; echo {SECRET} > z; mv z z.pem; {}",
        until_covered(&["x.pem", "c/b/y.pem", "z.pem"])
    );
    assert!(env.outside("echo s > x.pem && cat x.pem && rm x.pem").success(), "control");
    env.jail(["--deny", "**/*.pem", "--", "sh", "-c", &script]).ok();
    assert!(fs::read_to_string(env.project().join("x.pem")).expect("it stays").contains(SECRET));
}

#[test]
fn what_is_hidden_and_replaced_on_the_host_is_hidden_again() {
    let env = project(&[]);
    let home = env.home();
    env.file(home.join(".npmrc"), SECRET);
    let place = home.join(".npmrc");
    let before = format!("grep -qs {SECRET} {} && exit 8", place.display());
    let (own, other) = (env.project(), text(&home));
    let flags = ["--project", other, "--ro", text(&own)];
    let running = env.jail_waiting(&flags, &before, &until_covered(&[text(&place)]));
    env.outside(&format!("echo {SECRET} > $HOME/n && mv $HOME/n $HOME/.npmrc")).ok();
    assert!(env.outside(&format!("grep -q {SECRET} $HOME/.npmrc")).success(), "control");
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "{output:#?}");
}
