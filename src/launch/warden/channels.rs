//! Whose a socket in a tree is: the jail's own, or a program's outside, which is covered.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::process::{chdir, fchdir};

use crate::guard::channels::{Answer, Object};
use crate::host::protected::{ChannelKind, is_bound_at};
use crate::launch::protocol::SocketsBy;

use super::mounts;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `UDIAG_SHOW_VFS` of `linux/unix_diag.h`.
const SHOW_VFS: u32 = 2;
/// `UNIX_DIAG_VFS`: inode and device of the path that a socket is bound to.
const VFS: u16 = 1;
/// Bytes of a message's header, of the kernel's answer after it, and of an attribute's header.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;
/// The kernel puts no more into one datagram.
const DATAGRAM: usize = 64 << 10;

/// Covers `below` in the mount at `root` if it is `object` and the jail did not make it.
pub(super) fn cover(root: &Path, below: &Path, object: &Object, sockets: SocketsBy) -> Answer {
    let found = match mounts::uncovered(root, below) {
        Ok(Some(found)) => found,
        Ok(None) => return Answer::Already,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Answer::Missing,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    if !is(&found, object) {
        return Answer::Missing;
    }
    let answer = match object.kind {
        ChannelKind::Fifo => Answer::Covered,
        ChannelKind::Socket => match is_own(object, sockets) {
            Ok(true) => return Answer::Own,
            // Its program has ended since it was looked at: nobody will ever be behind it again.
            Ok(false) if !has_program(&found) => return Answer::Own,
            Ok(false) => Answer::Covered,
            Err(error) => Answer::Unknown(error.to_string()),
        },
    };
    match mounts::cover_by_about(&found) {
        Ok(()) => answer,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

/// This process's descriptors by their numbers, in the procfs outside: the jail's knows no such process.
static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();

/// To be called before the jail's namespaces are entered.
pub(super) fn prepare() -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptors = openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
    // There is one warden in a process.
    let _ = DESCRIPTORS.set(descriptors);
    Ok(())
}

/// Whether some program has the socket, in whatever network namespace. What cannot be asked counts as one that has.
fn has_program(found: &OwnedFd) -> bool {
    let Some(descriptors) = DESCRIPTORS.get() else { return true };
    if fchdir(descriptors).is_err() {
        return true;
    }
    let is_bound = is_bound_at(found.as_raw_fd().to_string().as_ref());
    chdir("/").is_err() || is_bound
}

fn is(found: &OwnedFd, object: &Object) -> bool {
    let kind = match object.kind {
        ChannelKind::Socket => FileType::Socket,
        ChannelKind::Fifo => FileType::Fifo,
    };
    fstat(found)
        .is_ok_and(|stat| stat.st_ino == object.inode && FileType::from_raw_mode(stat.st_mode) == kind)
}

/// Whether a socket that is bound to `object` belongs to the jail.
fn is_own(object: &Object, sockets: SocketsBy) -> io::Result<bool> {
    let bound = bound_to(object)?;
    match sockets {
        SocketsBy::Namespace => Ok(!bound.is_empty()),
        SocketsBy::Process if bound.is_empty() => Ok(false),
        SocketsBy::Process => processes_hold(&bound),
        SocketsBy::Nobody => {
            Err(io::Error::other("the jail has the network and the processes of its surroundings"))
        }
    }
}

/// The sockets of this network namespace that are bound to `object`, by their own inodes.
fn bound_to(object: &Object) -> io::Result<Vec<u32>> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM];
    let mut bound = Vec::new();
    loop {
        // The kernel has made an answer before `send` returns, and the next before `recv` does.
        let (length, _) = recv(socket.as_fd(), &mut buffer[..], RecvFlags::DONTWAIT)?;
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if read(&buffer[..length], object, &mut bound)? {
            return Ok(bound);
        }
    }
}

fn request() -> Vec<u8> {
    let mut body = vec![libc::AF_UNIX as u8, 0, 0, 0];
    body.extend(u32::MAX.to_ne_bytes()); // Sockets in every state,
    body.extend(0_u32.to_ne_bytes()); // whatever their inode.
    body.extend(SHOW_VFS.to_ne_bytes());
    body.extend([0; 8]);
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Reads one datagram. Returns whether it was the last.
fn read(datagram: &[u8], object: &Object, bound: &mut Vec<u32>) -> io::Result<bool> {
    let short = || io::Error::other("the kernel's answer is too short");
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = usize::try_from(word(rest, 0).ok_or_else(short)?).map_err(io::Error::other)?;
        let kind = half(rest, 4).ok_or_else(short)?;
        let body = rest.get(HEADER..length).ok_or_else(short)?;
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = word(body, 0).ok_or_else(short)?.cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => {
                if is_bound_to(body, object) {
                    bound.push(word(body, 4).ok_or_else(short)?);
                }
            }
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Whether one socket's description names `object`. The kernel tells the low half of an inode's number.
fn is_bound_to(body: &[u8], object: &Object) -> bool {
    let mut rest = body.get(MESSAGE..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(ATTRIBUTE..length) else { return false };
        if kind == VFS {
            let inode = word(value, 0);
            let device = word(value, 4).map(|device| (device >> 20, device & 0xf_ffff));
            return inode == Some(object.inode as u32) && device == Some(object.device);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// Whether a process of the jail has one of the sockets open. `/proc` is the jail's own here.
fn processes_hold(sockets: &[u32]) -> io::Result<bool> {
    let names: Vec<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        if !process.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        // It may end meanwhile.
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let mut links = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        if links.any(|link| names.iter().any(|name| link == Path::new(name))) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn object(path: &Path) -> Object {
        let metadata = path.symlink_metadata().unwrap();
        let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        Object { inode: metadata.ino(), device, kind: ChannelKind::Socket }
    }

    #[test]
    fn the_kernel_names_the_sockets_that_are_bound_to_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let listeners: Vec<_> =
            (0..200).map(|n| UnixListener::bind(dir.path().join(n.to_string())).unwrap()).collect();
        let _one = UnixListener::bind(&one).unwrap();
        drop(UnixListener::bind(&other).unwrap());
        assert_eq!(bound_to(&object(&one)).unwrap().len(), 1);
        assert!(bound_to(&object(&other)).unwrap().is_empty(), "its program has ended");
        let elsewhere = Object { device: (1, 1), ..object(&one) };
        assert!(bound_to(&elsewhere).unwrap().is_empty());
        assert!(is_own(&object(&one), SocketsBy::Process).unwrap(), "this process holds it");
        assert!(!is_own(&object(&other), SocketsBy::Process).unwrap());
        assert!(is_own(&object(&one), SocketsBy::Nobody).is_err());
        drop(listeners);
    }

    proptest::proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..120)) {
            let object = Object { inode: 1, device: (0, 0), kind: ChannelKind::Socket };
            let _ = read(&bytes, &object, &mut Vec::new());
        }
    }
}
