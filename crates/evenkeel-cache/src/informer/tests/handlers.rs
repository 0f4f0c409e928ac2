//! Handlers added early, late, and more than once.

use super::*;
use crate::Delivery;

#[tokio::test(start_paused = true)]
async fn inf_015_an_early_handler_receives_everything() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    assert_eq!(recorder.take(), ["initial a@1"]);
    source.modify(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    source.delete(pod("a")).unwrap();
    recorder.received(4).await;
    assert_eq!(recorder.take(), ["update a@1->2", "add b@3", "delete a@4"]);
}

#[tokio::test(start_paused = true)]
async fn inf_016_a_late_handler_receives_stored_objects_then_changes() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let late = Recorder::default();
    let registration = informer.add_handler(late.clone()).unwrap();
    source.modify(pod("a")).unwrap();
    late.received(3).await;
    assert!(registration.has_synced());
    let mut log = late.take();
    assert_eq!(log.pop().as_deref(), Some("update a@1->3"));
    log.sort();
    assert_eq!(log, ["initial a@1", "initial b@2"]);
}

#[tokio::test(start_paused = true)]
async fn inf_016_handlers_added_at_any_time_receive_everything_once() {
    let source = source();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let mut recorders = Vec::new();
    for round in 0..50 {
        source.add(pod(&format!("p{round}"))).unwrap();
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let recorder = Recorder::default();
        informer.add_handler(recorder.clone()).unwrap();
        recorders.push(recorder);
    }
    for recorder in &recorders {
        recorder.received(50).await;
    }
    settle().await;
    for recorder in recorders {
        let mut keys: Vec<String> = recorder.log().iter().map(|line| line.split(' ').nth(1).unwrap().into()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), recorder.log().len()), (50, 50));
    }
}

#[tokio::test(start_paused = true)]
async fn inf_007_a_registration_has_synced_when_its_first_calls_have_returned() {
    ihc_26_body().await;
}

#[tokio::test(start_paused = true)]
async fn inf_017_a_late_registration_is_not_synced_before_its_first_calls() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let late = Recorder::default();
    let registration = informer.add_handler(late.clone()).unwrap();
    assert!(informer.has_synced() && !registration.has_synced());
    registration.synced().await.unwrap();
    assert_eq!(late.log(), ["initial a@1"]);
}

#[tokio::test(start_paused = true)]
async fn ihc_26_the_informer_has_synced_and_a_blocked_handler_has_not() {
    ihc_26_body().await;
}

async fn ihc_26_body() {
    let source = source();
    for name in ["a", "b", "c"] {
        source.add(pod(name)).unwrap();
    }
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let recorder = Recorder::default();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut inner = recorder.clone();
    let blocked = move |event: Event<Untyped>| {
        released.recv().unwrap();
        inner.handle(event);
    };
    let registration = informer.add_handler(blocked.with(HandlerOptions::new().may_block())).unwrap();
    tokio::task::yield_now().await;
    assert!(informer.has_synced() && !registration.has_synced());
    (0..3).for_each(|_| release.send(()).unwrap());
    registration.synced().await.unwrap();
    assert_eq!(recorder.take_sorted(), ["initial a@1", "initial b@2", "initial c@3"]);
    source.add(pod("d")).unwrap();
    release.send(()).unwrap();
    recorder.received(4).await;
    assert_eq!(recorder.take(), ["add d@4"]);
    drop(release);
    registration.remove();
}

#[tokio::test(start_paused = true)]
async fn inf_018_a_handler_added_twice_has_two_registrations() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let recorder = Recorder::default();
    let first = informer.add_handler(recorder.clone()).unwrap();
    let second = informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    first.synced().await.unwrap();
    second.synced().await.unwrap();
    assert_eq!(recorder.take(), ["initial a@1", "initial a@1"]);
    first.remove();
    source.add(pod("b")).unwrap();
    recorder.received(3).await;
    settle().await;
    assert_eq!(recorder.take(), ["add b@2"]);
}

