use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::policy::origin::Origin;

struct Machine {
    _dir: tempfile::TempDir,
    project: PathBuf,
    grants: Vec<PathBuf>,
    shown: Vec<PathBuf>,
    system: Vec<PathBuf>,
}

impl Machine {
    fn new(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        let machine = Self { _dir: dir, project, grants: Vec::new(), shown: Vec::new(), system: Vec::new() };
        for file in files {
            machine.file(file);
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.project.join(path)
    }

    fn file(&self, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), path).unwrap();
    }

    fn find(&self, deny: &[&str], mask: &[&str]) -> (Result<Veiled>, Vec<String>) {
        let read = |globs: &[&str]| {
            let globs = globs.iter().map(|glob| glob.replace("$P", self.project.to_str().unwrap()));
            let globs = globs.map(|glob| Glob::parse(OsStr::new(&glob), &self.at("../home")).unwrap());
            globs.map(|glob| Sourced::new(glob, Origin::flag("--deny"))).collect::<Vec<_>>()
        };
        let ground = Ground {
            project: &self.project,
            grants: &self.grants,
            shown: &self.shown,
            system: &self.system,
            own: &[],
        };
        let mut warnings = Vec::new();
        let found = find(&read(deny), &read(mask), &ground, &mut warnings);
        (found, warnings)
    }

    /// What is covered, below the project where it is there.
    fn covered(&self, deny: &[&str], mask: &[&str]) -> Vec<String> {
        let covers = self.find(deny, mask).0.unwrap().covers;
        let shown = |path: &Path| path.strip_prefix(&self.project).unwrap_or(path).display().to_string();
        let veiled = covers.iter().filter(|cover| cover.kind != CoverKind::Way);
        veiled.map(|cover| shown(&cover.path)).collect()
    }
}

#[test]
fn a_match_is_covered_with_what_it_leads_to_and_nothing_below_it_is_listed() {
    let machine = Machine::new(&[".env", "a/.env", "a/b/x.pem", "d/.env/x", ".hidden/.env", "target/.env"]);
    symlink("a/b", machine.at("link")).unwrap();
    symlink("a/b/x.pem", machine.at("l.env")).unwrap();
    symlink("nowhere", machine.at("dangling.env")).unwrap();
    symlink(".", machine.at("self.env")).unwrap();
    fs::write(machine.at(".gitignore"), "target\n").unwrap();
    let all = [".env", ".hidden/.env", "a/.env", "d/.env", "target/.env"];
    assert_eq!(machine.covered(&["**/.env"], &[]), all);
    assert_eq!(machine.covered(&["*.env"], &[]), [".env", "a/b/x.pem", "dangling.env", "l.env", "self.env"]);
    assert_eq!(machine.covered(&["link/x.pem"], &[]), ["a/b/x.pem"], "through a symlinked directory");
    assert_eq!(machine.covered(&["link/*.pem"], &[]), ["a/b/x.pem"]);
    assert_eq!(
        machine.covered(&["*/x.pem"], &[]),
        Vec::<String>::new(),
        "symlinks are not followed by a glob"
    );
    assert_eq!(machine.covered(&["missing", "a/missing/x", "no/*/x"], &[]), Vec::<String>::new());
    assert_eq!(machine.covered(&["a/**"], &[]), ["a/.env", "a/b"]);
    assert_eq!(machine.covered(&["$P/a/*"], &[]), ["a/.env", "a/b"]);
    let (found, warnings) = machine.find(&["self.env"], &[]);
    assert!(found.is_ok() && warnings.len() == 1 && warnings[0].contains("only the symlink"), "{warnings:?}");
    let ways = machine.find(&["link/x.pem"], &[]).0.unwrap().covers;
    assert!(ways.iter().any(|cover| cover.kind == CoverKind::Way && cover.path == machine.at("link")));
}

