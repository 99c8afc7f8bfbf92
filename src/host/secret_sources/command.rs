//! Commands that are run outside: one that prints a value at the launch, one that revokes it at the end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};
use crate::sanitize::escape;

use super::super::Host;
use super::super::command::executable;
use super::{Bytes, Written};

/// A command has this long.
const DEADLINE: Duration = Duration::from_secs(20);
/// No value that a command prints is longer (bytes).
const MAX_OUTPUT: usize = 64 << 10;
/// As much is kept of what it says on its standard error (bytes).
const MAX_WORDS: usize = 4 << 10;

/// A command that was found outside of everything that the jail writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As it was written: for people. The arguments are not shown, since somebody may have put a secret there.
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// `PATH` without what the jail writes, for the interpreters of scripts.
    path: OsString,
    deadline: Duration,
}

impl Command {
    /// Finds the program of `words`: by its absolute path, or by its name on the launcher's `PATH`.
    ///
    /// # Errors
    /// When there is none outside of what the jail writes.
    pub fn find(host: &Host, words: &[String], written: &Written) -> Result<Self> {
        let (name, arguments) = match words.split_first() {
            Some((name, arguments)) if !name.is_empty() => (name, arguments),
            _ => return Err(Error::new(Kind::Config, "a command for a secret has no words")),
        };
        let missing = |why: &str, hint: &str| {
            Err(Error::new(
                Kind::NotFound,
                format!("the command {} for a secret was not found", escape(name.as_str())),
            )
            .because(why)
            .hint(hint))
        };
        let safe =
            |path: &Path| !written.holds(path) && path.canonicalize().is_ok_and(|real| !written.holds(&real));
        let entries = host.environment.path_entries();
        let entries: Vec<PathBuf> = entries.into_iter().filter(|entry| safe(entry)).collect();
        let named = Path::new(name);
        let program = if named.is_absolute() {
            if written.holds(named) || (named.exists() && !safe(named)) {
                return Err(Error::new(
                    Kind::Refused,
                    format!("the command {} for a secret cannot be used", escape(name.as_str())),
                )
                .because("it lies where a jail can write, which could change what is run outside")
                .hint(
                    "keep it outside the project and everything else that the jail writes, and name it there",
                ));
            }
            Some(named.to_path_buf())
        } else if name.contains('/') {
            return missing("its path is not absolute", "give its absolute path");
        } else {
            entries
                .iter()
                .map(|entry| entry.join(name))
                .find(|path| path.is_file() && safe(path) && executable(path))
        };
        let program = match program {
            Some(program) if program.is_file() && executable(&program) => program,
            Some(_) => {
                return missing(
                    "there is no program of that path that can be run",
                    "install it, or give another path",
                );
            }
            None => {
                return missing(
                    "no directory of PATH outside of what the jail writes has it",
                    "install it, or give its absolute path",
                );
            }
        };
        let path = std::env::join_paths(entries).unwrap_or_default();
        Ok(Self { name: name.clone(), program, arguments: arguments.to_vec(), path, deadline: DEADLINE })
    }

    /// Runs it and returns what it prints, less one newline at the end. `secret` is the name of the secret, for people.
    ///
    /// # Errors
    /// When it fails, prints nothing or too much, or takes longer than 20 s.
    pub fn print(&self, secret: &str) -> Result<Bytes> {
        let failed = |why: String| {
            Error::new(
                Kind::Refused,
                format!("the value of {} cannot be had from {}", escape(secret), escape(self.name.as_str())),
            )
            .because(why)
            .hint("run the command by hand to see what is wrong, or leave the secret out")
        };
        let mut output = self.run(None).map_err(|error| failed(error.to_string()))?;
        if let Some(why) = output.failure() {
            return Err(failed(why));
        }
        if output.printed.len() > MAX_OUTPUT {
            return Err(failed(format!("it printed more than {MAX_OUTPUT} bytes")));
        }
        if output.printed.last() == Some(&b'\n') {
            let length = output.printed.len() - 1;
            output.printed.truncate(length);
            if output.printed.last() == Some(&b'\r') {
                output.printed.truncate(length - 1);
            }
        }
        if output.printed.is_empty() {
            return Err(failed("it printed nothing".to_owned()));
        }
        Ok(output.printed)
    }

