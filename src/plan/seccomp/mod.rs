//! The seccomp program: a table of refused calls becomes the bytes that `bwrap --seccomp` reads.
//!
//! Shape: architecture check; one comparison for everything above the reviewed numbers (x32 included); a balanced tree over the
//! rest. The kernel keeps a bitmap of the calls that pass whatever their arguments are and does not run the program for
//! them; it is run for the few whose arguments count, among them `openat` and `ioctl`, and the tree keeps those short.

mod compile;
#[cfg(test)]
mod machine;
pub mod table;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use crate::error::{Error, Kind, Result};

/// The architectures we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Arch {
    /// AMD and Intel, 64 bits.
    #[serde(rename = "x86_64")]
    X86_64,
    /// ARM, 64 bits.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Arch {
    /// The architecture that this program was built for; `None` on one that we do not know.
    pub fn native() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

/// Whether processes of the jail may trace each other (KERN-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Debuggers {
    /// They may. Only together with a Landlock domain, which keeps pid 1 out of reach.
    Allowed,
    /// They may not.
    Refused,
}

/// The program for `arch` as `struct sock_filter` records in native byte order, eight bytes each. Fails only when the table that is
/// compiled in is broken.
pub fn program(arch: Arch, debuggers: Debuggers) -> Result<Vec<u8>> {
    let defect = |why: &dyn std::fmt::Display| {
        Error::new(Kind::Setup, "cannot build the seccomp program").because(why)
    };
    let table = table::Table::built_in().map_err(|fault| defect(&fault))?;
    let refused = table.refused(arch, debuggers).map_err(|fault| defect(&fault))?;
    let instructions = compile::compile(arch, table.newest, &refused).map_err(|fault| defect(&fault))?;
    Ok(instructions
        .iter()
        .flat_map(|instruction| {
            let [code0, code1] = instruction.code.to_ne_bytes();
            let [k0, k1, k2, k3] = instruction.k.to_ne_bytes();
            [code0, code1, instruction.jt, instruction.jf, k0, k1, k2, k3]
        })
        .collect())
}
