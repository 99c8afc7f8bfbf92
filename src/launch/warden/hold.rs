//! From the order to the held door.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, ioctl_tiocsctty, setsid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::launch::protocol::{FIRST_DESCRIPTOR, Listen, Order, SocketsBy};
use crate::sys::namespace;

use super::reaper::Reaper;
use super::rescue::Rescue;
use super::{Failure, cgroup, channels, mounts, network};

/// How long bubblewrap and the in-jail stage may take to reach the door.
const REACH_DOOR: Duration = Duration::from_secs(30);

/// A jail that stands, complete, and waits at the door.
pub(super) struct Held {
    pub(super) pid: Pid,
    pub(super) door: OwnedFd,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) notes: Vec<String>,
}

/// Starts bubblewrap and brings the jail to the held door; `None` when the supervisor went away meanwhile.
pub(super) fn start(
    socket: BorrowedFd<'_>,
    order: &Order,
    descriptors: Vec<OwnedFd>,
    reaper: &mut Reaper,
    rescue: &mut Option<Rescue>,
) -> Result<Option<Held>, Failure> {
    let few = raise_open_files(descriptors.len())?;
    let numbered = number(descriptors)?;
    let at = |position: usize| {
        numbered.get(position).ok_or_else(|| {
            Failure::new("the jail could not be set up", "the order names a descriptor that is missing")
        })
    };
    setsid()?;
    if let Some(position) = order.terminal {
        ioctl_tiocsctty(at(position)?)
            .map_err(|error| Failure::new("cannot take the jail's terminal", error))?;
    }
    if let Some([terminal, note]) = order.rescue {
        *rescue = Some(Rescue::new(at(terminal)?.try_clone()?, at(note)?.try_clone()?));
    }
    let door = at(order.door)?.try_clone()?;
    let identities = order
        .sources
        .iter()
        .map(|position| at(*position).and_then(mounts::Identity::of))
        .collect::<Result<Vec<_>, _>>()?;
    let (mut complaints, complain) = io::pipe()?;
    let mut command = Command::new(&order.bwrap);
    command.args(&order.bwrap_arguments).env_clear().stderr(Stdio::from(complain));
    command.stdin(at(order.standard[0])?.try_clone()?).stdout(at(order.standard[1])?.try_clone()?);
    for (name, value) in &order.environment {
        command.env(std::ffi::OsString::from_vec(name.clone()), std::ffi::OsString::from_vec(value.clone()));
    }
    for (position, descriptor) in numbered.iter().enumerate() {
        // The warden's own end of the door, what is for a rescue and the descriptors that became standard streams stay out.
        let ours = position == order.door
            || order.terminal == Some(position)
            || order.rescue.is_some_and(|rescue| rescue.contains(&position))
            || order.standard[..2].contains(&position);
        fcntl_setfd(descriptor, if ours { FdFlags::CLOEXEC } else { FdFlags::empty() })?;
    }
    // The jail has the launcher's limit again; what is open already stays open.
    setrlimit(Resource::RLIMIT_NOFILE, few.0, few.1).map_err(io::Error::from)?;
    let child = command
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start {}", order.bwrap.display()), error))?;
    drop(command);
    drop(numbered);
    reaper.hold(door.try_clone()?);
    reaper.adopt(child)?;

    let pid = match wait_at_door(socket, door.as_fd(), reaper)? {
        Arrival::Stage(pid) => pid,
        Arrival::SupervisorGone => return Ok(None),
        Arrival::BwrapEnded => return Err(complaint(&mut complaints, reaper)),
    };
    if let Some(limits) = &order.cgroup {
        cgroup::apply(pid, reaper.bwrap_pid(), limits)?;
    }
    channels::prepare().map_err(|error| Failure::new("cannot open /proc/self/fd", error))?;
    let (listeners, notes) = enter(pid, order, &identities)?;
    // Bubblewrap keeps the other end for its life; it must not die of writing to it.
    std::mem::forget(complaints);
    Ok(Some(Held { pid, door, listeners, notes }))
}

/// Tells the stage to go on.
pub(super) fn open(door: Option<&OwnedFd>) -> Result<(), Failure> {
    let Some(door) = door else {
        return Ok(());
    };
    rustix::io::write(door, b"g").map_err(|error| Failure::new("cannot open the jail's door", error))?;
    Ok(())
}

/// Raises the soft limit of open files so that the descriptors can have their numbers. Returns the limits as they were.
fn raise_open_files(count: usize) -> Result<(u64, u64), Failure> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    let needed = u64::try_from(FIRST_DESCRIPTOR).unwrap_or(u64::MAX).saturating_add(count as u64 + 16);
    if hard < needed {
        let why = format!("the hard limit of open files is {hard}, and {needed} are needed (ulimit -Hn)");
        return Err(Failure::new("the jail could not be set up", why));
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).map_err(io::Error::from)?;
    Ok((soft, hard))
}

