//! What stands in the place of what is covered: files and directories that hold nothing, on mounts that nobody can write.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;

use crate::plan::operation::{Hole, Veil};
use crate::sys::namespace::{MountLimit, restrict_mount};

use super::{Failure, Place, beneath, clone_of, failed, mount_onto, plain};

/// Each cover: its name, its kind, what it is for, its mode.
const KINDS: [(&str, FileType, Veil, Mode); 4] = [
    ("empty-file", FileType::RegularFile, Veil::Empty, Mode::from_raw_mode(0o444)),
    ("empty-directory", FileType::Directory, Veil::Empty, Mode::from_raw_mode(0o555)),
    ("closed-file", FileType::RegularFile, Veil::Closed, Mode::empty()),
    ("closed-directory", FileType::Directory, Veil::Closed, Mode::empty()),
];

/// Covers of all kinds, made in the staging area when first needed.
pub(super) struct Covers<'a> {
    staging: Option<&'a Path>,
    /// The directory of the covers, and each of them by its position in [`KINDS`].
    made: Option<(OwnedFd, Vec<OwnedFd>)>,
    /// How many directories with mount points were made.
    holed: usize,
}

impl<'a> Covers<'a> {
    pub(super) fn new(staging: Option<&'a Path>) -> Self {
        Self { staging, made: None, holed: 0 }
    }

    /// A mount of the right cover for an object of this kind, read-only.
    fn of(&mut self, kind: FileType, veil: Veil) -> Result<OwnedFd, Failure> {
        let position = position(kind, veil);
        let (_, made) = self.made()?;
        cloned(&made[position])
    }

    /// Makes the covers visible at `path`, so that more can be cloned when the staging area is gone.
    pub(super) fn store(&mut self, path: &Path) -> Result<(), Failure> {
        let (directory, _) = self.made()?;
        let clone = cloned(directory)?;
        let place = plain(path, OFlags::DIRECTORY).map_err(|error| failed("open", path, error))?;
        mount_onto(&clone, &place).map_err(|error| failed("mount", path, error))
    }

    fn made(&mut self) -> Result<&(OwnedFd, Vec<OwnedFd>), Failure> {
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                let directory = make_directory(&self.staging()?, "covers")?;
                let made = KINDS.iter().map(|(name, kind, _, mode)| {
                    let made = make(&directory, Path::new(name), *kind)?;
                    fchmod(&made, *mode)?;
                    Ok(beneath(directory.as_fd(), Path::new(name))?)
                });
                let made = made.collect::<Result<_, Failure>>()?;
                fchmod(&directory, Mode::from_raw_mode(0o555))?;
                (directory, made)
            }
        };
        Ok(self.made.insert(made))
    }

    /// A directory that holds nothing but mount points.
    fn holed(&mut self, veil: Veil, holes: &[Hole]) -> Result<OwnedFd, Failure> {
        let mode = match veil {
            Veil::Empty => Mode::from_raw_mode(0o555),
            // What is in it is found by its name, and not listed.
            Veil::Closed => Mode::from_raw_mode(0o111),
        };
        let directory = make_directory(&self.staging()?, &format!("holed-{}", self.holed))?;
        self.holed += 1;
        let mut parents = Vec::new();
        for hole in holes {
            let mut current = directory.try_clone()?;
            let names: Vec<_> = hole.below.iter().collect();
            for (index, name) in names.iter().enumerate() {
                let kind = if index + 1 < names.len() || hole.is_directory {
                    FileType::Directory
                } else {
                    FileType::RegularFile
                };
                current = make(&current, Path::new(name), kind)?;
                if kind == FileType::Directory {
                    parents.push(current.try_clone()?);
                }
            }
        }
        for made in parents.iter().chain([&directory]) {
            fchmod(made, mode)?;
        }
        cloned(&directory)
    }

    fn staging(&self) -> Result<OwnedFd, Failure> {
        let Some(staging) = self.staging else {
            return Err(Failure::new("nothing can be hidden", "there is no staging area"));
        };
        Ok(openat(CWD, staging, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }
}

/// Where in [`KINDS`] the cover for an object of this kind is.
fn position(kind: FileType, veil: Veil) -> usize {
    let kind = if kind == FileType::Directory { FileType::Directory } else { FileType::RegularFile };
    KINDS.iter().position(|(_, own, of, _)| (*own, *of) == (kind, veil)).unwrap_or_default()
}

fn cloned(object: &OwnedFd) -> Result<OwnedFd, Failure> {
    let clone = clone_of(object)?;
    restrict_mount(clone.as_fd(), MountLimit::ReadOnly)
        .map_err(|error| Failure::new("cannot restrict what covers a path", error))?;
    Ok(clone)
}

fn make_directory(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Failure> {
    make(parent, Path::new(name), FileType::Directory)
}

/// Makes and opens a directory or a file; one that is there already will do.
fn make(parent: &OwnedFd, name: &Path, kind: FileType) -> Result<OwnedFd, Failure> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if kind == FileType::Directory {
        match mkdirat(parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        return Ok(openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | flags, Mode::empty())?);
    }
    Ok(openat(parent, name, OFlags::CREATE | OFlags::RDONLY | flags, Mode::RUSR | Mode::WUSR)?)
}

/// Covers one path.
pub(super) fn hide(
    place: &Place<'_>,
    veil: Veil,
    holes: &[Hole],
    covers: &mut Covers<'_>,
) -> Result<(), Failure> {
    let object = match place.open() {
        Ok(object) => object,
        // There is nothing to hide.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(failed("open", &place.path(), error)),
    };
    let kind = FileType::from_raw_mode(fstat(&object)?.st_mode);
    let cover = if holes.is_empty() { covers.of(kind, veil)? } else { covers.holed(veil, holes)? };
    mount_onto(&cover, &object).map_err(|error| failed("hide", &place.path(), error))
}

/// A cover for an object of this kind from the store in the jail, at `store`.
pub(super) fn from_store(store: &Path, object: &OwnedFd, veil: Veil) -> Result<OwnedFd, Errno> {
    let kind = FileType::from_raw_mode(fstat(object)?.st_mode);
    let (name, ..) = KINDS[position(kind, veil)];
    clone_of(&plain(&store.join(name), OFlags::empty())?)
}
