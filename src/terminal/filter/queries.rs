//! Which questions to the terminal are still open.

/// Counts queries that passed against answers that came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queries {
    open: u32,
    /// Fences (DA1, which every terminal answers, in order) without an answer.
    fences: u32,
    after_fence: u32,
    asked: u64,
}

impl Queries {
    /// How many answers may still come.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// How many were asked in all.
    pub fn asked_in_all(&self) -> u64 {
        self.asked
    }

    /// An answer came.
    pub fn answered(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// The answer to a fence came: what was asked before it and has no answer will get none.
    pub fn fence_answered(&mut self) {
        self.fences = self.fences.saturating_sub(1);
        let open = self.open.saturating_sub(1);
        self.open = if self.fences == 0 { open.min(self.after_fence) } else { open };
    }

    pub(super) fn asked(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.open = self.open.saturating_add(1);
        self.after_fence = self.after_fence.saturating_add(1);
    }

    pub(super) fn fence_asked(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.open = self.open.saturating_add(1);
        self.fences = self.fences.saturating_add(1);
        self.after_fence = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_fence_closes_what_was_asked_before_it() {
        let mut queries = Queries::default();
        queries.asked();
        queries.asked();
        queries.fence_asked();
        queries.asked();
        assert_eq!(queries.open(), 4);
        queries.answered();
        queries.fence_answered();
        assert_eq!(queries.open(), 1);
        queries.answered();
        queries.answered();
        assert_eq!(queries.open(), 0);
    }
}
