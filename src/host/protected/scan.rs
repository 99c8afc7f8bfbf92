//! The walk through a tree.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, access, openat, statat};
use rustix::io::Errno;

use super::channels::ChannelKind;
use super::finder::Finder;
use super::fold::folded;
use super::handover::Look;
use super::table::{TABLE, Where};
use crate::host::entries;

/// How deep directories are followed. What is deeper is held as a whole.
const DEPTH_LIMIT: usize = 64;
/// As long as a directory's path may be (bytes), so that the longest protected name in it still has one that the kernel takes
/// (4096).
const LONGEST: usize = 4096 - 256;
/// Why a part of an agent's state is held.
const STATE_PART: &str = "the agent runs it, or does what it says, outside the jail too";

/// What is looked for in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// The names of the table, and git directories.
    Sources,
    /// Git directories alone: names that tools make anew cannot be held without breaking them.
    Dependencies,
    /// Sockets and FIFOs, which are noted everywhere, and nothing else.
    Channels,
}

/// What a directory lists that matters.
#[derive(Default)]
struct Listing {
    directories: Vec<OsString>,
    /// Names with which rows begin.
    matched: Vec<OsString>,
    /// Names that may be those of secrets.
    secrets: Vec<(OsString, FileType)>,
    dot_git: bool,
    /// Which of `HEAD`, `config`, `hooks`, `objects` and `refs` there are.
    git_parts: [bool; 5],
}

/// The parts by which a git directory is recognised.
const GIT_PARTS: [&str; 5] = ["HEAD", "config", "hooks", "objects", "refs"];

impl Listing {
    /// A bare repository. `HEAD` need not be there: it is not held, and could be put back in a later jail.
    fn is_repository(&self) -> bool {
        let [head, config, hooks, objects, refs] = self.git_parts;
        objects && refs && (head || config || hooks)
    }
}

