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

use self::door::Door;
use crate::plan::inner::{InnerSpec, StageReport};
use crate::sys::descriptor;

/// The most bytes of an order: arguments of the kernel's own limit (2 MiB), as JSON numbers, and room for paths.
const MAX_SPEC: u64 = 16 << 20;

/// Runs the stage. `args` are the arguments after the hidden first one, numbers of inherited descriptors: the door (a connected
/// UNIX socket whose other end has SO_PASSCRED), the order (a file with an [`InnerSpec`] as JSON), and, when bwrap's own standard
/// error is not the command's, the command's.
///
/// Returns only when the command does not run, with the exit status: 125, 126 or 127. Why is said over the door as a
/// [`StageReport`], and on standard error when nobody is behind the door any more.
pub fn run(args: &[OsString]) -> u8 {
    let Inherited { mut door, order } = match inherit(args) {
        Ok(inherited) => inherited,
        Err(failure) => return complain(&failure),
    };
    let Err(failure) = prepare_and_exec(&mut door, order);
    if door.report(&failure).is_ok() { failure.exit_code() } else { complain(&failure) }
}

struct Inherited {
    door: Door,
    order: File,
}

fn inherit(args: &[OsString]) -> Result<Inherited, StageReport> {
    let wrong = |why: &str| failed("the in-jail stage, which is not for people", why);
    let numbers: Option<Vec<i32>> = args.iter().map(|arg| arg.to_str()?.parse().ok()).collect();
    let numbers = numbers.ok_or_else(|| wrong("an argument is no descriptor"))?;
    // A number may be taken over once.
    if numbers
        .iter()
        .enumerate()
        .any(|(index, number)| numbers.iter().skip(index + 1).any(|other| other == number))
    {
        return Err(wrong("a descriptor is named twice"));
    }
    let take = |number: &i32| {
        descriptor::adopt(*number).map_err(|error| failed("a descriptor of the in-jail stage", error))
    };
    let (door, order) = match numbers.as_slice() {
        [door, order] => (door, order),
        [door, order, stderr] => {
            rustix::stdio::dup2_stderr(take(stderr)?).map_err(|error| failed("standard error", error))?;
            (door, order)
        }
        _ => return Err(wrong("it takes two or three descriptors")),
    };
    Ok(Inherited { door: Door::new(take(door)?), order: take(order)?.into() })
}

fn prepare_and_exec(door: &mut Door, order: File) -> Result<std::convert::Infallible, StageReport> {
    door.announce()?;
    let spec = read(order)?;
    door.wait_for_leave()?;
    // Not before: the directory may lie on a mount that was made while the door was held.
    rustix::process::chdir(spec.cwd.as_slice()).map_err(|error| failed("the current directory", error))?;
    limits::take_terminal(spec.terminal)?;
    limits::apply(&spec.rlimits, spec.umask)?;
    fence::raise(&spec.landlock)?;
    limits::check_confinement()?;
    exec::exec(&spec.program, &spec.argv, &spec.ignored)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_refuses_what_it_was_not_given_by_the_launcher() {
        for args in
            [&[][..], &["3"], &["x", "y"], &["3", "3"], &["1", "2"], &["-1", "99999"], &["3", "4", "5", "6"]]
        {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(run(&args), 125, "{args:?}");
        }
    }
}
