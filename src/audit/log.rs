//! Writing the log: one file per session, JSON Lines, each line chained to the one before it.

use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::aggregate::Aggregator;
use super::event::{Event, NetDecision, Note, NoteKind};
use crate::error::{Error, Kind, Result};
use crate::sanitize::escape;

/// The name of a session: its start and the launcher's process. Names sort by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// A name for the session that process `pid` starts at `now` (UTC).
    pub fn new(now: OffsetDateTime, pid: u32) -> Self {
        let (date, time) = (now.date(), now.time());
        Self(format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}.{:06}Z-{pid}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.microsecond(),
        ))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The open log of one session. Only the supervisor holds it; no descriptor of it enters the jail.
///
/// Each line has `prev`, the SHA-256 of the line before it without its newline (64 zeros in the first line), so that
/// a line that was changed or taken out shows.
#[derive(Debug)]
pub struct Log {
    file: File,
    session: SessionId,
    prev: String,
    written: u64,
    state: State,
    aggregator: Aggregator,
    started: Instant,
}

impl Log {
    /// Makes the log of `session` in `dir`, which is made too (0700); the oldest logs there are removed when there are
    /// more than [`MAX_FILES`] or [`MAX_BYTES`] in all, those of running sessions excepted.
    ///
    /// Fails when the directory is not the user's own or cannot be made, or when the file exists or cannot be made.
    pub fn open(dir: &Path, session: SessionId) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::new(Kind::Setup, format!("cannot write the audit log in {}", escape(dir)))
                .because(error)
                .hint("make room or the directory writable, or set log.required = false")
        };
        let anchor = private_directory(dir).map_err(failed)?;
        remove_oldest(dir, anchor.as_fd());
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let fd = openat(&anchor, format!("{session}{SUFFIX}"), flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| failed(errno.into()))?;
        let file = File::from(fd);
        // Whatever the umask was.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            file,
            session,
            prev: "0".repeat(64),
            written: 0,
            state: State::Open,
            aggregator: Aggregator::default(),
            started: Instant::now(),
        })
    }

    /// Writes `event`; equal network decisions of one minute are counted and written as one.
    ///
    /// Fails when the line cannot be written whole. From then on every call fails, since the chain is broken. A log
    /// that has reached [`MAX_SESSION_BYTES`] says so in a note and then takes only the end record.
    pub fn record(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Net(decision) => {
                let due = self.aggregator.take(decision.clone(), self.started.elapsed().as_secs());
                self.decisions(due)
            }
            _ => self.line(event),
        }
    }

    /// Writes what is still being counted. To be called before the end record, so that this one is the last.
    pub fn flush(&mut self) -> Result<()> {
        let due = self.aggregator.drain();
        self.decisions(due)
    }

    /// Writes what is still being counted and puts everything on the disk.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().map_err(|error| self.unwritable(error))
    }

    fn decisions(&mut self, decisions: Vec<NetDecision>) -> Result<()> {
        decisions.into_iter().try_for_each(|decision| self.line(&Event::Net(decision)))
    }

    fn line(&mut self, event: &Event) -> Result<()> {
        match (self.state, event) {
            (State::Broken, _) => return Err(self.unwritable("an earlier line could not be written")),
            (State::Full, Event::End(_)) | (State::Open, _) => {}
            (State::Full, _) => return Ok(()),
        }
        if self.state == State::Open && self.written >= MAX_SESSION_BYTES && !matches!(event, Event::End(_)) {
            self.state = State::Full;
            return self.write(&Event::Note(Note {
                kind: NoteKind::Log,
                path: None,
                text: "the log of this session is full; only its end follows".to_owned(),
            }));
        }
        self.write(event)
    }

    fn write(&mut self, event: &Event) -> Result<()> {
        let time = OffsetDateTime::now_utc().format(&Rfc3339).map_err(|error| self.unwritable(error))?;
        let record = Record { time: &time, session: &self.session.0, prev: &self.prev, event };
        let mut line = serde_json::to_string(&record).map_err(|error| self.unwritable(error))?;
        let digest = Sha256::digest(&line);
        line.push('\n');
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.state = State::Broken;
            return Err(self.unwritable(error));
        }
        self.prev = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.written += line.len() as u64;
        Ok(())
    }

    fn unwritable(&self, why: impl fmt::Display) -> Error {
        Error::new(Kind::Setup, format!("cannot write the audit log of session {}", self.session))
            .because(why)
    }
}

