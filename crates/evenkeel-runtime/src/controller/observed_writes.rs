//! [`ObservedWrites`]: the writes of a reconcile that the caches of its controller will show.

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
    kinds: Arc<WatchedKinds>,
    /// `None` when the reconcile has ended: later writes are not collected.
    awaited: Mutex<Option<Vec<AwaitedWrite>>>,
}

/// A write that a cache does not show yet.
#[derive(Clone, Debug)]
pub(super) enum AwaitedWrite {
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
        ObservedWrites(Arc::new(WriteLog { kinds: Arc::clone(kinds), awaited: Mutex::new(Some(Vec::new())) }))
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Vec<AwaitedWrite>>> {
        self.0.awaited.lock().unwrap_or_else(PoisonError::into_inner)
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
            let mut awaited = self.awaited();
            let Some(awaited) = &mut *awaited else { return };
            let is_same = |known: &Arc<WatchedKind>, other: &ObjectKey| {
                Arc::ptr_eq(known, &kind) && other.namespace() == key.namespace()
            };
            let known = awaited.iter_mut().find_map(|write| match write {
                AwaitedWrite::Version { kind, key, version: newest } if is_same(kind, key) => Some(newest),
                _ => None,
            });
            let write =
                || AwaitedWrite::Version { kind: Arc::clone(&kind), key: key.clone(), version: version.clone() };
            match known {
                Some(newest) if newest.compare(&version).is_none() => {
                    // The two versions have no known order, so both are awaited.
                    awaited.push(write());
                }
                Some(newest) => {
                    if version.is_newer_than(newest) {
                        *newest = version.clone();
                    }
                }
                None => awaited.push(write()),
            }
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
            match &mut *self.awaited() {
                Some(awaited) => awaited.push(AwaitedWrite::Deleted { kind, key: key.clone(), uid }),
                None => return,
            }
        }
    }

    /// Returns the recorded writes. Later writes are not recorded: a context that outlives its reconcile accumulates nothing.
    pub(super) fn close(&self) -> Vec<AwaitedWrite> {
        self.awaited().take().unwrap_or_default()
    }
}

impl AwaitedWrite {
    /// Waits until the cache shows the write, or will not: the informer has stopped, the namespace left its set, or the source was
    /// removed.
    pub(super) async fn wait(&self) {
        match self {
            AwaitedWrite::Version { kind, key, version } => {
                let _ = kind.at_least(key, version).await;
            }
            AwaitedWrite::Deleted { kind, key, uid } => kind.deleted(key, uid).await,
        }
    }
}

impl fmt::Debug for ObservedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedWrites").field(&*self.awaited()).finish()
    }
}
