//! Counting what the first list brought.

/// What the first list brought, on its way out of a queue.
///
/// Everything that is queued when the first list has come is initial, and comes out before anything else; so two numbers
/// are enough: how many are still to be popped, and how many are still to be processed.
#[derive(Debug, Default)]
pub(crate) struct InitialCount {
    begun: bool,
    queued: usize,
    unprocessed: usize,
}

impl InitialCount {
    /// Something came that is not a list.
    pub(crate) fn event(&mut self) {
        self.begun = true;
    }

    /// A list has come, and so many entries are queued now.
    pub(crate) fn list(&mut self, queued: usize) {
        if !self.begun {
            *self = InitialCount { begun: true, queued, unprocessed: queued };
        }
    }

    /// A list of so many entries has come in place of all that is queued.
    pub(crate) fn list_instead(&mut self, queued: usize) {
        if !self.begun || self.queued > 0 {
            let unprocessed = self.unprocessed - self.queued + queued;
            *self = InitialCount { begun: true, queued, unprocessed };
        }
    }

    /// So many entries have been popped.
    pub(crate) fn popped(&mut self, count: usize) {
        self.queued = self.queued.saturating_sub(count);
    }

    /// So many entries have been processed.
    pub(crate) fn processed(&mut self, count: usize) {
        self.unprocessed = self.unprocessed.saturating_sub(count).max(self.queued);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.begun && self.unprocessed == 0
    }

    /// How the next batch is, and how many entries it may have at most, of `queued` ones.
    pub(crate) fn next(&self, limit: usize, queued: usize) -> (bool, usize) {
        // Before anything has come, nothing has synced, and nothing is counted either.
        let initial = self.queued > 0 || !self.begun;
        let end = if self.queued > 0 { self.queued } else { queued };
        (initial, end.min(limit.max(1)).min(queued))
    }
}
