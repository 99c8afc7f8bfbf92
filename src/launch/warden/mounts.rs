//! The mounts inside trees that others can change: by descriptor, at the held door.
//!
//! Every destination is opened component by component beneath the root of the mount that holds it, with no symlink
//! anywhere, and mounted onto as the object that was opened. What others do to names meanwhile changes nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, mkdirat, openat, openat2,
    renameat_with, statat, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_remount, move_mount, open_tree, unmount,
};

use crate::plan::operation::{Access, DoorOp, Missing};
use crate::sys::namespace::{MountLimit, restrict_mount};

use super::Failure;

mod cover;
mod hide;

pub(super) use self::cover::{cover, cover_by_about, uncovered};
use self::hide::{Covers, hide};

/// How many random names are tried for what is moved aside.
const ASIDE_ATTEMPTS: usize = 16;
/// As much of the old name is kept in it (bytes).
const ASIDE_NAME: usize = 200;

/// Which object on which file system: what was checked before the launch and what was mounted must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(descriptor: &OwnedFd) -> Result<Self, Failure> {
        let stat = fstat(descriptor)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// Carries out the operations in order and takes the staging area away. Returns what the user should know.
pub(super) fn finish(
    operations: &[DoorOp],
    sources: &[Identity],
    staging: Option<&Path>,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let mut covers = Covers::new(staging);
    for operation in operations {
        match operation {
            DoorOp::Verify { path, source, host } => verify(path, sources.get(*source), host)?,
            DoorOp::Place { staged, root, below, missing, access } => {
                place(staged, &Place { root, below }, *missing, *access, &mut notes)?
            }
            DoorOp::Show { staged, part, dest, host } => show(staged, part, dest, host)?,
            DoorOp::Link { shown, dest } => link(shown, dest)?,
            DoorOp::SealRoot => seal_root()?,
            DoorOp::Pin { root, below, access } => pin(&Place { root, below }, *access)?,
            DoorOp::Seal { root, below } => seal(&Place { root, below })?,
            DoorOp::Hide { root, below, veil, holes } => {
                hide(&Place { root, below }, *veil, holes, &mut covers)?
            }
            DoorOp::Store { path } => covers.store(path)?,
        }
    }
    if let Some(staging) = staging {
        unmount(staging, UnmountFlags::DETACH).map_err(|error| failed("take away", staging, error))?;
        rustix::fs::rmdir(staging).map_err(|error| failed("remove", staging, error))?;
    }
    // No descriptor or directory of the jail's is held longer than needed, so that its own mounts can go.
    Ok(notes)
}

/// A destination: a path below the root of a mount.
struct Place<'a> {
    root: &'a Path,
    below: &'a Path,
}

impl Place<'_> {
    fn path(&self) -> PathBuf {
        if self.below.as_os_str().is_empty() { self.root.to_path_buf() } else { self.root.join(self.below) }
    }

    fn open_root(&self) -> Result<OwnedFd, Failure> {
        plain(self.root, OFlags::DIRECTORY).map_err(|error| failed("open", self.root, error))
    }

    /// Opens the destination itself, without following anything.
    fn open(&self) -> Result<OwnedFd, Errno> {
        let root = plain(self.root, OFlags::empty())?;
        if self.below.as_os_str().is_empty() {
            return Ok(root);
        }
        beneath(root.as_fd(), self.below)
    }
}

/// Opens an absolute path of the jail. The way to a mount may lead through a tree that others change, so no component may
/// be a symlink.
fn plain(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC | flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn beneath(root: BorrowedFd<'_>, below: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        root,
        below,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .or_else(|error| {
        // NO_SYMLINKS refuses a symlink as the last component too; there it is wanted as itself.
        if error != Errno::LOOP {
            return Err(error);
        }
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(error);
        };
        let parent =
            if parent.as_os_str().is_empty() { rustix::io::dup(root)? } else { directory(root, parent)? };
        let link = openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        Ok(link)
    })
}

