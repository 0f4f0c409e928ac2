//! [`AttemptObserver`]: notified of the outcome of every attempt that a [`Client`](crate::Client) sends.

use http::StatusCode;

use crate::error::RequestName;
use crate::observer_chain::ObserverChain;
use crate::transport::TransportError;

/// Receives the outcome of every attempt of a client. Registered with
/// [`Client::with_attempt_observer`](crate::Client::with_attempt_observer).
///
/// # Guarantees
/// - Every attempt whose outcome is known is reported once: first attempts, retries and redirects, of reads, writes, watches, logs
///   and upgrades.
/// - The observer runs when the head of the response has arrived, or when there will be none.
///
/// # Not guaranteed
/// - An attempt that is dropped before its response, by a timeout or by its caller, is not reported. Neither is a request that is not
///   sent, because it is invalid or has no credentials.
/// - How the body of the response ends is not reported.
///
/// The observer runs inside of the request's future: it must not block.
pub trait AttemptObserver: Send + Sync + 'static {
    /// Receives one attempt.
    fn observe(&self, attempt: &ObservedAttempt<'_>);
}

impl<F: Fn(&ObservedAttempt<'_>) + Send + Sync + 'static> AttemptObserver for F {
    fn observe(&self, attempt: &ObservedAttempt<'_>) {
        self(attempt);
    }
}

/// One attempt, as an [`AttemptObserver`] receives it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObservedAttempt<'a> {
    /// The request.
    pub request: &'a RequestName,
    /// The status of the response, or why there is none.
    pub outcome: Result<StatusCode, &'a TransportError>,
}

/// The observers of a client.
pub(crate) type AttemptObservers = ObserverChain<dyn AttemptObserver>;
