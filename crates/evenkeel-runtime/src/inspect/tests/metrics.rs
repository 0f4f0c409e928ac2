//! Tests of the metrics.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::super::history::NOTES;
use super::super::metrics::{EVICTED, REFUSED, STREAMS as OPEN};
use super::super::stream::StreamSlot;
use super::*;

/// Returns the change of each metric since the last snapshot.
fn changes(metrics: &Snapshotter) -> BTreeMap<String, f64> {
    let all = metrics.snapshot().into_vec().into_iter();
    all.filter_map(|(key, _, _, value)| match value {
        DebugValue::Counter(count) => Some((key.key().name().to_owned(), count as f64)),
        DebugValue::Gauge(level) => Some((key.key().name().to_owned(), level.into_inner())),
        DebugValue::Histogram(_) => None,
    })
    .collect()
}

#[test]
fn evictions_open_streams_and_refused_streams_are_counted() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let inspector = Inspector::new();
    (0..NOTES + 3).for_each(|note| inspector.note(note));
    let slots: Vec<_> = (0..STREAMS).map(|_| StreamSlot::acquire(inner(&inspector)).unwrap()).collect();
    assert!(StreamSlot::acquire(inner(&inspector)).is_none());
    let values = changes(&metrics);
    assert_eq!((values[EVICTED], values[OPEN], values[REFUSED]), (3.0, STREAMS as f64, 1.0));
    drop(slots);
    assert_eq!(changes(&metrics)[OPEN], -(STREAMS as f64));
}
