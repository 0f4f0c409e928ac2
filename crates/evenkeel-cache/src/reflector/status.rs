//! How a reflector is doing: [`ReflectorStatus`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// What a reflector is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorPhase {
    /// It has not been run yet, or its future was dropped.
    #[default]
    Idle,
    /// It asks for all objects, and has not got them all.
    Listing,
    /// It hears what happens to them.
    Watching,
    /// It waits before it tries again.
    Waiting {
        /// Until when.
        until: Instant,
    },
}

/// How a reflector is doing, seen from anywhere: cheap to clone and to ask, while the reflector runs and when it does not.
#[derive(Clone, Debug, Default)]
pub struct ReflectorStatus(Arc<Mutex<ReflectorReport>>);

/// How a reflector was doing at one time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReflectorReport {
    /// What it does.
    pub phase: ReflectorPhase,
    /// The version up to which everything has been written to the store; empty before the first list. What reads from a
    /// queue behind the store may be behind.
    pub last_sync_resource_version: String,
    /// How many lists were begun; pages are not counted, and watches that begin with all objects are.
    pub lists: u64,
    /// How many watches were asked for.
    pub watches: u64,
    /// How many watches ended within a second, without an event.
    pub short_watches: u64,
    /// How many times the store's contents were replaced.
    pub syncs: u64,
    /// How many objects or events could not be read.
    pub decode_failures: u64,
    /// How many failures there were, of any kind.
    pub failures: u64,
    /// The last of them.
    pub last_error: Option<LastError>,
    /// When the server was last heard: a list, an event or a bookmark.
    pub last_heard: Option<Instant>,
    /// Whether the source would not begin a watch with all objects when it was last asked to, so that a list was made
    /// instead.
    pub is_watch_list_unavailable: bool,
}

/// A failure, as it is remembered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LastError {
    /// What went wrong, in words.
    pub message: String,
    /// When.
    pub at: Instant,
}

impl ReflectorStatus {
    /// How the reflector is doing.
    pub fn report(&self) -> ReflectorReport {
        self.lock().clone()
    }

    /// The version up to which everything has been written to the store; empty before the first list.
    pub fn last_sync_resource_version(&self) -> String {
        self.lock().last_sync_resource_version.clone()
    }

    /// What the reflector does.
    pub fn phase(&self) -> ReflectorPhase {
        self.lock().phase
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut ReflectorReport)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, ReflectorReport> {
        // Nothing can panic while it is held but the clone of a text.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