/// How many logs are kept.
pub const MAX_FILES: usize = 200;

/// How many bytes of logs are kept.
pub const MAX_BYTES: u64 = 256 << 20;

/// How large the log of one session becomes.
pub const MAX_SESSION_BYTES: u64 = 32 << 20;

const SUFFIX: &str = ".jsonl";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Full,
    Broken,
}

#[derive(Serialize)]
struct Record<'a> {
    time: &'a str,
    session: &'a str,
    prev: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

/// Opens `dir`, made with its parents where they are missing; each that is made is 0700 whatever the umask.
fn private_directory(dir: &Path) -> io::Result<OwnedFd> {
    let mut missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    while let Some(path) = missing.pop() {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let anchor = File::from(openat(CWD, dir, flags, Mode::empty())?);
    let metadata = anchor.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the directory belongs to somebody else"));
    }
    if metadata.mode() & 0o077 != 0 {
        anchor.set_permissions(Permissions::from_mode(0o700))?;
    }
    Ok(anchor.into())
}

/// Removes old logs until one more fits. A log that cannot be removed is left: that is no reason not to write one.
fn remove_oldest(dir: &Path, anchor: impl AsFd) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut logs: Vec<(std::ffi::OsString, u64)> = entries
        .flatten()
        .filter(|entry| {
            Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "jsonl")
        })
        .filter_map(|entry| {
            Some((entry.file_name(), entry.metadata().ok().filter(fs::Metadata::is_file)?.len()))
        })
        .collect();
    logs.sort();
    let (mut files, mut bytes) = (logs.len(), logs.iter().map(|(_, size)| size).sum::<u64>());
    for (name, size) in logs {
        if files < MAX_FILES && bytes <= MAX_BYTES {
            return;
        }
        if remove_unless_running(&anchor, &name).is_ok() {
            files -= 1;
            bytes -= size;
        }
    }
}

