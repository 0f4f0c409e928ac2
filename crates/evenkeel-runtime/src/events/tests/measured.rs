//! Metrics of events.

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::*;

/// The counters since the last time, by name and last label.
fn counts(metrics: &Snapshotter) -> BTreeMap<String, u64> {
    let all = metrics.snapshot().into_vec().into_iter();
    all.filter_map(|(key, _, _, value)| {
        let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
        let name = key.key().name().strip_prefix("event_recorder_").unwrap().to_owned();
        match value {
            DebugValue::Counter(count) if count > 0 => Some((format!("{name} {}", labels.join(" ")), count)),
            _ => None,
        }
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn bc_002_recorded_dropped_written_and_failed_events_are_counted() {
    let metrics_recorder = DebuggingRecorder::new();
    let metrics = metrics_recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&metrics_recorder);
    let sink = FakeSink::failing(|_, number| match number {
        2 => Some(refused()),
        3..=14 => Some(unavailable(None)),
        _ => None,
    });
    let recorder = core_recorder(&sink, SinkOptions::new().spam_filter(5, seconds(300)).queue(2));
    for reason in ["A", "A", "Refused", "Exhausted"] {
        warn(&recorder, reason, "n");
        recorder.flush().await;
    }
    recorder.record(Event::normal("R"));
    warn(&recorder, "A", "n");
    recorder.flush().await;
    warn(&recorder, "A", "spam");
    recorder.flush().await;
    for _ in 0..3 {
        warn(&recorder, "A", "the third finds no room");
    }
    recorder.shutdown().await;
    warn(&recorder, "A", "too late");
    let expected = [
        ("events_total kubelet Normal", 1),
        ("events_total kubelet Warning", 10),
        ("dropped_total kubelet invalid", 1),
        ("dropped_total kubelet full", 1),
        ("dropped_total kubelet spam", 3),
        ("dropped_total kubelet stopped", 1),
        ("writes_total kubelet create", 1),
        ("writes_total kubelet patch", 2),
        ("retries_total kubelet", 11),
        ("failures_total kubelet refused", 1),
        ("failures_total kubelet attempts", 1),
    ];
    assert_eq!(counts(&metrics), expected.map(|(name, count)| (name.to_owned(), count)).into());
    let sink = FakeSink::failing(|_, _| Some(unavailable(None)));
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "A", "n");
    recorder.shutdown().await;
    assert_eq!(counts(&metrics)["failures_total kubelet shutdown"], 1);
}
