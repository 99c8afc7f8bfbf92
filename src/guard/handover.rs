//! What is handed over after a session beside what was held back: operations of git that would run commands when they are
//! continued, and modes that no file may keep.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, stat, unlinkat};

use crate::host::handover::{Handed, Moment, What};
use crate::host::read_bytes;
use crate::sanitize::escape;

use super::quarantine;

/// Where git keeps the steps that are left of a rebase or a sequence, below a git directory.
const LISTS: [&str; 3] =
    ["rebase-merge/git-rebase-todo", "sequencer/todo", "rebase-merge/git-rebase-todo.backup"];
/// No longer list is read (bytes).
const LIST_LIMIT: u64 = 1 << 20;
/// Linked work trees of one repository that are looked at.
const WORK_TREES: usize = 1000;
/// As much of a command is shown (characters).
const SHOWN: usize = 60;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// What the trees of a session hold that the user should look at.
#[derive(Debug, Default)]
pub struct HandedOver(Vec<(What, PathBuf, PathBuf)>);

impl HandedOver {
    /// Adds what is in the tree at `root`.
    pub fn add(&mut self, root: &Path, handed: Vec<Handed>) {
        let handed = handed.into_iter().map(|handed| (handed.what, root.to_path_buf(), handed.below));
        self.0.extend(handed);
        self.0.sort();
        // A path is told once, as the first thing that it is.
        let mut seen = HashSet::new();
        self.0.retain(|(_, root, below)| seen.insert(root.join(below)));
    }

    /// Keeps what `wanted` says of the kind, the root and the path below it.
    pub fn retain(&mut self, mut wanted: impl FnMut(What, &Path, &Path) -> bool) {
        self.0.retain(|(what, root, below)| wanted(*what, root, below));
    }

    /// Each thing: what it is, and where.
    pub fn iter(&self) -> impl Iterator<Item = (What, &Path, &Path)> {
        self.0.iter().map(|(what, root, below)| (*what, root.as_path(), below.as_path()))
    }

    /// One line about all of it; `None` when there is nothing.
    pub fn line(&self) -> Option<String> {
        let first = self.0.first()?;
        let mut groups: Vec<(What, Vec<String>)> = Vec::new();
        for (what, root, below) in &self.0 {
            // Paths of the first tree are told from its root, where the user most likely is.
            let whole = root.join(below);
            let shown = if *root == first.1 { below } else { &whole };
            let shown = escape(shown.as_os_str()).to_string();
            match groups.last_mut() {
                Some((last, names)) if last == what => names.push(shown),
                _ => groups.push((*what, vec![shown])),
            }
        }
        let groups: Vec<String> = groups
            .into_iter()
            .map(|(what, names)| match names.as_slice() {
                [] | [_] | [_, _] => format!("{}: {}", what.name(), names.join(", ")),
                [first, rest @ ..] => format!("{}: {first} and {} more", what.name(), rest.len()),
            })
            .collect();
        Some(format!(
            "look at what other tools run or obey by themselves and is new or changed: {}",
            groups.join("; ")
        ))
    }
}

/// The operations in progress in the git directory at `git_dir` that run commands, and were not there at `since`.
pub fn operations(git_dir: &Path, since: Moment) -> Vec<String> {
    let linked = fs::read_dir(git_dir.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.take(WORK_TREES).map(|entry| entry.path());
    let directories = std::iter::once(git_dir.to_path_buf()).chain(linked);
    directories.flat_map(|directory| LISTS.map(|name| directory.join(name))).filter_map(|list| {
        let changed = stat(&list).is_ok_and(|stat| Moment::of_change(&stat) >= since);
        // A directory that was renamed brings its contents along.
        let moved = list.parent().and_then(|parent| stat(parent).ok());
        let moved = moved.is_some_and(|stat| Moment::of_change(&stat) >= since);
        if !list.exists() || !(changed || moved) {
            return None;
        }
        let command = match read_bytes(&list, LIST_LIMIT) {
            Some(text) => command(&text)?,
            None => "what cannot be read".to_owned(),
        };
        Some(format!(
            "{} runs a command when git goes on with it (`{}`): look at it before `git rebase --continue`, or run \
             `git rebase --abort`",
            escape(list.as_os_str()),
            escape(&*command)
        ))
    }).collect()
}

/// The first command in a list of what is left to do.
fn command(text: &[u8]) -> Option<String> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let line = line.trim_ascii();
        let rest = line.strip_prefix(b"exec").or_else(|| line.strip_prefix(b"x"))?;
        let is_command = rest.first().is_some_and(u8::is_ascii_whitespace);
        is_command.then(|| String::from_utf8_lossy(line).chars().take(SHOWN).collect())
    })
}

