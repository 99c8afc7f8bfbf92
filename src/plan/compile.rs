//! A policy becomes a plan.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;
use crate::host::system::MountKind;
use crate::plan::etc;
use crate::plan::inner::{InnerLandlock, InnerSpec, InnerTerminal, Resource, Rlimit};
use crate::plan::mounts::{Mounts, STAGING, writable};
use crate::plan::operation::{Access, AtLaunch, BindSource, BwrapOp, Content, DoorOp, Veil};
use crate::plan::{CgroupLimits, NetworkPlan, Plan, StoreOp, proc};
use crate::policy::trust::{AUTHORITY, JAVA_ROOTS, Java, Trust, system_directory};
use crate::policy::{NetworkRule, Policy, ProcView};

/// Where the jail keeps what covers are made of: nothing of it can be used or changed there.
pub const STORE: &str = "/run/ai-jail/covers";
/// Where the in-jail stage is found inside; nothing can be written there.
const STAGE: &str = "/run/ai-jail/ai-jail";
/// Trees that every jail may write: tmpfs, devices, and its own processes' entries.
const ALWAYS_WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/run", "/dev", "/proc"];

/// What `launch` knows and the policy does not.
#[derive(Debug, Clone)]
pub struct Context {
    /// The checked path of bubblewrap.
    pub bwrap: PathBuf,
    /// Our own program, which is the in-jail stage.
    pub program: PathBuf,
    /// ai-jail's data directory.
    pub store: PathBuf,
    /// The seccomp program for this machine and the policy's debuggers.
    pub seccomp: Vec<u8>,
    /// Whether the jail gets a controlling terminal.
    pub terminal: InnerTerminal,
    /// The umask of the launcher.
    pub umask: u32,
    /// The signals that the launcher found ignored.
    pub ignored: Vec<i32>,
}

/// Compiles the plan.
///
/// # Errors
/// When a rule has no place in the jail.
pub fn compile(policy: &Policy, context: &Context) -> Result<Plan> {
    let mounts = Mounts::new(&policy.files, &policy.hidden, &policy.protected, &context.store)?;
    let mut operations = system(policy);
    let (etc, shown) = etc::take(&mut operations, &mounts.operations);
    operations.push(BwrapOp::Bind {
        source: BindSource::System(context.program.clone()),
        dest: STAGE.into(),
        access: Access::ReadOnly,
    });
    if needs_store(policy) {
        operations.push(BwrapOp::Dir(STORE.into()));
    }
    operations.push(BwrapOp::RemountReadOnly("/run/ai-jail".into()));
    operations.push(BwrapOp::Tmpfs(STAGING.into(), 0o700));
    operations.extend(etc);
    operations.extend(mounts.operations.iter().cloned());
    operations.push(BwrapOp::RemountReadOnly("/dev".into()));
    let operations = [parents(&operations, &shown), operations].concat();
    let mut door = shown;
    door.extend(mounts.door);
    if needs_store(policy) {
        door.insert(0, DoorOp::Store { path: STORE.into() });
    }
    let placeholders = policy.placeholders.iter().map(|(path, content)| StoreOp::File(path.clone(), content));
    let wanted = placeholders.chain(policy.installed.iter().cloned().map(StoreOp::Directory)).collect();
    if policy.proc_view == ProcView::Own {
        door.extend(proc::operations(policy.uid));
    }
    if policy.landlock_abi.is_none() {
        // Landlock keeps pid 1, which is bubblewrap, out of the command's reach; without it its entries are covered.
        door.push(DoorOp::Hide {
            root: "/proc".into(),
            below: "1".into(),
            veil: Veil::Empty,
            holes: Vec::new(),
        });
    }
    door.push(DoorOp::SealRoot);
    Ok(Plan {
        bwrap: context.bwrap.clone(),
        network: match &policy.network {
            NetworkRule::Off => NetworkPlan::Off,
            NetworkRule::Filtered(policy) => NetworkPlan::Filtered(policy.clone()),
            NetworkRule::DangerOpen => NetworkPlan::DangerOpen,
        },
        operations,
        door,
        staging: STAGING.into(),
        stage: STAGE.into(),
        inner: inner(policy, context),
        seccomp: context.seccomp.clone(),
        environment: policy
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), value.value.clone()))
            .collect(),
        store: mounts.store,
        wanted,
        carry: policy.carry.clone(),
        proc_view: policy.proc_view,
        cgroup: cgroup(policy),
        time: policy.limits.time_seconds.as_ref().map(|seconds| Duration::from_secs(seconds.value)),
    })
}

/// Whether something may have to be covered while the jail runs.
fn needs_store(policy: &Policy) -> bool {
    !policy.hidden.is_empty() || !policy.asked.is_empty()
}

/// The directories on the way to every destination, each once: bubblewrap would make them with modes of its own choice.
fn parents(operations: &[BwrapOp], shown: &[DoorOp]) -> Vec<BwrapOp> {
    let mounted: Vec<&Path> = operations.iter().filter_map(BwrapOp::mounted).collect();
    let missing: BTreeSet<&Path> = operations
        .iter()
        .filter_map(BwrapOp::placed)
        .chain(shown.iter().filter_map(DoorOp::shown))
        .flat_map(|dest| dest.ancestors().skip(1))
        .filter(|parent| *parent != Path::new("/") && !mounted.iter().any(|mount| parent.starts_with(mount)))
        .collect();
    missing.into_iter().map(|parent| BwrapOp::Dir(parent.to_path_buf())).collect()
}

