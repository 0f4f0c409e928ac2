//! Start and stop of informers.

use super::*;
use crate::Index;
use crate::compat::DoneChecker;
use evenkeel_core::ResourceVersion;

#[tokio::test(start_paused = true)]
async fn inf_001_a_stopped_informer_cannot_be_restarted() {
    let source = source();
    let informer = informer_of(&source, options());
    assert_eq!((informer.is_started(), informer.is_stopped()), (false, false));
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!((informer.is_started(), informer.is_stopped()), (true, false));
    running.stop().await;
    assert!(informer.is_stopped());
    let _again = informer.start();
    settle().await;
    assert!(informer.is_stopped());
    assert_eq!(source.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn inf_002_a_second_start_returns_a_handle_that_stops_nothing() {
    let source = source();
    let informer = informer_of(&source, options());
    let _running = informer.start();
    informer.start().stop().await;
    settle().await;
    assert!(!informer.is_stopped());
    informer.synced().await.unwrap();
    assert_eq!(source.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn inf_003_of_concurrent_starts_one_succeeds() {
    let source = source();
    let informer = informer_of(&source, options());
    let runtime = tokio::runtime::Handle::current();
    let mut handles: Vec<RunningInformers> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (informer, runtime) = (&informer, &runtime);
                scope.spawn(move || {
                    let _inside = runtime.enter();
                    informer.start()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    handles.retain(|running| format!("{running:?}") != "[]");
    assert_eq!(handles.len(), 1);
    informer.synced().await.unwrap();
    assert_eq!(source.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn inf_004_an_informer_has_stopped_when_its_last_handler_has_returned() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let called = watch::Sender::new(false);
    let mut calls = called.subscribe();
    let handler = move |_: Event<Untyped>| {
        called.send_replace(true);
        released.recv().unwrap();
    };
    informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let running = informer.start();
    calls.wait_for(|called| *called).await.unwrap();
    let stopping = running.stop();
    tokio::pin!(stopping);
    assert!(futures_poll(stopping.as_mut()).await.is_none(), "a call is in progress");
    let_others_run().await;
    assert!(informer.is_stopped());
    assert!(futures_poll(stopping.as_mut()).await.is_none(), "a call is in progress");
    release.send(()).unwrap();
    stopping.await;
    assert_eq!(source.watches(), 0);
}

/// Lets other tasks run without virtual time, which does not advance while a handler blocks a thread.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Polls a future once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn inf_005_the_store_can_be_read_before_and_after() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let indexer = informer.indexer();
    assert!(indexer.list().is_empty());
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(indexer.list().len(), 1);
    running.drain().await;
    assert_eq!(stored(&informer), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn inf_006_synced_stays_true_and_a_stop_before_it_is_an_error() {
    let source = source();
    let informer = informer_of(&source, options());
    assert!(!informer.has_synced());
    let running = informer.start();
    informer.synced().await.unwrap();
    running.drain().await;
    assert!(informer.has_synced());
    informer.synced().await.unwrap();

    let other = informer_of(&source, options());
    drop(other.start());
    let error = other.synced().await.unwrap_err();
    assert_eq!(error.to_string(), "informer pods has stopped: it did not sync");
    assert!(!other.has_synced());
}

#[tokio::test(start_paused = true)]
async fn inf_008_informer_and_handler_have_names() {
    let source = source();
    let informer = informer_of(&source, options().name("my pods"));
    assert_eq!(informer.name(), "my pods");
    assert_eq!(informer_of(&source, options()).name(), "pods");
    let registration = informer.add_handler(Recorder::default().with(HandlerOptions::new().name("keys"))).unwrap();
    assert_eq!(registration.name(), "keys");
    let unnamed = informer.add_handler(Recorder::default()).unwrap();
    assert_eq!(unnamed.name(), "handler");
    assert_eq!(informer.add_handler(Recorder::default()).unwrap().name(), "handler-2");
    assert_eq!(DoneChecker::name(&informer), "informer my pods");
    assert_eq!(DoneChecker::name(&registration), "informer my pods + handler keys");
}

#[tokio::test(start_paused = true)]
async fn inf_010_a_new_informer_has_no_version() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    assert_eq!(informer.last_sync_resource_version().as_str(), "");
    let _running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert_eq!(informer.last_sync_resource_version().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn inf_012_store_and_handlers_receive_transformed_objects() {
    let source = source();
    source.add(labelled("a", "small", "u")).unwrap();
    let upper = |object: Object| -> Result<Object, std::convert::Infallible> {
        let json = String::from_utf8_lossy(&object.raw().unwrap()).replace("small", "LARGE");
        Ok(Obj::from_json(object.resource(), json).unwrap())
    };
    let informer = informer_of(&source, options().transform(upper));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let registration = informer
        .add_handler(move |event: Event<Untyped>| {
            log.lock().unwrap().push(event.object().unwrap().label("l").unwrap().to_owned());
        })
        .unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["LARGE"]);
    assert_eq!(informer.indexer().get("a").unwrap().label("l"), Some("LARGE"));
}

#[tokio::test(start_paused = true)]
async fn inf_013_indexes_can_be_added_to_a_running_informer() {
    let source = source();
    source.add(labelled("a", "x", "u")).unwrap();
    source.add(labelled("b", "y", "v")).unwrap();
    let (informer, running, _) = started(&source, HandlerOptions::new()).await;
    let by_label = || Index::by_object("label", |object: &Object| object.label("l").map(str::to_owned));
    informer.add_indexes([by_label()]).unwrap();
    assert_eq!(informer.indexer().by_index("label", "x").unwrap().len(), 1);
    assert!(informer.add_indexes([by_label()]).is_err());
    source.modify(labelled("b", "x", "v")).unwrap();
    settle().await;
    assert_eq!(informer.indexer().by_index("label", "x").unwrap().len(), 2);
    running.drain().await;
    let error = informer.add_indexes([Index::by_path("late", "spec").unwrap()]).unwrap_err();
    assert!(error.to_string().ends_with("because it has stopped already"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn inf_014_a_stopped_informer_rejects_handlers() {
    let source = source();
    let (informer, running, _) = started(&source, HandlerOptions::new()).await;
    running.drain().await;
    let error = informer.add_handler(Recorder::default()).unwrap_err();
    assert!(error.to_string().ends_with("has stopped: the handler was not added"), "{error}");
    assert!(informer.subscribe(HandlerOptions::new()).is_err());
}

#[tokio::test(start_paused = true)]
async fn inf_030_without_handlers_the_store_follows_and_no_task_remains() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    assert_eq!(stored(&informer), ["a@1", "b@2"]);
    let metrics = tokio::runtime::Handle::current().metrics();
    running.drain().await;
    settle().await;
    assert_eq!((metrics.num_alive_tasks(), source.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn only_the_handle_of_its_start_stops_an_informer() {
    let source = source();
    let informer = informer_of(&source, options());
    let running = informer.start();
    informer.synced().await.unwrap();
    let registration = informer.add_handler(Recorder::default()).unwrap();
    let lister = informer.lister();
    drop(informer);
    registration.remove();
    drop((registration, lister));
    settle().await;
    assert_eq!(source.watches(), 1);
    drop(running);
    settle().await;
    assert_eq!(source.watches(), 0);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_registration_leaves_its_handler() {
    let source = source();
    let informer = informer_of(&source, options());
    let recorder = Recorder::default();
    drop(informer.add_handler(recorder.clone()).unwrap());
    let _running = informer.start();
    drop(informer);
    source.add(pod("a")).unwrap();
    recorder.received(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_subscription_removes_its_listener_and_stops_nothing() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let mut events = informer.subscribe(HandlerOptions::new()).unwrap();
    let _running = informer.start();
    assert_eq!(tell(&events.next().await.unwrap()), "initial a@1");
    assert!(!events.registration().has_synced(), "the event may still be in use");
    source.add(pod("b")).unwrap();
    assert_eq!(tell(&events.next().await.unwrap()), "add b@2");
    assert!(events.registration().has_synced());
    assert_eq!(informer.status().handlers.len(), 1);
    drop(events);
    settle().await;
    assert!(informer.status().handlers.is_empty());
    assert_eq!(source.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_informer_dropped_before_its_start_fails() {
    let informer = informer_of(&source(), options());
    let (indexer, recorder) = (informer.indexer(), Recorder::default());
    let registration = informer.add_handler(recorder.clone()).unwrap();
    drop(informer);
    assert!(registration.synced().await.is_err() && !registration.is_active());
    assert!(indexer.at_least(&ResourceVersion::new("7")).await.is_err());
    assert_eq!(Arc::strong_count(&recorder.log), 1, "the handler is dropped");
}

#[tokio::test(start_paused = true)]
async fn handles_can_be_merged_and_a_drain_that_is_dropped_stops() {
    let (first, second) = (source(), source());
    let (one, mut running, _) = started(&first, HandlerOptions::new()).await;
    let (other, more, _) = started(&second, HandlerOptions::new()).await;
    running.merge(more);
    assert!(!one.is_stopped() && !other.is_stopped());
    drop(running.drain());
    one.stopped().await;
    other.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_stops_the_informer() {
    /// A source with a defect.
    struct Broken;
    impl crate::ListerWatcher for Broken {
        fn list(
            &self,
            _: crate::source::ListRequest,
        ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::ListItems>, crate::source::SourceError>>
        {
            panic!("not this one");
        }

        fn watch(
            &self,
            _: crate::source::WatchRequest,
        ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::WatchEvents>, crate::source::SourceError>>
        {
            panic!("not this one");
        }
    }
    let broken = Informer::new(Broken, &pods(), options());
    let _running = broken.start();
    broken.stopped().await;
    assert!(broken.is_stopped() && broken.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn drain_delivers_queued_notifications_and_stop_discards_them() {
    for (drains, expected) in [(true, 5), (false, 1)] {
        let source = source();
        (0..5).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
        let informer = informer_of(&source, options());
        let recorder = Recorder::default();
        let (gate, closed) = std::sync::mpsc::channel::<()>();
        let mut inner = recorder.clone();
        let handler = move |event: Event<Untyped>| {
            inner.handle(event);
            let _ = closed.recv();
        };
        informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
        let running = informer.start();
        recorder.received(1).await;
        if drains {
            drop(gate);
            running.drain().await;
        } else {
            drop(running);
            drop(gate);
            informer.stopped().await;
        }
        assert_eq!(recorder.log().len(), expected);
    }
}

#[test]
fn the_shutdown_of_a_runtime_stops_its_informers() {
    let informer = informer_of(&source(), options());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_running, registration) = runtime.block_on(async {
        let options = HandlerOptions::new().may_block();
        (informer.start(), informer.add_handler(Recorder::default().with(options)).unwrap())
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert!(informer.synced().await.is_err());
        assert!(registration.synced().await.is_err());
        informer.stopped().await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_may_wait_for_the_runtime() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let handler = move |event: Event<Untyped>| sender.blocking_send(tell(&event)).unwrap();
    let registration = informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let _running = informer.start();
    assert_eq!(receiver.recv().await.as_deref(), Some("initial a@1"));
    registration.synced().await.unwrap();
    assert_eq!(registration.lag().panics, 0);
}

#[tokio::test(start_paused = true)]
async fn no_notification_is_delivered_after_the_handle_is_dropped() {
    let source = source().with_buffer(1000);
    let (informer, running, recorder) = started(&source, HandlerOptions::new()).await;
    (0..500).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    tokio::task::yield_now().await;
    drop(running);
    let delivered = recorder.log().len();
    informer.stopped().await;
    assert_eq!(recorder.log().len(), delivered);
}
