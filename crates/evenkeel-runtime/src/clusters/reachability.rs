//! [`Reachability`]: whether requests to a cluster get a response, and the probe of one that does not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::BackoffState;
use evenkeel_client::transport::{TransportError, TransportFault};
use evenkeel_client::{Client, Error, ObservedAttempt, Path};
use http::Method;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::engagement_state::BACKOFF;
use super::failure::ClusterFailure;
use crate::error_chain::ErrorChain;

/// The number of requests in a row without a connection after which the keys of a cluster are parked.
const PARK_AFTER: u32 = 5;
/// The time that a probe has to get a response.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The outcomes of the requests to a cluster. Decisions only: the time is an argument.
#[derive(Debug, Default)]
pub(super) struct RequestStreak {
    /// The requests without a connection since the last response.
    unanswered: u32,
    counts: RequestCounts,
    last_failure: Option<ClusterFailure>,
}

/// The requests to a cluster so far, retries included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Requests with a response, whatever its status.
    pub responses: u64,
    /// Requests without a response for lack of a connection.
    pub without_connection: u64,
    /// Requests without a response for another reason.
    pub other_failures: u64,
}

impl RequestStreak {
    /// Records a response. Returns whether that releases the parked keys.
    fn responded(&mut self) -> bool {
        self.counts.responses += 1;
        let was_parked = self.is_parked();
        self.unanswered = 0;
        was_parked
    }

    /// Records a request without a connection. Returns whether that parks the keys.
    fn unanswered(&mut self, failure: ClusterFailure) -> bool {
        self.counts.without_connection += 1;
        self.last_failure = Some(failure);
        self.unanswered = self.unanswered.saturating_add(1);
        self.unanswered == PARK_AFTER
    }

    fn is_parked(&self) -> bool {
        self.unanswered >= PARK_AFTER
    }
}

/// Whether requests to a cluster get a response.
#[derive(Debug, Default)]
pub(super) struct Reachability {
    streak: Mutex<RequestStreak>,
    is_parked: watch::Sender<bool>,
}

impl Reachability {
    fn streak(&self) -> MutexGuard<'_, RequestStreak> {
        self.streak.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome of a request.
    pub(super) fn observe(&self, cluster: &str, attempt: &ObservedAttempt<'_>) {
        match attempt.outcome {
            Ok(_) => {
                let mut streak = self.streak();
                if streak.responded() {
                    // Under the lock, so that the last outcome is the last one that is sent.
                    self.is_parked.send_replace(false);
                    drop(streak);
                    tracing::info!(cluster, "cluster responds; its keys are released");
                }
            }
            Err(error) if is_without_connection(error) => {
                let error = format!("{}: {}", attempt.request, ErrorChain(error));
                self.unanswered(cluster, ClusterFailure::new(error, Instant::now()));
            }
            Err(_) => self.streak().counts.other_failures += 1,
        }
    }

    fn unanswered(&self, cluster: &str, failure: ClusterFailure) {
        let mut streak = self.streak();
        if streak.unanswered(failure.clone()) {
            self.is_parked.send_replace(true);
            drop(streak);
            tracing::warn!(cluster, error = failure.message, "no connection to the cluster; its keys are parked");
        }
    }

    /// Returns whether the keys of the cluster are parked.
    pub(super) fn is_parked(&self) -> bool {
        *self.is_parked.borrow()
    }

    /// Waits until the keys of the cluster are parked, or not.
    async fn becomes_parked(&self, parked: bool) {
        // The sender is a field of `self`, so the wait does not fail.
        let _ = self.is_parked.subscribe().wait_for(|is_parked| *is_parked == parked).await;
    }

    /// Waits until the keys of the cluster are not parked.
    pub(super) async fn reachable(&self) {
        self.becomes_parked(false).await;
    }

    pub(super) fn counts(&self) -> RequestCounts {
        self.streak().counts
    }

    pub(super) fn last_failure(&self) -> Option<ClusterFailure> {
        self.streak().last_failure.clone()
    }
}

/// Returns whether a request failed for lack of a connection: none was made, or it was lost or silent.
fn is_without_connection(error: &TransportError) -> bool {
    matches!(
        error.fault(),
        TransportFault::Resolve
            | TransportFault::Refused
            | TransportFault::Connect
            | TransportFault::ConnectTimeout
            | TransportFault::Proxy
            | TransportFault::Tls
            | TransportFault::Reset
            | TransportFault::Closed
            | TransportFault::Http2Lost
            | TransportFault::Timeout
    )
}

/// Sends requests to a cluster while its keys are parked, with backoff, until one gets a response. The client reports its attempts to
/// `reachability`.
pub(super) async fn probe(cluster: Arc<str>, client: Client, reachability: Arc<Reachability>) {
    loop {
        reachability.becomes_parked(true).await;
        let mut backoff = BackoffState::new(BACKOFF);
        while reachability.is_parked() {
            let now = Instant::now();
            let next = now + backoff.failed(now.into_std(), 0.0);
            if timeout_at(next, reachability.reachable()).await.is_ok() {
                // An informer was first.
                break;
            }
            let request = client.request(Method::GET, Path::raw("/version")).max_retries(0).timeout(PROBE_TIMEOUT);
            // Every response counts, also a refusal. The client does not report an attempt that timed out.
            if let Err(error @ Error::Timeout { .. }) = request.send().await {
                reachability.unanswered(&cluster, ClusterFailure::new(error, Instant::now()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
