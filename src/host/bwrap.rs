//! The `bwrap` that is run: one that only root can have changed.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};

/// The oldest release whose options we use.
pub const OLDEST: (u32, u32, u32) = (0, 8, 0);

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

/// A usable bwrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Its path, free of symlinks.
    pub path: PathBuf,
}

impl Bwrap {
    /// Finds one on `path_entries`. Looks only: no program is run.
    ///
    /// # Errors
    /// [`Kind::Machine`] when there is none, or when each that is there is setuid or could have been changed by someone
    /// other than root; the error says which and why.
    pub fn find(path_entries: &[PathBuf]) -> Result<Self> {
        let mut refused: Vec<String> = Vec::new();
        for dir in path_entries {
            let Ok(path) = dir.join("bwrap").canonicalize() else { continue };
            match objection(&facts(&path)) {
                None => return Ok(Self { path }),
                Some(why) if refused.contains(&why) => {}
                Some(why) => refused.push(why),
            }
        }
        if refused.is_empty() {
            return Err(Error::new(Kind::Machine, "bwrap was not found")
                .because("the jail is built with bubblewrap")
                .hint("install the package bubblewrap; `ai-jail doctor` prints the command"));
        }
        Err(Error::new(Kind::Machine, "no bwrap can be trusted")
            .because(refused.join(", and "))
            .hint("install your distribution's package bubblewrap; `ai-jail doctor` prints the command"))
    }

    /// Asks it for its version: major, minor, patch. Runs it, so a launch never does this.
    ///
    /// # Errors
    /// [`Kind::Machine`] when it does not start, answers something else, or not within `deadline`.
    pub fn version(&self, deadline: Duration) -> Result<(u32, u32, u32)> {
        let fail = |why: String| {
            Error::new(Kind::Machine, format!("{} --version failed", self.path.display())).because(why)
        };
        let mut command = Command::new(&self.path);
        command
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|errno| fail(errno.to_string()))?;
        let start = Instant::now();
        while child.try_wait().map_err(|errno| fail(errno.to_string()))?.is_none() {
            if start.elapsed() > deadline {
                // Both fail only when it has ended by itself.
                drop(child.kill());
                drop(child.wait());
                return Err(fail("it did not end in time".into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut text = String::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(256).read_to_string(&mut text).map_err(|errno| fail(errno.to_string()))?;
        }
        parse_version(&text).ok_or_else(|| fail("its answer is no version".into()))
    }
}

/// What counts about one directory or file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    path: PathBuf,
    uid: u32,
    mode: u32,
}

/// The program and every directory above it.
fn facts(path: &Path) -> Vec<Facts> {
    let stat = |path: &Path| {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Facts { path: path.to_path_buf(), uid: meta.uid(), mode: meta.mode() })
    };
    path.ancestors().filter_map(stat).collect()
}

/// Why a program (the first) below these directories is not trusted.
fn objection(facts: &[Facts]) -> Option<String> {
    let program = facts.first()?;
    if program.mode & 0o170_000 != 0o100_000 || program.mode & 0o111 == 0 {
        return Some(format!("{} is no executable file", program.path.display()));
    }
    if program.mode & (SETUID | SETGID) != 0 {
        return Some(format!("{} is setuid, which disables the options we need", program.path.display()));
    }
    facts.iter().find_map(|place| {
        // The build users may add to the store, but the sticky bit keeps them from what is there.
        let store =
            place.path == Path::new("/nix/store") && place.mode & STICKY != 0 && place.mode & 0o002 == 0;
        if place.uid != 0 {
            Some(format!("{} does not belong to root", place.path.display()))
        } else if place.mode & OTHERS_WRITE != 0 && !store {
            Some(format!("{} can be written by others than root", place.path.display()))
        } else {
            None
        }
    })
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.trim().strip_prefix("bubblewrap ")?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_can_change_is_trusted() {
        const FILE: u32 = 0o100_000;
        const DIR: u32 = 0o040_000;
        for (program, dir, place, ok) in [
            ((0, FILE | 0o755), (0, DIR | 0o755), "/usr", true),
            ((0, FILE | 0o555), (0, DIR | 0o555), "/usr", true),
            ((1000, FILE | 0o755), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o775), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o757), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o4755), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o2755), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o644), (0, DIR | 0o755), "/usr", false),
            ((0, DIR | 0o755), (0, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o755), (1000, DIR | 0o755), "/usr", false),
            ((0, FILE | 0o755), (0, DIR | 0o1777), "/tmp", false),
            ((0, FILE | 0o755), (0, DIR | 0o775), "/opt", false),
            ((0, FILE | 0o555), (0, DIR | 0o1775), "/nix/store", true),
            ((0, FILE | 0o555), (0, DIR | 0o0775), "/nix/store", false),
            ((0, FILE | 0o555), (0, DIR | 0o1777), "/nix/store", false),
        ] {
            let facts = [
                Facts { path: Path::new(place).join("bwrap"), uid: program.0, mode: program.1 },
                Facts { path: place.into(), uid: dir.0, mode: dir.1 },
                Facts { path: "/".into(), uid: 0, mode: DIR | 0o755 },
            ];
            let why = objection(&facts);
            assert_eq!(why.is_none(), ok, "{program:?} in {dir:?} {place}: {why:?}");
        }
    }

    #[test]
    fn versions_are_read() {
        for (text, want) in [
            ("bubblewrap 0.8.0\n", Some((0, 8, 0))),
            ("bubblewrap 0.11", Some((0, 11, 0))),
            ("bubblewrap 1.2.3\n", Some((1, 2, 3))),
            ("bwrap 0.8.0", None),
            ("bubblewrap x.y", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_program_in_a_place_of_the_users_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("bwrap");
        fs::write(&own, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        if let Ok(found) = Bwrap::find(&[dir.path().to_path_buf()]) {
            assert_ne!(found.path, own.canonicalize().unwrap());
        }
    }

    #[test]
    fn a_program_that_does_not_answer_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bwrap");
        fs::write(&path, "#!/bin/sh\nsleep 60\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = Bwrap { path }.version(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), Kind::Machine);
    }
}
