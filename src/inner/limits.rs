//! Small steps: the terminal's foreground, resource limits, and the proof that what bwrap was to do was done.

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::Mode;
use rustix::process::{Resource as Kernel, Rlimit as Limit, getpgrp, setpgid, setrlimit, umask};
use rustix::termios::{isatty, tcsetpgrp};
use rustix::thread::{
    CapabilitySet, SecureComputingMode, capabilities, capability_is_in_bounding_set, no_new_privs,
    secure_computing_mode,
};

use super::failed;
use crate::plan::inner::{InnerTerminal, Resource, Rlimit, StageReport};

/// Makes a process group of our own and gives it the foreground of the terminal, which is on one of the standard streams. Fails when
/// there is none that lets us.
pub fn take_terminal(terminal: InnerTerminal) -> Result<(), StageReport> {
    if terminal == InnerTerminal::None {
        return Ok(());
    }
    let step = "the terminal";
    setpgid(None, None).map_err(|error| failed(step, error))?;
    // A background process that changes the foreground is stopped by SIGTTOU. The mask is emptied before exec.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTOU);
    stop.thread_block().map_err(|error| failed(step, error))?;
    let mut why = "no standard stream is a terminal".to_owned();
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        if isatty(stream) {
            match tcsetpgrp(stream, getpgrp()) {
                Ok(()) => return Ok(()),
                Err(error) => why = error.to_string(),
            }
        }
    }
    Err(failed(step, why))
}

/// Sets the soft and the hard value of each limit, and the umask.
pub fn apply(limits: &[Rlimit], mask: u32) -> Result<(), StageReport> {
    for Rlimit { resource, limit } in limits {
        let (kernel, name) = match resource {
            Resource::Core => (Kernel::Core, "the limit of core files"),
            Resource::Files => (Kernel::Nofile, "the limit of open descriptors"),
        };
        setrlimit(kernel, Limit { current: Some(*limit), maximum: Some(*limit) })
            .map_err(|error| failed(name, format!("{limit} cannot be set: {error}")))?;
    }
    umask(Mode::from_bits_truncate(mask));
    Ok(())
}

/// Proves that this process is filtered, cannot gain privileges and has no capability, now or later.
pub fn check_confinement() -> Result<(), StageReport> {
    let step = "the confinement by bwrap";
    let ask = |error| failed(step, error);
    if secure_computing_mode().map_err(ask)? != SecureComputingMode::Filter {
        return Err(failed(step, "no seccomp filter is in force"));
    }
    if !no_new_privs().map_err(ask)? {
        return Err(failed(step, "no_new_privs is not set"));
    }
    let held = capabilities(None).map_err(ask)?;
    if !(held.effective | held.permitted | held.inheritable).is_empty() {
        return Err(failed(step, "capabilities are held"));
    }
    for bit in 0..64 {
        match capability_is_in_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(false) => {}
            Ok(true) => return Err(failed(step, format!("capability {bit} is in the bounding set"))),
            // Above the last capability of this kernel.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(failed(step, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_cannot_be_set_is_an_error() {
        // Above fs.nr_open, which binds root too.
        let report = apply(&[Rlimit { resource: Resource::Files, limit: u64::MAX - 1 }], 0o022).unwrap_err();
        assert!(report.why().contains("open descriptors"), "{report:?}");
    }
}
