//! Sinks of `v1`.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn ev_004_every_sink_has_its_own_counts() {
    let (broadcaster, first, second) = (broadcaster(), FakeSink::default(), FakeSink::default());
    let _ = broadcaster.record_to_core(first.clone(), SinkOptions::new());
    let recorder = broadcaster.recorder("kubelet").build();
    warn(&recorder, "R", "n");
    recorder.flush().await;
    let _ = broadcaster.record_to_core(second.clone(), SinkOptions::new());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(first.calls(), [("create", 1), ("patch", 2)]);
    assert_eq!(second.calls(), [("create", 1)]);
}

#[tokio::test(start_paused = true)]
async fn ev_005_the_first_event_is_created_and_later_ones_are_patched() {
    let sink = FakeSink::default();
    let recorder = core_recorder(&sink, SinkOptions::new());
    for _ in 0..3 {
        warn(&recorder, "R", "n");
        recorder.flush().await;
        sleep(seconds(1)).await;
    }
    assert_eq!(sink.calls(), [("create", 1), ("patch", 2), ("patch", 3)]);
    let stored = sink.stored();
    assert_eq!((stored.len(), stored[0]["count"].as_i64()), (1, Some(3)));
    assert_ne!(stored[0]["firstTimestamp"], stored[0]["lastTimestamp"]);
    sink.memory(|memory| memory.stored.clear());
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("patch", 4), ("create", 4)], "what the server has forgotten is created anew");
    assert_eq!(sink.stored()[0]["metadata"]["resourceVersion"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn ev_007_rejected_events_are_dropped_and_failed_ones_are_retried() {
    let cases: [(fn() -> SinkError, usize); 5] = [
        (refused, 1),
        (|| SinkError::AlreadyExists, 1),
        (|| SinkError::NamespaceTerminating, 1),
        (|| SinkError::NotFound, 1),
        (|| unavailable(None), 2),
    ];
    for (failure, attempts) in cases {
        let sink = FakeSink::failing(move |_, number| (number == 0).then(failure));
        let recorder = core_recorder(&sink, SinkOptions::new());
        warn(&recorder, "R", "n");
        recorder.flush().await;
        assert_eq!(sink.calls().len(), attempts, "{}", failure());
        assert_eq!(sink.stored().len(), attempts - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn ev_007_retry_after_is_obeyed() {
    let sink = FakeSink::failing(|_, number| (number == 0).then(|| unavailable(Some(60))));
    let recorder = core_recorder(&sink, SinkOptions::new());
    let start = Instant::now();
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!((start.elapsed().as_secs(), sink.calls().len()), (60, 2));
}

#[tokio::test(start_paused = true)]
async fn ev_008_twelve_attempts_ten_seconds_apart() {
    let sink = FakeSink::failing(|_, _| Some(unavailable(None)));
    let recorder = core_recorder(&sink, SinkOptions::new());
    let start = Instant::now();
    warn(&recorder, "R", "n");
    recorder.flush().await;
    let took = start.elapsed();
    assert_eq!(sink.calls().len(), 12);
    assert!(seconds(100) <= took && took <= seconds(110), "ten pauses and a part of one: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn ev_009_an_event_that_is_stuck_delays_no_other() {
    let sink = FakeSink::failing(|_, number| (number == 0).then(|| unavailable(Some(100))));
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "Stuck", "n");
    settle().await;
    for number in 0..20 {
        recorder.event(&reference("Pod", &number.to_string()), EventType::Normal, "R", "n");
    }
    settle().await;
    assert_eq!(sink.stored().len(), 20);
    recorder.flush().await;
    assert_eq!(sink.stored().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn ev_009_no_more_than_eight_are_written_at_once() {
    let sink = FakeSink::default();
    sink.delay(Some(seconds(1)));
    let recorder = core_recorder(&sink, SinkOptions::new());
    for number in 0..20 {
        recorder.event(&reference("Pod", &number.to_string()), EventType::Normal, "R", "n");
    }
    for _ in 0..5 {
        warn(&recorder, "R", "the same again and again");
    }
    let start = Instant::now();
    recorder.flush().await;
    assert_eq!(sink.memory(|memory| memory.most_together), 8);
    assert_eq!(start.elapsed().as_secs(), 3, "21 events, eight at a time");
    let same = sink.stored().into_iter().find(|event| event["involvedObject"]["name"] == "web").unwrap();
    assert_eq!(same["count"], 5, "those that waited for their turn were written as one");
}

#[tokio::test(start_paused = true)]
async fn ev_010_after_the_shutdown_each_event_has_one_attempt() {
    let sink = FakeSink::failing(|_, _| Some(unavailable(Some(3600))));
    let recorder = core_recorder(&sink, SinkOptions::new());
    let start = Instant::now();
    warn(&recorder, "Waiting", "n");
    settle().await;
    assert_eq!(sink.calls().len(), 1);
    warn(&recorder, "Queued", "n");
    recorder.shutdown().await;
    assert_eq!(sink.calls().len(), 2, "one for the one that waited, and one for the one that was queued");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn ev_011_a_thousand_events_arrive_though_each_fails_four_times() {
    let (broadcaster, sink) = (broadcaster(), FakeSink::default());
    let failures = Mutex::new(0_usize);
    sink.memory(|memory| {
        memory.fail = Some(Box::new(move |_, _| {
            let mut failures = failures.lock().unwrap();
            *failures += 1;
            (*failures <= 4000).then(|| unavailable(None))
        }));
    });
    let heard = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&heard);
    let _ = broadcaster.for_each(move |_| *counter.lock().unwrap() += 1);
    let _ = broadcaster.record_to_core(sink.clone(), SinkOptions::new().no_spam_filter().no_aggregation());
    let recorder = broadcaster.recorder("kubelet").build();
    for number in 0..1000 {
        let recorder = recorder.clone();
        tokio::spawn(async move { warn(&recorder, "R", &number.to_string()) });
    }
    for _ in 0..20 {
        settle().await;
    }
    recorder.flush().await;
    assert_eq!((sink.stored().len(), *heard.lock().unwrap()), (1000, 1000));
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_lost_response_is_not_counted_twice() {
    let sink = FakeSink::default();
    let memory = sink.clone();
    sink.memory(|it| {
        it.fail = Some(Box::new(move |verb, number| (verb == "create" && number == 0).then(|| unavailable(None))));
    });
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    settle().await;
    // The server stored it, although the response was lost.
    let name = format!("web.{:x}", at(0).as_nanosecond());
    let event = serde_json::json!({"metadata": {"namespace": "ns", "name": name}, "involvedObject": {}, "count": 1});
    memory.memory(|it| it.stored.insert(key(&event), event));
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("create", 1), ("create", 2), ("patch", 2)]);
    assert_eq!(sink.stored()[0]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn qhc_18_the_threshold_of_aggregation() {
    let sink = FakeSink::default();
    let recorder = core_recorder(&sink, SinkOptions::new());
    for note in 1..=11 {
        warn(&recorder, "R", &note.to_string());
        recorder.flush().await;
        sleep(seconds(1)).await;
    }
    let mut expected = vec![("create", 1); 10];
    expected.push(("patch", 2));
    assert_eq!(sink.calls(), expected);
    let messages: Vec<Value> = sink.stored().iter().map(|event| event["message"].clone()).collect();
    assert!(messages.contains(&Value::from("(combined from similar events): 11")), "{messages:?}");
    sleep(seconds(600)).await;
    warn(&recorder, "R", "12");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("create", 1)]);
    assert!(sink.stored().iter().any(|event| event["message"] == "12"));
}

#[tokio::test(start_paused = true)]
async fn qhc_19_the_spam_filter_does_not_stop_counting() {
    let sink = FakeSink::default();
    let recorder = core_recorder(&sink, SinkOptions::new());
    for _ in 0..30 {
        warn(&recorder, "R", "n");
        recorder.flush().await;
        sleep(Duration::from_millis(33)).await;
    }
    let calls = sink.calls();
    assert_eq!(calls.len(), 25);
    assert_eq!((calls[0], calls[24]), (("create", 1), ("patch", 25)));
    assert!(calls[1..].iter().all(|(verb, _)| *verb == "patch"));
    sleep(seconds(300)).await;
    warn(&recorder, "R", "n");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("patch", 31)]);
}

#[tokio::test(start_paused = true)]
async fn ec_005_ec_010_a_clock_that_is_set_changes_no_duration() {
    const DAY: u64 = 24 * 60 * 60;
    for times in [[DAY, 2 * DAY], [2 * DAY, DAY]] {
        let day = Arc::new(AtomicUsize::new(0));
        let today = Arc::clone(&day);
        let broadcaster = EventBroadcaster::with_clock(move || at(times[today.load(Ordering::Relaxed)]));
        let sink = FakeSink::default();
        let _ = broadcaster.record_to_core(sink.clone(), SinkOptions::new().spam_filter(15, seconds(300)));
        let recorder = broadcaster.recorder("kubelet").build();
        for number in 0..20 {
            day.store(number / 5 % 2, Ordering::Relaxed);
            warn(&recorder, "R", &format!("note {number}"));
            recorder.flush().await;
        }
        assert_eq!(sink.stored().len(), 10, "nine notes, and one combined event");
        assert_eq!(sink.calls().len(), 15, "the bucket was not refilled");
        sleep(seconds(300)).await;
        warn(&recorder, "R", "another");
        recorder.flush().await;
        assert_eq!(sink.calls().len(), 1, "a token after five minutes, whatever the time of day");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_option_function_loses_one_event() {
    let sink = FakeSink::default();
    let options = SinkOptions::new().spam_key(|event| match &*event.reason {
        "Bad" => panic!("the key of a bad event"),
        _ => event.spam_key(),
    });
    let recorder = core_recorder(&sink, options);
    warn(&recorder, "Bad", "n");
    warn(&recorder, "Good", "n");
    recorder.flush().await;
    assert_eq!(sink.calls(), [("create", 1)]);
    assert_eq!(sink.stored()[0]["reason"], "Good");
}

#[tokio::test(start_paused = true)]
async fn infinite_durations_and_queues_do_not_panic() {
    let sink = FakeSink::failing(|_, number| (number == 0).then(|| unavailable(None)));
    let options = SinkOptions::new().pause(Duration::MAX).queue(usize::MAX);
    let recorder = core_recorder(&sink, options.refresh_every(Duration::MAX).finish_after(Duration::MAX));
    warn(&recorder, "R", "n");
    settle().await;
    recorder.shutdown().await;
    assert_eq!(sink.calls(), [("create", 1), ("create", 1)], "the end is not waited for");
    let (recorder, mut events) = crate::events::fake::recorder(usize::MAX);
    warn(&recorder, "R", "n");
    assert_eq!(events.lines().len(), 1);
}
