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
