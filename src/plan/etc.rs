//! What of the system is mounted at the held door instead of by bubblewrap.
//!
//! Bubblewrap reads the table of all mounts once per bind mount, a tenth of a millisecond each, and a system has dozens of
//! entries in `/etc`. So it binds `/etc` once, in the staging area, and the entries are cloned from there: a hundredth.

use std::path::{Path, PathBuf};

use crate::plan::mounts::STAGING;
use crate::plan::operation::{Access, BindSource, BwrapOp, DoorOp};

const ETC: &str = "/etc";

/// Takes the binds of entries of the host's `/etc` out of `operations`, of the system, as far as `others` have nothing to do
/// with them. Returns what bubblewrap binds instead, and what is done at the door.
pub fn take(operations: &mut Vec<BwrapOp>, others: &[BwrapOp]) -> (Option<BwrapOp>, Vec<DoorOp>) {
    let staged = Path::new(STAGING).join("etc");
    let all = operations.iter().chain(others);
    let dests: Vec<PathBuf> = all.filter_map(|operation| operation.placed().map(Path::to_path_buf)).collect();
    let mut shows = Vec::new();
    operations.retain(|operation| match show(operation, &dests, &staged) {
        Some(show) => {
            shows.push(show);
            false
        }
        None => true,
    });
    let bind = (!shows.is_empty()).then(|| BwrapOp::Bind {
        source: BindSource::System(ETC.into()),
        dest: staged,
        access: Access::ReadOnly,
    });
    (bind, shows)
}

/// An entry of `/etc` with which nothing else that is mounted has to do: what lies in it, or it in, has an order to keep.
fn show(operation: &BwrapOp, dests: &[PathBuf], staged: &Path) -> Option<DoorOp> {
    let BwrapOp::Bind { source: BindSource::System(source), dest, access: Access::ReadOnly } = operation
    else {
        return None;
    };
    let part = source.strip_prefix(ETC).ok().filter(|part| !part.as_os_str().is_empty())?;
    let alone = dest.starts_with(ETC)
        && dests.iter().filter(|other| other.starts_with(dest) || dest.starts_with(other)).count() == 1;
    alone.then(|| DoorOp::Show {
        staged: staged.to_path_buf(),
        part: part.to_path_buf(),
        dest: dest.clone(),
        host: source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::operation::Content;

    fn bind(source: &str, dest: &str, access: Access) -> BwrapOp {
        BwrapOp::Bind { source: BindSource::System(source.into()), dest: dest.into(), access }
    }

    fn cover(dest: &str) -> BwrapOp {
        BwrapOp::Cover { content: Content::Bytes(Vec::new()), dest: dest.into() }
    }

    #[test]
    fn entries_of_etc_are_shown_at_the_door_unless_something_else_is_mounted_in_or_over_them() {
        let ro = Access::ReadOnly;
        let mut operations = vec![
            bind("/usr", "/usr", ro),
            bind("/etc/fonts", "/etc/fonts", ro),
            bind("/usr/lib/os-release", "/etc/os-release", ro),
            bind("/etc/ssl/certs", "/etc/ssl/certs", ro),
            cover("/etc/ssl/certs/ca-certificates.crt"),
            bind("/etc/static/services", "/etc/services", ro),
            bind("/etc/perl", "/etc/perl", ro),
            bind("/home/ann/perl", "/etc/perl/Net", ro),
            bind("/etc/vim", "/etc/vim", Access::Writable),
            bind("/etc/xml", "/opt/xml", ro),
            bind("/etc/groff", "/etc/groff", ro),
        ];
        let (bound, shows) = take(&mut operations, &[bind("/home/ann/x", "/etc/groff/site", ro)]);
        let shown: Vec<_> = shows
            .iter()
            .map(|show| match show {
                DoorOp::Show { part, dest, .. } => (part.to_str().unwrap(), dest.to_str().unwrap()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, [("fonts", "/etc/fonts"), ("static/services", "/etc/services")]);
        assert_eq!(bound, Some(bind("/etc", "/run/.ai-jail-staging/etc", ro)));
        assert_eq!(operations.len(), 9);
    }

    #[test]
    fn what_the_user_mounts_over_etc_stays_above() {
        for over in [bind("/srv/etc", "/etc", Access::Writable), BwrapOp::Tmpfs("/etc".into(), 0o755)] {
            let mut operations = vec![bind("/etc/fonts", "/etc/fonts", Access::ReadOnly)];
            assert_eq!(take(&mut operations, &[over]), (None, Vec::new()));
            assert_eq!(operations.len(), 1);
        }
    }
}