#[tokio::test(start_paused = true)]
async fn inf_025_the_object_of_a_notification_is_in_the_store() {
    let source = source();
    let informer = informer_of(&source, options());
    let (indexer, seen) = (informer.indexer(), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&seen);
    let received = watch::Sender::new(0);
    let mut count = received.subscribe();
    informer
        .add_handler(move |event: Event<Untyped>| {
            let delivered: u64 = event.object().unwrap().resource_version().parse().unwrap();
            let stored = indexer.get(event.key()).map(|object| object.resource_version().parse().unwrap());
            log.lock().unwrap().push((delivered, stored, matches!(event, Event::Delete(_))));
            received.send_modify(|received| *received += 1);
        })
        .unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    for _ in 0..20 {
        source.add(pod("a")).unwrap();
        source.modify(pod("a")).unwrap();
        source.delete(pod("a")).unwrap();
        tokio::task::yield_now().await;
    }
    count.wait_for(|received| *received == 60).await.unwrap();
    for (delivered, stored, gone) in seen.lock().unwrap().iter() {
        let stored: Option<u64> = *stored;
        assert!(stored.is_none_or(|stored| stored >= *delivered), "{delivered} {stored:?}");
        assert!(*gone || stored.is_some() || *delivered < 60, "{delivered} {stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn inf_026_each_handler_receives_in_order() {
    let source = source();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    source.add(pod("a")).unwrap();
    let mut expected = vec!["add a@1".to_owned()];
    for version in 2..200 {
        source.modify(pod("a")).unwrap();
        expected.push(format!("update a@{}->{version}", version - 1));
    }
    recorder.received(199).await;
    assert_eq!(recorder.log(), expected);
}

/// The same with parallel threads, so that handlers are added between a commit and its notification.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn inf_016_handlers_added_from_other_threads_receive_everything_once() {
    const PODS: usize = 2000;
    let source = source().with_buffer(PODS);
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let writer = tokio::task::spawn_blocking(move || {
        for number in 0..PODS {
            source.add(pod(&format!("p{number}"))).unwrap();
        }
        source
    });
    let mut recorders = Vec::new();
    while !writer.is_finished() || recorders.len() < 20 {
        let recorder = Recorder::default();
        informer.add_handler(recorder.clone()).unwrap();
        recorders.push(recorder);
        if recorders.len() > 200 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let _source = writer.await.unwrap();
    for recorder in recorders {
        recorder.received(PODS).await;
        let mut keys: Vec<String> = recorder.log().iter().map(|line| line.split(' ').nth(1).unwrap().into()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), recorder.log().len()), (PODS, PODS));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_does_not_hold_up_the_process_loop_while_objects_are_copied() {
    for delivery in [Delivery::Every, Delivery::Latest] {
        let source = source();
        source.add(pod("a")).unwrap();
        source.add(pod("b")).unwrap();
        let informer = informer_of(&source, options());
        let _running = informer.start();
        informer.synced().await.unwrap();
        let options = HandlerOptions::new().delivery(delivery);
        let listener = informer.listener("late", &options);
        // The listener is registered, and its objects are not copied yet.
        let joining = informer.shared.admit_listener(&listener, None, None).unwrap();
        source.modify(pod("a")).unwrap();
        source.delete(pod("b")).unwrap();
        source.add(pod("c")).unwrap();
        settle().await;
        assert_eq!(stored(&informer), ["a@3", "c@5"], "the process loop goes on");
        joining.send_initial(&listener);
        listener.drain();
        let mut log = Vec::new();
        while let Some(work) = listener.next().await {
            log.extend(work.events().iter().map(tell));
        }
        match delivery {
            Delivery::Every => {
                let want = ["initial a@1", "initial b@2", "update a@1->3", "delete b@4", "add c@5"];
                assert_eq!(log, want, "the initial objects come first");
            }
            _ => assert_eq!(log, ["initial a@3", "add c@5"]),
        }
    }
}
