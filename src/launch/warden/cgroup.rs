//! Limits on memory, processes and processors, through the user's own systemd.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use crate::plan::CgroupLimits;

use super::Failure;

/// Puts the held jail into a scope of its own with these limits, and reads them back from the kernel: a limit that is
/// not in force is a failure, never a warning.
pub(super) fn apply(stage: Pid, bwrap: Option<Pid>, limits: &CgroupLimits) -> Result<(), Failure> {
    let mut pids = vec![stage];
    pids.extend(bwrap);
    pids.extend(parent_of(stage));
    pids.sort_by_key(|pid| pid.as_raw_nonzero());
    pids.dedup();
    let numbers: Vec<String> = pids.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();

    let mut properties = vec![("PIDs", format!("au {} {}", numbers.len(), numbers.join(" ")))];
    if let Some(memory) = limits.memory {
        properties.push(("MemoryMax", format!("t {memory}")));
        properties.push(("MemorySwapMax", "t 0".to_owned()));
    }
    if let Some(pids) = limits.pids {
        properties.push(("TasksMax", format!("t {pids}")));
    }
    if let Some(percent) = limits.cpu_percent {
        properties.push(("CPUQuotaPerSecUSec", format!("t {}", u64::from(percent) * 10_000)));
    }
    let uid = rustix::process::getuid().as_raw();
    let runtime = format!("/run/user/{uid}");
    if !std::path::Path::new(&runtime).join("systemd/private").exists() {
        return Err(Failure::new(
            "a limit cannot be applied",
            format!(
                "memory, pids and cpu need the user's systemd, and none runs here ({runtime}/systemd is missing)"
            ),
        ));
    }
    let mut command = Command::new("busctl");
    command.env("XDG_RUNTIME_DIR", runtime);
    command.args(["--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"]);
    command.args(["org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"]);
    command.args([
        &format!("ai-jail-{}.scope", stage.as_raw_nonzero()),
        "fail",
        &properties.len().to_string(),
    ]);
    for (name, value) in &properties {
        command.arg(name).args(value.split(' '));
    }
    command.arg("0").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command
        .output()
        .map_err(|error| Failure::new("a limit cannot be applied", format!("cannot run busctl: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        return Err(Failure::new("a limit cannot be applied", format!("the user's systemd refused: {why}")));
    }
    confirm(stage, limits)
}

/// Reads the limits back; systemd moves the processes before it answers, but the files may come a moment later.
fn confirm(stage: Pid, limits: &CgroupLimits) -> Result<(), Failure> {
    let mut last = String::new();
    for _ in 0..100 {
        match in_force(stage, limits) {
            Ok(()) => return Ok(()),
            Err(why) => last = why,
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(Failure::new("a limit cannot be applied", last))
}

fn in_force(stage: Pid, limits: &CgroupLimits) -> Result<(), String> {
    let membership = fs::read_to_string(format!("/proc/{}/cgroup", stage.as_raw_nonzero()))
        .map_err(|error| error.to_string())?;
    let group = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("the jail is in no cgroup of version 2")?;
    if !group.contains("ai-jail-") {
        return Err("the jail is not in its own scope".to_owned());
    }
    let check = |file: &str, wanted: Option<String>| {
        let Some(wanted) = wanted else {
            return Ok(());
        };
        let found = fs::read_to_string(format!("/sys/fs/cgroup{group}/{file}"))
            .map_err(|error| format!("{file}: {error}"))?;
        if found.trim() == wanted { Ok(()) } else { Err(format!("{file} is {}, not {wanted}", found.trim())) }
    };
    // The kernel counts memory in pages.
    check("memory.max", limits.memory.map(|bytes| (bytes / 4096 * 4096).to_string()))?;
    check("pids.max", limits.pids.map(|pids| pids.to_string()))?;
    check("cpu.max", limits.cpu_percent.map(|percent| format!("{} 100000", u64::from(percent) * 1000)))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    Pid::from_raw(parent.trim().parse().ok()?)
}
