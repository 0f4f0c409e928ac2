//! [`WatchedKinds`]: the kinds that a controller watches at the moment.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use evenkeel_cache::SharedInformer;

use super::watched_kind::WatchedKind;

/// The kinds that a controller watches at the moment. Sources add and remove them while it runs.
#[derive(Default)]
pub(super) struct WatchedKinds(RwLock<KindList>);

#[derive(Default)]
struct KindList {
    /// In the order in which they were added; the controller's own kind first.
    kinds: Vec<CountedKind>,
    primary: Option<Arc<WatchedKind>>,
}

struct CountedKind {
    kind: Arc<WatchedKind>,
    /// The number of sources with this informer.
    sources: usize,
}

impl WatchedKinds {
    fn read(&self) -> RwLockReadGuard<'_, KindList> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KindList> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a source of this informer. Returns the kind, which `make` makes if no other source has the informer.
    pub(super) fn join<T: 'static>(
        &self,
        informer: &SharedInformer<T>,
        is_primary: bool,
        make: impl FnOnce() -> WatchedKind,
    ) -> Arc<WatchedKind> {
        let mut list = self.write();
        let kind = match list.kinds.iter_mut().find(|counted| counted.kind.is(informer)) {
            Some(counted) => {
                counted.sources += 1;
                Arc::clone(&counted.kind)
            }
            None => {
                let kind = Arc::new(make());
                let counted = CountedKind { kind: Arc::clone(&kind), sources: 1 };
                let at = if is_primary { 0 } else { list.kinds.len() };
                list.kinds.insert(at, counted);
                kind
            }
        };
        if is_primary {
            list.primary = Some(Arc::clone(&kind));
        }
        kind
    }

    /// Removes a source of this kind, and the kind with its last source.
    pub(super) fn leave(&self, kind: &Arc<WatchedKind>, is_primary: bool) {
        let mut list = self.write();
        if is_primary && list.primary.as_ref().is_some_and(|primary| Arc::ptr_eq(primary, kind)) {
            list.primary = None;
        }
        let Some(at) = list.kinds.iter().position(|counted| Arc::ptr_eq(&counted.kind, kind)) else { return };
        list.kinds[at].sources -= 1;
        if list.kinds[at].sources == 0 {
            list.kinds.remove(at);
            drop(list);
            kind.set_unwatched();
        }
    }

    /// Returns the controller's own kind, unless it is not served.
    pub(super) fn primary(&self) -> Option<Arc<WatchedKind>> {
        self.read().primary.clone()
    }

    /// Returns the first value that the function returns for a kind.
    pub(super) fn find<R>(&self, find: impl Fn(&WatchedKind) -> Option<R>) -> Option<R> {
        self.read().kinds.iter().find_map(|counted| find(&counted.kind))
    }

    /// Returns the number of complete lists that the informers received so far. It changes also with the set of kinds.
    pub(super) fn complete_lists(&self) -> u64 {
        self.read().kinds.iter().map(|counted| counted.kind.complete_lists()).sum()
    }

    /// Returns the kinds.
    pub(super) fn all(&self) -> Vec<Arc<WatchedKind>> {
        self.read().kinds.iter().map(|counted| Arc::clone(&counted.kind)).collect()
    }
}
