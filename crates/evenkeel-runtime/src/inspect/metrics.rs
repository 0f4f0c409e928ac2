//! What is counted.
//!
//! | name | what |
//! |---|---|
//! | [`FORGOTTEN`] | steps, notifications, errors and notes that made room for newer ones |
//! | [`STREAMS`] | pages that are being kept up to date |
//! | [`REFUSED`] | pages that were not, because there are too many |

use std::sync::Once;

use ::metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

/// Counts what made room for something newer.
pub const FORGOTTEN: &str = "inspector_forgotten_total";
/// How many pages are being kept up to date.
pub const STREAMS: &str = "inspector_streams";
/// Counts pages that were not let in.
pub const REFUSED: &str = "inspector_streams_refused_total";

/// Tells the recorder of metrics what they mean. The first inspector does this by itself; call it if that recorder was installed
/// later.
pub fn describe() {
    describe_counter!(FORGOTTEN, Unit::Count, "What an inspector has forgotten to make room for something newer.");
    describe_gauge!(STREAMS, Unit::Count, "Pages of an inspector that are being kept up to date.");
    describe_counter!(REFUSED, Unit::Count, "Pages of an inspector that were refused because there are too many.");
}

pub(super) struct Metrics {
    pub(super) forgotten: Counter,
    pub(super) streams: Gauge,
    pub(super) refused: Counter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        Metrics { forgotten: counter!(FORGOTTEN), streams: gauge!(STREAMS), refused: counter!(REFUSED) }
    }
}
