//! What is counted and timed, under controller-runtime's names.
//!
//! All of them carry the label `controller`, and all are there, as zero, before the first reconcile.
//!
//! | name | what |
//! |---|---|
//! | [`RECONCILES`] | reconciles by `result`: `success`, `error`, `requeue`, `requeue_after` |
//! | [`ERRORS`] | those that failed, in whatever way |
//! | [`TERMINAL_ERRORS`] | those of them that are not tried again |
//! | [`PANICS`] | those that panicked |
//! | [`TIMEOUTS`] | those that took longer than they may |
//! | [`TIME`] | seconds that a reconcile took |
//! | [`MAX_CONCURRENT`] | how many can run at the same time |
//! | [`ACTIVE`] | how many are running |
//! | [`OWN_WRITE_TIME`] | seconds from the end of a reconcile that wrote until the caches showed it |
//! | [`OWN_WRITE_TIMEOUTS`] | times that this took longer than it may, so that the next reconcile may see what was before |
//! | [`PARKED`] | keys that could be reconciled if the caches showed what the last reconcile wrote |

use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// Counts reconciles by their result.
pub const RECONCILES: &str = "controller_runtime_reconcile_total";
/// Counts reconciles that failed.
pub const ERRORS: &str = "controller_runtime_reconcile_errors_total";
/// Counts reconciles that failed for good.
pub const TERMINAL_ERRORS: &str = "controller_runtime_terminal_reconcile_errors_total";
/// Counts reconciles that panicked.
pub const PANICS: &str = "controller_runtime_reconcile_panics_total";
/// Counts reconciles that took too long.
pub const TIMEOUTS: &str = "controller_runtime_reconcile_timeouts_total";
/// Times reconciles.
pub const TIME: &str = "controller_runtime_reconcile_time_seconds";
/// Shows how many reconciles can run at the same time.
pub const MAX_CONCURRENT: &str = "controller_runtime_max_concurrent_reconciles";
/// Shows how many reconciles are running.
pub const ACTIVE: &str = "controller_runtime_active_workers";
/// Times how long caches take to show what a reconcile wrote.
pub const OWN_WRITE_TIME: &str = "controller_runtime_own_write_seconds";
/// Counts when that took too long.
pub const OWN_WRITE_TIMEOUTS: &str = "controller_runtime_own_write_timeouts_total";
/// Shows how many keys wait for that.
pub const PARKED: &str = "controller_runtime_parked_keys";

/// Tells the recorder what the metrics mean. Controllers do this by themselves.
pub fn describe() {
    describe_counter!(RECONCILES, Unit::Count, "Reconciles, by result.");
    describe_counter!(ERRORS, Unit::Count, "Reconciles that failed.");
    describe_counter!(TERMINAL_ERRORS, Unit::Count, "Reconciles that failed and are not tried again.");
    describe_counter!(PANICS, Unit::Count, "Reconciles that panicked.");
    describe_counter!(TIMEOUTS, Unit::Count, "Reconciles that took longer than they may.");
    describe_histogram!(TIME, Unit::Seconds, "Time that a reconcile took.");
    describe_gauge!(MAX_CONCURRENT, Unit::Count, "Reconciles that can run at the same time.");
    describe_gauge!(ACTIVE, Unit::Count, "Reconciles that are running.");
    describe_histogram!(OWN_WRITE_TIME, Unit::Seconds, "Time until the caches showed what a reconcile wrote.");
    describe_counter!(OWN_WRITE_TIMEOUTS, Unit::Count, "Times that the caches did not show in time what was written.");
    describe_gauge!(PARKED, Unit::Count, "Keys that wait until the caches show what was written.");
}

/// The metrics of one controller.
pub(super) struct ControllerMetrics {
    pub(super) success: Counter,
    pub(super) error: Counter,
    pub(super) requeue: Counter,
    pub(super) requeue_after: Counter,
    pub(super) errors: Counter,
    pub(super) terminal_errors: Counter,
    pub(super) panics: Counter,
    pub(super) timeouts: Counter,
    time: Histogram,
    max_concurrent: Gauge,
    active: Gauge,
    pub(super) own_write_time: Histogram,
    pub(super) own_write_timeouts: Counter,
    pub(super) parked: Gauge,
}

impl ControllerMetrics {
    pub(super) fn new(controller: &str, concurrency: usize) -> Self {
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
            time: time(TIME),
            max_concurrent: show(MAX_CONCURRENT),
            active: show(ACTIVE),
            own_write_time: time(OWN_WRITE_TIME),
            own_write_timeouts: count(OWN_WRITE_TIMEOUTS),
            parked: show(PARKED),
        };
        let ControllerMetrics { success, error, requeue, requeue_after, .. } = &metrics;
        let ControllerMetrics { errors, terminal_errors, panics, timeouts, own_write_timeouts, .. } = &metrics;
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

    /// A reconcile is running for as long as the answer lives, however it ends.
    pub(super) fn running(&self) -> ActiveGuard<'_> {
        self.active.increment(1.0);
        ActiveGuard(&self.active)
    }

    pub(super) fn took(&self, time: Duration) {
        self.time.record(time);
    }
}

pub(super) struct ActiveGuard<'a>(&'a Gauge);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