#[test]
fn of_two_for_one_path_the_stricter_holds() {
    let machine = Machine::new(&["a.pem", "b.pem"]);
    let covers = machine.find(&["a.pem"], &["*.pem"]).0.unwrap().covers;
    let kinds: Vec<_> = covers.iter().map(|cover| cover.kind).collect();
    let (deny, mask) = (Veil::Closed, Veil::Empty);
    assert_eq!(kinds, [CoverKind::Asked(deny, Named::Literally), CoverKind::Asked(mask, Named::ByMatch)]);
}

#[test]
fn other_names_of_a_file_are_covered_too() {
    let mut machine = Machine::new(&["a/.env", "other/x", "b/y"]);
    fs::hard_link(machine.at("a/.env"), machine.at("b/copy")).unwrap();
    let outside = machine.at("../granted");
    fs::create_dir(&outside).unwrap();
    let outside = outside.canonicalize().unwrap();
    fs::hard_link(machine.at("a/.env"), outside.join("copy")).unwrap();
    assert_eq!(machine.covered(&["**/.env"], &[]), ["a/.env", "b/copy"]);
    machine.grants.push(outside.clone());
    let covered = machine.covered(&[], &["a/.env"]);
    assert_eq!(covered, [outside.join("copy").to_str().unwrap(), "a/.env", "b/copy"]);
    let covers = machine.find(&["**/.env"], &[]).0.unwrap().covers;
    assert!(
        covers[0].reason.contains("another name of") && covers[0].reason.contains("**/.env"),
        "{covers:?}"
    );
}

/// Root may list it.
#[test]
fn a_directory_that_may_hold_another_name_and_cannot_be_listed_is_refused() {
    let machine = Machine::new(&["a/.env", "closed/x"]);
    let mode = |bits| fs::set_permissions(machine.at("closed"), fs::Permissions::from_mode(bits)).unwrap();
    for bits in [0o000, 0o311] {
        mode(bits);
        let single = machine.find(&["a/.env"], &[]).0;
        fs::hard_link(machine.at("a/.env"), machine.at("copy")).unwrap();
        let several = machine.find(&["a/.env"], &[]).0;
        mode(0o700);
        fs::remove_file(machine.at("copy")).unwrap();
        assert!(single.is_ok());
        if rustix::process::getuid().is_root() {
            assert!(several.is_ok());
            continue;
        }
        let error = several.unwrap_err().to_string();
        assert!(error.contains("closed cannot be listed"), "{error}");
    }
}

#[test]
fn an_absolute_glob_counts_in_everything_that_is_shown() {
    let mut machine = Machine::new(&["x.key", "d/x.key"]);
    for name in ["granted", "tool", "sys", "unseen"] {
        let directory = machine.at("..").canonicalize().unwrap().join(name);
        fs::create_dir_all(directory.join("in")).unwrap();
        fs::write(directory.join("in/x.key"), "").unwrap();
        match name {
            "granted" => machine.grants.push(directory),
            "tool" => machine.shown.push(directory),
            "sys" => machine.system.push(directory),
            _ => {}
        }
    }
    let root = machine.at("..").canonicalize().unwrap();
    let covered = machine.covered(&[&format!("{}/**/x.key", root.display())], &[]);
    let expected = ["granted/in/x.key", "project/d/x.key", "project/x.key", "sys/in/x.key", "tool/in/x.key"];
    let expected: Vec<_> = expected.iter().map(|path| root.join(path)).collect();
    let covered: Vec<_> = covered.iter().map(|path| machine.project.join(path)).collect();
    assert_eq!(covered.len(), expected.len(), "{covered:?}");
    assert!(expected.iter().all(|path| covered.contains(path)), "{covered:?}");
    // What lies in a match of the glob, and is granted, is more specific; the project itself cannot match.
    let granted = root.join("granted").display().to_string();
    assert_eq!(machine.covered(&[&format!("{}/gr*", root.display())], &[]), [granted]);
    let refused = machine.find(&[&format!("{}/pro*", root.display())], &[]).0.unwrap_err().to_string();
    assert!(refused.contains("the project itself"), "{refused}");
}

