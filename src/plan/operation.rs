//! The operations that build the jail's files, in order: first bubblewrap's, then those at the held door.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether a mount may be written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    Writable,
}

/// What stands in the place of something that is covered. Of two for one path the greater one holds (FS-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Veil {
    /// Something empty that can be read.
    Empty,
    /// Something that nobody has a permission for.
    Closed,
}

/// How a path is kept from the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cover {
    /// By a mount of itself.
    Pin(Access),
    /// By something that holds nothing.
    Veil(Veil),
}

/// Where bubblewrap takes a bind mount from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindSource {
    /// A path that only root can change; bubblewrap opens it by name.
    System(PathBuf),
    /// A path that the user (and so another jail) can change: opened once before the launch, mounted by
    /// descriptor, and compared with what was mounted at the held door.
    Checked(PathBuf),
}

impl BindSource {
    /// The path on the host.
    pub fn path(&self) -> &Path {
        match self {
            Self::System(path) | Self::Checked(path) => path,
        }
    }
}

/// One operation of bubblewrap. Destinations are absolute, resolved, and never below a tree that the jail or another
/// program of the user's can change: bubblewrap before 0.12 follows symlinks there while it makes mount points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BwrapOp {
    /// An empty directory on the root tmpfs.
    Dir(PathBuf),
    /// A tmpfs of its own with this mode.
    Tmpfs(PathBuf, u32),
    /// A symlink.
    Symlink {
        /// What it says.
        target: PathBuf,
        /// Where it is.
        dest: PathBuf,
    },
    /// A bind mount.
    Bind {
        /// From where.
        source: BindSource,
        /// To where.
        dest: PathBuf,
        /// How.
        access: Access,
    },
    /// A bind mount of a device, which works there as it does outside.
    Device {
        /// From where.
        source: BindSource,
        /// To where.
        dest: PathBuf,
    },
    /// A file with this content, mode 0444, or 0600 when it may be written.
    File {
        /// What is in it.
        content: Content,
        /// Where it is.
        dest: PathBuf,
        /// How.
        access: Access,
    },
    /// A read-only file with this content, mounted over one that exists.
    Cover {
        /// What is in it.
        content: Content,
        /// What it covers.
        dest: PathBuf,
    },
    /// A new procfs.
    Proc(PathBuf),
    /// The surrounding procfs, read-only, where a new one is forbidden.
    DangerSurroundingProc(PathBuf),
    /// A minimal /dev.
    Dev(PathBuf),
    /// Makes the mount at the path read-only, without those below it.
    RemountReadOnly(PathBuf),
}

/// What a file holds that is made for the jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// What is made when the jail is launched, and is in no plan that is shown.
    AtLaunch(AtLaunch),
}

/// What is made at the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AtLaunch {
    /// The roots that the jail's programs trust: the host's, and the session's authority.
    Roots,
    /// The same for Java.
    JavaRoots,
    /// The certificate of the session's authority alone.
    Authority,
    /// The copy of a file with fakes of its secrets, by its position in `Policy::files_bound`.
    Masked(usize),
}

impl BwrapOp {
    /// What it makes, if it makes anything new.
    pub fn made(&self) -> Option<&Path> {
        match self {
            Self::Dir(dest)
            | Self::Tmpfs(dest, _)
            | Self::Proc(dest)
            | Self::DangerSurroundingProc(dest)
            | Self::Dev(dest) => Some(dest),
            Self::Symlink { dest, .. }
            | Self::Bind { dest, .. }
            | Self::Device { dest, .. }
            | Self::File { dest, .. } => Some(dest),
            Self::Cover { .. } | Self::RemountReadOnly(_) => None,
        }
    }

    /// Where it makes or covers something.
    pub fn placed(&self) -> Option<&Path> {
        match self {
            Self::Cover { dest, .. } => Some(dest),
            operation => operation.made(),
        }
    }

