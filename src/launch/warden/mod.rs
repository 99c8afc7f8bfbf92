//! The warden: the parent of bubblewrap, outside the jail.
//!
//! A small single-threaded process of ours that is the leader of the jail's session. It starts bubblewrap, holds the
//! door shut while it enters the jail's namespaces and finishes the mounts and listeners there, opens it, and sees to it
//! that nothing of the jail outlives it or the supervisor: it is a child subreaper, so whatever of bubblewrap's is
//! orphaned becomes its own child, and the end of its socket, which only the supervisor holds, is the order to kill.

mod cgroup;
mod channels;
mod hold;
mod mounts;
mod network;
mod reaper;
mod rescue;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process_group, set_child_subreaper};

use crate::launch::SETTLED;
use crate::launch::protocol::{Order, Reply, Request, SocketsBy, from_memfd, receive, send};
use crate::plan::inner::StageReport;

use self::hold::Held;
use self::reaper::Reaper;
use self::rescue::Rescue;

/// Runs the warden; `arguments` is the number of the inherited socket.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let number = arguments.first().and_then(|number| number.to_str()?.parse().ok());
    match number.map(crate::sys::descriptor::adopt) {
        Some(Ok(socket)) => run(socket),
        _ => ExitCode::from(125),
    }
}

/// Runs the warden on the inherited `socket` until the jail has ended or the supervisor has.
fn run(socket: OwnedFd) -> ExitCode {
    // A terminal's signals, a hang-up of its session and job control are for the jail, never for its keeper.
    if SigSet::all().thread_block().is_err() {
        return ExitCode::from(125);
    }
    // What the user's shell ignores must not confuse bubblewrap: with SIGCHLD ignored it would wait for ever.
    crate::sys::process::reset_signal_dispositions(&[]);
    crate::sys::process::own_umask();
    let mut rescue = None;
    let (last, code) = match serve(socket.as_fd(), &mut rescue) {
        Ok(last) => (last, ExitCode::SUCCESS),
        Err(failure) => (Some(failure.reply()), ExitCode::from(125)),
    };
    if let Some(last) = last {
        // When nobody reads this any more, the jail has been ended all the same.
        let _ = send(socket.as_fd(), &last, &[]);
    }
    match rescue {
        Some(rescue) => rescue.after(socket.as_fd()),
        None => rescue::wait_for_supervisor(socket.as_fd()),
    }
    code
}

/// Why a jail could not be built.
#[derive(Debug)]
pub(super) struct Failure {
    what: String,
    why: String,
}

impl Failure {
    fn new(what: impl Into<String>, why: impl ToString) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }

    fn reply(self) -> Reply {
        Reply::Failed { what: self.what, why: self.why }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new("the jail could not be set up", error)
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::new("the jail could not be set up", error)
    }
}

/// Builds the jail and keeps it to its end; nothing of it is left then. Returns the last word to the supervisor, and in
/// `rescue` what the user's terminal is put back by, if there is one.
fn serve(socket: BorrowedFd<'_>, rescue: &mut Option<Rescue>) -> Result<Option<Reply>, Failure> {
    set_child_subreaper(Some(getpid()))?;
    let Some((Request::Start, mut descriptors)) = receive::<Request>(socket)? else {
        return Ok(None);
    };
    if descriptors.is_empty() {
        return Err(Failure::new("the jail could not be set up", "the order is missing"));
    }
    let order: Order = from_memfd(descriptors.remove(0))?;
    let mut reaper = Reaper::new()?;
    let outcome = keep(socket, &order, descriptors, &mut reaper, rescue);
    // First, since the user's shell is about to prompt; the jail cannot write to this terminal.
    if let Some(rescue) = &rescue {
        rescue.now_if_alone(socket);
    }
    reaper.end_everything();
    Ok(outcome?.map(Reply::Ended))
}

