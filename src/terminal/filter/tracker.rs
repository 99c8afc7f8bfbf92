//! What the filter remembers beside its place in a sequence.

use super::queries::Queries;
use crate::terminal::class::{Class, Classes, Drops};
use crate::terminal::modes::Modes;

/// The memory that the rules for complete sequences work on.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) classes: Classes,
    pub(super) drops: Drops,
    pub(super) modes: Modes,
    pub(super) queries: Queries,
}

impl Tracker {
    pub(super) fn dropped(&mut self, class: Class) {
        self.drops.add(class);
    }
}