    /// Runs it with the value in the variable of the secret's name.
    ///
    /// # Errors
    /// In words, when it fails or takes longer than 20 s.
    pub fn revoke(&self, secret: &str, value: &[u8]) -> Result<(), String> {
        let failed = |why: String| {
            format!("{} could not be revoked by {}: {why}", escape(secret), escape(self.name.as_str()))
        };
        let output = self.run(Some((secret, value))).map_err(|error| failed(error.to_string()))?;
        match output.failure() {
            None => Ok(()),
            Some(why) if holds_part(why.as_bytes(), value) => {
                Err(failed("it failed, and what it said holds the value, so that it is not shown".to_owned()))
            }
            Some(why) => Err(failed(escape(why.as_str()).to_string())),
        }
    }

    fn run(&self, secret: Option<(&str, &[u8])>) -> io::Result<Output> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments).env("PATH", &self.path).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some((name, value)) = secret {
            use std::os::unix::ffi::OsStrExt;
            command.env(name, std::ffi::OsStr::from_bytes(value));
        }
        Running::new(command.spawn()?)?.attend(Instant::now() + self.deadline)
    }
}

/// Whether a recognisable part of `value` is in `text`, which may have been cut off anywhere.
fn holds_part(text: &[u8], value: &[u8]) -> bool {
    const PART: usize = 8;
    let size = PART.min(value.len());
    size > 0 && value.windows(size).any(|part| text.windows(size).any(|window| window == part))
}

/// What a command did.
struct Output {
    printed: Bytes,
    words: Vec<u8>,
    /// `None` when it was not over in time.
    status: Option<ExitStatus>,
}

impl Output {
    /// Why it failed, if it did; foreign words in it are not escaped yet.
    fn failure(&self) -> Option<String> {
        let status = match self.status {
            Some(status) if status.success() => return None,
            Some(status) => status.to_string(),
            None => format!("it was not over after {} s", DEADLINE.as_secs()),
        };
        let words = String::from_utf8_lossy(&self.words);
        let first = words.lines().map(str::trim).find(|line| !line.is_empty());
        Some(first.map_or(status.clone(), |first| format!("{status}: {first}")))
    }
}

/// A command that runs. It is killed when it is dropped before its end.
struct Running {
    child: Child,
    ended: OwnedFd,
    status: Option<ExitStatus>,
}

