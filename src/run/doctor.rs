//! `ai-jail doctor`: looks, then builds a real jail.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::cli::{DoctorArgs, RunOptions};
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::host::bwrap::Bwrap;
use crate::host::distribution::Distribution;
use crate::host::doctor::{Check, Facts, Status, checks, refusal, verdict};
use crate::host::kernel::Kernel;
use crate::launch::keeper::Keeper;
use crate::launch::protocol::{LISTENERS, Reply, Request as Ask};
use crate::launch::start::{Supplies, held, order};
use crate::plan::late::Late;
use crate::report;
use crate::sanitize::escape;
use crate::sys::process::{own_signals, own_umask};
use crate::terminal::{Stream, Streams};

use super::ahead::Ahead;
use super::prepare::{Request, prepare};

/// How long bubblewrap may take to say its version.
const VERSION: Duration = Duration::from_secs(5);
/// How long the trial's command may take.
const TRIAL: Duration = Duration::from_secs(20);

/// Why a jail could not be built on this machine, with the command that mends it, when the machine is the reason.
pub(super) fn cause(error: Error) -> Error {
    if !matches!(error.kind(), Kind::Setup | Kind::Machine) {
        return error;
    }
    let Ok(host) = Host::read() else { return error };
    let kernel = Kernel::read(&host.root, &host.environment, crate::sys::landlock::abi());
    let bwrap = Bwrap::find(&host.environment.path_entries());
    let version = bwrap.as_ref().ok().map(|bwrap| bwrap.version(VERSION));
    let here = Distribution::here(&host.root, kernel.wsl);
    let trial = Some(Err(error.clone()));
    let mut checks = checks(&Facts { kernel: &kernel, bwrap: &bwrap, version, trial });
    // The last check is the launch itself, which the error tells better.
    checks.pop();
    refusal(&checks, here).unwrap_or(error)
}

/// The same for an error that came before anything was built.
pub(super) fn machine(error: Error) -> Error {
    if error.kind() == Kind::Machine { cause(error) } else { error }
}

/// Checks the machine. Returns 0 when a jail can be built, 125 otherwise.
pub fn doctor(arguments: &DoctorArgs) -> Result<u8> {
    super::refuse_nesting()?;
    let host = Host::read()?;
    let kernel = Kernel::read(&host.root, &host.environment, crate::sys::landlock::abi());
    let bwrap = Bwrap::find(&host.environment.path_entries());
    let version = bwrap.as_ref().ok().map(|bwrap| bwrap.version(VERSION));
    let trial = bwrap.is_ok().then(trial);
    let checks = checks(&Facts { kernel: &kernel, bwrap: &bwrap, version, trial });
    let here = Distribution::here(&host.root, kernel.wsl);
    let text = if arguments.json {
        let ready = verdict(&checks) != Status::Missing;
        let text = format!("{:#}\n", json!({ "ready": ready, "distribution": here, "checks": checks }));
        crate::sanitize::json(&text)
    } else {
        checks.iter().map(|check| line(check, here)).collect()
    };
    report::output(text.as_bytes())?;
    Ok(if verdict(&checks) == Status::Missing { Kind::Machine.exit_code() } else { 0 })
}

fn line(check: &Check, here: Option<Distribution>) -> String {
    let status = match check.status {
        Status::Ok => "ok     ",
        Status::Notice => "notice ",
        Status::Missing => "MISSING",
    };
    let mut line = format!("{status} {}: {}", check.name, escape(&check.detail));
    if let (Some(fix), true) = (here.and_then(|here| check.fix_for(here)), check.status != Status::Ok) {
        let _ = write!(line, "\n        fix: {fix}");
    }
    line.push('\n');
    line
}

/// Builds a jail as a launch does, with its mounts and listeners, and runs `true` in it. AppArmor, for one, may allow
/// bubblewrap and not us: only this shows it.
fn trial() -> Result<()> {
    let place = TrialPlace::new()?;
    let options = RunOptions {
        project: Some(place.0.clone()),
        home: Some(crate::config::settings::HomeMode::Ephemeral),
        state: Some(crate::config::settings::StateMode::None),
        network: Some(crate::config::settings::NetworkMode::Filtered),
        ..RunOptions::default()
    };
    let (umask, ignored) = (own_umask(), own_signals());
    let keeper = Keeper::start()?;
    let prepared = prepare(
        &Host::read()?,
        &Request { options: &options, command: &[OsString::from("true")], umask, ignored },
        Ahead::start(),
    )?;
    let streams = Streams { stdin: Stream::Other, stdout: Stream::Other, stderr: Stream::Other };
    let supplies = Supplies { data: &prepared.data, covered: &prepared.covered, sources: &prepared.sources };
    let plan = prepared.plan.completed(&Late::empty(&prepared.plan))?;
    let _points = order(&keeper, &plan, &supplies, &streams, None)?;
    let held = held(&keeper)?;
    if held.listeners.len() != LISTENERS {
        return Err(Error::new(
            Kind::Machine,
            "the listeners in the jail's network namespace could not be made",
        ));
    }
    keeper.ask(&Ask::Go, &[])?;
    loop {
        match keeper.reply(TRIAL)?.0 {
            Reply::Started => {}
            Reply::Ended(0) => return Ok(()),
            Reply::Failed { what, why } => return Err(Error::new(Kind::Setup, what).because(why)),
            other => {
                return Err(Error::new(Kind::Setup, "a command in the jail did not end well")
                    .because(format!("{other:?}")));
            }
        }
    }
}

/// A directory of our own with something to protect in it, gone afterwards.
struct TrialPlace(PathBuf);

impl TrialPlace {
    fn new() -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(Kind::Setup, "cannot make a directory for the trial").because(error)
        };
        let base = std::env::temp_dir();
        for attempt in 0..100 {
            let place = base.join(format!("ai-jail-doctor-{}-{attempt}", std::process::id()));
            match std::fs::create_dir(&place) {
                Ok(()) => {
                    let place = Self(place.canonicalize().map_err(failed)?);
                    std::fs::create_dir(place.0.join(".vscode")).map_err(failed)?;
                    return Ok(place);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::new(Kind::Setup, "cannot make a directory for the trial").because("every name is taken"))
    }
}

impl Drop for TrialPlace {
    fn drop(&mut self) {
        // Only what was made above: never a tree.
        let _ = std::fs::remove_dir(self.0.join(".vscode"));
        let _ = std::fs::remove_dir(&self.0);
    }
}
