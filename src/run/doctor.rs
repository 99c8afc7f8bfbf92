//! `ai-jail doctor`.

use crate::cli::DoctorArgs;
use crate::error::Result;

/// Checks the machine. Returns 0 when a jail can be built, 125 otherwise.
pub fn doctor(_arguments: &DoctorArgs) -> Result<u8> {
    unreachable!()
}
