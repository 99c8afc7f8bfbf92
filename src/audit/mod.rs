//! The audit log: typed events, one JSON line each, chained by hash.

mod aggregate;
mod counters;
pub mod directory;
mod event;
mod log;

pub use self::counters::Counters;
pub use self::event::{
    Door, End, Event, Exit, NetDecision, Note, NoteKind, Protections, Start, TerminalDrops, Totals, Verdict,
};
pub use self::log::{Log, MAX_SESSION_BYTES, SessionId};
