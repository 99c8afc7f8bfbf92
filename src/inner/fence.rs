//! The Landlock domain: reading and running stay free, writing is only beneath what is writable.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AddRuleError, AddRulesError, BitFlags, CompatLevel, Compatible, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

use super::failed;
use crate::plan::inner::{InnerLandlock, StageReport};

const STEP: &str = "Landlock";

/// Raises the fence that `landlock` asks for around this thread, the only one. Fails unless the kernel enforces all of it.
pub fn raise(landlock: &InnerLandlock) -> Result<(), StageReport> {
    let InnerLandlock::Enforce { abi, writable } = landlock else {
        return Ok(());
    };
    let abi = ABI::from(*abi);
    if abi == ABI::Unsupported {
        return Err(failed(STEP, "the order names no version"));
    }
    let mut ruleset = handle(abi).map_err(|error| failed(STEP, error))?;
    for path in writable {
        allow_path(&mut ruleset, abi, path)?;
    }
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        allow_stream(&mut ruleset, abi, stream)?;
    }
    let status = ruleset.restrict_self().map_err(|error| failed(STEP, error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(failed(STEP, format!("the kernel says {other:?}"))),
    }
}

/// Every right to write that this version knows, and everything it can scope.
fn handle(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(abi))?;
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}

fn allow_path(ruleset: &mut RulesetCreated, abi: ABI, path: &Path) -> Result<(), StageReport> {
    let refused = |error: &dyn std::fmt::Display| failed(STEP, format!("{}: {error}", path.display()));
    let fd = PathFd::new(path).map_err(|error| refused(&error))?;
    let status = fstat(&fd).map_err(|error| refused(&error))?;
    let mut rights = AccessFs::from_write(abi);
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        rights &= AccessFs::from_file(abi);
    }
    add(ruleset, fd, rights).map_err(|error| refused(&error))
}

/// A stream that is open for writing may be opened again by its name: scripts write to /dev/stderr, and the terminal or the file
/// behind it lies outside every writable path. This gives nothing that the open descriptor does not give.
fn allow_stream(ruleset: &mut RulesetCreated, abi: ABI, stream: BorrowedFd<'_>) -> Result<(), StageReport> {
    // A stream may be closed.
    let (Ok(flags), Ok(status)) = (fcntl_getfl(stream), fstat(stream)) else {
        return Ok(());
    };
    let writing = flags.intersects(OFlags::WRONLY | OFlags::RDWR) && !flags.contains(OFlags::PATH);
    let rights = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => AccessFs::from_file(abi) & AccessFs::from_write(abi) & !device_rights(abi),
        FileType::CharacterDevice => AccessFs::from_file(abi) & AccessFs::from_write(abi),
        _ => return Ok(()),
    };
    if !writing {
        return Ok(());
    }
    match add(ruleset, stream, rights) {
        // The kernel takes no rule for a file without a place, such as a memfd, and asks for none.
        Err(RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })))
            if source.raw_os_error() == Some(libc::EBADFD) =>
        {
            Ok(())
        }
        result => result.map_err(|error| failed(STEP, error)),
    }
}

fn add(ruleset: &mut RulesetCreated, fd: impl AsFd, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
    ruleset.add_rule(PathBeneath::new(fd, rights)).map(|_| ())
}

/// What makes sense for devices only.
fn device_rights(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi) & AccessFs::IoctlDev
}