fn directory(root: BorrowedFd<'_>, below: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        root,
        below,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn verify(path: &Path, expected: Option<&Identity>, host: &Path) -> Result<(), Failure> {
    let mounted = plain(path, OFlags::empty()).map_err(|error| failed("open", path, error))?;
    if Some(&Identity::of(&mounted)?) == expected {
        return Ok(());
    }
    Err(Failure::new(
        format!("{} was replaced while the jail was being set up", host.display()),
        "what was mounted is not what was checked",
    ))
}

fn place(
    staged: &Path,
    place: &Place<'_>,
    missing: Missing,
    access: Access,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let destination = match place.open() {
        Ok(found) if missing == Missing::Refuse || suits(&found, missing)? => found,
        Err(error) if missing == Missing::Refuse => {
            return Err(failed("find the mount point", &place.path(), error));
        }
        Ok(_) | Err(_) => make(place, missing, notes)?,
    };
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, staged, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)
        .map_err(|error| failed("open", staged, error))?;
    restrict_mount(tree.as_fd(), limit(access))
        .map_err(|error| failed_io("restrict", &place.path(), error))?;
    mount_onto(&tree, &destination).map_err(|error| failed("mount", &place.path(), error))
}

/// Shows a part of a directory of the system. The root is ours alone until the door opens, and the directory root's.
fn show(staged: &Path, part: &Path, dest: &Path, host: &Path) -> Result<(), Failure> {
    let absent = |error| failed("find", host, error);
    let object = beneath(plain(staged, OFlags::DIRECTORY).map_err(absent)?.as_fd(), part).map_err(absent)?;
    let kind = match FileType::from_raw_mode(fstat(&object)?.st_mode) {
        FileType::Directory => FileType::Directory,
        _ => FileType::RegularFile,
    };
    create(CWD, dest, kind).map_err(|error| failed("make the mount point", dest, error))?;
    let place = plain(dest, OFlags::empty()).map_err(|error| failed("open", dest, error))?;
    let clone = clone_of(&object).map_err(|error| failed("clone", host, error))?;
    restrict_mount(clone.as_fd(), MountLimit::ReadOnly)
        .map_err(|error| failed_io("restrict", dest, error))?;
    mount_onto(&clone, &place).map_err(|error| failed("mount", dest, error))
}

/// A bare symlink at a time takes bubblewrap four times as long.
fn link(shown: &Path, dest: &Path) -> Result<(), Failure> {
    let listed = |error| failed("list", shown, error);
    let made = |error| failed("make links in", dest, error);
    let from = plain(shown, OFlags::DIRECTORY).map_err(listed)?;
    let from = openat(&from, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let to = plain(dest, OFlags::DIRECTORY).map_err(made)?;
    for entry in Dir::new(from.map_err(listed)?).map_err(listed)? {
        let entry = entry.map_err(listed)?;
        let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
        if matches!(name.as_os_str().as_bytes(), b"." | b"..") {
            continue;
        }
        match symlinkat(shown.join(name), &to, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(made(error)),
        }
    }
    Ok(())
}

/// The last of the root: nothing more is made on it.
fn seal_root() -> Result<(), Failure> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount("/", flags, "").map_err(|error| failed("make read-only", Path::new("/"), error))
}

fn suits(found: &OwnedFd, missing: Missing) -> Result<bool, Failure> {
    let kind = FileType::from_raw_mode(fstat(found)?.st_mode);
    Ok(match missing {
        Missing::MakeDirectory => kind == FileType::Directory,
        Missing::MakeFile => kind == FileType::RegularFile,
        Missing::Refuse => true,
    })
}

