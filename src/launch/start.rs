//! From the plan to a jail that is held at its door.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use crate::egress::reach;
use crate::error::{Error, Kind, Result};
use crate::host::sources::Sources;
use crate::plan::bwrap::{Number, Numbers, arguments, command};
use crate::plan::operation::{BindSource, BwrapOp, Content, DoorOp, Missing};
use crate::plan::{NetworkPlan, Plan};
use crate::policy::ProcView;
use crate::terminal::{Stream, Streams, Terminal};

use super::carry;
use super::keeper::Keeper;
use super::points::Points;
use super::protocol::{FIRST_DESCRIPTOR, Listen, Order, Reply, Request, SocketsBy, bytes_to_memfd, to_memfd};
use super::store;

/// How long the whole set-up may take; the warden's own deadline is shorter.
pub(super) const HELD: Duration = Duration::from_secs(40);

/// What stands when the jail is held.
pub struct Held {
    /// The command's process id on the host.
    pub pid: i32,
    /// DNS over UDP and TCP, HTTP, HTTPS, the proxy; or none.
    pub listeners: Vec<OwnedFd>,
    /// What is worth telling the user.
    pub notes: Vec<String>,
}

/// Where the sources of a plan are.
pub struct Supplies<'a> {
    /// ai-jail's data directory.
    pub data: &'a Path,
    /// Directories of ours that lie in a tree which the jail sees, and are covered there.
    pub covered: &'a [PathBuf],
    /// What was held when it was looked at.
    pub sources: &'a Sources,
}

/// Sends the order: the warden builds the jail from here on, until [`held`]. What is returned is dropped when nothing of the jail is
/// left.
pub fn order(
    keeper: &Keeper,
    plan: &Plan,
    supplies: &Supplies<'_>,
    streams: &Streams,
    terminal: Option<&Terminal>,
) -> Result<Points> {
    store::make_own(supplies.covered)?;
    let store = store::prepare(supplies.data, &plan.store)?;
    let mut points = Points::default();
    if let Some(store) = &store {
        // Makes the way to each usable.
        made(plan).try_for_each(|(root, below, _)| store.unlock(root, below))?;
        let ours = made(plan).filter_map(|(root, below, kind)| Some((store.relative(root)?, below, kind)));
        points = Points::note(store, ours);
        plan.wanted.iter().for_each(|operation| store.attempt(operation));
        plan.carry.iter().try_for_each(|carry| carry::bring(store, carry))?;
    }
    let open = |path: &Path| match store.as_ref().map(|store| store.open(path)).transpose()?.flatten() {
        Some(object) => Ok(object),
        None => supplies.sources.open(path),
    };
    send(keeper, plan, open, streams, terminal)?;
    Ok(points)
}

/// Every mount point that is made in a directory of ours: that directory, the place below it, and what is made.
fn made(plan: &Plan) -> impl Iterator<Item = (&Path, &Path, Missing)> {
    // A mount that waited in the staging area is known by its place there.
    let staged = |dest: &Path| {
        plan.door.iter().find_map(|operation| match operation {
            DoorOp::Place { staged, root, below, .. } if root.join(below) == dest => Some(staged.as_path()),
            _ => None,
        })
    };
    let ours = move |root: &Path| {
        let root = staged(root).unwrap_or(root);
        plan.operations.iter().find_map(|operation| match operation {
            BwrapOp::Bind { source: BindSource::Checked(path), dest, .. } if dest == root => {
                Some(path.as_path())
            }
            _ => None,
        })
    };
    plan.door.iter().filter_map(move |operation| match operation {
        DoorOp::Place { root, below, missing, .. } if *missing != Missing::Refuse => {
            Some((ours(root)?, below.as_path(), *missing))
        }
        _ => None,
    })
}

/// Waits until the jail that was ordered is held.
pub fn held(keeper: &Keeper) -> Result<Held> {
    held_by(keeper.reply(HELD)?)
}

/// What the warden's reply to the order says.
pub(super) fn held_by(reply: (Reply, Vec<OwnedFd>)) -> Result<Held> {
    match reply {
        (Reply::Held { pid, notes }, listeners) => Ok(Held { pid, listeners, notes }),
        (Reply::Failed { what, why }, _) => {
            let error = Error::new(Kind::Setup, what).because(why);
            Err(error.hint("`ai-jail doctor` says what this machine lacks"))
        }
        (other, _) => {
            let why = format!("the warden said {other:?}");
            Err(Error::new(Kind::Setup, "the jail could not be set up").because(why))
        }
    }
}

/// The descriptors of one order, by the position that the warden gives numbers after.
#[derive(Default)]
struct Descriptors {
    owned: Vec<OwnedFd>,
    identical: HashMap<Vec<u8>, usize>,
}

impl Descriptors {
    fn add(&mut self, descriptor: OwnedFd) -> usize {
        self.owned.push(descriptor);
        self.owned.len() - 1
    }

    /// The same bytes are sent once.
    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<usize> {
        if let Some(position) = self.identical.get(bytes) {
            return Ok(*position);
        }
        let memfd = bytes_to_memfd(name, bytes).map_err(|error| too_large(error, bytes.len()))?;
        Ok(self.add(memfd))
    }
}

