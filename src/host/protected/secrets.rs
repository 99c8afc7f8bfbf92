//! The files of a tree that hold secrets: found on the same walk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::finder::Finder;
use crate::host::secrets::Row;
use crate::host::secrets::content::HEAD;

/// Files whose contents a walk looks at.
const LOOK_LIMIT: usize = 20_000;
/// Secrets that are masked: each is a mount.
const SECRET_LIMIT: usize = 4_000;

impl Finder<'_> {
    /// Whether a directory entry may be a secret, by its name and kind.
    pub(super) fn may_be_secret(&self, name: &OsStr, kind: FileType) -> bool {
        let Some(catalogue) = self.scope.secrets else { return false };
        matches!(kind, FileType::RegularFile | FileType::Symlink) && !catalogue.rows(name).is_empty()
    }

    /// Looks at one such entry of the directory `below`, which `parent` is.
    pub(super) fn secret(&mut self, parent: BorrowedFd<'_>, below: &Path, name: &OsStr, kind: FileType) {
        let Some(catalogue) = self.scope.secrets else { return };
        let rows = catalogue.rows(name);
        let place = below.join(name);
        if kind != FileType::Symlink {
            return self.judge(parent, name, place, &rows);
        }
        // What it leads to counts, where that lies in the tree: elsewhere it is not there inside. Git's own files keep
        // their names, and are nobody's secrets.
        let Some(real) = self.at(&place).canonicalize().ok().and_then(|real| self.below(&real)) else {
            return;
        };
        if !real.iter().any(|part| part == ".git") {
            self.judge(CWD, self.at(&real).as_os_str(), real, &rows);
        }
    }

    /// The exact names of the table in a directory that cannot be listed but may be entered.
    pub(super) fn secrets_by_name(&mut self, below: &Path) {
        let Some(catalogue) = self.scope.secrets else { return };
        let path = self.at(below);
        for name in catalogue.exact() {
            if let Ok(stat) = statat(CWD, path.join(name), AtFlags::SYMLINK_NOFOLLOW) {
                let place = below.join(name);
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => {
                        self.judge(CWD, path.join(name).as_os_str(), place, &catalogue.rows(name));
                    }
                    kind => self.secret(CWD, below, name, kind),
                }
            }
        }
    }

    /// Notes the file as a secret when one of `rows` says so.
    fn judge(&mut self, parent: BorrowedFd<'_>, name: &OsStr, place: PathBuf, rows: &[&'static Row]) {
        if self.secrets.contains_key(&place) {
            return;
        }
        let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        // An empty one holds nothing, and may be filled by the agent.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size == 0 {
            return;
        }
        let mut head = None;
        let row = rows.iter().find(|row| match row.holds {
            None => true,
            Some(holds) => match head.get_or_insert_with(|| self.head(parent, name)) {
                Ok(bytes) => holds.is_in(bytes),
                // The user's own can be opened from inside, by `chmod`.
                Err(Errno::ACCESS | Errno::PERM) => stat.st_uid == self.scope.uid,
                Err(_) => false,
            },
        });
        let Some(row) = row else { return };
        if self.secrets.len() >= SECRET_LIMIT {
            return self.incomplete(|| format!("it has more than {SECRET_LIMIT} files that hold secrets"));
        }
        self.secrets.insert(place, &row.reason);
    }

    /// The beginning of a regular file.
    fn head(&mut self, parent: BorrowedFd<'_>, name: &OsStr) -> Result<Vec<u8>, Errno> {
        self.looked_into += 1;
        if self.looked_into > LOOK_LIMIT {
            self.incomplete(|| {
                format!("it has more than {LOOK_LIMIT} files whose contents have to be looked at for secrets")
            });
            return Ok(Vec::new());
        }
        // A FIFO or a device in the file's place must not hold the launch up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(parent, name, flags, Mode::empty())?);
        let mut bytes = Vec::with_capacity(HEAD);
        let read = file.take(HEAD as u64).read_to_end(&mut bytes);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(bytes)
    }
}
