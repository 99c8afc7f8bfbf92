//! The subcommands: each is the way of its data through the rooms.

mod ahead;
mod doctor;
mod explain;
mod handover;
mod masking;
mod prepare;
mod quarantine;
mod secrets;
mod session;
mod start_line;

pub use self::doctor::doctor;
pub use self::explain::explain;
pub use self::quarantine::quarantine;

use crate::cli::RunArgs;
use crate::error::{Error, Kind, Result};
use crate::guard::{Places, sweep_abandoned};
use crate::host::Host;
use crate::launch::keeper::Keeper;
use crate::plan::show;
use crate::report::{self, Reporter, Verbosity};
use crate::sys::process::{own_signals, own_umask};

use self::ahead::Ahead;
use self::masking::Revokes;
use self::prepare::{Prepared, Request, prepare};

/// Runs the command in a jail, or shows with `--dry-run` what that would mean. Returns the exit status.
pub fn run(arguments: &RunArgs) -> Result<u8> {
    refuse_nesting()?;
    let (umask, ignored) = (own_umask(), own_signals());
    // Started before anything is read, so that it is ready when the plan is; and before there is a second thread.
    let keeper = if arguments.dry_run { None } else { Some(Keeper::start()?) };
    let ahead = Ahead::start();
    let host = Host::read()?;
    // Before anything is looked at: what a killed session left in protected places is not to be taken for the user's.
    let swept = match keeper {
        Some(_) => sweep_abandoned(&Places::new(&host.xdg("XDG_STATE_HOME", ".local/state").join("ai-jail"))),
        None => Vec::new(),
    };
    let reporter = Reporter::new(arguments.loudness.verbosity());
    // At once: this launch may fail, and the next one finds nothing.
    swept.iter().for_each(|line| reporter.warn(line));
    let request = Request { options: &arguments.options, command: &arguments.command, umask, ignored };
    let prepared = Prepared { swept, ..prepare(&host, &request, ahead).map_err(doctor::machine)? };
    match keeper {
        Some(keeper) => {
            let mut revokes = Revokes::default();
            let ended = session::run(keeper, &host, &prepared, &mut revokes, &reporter);
            // After an error, or when it was over before it began.
            revokes.run().iter().for_each(|line| reporter.warn(line));
            ended
        }
        None if arguments.json => {
            masking::attempt(&host, &prepared)?;
            let concealed = masking::concealed(&host, &prepared);
            report::output_json(&format!("{:#}", show::json(&prepared.policy, &prepared.plan, &concealed)))
        }
        None => {
            masking::attempt(&host, &prepared)?;
            let concealed = masking::concealed(&host, &prepared);
            let mut text = show::rules(&prepared.policy, &concealed);
            if arguments.loudness.verbosity() == Verbosity::Verbose {
                text.push_str(&show::operations(&prepared.plan));
            }
            report::output(text.as_bytes())
        }
    }
}

/// A jail inside a jail would promise what it cannot keep.
pub(super) fn refuse_nesting() -> Result<()> {
    if std::env::var_os("AI_JAIL").is_some() && std::path::Path::new("/run/ai-jail/about").exists() {
        return Err(Error::new(Kind::Refused, "this is the inside of an ai-jail already")
            .because("a jail cannot be built in a jail")
            .hint("run the command as it is; /run/ai-jail/about says what is allowed here"));
    }
    Ok(())
}
