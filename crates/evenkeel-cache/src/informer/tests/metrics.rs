//! Metrics of informers.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::*;

/// Returns the metrics of the informer of this name since the last call, summed over other labels.
fn values(metrics: &Snapshotter, informer: &str) -> BTreeMap<String, f64> {
    let is_named = |label: &::metrics::Label| label.key() == "name" && label.value() == informer;
    let all = metrics.snapshot().into_vec().into_iter().filter(|(key, ..)| key.key().labels().any(is_named));
    all.map(|(key, _, _, value)| {
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (key.key().name().to_owned(), value)
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn imt_005_queue_processing_and_store_are_measured() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().name("met-005"));
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    let now = values(&metrics, "met-005");
    assert_eq!(now["informer_queued_items"], 0.0);
    assert_eq!(now["informer_store_resource_version"], 2.0);
    assert_eq!(now["informer_store_objects"], 2.0);
    assert!(now["informer_store_payload_bytes"] > 100.0);
    assert_eq!(now["informer_processing_latency_seconds"], 2.0);
    assert_eq!(now["reflector_lists_total"], 1.0);
    assert_eq!(now["reflector_last_resource_version"], 2.0);
}

#[tokio::test(start_paused = true)]
async fn imt_004_every_informer_has_metrics_whatever_its_name() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let (first, second) = (source(), source());
    second.add(pod("a")).unwrap();
    let informers = [&first, &second].map(|source| informer_of(source, options().name("met-004")));
    for informer in &informers {
        let _running = informer.start();
        informer.synced().await.unwrap();
    }
    settle().await;
    assert_eq!(values(&metrics, "met-004-2")["informer_store_resource_version"], 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_handlers_is_measured() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let source = source();
    (0..3).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options().name("lagging"));
    let mut events = informer.subscribe(HandlerOptions::new().name("slow")).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(values(&metrics, "lagging")["informer_handler_pending_notifications"], 3.0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    source.add(pod("late")).unwrap();
    settle().await;
    let behind = values(&metrics, "lagging");
    assert_eq!(behind["informer_handler_pending_notifications"], 4.0);
    assert!(behind["informer_handler_lag_seconds"] >= 5.0);
    for _ in 0..4 {
        events.next().await.unwrap();
    }
    drop(events);
    let handler = |_: Event<Untyped>| panic!("expected panic");
    informer.add_handler(handler.with(HandlerOptions::new().name("slow"))).unwrap().synced().await.unwrap();
    let now = values(&metrics, "lagging");
    assert_eq!(now["informer_handler_panics_total"], 4.0);
    assert_eq!((now["informer_handler_pending_notifications"], now["informer_handler_lag_seconds"]), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_is_installed_late_receives_everything() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().name("late-recorder"));
    let handler = |event: Event<Untyped>| assert_ne!(event.key().name(), "a", "expected panic");
    let registration = informer.add_handler(handler).unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    source.add(pod("b")).unwrap();
    settle().await;
    source.reset_watch();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let now = values(&metrics, "late-recorder");
    assert_eq!(now["informer_store_objects"], 2.0);
    assert_eq!(now["reflector_last_resource_version"], 2.0);
    assert_eq!(now["informer_handler_pending_notifications"], 0.0);
    // Counters include what happened before.
    assert_eq!(now["informer_handler_panics_total"], 1.0);
    assert!(now["reflector_lists_total"] >= 1.0 && now["reflector_watches_total"] >= 2.0, "{now:?}");
}

#[tokio::test(start_paused = true)]
async fn handlers_of_one_name_have_gauges_of_their_own() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().name("twins"));
    let options = || HandlerOptions::new().name("twin");
    let _stalled = informer.subscribe(options()).unwrap();
    let mut quick = informer.subscribe(options()).unwrap();
    let _running = informer.start();
    quick.next().await.unwrap();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    quick.next().await.unwrap();
    let is_pending = |key: &::metrics::Key| key.name() == "informer_handler_pending_notifications";
    let handler = |key: &::metrics::Key| {
        key.labels().find(|label| label.key() == "handler").map(|label| label.value().to_owned()).unwrap_or_default()
    };
    let all = metrics.snapshot().into_vec().into_iter().filter(|(key, ..)| is_pending(key.key()));
    let pending: BTreeMap<_, _> = all.map(|(key, _, _, value)| (handler(key.key()), value)).collect();
    assert_eq!(pending.get("twin"), Some(&DebugValue::Gauge(2.0.into())));
    assert_eq!(pending.get("twin-2"), Some(&DebugValue::Gauge(1.0.into())));
}