/// Makes a mount point in a tree of ours. A name in the way is moved aside, so that nobody inside can stop the next launch.
fn make(place: &Place<'_>, missing: Missing, notes: &mut Vec<String>) -> Result<OwnedFd, Failure> {
    let mut current = place.open_root()?;
    let names: Vec<_> = place
        .below
        .components()
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(Failure::new("a mount point is not a plain path", place.path().display())),
        })
        .collect::<Result<_, _>>()?;
    for (index, name) in names.iter().enumerate() {
        let last = index + 1 == names.len();
        let want =
            if last && missing == Missing::MakeFile { FileType::RegularFile } else { FileType::Directory };
        match statat(&current, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == want => {}
            Ok(_) => {
                move_aside(current.as_fd(), Path::new(name), place, notes)?;
                create(current.as_fd(), Path::new(name), want)
                    .map_err(|error| failed("make the mount point", &place.path(), error))?;
            }
            Err(_) => create(current.as_fd(), Path::new(name), want)
                .map_err(|error| failed("make the mount point", &place.path(), error))?,
        }
        current = beneath(current.as_fd(), Path::new(name))
            .map_err(|error| failed("open the mount point", &place.path(), error))?;
    }
    Ok(current)
}

fn create(parent: BorrowedFd<'_>, name: &Path, kind: FileType) -> Result<(), Errno> {
    let made = if kind == FileType::Directory {
        mkdirat(parent, name, Mode::RWXU)
    } else {
        openat(
            parent,
            name,
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map(drop)
    };
    match made {
        // A second jail on the same home makes the same mount points.
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

fn move_aside(
    parent: BorrowedFd<'_>,
    name: &Path,
    place: &Place<'_>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut random =
        File::open("/dev/urandom").map_err(|error| failed_io("move aside", &place.path(), error))?;
    for _ in 0..ASIDE_ATTEMPTS {
        // Nobody can have made every name, and nobody knows the next one.
        let mut bytes = [0; 8];
        random.read_exact(&mut bytes).map_err(|error| failed_io("move aside", &place.path(), error))?;
        let mut aside = name.as_os_str().as_bytes().iter().take(ASIDE_NAME).copied().collect::<Vec<u8>>();
        aside.extend(format!(".moved-aside-{:016x}", u64::from_ne_bytes(bytes)).bytes());
        let aside = OsStr::from_bytes(&aside);
        match renameat_with(parent, name, parent, aside, RenameFlags::NOREPLACE) {
            Ok(()) => {
                notes.push(format!(
                    "{} was in the way of a mount and is now called {}",
                    place.path().display(),
                    Path::new(aside).display()
                ));
                return Ok(());
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed("move aside", &place.path(), error)),
        }
    }
    Err(Failure::new(
        format!("{} blocks a mount point", place.path().display()),
        "no free name was found for it",
    ))
}

/// A path of the kernel's own, made read-only where there is one.
fn seal(place: &Place<'_>) -> Result<(), Failure> {
    match place.open() {
        Err(Errno::NOENT) => Ok(()),
        _ => pin(place, Access::ReadOnly),
    }
}

fn pin(place: &Place<'_>, access: Access) -> Result<(), Failure> {
    let object = match place.open() {
        Ok(object) => object,
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
            return Err(Failure::new(
                format!("{} changed while the jail was being set up", place.path().display()),
                error,
            ));
        }
        Err(error) => return Err(failed("open", &place.path(), error)),
    };
    let clone = clone_of(&object).map_err(|error| failed("clone", &place.path(), error))?;
    restrict_mount(clone.as_fd(), limit(access))
        .map_err(|error| failed_io("restrict", &place.path(), error))?;
    mount_onto(&clone, &object).map_err(|error| failed("pin", &place.path(), error))
}

fn limit(access: Access) -> MountLimit {
    match access {
        Access::ReadOnly => MountLimit::ReadOnly,
        Access::Writable => MountLimit::Plain,
    }
}

fn clone_of(object: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_tree(
        object,
        "",
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE,
    )
}

fn mount_onto(tree: &OwnedFd, destination: &OwnedFd) -> Result<(), Errno> {
    move_mount(
        tree,
        "",
        destination,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )
}

fn failed(verb: &str, path: &Path, error: Errno) -> Failure {
    failed_io(verb, path, error.into())
}

fn failed_io(verb: &str, path: &Path, error: io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {} in the jail", path.display()), error)
}
