//! [`Refresher`]: keeps one credential current, for exec plugins, OIDC providers and token sources.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::CredentialProblem;
use machine::{RefreshDecision, RefreshState};

mod machine;

#[cfg(test)]
mod tests;

pub(crate) use machine::{Credential, Fetched};

/// The future of a [`CredentialSource`].
pub(crate) type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Fetched, CredentialProblem>> + Send + 'a>>;

/// Obtains credentials.
pub(crate) trait CredentialSource: Send + Sync + 'static {
    /// Obtains a credential. Bounded in time by the source itself.
    fn fetch(&self) -> Fetching<'_>;

    /// Called whenever a credential of this source is used.
    fn used(&self) {}
}

/// Keeps the credential of one source current. Shared by all clients that use the source.
///
/// - At most one refresh is in flight. Requests without a valid credential wait for it and share its result.
/// - A credential that is about to expire is refreshed ahead of time by the first request that notices it. No request
///   waits for that while the credential is valid.
/// - After a failure no refresh starts before a pause has passed, which doubles from one second to one minute. Requests
///   without a valid credential receive the error at once.
/// - A rejected credential (401) is refreshed, at most once per pause if the server rejects its successors too.
///
/// A refresh is a task of its own: dropping the request that started it neither cancels it nor loses its result, which
/// other requests wait for. If the runtime of the task shuts down, the task is dropped and the next waiting request
/// starts another one on its own runtime.
///
/// Lifetimes are measured by the monotonic clock from the moment a credential is obtained. A machine that was suspended
/// may use an expired credential once: the server rejects it and it is refreshed.
pub(crate) struct Refresher {
    source: Box<dyn CredentialSource>,
    state: Mutex<RefreshState>,
    /// Notified at the end of every refresh.
    finished: Notify,
}

impl Refresher {
    pub(crate) fn new(source: impl CredentialSource) -> Arc<Self> {
        Arc::new(Refresher { source: Box::new(source), state: Mutex::default(), finished: Notify::new() })
    }

    /// Returns the current credential. Waits only if there is no valid one.
    pub(crate) async fn credential(self: &Arc<Self>) -> Result<Credential, Arc<CredentialProblem>> {
        loop {
            let mut finished = pin!(self.finished.notified());
            // Registered before the decision, so that the end of a refresh is not missed.
            finished.as_mut().enable();
            let decision = self.lock().decide(Instant::now());
            match decision {
                RefreshDecision::Use(credential) => {
                    self.source.used();
                    return Ok(credential);
                }
                RefreshDecision::UseAndRefresh(credential) => {
                    self.start();
                    return Ok(credential);
                }
                RefreshDecision::Fail(problem) => return Err(problem),
                RefreshDecision::Refresh => self.start(),
                RefreshDecision::Wait => {}
            }
            finished.await;
        }
    }

    /// Reports a 401 for a request with the credential of this generation. Returns whether a retry makes sense.
    pub(crate) fn reject(&self, generation: u64) -> bool {
        self.lock().reject(generation, Instant::now())
    }

    fn start(self: &Arc<Self>) {
        let flight = Flight { refresher: Arc::clone(self), outcome: None };
        tokio::spawn(flight.run());
    }

    /// Nothing that can panic runs while this is held.
    fn lock(&self) -> MutexGuard<'_, RefreshState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Refresher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refresher")
    }
}

/// A refresh in flight. Its end is reported on drop, so that it is reported however the task ends.
struct Flight {
    refresher: Arc<Refresher>,
    outcome: Option<Result<Fetched, CredentialProblem>>,
}

impl Flight {
    async fn run(mut self) {
        let refresher = Arc::clone(&self.refresher);
        self.outcome = Some(refresher.source.fetch().await);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let panicked = std::thread::panicking().then_some(Err(CredentialProblem::Panicked));
        match self.outcome.take().or(panicked) {
            Some(outcome) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%error, "cannot refresh the credentials");
                }
                self.refresher.lock().finish(outcome.map_err(Arc::new), fastrand::f64(), Instant::now());
            }
            None => self.refresher.lock().abort(),
        }
        self.refresher.finished.notify_waiters();
    }
}
