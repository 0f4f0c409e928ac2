//! Start, flush and shutdown of sinks.

use super::super::Unfinished;
use super::*;

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn ev_012_the_shutdown_leaves_no_task() {
    for way in 0..4 {
        let (before, broadcaster, sink) = (tasks(), broadcaster(), FakeSink::default());
        let _ = broadcaster.record_to_core(sink.clone(), SinkOptions::new());
        let _ = broadcaster.record_to_events(sink.clone(), SinkOptions::new());
        let _ = broadcaster.start_logging();
        let (cancel, cancelled) = tokio::sync::oneshot::channel::<()>();
        let _ = broadcaster.shutdown_when(async { drop(cancelled.await) });
        let recorder = broadcaster.recorder("c").build();
        warn(&recorder, "R", "n");
        match way {
            0 => broadcaster.shutdown().await,
            1 => drop(cancel),
            2 => recorder.shutdown().within(seconds(1)).await.unwrap(),
            _ => drop((broadcaster, recorder)),
        }
        settle().await;
        assert_eq!(tasks(), before, "way {way}");
        assert_eq!(sink.stored().len(), 1, "way {way}: what was recorded is written");
    }
}

#[tokio::test(start_paused = true)]
async fn ev_012_a_hanging_sink_is_abandoned_at_the_deadline() {
    let (before, sink) = (tasks(), FakeSink::default());
    sink.delay(Some(seconds(86_400)));
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "A", "n");
    warn(&recorder, "B", "n");
    settle().await;
    let unfinished = recorder.shutdown().within(seconds(5)).await.unwrap_err();
    assert_eq!(
        (unfinished, unfinished.to_string()),
        (Unfinished { events: 2 }, "2 events were not written in time".into())
    );
    settle().await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn en_014_a_flush_has_a_deadline_and_can_be_cancelled() {
    let sink = FakeSink::failing(|_, number| (number == 0).then(|| unavailable(Some(60))));
    let recorder = core_recorder(&sink, SinkOptions::new());
    recorder.flush().await;
    warn(&recorder, "R", "n");
    let unfinished = recorder.flush().within(seconds(5)).await.unwrap_err();
    assert_eq!(unfinished, Unfinished { events: 1 });
    drop(recorder.flush());
    recorder.flush().within(seconds(60)).await.unwrap();
    assert_eq!(sink.stored().len(), 1, "to give up a flush is not to give up the event");
}

#[tokio::test(start_paused = true)]
async fn a_flush_does_not_wait_for_later_events() {
    let sink = FakeSink::failing(|_, number| (number == 1).then(|| unavailable(Some(60))));
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "A", "n");
    let flush = recorder.flush();
    settle().await;
    warn(&recorder, "B", "n");
    settle().await;
    flush.within(Duration::from_millis(1)).await.unwrap();
}

#[test]
fn events_recorded_outside_of_a_runtime_wait_for_one() {
    let sink = FakeSink::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let broadcaster = EventBroadcaster::with_clock(|| at(0));
    let _ = broadcaster.record_to_core(sink.clone(), SinkOptions::new());
    let recorder = broadcaster.recorder("c").build();
    warn(&recorder, "R", "n");
    assert_eq!(sink.calls(), []);
    runtime.block_on(async { recorder.flush().await });
    assert_eq!(sink.calls(), [("create", 1)]);
    warn(&recorder, "R", "n");
    runtime.block_on(async { recorder.shutdown().await });
    assert_eq!(sink.calls(), [("patch", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_loses_one_event() {
    let sink = FakeSink::failing(|_, number| if number == 0 { panic!("on purpose") } else { None });
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "A", "n");
    recorder.flush().await;
    sink.0.clear_poison();
    warn(&recorder, "B", "n");
    recorder.flush().await;
    assert_eq!(sink.stored().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_loses_events_and_uses_bounded_memory() {
    let sink = FakeSink::default();
    sink.delay(Some(seconds(1)));
    let options = SinkOptions::new().queue(3).concurrency(1).no_spam_filter().no_aggregation();
    let recorder = core_recorder(&sink, options);
    for number in 0..100 {
        warn(&recorder, "R", &number.to_string());
        settle().await;
    }
    recorder.flush().await;
    assert_eq!(sink.stored().len(), 6, "three on their way and three in the queue");
}

#[tokio::test(start_paused = true)]
async fn a_sink_without_a_response_is_retried() {
    let (before, sink) = (tasks(), FakeSink::default());
    sink.delay(Some(seconds(86_400)));
    let recorder = core_recorder(&sink, SinkOptions::new());
    warn(&recorder, "R", "n");
    sleep(seconds(45)).await;
    assert_eq!(sink.calls().len(), 2, "after 30 seconds, and a pause of less than ten");
    drop(recorder);
    sleep(seconds(31)).await;
    assert_eq!(tasks(), before, "and without handles, no longer than that");
}
