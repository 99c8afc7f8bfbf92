//! The project's secrets files over one session: what was masked is recorded and remembered, and looked for in git's index
//! at the end (FS-16).

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, open};

use crate::audit::NoteKind;
use crate::guard::masked;
use crate::host::protected;
use crate::host::secrets::tracked::now_tracked;
use crate::policy::secrets::{SecretRule, Standing};
use crate::report::Reporter;
use crate::sanitize::escape;

use super::prepare::Prepared;
use super::session::{Record, note};

/// Records in the log of one session about single files.
const RECORDS: usize = 100;
/// Masked files that are followed.
const DESCRIPTORS: usize = 256;
/// Files that one line names.
const NAMED: usize = 3;

/// The masked files of a session. What each is stays known when a directory above it is renamed: its mount goes along.
pub(super) struct Masked(Vec<(PathBuf, Option<OwnedFd>)>);

/// Records what is masked, and remembers it for later sessions.
pub(super) fn begin(prepared: &Prepared, record: &Record, reporter: &Reporter) -> Masked {
    let Prepared { policy, state, .. } = prepared;
    let secrets = &policy.secrets;
    for secret in secrets.iter().take(RECORDS) {
        let how = if secret.is_masked() { "masked" } else { "not masked" };
        let text = format!("{} is {how}: {}", escape(secret.path.as_os_str()), secret.why());
        record.add(&note(NoteKind::Secret, &text));
    }
    if let Some(more) = secrets.len().checked_sub(RECORDS).filter(|more| *more > 0) {
        record.add(&note(NoteKind::Secret, &format!("and {more} more files that hold secrets")));
    }
    let paths = |wanted: &dyn Fn(&SecretRule) -> bool| -> Vec<PathBuf> {
        secrets.iter().filter(|secret| wanted(secret)).map(|secret| secret.path.clone()).collect()
    };
    let masked = paths(&SecretRule::is_masked);
    let tracked = paths(&|secret| secret.standing == Standing::Tracked);
    if let Err(error) = masked::remember(state, &policy.project, &masked, &tracked) {
        reporter.warn(&format!("{error}; if the jail adds one to git's index, the next session may show it"));
    }
    let untracked = secrets.iter().filter(|secret| secret.standing == Standing::Masked);
    let open =
        |path: &Path| open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok();
    let opened = untracked
        .enumerate()
        .map(|(at, secret)| (secret.below.clone(), if at < DESCRIPTORS { open(&secret.path) } else { None }));
    Masked(opened.collect())
}

impl Masked {
    /// Names what has come to a place that is not searched, and what git tracks now: it was added there empty.
    pub(super) fn finish(self, prepared: &Prepared) -> Vec<String> {
        let root = &prepared.policy.project;
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut moves = Vec::new();
        for (below, descriptor) in self.0 {
            let now = descriptor.and_then(|descriptor| place(&descriptor));
            let moved = now.and_then(|now| now.strip_prefix(root).ok().map(Path::to_path_buf));
            if let Some(moved) = moved.filter(|moved| *moved != below) {
                let hides = |name: &OsStr| name == ".git" || protected::TABLE.dependencies.contain(name);
                if moved.parent().is_some_and(|parent| parent.iter().any(hides)) {
                    moves.push((below.clone(), moved.clone()));
                }
                paths.push(moved);
            }
            paths.push(below);
        }
        let line = moves.first().map(|(below, moved)| {
            let (below, moved) = (escape(below.as_os_str()), escape(moved.as_os_str()));
            let more = match moves.len() {
                1 => String::new(),
                many => format!(" (and {} more like it)", many - 1),
            };
            format!(
                "{below}, which was masked, is at {moved} now, where secrets are not searched for: move it back{more}"
            )
        });
        line.into_iter().chain(staged(prepared, &paths)).collect()
    }
}

/// Where an open file is; `None` when it was removed.
fn place(descriptor: &OwnedFd) -> Option<PathBuf> {
    let link = Path::new("/proc/self/fd").join(descriptor.as_raw_fd().to_string());
    let now = std::fs::read_link(link).ok()?;
    let (is, was) = (now.symlink_metadata().ok()?, fstat(descriptor).ok()?);
    (is.dev() == was.st_dev && is.ino() == was.st_ino).then_some(now)
}

/// Names what is in git's index now and was not at launch.
fn staged(prepared: &Prepared, masked: &[PathBuf]) -> Option<String> {
    if masked.is_empty() {
        return None;
    }
    let now = now_tracked(&prepared.policy.project, prepared.git.as_ref(), masked);
    let staged: Vec<String> = masked
        .iter()
        .zip(now)
        .filter(|(_, now)| *now)
        .map(|(path, _)| escape(path.as_os_str()).to_string())
        .collect();
    let first = staged.first()?;
    let more = staged.len().saturating_sub(NAMED);
    let shown = staged[..staged.len() - more].join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "git tracks {shown}{more} now, which was masked and so was added empty: run `git rm --cached -f -- {first}`, and amend \
         the commit if there is one"
    ))
}
