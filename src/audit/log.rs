//! Writing the log: one file per session, JSON Lines, each line chained to the one before it.

use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Instant, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::aggregate::{self, Aggregator, OTHERS};
use super::directory::{EXTENSION, private_directory, remove_oldest};
use super::event::{Event, NetDecision, Note, NoteKind, SecretUse, Verdict};
use super::uses::Uses;
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
    /// Bytes of records about denied connections.
    denied: u64,
    /// Bytes of records about denied questions for names.
    questions: u64,
    /// Bytes of records about denied requests.
    requests: u64,
    /// The kinds of records for which there was no room, each said once in a note.
    full: Vec<Room>,
    left_out: u64,
    broken: bool,
    aggregator: Aggregator,
    uses: Uses,
    started: Instant,
}

impl Log {
    /// Makes the log of `session` in `dir`, which is made too (0700).
    ///
    /// Fails when the directory is not the user's own or cannot be made, or when the file exists or cannot be made.
    pub fn open(dir: &Path, session: SessionId) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::new(Kind::Setup, format!("cannot write the audit log in {}", escape(dir)))
                .because(error)
                .hint("make room, or the directory writable")
        };
        let anchor = private_directory(dir).map_err(failed)?;
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let fd = openat(&anchor, format!("{session}.{EXTENSION}"), flags, Mode::from_raw_mode(0o600))
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
            denied: 0,
            questions: 0,
            requests: 0,
            full: Vec::new(),
            left_out: 0,
            broken: false,
            aggregator: Aggregator::default(),
            uses: Uses::default(),
            started: Instant::now(),
        })
    }

    /// Removes the oldest logs in `dir` when there are more than [`super::directory::MAX_FILES`] or
    /// [`super::directory::MAX_BYTES`] in all, those of running sessions excepted, and those of the last days as long as
    /// the bytes allow it. It takes its time: call it when nobody waits.
    pub fn prune(dir: &Path) {
        if let Ok(anchor) = private_directory(dir) {
            remove_oldest(dir, anchor.as_fd(), SystemTime::now());
        }
    }

    /// Writes `event`; equal network decisions, and equal uses of a secret, of one minute are counted and written as one, and what is still being
    /// counted comes before the end record, so that this one is the last.
    ///
    /// Fails when the line cannot be written whole. From then on every call fails, since the chain is broken. Denials,
    /// everything else about the network, and the rest have a room each, so that none fills the log at the cost of
    /// another; what has no room is said once in a note and counted in [`Log::left_out`]. The end record always fits.
    pub fn record(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Net(decision) => {
                let due = self.aggregator.take(decision.clone(), self.started.elapsed().as_secs());
                self.decisions(due)
            }
            Event::Secret(used) => {
                let due = self.uses.take(used.clone(), self.started.elapsed().as_secs());
                self.secrets(due)
            }
            Event::End(_) => {
                self.flush()?;
                self.line(event)
            }
            _ => self.line(event),
        }
    }

    /// How many records had no room in the log.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes what is still being counted.
    pub fn flush(&mut self) -> Result<()> {
        let due = self.aggregator.drain();
        self.decisions(due)?;
        let due = self.uses.drain();
        self.secrets(due)
    }

    /// Writes what is still being counted. The disk is not waited for: that can take longer than the whole session, and a
    /// machine that crashes loses the end of the log and nothing else.
    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn decisions(&mut self, decisions: Vec<NetDecision>) -> Result<()> {
        decisions.into_iter().try_for_each(|decision| self.line(&Event::Net(decision)))
    }

    fn secrets(&mut self, uses: Vec<SecretUse>) -> Result<()> {
        uses.into_iter().try_for_each(|used| self.line(&Event::Secret(used)))
    }

    fn line(&mut self, event: &Event) -> Result<()> {
        if self.broken {
            return Err(self.unwritable("an earlier line could not be written"));
        }
        let room = Room::of(event);
        let beside_the_rest = self.written < MAX_SESSION_BYTES - MAX_REST_BYTES;
        let fits = match room {
            Room::Denied => self.denied < MAX_DENIED_BYTES && beside_the_rest,
            Room::Questions => self.questions < MAX_QUESTION_BYTES && beside_the_rest,
            Room::Requests => self.requests < MAX_REQUEST_BYTES && beside_the_rest,
            Room::Allowed | Room::Secrets => beside_the_rest,
            Room::Rest => self.written < MAX_SESSION_BYTES - MAX_END_BYTES,
            Room::End => true,
        };
        if fits {
            let before = self.written;
            self.write(event)?;
            match room {
                Room::Denied => self.denied += self.written - before,
                Room::Questions => self.questions += self.written - before,
                Room::Requests => self.requests += self.written - before,
                Room::Allowed | Room::Secrets | Room::Rest | Room::End => {}
            }
            return Ok(());
        }
        self.left_out += 1;
        if self.full.contains(&room) {
            return Ok(());
        }
        self.full.push(room);
        self.write(&Event::Note(Note {
            kind: NoteKind::Log,
            path: None,
            text: format!(
                "the log of this session is full: no more {room} are recorded; the end record counts them"
            ),
        }))
    }

    fn write(&mut self, event: &Event) -> Result<()> {
        let time = OffsetDateTime::now_utc().format(&Rfc3339).map_err(|error| self.unwritable(error))?;
        let record = Record { time: &time, session: &self.session.0, prev: &self.prev, event };
        let mut line = serde_json::to_string(&record).map_err(|error| self.unwritable(error))?;
        let digest = Sha256::digest(&line);
        line.push('\n');
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.broken = true;
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

/// How large the log of one session becomes, about: some twenty thousand records, which is days of ordinary work.
pub const MAX_SESSION_BYTES: u64 = 8 << 20;

/// Of these, what records of denied connections may take: the jail makes them without help from anybody.
const MAX_DENIED_BYTES: u64 = 2 << 20;

/// Of these, what records of denied questions for names may take.
const MAX_QUESTION_BYTES: u64 = 1 << 20;

/// Of these, what records of denied requests may take.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// Kept for what is not about the network.
const MAX_REST_BYTES: u64 = 1 << 20;

/// Kept for the end and for the notes that say what there was no room for.
const MAX_END_BYTES: u64 = 16 << 10;

/// Whose room in the log a record takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Denied,
    Questions,
    Requests,
    Allowed,
    Secrets,
    Rest,
    End,
}

impl Room {
    fn of(event: &Event) -> Self {
        match event {
            // One for a whole minute of denials is worth as much as a note.
            Event::Net(decision) if decision.host == OTHERS => Self::Rest,
            Event::Net(decision) if decision.verdict == Verdict::Allowed => Self::Allowed,
            Event::Net(decision) => match aggregate::Kind::of(decision) {
                aggregate::Kind::Connection => Self::Denied,
                aggregate::Kind::Question => Self::Questions,
                aggregate::Kind::Request => Self::Requests,
            },
            Event::Secret(used) if used.host == OTHERS => Self::Rest,
            Event::Secret(_) => Self::Secrets,
            Event::Start(_) | Event::Terminal(_) | Event::Note(_) => Self::Rest,
            Event::End(_) => Self::End,
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "denied connections",
            Self::Questions => "denied names",
            Self::Requests => "denied requests",
            Self::Allowed => "allowed connections",
            Self::Secrets => "uses of secrets",
            Self::Rest => "notes",
            Self::End => "ends",
        })
    }
}

#[derive(Serialize)]
struct Record<'a> {
    time: &'a str,
    session: &'a str,
    prev: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

#[cfg(test)]
mod tests;
