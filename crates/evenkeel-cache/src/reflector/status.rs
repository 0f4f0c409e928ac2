//! [`ReflectorStatus`]: the observable state of a reflector.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The phase of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorPhase {
    /// Not running.
    #[default]
    Idle,
    /// Listing: the objects are not complete.
    Listing,
    /// Watching.
    Watching,
    /// Waiting before a retry.
    Waiting {
        /// Until when.
        until: Instant,
    },
}

/// A handle to the state of a reflector, running or not. Cheap to clone and to read.
#[derive(Clone, Debug, Default)]
pub struct ReflectorStatus(Arc<Mutex<ReflectorReport>>);

/// The state of a reflector at one time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReflectorReport {
    /// The phase.
    pub phase: ReflectorPhase,
    /// The resource version up to which all changes were sent to the sink; empty before the first list.
    pub last_sync_resource_version: String,
    /// The number of lists, WatchLists included. Pages do not count.
    pub lists: u64,
    /// The number of watches.
    pub watches: u64,
    /// The number of watches that ended within a second without an event.
    pub short_watches: u64,
    /// The number of complete lists that were sent to the sink.
    pub syncs: u64,
    /// The number of unreadable objects and events.
    pub decode_failures: u64,
    /// The number of failures of any kind.
    pub failures: u64,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// The number of reports of requests without progress: no response, or no end of the initial list.
    pub stalls: u64,
    /// The number of objects of the list in progress; 0 while there is none.
    pub listed: usize,
    /// When the server last sent a list, an event or a bookmark.
    pub last_received: Option<Instant>,
    /// Whether the source refused the last WatchList, so that the reflector listed instead.
    pub is_watch_list_unavailable: bool,
}

/// The last failure of a reflector.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LastError {
    /// The error message.
    pub message: String,
    /// When.
    pub at: Instant,
}

impl ReflectorStatus {
    /// Returns the state of the reflector.
    pub fn report(&self) -> ReflectorReport {
        self.lock().clone()
    }

    /// Returns the resource version up to which all changes were sent to the sink; empty before the first list.
    pub fn last_sync_resource_version(&self) -> String {
        self.lock().last_sync_resource_version.clone()
    }

    /// Returns the phase.
    pub fn phase(&self) -> ReflectorPhase {
        self.lock().phase
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut ReflectorReport)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, ReflectorReport> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
