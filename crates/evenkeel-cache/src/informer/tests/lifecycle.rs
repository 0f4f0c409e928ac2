//! How informers begin and end, and what they say of it.

use super::*;
use crate::Index;
use crate::informer::Phase;
use crate::wait::DoneChecker;

#[tokio::test(start_paused = true)]
async fn inf_001_created_started_stopped_and_never_again() {
    let source = source();
    let informer = builder(&source).build();
    assert_eq!((informer.is_started(), informer.is_stopped()), (false, false));
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!((informer.is_started(), informer.is_stopped()), (true, false));
    informer.stop();
    informer.ended().await;
    assert!(informer.is_stopped());
    informer.start();
    settle().await;
    assert!(informer.is_stopped());
    assert_eq!(source.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn inf_002_a_second_run_returns_at_once() {
    let source = source();
    let informer = builder(&source).build();
    informer.start();
    informer.run().await;
    assert!(!informer.is_stopped());
    informer.synced().await.unwrap();
    assert_eq!(source.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn inf_003_of_many_that_begin_at_once_one_does() {
    let source = source();
    let informer = builder(&source).build();
    let runtime = tokio::runtime::Handle::current();
    let begun: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (informer, runtime) = (&informer, &runtime);
                scope.spawn(move || {
                    let _inside = runtime.enter();
                    informer.launch().is_some()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(begun.iter().filter(|begun| **begun).count(), 1);
    informer.synced().await.unwrap();
    assert_eq!(source.watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn inf_004_it_has_ended_when_the_last_handler_has_returned() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let called = watch::Sender::new(false);
    let mut calls = called.subscribe();
    let handler = move |_: Event<Untyped>| {
        called.send_replace(true);
        released.recv().unwrap();
    };
    informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    informer.start();
    calls.wait_for(|called| *called).await.unwrap();
    informer.stop();
    let mut life = informer.core().lives();
    life.wait_for(|life| life.phase == Phase::Stopped).await.unwrap();
    let ended = informer.ended();
    tokio::pin!(ended);
    assert!(futures_poll(ended.as_mut()).await.is_none(), "the handler is still being called");
    release.send(()).unwrap();
    ended.await;
    assert_eq!(source.watches(), 0);
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
    let informer = builder(&source).build();
    let indexer = informer.indexer();
    assert!(indexer.list().is_empty());
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!(indexer.list().len(), 1);
    informer.shutdown().await;
    assert_eq!(stored(&informer), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn inf_006_synced_stays_true_and_a_stop_before_it_says_so() {
    let source = source();
    let informer = builder(&source).build();
    assert!(!informer.has_synced());
    informer.start();
    informer.synced().await.unwrap();
    informer.shutdown().await;
    assert!(informer.has_synced());
    informer.synced().await.unwrap();

    let other = builder(&source).build();
    other.stop();
    let error = other.synced().await.unwrap_err();
    assert_eq!(error.to_string(), "informer pods: it did not sync because it has stopped already");
    assert!(!other.has_synced());
}

#[tokio::test(start_paused = true)]
async fn inf_008_informer_and_handler_have_names() {
    let source = source();
    let informer = builder(&source).name("my pods").build();
    assert_eq!(informer.name(), "my pods");
    assert_eq!(builder(&source).build().name(), "pods");
    let registration = informer.add_handler(Recorder::default().with(HandlerOptions::new().name("keys"))).unwrap();
    assert_eq!(registration.name(), "keys");
    let unnamed = informer.add_handler(Recorder::default()).unwrap();
    assert!(unnamed.name().ends_with("Recorder"), "{}", unnamed.name());
    assert_eq!(DoneChecker::name(&informer), "informer my pods");
    assert_eq!(DoneChecker::name(&registration), "informer my pods + handler keys");
}

#[tokio::test(start_paused = true)]
async fn inf_010_there_is_no_version_before_it_runs() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    assert_eq!(informer.last_sync_resource_version().as_str(), "");
    informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert_eq!(informer.last_sync_resource_version().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn inf_012_store_and_handlers_see_what_the_transform_made() {
    let source = source();
    source.add(labelled("a", "small", "u")).unwrap();
    let upper = |object: Object| -> Result<Object, std::convert::Infallible> {
        let json = String::from_utf8_lossy(&object.raw().unwrap()).replace("small", "LARGE");
        Ok(Obj::from_json(object.resource(), json).unwrap())
    };
    let informer = builder(&source).transform(upper).build();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let registration = informer
        .add_handler(move |event: Event<Untyped>| {
            log.lock().unwrap().push(event.object().unwrap().label("l").unwrap().to_owned());
        })
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["LARGE"]);
    assert_eq!(informer.indexer().get("a").unwrap().label("l"), Some("LARGE"));
}

#[tokio::test(start_paused = true)]
async fn inf_013_indexes_can_be_added_while_it_runs() {
    let source = source();
    source.add(labelled("a", "x", "u")).unwrap();
    source.add(labelled("b", "y", "v")).unwrap();
    let (informer, _) = running(&source, HandlerOptions::new()).await;
    let by_label = || Index::by_object("label", |object: &Object| object.label("l").map(str::to_owned));
    informer.add_indexes([by_label()]).unwrap();
    assert_eq!(informer.indexer().by_index("label", "x").unwrap().len(), 1);
    assert!(informer.add_indexes([by_label()]).is_err());
    source.modify(labelled("b", "x", "v")).unwrap();
    settle().await;
    assert_eq!(informer.indexer().by_index("label", "x").unwrap().len(), 2);
    informer.shutdown().await;
    let error = informer.add_indexes([Index::by_path("late", "spec")]).unwrap_err();
    assert!(error.to_string().ends_with("because it has stopped already"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn inf_014_no_handler_is_added_to_what_has_ended() {
    let source = source();
    let (informer, _) = running(&source, HandlerOptions::new()).await;
    informer.shutdown().await;
    let error = informer.add_handler(Recorder::default()).unwrap_err();
    assert!(error.to_string().ends_with("was not added to the informer because it has stopped already"), "{error}");
    assert!(informer.subscribe(HandlerOptions::new()).is_err());
}

#[tokio::test(start_paused = true)]
async fn inf_030_without_handlers_the_store_is_kept_and_nothing_is_left_behind() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    assert_eq!(stored(&informer), ["a@1", "b@2"]);
    let metrics = tokio::runtime::Handle::current().metrics();
    informer.shutdown().await;
    settle().await;
    assert_eq!((metrics.num_alive_tasks(), source.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_informer_ends_when_its_last_user_is_gone() {
    let source = source();
    let informer = builder(&source).build();
    let other = informer.clone();
    informer.start();
    informer.synced().await.unwrap();
    drop(informer);
    settle().await;
    assert_eq!(source.watches(), 1, "the clone is a user");
    let registration = other.add_handler(Recorder::default()).unwrap();
    drop(other);
    settle().await;
    assert_eq!(source.watches(), 1, "so is the handler");
    registration.remove();
    settle().await;
    assert_eq!(source.watches(), 0);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_a_user_until_it_is_dropped() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    let mut events = informer.subscribe(HandlerOptions::new()).unwrap();
    informer.start();
    drop(informer);
    assert_eq!(tell(&events.next().await.unwrap()), "initial a@1");
    assert!(!events.registration().has_synced(), "who knows what became of the event");
    source.add(pod("b")).unwrap();
    assert_eq!(tell(&events.next().await.unwrap()), "add b@2");
    assert!(events.registration().has_synced());
    assert_eq!(source.watches(), 1);
    drop(events);
    settle().await;
    assert_eq!(source.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_ends_with_its_future_and_hands_on_panics() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    let running = informer.run();
    tokio::select! {
        () = running => unreachable!("nobody stops it"),
        synced = informer.synced() => synced.unwrap(),
    }
    informer.ended().await;
    assert_eq!(source.watches(), 0);

    let broken = builder(&source)
        .transform(|_: Object| -> Result<Object, std::convert::Infallible> { panic!("not this one") })
        .build();
    let handle = broken.clone();
    let outcome = tokio::spawn(async move { handle.run().await }).await.unwrap_err();
    assert_eq!(outcome.into_panic().downcast_ref::<&str>(), Some(&"not this one"));
    assert!(broken.is_stopped() && broken.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_tells_handlers_what_waits_and_stop_does_not() {
    for (drains, expected) in [(true, 5), (false, 1)] {
        let source = source();
        (0..5).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
        let informer = builder(&source).build();
        let recorder = Recorder::default();
        let (gate, closed) = std::sync::mpsc::channel::<()>();
        let mut inner = recorder.clone();
        let handler = move |event: Event<Untyped>| {
            inner.handle(event);
            let _ = closed.recv();
        };
        informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
        informer.start();
        recorder.heard(1).await;
        if drains {
            drop(gate);
            informer.shutdown().await;
        } else {
            informer.stop();
            informer.core().lives().wait_for(|life| life.phase == Phase::Stopped).await.unwrap();
            drop(gate);
            informer.ended().await;
        }
        assert_eq!(recorder.log().len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_began_ends_without_telling() {
    let informer = builder(&source()).build();
    let registration = informer.add_handler(Recorder::default()).unwrap();
    informer.shutdown().await;
    assert!(registration.synced().await.is_err());
    assert!(!registration.is_active() && !informer.is_started() && informer.is_stopped());
    assert!(informer.add_handler(Recorder::default()).is_err());
}

#[test]
fn a_runtime_that_ends_takes_its_informers_along() {
    let informer = builder(&source()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let registration = runtime.block_on(async {
        informer.start();
        informer.add_handler(Recorder::default().with(HandlerOptions::new().may_block())).unwrap()
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert!(informer.synced().await.is_err());
        assert!(registration.synced().await.is_err());
        informer.ended().await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_may_block_may_wait_for_the_runtime() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = builder(&source).build();
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let handler = move |event: Event<Untyped>| sender.blocking_send(tell(&event)).unwrap();
    let registration = informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    informer.start();
    assert_eq!(receiver.recv().await.as_deref(), Some("initial a@1"));
    registration.synced().await.unwrap();
    assert_eq!(registration.panics(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_after_stop_has_returned() {
    let source = source().with_buffer(1000);
    let (informer, recorder) = running(&source, HandlerOptions::new()).await;
    (0..500).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    tokio::task::yield_now().await;
    informer.stop();
    let told = recorder.log().len();
    informer.ended().await;
    assert_eq!(recorder.log().len(), told);
}
