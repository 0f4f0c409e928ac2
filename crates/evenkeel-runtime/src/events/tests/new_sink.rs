//! Sinks of `events.k8s.io/v1`.

use super::*;

const MINUTE: u64 = 60;

#[tokio::test(start_paused = true)]
async fn en_001_the_instance_is_the_controller_and_the_machine() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    let event = sink.stored().remove(0);
    assert_eq!(event["reportingController"], "kubelet");
    let instance = event["reportingInstance"].as_str().unwrap();
    assert_eq!(instance, format!("kubelet-{}", crate::environment::hostname()));
    let named = recorder.broadcaster().recorder("kubelet").instance("kubelet-7").build();
    warn(&named, "R", "n");
    named.flush().await;
    assert!(sink.stored().iter().any(|event| event["reportingInstance"] == "kubelet-7"));
}

#[tokio::test(start_paused = true)]
async fn en_005_a_series_is_written_once_and_then_counted() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    for note in ["one", "two", "three", "four"] {
        warn(&recorder, "R", note);
        recorder.flush().await;
    }
    assert_eq!(sink.calls(), [("create", 0), ("patch", 2)]);
    let stored = sink.stored();
    assert_eq!((stored.len(), &stored[0]["note"]), (1, &Value::from("one")));
}

#[tokio::test(start_paused = true)]
async fn en_006_a_continuing_series_is_written_every_30_minutes() {
    let sink = FakeSink::failing(|verb, number| (verb == "patch" && number == 2).then(refused));
    let recorder = new_recorder(&sink, SinkOptions::new());
    for _ in 0..61 {
        sleep(seconds(MINUTE / 2)).await;
        warn(&recorder, "R", "n");
        settle().await;
        sleep(seconds(MINUTE / 2)).await;
    }
    let expected = [("create", 0), ("patch", 2), ("patch", 30), ("patch", 60)];
    assert_eq!(sink.calls(), expected, "one that failed is kept, and written the next time");
}

#[tokio::test(start_paused = true)]
async fn en_007_a_series_that_has_ended_is_written_and_the_next_is_a_new_one() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    for _ in 0..5 {
        warn(&recorder, "R", "n");
    }
    recorder.flush().await;
    sleep(seconds(13 * MINUTE)).await;
    settle().await;
    assert_eq!(sink.stored()[0]["series"]["count"], 5);
    sink.calls();
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!((sink.calls(), sink.stored().len()), (vec![("create", 0)], 2));
}

#[tokio::test(start_paused = true)]
async fn en_008_recording_continues_while_series_are_written() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    warn(&recorder, "R", "n");
    recorder.flush().await;
    sink.delay(Some(seconds(5)));
    sleep(seconds(12 * MINUTE + 2)).await;
    assert_eq!(sink.memory(|memory| memory.together), 1, "the end of the series is being written");
    warn(&recorder, "R", "n");
    settle().await;
    sleep(seconds(5)).await;
    settle().await;
    sink.calls();
    sink.delay(None);
    warn(&recorder, "R", "n");
    recorder.shutdown().await;
    assert_eq!(sink.stored().len(), 1, "it went on while its end was written, so it has not ended");
    assert_eq!(sink.stored()[0]["series"]["count"], 4);
}

#[tokio::test(start_paused = true)]
async fn en_009_twelve_attempts_ten_seconds_apart_with_jitter() {
    let sink = FakeSink::failing(|_, _| Some(unavailable(None)));
    let recorder = new_recorder(&sink, SinkOptions::new());
    let start = Instant::now();
    warn(&recorder, "R", "n");
    recorder.flush().await;
    let took = start.elapsed();
    assert_eq!(sink.calls().len(), 12);
    assert!(seconds(110) <= took && took <= seconds(138), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn en_010_a_series_deleted_on_the_server_is_created() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    sink.memory(|memory| memory.stored.clear());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("create", 0), ("patch", 2), ("create", 2)]);
    assert_eq!(sink.stored()[0]["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn en_010_an_existing_event_is_dropped_and_a_series_update_is_retried() {
    let sink = FakeSink::failing(|_, number| match number {
        0 | 2 => Some(SinkError::AlreadyExists),
        1 => Some(SinkError::NotFound),
        _ => None,
    });
    let recorder = new_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(sink.memory(|memory| memory.calls.len()), 1, "a single event that is there is left alone");
    warn(&recorder, "R", "n");
    recorder.flush().await;
    let expected = [("create", 0), ("patch", 2), ("create", 2), ("patch", 2), ("create", 2)];
    assert_eq!(sink.calls(), expected);
    assert_eq!(sink.stored()[0]["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn en_011_rejected_events_are_dropped_and_failed_ones_are_retried() {
    for (failure, attempts) in [(refused as fn() -> SinkError, 1), (|| unavailable(Some(1)), 2)] {
        let sink = FakeSink::failing(move |_, number| (number == 0).then(failure));
        let recorder = new_recorder(&sink, SinkOptions::new());
        warn(&recorder, "R", "n");
        recorder.flush().await;
        assert_eq!(sink.calls().len(), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn en_013_recording_can_be_restarted() {
    let (broadcaster, first, second) = (broadcaster(), FakeSink::default(), FakeSink::default());
    let recorder = broadcaster.recorder("c").build();
    let recording = broadcaster.record_to_events(first.clone(), SinkOptions::new());
    assert!(recording.is_listening());
    warn(&recorder, "R", "n");
    recording.stop();
    recording.stop();
    assert!(!recording.is_listening());
    let _ = broadcaster.record_to_events(second.clone(), SinkOptions::new());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!((first.calls(), second.calls()), (vec![("create", 0)], vec![("create", 0)]));
}

#[tokio::test(start_paused = true)]
async fn en_014_the_shutdown_writes_queued_events_and_the_last_counts() {
    let sink = FakeSink::default();
    let recorder = new_recorder(&sink, SinkOptions::new());
    for _ in 0..7 {
        warn(&recorder, "R", "n");
    }
    recorder.event(&reference("Pod", "other"), EventType::Normal, "R", "n");
    recorder.shutdown().within(seconds(5)).await.unwrap();
    let counts: Vec<Value> = sink.stored().iter().map(|event| event["series"]["count"].clone()).collect();
    assert_eq!(counts, [Value::Null, Value::from(7)]);
}

#[tokio::test(start_paused = true)]
async fn qhc_20_a_slow_create_and_the_patch_behind_it() {
    let sink = FakeSink::default();
    sink.delay(Some(Duration::from_millis(100)));
    let recorder = new_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    settle().await;
    warn(&recorder, "R", "n");
    let start = Instant::now();
    recorder.flush().await;
    assert_eq!(sink.calls(), [("create", 0), ("patch", 2)], "the second waits for the first, so nothing is in its way");
    assert_eq!((sink.stored().len(), &sink.stored()[0]["series"]["count"]), (1, &Value::from(2)));
    assert_eq!(start.elapsed().as_millis(), 200, "nothing is tried again");
}
