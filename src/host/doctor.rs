//! What this machine can enforce, what is missing, and how to fix it.

use serde::Serialize;

use super::bwrap::{Bwrap, OLDEST};
use super::distribution::Distribution;
use super::fixes::{APPARMOR, CLONE, INSTALL, LANDLOCK, LINGER, MAX_NAMESPACES, UNIFIED, UPGRADE, WSL2};
use super::kernel::{Cgroup, Kernel, Seccomp, UserNamespaces, Wsl};
use crate::error::{Error, Kind, Result};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is there.
    Ok,
    /// Something is weaker or cannot be asked for, but a jail can be built.
    Notice,
    /// No jail can be built.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What, in a few words.
    pub name: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// The command that fixes it, by distribution. Empty when nothing is to be fixed, or no command does it.
    pub fix: Vec<Fix>,
}

/// A command for one distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// Where.
    pub distribution: Distribution,
    /// What to type, or what to put where.
    pub command: &'static str,
}

impl Check {
    /// The command for `here`, when there is one.
    pub fn fix_for(&self, here: Distribution) -> Option<&'static str> {
        self.fix.iter().find(|fix| fix.distribution == here).map(|fix| fix.command)
    }
}

/// What was found out about this machine. Every part is made elsewhere, so that the checks themselves look at nothing.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The kernel and its settings.
    pub kernel: &'a Kernel,
    /// The bwrap that would be run.
    pub bwrap: &'a Result<Bwrap>,
    /// Its version, when it was asked.
    pub version: Option<Result<(u32, u32, u32)>>,
    /// What came of building a real jail with its namespace helper, a mount and a listener; `None` when it was not tried.
    pub trial: Option<Result<()>>,
}

/// The checks, in the order in which they are printed.
pub fn checks(facts: &Facts<'_>) -> Vec<Check> {
    let mut checks = vec![bwrap(facts.bwrap)];
    checks.extend(facts.version.as_ref().map(version));
    checks.extend([
        user_namespaces(facts.kernel, facts.trial.as_ref()),
        seccomp(facts.kernel),
        landlock(facts.kernel),
        cgroup(facts.kernel),
    ]);
    checks.extend(surroundings(facts.kernel));
    checks.extend(facts.trial.as_ref().map(trial));
    checks
}

/// The worst of the checks: the jail works when it is not [`Status::Missing`].
pub fn verdict(checks: &[Check]) -> Status {
    checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
}

/// The error for a launch that failed because the machine lacks something: the first check that says so, with the command
/// for `here`. `None` when no check does.
pub fn refusal(checks: &[Check], here: Option<Distribution>) -> Option<Error> {
    let check = checks.iter().find(|check| check.status == Status::Missing)?;
    let error = Error::new(Kind::Machine, format!("this machine cannot build a jail: {}", check.name));
    let error = error.because(&check.detail);
    Some(match here.and_then(|here| check.fix_for(here)) {
        Some(command) => error.hint(format!("to fix it: {command}")),
        None => error.hint("`ai-jail doctor --json` has the commands for other distributions"),
    })
}

fn bwrap(found: &Result<Bwrap>) -> Check {
    match found {
        Ok(bwrap) => ok("bubblewrap", bwrap.path.display().to_string()),
        Err(error) => missing("bubblewrap", error.to_string(), INSTALL),
    }
}

fn version(found: &Result<(u32, u32, u32)>) -> Check {
    let name = "bubblewrap version";
    let (oldest, shown) =
        (OLDEST, |(major, minor, patch): (u32, u32, u32)| format!("{major}.{minor}.{patch}"));
    match found {
        Ok(version) if *version >= oldest => ok(name, shown(*version)),
        Ok(version) => {
            missing(name, format!("{} is too old: {} is needed", shown(*version), shown(oldest)), UPGRADE)
        }
        Err(error) => missing(name, error.to_string(), UPGRADE),
    }
}

