//! Pure: what will be done, as values. `--dry-run` prints them, `launch` carries them out.

pub mod bwrap;
pub mod compile;
mod etc;
pub mod inner;
pub mod late;
pub mod mounts;
pub mod operation;
pub mod proc;
pub mod raw;
pub mod seccomp;
pub mod show;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::ProcView;
use crate::policy::carry::Carry;
use crate::policy::net::NetPolicy;

use self::inner::InnerSpec;
use self::operation::{BwrapOp, DoorOp};

/// Everything that a launch does, decided.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The checked path of bubblewrap.
    pub bwrap: PathBuf,
    /// Whether pid, ipc, uts, cgroup and user namespaces come with a network namespace.
    pub network: NetworkPlan,
    /// What bubblewrap does, in order.
    pub operations: Vec<BwrapOp>,
    /// What is done at the held door, in order.
    pub door: Vec<DoorOp>,
    /// The tmpfs with the mounts that wait for their place.
    pub staging: PathBuf,
    /// Where the in-jail stage is found inside.
    pub stage: PathBuf,
    /// What the stage does.
    pub inner: InnerSpec,
    /// The seccomp program: an array of `struct sock_filter`.
    pub seccomp: Vec<u8>,
    /// The whole environment of the jail.
    pub environment: Vec<(String, OsString)>,
    /// What is made in our own directories on the host before the launch.
    pub store: Vec<StoreOp>,
    /// The same in a private home, where an agent may have put something in the way.
    pub wanted: Vec<StoreOp>,
    /// What an agent's settings bring along from the project where it ran last.
    pub carry: Option<Carry>,
    /// Whether `/proc` shows the jail's processes alone.
    pub proc_view: ProcView,
    /// Limits that need a cgroup.
    pub cgroup: Option<CgroupLimits>,
    /// After this long the jail is ended.
    pub time: Option<Duration>,
}

/// What the jail can reach.
#[derive(Debug, Clone)]
pub enum NetworkPlan {
    /// A network namespace with nothing but loopback.
    Off,
    /// The same, with our doors.
    Filtered(Arc<NetPolicy>),
    /// The host's network.
    DangerOpen,
}

/// Something made below ai-jail's own data directory, mode 0700, through no symlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreOp {
    /// A directory, with its parents.
    Directory(PathBuf),
    /// A file, with its parents; a new one gets this content.
    File(PathBuf, &'static str),
}

/// Limits that need a cgroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Tasks.
    pub pids: Option<u64>,
    /// Hundredths of a processor.
    pub cpu_percent: Option<u32>,
}
