//! The metrics of a hook, under controller-runtime's names.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

const LATENCY: &str = "controller_runtime_webhook_latency_seconds";
const REQUESTS: &str = "controller_runtime_webhook_requests_total";
const IN_FLIGHT: &str = "controller_runtime_webhook_requests_in_flight";
const PANICS: &str = "controller_runtime_webhook_panics_total";
const REVIEWS: &str = "controller_runtime_webhook_reviews_total";

/// The metrics of one path. The common ones are looked up once.
pub(super) struct RouteMetrics {
    path: String,
    latency: Histogram,
    in_flight: Gauge,
    succeeded: Counter,
    failed: Counter,
    /// Reviews that were allowed, by the operations below.
    allowed: [OnceLock<Counter>; OPERATIONS.len()],
}

/// The operations that have a label of their own. The text of another one is the client's, and there are many texts.
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

impl RouteMetrics {
    /// Registers the metrics of a path. Those of the codes 200 and 500 are there from the start.
    pub(super) fn new(path: &str) -> Self {
        metrics::describe_histogram!(LATENCY, metrics::Unit::Seconds, "Time to answer reviews");
        metrics::describe_counter!(REQUESTS, "Requests by HTTP status code");
        metrics::describe_gauge!(IN_FLIGHT, "Requests that are being answered");
        metrics::describe_counter!(PANICS, "Panics of hooks");
        metrics::describe_counter!(REVIEWS, "Reviews by operation, verdict and code of the answer");
        counter!(PANICS).increment(0);
        let requests = |code: &'static str| {
            let counter = counter!(REQUESTS, "webhook" => path.to_owned(), "code" => code);
            counter.increment(0);
            counter
        };
        let in_flight = gauge!(IN_FLIGHT, "webhook" => path.to_owned());
        in_flight.increment(0.0);
        RouteMetrics {
            path: path.to_owned(),
            latency: histogram!(LATENCY, "webhook" => path.to_owned()),
            in_flight,
            succeeded: requests("200"),
            failed: requests("500"),
            allowed: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.in_flight.increment(1.0);
        InFlight(&self.in_flight)
    }

    pub(super) fn answered(&self, code: u16, elapsed: Duration) {
        self.latency.record(elapsed);
        match code {
            200 => self.succeeded.increment(1),
            500 => self.failed.increment(1),
            code => {
                counter!(REQUESTS, "webhook" => self.path.clone(), "code" => code.to_string()).increment(1);
            }
        }
    }

    pub(super) fn reviewed(&self, operation: &str, allowed: bool, code: u16) {
        let known = OPERATIONS.iter().position(|known| *known == operation);
        let operation = known.map_or("other", |index| OPERATIONS[index]);
        let reviews = || {
            let allowed = if allowed { "true" } else { "false" };
            counter!(REVIEWS, "webhook" => self.path.clone(), "operation" => operation, "allowed" => allowed,
                "code" => code.to_string())
        };
        match known.filter(|_| allowed && code == 200) {
            Some(index) => self.allowed[index].get_or_init(reviews).increment(1),
            None => reviews().increment(1),
        }
    }
}

pub(super) fn count_panic() {
    counter!(PANICS).increment(1);
}

/// A request in flight.
pub(super) struct InFlight<'a>(&'a Gauge);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
