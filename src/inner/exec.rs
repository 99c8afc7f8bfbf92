//! The last step: a clean process, and then the command.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::signal::SigSet;

use super::failed;
use crate::plan::inner::StageReport;
use crate::sys::process;

/// Becomes `program`, an absolute path, with the arguments `argv` (the zeroth included) and the environment as it is; the signals `ignored` are,
/// every other has its default disposition. A file that
/// the kernel cannot execute is not given to a shell. Returns only on failure.
pub fn exec(program: &[u8], argv: &[Vec<u8>], ignored: &[i32]) -> Result<Infallible, StageReport> {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|error| failed("the command line", error));
    let path = c_string(program)?;
    let argv = argv.iter().map(|arg| c_string(arg)).collect::<Result<Vec<_>, _>>()?;
    process::close_on_exec_above_stdio().map_err(|error| failed("closing descriptors", error))?;
    process::reset_signal_dispositions(ignored);
    SigSet::empty().thread_set_mask().map_err(|error| failed("the signal mask", error))?;

    let Err(errno) = nix::unistd::execv(&path, &argv);
    Err(StageReport::NotExecuted {
        errno: errno as i32,
        found: Path::new(OsStr::from_bytes(program)).symlink_metadata().is_ok(),
    })
}
