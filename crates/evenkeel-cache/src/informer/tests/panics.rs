//! Panics of handlers are contained.

use super::*;
use crate::handler::OnPanic;

/// Records a notification, then panics.
fn panicking(recorder: &Recorder) -> impl Handler<Untyped> + use<> {
    let mut inner = recorder.clone();
    move |event: Event<Untyped>| {
        inner.handle(event);
        panic!("expected panic");
    }
}

async fn with_pods(names: usize) -> (FakeSource, Informer) {
    let source = source();
    (0..names).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    (source, informer)
}

#[tokio::test(start_paused = true)]
async fn prc_006_a_panic_loses_its_notification_and_is_counted() {
    let (_source, informer) = with_pods(5).await;
    let recorder = Recorder::default();
    let registration = informer.add_handler(panicking(&recorder)).unwrap();
    let _running = informer.start();
    recorder.received(5).await;
    settle().await;
    assert_eq!((registration.lag().panics, registration.lag().delivered, registration.lag().pending), (5, 5, 0));
    assert!(registration.is_active());
}

#[tokio::test(start_paused = true)]
async fn prc_006_a_handler_can_be_removed_when_it_panics() {
    let (source, informer) = with_pods(5).await;
    let recorder = Recorder::default();
    let handler = panicking(&recorder).with(HandlerOptions::new().on_panic(OnPanic::Remove));
    let registration = informer.add_handler(handler).unwrap();
    let _running = informer.start();
    recorder.received(1).await;
    source.add(pod("more")).unwrap();
    settle().await;
    assert_eq!((recorder.log().len(), registration.lag().panics, registration.is_active()), (1, 1, false));
    assert!(registration.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn prc_007_a_panic_in_a_first_call_does_not_keep_the_handler_from_syncing() {
    let (_source, informer) = with_pods(3).await;
    let registration = informer.add_handler(panicking(&Recorder::default())).unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    assert_eq!(registration.lag().panics, 3);
}

#[tokio::test(start_paused = true)]
async fn ihc_28_a_handler_that_always_panics_and_one_that_does_not() {
    let (_source, informer) = with_pods(5).await;
    let (bad, good) = (Recorder::default(), Recorder::default());
    let bad_one = informer.add_handler(panicking(&bad)).unwrap();
    let good_one = informer.add_handler(good.clone()).unwrap();
    let _running = informer.start();
    bad_one.synced().await.unwrap();
    good_one.synced().await.unwrap();
    assert_eq!((bad.log().len(), good.log().len()), (5, 5));
    assert!(informer.has_synced());
}

#[tokio::test(start_paused = true)]
async fn the_status_has_the_calls_of_each_handler() {
    let source = source();
    for name in ["a", "b"] {
        source.add(pod(name)).unwrap();
    }
    let informer = informer_of(&source, options());
    let one = informer.add_handler(Recorder::default().with(HandlerOptions::new().name("twin"))).unwrap();
    let other = informer.add_handler(Recorder::default().with(HandlerOptions::new().name("twin"))).unwrap();
    let running = informer.start();
    one.synced().await.unwrap();
    other.synced().await.unwrap();
    assert_eq!((one.lag().delivered, other.lag().delivered), (2, 2));
    assert_eq!((one.name(), other.name()), ("twin", "twin-2"));
    let handlers = informer.status().handlers;
    assert_eq!((handlers["twin"].delivered, handlers["twin-2"].delivered), (2, 2));
    running.drain().await;
}
