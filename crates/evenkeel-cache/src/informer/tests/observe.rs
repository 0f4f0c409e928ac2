//! Events that observers receive.

use super::super::observe::{InformerEvent, Observer};
use super::*;
use crate::delta::Delta;
use crate::source::SourceError;

/// Records its notifications.
#[derive(Clone, Default)]
struct RecordingObserver(Arc<Mutex<Vec<String>>>);

impl RecordingObserver {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for RecordingObserver {
    fn event(&self, event: InformerEvent<'_>) {
        let line = match event {
            InformerEvent::Received(Delta::ReplacedAll { objects, resource_version }) => {
                format!("listed {} at {resource_version}", objects.len())
            }
            InformerEvent::Received(Delta::Bookmark(version)) => format!("bookmark {version}"),
            InformerEvent::Received(delta) => {
                let word = match delta {
                    Delta::Added(_) => "added",
                    Delta::Updated(_) => "modified",
                    Delta::Deleted(_) => "deleted",
                    other => unreachable!("{other:?}"),
                };
                let object = delta.object().unwrap();
                format!("received {word} {}@{}", object.key(), object.resource_version())
            }
            InformerEvent::Applied { event, is_resync } => {
                format!("{}{}", if is_resync { "resync " } else { "" }, tell(event))
            }
            InformerEvent::HandlerCalled { handler, event } => format!("{handler}: calling {}", tell(event)),
            InformerEvent::HandlerReturned { handler, key, panicked } => {
                format!("{handler}: called {key}{}", if panicked { ", panicked" } else { "" })
            }
            InformerEvent::Failed(failure) => format!("failed: {}", failure.error),
        };
        self.0.lock().unwrap().push(line);
    }
}

fn named(name: &'static str) -> HandlerOptions {
    HandlerOptions::new().name(name)
}

#[tokio::test(start_paused = true)]
async fn an_object_is_observed_from_the_watch_to_the_handler() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let observer = RecordingObserver::default();
    let _observation = informer.observe(observer.clone());
    let registration = informer.add_handler(Recorder::default().with(named("h"))).unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    assert_eq!(observer.take(), ["listed 1 at 1", "initial a@1", "h: calling initial a@1", "h: called a"]);
    source.modify(pod("a")).unwrap();
    settle().await;
    let delivered = ["received modified a@2", "update a@1->2", "h: calling update a@1->2", "h: called a"];
    assert_eq!(observer.take(), delivered);
    source.delete(pod("a")).unwrap();
    source.bookmark();
    settle().await;
    let delivered = ["received deleted a@3", "bookmark 3", "delete a@3", "h: calling delete a@3", "h: called a"];
    assert_eq!(observer.take(), delivered);
}

#[tokio::test(start_paused = true)]
async fn a_resync_is_observed_as_a_resync() {
    let source = source();
    source.add(pod("a")).unwrap();
    let options = named("h").resync(Duration::from_secs(60));
    let (informer, _running, _recorder) = started(&source, options).await;
    let observer = RecordingObserver::default();
    let _observation = informer.observe(observer.clone());
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(observer.take(), ["resync update a@1->1", "h: calling update a@1->1", "h: called a"]);
}

#[tokio::test(start_paused = true)]
async fn failures_reach_observers_and_the_error_handler() {
    let source = source();
    let errors = Arc::new(Mutex::new(0));
    let count = Arc::clone(&errors);
    let informer = informer_of(&source, options().on_error(move |_| *count.lock().unwrap() += 1));
    let observer = RecordingObserver::default();
    let _observation = informer.observe(observer.clone());
    source.fail_next_list(SourceError::Other("no such thing".into()));
    let _running = informer.start();
    informer.synced().await.unwrap();
    let delivered = observer.take();
    assert_eq!(delivered[0], "failed: failed to list: no such thing", "{delivered:?}");
    assert_eq!(*errors.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_handler_is_observed_and_an_observer_that_panics_is_skipped() {
    struct Broken(Arc<Mutex<usize>>);
    impl Observer for Broken {
        fn event(&self, _: InformerEvent<'_>) {
            *self.0.lock().unwrap_or_else(|broken| broken.into_inner()) += 1;
            panic!("on purpose");
        }
    }
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let (calls, observer) = (Arc::new(Mutex::new(0)), RecordingObserver::default());
    let _broken = informer.observe(Broken(Arc::clone(&calls)));
    let _observation = informer.observe(observer.clone());
    let handler = |_: Event<Untyped>| panic!("expected panic");
    let registration = informer.add_handler(handler.with(named("h"))).unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    assert_eq!(observer.take().last().unwrap(), "h: called a, panicked");
    assert_eq!(*calls.lock().unwrap_or_else(|broken| broken.into_inner()), 1);
    assert_eq!(stored(&informer), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_call_is_observed_by_two_events_on_its_thread() {
    thread_local!(static IN_CALL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    struct Marker;
    impl Observer for Marker {
        fn event(&self, event: InformerEvent<'_>) {
            match event {
                InformerEvent::HandlerCalled { .. } => IN_CALL.set(true),
                InformerEvent::HandlerReturned { .. } => IN_CALL.set(false),
                _ => assert!(!IN_CALL.get()),
            }
        }
    }
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let _observation = informer.observe(Marker);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let handler = move |_: Event<Untyped>| notes.lock().unwrap().push(IN_CALL.get());
    let calm = informer.add_handler(handler.clone()).unwrap();
    let blocking = informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let _running = informer.start();
    calm.synced().await.unwrap();
    blocking.synced().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_keeps_no_store_alive_and_dropping_it_unregisters() {
    let source = source();
    let informer = informer_of(&source, options());
    let (observer, weak) = (RecordingObserver::default(), informer.downgrade());
    let observation = informer.observe(observer.clone());
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(observer.take(), ["listed 0 at 0"]);
    drop(observation);
    assert_eq!(Arc::strong_count(&observer.0), 1, "the observer is let go");
    source.add(pod("a")).unwrap();
    settle().await;
    assert!(observer.take().is_empty());
    let _observation = informer.observe(observer.clone());
    drop(informer);
    settle().await;
    assert!(weak.upgrade().is_some(), "it runs");
    running.stop().await;
    assert!(weak.upgrade().is_none());
}
