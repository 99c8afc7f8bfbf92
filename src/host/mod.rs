//! The one reader of the machine. It changes nothing.
//!
//! [`Host::read`] gathers the facts that every launch needs: the user, the environment and the current directory. The
//! other rooms take what they look at as arguments, so that a launch pays only for what it asks.

pub mod agents;
mod bound;
pub mod bwrap;
pub mod command;
pub mod credentials;
pub mod distribution;
pub mod doctor;
mod entries;
pub mod environment;
mod fixes;
pub mod git;
pub mod git_config;
pub mod git_index;
pub mod globs;
mod grants;
pub mod handover;
pub mod ini;
pub mod kernel;
pub mod links;
pub mod names;
mod needs;
pub mod project;
pub mod protected;
pub mod secret_sources;
pub mod secrets;
pub mod sources;
pub mod state;
pub mod survey;
pub mod system;
pub(crate) mod things;
pub mod toolchains;
pub mod toolconf;
pub mod trust;
pub mod user;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::Result;
use crate::guard::Places;
use crate::guard::record::Record;
use environment::Environment;
use user::User;

/// No configuration file of another tool that is longer than this is read (bytes).
const MAX_FILE: u64 = 1 << 20;

/// The cheap facts about this machine, read once. Every field is public so that a test can build one.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where the file system begins: `/`, or the directory that a test uses in its place for `/etc` and the like.
    pub root: PathBuf,
    /// Who started us.
    pub user: User,
    /// The launcher's environment and standard streams.
    pub environment: Environment,
    /// The current directory, absolute and free of symlinks; `None` when it was removed or cannot be reached.
    pub cwd: Option<PathBuf>,
    /// What paths resolve to, as far as somebody asked.
    pub resolved: links::Resolved,
}

impl Host {
    /// Reads the facts of this process and its user.
    ///
    /// # Errors
    /// When the user has no usable home directory.
    pub fn read() -> Result<Self> {
        let root = PathBuf::from("/");
        let environment = Environment::read();
        let user = User::read(&root, &environment)?;
        let cwd = std::env::current_dir().ok().and_then(|dir| dir.canonicalize().ok());
        Ok(Self { root, user, environment, cwd, resolved: links::Resolved::default() })
    }

    /// The place of an absolute path of the system below [`Host::root`].
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        below(&self.root, path.as_ref())
    }

    /// The path without symlinks, of something that exists. Remembered: for the time of a launch only.
    pub(super) fn real(&self, path: &Path) -> Option<PathBuf> {
        self.resolved.real(path)
    }

    /// The trees that jails are writing now: a symlink there may be an agent's. Read only when there is a symlink.
    fn written_now(&self) -> Vec<PathBuf> {
        let state = self.xdg("XDG_STATE_HOME", ".local/state").join("ai-jail");
        Record::written(&Places::new(&state).sessions())
    }

    /// `$NAME` when it is an absolute path, else `fallback` below the home.
    pub fn xdg(&self, name: &str, fallback: &str) -> PathBuf {
        match self.environment.var(name).map(Path::new) {
            Some(path) if path.is_absolute() => path.to_path_buf(),
            _ => self.user.home.join(fallback),
        }
    }
}

/// `path`, which is absolute, below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The text of a regular file of at most a mebibyte. `None` when there is none, it is something else, or it is not UTF-8.
fn read_text(path: &Path) -> Option<String> {
    String::from_utf8(read_bytes(path, MAX_FILE)?).ok()
}

/// The bytes of a regular file of at most `max` bytes.
pub(crate) fn read_bytes(path: &Path, max: u64) -> Option<Vec<u8>> {
    // Files of /proc and /sys say that they are empty: what counts is what can be read.
    read_head(path, max + 1).filter(|bytes| bytes.len() as u64 <= max)
}

/// The first `max` bytes of a regular file.
fn read_head(path: &Path, max: u64) -> Option<Vec<u8>> {
    // A FIFO or a device in the file's place must not hold the launch up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use environment::Stream;

    /// A machine in a temporary directory: its root, with a home and a passwd file, and an empty environment.
    pub(crate) fn machine() -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("home/ann");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        let user = User {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            name: "ann".into(),
            group: "ann".into(),
            home: home.clone(),
            home_real: home,
            shell: "/bin/sh".into(),
        };
        let environment = Environment { vars: Default::default(), streams: [Stream::Other; 3] };
        (dir, Host { root, user, environment, cwd: None, resolved: links::Resolved::default() })
    }

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let (_dir, host) = machine();
        let file = host.at("/etc/x");
        fs::write(&file, "text").unwrap();
        assert_eq!(read_text(&file).as_deref(), Some("text"));
        assert_eq!(read_bytes(&file, 4).as_deref(), Some(b"text".as_slice()));
        assert_eq!(read_bytes(&file, 3), None);
        assert_eq!(read_text(Path::new("/dev/zero")), None);
        assert_eq!(read_text(&host.at("/etc")), None);
        let fifo = host.at("/etc/fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR).unwrap();
        assert_eq!(read_text(&fifo), None);
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file), None);
    }
}
