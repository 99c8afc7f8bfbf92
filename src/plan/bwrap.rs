//! The arguments of bubblewrap, from the operations.

use std::ffi::{OsStr, OsString};

use crate::plan::operation::{Access, BindSource, BwrapOp};
use crate::plan::{NetworkPlan, Plan};

/// A descriptor that bubblewrap finds open, by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(pub i32);

/// The descriptors that the arguments speak of.
#[derive(Debug)]
pub struct Numbers {
    /// The checked sources, in the order of the bind operations that use them.
    pub sources: Vec<Number>,
    /// The contents of files, in the order of the file operations.
    pub files: Vec<Number>,
    /// The seccomp program.
    pub seccomp: Number,
    /// The stage's end of the door.
    pub door: Number,
    /// The stage's orders.
    pub order: Number,
    /// What becomes the command's standard error; bubblewrap's own is a pipe of ours.
    pub stderr: Number,
}

/// The options that shape the jail; they end before the operations.
pub fn options(plan: &Plan) -> Vec<&'static str> {
    // --disable-userns is what keeps a jail from making namespaces, and so mounts, of its own.
    let mut options = vec![
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--disable-userns",
        "--die-with-parent",
        "--hostname",
        "ai-jail",
        "--cap-drop",
        "ALL",
    ];
    match plan.network {
        NetworkPlan::Off | NetworkPlan::Filtered(_) => options.push("--unshare-net"),
        NetworkPlan::DangerOpen => {}
    }
    options
}

/// The whole text behind `--args`, before it is joined by NUL bytes, with the command of the stage.
pub fn arguments(plan: &Plan, numbers: &Numbers) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = options(plan).into_iter().map(OsString::from).collect();
    let mut sources = numbers.sources.iter();
    let mut files = numbers.files.iter();
    for operation in &plan.operations {
        let mut push = |words: &[&OsStr]| arguments.extend(words.iter().map(OsString::from));
        match operation {
            BwrapOp::Dir(dest) => {
                push(&[OsStr::new("--perms"), OsStr::new("0755"), OsStr::new("--dir"), dest.as_os_str()])
            }
            BwrapOp::Tmpfs(dest, mode) => {
                push(&[
                    OsStr::new("--perms"),
                    OsStr::new(&format!("{mode:04o}")),
                    OsStr::new("--tmpfs"),
                    dest.as_os_str(),
                ]);
            }
            BwrapOp::Symlink { target, dest } => {
                push(&[OsStr::new("--symlink"), target.as_os_str(), dest.as_os_str()])
            }
            BwrapOp::Bind { source, dest, access } => {
                let flag = match access {
                    Access::ReadOnly => "--ro-bind",
                    Access::Writable => "--bind",
                };
                let source = match (source, source_number(source, &mut sources)) {
                    (_, Some(number)) => OsString::from(format!("/proc/self/fd/{}", number.0)),
                    (source, None) => source.path().as_os_str().to_owned(),
                };
                push(&[OsStr::new(flag), &source, dest.as_os_str()]);
            }
            BwrapOp::Device { source, dest } => {
                let source = match (source, source_number(source, &mut sources)) {
                    (_, Some(number)) => OsString::from(format!("/proc/self/fd/{}", number.0)),
                    (source, None) => source.path().as_os_str().to_owned(),
                };
                push(&[OsStr::new("--dev-bind"), &source, dest.as_os_str()]);
            }
            BwrapOp::File { dest, access, .. } => {
                let number = files.next().map_or(-1, |number| number.0).to_string();
                let mode = match access {
                    Access::ReadOnly => "0444",
                    Access::Writable => "0600",
                };
                push(&[
                    OsStr::new("--perms"),
                    OsStr::new(mode),
                    OsStr::new("--file"),
                    OsStr::new(&number),
                    dest.as_os_str(),
                ]);
            }
            BwrapOp::Cover { dest, .. } => {
                let number = files.next().map_or(-1, |number| number.0).to_string();
                push(&[OsStr::new("--ro-bind-data"), OsStr::new(&number), dest.as_os_str()]);
            }
            BwrapOp::DangerSurroundingProc(dest) => {
                push(&[OsStr::new("--ro-bind"), OsStr::new("/proc"), dest.as_os_str()]);
            }
            BwrapOp::Proc(dest) => push(&[OsStr::new("--proc"), dest.as_os_str()]),
            BwrapOp::Dev(dest) => push(&[OsStr::new("--dev"), dest.as_os_str()]),
            BwrapOp::RemountReadOnly(dest) => push(&[OsStr::new("--remount-ro"), dest.as_os_str()]),
        }
    }
    arguments.extend([
        "--seccomp".into(),
        numbers.seccomp.0.to_string().into(),
        "--chdir".into(),
        "/".into(),
    ]);
    arguments
}

/// The command that bubblewrap executes: the in-jail stage with the numbers of its descriptors.
pub fn command(plan: &Plan, numbers: &Numbers) -> Vec<OsString> {
    let mut command = vec![plan.stage.clone().into_os_string(), crate::plan::inner::STAGE.into()];
    command.extend(
        [numbers.door, numbers.order, numbers.stderr].map(|number| OsString::from(number.0.to_string())),
    );
    command
}

fn source_number(source: &BindSource, numbers: &mut std::slice::Iter<'_, Number>) -> Option<Number> {
    match source {
        BindSource::System(_) => None,
        BindSource::Checked(_) => numbers.next().copied(),
    }
}
