//! Runs expensive requests aside from the threads that serve all others.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use evenkeel_core::Status;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::flow::{Precedence, QueueLimits, QueueStats, SeatPool, TooManyRequests};
use super::service::Caller;
use crate::http_types::HandlerOutcome;

/// The most expensive requests that run at the same time.
const MAX_THREADS: usize = 4;
/// Expensive requests that wait, of one user and of all users.
const QUEUE_PER_USER: usize = 100;
const QUEUE_TOTAL: usize = 1000;
/// Expensive requests that wait, at which those of `system:masters` are refused as well. Others cannot take their places.
const QUEUE_EXEMPT: usize = 2 * QUEUE_TOTAL;

/// The threads for expensive requests: fewer than cores, so that the other requests always have one. Users take turns.
#[derive(Debug)]
pub(crate) struct AsideThreads(Arc<SeatPool>);

/// Why an expensive request has no outcome.
#[derive(Debug)]
pub(crate) enum AsideError {
    /// Too many expensive requests wait.
    Refused(TooManyRequests),
    /// The request panicked.
    Panicked(Box<Status>),
}

impl AsideThreads {
    pub(crate) fn new() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let seats = cores.saturating_sub(1).clamp(1, MAX_THREADS);
        let limits = QueueLimits { seats, per_flow: QUEUE_PER_USER, total: QUEUE_TOTAL, exempt: QUEUE_EXEMPT };
        AsideThreads(SeatPool::new(limits))
    }

    /// Returns how many expensive requests run and wait.
    pub(crate) fn stats(&self) -> QueueStats {
        self.0.stats()
    }

    /// Returns whether the caller's requests run in place, however expensive they are. Those of in-process callers on a
    /// runtime with one thread do: the same requests must have the same order in every run.
    pub(crate) fn runs_in_place(caller: &Caller) -> bool {
        matches!(caller, Caller::InProcess(_))
            && Handle::try_current().map_or(true, |handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread)
    }

    /// Runs a part of a request on a thread of its own. The seat is held until that part ends, even if the future is
    /// dropped before.
    pub(crate) async fn run(
        &self,
        flow: &str,
        precedence: Precedence,
        work: impl FnOnce() -> HandlerOutcome + Send + 'static,
    ) -> Result<HandlerOutcome, AsideError> {
        let seat = self.0.acquire(flow, precedence).await.map_err(AsideError::Refused)?;
        let running = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(seat);
            outcome
        });
        running.await.map_err(|error| {
            tracing::error!(%error, "request panicked");
            AsideError::Panicked(Box::new(Status::internal(
                "This request caused apiserver to panic. Look in the logs for details.",
            )))
        })
    }
}
