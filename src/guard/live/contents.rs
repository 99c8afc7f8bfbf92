//! What protected files said at launch, to be compared with what they say after they were replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::guard::repository::running;
use crate::sanitize::escape;

/// Files that are remembered; of the others any replacement is told.
const MAX_FILES: usize = 2000;
/// No file that is compared is longer (bytes).
const MAX_BYTES: u64 = 1 << 20;
/// Settings that are named to the user.
const SHOWN: usize = 3;

/// The contents at launch.
#[derive(Debug, Default)]
pub(super) struct Contents {
    files: BTreeMap<PathBuf, Said>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Settings of git's that are not harmless: name and value.
    Settings(BTreeSet<(String, String)>),
    /// Anything else.
    Digest([u8; 32]),
    /// Not a file, or none that can be read whole.
    Unreadable,
}

impl Contents {
    pub(super) fn read<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Self {
        Self { files: paths.take(MAX_FILES).map(|path| (path.clone(), Said::read(path))).collect() }
    }

    /// What is new in a file, as a clause; `None` when there is nothing to say about it.
    pub(super) fn changed(&self, path: &Path) -> Option<String> {
        let now = Said::read(path);
        match (self.files.get(path), now) {
            (Some(then), now) if *then == now && now != Said::Unreadable => None,
            (then, Said::Settings(now)) => {
                let new: Vec<&str> = match then {
                    Some(Said::Settings(then)) => {
                        now.difference(then).map(|(name, _)| name.as_str()).collect()
                    }
                    _ => now.iter().map(|(name, _)| name.as_str()).collect(),
                };
                let (shown, more) = (new.iter().take(SHOWN), new.len().saturating_sub(SHOWN));
                let shown: Vec<String> = shown.map(|name| escape(*name).to_string()).collect();
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                (!new.is_empty()).then(|| format!("now says {}{more}", shown.join(", ")))
            }
            // A directory that stands where one stood: what is in it that matters is held by itself, or is new.
            (_, Said::Unreadable) if path.is_dir() && !path.is_symlink() && path.join("HEAD").exists() => {
                None
            }
            _ => Some("does not say what it said at launch".to_owned()),
        }
    }
}

impl Said {
    fn read(path: &Path) -> Self {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else {
            return Self::Unreadable;
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_BYTES) {
            return Self::Unreadable;
        }
        let mut bytes = Vec::new();
        if file.take(MAX_BYTES + 1).read_to_end(&mut bytes).is_err() || bytes.len() as u64 > MAX_BYTES {
            return Self::Unreadable;
        }
        match (is_git_config(path), String::from_utf8(bytes)) {
            (true, Ok(text)) => Self::Settings(running(&text)),
            (_, Ok(text)) => Self::Digest(Sha256::digest(text).into()),
            (_, Err(error)) => Self::Digest(Sha256::digest(error.into_bytes()).into()),
        }
    }
}

fn is_git_config(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name == "config" || name == "config.worktree");
    named && path.parent().is_some_and(|git| git.join("HEAD").symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_runs_programs_and_was_not_there_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        let envrc = dir.path().join(".envrc");
        fs::write(dir.path().join("HEAD"), "ref: x\n").unwrap();
        fs::write(&config, "[core]\n\tbare = false\n\teditor = vi\n").unwrap();
        fs::write(&envrc, "one").unwrap();
        let contents = Contents::read([config.clone(), envrc.clone()].iter());
        let cases = [
            (&config, "[core]\n\tbare = false\n\teditor = vi\n[user]\n\tname = x\n", None),
            (&config, "[core]\n\teditor = vim\n", Some("now says core.editor")),
            (&config, "[core]\n\tfsmonitor = x\n\teditor = vi\n", Some("now says core.fsmonitor")),
            (&config, "", None),
            (&envrc, "one", None),
            (&envrc, "two", Some("does not say what it said at launch")),
        ];
        for (path, text, expected) in cases {
            fs::write(path, text).unwrap();
            assert_eq!(contents.changed(path).as_deref(), expected, "{text:?}");
        }
        fs::remove_file(&envrc).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &envrc).unwrap();
        assert!(contents.changed(&envrc).is_some(), "a symlink in its place");
    }
}
