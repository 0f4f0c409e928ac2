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
mod tests;
