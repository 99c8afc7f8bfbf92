//! What the kernel and its settings allow.

use std::path::Path;

use super::environment::Environment;
use super::{below, read_text};

/// Facts about the kernel and what surrounds it. Read for `doctor` and to explain a launch that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// The highest Landlock ABI, when there is Landlock.
    pub landlock_abi: Option<i32>,
    /// Whether an ordinary process may make user namespaces.
    pub user_namespaces: UserNamespaces,
    /// Whether seccomp filters can refuse and kill.
    pub seccomp: Seccomp,
    /// Whether memory, processes and processors can be limited.
    pub cgroup: Cgroup,
    /// Whether this is the Windows Subsystem for Linux.
    pub wsl: Wsl,
    /// Whether this is inside a container.
    pub container: Option<String>,
}

/// User namespaces, as the settings have them. (Only a trial shows what really works.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespaces {
    /// Nothing forbids them.
    Allowed,
    /// `user.max_user_namespaces` is 0.
    MaxIsZero,
    /// `kernel.unprivileged_userns_clone` is 0 (Debian's older kernels, hardened ones).
    CloneSwitchedOff,
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1 (Ubuntu): only programs with a profile may.
    AppArmor,
    /// The kernel was built without them.
    Absent,
}

/// Seccomp filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seccomp {
    /// With every action that is used.
    Complete,
    /// The kernel has none, or not all actions.
    Lacking,
}

/// Control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroup {
    /// Version 2, and the user's systemd answers for it.
    UserSystemd,
    /// Version 2, but there is no systemd of the user's.
    NoManager,
    /// Version 1, or none.
    NotUnified,
}

/// The Windows Subsystem for Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wsl {
    /// It is not.
    No,
    /// Version 1, whose kernel has no namespaces.
    One,
    /// Version 2.
    Two,
}

impl Kernel {
    /// Reads the facts below `root`. `landlock_abi` is what the kernel answered when it was asked for its ABI.
    pub fn read(root: &Path, environment: &Environment, landlock_abi: Option<i32>) -> Self {
        let text = |path: &str| read_text(&below(root, Path::new(path))).map(|text| text.trim().to_owned());
        let release = text("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            landlock_abi,
            user_namespaces: user_namespaces(
                &text,
                below(root, Path::new("/proc/self/ns/user")).symlink_metadata().is_ok(),
            ),
            seccomp: seccomp(text("/proc/sys/kernel/seccomp/actions_avail").as_deref()),
            cgroup: cgroup(root, environment),
            wsl: wsl(&release),
            container: container(root, environment),
            release,
        }
    }
}

fn user_namespaces(text: &dyn Fn(&str) -> Option<String>, built_in: bool) -> UserNamespaces {
    let is = |path: &str, value: &str| text(path).as_deref() == Some(value);
    if !built_in {
        UserNamespaces::Absent
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        UserNamespaces::MaxIsZero
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        UserNamespaces::CloneSwitchedOff
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        UserNamespaces::AppArmor
    } else {
        UserNamespaces::Allowed
    }
}

fn seccomp(actions: Option<&str>) -> Seccomp {
    let actions: Vec<&str> = actions.unwrap_or_default().split_whitespace().collect();
    let needed = ["kill_process", "errno", "allow"];
    if needed.iter().all(|action| actions.contains(action)) { Seccomp::Complete } else { Seccomp::Lacking }
}

fn cgroup(root: &Path, environment: &Environment) -> Cgroup {
    if !below(root, Path::new("/sys/fs/cgroup/cgroup.controllers")).is_file() {
        return Cgroup::NotUnified;
    }
    let runtime = environment.var("XDG_RUNTIME_DIR").map(Path::new).filter(|dir| dir.is_absolute());
    let answers =
        runtime.is_some_and(|dir| ["systemd/private", "bus"].iter().any(|name| dir.join(name).exists()));
    if answers { Cgroup::UserSystemd } else { Cgroup::NoManager }
}

/// Version 1 calls itself "-Microsoft", version 2 "-microsoft-standard-WSL2".
fn wsl(release: &str) -> Wsl {
    if release.ends_with("-Microsoft") {
        Wsl::One
    } else if release.to_ascii_lowercase().contains("microsoft") {
        Wsl::Two
    } else {
        Wsl::No
    }
}

