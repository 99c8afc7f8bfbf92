//! The processes of the machine, as /proc tells them.

use std::fs;

/// All processes below `pid`, id and name, parents before their children.
pub fn descendants(pid: i32) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![pid];
    while let Some(parent) = waiting.pop() {
        let next = children(parent);
        waiting.extend(next.iter().map(|(id, _)| *id));
        found.extend(next);
    }
    found
}

/// The children of `pid`: id and name.
pub fn children(pid: i32) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((head, tail)) = stat.rsplit_once(')') else { continue };
        let Some((id, name)) = head.split_once(" (") else { continue };
        if tail.split_whitespace().nth(1) == Some(&pid.to_string()) {
            found.push((id.parse().expect("a pid"), name.to_owned()));
        }
    }
    found
}

/// The state that /proc shows of a process: `T` is stopped, `Z` or nothing has ended.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process has a handler for the signal of this number.
pub fn handles(pid: i32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether the process is in the foreground of its terminal.
pub fn has_terminal(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, tail)| tail.split(' ').collect());
    // The process group is the fifth field of the file, that of the terminal's foreground the eighth.
    matches!((fields.get(2), fields.get(5)), (Some(own), Some(foreground)) if own == foreground)
}
