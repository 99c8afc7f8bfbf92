//! The audit log: typed events, one JSON line each, chained by hash.

mod aggregate;
mod counters;
mod denials;
pub mod directory;
mod event;
mod log;
mod uses;

pub use self::counters::Counters;
pub use self::event::{
    Door, End, Event, Exit, NetDecision, Note, NoteKind, Protections, SecretUse, SecretWhat, Start,
    TerminalDrops, Totals, Verdict,
};
pub use self::log::{Log, MAX_SESSION_BYTES, SessionId};
