//! What a session hands over to the user's trust (FS-14), in the log and in one line.

use std::path::{Path, PathBuf};

use crate::audit::{Event, Note, NoteKind};
use crate::guard::handover::HandedOver;
use crate::host::handover::What;
use crate::host::secrets::tracked::tracked_directories;
use crate::report::Reporter;

use super::prepare::Prepared;
use super::session::Record;

/// Records in the log of one session about single files.
const RECORDS: usize = 1000;

/// Records what is handed over.
pub(super) fn report(prepared: &Prepared, mut handed: HandedOver, record: &Record, reporter: &Reporter) {
    programs(prepared, &mut handed);
    let mut count = 0;
    for (what, root, below) in handed.iter() {
        count += 1;
        let path = root.join(below).to_string_lossy().into_owned();
        reporter.detail(&format!("handed over: {path} ({})", what.name()));
        if count <= RECORDS {
            let text = format!("new or changed: {}", what.name());
            record.add(&Event::Note(Note { kind: NoteKind::HandOver, path: Some(path), text }));
        }
    }
    if let Some(text) = handed.line() {
        record.add(&Event::Note(Note { kind: NoteKind::HandOver, path: None, text }));
    }
}

/// Leaves out programs that lie where git tracks nothing: what a build makes is made anew.
fn programs(prepared: &Prepared, handed: &mut HandedOver) {
    let project = &prepared.policy.project;
    let directories: Vec<PathBuf> = handed
        .iter()
        .filter(|(what, root, _)| *what == What::Executable && root == project)
        .filter_map(|(_, _, below)| below.parent().map(Path::to_path_buf))
        .collect();
    if directories.is_empty() {
        return;
    }
    let tracked = tracked_directories(project, prepared.git.as_ref(), &directories);
    let mut tracked = tracked.into_iter();
    handed.retain(|what, root, _| {
        what != What::Executable || root != project || tracked.next().unwrap_or(true)
    });
}