/// The root: the system's files, made ones, and the file systems of the kernel.
fn system(policy: &Policy) -> Vec<BwrapOp> {
    let mut operations = vec![
        BwrapOp::Tmpfs("/tmp".into(), 0o1777),
        BwrapOp::Tmpfs("/var/tmp".into(), 0o1777),
        BwrapOp::Tmpfs("/run".into(), 0o755),
        match policy.proc_view {
            ProcView::Own => BwrapOp::Proc("/proc".into()),
            ProcView::DangerSurrounding => BwrapOp::DangerSurroundingProc("/proc".into()),
        },
        BwrapOp::Dev("/dev".into()),
        BwrapOp::Tmpfs("/dev/shm".into(), 0o1777),
        BwrapOp::Tmpfs("/run/ai-jail".into(), 0o755),
    ];
    for mount in &policy.system {
        operations.push(match &mount.kind {
            MountKind::Symlink(target) => {
                BwrapOp::Symlink { target: target.clone(), dest: mount.dest.clone() }
            }
            MountKind::Bind => BwrapOp::Bind {
                source: BindSource::System(mount.source.clone()),
                dest: match policy.trust.directory(&mount.dest) {
                    // What is in it is shown one by one, beside the session's authority.
                    Some(position) => system_directory(position),
                    None => mount.dest.clone(),
                },
                access: Access::ReadOnly,
            },
        });
    }
    for (dest, content) in &policy.made {
        operations.push(BwrapOp::File {
            content: Content::Bytes(content.clone()),
            dest: dest.clone(),
            access: Access::ReadOnly,
        });
    }
    operations.extend(trust(policy));
    operations
}

/// The trust bundle at its own place, and, where it says more than the host's, over the host's too.
fn trust(policy: &Policy) -> Vec<BwrapOp> {
    match &policy.trust {
        Trust::None => Vec::new(),
        Trust::Host(path) => {
            vec![BwrapOp::Bind {
                source: BindSource::System(path.clone()),
                dest: policy.trust_place.clone(),
                access: Access::ReadOnly,
            }]
        }
        Trust::Joined(bundle, covers) => {
            let mut operations = vec![BwrapOp::File {
                content: Content::Bytes(bundle.clone()),
                dest: policy.trust_place.clone(),
                access: Access::ReadOnly,
            }];
            operations.extend(
                covers.iter().map(|dest| BwrapOp::Cover {
                    content: Content::Bytes(bundle.clone()),
                    dest: dest.clone(),
                }),
            );
            operations
        }
        Trust::Session(places) => {
            let file = |content, dest: &Path| BwrapOp::File {
                content: Content::AtLaunch(content),
                dest: dest.to_path_buf(),
                access: Access::ReadOnly,
            };
            let cover = |content, dest: &PathBuf| BwrapOp::Cover {
                content: Content::AtLaunch(content),
                dest: dest.clone(),
            };
            let mut operations = vec![
                file(AtLaunch::Roots, &policy.trust_place),
                file(AtLaunch::Authority, Path::new(AUTHORITY)),
            ];
            operations.extend(places.directories.iter().cloned().map(BwrapOp::Dir));
            let apart = |path: &&PathBuf| !places.directories.iter().any(|within| path.starts_with(within));
            operations.extend(places.bundles.iter().filter(apart).map(|dest| cover(AtLaunch::Roots, dest)));
            if places.java != Java::None {
                operations.push(file(AtLaunch::JavaRoots, Path::new(JAVA_ROOTS)));
                operations.extend(
                    places.java_stores.iter().filter(apart).map(|dest| cover(AtLaunch::JavaRoots, dest)),
                );
            }
            operations
        }
    }
}

fn inner(policy: &Policy, context: &Context) -> InnerSpec {
    let mut rlimits = vec![Rlimit { resource: Resource::Core, limit: 0 }];
    rlimits.extend(
        policy.limits.files.as_ref().map(|files| Rlimit { resource: Resource::Files, limit: files.value }),
    );
    InnerSpec {
        program: policy.program.as_os_str().as_bytes().to_vec(),
        argv: policy.argv.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
        cwd: policy.cwd.as_os_str().as_bytes().to_vec(),
        terminal: context.terminal,
        rlimits,
        landlock: match policy.landlock_abi {
            Some(abi) => InnerLandlock::Enforce { abi, writable: writable(&policy.files, &ALWAYS_WRITABLE) },
            None => InnerLandlock::Unavailable,
        },
        umask: context.umask,
        ignored: context.ignored.clone(),
    }
}

fn cgroup(policy: &Policy) -> Option<CgroupLimits> {
    let limits = &policy.limits;
    let asked = CgroupLimits {
        memory: limits.memory.as_ref().map(|limit| limit.value),
        pids: limits.pids.as_ref().map(|limit| limit.value),
        cpu_percent: limits.cpu_percent.as_ref().map(|limit| limit.value),
    };
    (asked != CgroupLimits::default()).then_some(asked)
}