impl Finder<'_> {
    /// Searches the whole tree. The names of its root come first, so that no bound leaves them out.
    pub(super) fn tree(&mut self) {
        let scope = self.scope;
        if let Some(home) = self.below(scope.home).filter(|home| !home.as_os_str().is_empty()) {
            self.lookup(&home, Where::Root);
        }
        for part in scope.parts.iter().map(Path::new) {
            if self.place(Path::new(""), part, STATE_PART) && self.at(part).is_file() {
                self.named_scripts(Path::new(""), part);
            }
        }
        for settings in scope.settings {
            self.named_scripts(Path::new(""), settings);
        }
        self.tails();
        self.walk(Path::new(""), Area::Sources);
        // A walk that was cut short may have missed what matters most.
        if self.unsearched.is_some() {
            self.lookup(Path::new(""), Where::Root);
        }
    }

    /// What counts because of the tree's own name: below a granted `~/.claude` there is `settings.json`.
    fn tails(&mut self) {
        let root = self.scope.root;
        let rows: Vec<_> = self.names.all().collect();
        for row in rows {
            for (_, tail) in tails(root, row.path) {
                self.place(Path::new(""), tail, row.reason);
            }
        }
        for file in TABLE.named_scripts.files.iter().map(Path::new) {
            for (outer, tail) in tails(root, file) {
                self.scripts_of(&self.at(tail), outer);
            }
        }
    }

    /// Searches the directory `below`.
    pub(super) fn walk(&mut self, below: &Path, area: Area) {
        let path = self.at(below);
        self.enter(CWD.as_fd(), path.as_os_str(), below, area);
    }

    /// Every name of the table, one by one: for a directory that may not be listed, or not to its end.
    fn lookup(&mut self, below: &Path, place: Where) {
        for first in self.names.firsts() {
            self.rows(below, first, place);
        }
        self.dot_git(below);
    }

    fn enter(&mut self, parent: impl AsFd, name: &OsStr, below: &Path, area: Area) {
        let flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(parent, name, flags, Mode::empty()) {
            Ok(directory) => self.directory(&directory, below, area),
            Err(Errno::ACCESS | Errno::PERM) => {
                self.unlisted(below);
                if area == Area::Channels {
                    return;
                }
                let held = self.closed(below);
                if area == Area::Sources {
                    // What is held can be read all the same, by whoever knows its name.
                    self.secrets_by_name(below);
                    if !held {
                        self.lookup(below, Where::Anywhere);
                    }
                }
            }
            // It went away meanwhile.
            Err(error) if entries::is_gone(error) => {}
            Err(error) => self.incomplete(|| {
                format!("{} cannot be searched ({error})", crate::sanitize::escape(below.as_os_str()))
            }),
        }
    }

    /// A directory that cannot be listed: who may enter it all the same can use what is there by its name, and connect to
    /// a socket in it also where it is read-only.
    fn unlisted(&mut self, below: &Path) {
        let enters = || access(self.at(below), Access::EXEC_OK).is_ok();
        if self.scope.known.is_none() && enters() {
            self.incomplete(|| {
                format!("{} can be entered but not listed", crate::sanitize::escape(below.as_os_str()))
            });
        }
    }

    fn directory(&mut self, directory: &OwnedFd, below: &Path, area: Area) {
        let depth = below.components().count();
        if self.at(below).as_os_str().len() > LONGEST {
            self.hold_whole(
                below,
                "its path is too long for what is in it to be searched for protected paths",
            );
            self.incomplete(|| {
                let start: String =
                    crate::sanitize::escape(below.as_os_str()).to_string().chars().take(80).collect();
                format!("it has paths of more than {LONGEST} bytes ({start}...)")
            });
            return;
        }
        let mut look = self.look(directory, below, area);
        let Some(listing) = self.list(directory, below, area, look.as_mut()) else { return };
        if let Some(look) = look {
            self.looked(look, directory, below);
        }
        let place = if depth <= 1 { Where::Root } else { Where::Anywhere };
        for name in &listing.matched {
            self.rows(below, name, place);
        }
        for (name, kind) in &listing.secrets {
            self.secret(directory.as_fd(), below, name, *kind);
        }
        if listing.dot_git && area != Area::Channels {
            self.dot_git(below);
        }
        if listing.is_repository() && area != Area::Channels {
            self.repository(below);
        }
        if depth >= DEPTH_LIMIT && !listing.directories.is_empty() {
            self.hold_whole(below, "it is too deep to be searched for protected paths");
            self.incomplete(|| {
                let deep = crate::sanitize::escape(below.as_os_str()).to_string();
                format!("it has directories that are nested more than {DEPTH_LIMIT} deep ({deep})")
            });
            return;
        }
        for name in &listing.directories {
            let below = below.join(name);
            if self.scope.own.contains(&self.at(&below)) {
                continue;
            }
            // Git's own directories hold no settings of other tools, unless something was moved there.
            let area = match area {
                Area::Sources if name == ".git" || TABLE.dependencies.contain(name) => Area::Dependencies,
                area => area,
            };
            self.enter(directory, name, &below, area);
            if self.exhausted() {
                return;
            }
        }
    }

    /// `None` when the directory cannot be read to its end.
    fn list(
        &mut self,
        directory: &OwnedFd,
        below: &Path,
        area: Area,
        mut look: Option<&mut Look<'_>>,
    ) -> Option<Listing> {
        let mut listing = Listing::default();
        let read = entries::each(directory, &mut |name, entry| {
            if !self.count() {
                return ControlFlow::Break(());
            }
            // As a directory without case compares it; what it is taken for has to be there under that name.
            let folded = folded(name);
            let taken = folded.as_deref().unwrap_or(name);
            if let Some(part) = GIT_PARTS.iter().position(|part| name == *part) {
                listing.git_parts[part] = true;
            } else if let Some(part) = GIT_PARTS.iter().position(|part| taken.eq_ignore_ascii_case(part)) {
                listing.git_parts[part] |=
                    statat(directory, GIT_PARTS[part], AtFlags::SYMLINK_NOFOLLOW).is_ok();
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => FileType::Unknown,
                },
                kind => kind,
            };
            if let Some(look) = &mut look {
                look.entry(below, name, kind);
            }
            listing.dot_git |= taken == ".git";
            for name in [Some(name), folded.as_deref()].into_iter().flatten() {
                if area == Area::Sources && !self.names.rows(name).is_empty() {
                    listing.matched.push(name.to_owned());
                }
            }
            if area == Area::Sources && self.may_be_secret(name, kind) {
                listing.secrets.push((name.to_owned(), kind));
            }
            match kind {
                FileType::Socket => self.channel(below.join(name), ChannelKind::Socket),
                FileType::Fifo => self.channel(below.join(name), ChannelKind::Fifo),
                _ => {}
            }
            if kind == FileType::Directory {
                listing.directories.push(name.to_owned());
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.incomplete(|| {
                format!("{} cannot be read ({error})", crate::sanitize::escape(below.as_os_str()))
            });
            return None;
        }
        if self.exhausted() {
            return None;
        }
        Some(listing)
    }

    /// Protects what the rows that begin with `first` name in the directory `below`, and the scripts that such settings name.
    fn rows(&mut self, below: &Path, first: &OsStr, place: Where) {
        let mut found = false;
        // Few names match: the copy costs nothing.
        for row in self.names.rows(first).to_vec() {
            if row.place == Where::Anywhere || place == Where::Root {
                found |= self.place(below, row.path, row.reason);
            }
        }
        if found {
            for settings in self.names.settings(first).to_vec() {
                self.named_scripts(below, settings);
            }
        }
    }
}

/// Where `root` lies on the way that `name` describes: the directory in which it begins, and what is left of it below `root`.
fn tails<'r, 'n>(root: &'r Path, name: &'n Path) -> impl Iterator<Item = (&'r Path, &'n Path)> {
    name.ancestors().skip(1).filter(|head| !head.as_os_str().is_empty()).filter_map(move |head| {
        let outer = root.ends_with(head).then(|| root.ancestors().nth(head.iter().count()))??;
        Some((outer, name.strip_prefix(head).ok()?))
    })
}