fn user_namespaces(kernel: &Kernel, trial: Option<&Result<()>>) -> Check {
    let name = "user namespaces";
    match kernel.user_namespaces {
        UserNamespaces::Allowed => ok(name, "allowed".into()),
        UserNamespaces::MaxIsZero => {
            missing(name, "forbidden: user.max_user_namespaces is 0".into(), MAX_NAMESPACES)
        }
        UserNamespaces::CloneSwitchedOff => {
            missing(name, "forbidden: kernel.unprivileged_userns_clone is 0".into(), CLONE)
        }
        // A profile may allow both programs: only the trial knows.
        UserNamespaces::AppArmor if matches!(trial, Some(Ok(()))) => {
            ok(name, "restricted by AppArmor, whose profiles allow bwrap and ai-jail".into())
        }
        UserNamespaces::AppArmor => {
            let detail =
                "restricted by AppArmor: bwrap and ai-jail each need a profile that allows them".into();
            let status = if trial.is_some() { Status::Missing } else { Status::Notice };
            Check { status, ..missing(name, detail, APPARMOR) }
        }
        UserNamespaces::Absent => missing(name, "this kernel has none".into(), &[]),
    }
}

fn seccomp(kernel: &Kernel) -> Check {
    match kernel.seccomp {
        Seccomp::Complete => ok("seccomp", "every action that is used".into()),
        Seccomp::Lacking => missing("seccomp", "this kernel has no filters, or not every action".into(), &[]),
    }
}

fn landlock(kernel: &Kernel) -> Check {
    match kernel.landlock_abi {
        Some(abi) if abi >= 6 => ok("Landlock", format!("ABI {abi}")),
        Some(abi) => notice(
            "Landlock",
            format!("ABI {abi}: abstract sockets and signals are not scoped before 6"),
            &[],
        ),
        None => notice("Landlock", "none: the profiles strict and lockdown are refused".into(), LANDLOCK),
    }
}

fn cgroup(kernel: &Kernel) -> Check {
    match kernel.cgroup {
        Cgroup::UserSystemd => ok("limits", "cgroup v2 through the systemd of the user".into()),
        Cgroup::NoManager => notice(
            "limits",
            "no systemd of the user: limits of memory, processes and processors are refused".into(),
            LINGER,
        ),
        Cgroup::NotUnified => notice(
            "limits",
            "no cgroup v2: limits of memory, processes and processors are refused".into(),
            UNIFIED,
        ),
    }
}

fn surroundings(kernel: &Kernel) -> Vec<Check> {
    let wsl = match kernel.wsl {
        Wsl::No => None,
        Wsl::One => Some(missing("WSL", "version 1, whose kernel has no namespaces".into(), WSL2)),
        Wsl::Two => Some(ok("WSL", "version 2".into())),
    };
    let container = kernel.container.as_ref().map(|engine| {
        let detail =
            format!("inside {engine}: it may forbid user namespaces or a new /proc (see weaker_nested)");
        notice("container", detail, &[])
    });
    wsl.into_iter().chain(container).collect()
}

fn trial(outcome: &Result<()>) -> Check {
    let name = "a real jail";
    match outcome {
        Ok(()) => ok(name, "built with its helper, a mount and a listener".into()),
        Err(error) => missing(name, error.to_string(), &[]),
    }
}

fn ok(name: &'static str, detail: String) -> Check {
    Check { name, status: Status::Ok, detail, fix: Vec::new() }
}

fn notice(name: &'static str, detail: String, fix: &[Fix]) -> Check {
    Check { name, status: Status::Notice, detail, fix: fix.to_vec() }
}

