//! What the tests need of the machine is listed once, in `scripts/test`.

use std::path::Path;
use std::process::Command;

/// Programs that a machine may lack: their tests say so.
const SPARED: &[&str] = &[
    "systemd-run",
    "git with bare repositories",
    "bash that reads .bash_logout",
    "keytool",
    "javac",
    "sshd",
    "python-requests",
];

fn listed(list: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/test");
    let output = Command::new("bash").arg(script).arg(list).output().unwrap();
    assert!(output.status.success(), "{list}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_readme_installs_what_the_tests_need() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let needs = listed("--needs");
    assert!(needs.split(' ').count() > 10, "{needs}");
    let line = format!("\nsudo apt-get install -y {needs} && scripts/test\n");
    assert!(readme.contains(&line), "README.md should say:{line}");
}

#[test]
fn every_program_that_a_test_asks_for_is_listed() {
    let programs = listed("--programs");
    let programs: Vec<&str> = programs.split(',').collect();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut asked = 0;
    for directory in ["", "common", "escape"] {
        for entry in std::fs::read_dir(tests.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("Feature::Program(\"").skip(1) {
                let name = rest.split('"').next().unwrap();
                asked += 1;
                assert!(
                    SPARED.contains(&name) || programs.contains(&format!("program:{name}").as_str()),
                    "{}: {name} is in no package of scripts/test",
                    path.display()
                );
            }
        }
    }
    assert!(asked > 5, "{asked}");
}
