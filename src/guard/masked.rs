//! Which secrets files of a project were masked in earlier sessions.
//!
//! A file that git tracks is not masked. A jail that finds an empty file in place of a secret can add that to git's index,
//! and so would make the next launch show the secret: what was masked once stays masked until git has its contents, or the
//! user says otherwise.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind, Result};
use crate::sanitize::escape;

/// No memory is longer (bytes): four thousand paths of the longest kind.
const LIMIT: u64 = 32 << 20;

/// One file that was masked. It is known by its path or by what it is: a directory above it may have been renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masked {
    /// On the host.
    #[serde(with = "crate::plan::raw")]
    pub path: PathBuf,
    /// Its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl Masked {
    /// The file that is at `path` now.
    pub fn at(path: &Path) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        Some(Self { path: path.to_path_buf(), device: metadata.dev(), inode: metadata.ino() })
    }

    /// Whether `other` is the same file, or has its name.
    pub fn is(&self, other: &Self) -> bool {
        self.path == other.path || (self.device == other.device && self.inode == other.inode)
    }
}

/// What was masked in `project`. `state` is ai-jail's state directory.
///
/// # Errors
/// When there is a memory of that and it cannot be read.
pub fn read(state: &Path, project: &Path) -> Result<Vec<Masked>> {
    let path = place(state, project);
    let failed = |why: String| {
        Error::new(Kind::Setup, format!("{} cannot be read", escape(&path)))
            .because(why)
            .hint("it says which secrets files earlier sessions masked: look at what git tracks of them, then remove it to begin anew")
    };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match File::options().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let mut json = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut json).map_err(|error| failed(error.to_string()))?;
    if json.len() as u64 > LIMIT {
        return Err(failed("it is too long".to_owned()));
    }
    serde_json::from_slice(&json).map_err(|error| failed(error.to_string()))
}

/// Adds `now` to what was masked in `project`, without those of `known` that git has by now.
///
/// # Errors
/// When that cannot be written, or what was masked before cannot be read.
pub fn remember(state: &Path, project: &Path, now: &[PathBuf], known: &[PathBuf]) -> Result<()> {
    let before = read(state, project)?;
    let mut all: Vec<Masked> = now.iter().filter_map(|path| Masked::at(path)).collect();
    let known: Vec<Masked> = known.iter().filter_map(|path| Masked::at(path)).collect();
    let kept = before.iter().filter(|old| !all.iter().chain(&known).any(|new| new.is(old))).cloned();
    let kept: Vec<Masked> = kept.collect();
    all.extend(kept);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    if all == before {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        Error::new(Kind::Setup, format!("cannot remember in {} which files were masked", escape(state)))
            .because(error)
    };
    let path = place(state, project);
    let directory = path.parent().unwrap_or(state);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let json = serde_json::to_vec(&all).map_err(|error| failed(error.into()))?;
    // Two sessions may do this at once: each writes a file of its own, and the last one wins.
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&new)
        .map_err(failed)?;
    file.write_all(&json).and_then(|()| fs::rename(&new, &path)).map_err(failed)
}

fn place(state: &Path, project: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let digest = Sha256::digest(project.as_os_str().as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    state.join("masked").join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_masked_is_remembered_by_name_and_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (state, project) = (dir.path().join("state"), dir.path().join("project"));
        fs::create_dir_all(project.join("a")).unwrap();
        let (one, two) = (project.join("a/.env"), project.join(".env"));
        fs::write(&one, "x").unwrap();
        fs::write(&two, "x").unwrap();
        assert_eq!(read(&state, &project).unwrap(), []);
        remember(&state, &project, &[one.clone(), two.clone()], &[]).unwrap();
        let moved = project.join("b/.env");
        fs::rename(project.join("a"), project.join("b")).unwrap();
        let known = read(&state, &project).unwrap();
        let is_known = |path: &Path| {
            let now = Masked::at(path).unwrap();
            known.iter().any(|old| old.is(&now))
        };
        assert!(is_known(&moved) && is_known(&two));
        fs::remove_file(&two).unwrap();
        fs::write(&two, "replaced").unwrap();
        assert!(is_known(&two));
        fs::write(project.join("other"), "x").unwrap();
        assert!(!is_known(&project.join("other")));
        // What git has by now is forgotten, what is not there now is kept.
        remember(&state, &project, &[], &[moved]).unwrap();
        assert_eq!(read(&state, &project).unwrap().len(), 1);
        assert_eq!(read(&state, Path::new("/elsewhere")).unwrap(), []);
    }

    #[test]
    fn a_memory_that_cannot_be_read_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let (state, project) = (dir.path().join("state"), dir.path().join("project"));
        let file = place(&state, &project);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for text in ["", "[{\"path\":", "{}"] {
            fs::write(&file, text).unwrap();
            let error = read(&state, &project).unwrap_err().to_string();
            assert!(error.contains("cannot be read") && error.contains("remove it"), "{error}");
            assert!(remember(&state, &project, &[], &[]).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), text, "it is not written over");
        }
        File::create(&file).unwrap().set_len(LIMIT + 1).unwrap();
        assert!(read(&state, &project).unwrap_err().to_string().contains("too long"));
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(read(&state, &project).is_err());
    }
}
