//! Metrics of inspectors.
//!
//! | name | measures |
//! |---|---|
//! | [`EVICTED`] | steps, notifications, errors and notes evicted by newer ones |
//! | [`STREAMS`] | open event streams |
//! | [`REFUSED`] | event streams refused because too many are open |

use std::sync::Once;

use ::metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

/// Counts history entries evicted by newer ones.
pub const EVICTED: &str = "inspector_evicted_total";
/// Number of open event streams.
pub const STREAMS: &str = "inspector_streams";
/// Counts refused event streams.
pub const REFUSED: &str = "inspector_streams_refused_total";

/// Describes the metrics to the recorder. The first inspector calls this; call it again if the recorder was installed
/// later.
pub fn describe() {
    describe_counter!(EVICTED, Unit::Count, "History entries of an inspector that were evicted by newer ones.");
    describe_gauge!(STREAMS, Unit::Count, "Open event streams of an inspector.");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Event streams of an inspector that were refused because too many are open."
    );
}

pub(super) struct InspectMetrics {
    pub(super) evicted: Counter,
    pub(super) streams: Gauge,
    pub(super) refused: Counter,
}

impl InspectMetrics {
    pub(super) fn new() -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        InspectMetrics { evicted: counter!(EVICTED), streams: gauge!(STREAMS), refused: counter!(REFUSED) }
    }
}
