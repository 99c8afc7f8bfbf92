//! What the supervisor and the warden say to each other, over a `SOCK_SEQPACKET` pair.
//!
//! Both ends are ours and the jail holds neither. Messages are JSON of at most [`MESSAGE_LIMIT`] bytes; what may be
//! larger (the order, with the environment) travels as a memfd.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::guard::channels::{Answer, Object};
use crate::plan::CgroupLimits;
use crate::plan::operation::{Cover, DoorOp};

/// Bytes of one message.
pub const MESSAGE_LIMIT: usize = 64 * 1024;
/// Descriptors of one message; the kernel's own bound (`SCM_MAX_FD`) is 253.
pub const DESCRIPTOR_LIMIT: usize = 240;
/// The number that the first descriptor of an order has in bubblewrap; the others follow.
pub const FIRST_DESCRIPTOR: i32 = 100;

/// What the warden is told to start. Its descriptors, by position: see the fields that say "descriptor".
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The checked path of bubblewrap.
    #[serde(with = "crate::plan::raw")]
    pub bwrap: PathBuf,
    /// Arguments on its command line (the rest is behind `--args`).
    pub bwrap_arguments: Vec<String>,
    /// The whole environment of the jail, raw bytes.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Descriptors 0, 1 and 2 of the command, as positions in the message.
    pub standard: [usize; 3],
    /// The descriptor that becomes the controlling terminal.
    pub terminal: Option<usize>,
    /// The user's terminal and the note about it, as positions: how it is put back when the supervisor is killed.
    #[serde(default)]
    pub rescue: Option<[usize; 2]>,
    /// The warden's end of the door, as a position.
    pub door: usize,
    /// The checked sources, as positions, in the order that `DoorOp::Verify` counts them.
    pub sources: Vec<usize>,
    /// What is mounted at the held door.
    pub mounts: Vec<DoorOp>,
    /// The staging tmpfs that is taken away afterwards, if there is one.
    pub staging: Option<PathBuf>,
    /// Whether the doors to the network are to be made.
    pub listen: Listen,
    /// By what the jail's own sockets are known.
    pub sockets: SocketsBy,
    /// cgroup limits to be put on the jail while it is held.
    pub cgroup: Option<CgroupLimits>,
}

/// By what the jail's own sockets are known.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub enum SocketsBy {
    /// By its network namespace.
    Namespace,
    /// By its processes: the network is the host's.
    Process,
    /// By nothing: network and processes are shared with the surroundings.
    Nobody,
}

/// Whether listeners are made in the jail's network namespace.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum Listen {
    /// None: the network is off or open.
    No,
    /// The doors of the filtered network.
    Doors {
        /// Networks that get local routes (address, prefix length).
        routes: Vec<(std::net::Ipv4Addr, u8)>,
        /// Further ports of 127.0.0.1.
        ports: Vec<u16>,
    },
}

/// From the supervisor to the warden.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Start the jail; the first descriptor is the [`Order`], the others are its own.
    Start,
    /// Open the door. The descriptors are kept to the warden's end, which nobody waits for: the last close of an inotify
    /// descriptor takes the kernel longer than a launch.
    Go,
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Make a TCP listener in the jail's network namespace.
    Bind(SocketAddrV4),
    /// Make a TCP connection in the jail's network namespace.
    Connect(SocketAddrV4),
    /// Cover a path, if it has no mount, or lost it; one [`Reply::Covered`] answers each.
    Cover {
        /// The root of the mount that holds it.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The path below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
        /// How.
        how: Cover,
    },
    /// Cover a socket or FIFO that the jail did not make; one [`Reply::Channel`] answers each.
    Channel {
        /// The root of the mount that shows it.
        #[serde(with = "crate::plan::raw")]
        root: PathBuf,
        /// The path below it.
        #[serde(with = "crate::plan::raw")]
        below: PathBuf,
        /// Which object it must be.
        object: Object,
    },
    /// End the jail now.
    Kill,
}

/// From the warden to the supervisor.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum Reply {
    /// The jail stands and is held; the descriptors are the listeners (none, or in the order of [`LISTENERS`]).
    Held {
        /// The command's process id, on the host.
        pid: i32,
        /// What is worth telling the user.
        notes: Vec<String>,
    },
    /// The jail cannot be built: what, why and a hint.
    Failed {
        /// What happened.
        what: String,
        /// Why.
        why: String,
    },
    /// The command was executed.
    Started,
    /// It could not be.
    NotExecuted {
        /// The errno of `execve(2)`.
        errno: i32,
        /// Whether the program is there.
        found: bool,
    },
    /// The listener that was asked for is the descriptor, if it could be made.
    Bound(SocketAddrV4, bool),
    /// The connection that was asked for is the descriptor, if it could be begun; it may still fail.
    Connected(SocketAddrV4, bool),
    /// What came of covering a path, in the order of the requests.
    Covered(Covered),
    /// What came of a socket or FIFO, in the order of the requests.
    Channel(Answer),
    /// The jail has ended and nothing of it is left: bubblewrap's exit status.
    Ended(i32),
}

/// What came of covering a path.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum Covered {
    /// It had lost its mount and has one again.
    Again,
    /// It has its mount.
    Already,
    /// There is no such path.
    Missing,
    /// The kernel refused, for this reason.
    Failed(String),
}

/// How many listeners [`Reply::Held`] carries: DNS over UDP and TCP, HTTP, HTTPS, the proxy. Those on the order's
/// further ports follow.
pub const LISTENERS: usize = 5;

/// Sends one message with its descriptors.
pub fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    if bytes.len() > MESSAGE_LIMIT || descriptors.len() > DESCRIPTOR_LIMIT {
        return Err(io::Error::other("a message to or from the warden is too large"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message with its descriptors; `None` at the end of the stream.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_LIMIT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut read =
        || recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = match read() {
        // The other end closed before it had read all. That is told once; what it said before is still there.
        Err(Errno::CONNRESET) => read()?,
        other => other?,
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some((message, descriptors)))
}

/// Writes `value` as JSON into a memfd, to be read from its start.
pub fn to_memfd<T: Serialize>(name: &str, value: &T) -> io::Result<OwnedFd> {
    bytes_to_memfd(name, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Writes `bytes` into a memfd, to be read from its start.
pub fn bytes_to_memfd(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads a value that [`to_memfd`] wrote.
pub fn from_memfd<T: DeserializeOwned>(memfd: OwnedFd) -> io::Result<T> {
    let mut bytes = Vec::new();
    std::fs::File::from(memfd).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// A connected pair of sockets for this protocol, both close-on-exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Borrows every descriptor of a list.
pub fn borrow_all(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_end_is_heard_although_the_other_end_left_something_unread() {
        let (ours, theirs) = pair().unwrap();
        send(ours.as_fd(), &Request::Signal(1), &[]).unwrap();
        send(theirs.as_fd(), &Reply::Ended(7), &[]).unwrap();
        drop(theirs);
        assert_eq!(receive::<Reply>(ours.as_fd()).unwrap().unwrap().0, Reply::Ended(7));
        assert!(receive::<Reply>(ours.as_fd()).unwrap().is_none());
    }
}