    /// Where it mounts a whole tree, below which no directory of the root is visible.
    pub fn mounted(&self) -> Option<&Path> {
        match self {
            Self::Tmpfs(dest, _)
            | Self::Proc(dest)
            | Self::DangerSurroundingProc(dest)
            | Self::Dev(dest)
            | Self::Bind { dest, .. } => Some(dest),
            _ => None,
        }
    }
}

/// One operation at the held door: done in the jail's mount namespace, by descriptor, never through a symlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DoorOp {
    /// The mount at `path` must be the object that was opened before the launch.
    Verify {
        /// An absolute path in the jail.
        #[serde(with = "crate::plan::raw")]
        path: PathBuf,
        /// Which of the checked sources it must be.
        source: usize,
        /// The source on the host, for the user.
        #[serde(with = "crate::plan::raw")]
        host: PathBuf,
    },
    /// Moves a staged mount to its place inside a tree that others can change.
    Place {
        /// The staged mount.
        #[serde(with = "crate::plan::raw")]
        staged: PathBuf,
        /// The root of the mount that holds the destination.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The destination below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
        /// Whether a missing mount point is made (only in directories of ours).
        missing: Missing,
        /// How it may be used.
        access: Access,
    },
    /// Shows a part of a staged directory of the system at a place on the root, which is still writable.
    Show {
        /// The staged directory.
        #[serde(with = "crate::plan::raw")]
        staged: PathBuf,
        /// The part: a path below it, free of symlinks.
        #[serde(with = "crate::plan::raw")]
        part: PathBuf,
        /// Where it is shown, absolute.
        #[serde(with = "crate::plan::raw")]
        dest: PathBuf,
        /// The source on the host, for the user.
        #[serde(with = "crate::plan::raw")]
        host: PathBuf,
    },
    /// Makes a symlink in a directory on the root, which is still writable, for each entry of one of the system. What is
    /// there already stays.
    Link {
        /// Where the system's is shown.
        #[serde(with = "crate::plan::raw")]
        shown: PathBuf,
        /// The directory, absolute.
        #[serde(with = "crate::plan::raw")]
        dest: PathBuf,
    },
    /// Makes the root read-only, without what is mounted below it.
    SealRoot,
    /// Binds a path onto itself.
    Pin {
        /// The root of the mount that holds it.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The path below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
        /// Read-only for a protected path; writable only against renaming.
        access: Access,
    },
    /// Covers a path by something that holds nothing and cannot be written.
    Hide {
        /// The root of the mount that holds it.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The path below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
        /// By what.
        veil: Veil,
        /// Mount points that are made in the cover of a directory, for what a more specific rule shows in it; relative
        /// to the path, parents first.
        #[serde(default)]
        holes: Vec<Hole>,
    },
    /// Puts what covers are made of to a place in the jail where nobody can change it, so that more of them can be made
    /// while the jail runs.
    Store {
        /// An empty directory of the jail's.
        #[serde(with = "crate::plan::raw")]
        path: PathBuf,
    },
    /// Makes a path read-only, if there is one.
    Seal {
        /// The root of the mount that holds it.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The path below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
    },
}

impl DoorOp {
    /// Where it makes something new on the root.
    pub fn shown(&self) -> Option<&Path> {
        match self {
            Self::Show { dest, .. } => Some(dest),
            _ => None,
        }
    }
}

/// A mount point in the cover of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// Below the directory.
    #[serde(with = "crate::plan::raw")]
    pub below: PathBuf,
    /// Whether a directory is mounted there, or something else.
    pub is_directory: bool,
}

/// What to do about a mount point that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// Refuse the launch.
    Refuse,
    /// Make it: the tree is ours.
    MakeDirectory,
    /// Make it: the tree is ours.
    MakeFile,
}

/// `path` relative to `root`, when it lies below it (or is it: then the empty path).
pub fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    path.strip_prefix(root).ok().map(Path::to_path_buf)
}

/// How deep a path is: mounts are made in this order.
pub fn depth(path: &Path) -> (usize, &[u8]) {
    (path.components().count(), path.as_os_str().as_bytes())
}
