//! A slow handler delays no other, and with `Delivery::Latest` its queue is bounded.

use super::*;
use crate::handler::Delivery;

#[tokio::test(start_paused = true)]
async fn prc_002_one_of_64_handlers_stalls_and_63_receive_everything() {
    let source = source().with_buffer(10_000);
    (0..10).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    let recorders: Vec<Recorder> = (0..63).map(|_| Recorder::default()).collect();
    for recorder in &recorders {
        informer.add_handler(recorder.clone()).unwrap();
    }
    // It receives one event and is not polled again.
    let mut stalled = informer.subscribe(HandlerOptions::new().delivery(Delivery::Latest)).unwrap();
    let _running = informer.start();
    let first = stalled.next().await.unwrap();
    assert!(matches!(first, Event::Add { initial: true, .. }));
    for round in 0..1000 {
        source.modify(pod(&format!("p{}", round % 10))).unwrap();
        let passing = format!("short-lived-{round}");
        source.add(pod(&passing)).unwrap();
        source.delete(pod(&passing)).unwrap();
        if round % 50 == 0 {
            settle().await;
        }
    }
    for recorder in &recorders {
        recorder.received(3010).await;
        assert_eq!(recorder.log().len(), 3010);
    }
    let behind = stalled.registration().lag();
    assert!(behind.pending <= 11, "ten objects and the one in hand, not {}", behind.pending);
    // Once polled again, it receives the current state in a few events.
    let mut last = std::collections::BTreeMap::from([(first.key().clone(), tell(&first))]);
    while stalled.registration().lag().pending > 1 {
        let event = stalled.next().await.unwrap();
        last.insert(event.key().clone(), event.object().unwrap().resource_version().to_owned());
    }
    for object in informer.indexer().list() {
        assert_eq!(last[object.key()], object.resource_version());
    }
}

#[tokio::test(start_paused = true)]
async fn prc_001_the_queue_of_a_slow_handler_grows_visibly() {
    let source = source().with_buffer(10_000);
    let informer = informer_of(&source, options());
    let mut slow = informer.subscribe(HandlerOptions::new()).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("a")).unwrap();
    (1..3000).for_each(|_| drop(source.modify(pod("a")).unwrap()));
    settle().await;
    assert_eq!(slow.registration().lag().pending, 3000);
    assert!(slow.registration().lag().since.is_some());
    for _ in 0..3000 {
        slow.next().await.unwrap();
    }
    assert_eq!(slow.registration().lag().pending, 1, "the last one may still be looked at");
}

#[tokio::test(start_paused = true)]
async fn prc_003_notifications_wait_for_a_handler_that_has_not_started() {
    let source = source().with_buffer(10_000);
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let mut events = informer.subscribe(HandlerOptions::new()).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert_eq!(tell(&events.next().await.unwrap()), "initial a@1");
}
