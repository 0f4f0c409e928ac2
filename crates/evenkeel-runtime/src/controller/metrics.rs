//! Metrics, under controller-runtime's names.
//!
//! All but [`TRIGGER_DROPPED`] carry the label `controller`, and are exported as zero before the first reconcile.
//!
//! When a controller has ended, its gauges are zero. Its series stay, because the `metrics` facade cannot remove them; exporters
//! drop idle series if they are configured to. A controller that is added again under the same name continues its counters.
//!
//! | name | counts or measures |
//! |---|---|
//! | [`RECONCILES`] | reconciles by `result`: `success`, `error`, `requeue`, `requeue_after` |
//! | [`ERRORS`] | failed reconciles: errors, panics and timeouts |
//! | [`TERMINAL_ERRORS`] | failed reconciles that are not retried |
//! | [`PANICS`] | reconciles that panicked |
//! | [`TIMEOUTS`] | reconciles that exceeded the timeout |
//! | [`TIME`] | duration of a reconcile in seconds |
//! | [`MAX_CONCURRENT`] | maximum number of concurrent reconciles |
//! | [`ACTIVE`] | reconciles in flight |
//! | [`OWN_WRITE_TIME`] | seconds from the end of a reconcile that wrote until the caches showed the writes |
//! | [`OWN_WRITE_TIMEOUTS`] | writes that the caches did not show in time, so that the next reconcile may read stale data |
//! | [`PARKED`] | ready keys that wait until the caches show the writes of their last reconcile |
//! | [`OUT_OF_SCOPE`] | keys that were dropped because their namespace left the [set](evenkeel_cache::NamespaceSet) of the informer |
//! | [`TRIGGER_DROPPED`] | keys that a [`Trigger`](super::Trigger) dropped because no controller was attached |

use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// Counts reconciles by result.
pub const RECONCILES: &str = "controller_runtime_reconcile_total";
/// Counts failed reconciles.
pub const ERRORS: &str = "controller_runtime_reconcile_errors_total";
/// Counts failed reconciles that are not retried.
pub const TERMINAL_ERRORS: &str = "controller_runtime_terminal_reconcile_errors_total";
/// Counts reconciles that panicked.
pub const PANICS: &str = "controller_runtime_reconcile_panics_total";
/// Counts reconciles that exceeded the timeout.
pub const TIMEOUTS: &str = "controller_runtime_reconcile_timeouts_total";
/// Measures the duration of reconciles.
pub const TIME: &str = "controller_runtime_reconcile_time_seconds";
/// Shows the maximum number of concurrent reconciles.
pub const MAX_CONCURRENT: &str = "controller_runtime_max_concurrent_reconciles";
/// Shows the number of reconciles in flight.
pub const ACTIVE: &str = "controller_runtime_active_workers";
/// Measures how long the caches take to show the writes of a reconcile.
pub const OWN_WRITE_TIME: &str = "controller_runtime_own_write_seconds";
/// Counts writes that the caches did not show in time.
pub const OWN_WRITE_TIMEOUTS: &str = "controller_runtime_own_write_timeouts_total";
/// Shows the number of parked keys.
pub const PARKED: &str = "controller_runtime_parked_keys";
/// Counts keys that were dropped because their namespace left the set of the informer.
pub const OUT_OF_SCOPE: &str = "controller_runtime_out_of_scope_keys_total";
/// Counts keys that a trigger dropped because no controller was attached.
pub const TRIGGER_DROPPED: &str = "controller_runtime_trigger_dropped_keys_total";

