//! [`ObservedWrites`] collects the writes of a reconcile that the caches of its controller will show, for [`AwaitedWrites`].

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_client::{ObservedWrite, WriteResult};
use evenkeel_core::{Header, ObjectKey, ResourceInfo, ResourceVersion};

use super::watched_kind::WatchedKind;
use super::watched_kinds::WatchedKinds;

/// The writes of a reconcile, as far as the caches of the controller will show them. Filled by the write observer of
/// [`Context::client`](super::Context::client).
#[derive(Clone)]
pub(super) struct ObservedWrites(Arc<WriteLog>);

struct WriteLog {
    /// `None` when the reconcile has ended: later writes are not collected.
    awaited: Mutex<Option<AwaitedWrites>>,
    kinds: Arc<WatchedKinds>,
}

/// The writes of a reconcile, until the caches show them.
#[derive(Clone)]
pub(super) struct AwaitedWrites {
    /// At most one version per kind and namespace, unless versions cannot be compared.
    writes: Vec<AwaitedWrite>,
    kinds: Arc<WatchedKinds>,
    /// [`WatchedKinds::complete_lists`] when the reconcile started.
    complete_lists: u64,
}

/// A write that a cache does not show yet.
#[derive(Clone, Debug)]
enum AwaitedWrite {
    /// The newest version that was written in the namespace of the key.
    Version {
        kind: Arc<WatchedKind>,
        key: ObjectKey,
        version: ResourceVersion,
    },
    Deleted {
        kind: Arc<WatchedKind>,
        key: ObjectKey,
        uid: String,
    },
}

impl ObservedWrites {
    pub(super) fn new(kinds: &Arc<WatchedKinds>) -> Self {
        let complete_lists = kinds.complete_lists();
        let awaited = AwaitedWrites { writes: Vec::new(), kinds: Arc::clone(kinds), complete_lists };
        ObservedWrites(Arc::new(WriteLog { awaited: Mutex::new(Some(awaited)), kinds: Arc::clone(kinds) }))
    }

    fn awaited(&self) -> MutexGuard<'_, Option<AwaitedWrites>> {
        self.0.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, write: AwaitedWrite) {
        if let Some(awaited) = &mut *self.awaited() {
            awaited.add(write);
        }
    }

    fn kinds(&self, info: &ResourceInfo) -> impl Iterator<Item = Arc<WatchedKind>> {
        self.0.kinds.all().into_iter().filter(|kind| kind.is_about(info))
    }

    /// Records a write that the client reports.
    pub(super) fn observe(&self, write: &ObservedWrite<'_>) {
        match (write.key, write.result) {
            (Some(key), WriteResult::Stored(header)) => self.stored(write.resource, key, header),
            (Some(key), WriteResult::Removed { uid }) => self.removed(write.resource, key, uid),
            // The version is not known, so there is nothing to wait for.
            _ => {}
        }
    }

    fn stored(&self, info: &ResourceInfo, key: &ObjectKey, object: &Header) {
        let version = object.version();
        if version.as_str().is_empty() {
            return;
        }
        for kind in self.kinds(info).filter(|kind| kind.will_show(key, object)) {
            self.add(AwaitedWrite::Version { kind, key: key.clone(), version: version.clone() });
        }
    }

    /// Records that an object was removed. An empty uid stands for the object that the cache shows.
    ///
    /// An object that the cache does not show may be one that this reconcile created. Its creation is awaited first, then its
    /// deletion.
    fn removed(&self, info: &ResourceInfo, key: &ObjectKey, uid: &str) {
        for kind in self.kinds(info) {
            let uid = match kind.uid(key) {
                Some(shown) if uid.is_empty() || shown == uid => shown,
                None if !uid.is_empty() => uid.to_owned(),
                _ => continue,
            };
            self.add(AwaitedWrite::Deleted { kind, key: key.clone(), uid });
        }
    }

    /// Returns the recorded writes, if there are any. Later writes are not recorded: a context that outlives its reconcile
    /// accumulates nothing.
    pub(super) fn close(&self) -> Option<AwaitedWrites> {
        self.awaited().take().filter(|awaited| !awaited.writes.is_empty())
    }
}

impl AwaitedWrites {
    fn add(&mut self, write: AwaitedWrite) {
        let known = self.writes.iter_mut().find(|known| known.is_beside(&write));
        match known.map(|known| (known.order(&write), known)) {
            Some((Some(Ordering::Less), known)) => *known = write,
            Some((Some(_), _)) => {}
            // Versions without a known order are all awaited.
            Some((None, _)) | None => self.writes.push(write),
        }
    }

    /// Adds writes of an earlier reconcile. Caches that show a later write show them too.
    pub(super) fn add_earlier(&mut self, earlier: AwaitedWrites) {
        self.complete_lists = earlier.complete_lists;
        for write in earlier.writes {
            if !self.writes.iter().any(|later| later.is_beside(&write)) {
                self.writes.push(write);
            }
        }
    }

    /// Waits until the caches show the writes, or will not: the informer has stopped, the namespace left its set, or the source was
    /// removed.
    pub(super) async fn seen(&self) {
        for write in &self.writes {
            write.seen().await;
        }
    }

    /// Returns whether events about the written objects may be missing: a list of a watched kind arrived since the reconcile
    /// started. An object that was created and deleted before that list was read is in no event.
    pub(super) fn may_miss_events(&self) -> bool {
        self.kinds.complete_lists() != self.complete_lists
    }
}

impl AwaitedWrite {
    /// Returns whether waiting for the later one of two writes suffices.
    fn is_beside(&self, other: &AwaitedWrite) -> bool {
        match (self, other) {
            (AwaitedWrite::Version { kind, key, .. }, AwaitedWrite::Version { kind: other, key: other_key, .. }) => {
                Arc::ptr_eq(kind, other) && key.namespace() == other_key.namespace()
            }
            (
                AwaitedWrite::Deleted { kind, key, uid },
                AwaitedWrite::Deleted { kind: other, key: other_key, uid: other_uid },
            ) => Arc::ptr_eq(kind, other) && key == other_key && uid == other_uid,
            _ => false,
        }
    }

    /// Returns the order of two writes beside each other, if it is known.
    fn order(&self, other: &AwaitedWrite) -> Option<Ordering> {
        match (self, other) {
            (AwaitedWrite::Version { version, .. }, AwaitedWrite::Version { version: other, .. })
                if version != other =>
            {
                version.compare(other)
            }
            _ => Some(Ordering::Equal),
        }
    }

    async fn seen(&self) {
        match self {
            AwaitedWrite::Version { kind, key, version } => {
                let _ = kind.at_least(key, version).await;
            }
            AwaitedWrite::Deleted { kind, key, uid } => kind.deleted(key, uid).await,
        }
    }
}

impl fmt::Debug for AwaitedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.writes).finish()
    }
}

impl fmt::Debug for ObservedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedWrites").field(&*self.awaited()).finish()
    }
}