#[test]
fn a_symlink_to_the_systems_own_files_does_not_cover_these() {
    let mut machine = Machine::new(&["x"]);
    let system = machine.at("../sys");
    fs::create_dir(&system).unwrap();
    let system = system.canonicalize().unwrap();
    fs::write(system.join("roots.pem"), "").unwrap();
    symlink(system.join("roots.pem"), machine.at("cacert.pem")).unwrap();
    machine.system.push(system.join("part"));
    machine.system.push(system.clone());
    assert_eq!(machine.covered(&["**/*.pem"], &[]), ["cacert.pem"]);
    // A directory of which parts are shown, as `/etc`.
    machine.system.pop();
    fs::create_dir(system.join("part")).unwrap();
    fs::remove_file(machine.at("cacert.pem")).unwrap();
    symlink(&system, machine.at("etc.pem")).unwrap();
    assert_eq!(machine.covered(&["**/*.pem"], &[]), ["etc.pem"]);
    assert!(machine.find(&["**/*.pem"], &[]).1[0].contains("only the symlink is covered"));
    // Named itself it is covered.
    let part = system.join("part").display().to_string();
    assert_eq!(machine.covered(&[&part], &[]), [part.as_str()]);
}

#[test]
fn what_is_too_wide_is_refused_with_the_glob_and_the_place() {
    let machine = Machine::new(&[]);
    for directory in 0..11 {
        fs::create_dir(machine.at(&format!("d{directory}"))).unwrap();
        for file in 0..1000 {
            fs::write(machine.at(&format!("d{directory}/{file}.tmp")), "").unwrap();
        }
    }
    let error = machine.find(&["**/*.tmp"], &[]).0.unwrap_err().to_string();
    assert!(error.contains("`**/*.tmp` cannot be denied (--deny)"), "{error}");
    assert!(error.contains("more than 10000 paths (stopped in ") && error.contains("/d"), "{error}");
    fs::remove_dir_all(machine.at("d10")).unwrap();
    assert_eq!(machine.covered(&["**/*.tmp"], &[]).len(), 10_000);
    assert_eq!(machine.covered(&["d*"], &[]).len(), 10);
}

#[test]
fn what_cannot_be_searched_is_covered_as_a_whole() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let machine = Machine::new(&["closed/x.pem", "a.pem"]);
    let mode = |bits| fs::set_permissions(machine.at("closed"), fs::Permissions::from_mode(bits)).unwrap();
    mode(0o000);
    let covered = machine.covered(&["**/*.pem"], &[]);
    let (_, warnings) = machine.find(&["**/*.pem"], &[]);
    mode(0o700);
    assert_eq!(covered, ["a.pem", "closed"]);
    assert!(warnings[0].contains("covered as a whole"), "{warnings:?}");
}

#[test]
fn odd_names_are_found_as_they_are() {
    let machine = Machine::new(&["a\nb.pem", "\x1b[2J.pem"]);
    fs::write(machine.project.join(OsStr::from_bytes(b"\xff.pem")), "").unwrap();
    assert_eq!(machine.find(&["*.pem"], &[]).0.unwrap().covers.len(), 3);
    let (found, _) = machine.find(&["*.pem"], &[]);
    assert!(!found.unwrap().covers.iter().any(|cover| cover.reason.contains('\n')));
}

#[test]
fn a_grant_in_what_is_denied_is_searched_by_itself() {
    let mut machine = Machine::new(&["secrets/x.key", "secrets/pub/y.key", "z.key"]);
    machine.grants.push(machine.at("secrets/pub"));
    assert_eq!(machine.covered(&["secrets", "**/*.key"], &[]), ["secrets", "secrets/pub/y.key", "z.key"]);
}
