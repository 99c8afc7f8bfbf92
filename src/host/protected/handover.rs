//! What a session made or changed, seen on the walk that sweeps after it (FS-14), and modes that no file may keep (KERN-10).
//!
//! A session that changed nothing pays one `fstat` for each directory, and one for each file of the table's kinds. Where
//! names came or went, which the kernel writes on the directory, every file in it is looked at.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Stat, fstat, readlinkat, statat};

use super::finder::Finder;
use super::scan::Area;
use crate::host::handover::{Handed, Kind, Launch, Moment, What, kind_by_name, kind_of_all};

/// How much of one sort is noted. More of it is not counted, and hides nothing of another sort.
const HANDED_LIMIT: usize = 10_000;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Whether a walk looks at what is handed over.
#[derive(Debug, Clone, Copy, Default)]
pub enum Handover<'a> {
    /// It does not.
    #[default]
    No,
    /// It notes which files of the table's kinds there are: before a session.
    Note,
    /// It compares with what was there: after the session.
    Compare(&'a Launch),
}

/// One directory, while it is listed.
pub(super) struct Look<'a> {
    launch: Option<&'a Launch>,
    /// Whether names came or went since the launch.
    changed: bool,
    of_all: Option<&'static Kind>,
    area: Area,
    files: Vec<(OsString, Option<&'static Kind>)>,
}

impl<'a> Finder<'a> {
    /// Begins with a directory; `None` when nothing is looked for.
    pub(super) fn look(&self, directory: &OwnedFd, below: &Path, area: Area) -> Option<Look<'a>> {
        let launch = match self.scope.handover {
            Handover::No => return None,
            Handover::Note if area == Area::Dependencies => return None,
            Handover::Note => None,
            Handover::Compare(launch) => Some(launch),
        };
        let changed = launch.is_some_and(|launch| {
            fstat(directory).is_ok_and(|stat| Moment::of_change(&stat) >= launch.since)
        });
        let of_all = if area == Area::Sources { kind_of_all(below) } else { None };
        Some(Look { launch, changed, of_all, area, files: Vec::new() })
    }

    /// Looks at what `look` collected in the directory.
    pub(super) fn looked(&mut self, look: Look<'_>, directory: &OwnedFd, below: &Path) {
        let Some(launch) = look.launch else {
            self.handover_known.extend(look.files.into_iter().map(|(name, _)| below.join(name)));
            return;
        };
        for (name, kind) in look.files {
            let Ok(stat) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let place = below.join(&name);
            let is_new = Moment::of_change(&stat) >= launch.since;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    if stat.st_mode & SET_ID != 0 && is_new {
                        self.modes.push(place.clone());
                    }
                    if look.area == Area::Sources {
                        self.file(launch, place, kind, &stat, is_new);
                    }
                }
                FileType::Symlink if is_new && look.area == Area::Sources => {
                    let target = readlinkat(directory, &name, Vec::new()).map(|target| target.into_bytes());
                    if target.is_ok_and(|target| self.leads_out(below, &target)) {
                        self.hand(What::Symlink, place);
                    } else if let Some(kind) = kind {
                        self.hand(What::of(kind), place);
                    }
                }
                FileType::CharacterDevice | FileType::BlockDevice if is_new => self.modes.push(place),
                _ => {}
            }
        }
    }

    fn file(
        &mut self,
        launch: &Launch,
        place: PathBuf,
        kind: Option<&'static Kind>,
        stat: &Stat,
        is_new: bool,
    ) {
        if let Some(kind) = kind
            && launch.is_handed(self.scope.root, &place, kind, stat)
        {
            self.hand(What::of(kind), place);
        } else if is_new && stat.st_mode & 0o111 != 0 {
            self.hand(What::Executable, place);
        }
    }

    fn hand(&mut self, what: What, below: PathBuf) {
        let count = self.handed_counts.entry(what).or_default();
        *count += 1;
        if *count <= HANDED_LIMIT {
            self.handed.push(Handed { what, below });
        }
    }

    /// Whether a symlink in the directory `below` leads out of the tree, through whatever it leads.
    fn leads_out(&self, below: &Path, target: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let from = self.at(below).join(OsStr::from_bytes(target));
        match from.canonicalize() {
            Ok(real) => !real.starts_with(self.scope.root),
            // It leads nowhere yet.
            Err(_) => !plain(&from).starts_with(self.scope.root),
        }
    }
}

impl Look<'_> {
    /// Takes one entry in.
    pub(super) fn entry(&mut self, below: &Path, name: &OsStr, kind: FileType) {
        if kind == FileType::Directory {
            return;
        }
        let known = match (self.area, self.of_all) {
            (Area::Dependencies | Area::Channels, _) => None,
            (Area::Sources, Some(kind)) => Some(kind),
            (Area::Sources, None) => kind_by_name(below, name),
        };
        if known.is_some() || self.changed {
            self.files.push((name.to_owned(), known));
        }
    }
}

/// A path without `.` and `..`, by its text alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::protected::Scope;

    #[test]
    fn much_of_one_sort_hides_nothing_of_another() {
        let scope = Scope {
            root: Path::new("/nonexistent"),
            more: &[],
            parts: &[],
            settings: &[],
            home: Path::new("/nonexistent"),
            uid: 0,
            own: &[],
            secrets: None,
            handover: Handover::No,
            known: None,
        };
        let mut finder = Finder::new(&scope);
        for number in 0..HANDED_LIMIT + 10 {
            finder.hand(What::Executable, number.to_string().into());
        }
        finder.hand(What::Kind(0), "last".into());
        let handed = finder.finish().handed;
        assert_eq!(handed.len(), HANDED_LIMIT + 1);
        assert!(handed.contains(&Handed { what: What::Kind(0), below: "last".into() }));
    }
}
