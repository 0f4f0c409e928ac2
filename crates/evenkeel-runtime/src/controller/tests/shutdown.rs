//! The shutdown of controllers.

use evenkeel_apiserver::{Rule, WatchAction};

use super::*;

/// Returns the number of tasks, after the queues have stopped their own.
async fn tasks() -> usize {
    pass(secs(1)).await;
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Records its start, its cancellation, and its end after `time`.
fn slow(
    log: &Log,
    time: Duration,
) -> impl Fn(Obj<ConfigMap>, Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + use<> {
    let log = log.clone();
    move |_, ctx| {
        let log = log.clone();
        Box::pin(async move {
            log.note("started");
            tokio::select! {
                () = pass(time) => {}
                () = ctx.cancelled() => {
                    log.note("cancelled");
                    assert!(ctx.is_cancelled());
                    pass(time).await;
                }
            }
            log.note("finished");
            Ok(Next::done())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn co_025_reconciles_in_flight_finish_within_the_grace_and_no_other_starts() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let before = tasks().await;
    let running = start(controller(&client, "grace"), slow(&log, secs(20)));
    pass(secs(1)).await;
    let ended = Instant::now();
    running.end().await.unwrap();
    assert_eq!(ended.elapsed(), secs(20));
    assert_eq!(log.take(), ["started", "cancelled", "finished"]);
    assert_eq!(tasks().await, before, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn co_025_reconciles_that_exceed_the_grace_are_dropped_and_reported() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let before = tasks().await;
    let built = controller(&client, "grace-exceeded").concurrency(2).grace(secs(5));
    let running = start(built, slow(&log, secs(3600)));
    pass(secs(1)).await;
    let ended = Instant::now();
    let error = running.end().await.unwrap_err();
    assert_eq!(ended.elapsed(), secs(5));
    assert!(matches!(error, ControllerError::GraceExceeded { running: 2, handlers: 0, .. }), "{error}");
    assert_eq!(log.take(), ["started", "started", "cancelled", "cancelled"]);
    assert_eq!(tasks().await, before, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_controller_stops_at_once_at_any_stage() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let before = tasks().await;
    for stage in [0, 1, 5000] {
        let running = start(controller(&client, "dropped").owns::<Secret>(), slow(&log, secs(3600)));
        pass(ms(stage)).await;
        running.ended.abort();
        assert!(running.ended.await.unwrap_err().is_cancelled());
        assert_eq!(tasks().await, before, "no task is left after {stage} ms");
    }
    assert_eq!(log.take(), ["started", "started"], "a dropped reconcile is not cancelled first");
    drop(controller(&client, "dropped").standby().unwrap());
    assert_eq!(tasks().await, before);
}

#[tokio::test(start_paused = true)]
async fn parked_keys_do_not_delay_the_shutdown() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let before = tasks().await;
    let running = start(controller(&client, "parked-end").owns::<Secret>().own_writes(secs(3600)), {
        let log = log.clone();
        move |parent, ctx| {
            log.note("run");
            async move {
                ctx.api::<Secret>().namespace("default").create(&child("c", &parent)).await?;
                Ok(Next::requeue())
            }
        }
    });
    settle().await;
    server.faults().add(Rule::watch(WatchAction::BookmarkOnly).resource("secrets"));
    create(&client, "a").await;
    pass(secs(10)).await;
    assert_eq!(log.len(), 1, "parked, because the cache does not show the child");
    let ended = Instant::now();
    running.end().await.unwrap();
    assert!(ended.elapsed() < ms(100));
    assert_eq!(tasks().await, before);
}

#[tokio::test(start_paused = true)]
async fn recorded_events_are_flushed_at_shutdown() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let running = start(controller(&client, "records"), |parent, ctx| async move {
        ctx.recorder().event(&parent, crate::EventType::Normal, "Seen", "seen");
        Ok(Next::done())
    });
    settle().await;
    running.end().await.unwrap();
    let events = client.core_v1().events("default").list(&Default::default()).await.unwrap();
    assert_eq!(events.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shared_recorder_outlives_the_controller() {
    let server = server().await;
    let client = server.client();
    let seen = create(&client, "a").await;
    let (recorder, mut events) = crate::events::fake::recorder(10);
    let running = start(controller(&client, "records").recorder(recorder.clone()), |parent, ctx| async move {
        ctx.recorder().event(&parent, crate::EventType::Normal, "Seen", "seen");
        Ok(Next::done())
    });
    settle().await;
    running.end().await.unwrap();
    assert_eq!(events.lines(), ["Normal Seen seen"]);
    recorder.event(&seen, crate::EventType::Normal, "Over", "the controller has ended");
    assert_eq!(events.lines(), ["Normal Over the controller has ended"]);
}

/// A predicate that blocks its thread cannot be dropped. The shared informer calls it on a thread of its own, so that the time
/// of this runtime can be paused while it blocks.
#[tokio::test]
async fn co_025_a_predicate_that_blocks_does_not_outlast_the_grace() {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let (server, informers, started) = threads
        .spawn(async {
            let server = server().await;
            create(&server.client(), "a").await;
            let informers = evenkeel_cache::InformerFactory::builder(&server.client()).namespace("default").build();
            let configs = informers.of::<ConfigMap>();
            let started = (informers.start(), configs);
            informers.wait_for_sync().await.unwrap();
            (server, informers, started)
        })
        .await
        .unwrap();
    let (release, blocked) = (Arc::new(std::sync::Barrier::new(2)), Arc::new(tokio::sync::Notify::new()));
    let predicate = {
        let (release, blocked) = (Arc::clone(&release), Arc::clone(&blocked));
        move |event: &evenkeel_cache::Event<ConfigMap>| {
            if matches!(event, evenkeel_cache::Event::Update { .. }) {
                blocked.notify_one();
                release.wait();
            }
            true
        }
    };
    let client = server.client();
    let built = Controller::<ConfigMap>::new(&client).informers(&informers).named("blocked").when(predicate);
    let standby = built.grace(secs(5)).standby().unwrap();
    standby.ready().await.unwrap();
    touch(&client, "a", 1).await;
    blocked.notified().await;
    tokio::time::pause();
    let ended = Instant::now();
    let error = standby.lead(std::future::ready(()), |_, _| async { Ok(Next::done()) }).await.unwrap_err();
    assert!(matches!(error, ControllerError::GraceExceeded { running: 0, handlers: 1, .. }), "{error}");
    assert!(ended.elapsed() >= secs(5) && ended.elapsed() < ms(5100), "{:?}", ended.elapsed());
    release.wait();
    drop(started);
    threads.shutdown_background();
}
