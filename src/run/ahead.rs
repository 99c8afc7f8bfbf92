//! What every launch needs, whatever was asked for, made beside the reading of the machine.

use std::sync::LazyLock;
use std::thread::JoinHandle;

use crate::error::Result;
use crate::host::{credentials, protected, system, toolchains};
use crate::plan::seccomp::{self, Arch, Debuggers};
use crate::policy::env;

/// The seccomp program of most profiles, on its way.
pub(super) struct Ahead(JoinHandle<Option<Vec<u8>>>);

impl Ahead {
    /// Begins.
    pub(super) fn start() -> Self {
        Self(std::thread::spawn(|| {
            // Whoever needs a table first parses it; here is most of the work of it.
            system::rows();
            toolchains::rows();
            LazyLock::force(&env::TABLE);
            LazyLock::force(&protected::table::TABLE);
            LazyLock::force(&credentials::TABLE);
            seccomp::program(Arch::native()?, Debuggers::Allowed).ok()
        }))
    }

    /// The program for `debuggers`.
    ///
    /// # Errors
    /// As [`seccomp::program`].
    pub(super) fn program(self, arch: Arch, debuggers: Debuggers) -> Result<Vec<u8>> {
        let made = self.0.join().ok().flatten();
        match made.filter(|_| Arch::native() == Some(arch) && debuggers == Debuggers::Allowed) {
            Some(program) => Ok(program),
            None => seccomp::program(arch, debuggers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_that_was_asked_for() {
        let Some(arch) = Arch::native() else { return };
        for debuggers in [Debuggers::Allowed, Debuggers::Refused] {
            let want = seccomp::program(arch, debuggers).unwrap();
            assert_eq!(Ahead::start().program(arch, debuggers).unwrap(), want);
        }
    }
}
