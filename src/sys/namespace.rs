//! Namespaces and mount attributes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `_IO(0xb7, 0x1)` of `linux/nsfs.h`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// Opens the user namespace that owns the namespace behind `namespace` (`ioctl_ns(2)`, `NS_GET_USERNS`).
///
/// Fails with `EPERM` when that namespace is outside the caller's own.
pub fn owner(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the request takes no argument and reads no memory of ours; the descriptor is open for the
    // duration of the call because it is borrowed.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us (close-on-exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a mount may do, set by [`restrict_mount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountLimit {
    /// Nothing may be written through it.
    ReadOnly,
    /// Writes pass; set-user-id bits and device nodes mean nothing.
    Plain,
}

/// Sets attributes on the mount behind `mount` and all mounts below it (`mount_setattr(2)`); set-user-id bits and
/// device nodes never mean anything afterwards.
///
/// `mount` is a detached tree of `open_tree(2)`, or an `O_PATH` descriptor of a mount's root.
pub fn restrict_mount(mount: BorrowedFd<'_>, limit: MountLimit) -> io::Result<()> {
    let read_only = match limit {
        MountLimit::ReadOnly => libc::MOUNT_ATTR_RDONLY,
        MountLimit::Plain => 0,
    };
    let attr = libc::mount_attr {
        attr_set: read_only | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a constant empty C string, `attr` lives across the call and its true size is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
