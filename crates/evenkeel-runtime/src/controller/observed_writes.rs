//! [`ObservedWrites`]: what a reconcile has written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::{Header, Obj, ObjectKey, ResourceInfo, ResourceVersion};

use super::watched_kind::WatchedKind;

/// What a reconcile has written, as far as it writes what the controller looks at.
#[derive(Clone)]
pub(super) struct ObservedWrites(Arc<Writes>);

struct Writes {
    kinds: Arc<[WatchedKind]>,
    /// None when the reconcile has ended, and nobody will ask any more.
    awaited: Mutex<Option<Vec<AwaitedWrite>>>,
}

/// What must have come true before a cache shows what was written. Views are known by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AwaitedWrite {
    Version { kind: usize, version: ResourceVersion },
    Deleted { kind: usize, key: ObjectKey, uid: String },
}

impl ObservedWrites {
    pub(super) fn new(kinds: &Arc<[WatchedKind]>) -> Self {
        ObservedWrites(Arc::new(Writes { kinds: Arc::clone(kinds), awaited: Mutex::new(Some(Vec::new())) }))
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Vec<AwaitedWrite>>> {
        self.0.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kinds(&self, info: &ResourceInfo) -> impl Iterator<Item = (usize, &WatchedKind)> {
        self.0.kinds.iter().enumerate().filter(|(_, kind)| kind.is_about(info))
    }

    /// An object was written, and this is what it has become.
    pub(super) fn wrote<T>(&self, object: &Obj<T>) {
        self.wrote_version(object.resource(), object.header());
        if is_gone(object) {
            self.deleted(object.resource(), object.key(), object.uid());
        }
    }

    fn wrote_version(&self, info: &ResourceInfo, object: &Header) {
        let version = object.version();
        if version.as_str().is_empty() {
            return;
        }
        for (kind, _) in self.kinds(info).filter(|(_, kind)| kind.will_show(object)) {
            let mut awaited = self.awaited();
            let Some(awaited) = &mut *awaited else { return };
            let known = awaited.iter_mut().find_map(|write| match write {
                AwaitedWrite::Version { kind: known, version: newest } if *known == kind => Some(newest),
                _ => None,
            });
            match known {
                Some(newest) if newest.compare(&version).is_none() => {
                    // Which of them is the later one nobody can say, so both are waited for.
                    awaited.push(AwaitedWrite::Version { kind, version: version.clone() });
                }
                Some(newest) => {
                    if version.is_newer_than(newest) {
                        *newest = version.clone();
                    }
                }
                None => awaited.push(AwaitedWrite::Version { kind, version: version.clone() }),
            }
        }
    }

    /// An object of this kind was deleted, and is gone. An empty uid stands for that of the object which is seen.
    ///
    /// An object that is not seen yet may be one that was written just now. What was written first is waited for first, and
    /// then it is seen, or gone.
    pub(super) fn deleted(&self, info: &ResourceInfo, key: &ObjectKey, uid: &str) {
        for (index, kind) in self.kinds(info) {
            let uid = match kind.uid(key) {
                Some(seen) if uid.is_empty() || seen == uid => seen,
                None if !uid.is_empty() => uid.to_owned(),
                _ => continue,
            };
            match &mut *self.awaited() {
                Some(awaited) => awaited.push(AwaitedWrite::Deleted { kind: index, key: key.clone(), uid }),
                None => return,
            }
        }
    }

    /// What was noted. From now on nothing is, so that a context which outlives its reconcile does not gather what nobody asks
    /// for.
    pub(super) fn close(&self) -> Vec<AwaitedWrite> {
        self.awaited().take().unwrap_or_default()
    }
}

/// Whether an object that was answered to a write is there no more. A server takes an object away when its last finalizer goes
/// while it is being deleted, and answers with the version that it had before: nothing but this tells that it has gone.
fn is_gone<T>(object: &Obj<T>) -> bool {
    let grace = || object.path("metadata.deletionGracePeriodSeconds").ok().flatten();
    let has_no_grace = || grace().is_some_and(|grace| grace.json() == "0");
    object.deletion_timestamp().is_some() && object.finalizers().len() == 0 && has_no_grace()
}

impl AwaitedWrite {
    /// Waits until it has come true. An informer that has stopped shows nothing more, so there is nothing to wait for.
    pub(super) async fn wait(&self, kinds: &[WatchedKind]) {
        match self {
            AwaitedWrite::Version { kind, version } => {
                let _ = kinds[*kind].at_least(version).await;
            }
            AwaitedWrite::Deleted { kind, key, uid } => kinds[*kind].deleted(key, uid).await,
        }
    }
}

impl std::fmt::Debug for ObservedWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ObservedWrites").field(&*self.awaited()).finish()
    }
}
