//! Metrics of events. client-go has none here.
//!
//! They are recorded through the `metrics` facade. A recorded event is counted once by [`RECORDED`]; what several
//! sinks do with it is counted per sink.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | [`RECORDED`] | `controller`, `type` | recorded events |
//! | [`DROPPED`] | `controller`, `reason` | events that were not written by design: `invalid` without an object, `full` if a sink or watcher is behind, `spam`, `stopped` |
//! | [`WRITTEN`] | `controller`, `verb` | successful writes: `create` or `patch` |
//! | [`RETRIED`] | `controller` | writes that failed and are retried |
//! | [`FAILED`] | `controller`, `reason` | writes that were given up: `refused` by the server, `attempts` exhausted, `shutdown` |

use std::sync::Once;

use ::metrics::{Unit, counter, describe_counter};

/// Counter: recorded events.
pub const RECORDED: &str = "event_recorder_events_total";
/// Counter: events that were not written by design.
pub const DROPPED: &str = "event_recorder_dropped_total";
/// Counter: successful writes.
pub const WRITTEN: &str = "event_recorder_writes_total";
/// Counter: retries.
pub const RETRIED: &str = "event_recorder_retries_total";
/// Counter: writes that were given up.
pub const FAILED: &str = "event_recorder_failures_total";

/// Registers descriptions with the metrics recorder. The first event calls this; call it again if the recorder was
/// installed later.
pub fn describe() {
    describe_counter!(RECORDED, Unit::Count, "Events that were recorded.");
    describe_counter!(DROPPED, Unit::Count, "Events that were not written by design, by reason.");
    describe_counter!(WRITTEN, Unit::Count, "Writes of events that the server took, by verb.");
    describe_counter!(RETRIED, Unit::Count, "Writes of events that failed and are tried again.");
    describe_counter!(FAILED, Unit::Count, "Writes of events that were given up, by reason.");
}

/// Why an event was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Invalid,
    Full,
    Spam,
    Stopped,
}

/// Why a write was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Refused,
    Attempts,
    Shutdown,
}

pub(crate) fn recorded(controller: &str, event_type: &'static str) {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(describe);
    counter!(RECORDED, "controller" => controller.to_owned(), "type" => event_type).increment(1);
}

pub(crate) fn dropped(controller: &str, reason: Dropped) {
    let reason = match reason {
        Dropped::Invalid => "invalid",
        Dropped::Full => "full",
        Dropped::Spam => "spam",
        Dropped::Stopped => "stopped",
    };
    counter!(DROPPED, "controller" => controller.to_owned(), "reason" => reason).increment(1);
}

pub(crate) fn written(controller: &str, verb: &'static str) {
    counter!(WRITTEN, "controller" => controller.to_owned(), "verb" => verb).increment(1);
}

pub(crate) fn retried(controller: &str) {
    counter!(RETRIED, "controller" => controller.to_owned()).increment(1);
}

pub(crate) fn failed(controller: &str, reason: Failed, writes: usize) {
    let reason = match reason {
        Failed::Refused => "refused",
        Failed::Attempts => "attempts",
        Failed::Shutdown => "shutdown",
    };
    counter!(FAILED, "controller" => controller.to_owned(), "reason" => reason).increment(writes as u64);
}
