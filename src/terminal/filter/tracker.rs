//! What the filter remembers beside its place in a sequence.

use super::copies::Copies;
use super::queries::Queries;
use crate::terminal::class::{Class, Classes, Drops};
use crate::terminal::modes::Modes;

/// What may reach the terminal at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Whatever is listed.
    Listed,
    /// Of that, what changes the picture only: the terminal is somebody else's, who would get the answers and the modes.
    PictureOnly,
}

/// The memory that the rules for complete sequences work on.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) reach: Reach,
    pub(super) classes: Classes,
    pub(super) drops: Drops,
    pub(super) modes: Modes,
    pub(super) queries: Queries,
    pub(super) copies: Copies,
}

impl Tracker {
    pub(super) fn dropped(&mut self, class: Class) {
        self.drops.add(class);
    }
}
