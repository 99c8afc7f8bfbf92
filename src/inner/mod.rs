//! The in-jail stage: what runs between the held door and exec. It imports nothing but `plan::inner` and `sys`.
//!
//! bwrap starts it as the command, inside every namespace and mount and already under the seccomp program. It announces itself, waits
//! for leave, gives up what the command may not have, and becomes the command. Nothing of it remains.

mod door;
mod exec;
mod fence;
mod limits;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};

use crate::plan::inner::{InnerSpec, StageReport};
use crate::sys::process;

/// The most bytes of an order: arguments of the kernel's own limit (2 MiB), as JSON numbers, and room for paths.
const MAX_SPEC: u64 = 16 << 20;

/// Runs the stage. `args` are the arguments after the hidden first one: the descriptor of the door (a connected UNIX socket whose
/// other end has SO_PASSCRED) and that of the order (a file with an [`InnerSpec`] as JSON).
///
/// Returns only when the command does not run, with the exit status: 125, 126 or 127. Why is said over the door as a
/// [`StageReport`], and on standard error when nobody is behind the door any more.
pub fn run(args: &[OsString]) -> u8 {
    let (mut door, order) = match descriptors(args) {
        Ok(both) => both,
        Err(failure) => return complain(&failure),
    };
    let Err(failure) = prepare_and_exec(&mut door, order);
    if door.report(&failure).is_ok() { failure.exit_code() } else { complain(&failure) }
}

fn descriptors(args: &[OsString]) -> Result<(door::Door, File), StageReport> {
    let number = |arg: &OsString| arg.to_str()?.parse().ok();
    let [door, order] = args else {
        return Err(failed("the in-jail stage", "it takes two descriptors and is not for people"));
    };
    let (Some(door), Some(order)) = (number(door), number(order)) else {
        return Err(failed("the in-jail stage", "its arguments are no descriptors"));
    };
    if door == order {
        return Err(failed("the in-jail stage", "its arguments are the same descriptor"));
    }
    let take =
        |fd| process::inherited(fd).map_err(|error| failed("a descriptor of the in-jail stage", error));
    Ok((door::Door::new(take(door)?), take(order)?.into()))
}

fn prepare_and_exec(door: &mut door::Door, order: File) -> Result<std::convert::Infallible, StageReport> {
    door.announce()?;
    let spec = read(order)?;
    door.wait_for_leave()?;
    limits::take_terminal(spec.terminal)?;
    limits::apply(&spec.rlimits, spec.umask)?;
    fence::raise(&spec.landlock)?;
    limits::check_confinement()?;
    exec::exec(&spec.program, &spec.argv)
}

/// Reads the order and closes it.
fn read(mut order: File) -> Result<InnerSpec, StageReport> {
    let unreadable = |error: &dyn std::fmt::Display| failed("the order for the in-jail stage", error);
    let mut json = Vec::new();
    order.rewind().map_err(|error| unreadable(&error))?;
    order.take(MAX_SPEC + 1).read_to_end(&mut json).map_err(|error| unreadable(&error))?;
    if json.len() as u64 > MAX_SPEC {
        return Err(unreadable(&"it is too long"));
    }
    serde_json::from_slice(&json).map_err(|error| unreadable(&error))
}

fn complain(failure: &StageReport) -> u8 {
    // Standard error may be closed; the exit status tells as well.
    let _ = writeln!(std::io::stderr(), "ai-jail: the command was not started; {}", failure.why());
    failure.exit_code()
}

fn failed(step: &str, why: impl std::fmt::Display) -> StageReport {
    StageReport::NotPrepared(format!("{step}: {why}"))
}
