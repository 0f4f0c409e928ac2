//! [`Verdicts`]: remembers reviews. Concurrent requests for the same one share it.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lru::LruCache;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The maximum number of verdicts. A further one replaces the one that was not used for longest.
pub(super) const CAPACITY: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// A keyed hash of what a verdict is about.
pub(super) type VerdictKey = [u8; 32];

/// The result of a review.
pub(super) struct Reviewed<V> {
    pub(super) verdict: V,
    /// How long the verdict counts; `None` if it only answers the requests that wait for it.
    pub(super) keep: Option<Duration>,
}

/// Remembers verdicts until their time is over. Sans-IO.
pub(super) struct VerdictCache<V> {
    entries: LruCache<VerdictKey, (V, Instant)>,
}

impl<V: Clone> VerdictCache<V> {
    pub(super) fn new() -> Self {
        VerdictCache { entries: LruCache::sparse(CAPACITY) }
    }

    pub(super) fn get(&mut self, key: &VerdictKey, now: Instant) -> Option<V> {
        match self.entries.get(key) {
            Some((verdict, until)) if now < *until => Some(verdict.clone()),
            Some(_) => {
                self.entries.pop(key);
                None
            }
            None => None,
        }
    }

    pub(super) fn insert(&mut self, key: VerdictKey, verdict: V, until: Instant) {
        self.entries.put(key, (verdict, until));
    }
}

/// Returns verdicts from memory or from a review.
pub(super) struct Verdicts<V>(Mutex<VerdictState<V>>);

struct VerdictState<V> {
    cache: VerdictCache<V>,
    /// The reviews under way. There are no more than connections.
    reviews: HashMap<VerdictKey, Weak<OnceCell<V>>>,
}

impl<V: Clone> Verdicts<V> {
    pub(super) fn new() -> Self {
        Verdicts(Mutex::new(VerdictState { cache: VerdictCache::new(), reviews: HashMap::new() }))
    }

    /// Returns the verdict of a key. At most one review of a key runs at a time: if its caller is dropped, the next one that
    /// waits runs its own.
    pub(super) async fn get_or_review(&self, key: VerdictKey, review: impl Future<Output = Reviewed<V>>) -> V {
        let shared = {
            let mut state = self.lock();
            if let Some(verdict) = state.cache.get(&key, Instant::now()) {
                return verdict;
            }
            match state.reviews.get(&key).and_then(Weak::upgrade) {
                Some(shared) => shared,
                None => {
                    let shared = Arc::new(OnceCell::new());
                    // Reviews whose callers were dropped have left dead entries.
                    state.reviews.retain(|_, review| review.strong_count() > 0);
                    state.reviews.insert(key, Arc::downgrade(&shared));
                    shared
                }
            }
        };
        let reviewed = async {
            let Reviewed { verdict, keep } = review.await;
            let mut state = self.lock();
            if let Some(keep) = keep {
                state.cache.insert(key, verdict.clone(), Instant::now() + keep);
            }
            state.reviews.remove(&key);
            verdict
        };
        shared.get_or_init(|| reviewed).await.clone()
    }

    fn lock(&self) -> MutexGuard<'_, VerdictState<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