/// Builds the jail, opens the door, and waits: for bubblewrap's exit status, or `None` when the jail is to be ended.
fn keep(
    socket: BorrowedFd<'_>,
    order: &Order,
    descriptors: Vec<OwnedFd>,
    reaper: &mut Reaper,
    rescue: &mut Option<Rescue>,
) -> Result<Option<i32>, Failure> {
    let Some(held) = hold::start(socket, order, descriptors, reaper, rescue)? else {
        return Ok(None);
    };
    let listeners: Vec<_> = held.listeners.iter().map(AsFd::as_fd).collect();
    send(
        socket,
        &Reply::Held { pid: held.pid.as_raw_nonzero().get(), notes: held.notes.clone() },
        &listeners,
    )?;
    attend(socket, held, order.sockets, reaper)
}

/// Answers the supervisor until the jail has ended.
fn attend(
    socket: BorrowedFd<'_>,
    mut held: Held,
    sockets: SocketsBy,
    reaper: &mut Reaper,
) -> Result<Option<i32>, Failure> {
    held.listeners.clear();
    let mut door = Some(held.door);
    let mut patience = Timespec::try_from(SETTLED).ok();
    loop {
        let bwrap = reaper.bwrap()?;
        let idle = PollFlags::empty();
        let mut polled = vec![
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(bwrap, PollFlags::IN),
        ];
        if let Some(door) = &door {
            polled.push(PollFd::from_borrowed_fd(door.as_fd(), PollFlags::IN));
        }
        match poll(&mut polled, patience.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) => {
                patience = None;
                crate::sys::memory::settle();
                continue;
            }
            other => other?,
        };
        let ready: Vec<bool> = polled.iter().map(|fd| fd.revents() != idle).collect();
        if ready.get(2) == Some(&true)
            && let Some(end) = door.take()
        {
            report_exec(socket, end.as_fd())?;
        }
        if ready[0] {
            match receive::<Request>(socket)? {
                None | Some((Request::Start, _)) => return Ok(None),
                Some((Request::Kill, _)) => return Ok(Some(128 + Signal::KILL.as_raw())),
                Some((Request::Go, kept)) => {
                    // The end of this process closes them.
                    std::mem::forget(kept);
                    hold::open(door.as_ref())?;
                }
                Some((Request::Signal(number), _)) => signal(held.pid, number),
                Some((Request::Cover { root, below, how }, _)) => {
                    send(socket, &Reply::Covered(mounts::cover(&root, &below, how)), &[])?
                }
                Some((Request::Channel { root, below, object }, _)) => {
                    let answer = channels::cover(&root, &below, &object, sockets);
                    send(socket, &Reply::Channel(answer), &[])?
                }
                Some((Request::Connect(address), _)) => match network::connection(address) {
                    Ok(connection) => send(socket, &Reply::Connected(address, true), &[connection.as_fd()])?,
                    Err(_) => send(socket, &Reply::Connected(address, false), &[])?,
                },
                Some((Request::Bind(address), _)) => match network::listener(address) {
                    Ok(listener) => send(socket, &Reply::Bound(address, true), &[listener.as_fd()])?,
                    Err(_) => send(socket, &Reply::Bound(address, false), &[])?,
                },
            }
        }
        if ready[1] {
            return Ok(Some(reaper.bwrap_status()?));
        }
    }
}

/// The door was closed by exec, or carries the reason why there was none.
fn report_exec(socket: BorrowedFd<'_>, door: BorrowedFd<'_>) -> Result<(), Failure> {
    let mut bytes = [0; StageReport::MAX_LEN];
    let length = rustix::io::read(door, &mut bytes)?;
    if length == 0 {
        return Ok(send(socket, &Reply::Started, &[])?);
    }
    match StageReport::decode(&bytes[..length]) {
        Some(StageReport::NotExecuted { errno, found }) => {
            Ok(send(socket, &Reply::NotExecuted { errno, found }, &[])?)
        }
        Some(StageReport::NotPrepared(why)) => Err(Failure::new("the jail could not be set up", why)),
        None => Err(Failure::new("the jail could not be set up", "the in-jail stage said something else")),
    }
}

/// Signals the command's process group, which the in-jail stage made, or the command alone while it has none.
fn signal(command: Pid, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        let sent = kill_process_group(command, signal);
        if sent.is_err() {
            // A command that has ended needs no signal.
            let _ = rustix::process::kill_process(command, signal);
        }
    }
}
