//! Mistakes that the model test plants into the machines, to show that it finds them.
//!
//! They exist in test builds only. In every other build [`is_planted`] is the constant `false`.

/// A mistake that can be planted. The comments name the contract line that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingDefect {
    /// SHR-010: validity counts from the response.
    ValidFromResponse,
    /// SHR-012: the assigner compares stored times with its clock.
    StoredTimes,
    /// SHR-023: slices of an expired member are given away without a fence.
    NoFence,
    /// SHR-027: a release counts although its member has not seen the move.
    ReleaseWithoutSeen,
    /// SHR-033: the release is written before the drain ends.
    EarlyRelease,
    /// SHR-024: slices of an evicted member are given away at once.
    EvictNow,
    /// SHR-013: a member overwrites its fence, and creates its Lease anew.
    Recreate,
    /// SHR-008: a member goes on with a Lease of its name that it has not written.
    ReusedName,
    /// SHR-029: a member accepts an older table.
    OlderTable,
    /// SHR-028: a new table makes the slices that no member reports free at once.
    RebuildNow,
    /// SHR-025: a deleted Lease counts as out at once.
    DeletedNow,
    #[cfg(test)]
    /// SHR-069: the grace exceeds the room between renew deadline and lease duration.
    LongGrace,
    /// SHR-055: a slice that moves counts at its source.
    CountsAtSource,
    /// SHR-020: counts go on over a gap in the assigner's own requests.
    CountsOverGap,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_defect: RingDefect) -> bool {
    false
}

#[cfg(test)]
pub(crate) use switches::{is_planted, plant};

#[cfg(test)]
mod switches {
    use std::cell::Cell;

    use super::RingDefect;

    thread_local! {
        static PLANTED: Cell<Option<RingDefect>> = const { Cell::new(None) };
    }

    /// Returns whether a defect is planted on this thread.
    pub(crate) fn is_planted(defect: RingDefect) -> bool {
        PLANTED.get() == Some(defect)
    }

    /// Plants a defect on this thread, or removes the one that is.
    pub(crate) fn plant(defect: Option<RingDefect>) {
        PLANTED.set(defect);
    }
}