fn remove_unless_running(anchor: impl AsFd, name: &std::ffi::OsStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&anchor, name, flags, Mode::empty())?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    unlinkat(&anchor, name, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::audit::event::{Door, End, Exit, Totals, Verdict};

    fn session(n: u32) -> SessionId {
        SessionId::new(OffsetDateTime::UNIX_EPOCH, n)
    }

    fn end() -> Event {
        Event::End(End { exit: Exit::Status(0), duration_ms: 1, totals: Totals::default() })
    }

    fn net(host: &str) -> Event {
        Event::Net(NetDecision {
            door: Door::Http,
            host: host.to_owned(),
            port: 443,
            verdict: Verdict::Denied,
            rule: None,
            origin: None,
            reason: None,
            count: 1,
        })
    }

    fn note(text: &str) -> Event {
        Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() })
    }

    fn lines(dir: &Path, session: &SessionId) -> Vec<String> {
        let text = fs::read_to_string(dir.join(format!("{session}.jsonl"))).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The number of the first line whose `prev` is not the hash of the line before it.
    fn broken_at(lines: &[String]) -> Option<usize> {
        let mut prev = "0".repeat(64);
        for (at, line) in lines.iter().enumerate() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            if value["prev"] != prev {
                return Some(at + 1);
            }
            prev = Sha256::digest(line).iter().map(|byte| format!("{byte:02x}")).collect();
        }
        None
    }

    #[test]
    fn a_session_id_sorts_by_time() {
        assert_eq!(session(7).to_string(), "19700101T000000.000000Z-7");
    }

    #[test]
    fn every_line_is_chained_to_the_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), session(1)).unwrap();
        for n in 0..5 {
            log.record(&note(&format!("note {n}"))).unwrap();
        }
        log.finish().unwrap();
        let lines = lines(dir.path(), &session(1));
        assert_eq!(lines.len(), 5);
        assert_eq!(broken_at(&lines), None);

        let mut changed = lines.clone();
        changed[1] = changed[1].replace("note 1", "note 9");
        assert_eq!(broken_at(&changed), Some(3));
        let mut shortened = lines.clone();
        shortened.remove(2);
        assert_eq!(broken_at(&shortened), Some(3));
        let mut swapped = lines;
        swapped.swap(0, 1);
        assert_eq!(broken_at(&swapped), Some(1));
    }

    #[test]
    fn a_line_has_time_session_and_event() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), session(1)).unwrap();
        log.record(&end()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&lines(dir.path(), &session(1))[0]).unwrap();
        assert_eq!(
            (&value["event"], &value["session"]),
            (&"end".into(), &"19700101T000000.000000Z-1".into())
        );
        let time = value["time"].as_str().unwrap();
        assert!(time.len() >= 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }

    #[test]
    fn repeated_decisions_are_one_record_with_a_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), session(1)).unwrap();
        for _ in 0..1_000 {
            log.record(&net("evil.example")).unwrap();
        }
        log.flush().unwrap();
        log.record(&end()).unwrap();
        log.finish().unwrap();
        let counts: Vec<_> = lines(dir.path(), &session(1))
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["count"].as_u64())
            .collect();
        assert_eq!(counts, [Some(1), Some(999), None]);
    }

    #[test]
    fn directory_and_file_are_the_users_alone() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("state/ai-jail/log");
        Log::open(&dir, session(1)).unwrap();
        for (path, mode) in [
            ("state", 0o700),
            ("state/ai-jail/log", 0o700),
            ("state/ai-jail/log/19700101T000000.000000Z-1.jsonl", 0o600),
        ] {
            let got = fs::metadata(root.path().join(path)).unwrap().mode() & 0o7777;
            assert_eq!(got, mode, "{path}");
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        Log::open(&dir, session(2)).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700, "a looser directory is closed");
    }

    #[test]
    fn a_planted_link_or_file_is_never_written_to() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("log");
        fs::create_dir(&dir).unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, dir.join(format!("{}.jsonl", session(1)))).unwrap();
        assert_eq!(Log::open(&dir, session(1)).unwrap_err().kind(), Kind::Setup);
        fs::write(dir.join(format!("{}.jsonl", session(2))), "old").unwrap();
        assert!(Log::open(&dir, session(2)).is_err());
        let link = root.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(Log::open(&link, session(3)).is_err(), "a directory that is a link");
        assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    }

    #[test]
    fn a_place_where_no_directory_can_be_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = Log::open(&root.path().join("file/log"), session(1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Setup);
        assert!(error.to_string().contains("cannot write the audit log in "), "{error}");
    }

    #[test]
    fn a_full_disk_is_an_error_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), session(1)).unwrap();
        log.file = File::options().write(true).open("/dev/full").unwrap();
        assert!(log.record(&note("x")).is_err());
        log.file = File::options().write(true).open("/dev/null").unwrap();
        assert!(log.record(&note("x")).is_err(), "the chain is broken");
    }

    #[test]
    fn a_full_log_says_so_and_takes_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), session(1)).unwrap();
        log.record(&note("before")).unwrap();
        log.written = MAX_SESSION_BYTES;
        for _ in 0..100 {
            log.record(&note("beyond")).unwrap();
        }
        log.record(&end()).unwrap();
        let lines = lines(dir.path(), &session(1));
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("is full") && lines[2].contains("\"event\":\"end\""));
        assert_eq!(broken_at(&lines), None);
    }

    #[test]
    fn the_oldest_logs_go_and_those_of_running_sessions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let running = Log::open(dir.path(), session(0)).unwrap();
        for n in 0..MAX_FILES + 10 {
            fs::write(dir.path().join(format!("2000-{n:04}.jsonl")), "").unwrap();
        }
        fs::write(dir.path().join("other.txt"), "").unwrap();
        Log::open(dir.path(), session(1)).unwrap();
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.iter().filter(|name| name.to_str().unwrap().ends_with(".jsonl")).count(), MAX_FILES);
        for kept in [
            format!("{}.jsonl", session(0)),
            format!("2000-{:04}.jsonl", MAX_FILES + 9),
            "other.txt".to_owned(),
        ] {
            assert!(names.iter().any(|name| *name == *kept), "{kept}");
        }
        drop(running);
    }

    #[test]
    fn large_logs_go_by_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..3 {
            let file = File::create(dir.path().join(format!("2000-{n}.jsonl"))).unwrap();
            file.set_len(MAX_BYTES / 2).unwrap();
        }
        Log::open(dir.path(), session(1)).unwrap();
        assert!(!dir.path().join("2000-0.jsonl").exists() && dir.path().join("2000-1.jsonl").exists());
    }
}
