//! Metrics of the reflector.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::Status;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::metrics;
use crate::reflector::Reflector;
use crate::reflector::testing::*;
use crate::source::SourceError;

/// Runs a reflector for a minute and returns its metrics.
fn measured(script: Script) -> HashMap<String, DebugValue> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut reflector = Reflector::builder(Arc::new(script), pods()).name("mine").watch_list(false).build();
            let mut store = Notes::default();
            let _ = tokio::time::timeout(Duration::from_secs(60), reflector.run(&mut store)).await;
        });
    });
    let snapshot = snapshotter.snapshot().into_vec();
    let named = |key: &::metrics::Key| key.labels().any(|label| label.key() == "name" && label.value() == "mine");
    snapshot
        .into_iter()
        .filter(|(key, ..)| named(key.key()))
        .map(|(key, _, _, value)| (key.key().name().to_owned(), value))
        .collect()
}

fn counter(values: &HashMap<String, DebugValue>, name: &str) -> u64 {
    match values.get(name) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name}: {other:?}"),
    }
}

fn histogram(values: &HashMap<String, DebugValue>, name: &str) -> Vec<f64> {
    match values.get(name) {
        Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.into_inner()).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

fn script() -> Script {
    Script::default()
        .list(list(&[("a", "1"), ("b", "2")], "10"))
        .watch(closed(vec![added("c", "11"), Err(SourceError::Unreadable(unreadable("x")))], Duration::from_secs(2)))
        .watch(closed(vec![], Duration::from_millis(1)))
        .list(list(&[("a", "1")], "12"))
        .watch(open(vec![bookmark("13"), error(Status::expired("old"))]))
        .list(list(&[], "14"))
        .watch(open(vec![]))
}

#[test]
fn imt_007_a_reflector_reports_its_metrics() {
    let values = measured(script());
    assert_eq!(counter(&values, metrics::LISTS), 3);
    assert_eq!(counter(&values, metrics::WATCHES), 4);
    assert_eq!(counter(&values, metrics::SHORT_WATCHES), 1);
    assert_eq!(counter(&values, metrics::RELISTS), 2);
    assert_eq!(counter(&values, metrics::DECODE_FAILURES), 1);
    assert!(
        matches!(values[metrics::LAST_RESOURCE_VERSION], DebugValue::Gauge(version) if version.into_inner() == 14.0)
    );
    assert!(matches!(values[metrics::LAST_RECEIVED], DebugValue::Gauge(time) if time.into_inner() > 0.0));
}

#[test]
fn leg_012_lists_and_watches_are_measured_when_they_end() {
    let values = measured(script());
    assert_eq!(histogram(&values, metrics::ITEMS_PER_LIST), [2.0, 1.0, 0.0]);
    assert_eq!(histogram(&values, metrics::LIST_DURATION).len(), 3);
    assert_eq!(histogram(&values, metrics::ITEMS_PER_WATCH), [2.0, 0.0, 2.0], "the last one is not over");
    let lasted = histogram(&values, metrics::WATCH_DURATION);
    assert!((lasted[0] - 2.0).abs() < 0.01 && lasted[1] < 0.01, "{lasted:?}");
}
