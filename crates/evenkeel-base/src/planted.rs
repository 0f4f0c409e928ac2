//! Mistakes that a simulation plants into the library, to show that it would find them.
//!
//! They exist in builds with `--cfg planted` only, and such a build needs debug assertions: a release build cannot contain them.
//! In every other build [`is_planted`] is the constant `false`, and what depends on it is not compiled into the program.

/// A mistake that can be planted. Numbers are those of docs/contract/reliability.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Defect {
    /// BUG-1: an informer that must start from a consistent list starts from a replica that may be stale.
    StaleRestart,
    /// BUG-2: a resource version that is too large for the server is sent again for ever.
    TooLargeVersionRepeated,
    /// BUG-3: after a 410 the list asks for the last resource version, which an older replica cannot serve.
    RelistAtLastVersion,
    /// BUG-4: the version of an object of an initial list counts as that of the whole list.
    InitialEventVersion,
    /// BUG-5: a bookmark is stored as an object.
    BookmarkStored,
    /// BUG-6: the version of a bookmark is taken before the events ahead of it are applied.
    BookmarkBeforeEvents,
    /// BUG-7: a truncated last frame counts as a clean end, and as received.
    TruncatedFrameReceived,
    /// BUG-8: a 410 within a watch is not recognised.
    ExpiredEventIgnored,
    /// BUG-9: a relist replaces the store without notifications of deletions.
    RelistWithoutDeletes,
    /// BUG-10: a relist sends a deletion of a key that exists.
    RelistDeletesLiveKey,
    /// BUG-11: pages from before an expired continue token are kept.
    ExpiredPagesKept,
    /// BUG-12: a list that was continued at a later version counts as consistent at its first.
    InconsistentPagesTrusted,
    /// BUG-13: the end of the stream counts as the end of the initial list.
    SyncedWithoutBookmark,
    /// BUG-14: an index keeps the entry of a former value.
    IndexEntryLeft,
    /// BUG-15: the transform is applied to additions only.
    TransformOnAddOnly,
    /// BUG-16: a handler that is added late misses events between its snapshot and its subscription.
    LateHandlerMisses,
    /// BUG-17: a resync delivers a wrong old object.
    ResyncWrongOld,
    /// BUG-18: a key that is added while it is processed is lost.
    AddInFlightLost,
    /// BUG-19: a key that is added while it is processed is given to a second worker.
    AddInFlightAtOnce,
    /// BUG-20: the later of two delays of a key counts.
    LaterDelayKept,
    /// BUG-21: delays are measured with the time of day.
    DelayByTimeOfDay,
    /// BUG-22: a drain returns before the last item is done.
    DrainTooEarly,
    /// BUG-23: a POST is sent again after its response was lost.
    PostRepeated,
    /// BUG-24: a retried PUT has no resource version.
    RetriedPutUnconditional,
    /// BUG-25: `Retry-After` is ignored.
    RetryAfterIgnored,
    /// BUG-26: a candidate trusts the `renewTime` of the record.
    RenewTimeTrusted,
    /// BUG-27: the validity of a lease counts from the response.
    ValidFromResponse,
    /// BUG-28: a leader works on until the next poll after it has lost its lease.
    LeadsAfterLoss,
    /// BUG-29: a release takes the lease of another holder away.
    ReleasesRivalLease,
    /// BUG-30: a slow handler blocks all others.
    SlowHandlerBlocks,
    /// BUG-31: a task is leaked for every watch.
    WatchTaskLeaked,
    /// BUG-32: a controller does not wait for its own writes to arrive in its cache.
    OwnWritesNotAwaited,
    /// BUG-33: resource versions are compared as texts.
    VersionsAsText,
    /// BUG-34: a silent watch is never given up.
    SilentWatchKept,
    /// BUG-35: the server publishes an event before a list shows its object.
    EventBeforeList,
    /// BUG-36: the server sends the new state of an object that leaves a selection.
    ExitWithNewState,
    /// BUG-37: a compaction drops the newest version of an object.
    CompactionDropsNewest,
    /// BUG-38: a token is part of the debug output of a configuration.
    TokenInDebug,
}

impl Defect {
    /// All defects, in the order of their numbers, which start at 1.
    pub const ALL: [Defect; 38] = [
        Defect::StaleRestart,
        Defect::TooLargeVersionRepeated,
        Defect::RelistAtLastVersion,
        Defect::InitialEventVersion,
        Defect::BookmarkStored,
        Defect::BookmarkBeforeEvents,
        Defect::TruncatedFrameReceived,
        Defect::ExpiredEventIgnored,
        Defect::RelistWithoutDeletes,
        Defect::RelistDeletesLiveKey,
        Defect::ExpiredPagesKept,
        Defect::InconsistentPagesTrusted,
        Defect::SyncedWithoutBookmark,
        Defect::IndexEntryLeft,
        Defect::TransformOnAddOnly,
        Defect::LateHandlerMisses,
        Defect::ResyncWrongOld,
        Defect::AddInFlightLost,
        Defect::AddInFlightAtOnce,
        Defect::LaterDelayKept,
        Defect::DelayByTimeOfDay,
        Defect::DrainTooEarly,
        Defect::PostRepeated,
        Defect::RetriedPutUnconditional,
        Defect::RetryAfterIgnored,
        Defect::RenewTimeTrusted,
        Defect::ValidFromResponse,
        Defect::LeadsAfterLoss,
        Defect::ReleasesRivalLease,
        Defect::SlowHandlerBlocks,
        Defect::WatchTaskLeaked,
        Defect::OwnWritesNotAwaited,
        Defect::VersionsAsText,
        Defect::SilentWatchKept,
        Defect::EventBeforeList,
        Defect::ExitWithNewState,
        Defect::CompactionDropsNewest,
        Defect::TokenInDebug,
    ];

    /// Returns the number of the defect: `BUG-1` is 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }
}

#[cfg(all(planted, not(debug_assertions)))]
compile_error!("`--cfg planted` puts defects into the library: build it with debug assertions, never for release");

/// Returns whether a defect is planted on this thread.
#[cfg(not(planted))]
#[inline(always)]
pub const fn is_planted(_defect: Defect) -> bool {
    false
}

#[cfg(planted)]
pub use switches::{PlantedGuard, is_planted, plant};

#[cfg(planted)]
mod switches {
    use std::cell::Cell;

    use super::Defect;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Returns whether a defect is planted on this thread.
    pub fn is_planted(defect: Defect) -> bool {
        PLANTED.try_with(|planted| planted.get() == Some(defect)).unwrap_or_default()
    }

    /// Plants a defect on this thread, in place of an earlier one, until the guard is dropped.
    pub fn plant(defect: Defect) -> PlantedGuard {
        PLANTED.set(Some(defect));
        PlantedGuard(())
    }

    /// Removes the defect of the thread when it is dropped.
    #[derive(Debug)]
    #[must_use = "dropping it removes the defect"]
    pub struct PlantedGuard(());

    impl Drop for PlantedGuard {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bug_90_numbers_of_defects_follow_each_other() {
        let numbers: Vec<usize> = Defect::ALL.iter().map(|defect| defect.number()).collect();
        assert_eq!(numbers, (1..=38).collect::<Vec<_>>());
    }

    #[test]
    #[cfg(not(planted))]
    fn bug_90_an_ordinary_build_has_no_defects() {
        const { assert!(!is_planted(Defect::StaleRestart)) }
    }
}