/// The name by which the container's engine makes itself known.
fn container(root: &Path, environment: &Environment) -> Option<String> {
    let exists = |path: &str| below(root, Path::new(path)).exists();
    let named =
        read_text(&below(root, Path::new("/run/systemd/container"))).map(|name| name.trim().to_owned());
    let named =
        named.filter(|name| !name.is_empty()).or_else(|| environment.text("container").map(str::to_owned));
    named
        .or_else(|| exists("/.dockerenv").then(|| "docker".to_owned()))
        .or_else(|| exists("/run/.containerenv").then(|| "podman".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::tests::machine;

    #[test]
    fn settings_that_forbid_user_namespaces_are_told_apart() {
        for (files, want) in [
            (vec![], UserNamespaces::Allowed),
            (vec![("user/max_user_namespaces", "0")], UserNamespaces::MaxIsZero),
            (vec![("user/max_user_namespaces", "15000")], UserNamespaces::Allowed),
            (vec![("kernel/unprivileged_userns_clone", "0")], UserNamespaces::CloneSwitchedOff),
            (vec![("kernel/unprivileged_userns_clone", "1")], UserNamespaces::Allowed),
            (vec![("kernel/apparmor_restrict_unprivileged_userns", "1")], UserNamespaces::AppArmor),
        ] {
            let (_dir, host) = machine();
            fs::create_dir_all(host.at("/proc/self/ns/user")).unwrap();
            for (name, value) in &files {
                let path = host.at(format!("/proc/sys/{name}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{value}\n")).unwrap();
            }
            let kernel = Kernel::read(&host.root, &host.environment, None);
            assert_eq!(kernel.user_namespaces, want, "{files:?}");
        }
        let (_dir, host) = machine();
        assert_eq!(Kernel::read(&host.root, &host.environment, None).user_namespaces, UserNamespaces::Absent);
    }

    #[test]
    fn releases_tell_wsl_apart() {
        for (release, want) in [
            ("4.4.0-19041-Microsoft", Wsl::One),
            ("5.15.90.1-microsoft-standard-WSL2", Wsl::Two),
            ("6.18.0", Wsl::No),
        ] {
            assert_eq!(wsl(release), want, "{release}");
        }
    }

    #[test]
    fn every_action_that_is_used_must_be_there() {
        assert_eq!(
            seccomp(Some("kill_process kill_thread trap errno user_notif trace log allow")),
            Seccomp::Complete
        );
        assert_eq!(seccomp(Some("kill_thread trap errno allow")), Seccomp::Lacking);
        assert_eq!(seccomp(None), Seccomp::Lacking);
    }

    #[test]
    fn limits_need_version_two_and_a_systemd_of_the_users() {
        let (_dir, mut host) = machine();
        assert_eq!(cgroup(&host.root, &host.environment), Cgroup::NotUnified);
        fs::create_dir_all(host.at("/sys/fs/cgroup")).unwrap();
        fs::write(host.at("/sys/fs/cgroup/cgroup.controllers"), "").unwrap();
        assert_eq!(cgroup(&host.root, &host.environment), Cgroup::NoManager);
        fs::create_dir_all(host.at("/run/user/1/systemd/private")).unwrap();
        host.environment.vars.insert("XDG_RUNTIME_DIR".into(), host.at("/run/user/1").into());
        assert_eq!(cgroup(&host.root, &host.environment), Cgroup::UserSystemd);
    }

    #[test]
    fn containers_are_recognised() {
        for (path, text, want) in [
            ("/.dockerenv", "", "docker"),
            ("/run/.containerenv", "", "podman"),
            ("/run/systemd/container", "lxc\n", "lxc"),
        ] {
            let (_dir, host) = machine();
            assert_eq!(container(&host.root, &host.environment), None);
            fs::create_dir_all(host.at("/run/systemd")).unwrap();
            fs::write(host.at(path), text).unwrap();
            assert_eq!(container(&host.root, &host.environment).as_deref(), Some(want));
        }
    }
}
