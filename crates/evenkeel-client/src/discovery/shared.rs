//! [`Shared`]: a value that many want and one of them fetches.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::error::DiscoveryError;

/// A value that is fetched when it is first wanted, by one of those who want it, and then shared.
///
/// Those who wait while it is fetched share the outcome, also if it is a failure: a server that does not answer is not
/// asked by every one of them in turn. A failure is not remembered beyond that: whoever comes later fetches again. If the
/// one who fetches goes away, the next one in the queue takes over.
#[derive(Debug)]
pub(super) struct Shared<T> {
    state: RwLock<State<T>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<Arc<T>>,
    /// How many attempts have come to an end.
    attempts: u64,
    /// How the last one failed, if it did.
    failure: Option<DiscoveryError>,
    /// How often the value was cleared: what was fetched before that is not kept.
    epoch: u64,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        let state = State { value: None, attempts: 0, failure: None, epoch: 0 };
        Shared { state: RwLock::new(state), turn: tokio::sync::Mutex::default() }
    }
}

impl<T> Shared<T> {
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, if it is there.
    pub(super) fn peek(&self) -> Option<Arc<T>> {
        self.read().value.clone()
    }

    /// The value; runs `fetch` if there is none and nobody else is at it.
    pub(super) async fn get(
        &self,
        fetch: impl Future<Output = Result<T, DiscoveryError>>,
    ) -> Result<Arc<T>, DiscoveryError> {
        self.other_than(None, fetch).await
    }

    /// A value other than this one. Until it is there, the old one stays.
    pub(super) async fn renew(
        &self,
        old: &Arc<T>,
        fetch: impl Future<Output = Result<T, DiscoveryError>>,
    ) -> Result<Arc<T>, DiscoveryError> {
        self.other_than(Some(old), fetch).await
    }

    async fn other_than(
        &self,
        old: Option<&Arc<T>>,
        fetch: impl Future<Output = Result<T, DiscoveryError>>,
    ) -> Result<Arc<T>, DiscoveryError> {
        let wanted = |value: &Arc<T>| old.is_none_or(|old| !Arc::ptr_eq(old, value));
        let seen = {
            let state = self.read();
            if let Some(value) = state.value.as_ref().filter(|value| wanted(value)) {
                return Ok(Arc::clone(value));
            }
            state.attempts
        };
        let _turn = self.turn.lock().await;
        let epoch = {
            let state = self.read();
            if let Some(value) = state.value.as_ref().filter(|value| wanted(value)) {
                return Ok(Arc::clone(value));
            }
            if let Some(failure) = state.failure.as_ref().filter(|_| state.attempts != seen) {
                return Err(failure.clone());
            }
            state.epoch
        };
        let outcome = fetch.await.map(Arc::new);
        let mut state = self.write();
        state.attempts += 1;
        state.failure = outcome.as_ref().err().cloned();
        if let Ok(value) = &outcome
            && state.epoch == epoch
        {
            state.value = Some(Arc::clone(value));
        }
        outcome
    }

    /// Forgets the value, and what is being fetched at this moment.
    pub(super) fn clear(&self) {
        let mut state = self.write();
        state.value = None;
        state.failure = None;
        state.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn failure() -> DiscoveryError {
        DiscoveryError::Unusable { what: "it".into(), problem: "broken".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_share_a_value_and_a_failure() {
        let shared = Arc::new(Shared::<u32>::default());
        let fetches = Arc::new(AtomicUsize::new(0));
        let ask = |outcome: Result<u32, DiscoveryError>| {
            let (shared, fetches) = (Arc::clone(&shared), Arc::clone(&fetches));
            tokio::spawn(async move {
                let fetch = async {
                    fetches.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    outcome
                };
                shared.get(fetch).await
            })
        };
        let failing: Vec<_> = (0..50).map(|_| ask(Err(failure()))).collect();
        for task in failing {
            assert!(task.await.unwrap().is_err());
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);

        let good: Vec<_> = (0..50).map(|number| ask(Ok(number))).collect();
        let mut values = Vec::new();
        for task in good {
            values.push(*task.await.unwrap().unwrap());
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 2);
        values.dedup();
        assert_eq!(values.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_goes_away_leaves_the_work_to_the_next() {
        let shared = Arc::new(Shared::<u32>::default());
        let leader = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { shared.get(std::future::pending()).await }
        });
        tokio::task::yield_now().await;
        let next = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { shared.get(async { Ok(7) }).await }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        leader.abort();
        assert_eq!(*next.await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn what_was_fetched_before_a_clearing_is_not_kept() {
        let shared = Shared::<u32>::default();
        let fetch = async {
            shared.clear();
            Ok(1)
        };
        assert_eq!(*shared.get(fetch).await.unwrap(), 1);
        assert!(shared.peek().is_none());
        assert_eq!(*shared.get(async { Ok(2) }).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_failed_renewal_leaves_the_old_value() {
        let shared = Shared::<u32>::default();
        let old = shared.get(async { Ok(1) }).await.unwrap();
        assert!(shared.renew(&old, async { Err(failure()) }).await.is_err());
        assert_eq!(*shared.get(async { Ok(2) }).await.unwrap(), 1);
        assert_eq!(*shared.renew(&old, async { Ok(3) }).await.unwrap(), 3);
        assert_eq!(*shared.renew(&old, async { Ok(4) }).await.unwrap(), 3, "it has been renewed since");
    }
}