fn send(
    keeper: &Keeper,
    plan: &Plan,
    open: impl Fn(&Path) -> Result<OwnedFd>,
    streams: &Streams,
    terminal: Option<&Terminal>,
) -> Result<()> {
    let mut descriptors = Descriptors::default();
    let mut standard = [0; 3];
    for (position, stream) in [streams.stdin, streams.stdout, streams.stderr].into_iter().enumerate() {
        let descriptor = match (stream, terminal) {
            (Stream::Terminal, Some(terminal)) => terminal.slave_for(position).try_clone_to_owned(),
            _ => match position {
                0 => std::io::stdin().as_fd().try_clone_to_owned(),
                1 => std::io::stdout().as_fd().try_clone_to_owned(),
                _ => std::io::stderr().as_fd().try_clone_to_owned(),
            },
        };
        standard[position] = descriptors.add(descriptor.map_err(failed)?);
    }
    let controlling = match terminal {
        Some(terminal) => Some(descriptors.add(terminal.slave().try_clone_to_owned().map_err(failed)?)),
        None => None,
    };
    let mut rescue = None;
    if let Some(terminal) = terminal {
        let [user, note] = terminal.rescue().map(|fd| fd.try_clone_to_owned().map_err(failed));
        rescue = Some([descriptors.add(user?), descriptors.add(note?)]);
    }
    let (outside, inside) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
    sockopt::set_socket_passcred(&outside, true).map_err(|error| failed(error.into()))?;
    let door = descriptors.add(outside);
    let mut sources = Vec::new();
    let mut files = Vec::new();
    for operation in &plan.operations {
        match operation {
            BwrapOp::Bind { source: BindSource::Checked(path), .. }
            | BwrapOp::Device { source: BindSource::Checked(path), .. } => {
                sources.push(descriptors.add(open(path)?))
            }
            BwrapOp::File { content, .. } | BwrapOp::Cover { content, .. } => match content {
                Content::Bytes(bytes) => files.push(descriptors.bytes("file", bytes)?),
                Content::AtLaunch(wanted) => {
                    return Err(failed(std::io::Error::other(format!("{wanted:?} was not made"))));
                }
            },
            _ => {}
        }
    }
    let numbers = Numbers {
        sources: sources.iter().copied().map(number).collect(),
        files: files.into_iter().map(number).collect(),
        seccomp: number(descriptors.bytes("seccomp", &plan.seccomp)?),
        door: number(descriptors.add(inside)),
        order: number(descriptors.add(to_memfd("stage", &plan.inner).map_err(failed)?)),
        stderr: number(standard[2]),
    };
    // Bubblewrap's arguments travel in a memfd: nothing of them shows in a list of processes.
    let text = joined(arguments(plan, &numbers));
    let args = descriptors.bytes("arguments", &text)?;
    let mut bwrap_arguments = vec!["--args".to_owned(), number(args).0.to_string(), "--".to_owned()];
    for word in command(plan, &numbers) {
        bwrap_arguments.push(
            word.into_string().map_err(|_| failed(std::io::Error::other("the stage's path is not text")))?,
        );
    }
    let order = Order {
        bwrap: plan.bwrap.clone(),
        bwrap_arguments,
        environment: plan
            .environment
            .iter()
            .map(|(name, value)| (name.clone().into_bytes(), value.as_bytes().to_vec()))
            .collect(),
        standard,
        terminal: controlling,
        rescue,
        door,
        sources,
        mounts: plan.door.clone(),
        staging: Some(plan.staging.clone()),
        listen: match &plan.network {
            NetworkPlan::Filtered(policy) => Listen::Doors {
                routes: reach::local_routes(policy)
                    .into_iter()
                    .map(|route| (route.network(), route.prefix_len()))
                    .collect(),
                ports: policy.forward.iter().map(|port| port.value).collect(),
            },
            NetworkPlan::Off | NetworkPlan::DangerOpen => Listen::No,
        },
        sockets: match (&plan.network, plan.proc_view) {
            (NetworkPlan::Filtered(_) | NetworkPlan::Off, _) => SocketsBy::Namespace,
            (NetworkPlan::DangerOpen, ProcView::Own) => SocketsBy::Process,
            (NetworkPlan::DangerOpen, ProcView::DangerSurrounding) => SocketsBy::Nobody,
        },
        cgroup: plan.cgroup.clone(),
    };
    let order = to_memfd("order", &order).map_err(failed)?;
    let mut all = vec![order.as_fd()];
    all.extend(descriptors.owned.iter().map(AsFd::as_fd));
    if all.len() > super::protocol::DESCRIPTOR_LIMIT {
        return Err(Error::new(Kind::Refused, "too many files and directories are granted")
            .because(format!("{} descriptors are needed", all.len()))
            .hint("grant their parent directory instead"));
    }
    keeper.ask(&Request::Start, &all)
}

fn number(position: usize) -> Number {
    Number(FIRST_DESCRIPTOR + i32::try_from(position).unwrap_or(i32::MAX - FIRST_DESCRIPTOR))
}

fn joined(words: Vec<OsString>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.into_vec().into_iter().chain([0])).collect()
}

/// The error of a file that could not be made; its size says why when it is the limit of sizes.
fn too_large(error: std::io::Error, size: usize) -> Error {
    if error.raw_os_error() != Some(libc::EFBIG) {
        return failed(error);
    }
    let why =
        format!("a file of {} KiB is needed, and the limit of file sizes is below that", size.div_ceil(1024));
    Error::new(Kind::Setup, "the jail could not be set up").because(why).hint("raise it with ulimit -f")
}

fn failed(error: std::io::Error) -> Error {
    Error::new(Kind::Setup, "the jail could not be set up").because(error)
}
