//! Features that a machine may lack. A test that needs one says so; when it is missing the test prints what
//! was skipped and why, and fails when `AI_JAIL_TEST_REQUIRE` (names separated by commas) lists it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A feature of the machine that a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Unprivileged user namespaces, by way of bwrap.
    UserNamespaces,
    /// Landlock in the kernel.
    Landlock,
    /// A package registry that answers, and what it delivers.
    Registry,
    /// An ordinary user beside root (needed by tests that root runs as somebody else).
    OrdinaryUser,
    /// The tests run as root, who alone can make some of the controls.
    Root,
    /// A system call or socket family of this name exists in the kernel, so that its refusal proves something.
    Kernel(&'static str),
    /// The system has TLS roots.
    Roots,
    /// A program of this name is installed.
    Program(&'static str),
}

impl Feature {
    /// The name that `AI_JAIL_TEST_REQUIRE` uses.
    pub fn name(self) -> String {
        match self {
            Self::UserNamespaces => "userns".into(),
            Self::Landlock => "landlock".into(),
            Self::Registry => "registry".into(),
            Self::OrdinaryUser => "user".into(),
            Self::Root => "root".into(),
            Self::Roots => "roots".into(),
            Self::Kernel(name) => format!("kernel:{name}"),
            Self::Program(name) => format!("program:{name}"),
        }
    }

    /// Looks whether the machine has the feature. `Registry`, `Roots` and `Kernel` are found out by the test itself.
    pub fn present(self) -> bool {
        match self {
            Self::UserNamespaces => Command::new("bwrap")
                .args(["--unshare-user", "--ro-bind", "/", "/", "true"])
                .output()
                .is_ok_and(|output| output.status.success()),
            Self::Landlock => super::probe_path().is_some_and(|probe| {
                Command::new(probe)
                    .args(["landlock-abi"])
                    .output()
                    .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("\"ok\":true"))
            }),
            Self::OrdinaryUser => {
                !rustix::process::getuid().is_root() || super::env::ordinary_user().is_some()
            }
            Self::Root => rustix::process::getuid().is_root(),
            Self::Program(name) => on_path(name).is_some(),
            Self::Registry | Self::Roots | Self::Kernel(_) => true,
        }
    }

    /// True when the feature is there; otherwise reports the skip (see [`missing`]) and returns false.
    #[track_caller]
    pub fn needed_for(self, claim: &str) -> bool {
        let present = self.present();
        if !present {
            missing(self, claim, "it was not found on this machine");
        }
        present
    }
}

/// Reports that `claim` was not tested because `feature` is missing.
///
/// # Panics
/// When `AI_JAIL_TEST_REQUIRE` lists the feature, or for a registry under CI: there a skip is a failure.
#[track_caller]
pub fn missing(feature: Feature, claim: &str, why: &str) {
    let name = feature.name();
    let required = std::env::var("AI_JAIL_TEST_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|item| item.trim() == name || item.trim() == "all");
    let required = required || (feature == Feature::Registry && under_ci());
    assert!(!required, "{claim}: {name} is required here and missing: {why}");
    // Written to the descriptor itself: the test harness swallows what passing tests print.
    let line = format!("SKIPPED {claim}: {name} is missing: {why}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// Whether this is a CI run.
pub fn under_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// The program `name` as found in the system's own directories and PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| Path::is_file(file))
}
