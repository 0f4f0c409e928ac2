//! [`SingleFlight`]: a cached value that concurrent callers fetch once.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::error::DiscoveryError;

/// A cached value. Concurrent callers share one fetch.
///
/// Callers that wait for a fetch share its result, also if it is an error: an unresponsive server receives one request.
/// Errors are not cached: a later caller fetches again. If the fetching caller is dropped, the next waiting one takes
/// over.
#[derive(Debug)]
pub(super) struct SingleFlight<T> {
    state: RwLock<FlightState<T>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct FlightState<T> {
    value: Option<Arc<T>>,
    /// The number of finished fetches.
    attempts: u64,
    /// The error of the last one, if it failed.
    failure: Option<DiscoveryError>,
    /// The number of invalidations: a value that was fetched before one is not kept.
    epoch: u64,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        let state = FlightState { value: None, attempts: 0, failure: None, epoch: 0 };
        SingleFlight { state: RwLock::new(state), turn: tokio::sync::Mutex::default() }
    }
}

impl<T> SingleFlight<T> {
    fn read(&self) -> RwLockReadGuard<'_, FlightState<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FlightState<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached value.
    pub(super) fn peek(&self) -> Option<Arc<T>> {
        self.read().value.clone()
    }

    /// Returns the value; runs `fetch` if there is none and no other fetch is running.
    pub(super) async fn get(
        &self,
        fetch: impl Future<Output = Result<T, DiscoveryError>>,
    ) -> Result<Arc<T>, DiscoveryError> {
        self.other_than(None, fetch).await
    }

    /// Returns a value other than `old`, which stays until the new one has arrived.
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

    /// Clears the value, and discards a running fetch.
    pub(super) fn clear(&self) {
        let mut state = self.write();
        state.value = None;
        state.failure = None;
        state.epoch += 1;
    }
}

#[cfg(test)]
mod tests;