/// Takes set-user-ID and set-group-ID from a file, and removes a device node. Returns whether there was one.
///
/// # Errors
/// When that cannot be done.
pub fn disarm(root: &Path, below: &Path) -> std::io::Result<bool> {
    let (parent, name) = quarantine::place(root, below)?;
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = openat(&parent, name, path, Mode::empty())?;
    let stat = fstat(&object)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & SET_ID != 0 => {
            quarantine::set_mode(&object, stat.st_mode & 0o1777)?;
            Ok(true)
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            unlinkat(&parent, name, AtFlags::empty())?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Disarms all of `files`, in the tree at `root`. Returns what to say about it.
pub fn disarm_all(root: &Path, files: &[PathBuf]) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for below in files {
        let shown = escape(root.join(below).as_os_str()).to_string();
        match disarm(root, below) {
            Ok(true) => done.push(shown),
            Ok(false) => {}
            Err(error) => lines.push(format!(
                "{shown} runs with the rights of its owner or group, or is a device, and cannot be changed ({error}): remove it"
            )),
        }
    }
    if let Some((first, rest)) = done.split_first() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        lines.push(format!(
            "took set-user-ID and set-group-ID from {first}{more}, made in the jail (device nodes are removed)"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn commands_in_a_list_are_found_and_nothing_else() {
        for (text, expected) in [
            ("pick abc one\nexec make test\n", Some("exec make test")),
            ("x rm -rf /\n", Some("x rm -rf /")),
            ("  exec\ttouch y", Some("exec\ttouch y")),
            ("pick abc exec it\n# exec no\nexecute\nxyz\n", None),
            ("", None),
        ] {
            assert_eq!(command(text.as_bytes()).as_deref(), expected, "{text}");
        }
        assert_eq!(command("exec \u{e9}".repeat(100).as_bytes()).unwrap().chars().count(), SHOWN);
    }

    #[test]
    fn an_operation_that_was_there_before_is_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("rebase-merge/git-rebase-todo");
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        fs::write(&list, "exec x\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let since = Moment::now();
        assert_eq!(operations(dir.path(), since), Vec::<String>::new());
        fs::write(&list, "pick y\nexec evil\n").unwrap();
        assert!(operations(dir.path(), since)[0].contains("`exec evil`"));
        let linked = dir.path().join("worktrees/w/sequencer/todo");
        fs::create_dir_all(linked.parent().unwrap()).unwrap();
        fs::write(&linked, "exec other\n").unwrap();
        assert_eq!(operations(dir.path(), since).len(), 2);
    }

    #[test]
    fn bits_are_taken_and_nothing_else_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        for (before, after) in [(0o6755, 0o755), (0o2644, 0o644), (0o4000, 0o000)] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(before)).unwrap();
            assert!(disarm(dir.path(), Path::new("f")).unwrap());
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, after);
            fs::remove_file(&file).unwrap();
        }
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("link")).unwrap();
        assert!(!disarm(dir.path(), Path::new("f")).unwrap());
        assert!(!disarm(dir.path(), Path::new("link")).unwrap());
        assert!(disarm(dir.path(), Path::new("gone")).is_err());
    }
}