/// Registers descriptions of the metrics with the recorder. Controllers call this when they start.
pub fn describe() {
    describe_counter!(RECONCILES, Unit::Count, "Reconciles, by result.");
    describe_counter!(ERRORS, Unit::Count, "Failed reconciles.");
    describe_counter!(TERMINAL_ERRORS, Unit::Count, "Failed reconciles that are not retried.");
    describe_counter!(PANICS, Unit::Count, "Reconciles that panicked.");
    describe_counter!(TIMEOUTS, Unit::Count, "Reconciles that exceeded the timeout.");
    describe_histogram!(TIME, Unit::Seconds, "Duration of a reconcile.");
    describe_gauge!(MAX_CONCURRENT, Unit::Count, "Maximum number of concurrent reconciles.");
    describe_gauge!(ACTIVE, Unit::Count, "Reconciles in flight.");
    describe_histogram!(OWN_WRITE_TIME, Unit::Seconds, "Time until the caches showed the writes of a reconcile.");
    describe_counter!(OWN_WRITE_TIMEOUTS, Unit::Count, "Writes that the caches did not show in time.");
    describe_gauge!(PARKED, Unit::Count, "Keys that wait until the caches show their own writes.");
    describe_counter!(OUT_OF_SCOPE, Unit::Count, "Keys dropped because their namespace left the set of the informer.");
    describe_counter!(TRIGGER_DROPPED, Unit::Count, "Triggered keys dropped because no controller was attached.");
}

/// The metrics of one controller.
pub(crate) struct ControllerMetrics {
    pub(super) success: Counter,
    pub(super) error: Counter,
    pub(super) requeue: Counter,
    pub(super) requeue_after: Counter,
    pub(super) errors: Counter,
    pub(super) terminal_errors: Counter,
    pub(super) panics: Counter,
    pub(super) timeouts: Counter,
    pub(super) out_of_scope: Counter,
    time: Histogram,
    max_concurrent: Gauge,
    active: Gauge,
    pub(super) own_write_time: Histogram,
    pub(super) own_write_timeouts: Counter,
    pub(super) parked: Gauge,
}

impl ControllerMetrics {
    pub(crate) fn new(controller: &str, concurrency: usize) -> Self {
        describe();
        let count = |name: &'static str| counter!(name, "controller" => controller.to_owned());
        let result =
            |result: &'static str| counter!(RECONCILES, "controller" => controller.to_owned(), "result" => result);
        let show = |name: &'static str| gauge!(name, "controller" => controller.to_owned());
        let time = |name: &'static str| histogram!(name, "controller" => controller.to_owned());
        let metrics = ControllerMetrics {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: count(ERRORS),
            terminal_errors: count(TERMINAL_ERRORS),
            panics: count(PANICS),
            timeouts: count(TIMEOUTS),
            out_of_scope: count(OUT_OF_SCOPE),
            time: time(TIME),
            max_concurrent: show(MAX_CONCURRENT),
            active: show(ACTIVE),
            own_write_time: time(OWN_WRITE_TIME),
            own_write_timeouts: count(OWN_WRITE_TIMEOUTS),
            parked: show(PARKED),
        };
        let ControllerMetrics { success, error, requeue, requeue_after, .. } = &metrics;
        let ControllerMetrics { errors, terminal_errors, panics, timeouts, own_write_timeouts, .. } = &metrics;
        metrics.out_of_scope.increment(0);
        for counter in [success, error, requeue, requeue_after] {
            counter.increment(0);
        }
        for counter in [errors, terminal_errors, panics, timeouts, own_write_timeouts] {
            counter.increment(0);
        }
        metrics.max_concurrent.set(concurrency as f64);
        metrics.active.set(0.0);
        metrics.parked.set(0.0);
        metrics
    }

    /// Counts a reconcile as active until the guard is dropped.
    pub(super) fn running(&self) -> ActiveGuard<'_> {
        self.active.increment(1.0);
        ActiveGuard(&self.active)
    }

    pub(super) fn took(&self, time: Duration) {
        self.time.record(time);
    }
}

/// The metrics facade cannot remove a series. Those of a controller that has ended show that nothing runs.
impl Drop for ControllerMetrics {
    fn drop(&mut self) {
        // The others have returned to zero with the last reconcile.
        self.max_concurrent.set(0.0);
    }
}

pub(super) struct ActiveGuard<'a>(&'a Gauge);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