/// Gives the descriptors the numbers that the arguments of bubblewrap speak of.
fn number(descriptors: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Failure> {
    let mut numbered = Vec::with_capacity(descriptors.len());
    for (number, descriptor) in (FIRST_DESCRIPTOR..).zip(descriptors) {
        let moved = fcntl_dupfd_cloexec(&descriptor, number)?;
        if moved.as_raw_fd() != number {
            return Err(Failure::new(
                "the jail could not be set up",
                format!("descriptor {number} is in use"),
            ));
        }
        numbered.push(moved);
    }
    Ok(numbered)
}

enum Arrival {
    Stage(Pid),
    SupervisorGone,
    BwrapEnded,
}

/// Waits for the stage's first byte, whose credentials the kernel vouches for.
fn wait_at_door(socket: BorrowedFd<'_>, door: BorrowedFd<'_>, reaper: &Reaper) -> Result<Arrival, Failure> {
    let deadline = Instant::now() + REACH_DOOR;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec::try_from(left).map_err(|error| Failure::new("the jail could not be set up", error))?;
        let mut polled = [
            PollFd::from_borrowed_fd(door, PollFlags::IN),
            PollFd::from_borrowed_fd(reaper.bwrap()?, PollFlags::IN),
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
        ];
        match poll(&mut polled, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) => {
                return Err(Failure::new(
                    "the jail was not ready in time",
                    format!("bubblewrap took more than {} s", REACH_DOOR.as_secs()),
                ));
            }
            other => other?,
        };
        let [at_door, at_bwrap, at_socket] = polled.map(|fd| !fd.revents().is_empty());
        if at_bwrap {
            return Ok(Arrival::BwrapEnded);
        }
        if at_socket {
            // Nothing is to be said at this point: it is the end of the stream, or the wish to end.
            return Ok(Arrival::SupervisorGone);
        }
        if at_door {
            return first_byte(door);
        }
    }
}

fn first_byte(door: BorrowedFd<'_>) -> Result<Arrival, Failure> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(door, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
        _ => None,
    });
    match (received.bytes, byte, sender) {
        (0, ..) => Ok(Arrival::BwrapEnded),
        (_, [b'r'], Some(pid)) => Ok(Arrival::Stage(pid)),
        _ => Err(Failure::new("the jail could not be set up", "the in-jail stage did not identify itself")),
    }
}

/// Enters the jail's namespaces: the network for the listeners, then the files for the mounts.
fn enter(
    pid: Pid,
    order: &Order,
    identities: &[mounts::Identity],
) -> Result<(Vec<OwnedFd>, Vec<String>), Failure> {
    let open = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero());
        File::open(Path::new(&path))
            .map_err(|error| Failure::new(format!("cannot open the jail's {kind} namespace"), error))
    };
    let net = open("net")?;
    let files = open("mnt")?;
    let users = namespace::owner(files.as_fd())
        .map_err(|error| Failure::new("cannot find the jail's user namespace", error))?;
    let join = |namespace: BorrowedFd<'_>, kind, name: &str| {
        move_into_link_name_space(namespace, Some(kind)).map_err(|error| {
            Failure::new(
                format!("cannot enter the jail's {name} namespace"),
                format!("{error} (a security module may forbid it to ai-jail)"),
            )
        })
    };
    join(users.as_fd(), LinkNameSpaceType::User, "user")?;
    // Where the jail has none of its own it is this one already.
    if order.sockets == SocketsBy::Namespace {
        join(net.as_fd(), LinkNameSpaceType::Network, "network")?;
    }
    let listeners = match &order.listen {
        Listen::No => Vec::new(),
        Listen::Doors { routes, ports } => network::doors(routes, ports)?,
    };
    join(files.as_fd(), LinkNameSpaceType::Mount, "mount")?;
    let notes = mounts::finish(&order.mounts, identities, order.staging.as_deref())?;
    Ok((listeners, notes))
}

/// What bubblewrap said before it gave up.
fn complaint(complaints: &mut io::PipeReader, reaper: &mut Reaper) -> Failure {
    let status = reaper.bwrap_status().unwrap_or(125);
    // Every writer may not be gone yet: read what is there and no more.
    let _ = rustix::io::ioctl_fionbio(&*complaints, true);
    let mut text = Vec::new();
    let _ = complaints.take(4096).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).trim().replace('\n', "; ");
    let why = if text.is_empty() { format!("bubblewrap ended with status {status}") } else { text };
    Failure::new("bubblewrap could not build the jail", why)
}
