//! What is counted.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::super::ledger::NOTES;
use super::super::metrics::{FORGOTTEN, REFUSED, STREAMS as OPEN};
use super::super::stream::Place;
use super::*;

/// By how much each has changed since the last time.
fn measured(metrics: &Snapshotter) -> BTreeMap<String, f64> {
    let all = metrics.snapshot().into_vec().into_iter();
    all.filter_map(|(key, _, _, value)| match value {
        DebugValue::Counter(count) => Some((key.key().name().to_owned(), count as f64)),
        DebugValue::Gauge(level) => Some((key.key().name().to_owned(), level.into_inner())),
        DebugValue::Histogram(_) => None,
    })
    .collect()
}

#[test]
fn what_is_forgotten_who_looks_and_who_is_refused_is_counted() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let inspector = Inspector::new();
    (0..NOTES + 3).for_each(|note| inspector.note(note));
    let places: Vec<_> = (0..STREAMS).map(|_| Place::take(inner(&inspector)).unwrap()).collect();
    assert!(Place::take(inner(&inspector)).is_none());
    let told = measured(&metrics);
    assert_eq!((told[FORGOTTEN], told[OPEN], told[REFUSED]), (3.0, STREAMS as f64, 1.0));
    drop(places);
    assert_eq!(measured(&metrics)[OPEN], -(STREAMS as f64));
}