fn missing(name: &'static str, detail: String, fix: &[Fix]) -> Check {
    Check { name, status: Status::Missing, detail, fix: fix.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            release: "6.18.0".into(),
            landlock_abi: Some(7),
            user_namespaces: UserNamespaces::Allowed,
            seccomp: Seccomp::Complete,
            cgroup: Cgroup::UserSystemd,
            wsl: Wsl::No,
            container: None,
        }
    }

    fn good() -> Result<Bwrap> {
        Ok(Bwrap { path: "/usr/bin/bwrap".into() })
    }

    fn refused() -> Error {
        Error::new(Kind::Machine, "no")
    }

    fn run(kernel: Kernel, version: (u32, u32, u32), trial: Option<Result<()>>) -> Vec<Check> {
        checks(&Facts { kernel: &kernel, bwrap: &good(), version: Some(Ok(version)), trial })
    }

    #[test]
    fn a_whole_machine_passes() {
        let checks = run(kernel(), (0, 8, 0), Some(Ok(())));
        assert_eq!(verdict(&checks), Status::Ok, "{checks:?}");
        assert!(checks.iter().all(|check| check.fix.is_empty()));
    }

    #[test]
    fn what_is_missing_is_told_apart_from_what_is_weaker() {
        for (change, name, status) in [
            (
                Kernel { user_namespaces: UserNamespaces::MaxIsZero, ..kernel() },
                "user namespaces",
                Status::Missing,
            ),
            (
                Kernel { user_namespaces: UserNamespaces::CloneSwitchedOff, ..kernel() },
                "user namespaces",
                Status::Missing,
            ),
            (
                Kernel { user_namespaces: UserNamespaces::Absent, ..kernel() },
                "user namespaces",
                Status::Missing,
            ),
            (
                Kernel { user_namespaces: UserNamespaces::AppArmor, ..kernel() },
                "user namespaces",
                Status::Notice,
            ),
            (Kernel { seccomp: Seccomp::Lacking, ..kernel() }, "seccomp", Status::Missing),
            (Kernel { landlock_abi: None, ..kernel() }, "Landlock", Status::Notice),
            (Kernel { landlock_abi: Some(3), ..kernel() }, "Landlock", Status::Notice),
            (Kernel { cgroup: Cgroup::NoManager, ..kernel() }, "limits", Status::Notice),
            (Kernel { cgroup: Cgroup::NotUnified, ..kernel() }, "limits", Status::Notice),
            (Kernel { wsl: Wsl::One, ..kernel() }, "WSL", Status::Missing),
            (Kernel { container: Some("docker".into()), ..kernel() }, "container", Status::Notice),
        ] {
            let checks = run(change.clone(), (0, 11, 0), None);
            let bad: Vec<_> = checks.iter().filter(|check| check.status != Status::Ok).collect();
            assert_eq!(bad.len(), 1, "{change:?}");
            assert_eq!((bad[0].name, bad[0].status), (name, status));
        }
    }

    #[test]
    fn a_launch_error_names_the_first_cause_and_its_command() {
        let fine = run(kernel(), (0, 8, 0), None);
        assert_eq!(refusal(&fine, Some(Distribution::Debian)), None);
        let bad =
            Kernel { user_namespaces: UserNamespaces::CloneSwitchedOff, landlock_abi: None, ..kernel() };
        let error = refusal(&run(bad, (0, 8, 0), None), Some(Distribution::Debian)).unwrap();
        assert_eq!(error.kind(), Kind::Machine);
        assert!(error.to_string().contains("kernel.unprivileged_userns_clone=1"), "{error}");
    }

    #[test]
    fn the_trial_decides_what_apparmor_allows() {
        for (trial, want) in [(Ok(()), Status::Ok), (Err(refused()), Status::Missing)] {
            let kernel = Kernel { user_namespaces: UserNamespaces::AppArmor, ..kernel() };
            let checks = run(kernel, (0, 9, 0), Some(trial));
            let check = checks.iter().find(|check| check.name == "user namespaces").unwrap();
            assert_eq!(check.status, want);
            assert_eq!(check.fix_for(Distribution::Ubuntu).is_some(), want == Status::Missing);
        }
    }

    #[test]
    fn an_old_or_absent_bwrap_names_the_command() {
        let checks = run(kernel(), (0, 4, 1), None);
        let old = checks.iter().find(|check| check.name == "bubblewrap version").unwrap();
        assert_eq!(old.status, Status::Missing);
        assert!(old.detail.contains("0.4.1") && old.detail.contains("0.8.0"), "{}", old.detail);
        let absent = checks_of_absent();
        assert_eq!(absent[0].fix_for(Distribution::Alpine), Some("sudo apk add bubblewrap"));
        assert_eq!(verdict(&absent), Status::Missing);
    }

    fn checks_of_absent() -> Vec<Check> {
        checks(&Facts { kernel: &kernel(), bwrap: &Err(refused()), version: None, trial: None })
    }

    #[test]
    fn a_jail_that_could_not_be_built_is_the_verdict() {
        let checks = run(kernel(), (0, 8, 0), Some(Err(refused())));
        assert_eq!(verdict(&checks), Status::Missing);
        let json = serde_json::to_string(&checks).unwrap();
        assert!(json.contains("\"status\":\"missing\""), "{json}");
    }
}
