//! The table of refused system calls, `presets/syscalls.toml`, as types.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Arch, Debuggers};

use crate::presets::preset;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The highest number that was reviewed; what lies above does not exist in the jail.
    pub newest: u32,
    /// The rows.
    pub refuse: Vec<Row>,
    /// The number of each call of the rows.
    pub numbers: BTreeMap<String, Numbers>,
}

/// Calls that are refused for one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Their names.
    pub calls: Vec<String>,
    /// The errno that the caller sees.
    pub answer: Answer,
    /// The one architecture that has these calls, when not all have them.
    pub only: Option<Arch>,
    /// The fact about the profile that the row depends on, if any.
    pub debuggers: Option<Debuggers>,
    /// The alternatives under which the call passes; each holds when all of its conditions hold. Empty: it never passes.
    #[serde(default)]
    pub pass: Vec<Vec<Condition>>,
    /// Why.
    pub reason: String,
}

/// The errno of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Answer {
    /// Forbidden.
    #[serde(rename = "EPERM")]
    Forbidden,
    /// There is no such call.
    #[serde(rename = "ENOSYS")]
    Absent,
}

/// One comparison with the low 32 bits of an argument (counted from zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Condition {
    /// The bits of `mask` have the value `eq`.
    Masked {
        /// The argument.
        arg: u8,
        /// The bits that count.
        mask: u32,
        /// Their value.
        eq: u32,
    },
    /// The argument is `eq`.
    Equal {
        /// The argument.
        arg: u8,
        /// The value.
        eq: u32,
    },
    /// The argument is not `ne`.
    Differs {
        /// The argument.
        arg: u8,
        /// The value.
        ne: u32,
    },
}

/// The number of a call on each architecture that has it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Numbers {
    /// The number on `arch`, when the call exists there.
    pub fn on(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// A call that the program treats specially.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'table> {
    /// Its name.
    pub name: &'table str,
    /// Its number on the architecture in question.
    pub number: u32,
    /// Its row.
    pub row: &'table Row,
}

/// What is wrong with the table. It is compiled in, so this is a defect of the program.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is not of the expected shape.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// A call has no number although its row does not say that this architecture lacks it.
    #[error("{0} has no number")]
    Numberless(String),
    /// Two rows name the same call.
    #[error("{0} has two rows")]
    Twice(String),
}

impl Table {
    /// The table that is compiled in. Fails only when it was edited into nonsense.
    pub fn built_in() -> Result<Self, Fault> {
        Ok(serde_json::from_str(preset!("syscalls"))?)
    }

    /// The refused calls of `arch` by rising number, for a profile with these `debuggers`. Fails when a row names a call without a
    /// number, or a call twice.
    pub fn refused(&self, arch: Arch, debuggers: Debuggers) -> Result<Vec<Refused<'_>>, Fault> {
        let mut by_number = BTreeMap::new();
        for row in &self.refuse {
            if row.only.is_some_and(|only| only != arch)
                || row.debuggers.is_some_and(|only| only != debuggers)
            {
                continue;
            }
            for name in &row.calls {
                let number = self
                    .numbers
                    .get(name)
                    .and_then(|numbers| numbers.on(arch))
                    .ok_or_else(|| Fault::Numberless(name.clone()))?;
                if by_number.insert(number, Refused { name, number, row }).is_some() {
                    return Err(Fault::Twice(name.clone()));
                }
            }
        }
        Ok(by_number.into_values().collect())
    }
}
