//! [`BodyBudget`]: limits the bytes of all request bodies in memory.

use std::time::Duration;

use metrics::{counter, gauge};
use tokio::sync::{Semaphore, SemaphorePermit};

const IN_FLIGHT: &str = "controller_runtime_webhook_body_bytes_in_flight";
const REFUSED: &str = "controller_runtime_webhook_bodies_refused_total";

/// How long a body waits until others have left the memory.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The bytes that the bodies of all requests may have together.
///
/// Bytes count when they arrive, so that a length in the head alone takes nothing of the budget, and until the response is
/// made.
#[derive(Debug)]
pub(super) struct BodyBudget {
    total: usize,
    free: Semaphore,
}

/// The bytes of one body. Dropping it returns them.
#[derive(Debug)]
pub(super) struct ReservedBytes<'a> {
    budget: &'a BodyBudget,
    permit: Option<SemaphorePermit<'a>>,
}

impl BodyBudget {
    pub(super) fn new(total: usize) -> Self {
        metrics::describe_gauge!(IN_FLIGHT, metrics::Unit::Bytes, "Bytes of request bodies in memory");
        metrics::describe_counter!(REFUSED, "Requests refused because the bodies of others filled the budget");
        // More than the semaphore can count is no limit.
        let total = total.min(Semaphore::MAX_PERMITS);
        BodyBudget { total, free: Semaphore::new(total) }
    }

    /// Returns a reservation without bytes.
    pub(super) fn reserve(&self) -> ReservedBytes<'_> {
        ReservedBytes { budget: self, permit: None }
    }
}

impl ReservedBytes<'_> {
    /// Returns the whole budget. A larger body never fits.
    pub(super) fn max(&self) -> usize {
        self.budget.total
    }

    /// Adds bytes, after others have returned theirs if need be. Returns false if that took longer than a second.
    pub(super) async fn add(&mut self, bytes: usize) -> bool {
        let Ok(count) = u32::try_from(bytes) else { return false };
        let free = self.budget.free.acquire_many(count);
        match tokio::time::timeout(MAX_WAIT, free).await {
            Ok(Ok(permit)) => {
                gauge!(IN_FLIGHT).increment(f64::from(count));
                match &mut self.permit {
                    Some(held) => held.merge(permit),
                    none => *none = Some(permit),
                }
                true
            }
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                counter!(REFUSED).increment(1);
                false
            }
        }
    }
}

impl Drop for ReservedBytes<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a budget is far below 2^52 bytes")]
    fn drop(&mut self) {
        if let Some(permit) = &self.permit {
            gauge!(IN_FLIGHT).decrement(permit.num_permits() as f64);
        }
    }
}