impl Running {
    fn new(child: Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => Ok(Self { child, ended, status: None }),
            Err(error) => {
                let mut child = child;
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    fn attend(mut self, deadline: Instant) -> io::Result<Output> {
        // Of the full size at once: what grows is moved, and leaves a copy behind.
        let mut printed = Zeroizing::new(Vec::with_capacity(MAX_OUTPUT + 1));
        let mut words = Vec::new();
        let mut stdout = self.child.stdout.take();
        let mut stderr = self.child.stderr.take();
        for pipe in [stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten()
        {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut polled = vec![PollFd::new(&self.ended, PollFlags::IN)];
            polled.extend(stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            polled.extend(stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let over = !polled[0].revents().is_empty();
            drop(polled);
            if stdout.as_ref().is_some_and(|pipe| !drain(pipe, &mut printed, MAX_OUTPUT + 1)) {
                stdout = None;
            }
            if stderr.as_ref().is_some_and(|pipe| !drain(pipe, &mut words, MAX_WORDS)) {
                stderr = None;
            }
            // What it left running may hold the pipes: nobody waits for that.
            if over {
                self.status = Some(self.child.wait()?);
                break;
            }
        }
        Ok(Output { printed, words, status: self.status })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads what is there, of which `most` bytes are kept in all. Returns whether more may come.
fn drain(pipe: impl AsFd, kept: &mut Vec<u8>, most: usize) -> bool {
    let mut piece = Zeroizing::new([0; 4096]);
    loop {
        match rustix::io::read(&pipe, &mut *piece) {
            Ok(0) => return false,
            Ok(count) => kept.extend(&piece[..count.min(most - kept.len())]),
            Err(Errno::INTR) => {}
            Err(error) => return error == Errno::AGAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::host::tests::machine;

    fn host() -> (tempfile::TempDir, Host) {
        let (dir, mut host) = machine();
        host.environment.vars = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        (dir, host)
    }

    fn shell(host: &Host, script: &str) -> Command {
        let words = ["sh", "-c", script].map(str::to_owned);
        Command::find(host, &words, &Written::default()).unwrap()
    }

    #[test]
    fn what_a_command_prints_is_the_value_less_one_newline() {
        let (_dir, host) = host();
        for (script, want) in [
            ("echo token", Ok("token")),
            ("printf token", Ok("token")),
            ("printf 'token\\r\\n'", Ok("token")),
            ("printf 'a\\n\\n'", Ok("a\n")),
            ("cat; echo token", Ok("token")),
            ("echo token; sleep 30 &", Ok("token")),
            ("echo $PWD", Ok("/")),
            ("true", Err("printed nothing")),
            ("echo", Err("printed nothing")),
            (
                "echo SECRET; printf '\\n\\033[31mnot logged in\\nmore' >&2; exit 4",
                Err("exit status: 4: \\x1b[31mnot logged in;"),
            ),
            ("kill -9 $$", Err("signal: 9")),
            ("head -c 65537 /dev/zero | tr '\\0' x", Err("more than 65536")),
        ] {
            let got = shell(&host, script).print("T").map(|value| String::from_utf8(value.to_vec()).unwrap());
            match want {
                Ok(want) => assert_eq!(got.as_deref(), Ok(want), "{script}"),
                Err(why) => {
                    let error = got.unwrap_err().to_string();
                    assert!(error.contains(why) && !error.contains("SECRET"), "{script}: {error}");
                }
            }
        }
        let begun = Instant::now();
        for script in ["exec sleep 30", "exec yes SECRET"] {
            let slow = Command { deadline: Duration::from_millis(200), ..shell(&host, script) };
            let error = slow.print("T").unwrap_err().to_string();
            assert!(error.contains("not over") && !error.contains("SECRET"), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the deadline holds");
    }

    #[test]
    fn revoking_finds_the_value_in_its_variable_and_failure_is_said() {
        let (dir, host) = host();
        let told = dir.path().join("told");
        let script = format!("printf %s \"$T\" > {}", told.display());
        shell(&host, &script).revoke("T", b"token").unwrap();
        assert_eq!(fs::read_to_string(told).unwrap(), "token");
        let why = shell(&host, "echo gone >&2; exit 1").revoke("T", b"token").unwrap_err();
        assert_eq!(why, "T could not be revoked by sh: exit status: 1: gone");
        let script = "echo \"cannot revoke $T: 503\" >&2; exit 3";
        let why = shell(&host, script).revoke("T", b"ghp_0123456789").unwrap_err();
        assert!(why.starts_with("T could not be revoked by sh: it failed, and what it said"), "{why}");
        assert!(!why.contains("ghp_") && !why.contains("6789"), "{why}");
    }

    #[test]
    fn no_program_is_taken_from_what_the_jail_writes() {
        let (dir, mut host) = host();
        let top = dir.path().canonicalize().unwrap();
        let program = |path: &str| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\necho x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("p/bin/gh");
        program("safe/gh");
        program("safe/op");
        symlink("p/bin", top.join("linked")).unwrap();
        fs::create_dir(top.join("links")).unwrap();
        symlink("../p/bin/gh", top.join("links/gh")).unwrap();
        let written = Written::new([top.join("p")]);
        let entries = ["p/bin", "linked", "links", "safe"].map(|entry| top.join(entry));
        host.environment.vars.insert("PATH".into(), std::env::join_paths(entries).unwrap());
        let find = |name: &str| Command::find(&host, &[name.to_owned()], &written).map(|found| found.program);
        assert_eq!(find("gh"), Ok(top.join("safe/gh")));
        let path = |name: &str| top.join(name).to_str().unwrap().to_owned();
        assert_eq!(find(&path("safe/op")), Ok(top.join("safe/op")));
        for (name, kind, hint) in [
            (path("p/bin/gh").as_str(), Kind::Refused, "outside the project"),
            (&path("linked/gh"), Kind::Refused, "outside the project"),
            (&path("links/gh"), Kind::Refused, "outside the project"),
            ("./gh", Kind::NotFound, "give its absolute path"),
            ("bin/gh", Kind::NotFound, "give its absolute path"),
            (&path("safe/gone"), Kind::NotFound, "give another path"),
            ("missing", Kind::NotFound, "or give its absolute path"),
            ("", Kind::Config, ""),
        ] {
            let error = find(name).unwrap_err();
            let said = format!("{error:#?} {error}");
            assert!(error.kind() == kind && said.contains(hint), "{name}: {said}");
            assert_eq!(said.contains("not found"), kind == Kind::NotFound, "{name}: {said}");
        }
        let found = Command::find(&host, &["gh".to_owned()], &written).unwrap();
        let kept = ["links", "safe"].map(|entry| top.join(entry));
        assert_eq!(std::env::split_paths(&found.path).collect::<Vec<_>>(), kept, "nor its interpreter");
    }
}
