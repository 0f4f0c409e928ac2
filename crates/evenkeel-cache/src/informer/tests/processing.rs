//! From deltas to the store and to handlers.

use super::*;
use crate::informer::QueueKind;

/// Starts an informer of this source with this queue, and a recorder that has processed the initial list.
async fn with_queue(source: &FakeSource, kind: QueueKind) -> (Informer, RunningInformers, Recorder) {
    let informer = informer_of(source, options().queue(kind));
    let recorder = Recorder::default();
    let registration = informer.add_handler(recorder.clone()).unwrap();
    let running = informer.start();
    registration.synced().await.unwrap();
    (informer, running, recorder)
}

#[tokio::test(start_paused = true)]
async fn ihc_11_a_list_replaces_everything_in_one_step() {
    let source = source();
    for name in ["p1", "p2", "p3"] {
        source.add(pod(name)).unwrap();
    }
    let informer = informer_of(&source, options());
    let (indexer, log) = (informer.indexer(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&log);
    informer
        .add_handler(move |event: Event<Untyped>| {
            let state = (indexer.get("p4").is_some(), indexer.resource_version().to_string());
            seen.lock().unwrap().push((tell(&event), state));
        })
        .unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    log.lock().unwrap().clear();
    source.modify_without_event(pod("p1")).unwrap();
    source.modify_without_event(pod("p2")).unwrap();
    source.add_without_event(pod("p4")).unwrap();
    source.delete_without_event(pod("p3")).unwrap();
    source.reset_watch();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let log = log.lock().unwrap();
    let delivered: Vec<&str> = log.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(delivered[0], "missed p3@3", "deletes are delivered first");
    let mut rest = delivered[1..].to_vec();
    rest.sort_unstable();
    assert_eq!(rest, ["add p4@6", "update p1@1->4", "update p2@2->5"]);
    assert!(log.iter().all(|(_, state)| *state == (true, "7".to_owned())), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn ihc_16_an_empty_list_is_applied() {
    for kind in [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed] {
        let source = source();
        source.add(pod("a")).unwrap();
        source.delete(pod("a")).unwrap();
        let (informer, _running, recorder) = with_queue(&source, kind).await;
        assert!(recorder.log().is_empty());
        if kind == QueueKind::Ordered {
            assert_eq!(informer.indexer().resource_version().as_str(), "2");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_queues_deliver_the_same_changes() {
    for kind in [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed] {
        let source = source();
        source.add(pod("a")).unwrap();
        source.add(pod("b")).unwrap();
        let (informer, _running, recorder) = with_queue(&source, kind).await;
        assert_eq!(recorder.take_sorted(), ["initial a@1", "initial b@2"]);
        source.modify(pod("a")).unwrap();
        settle().await;
        source.add(pod("c")).unwrap();
        settle().await;
        source.delete(pod("b")).unwrap();
        settle().await;
        assert_eq!(recorder.take(), ["update a@1->3", "add c@4", "delete b@5"], "{kind:?}");
        source.delete_without_event(pod("a")).unwrap();
        source.modify_without_event(pod("c")).unwrap();
        source.reset_watch();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(recorder.take_sorted(), ["missed a@3", "update c@4->7"], "{kind:?}");
        assert_eq!(stored(&informer), ["c@7"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ctl_008_the_store_decides_what_is_new() {
    use evenkeel_core::WatchEvent;
    let source = source();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    source.send(WatchEvent::Modified(object("a", 5)));
    source.send(WatchEvent::Added(object("a", 6)));
    recorder.received(2).await;
    assert_eq!(recorder.take(), ["add a@5", "update a@5->6"]);
}

#[tokio::test(start_paused = true)]
async fn ctl_009_deletes_of_unknown_objects_are_ignored() {
    use evenkeel_core::WatchEvent;
    for kind in [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed] {
        let source = source();
        source.add(pod("a")).unwrap();
        let (_informer, _running, recorder) = with_queue(&source, kind).await;
        source.send(WatchEvent::Deleted(object("unknown", 7)));
        source.delete(pod("a")).unwrap();
        recorder.received(2).await;
        assert_eq!(recorder.take(), ["initial a@1", "delete a@2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn rfq_003_a_deletion_of_an_unknown_object_is_dropped_when_applied() {
    use evenkeel_core::WatchEvent;
    let source = source();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    source.send(WatchEvent::Deleted(object("unknown", 9)));
    settle().await;
    assert!(recorder.take().is_empty());
    assert_eq!(informer.indexer().resource_version().as_str(), "9", "but the store has come that far");
}

#[tokio::test(start_paused = true)]
async fn ctl_011_a_bookmark_advances_the_store_without_a_notification() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    recorder.take();
    source.add_without_event(pod("b")).unwrap();
    source.bookmark();
    settle().await;
    assert_eq!(informer.indexer().resource_version().as_str(), "2");
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn txn_012_the_store_follows_lists_events_and_bookmarks() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, _) = started(&source, HandlerOptions::new()).await;
    let version = || informer.indexer().resource_version().to_string();
    assert_eq!(version(), "1");
    source.modify(pod("a")).unwrap();
    settle().await;
    assert_eq!(version(), "2");
    source.delete(pod("a")).unwrap();
    settle().await;
    assert_eq!(version(), "3");
    source.add_without_event(pod("b")).unwrap();
    source.bookmark();
    settle().await;
    assert_eq!(version(), "4");
}

#[tokio::test(start_paused = true)]
async fn ctl_012_a_resync_redelivers_everything_and_writes_nothing() {
    for kind in [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed] {
        let source = source();
        source.add(pod("a")).unwrap();
        source.add(pod("b")).unwrap();
        let informer = informer_of(&source, options().queue(kind).resync(Duration::from_secs(10)));
        let recorder = Recorder::default();
        informer.add_handler(recorder.clone()).unwrap();
        let _running = informer.start();
        informer.synced().await.unwrap();
        settle().await;
        recorder.take();
        let commits = informer.shared.table.commits();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(recorder.take_sorted(), ["update a@1->1", "update b@2->2"], "{kind:?}");
        assert_eq!(informer.shared.table.commits(), commits);
    }
}

#[tokio::test(start_paused = true)]
async fn ctl_026_a_relist_after_missed_changes_notifies_changed_and_new_objects() {
    for kind in [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed] {
        let source = source();
        source.add(pod("a")).unwrap();
        let (_informer, _running, recorder) = with_queue(&source, kind).await;
        recorder.take();
        source.modify_without_event(pod("a")).unwrap();
        source.add_without_event(pod("b")).unwrap();
        source.reset_watch();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(recorder.take_sorted(), ["add b@3", "update a@1->2"], "{kind:?}: it is not initial");
    }
}

#[tokio::test(start_paused = true)]
async fn ctl_006_synced_is_false_before_it_runs() {
    let source = source();
    let informer = informer_of(&source, options());
    settle().await;
    assert!(!informer.has_synced());
    assert!(source.requests().is_empty(), "nothing was asked of the server");
}

#[tokio::test(start_paused = true)]
async fn ctl_001_it_runs_until_it_is_stopped_and_both_tasks_have_ended() {
    let source = source();
    let informer = informer_of(&source, options());
    let running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert_eq!((informer.is_stopped(), source.watches()), (false, 1));
    running.stop().await;
    assert_eq!((informer.is_stopped(), source.watches()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn the_keyed_queue_keeps_a_delete_and_an_add_of_the_watch_apart() {
    let source = source();
    source.add(labelled("a", "x", "A")).unwrap();
    let (_informer, _running, recorder) = with_queue(&source, QueueKind::Keyed).await;
    source.delete(labelled("a", "x", "A")).unwrap();
    source.add(labelled("a", "x", "B")).unwrap();
    recorder.received(3).await;
    assert_eq!(recorder.take(), ["initial a@1", "delete a@2", "add a@3"]);
}

#[tokio::test(start_paused = true)]
async fn ctl_002_queued_deltas_are_not_applied_after_the_stop() {
    let source = source();
    let (informer, running, recorder) = started(&source, HandlerOptions::new()).await;
    source.add(pod("a")).unwrap();
    running.stop().await;
    assert_eq!((stored(&informer).len(), recorder.log().len()), (0, 0));
    assert_eq!(informer.status().queued, 0);
}

#[tokio::test(start_paused = true)]
async fn ctl_007_the_last_error_handler_replaces_others() {
    let source = source();
    source.fail_next_list(evenkeel_core::Status::failure(403, evenkeel_core::Reason::FORBIDDEN, "no"));
    let (first, second): (Arc<Mutex<u32>>, Arc<Mutex<u32>>) = Default::default();
    let count = |counter: &Arc<Mutex<u32>>| {
        let counter = Arc::clone(counter);
        move |_: &crate::reflector::ReflectorFailure| *counter.lock().unwrap() += 1
    };
    let informer = informer_of(&source, options().on_error(count(&first)).on_error(count(&second)));
    let _running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!((*first.lock().unwrap(), *second.lock().unwrap()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn ctl_010_the_store_is_written_before_a_handler_is_called() {
    let source = source();
    let informer = informer_of(&source, options());
    let (indexer, found) = (informer.indexer(), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&found);
    let registration = informer
        .add_handler(move |event: Event<Untyped>| log.lock().unwrap().push(indexer.get(event.key()).is_some()))
        .unwrap();
    source.add(pod("a")).unwrap();
    let _running = informer.start();
    registration.synced().await.unwrap();
    assert_eq!(*found.lock().unwrap(), [true]);
}

#[tokio::test(start_paused = true)]
async fn ctl_013_a_replacement_notifies_deletions_first_then_the_list_in_order() {
    let source = source();
    for name in ["a", "b", "c"] {
        source.add(pod(name)).unwrap();
    }
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    recorder.take();
    source.delete_without_event(pod("b")).unwrap();
    source.modify_without_event(pod("c")).unwrap();
    source.add_without_event(pod("d")).unwrap();
    source.reset_watch();
    recorder.received(7).await;
    assert_eq!(recorder.take(), ["missed b@2", "update a@1->1", "update c@3->5", "add d@6"]);
}

#[tokio::test(start_paused = true)]
async fn ctl_014_the_store_has_the_whole_list_before_its_notifications() {
    for (kind, complete) in [(QueueKind::Ordered, true), (QueueKind::OrderedPerItem, true)] {
        let source = source();
        let informer = informer_of(&source, options().queue(kind));
        (0..10).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
        let (indexer, sizes) = (informer.indexer(), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&sizes);
        let registration =
            informer.add_handler(move |_: Event<Untyped>| log.lock().unwrap().push(indexer.list().len())).unwrap();
        let _running = informer.start();
        registration.synced().await.unwrap();
        assert_eq!(sizes.lock().unwrap().iter().all(|size| *size == 10), complete, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ctl_016_deltas_of_one_object_are_applied_oldest_first() {
    use evenkeel_core::WatchEvent;
    let source = source();
    let (informer, _running, recorder) = with_queue(&source, QueueKind::Keyed).await;
    for event in [
        WatchEvent::Added(object("a", 1)),
        WatchEvent::Added(object("b", 2)),
        WatchEvent::Modified(object("a", 3)),
        WatchEvent::Deleted(object("a", 4)),
        WatchEvent::Added(object("a", 5)),
    ] {
        source.send(event);
    }
    recorder.received(5).await;
    assert_eq!(recorder.take(), ["add a@1", "update a@1->3", "delete a@4", "add a@5", "add b@2"]);
    assert_eq!(stored(&informer), ["a@5", "b@2"]);
}

#[tokio::test(start_paused = true)]
async fn ctl_017_events_of_one_batch_are_one_store_transaction() {
    let source = source();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    let before = informer.shared.table.commits();
    (0..20).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    recorder.received(20).await;
    assert_eq!(informer.shared.table.commits(), before + 1);
    let expected: Vec<String> = (0..20).map(|i| format!("add p{i}@{}", i + 1)).collect();
    assert_eq!(recorder.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn ctl_022_a_panic_of_an_index_function_does_not_end_the_process_loop() {
    let source = source();
    source.add(pod("a")).unwrap();
    let index = crate::Index::by_object("broken", |_: &Object| -> Vec<String> { panic!("not this one") });
    let informer = informer_of(&source, options().index(index));
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    assert_eq!(stored(&informer), ["a@1", "b@2"], "no delta is lost");
    assert_eq!(informer.indexer().misfits("broken"), Ok(2));
    assert!(!informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn prc_010_a_handler_has_synced_after_its_first_calls_not_after_they_were_queued() {
    let source = source();
    (0..3).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    let mut events = informer.subscribe(HandlerOptions::new()).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    for _ in 0..3 {
        assert!(!events.registration().has_synced());
        events.next().await.unwrap();
    }
    assert!(!events.registration().has_synced(), "the third may still be looked at");
    source.add(pod("more")).unwrap();
    events.next().await.unwrap();
    assert!(events.registration().has_synced());
}

#[tokio::test(start_paused = true)]
async fn prc_011_a_handler_added_during_the_start_receives_everything_before_it_has_synced() {
    for rounds in 0..20 {
        let source = source();
        (0..3).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
        let informer = informer_of(&source, options());
        let _running = informer.start();
        for _ in 0..rounds {
            tokio::task::yield_now().await;
        }
        let recorder = Recorder::default();
        let registration = informer.add_handler(recorder.clone()).unwrap();
        registration.synced().await.unwrap();
        assert_eq!(recorder.take_sorted(), ["initial p0@1", "initial p1@2", "initial p2@3"], "{rounds}");
    }
}
