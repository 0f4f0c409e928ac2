//! Which updates reach which handler.

use evenkeel_core::WatchEvent;

use super::*;

const NO_RESYNC: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

/// Adds a handler with this resync period.
async fn with_handler(informer: &Informer, resync: Duration) -> Recorder {
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone().with(HandlerOptions::new().resync(resync))).unwrap();
    recorder
}

/// Makes the reflector relist, and waits until it has.
async fn relist(source: &FakeSource) {
    source.reset_watch();
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn ihc_01_without_resyncs_a_relist_delivers_everything() {
    let source = source();
    source.add(pod("pod1")).unwrap();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    assert_eq!(recorder.take(), ["initial pod1@1"]);
    source.add_without_event(pod("pod2")).unwrap();
    relist(&source).await;
    assert_eq!(recorder.take_sorted(), ["add pod2@2", "update pod1@1->1"]);
}

#[tokio::test(start_paused = true)]
async fn inf_034_before_the_first_resync_check_a_relist_reaches_all_handlers() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let (never, hourly) =
        (with_handler(&informer, NO_RESYNC).await, with_handler(&informer, Duration::from_secs(3600)).await);
    let _running = informer.start();
    never.received(1).await;
    relist(&source).await;
    assert_eq!(never.log(), ["initial a@1", "update a@1->1"]);
    assert_eq!(hourly.log(), ["initial a@1", "update a@1->1"]);
}

/// Returns an informer that checks for resyncs each second, with a handler without resyncs and one with all of them,
/// after the first check.
async fn after_a_tick(source: &FakeSource) -> (Informer, RunningInformers, Recorder, Recorder) {
    let informer = informer_of(source, options().resync(SECOND));
    let (never, each) = (with_handler(&informer, NO_RESYNC).await, with_handler(&informer, SECOND).await);
    let running = informer.start();
    informer.synced().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    never.take();
    each.take();
    (informer, running, never, each)
}

#[tokio::test(start_paused = true)]
async fn ihc_02_after_a_resync_a_relist_delivers_only_changes_to_others() {
    let source = source();
    source.add(pod("pod1")).unwrap();
    source.add(pod("pod2")).unwrap();
    let (_informer, _running, never, each) = after_a_tick(&source).await;
    source.add_without_event(pod("pod3")).unwrap();
    source.modify_without_event(pod("pod2")).unwrap();
    source.reset_watch();
    never.received(4).await;
    assert_eq!(never.take_sorted(), ["add pod3@3", "update pod2@2->4"]);
    settle().await;
    let received: Vec<String> = each.take_sorted();
    for expected in ["add pod3@3", "update pod1@1->1", "update pod2@2->4"] {
        assert!(received.iter().any(|line| line == expected), "{expected} in {received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn inf_035_a_handler_without_resyncs_receives_no_unchanged_object_after_a_check() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (_informer, _running, never, _) = after_a_tick(&source).await;
    relist(&source).await;
    assert!(never.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ihc_03_a_change_that_kept_its_version_is_a_change() {
    let source = source();
    source.add(labelled("pod1", "old", "u")).unwrap();
    let (informer, _running, never, _) = after_a_tick(&source).await;
    let stored = informer.indexer().get("pod1").unwrap();
    let json = String::from_utf8_lossy(&stored.raw().unwrap()).replace("old", "new");
    let same_version: Object = Obj::from_json(stored.resource(), json).unwrap();
    assert_eq!(same_version.resource_version(), "1");
    source.send(WatchEvent::Modified(same_version));
    settle().await;
    assert_eq!(informer.indexer().get("pod1").unwrap().label("l"), Some("new"));
    assert_eq!(never.take(), ["update pod1@1->1"]);
}

#[tokio::test(start_paused = true)]
async fn inf_036_watch_events_are_delivered_whatever_their_version() {
    let source = source();
    let (_informer, _running, never, _) = after_a_tick(&source).await;
    for _ in 0..2 {
        source.send(WatchEvent::Modified(Obj::from_json(&pods(), r#"{"metadata":{"name":"a"}}"#).unwrap()));
        settle().await;
    }
    assert_eq!(never.take(), ["add a@", "update a@->"]);
}

#[tokio::test(start_paused = true)]
async fn inf_031_an_unchanged_version_in_a_list_is_no_change() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    let (_informer, _running, never, each) = after_a_tick(&source).await;
    source.modify_without_event(pod("a")).unwrap();
    source.reset_watch();
    never.received(3).await;
    settle().await;
    assert_eq!(never.take(), ["update a@1->3"]);
    assert!(each.take().contains(&"update b@2->2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn inf_032_resyncs_reach_the_handlers_that_are_due() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (_informer, _running, never, each) = after_a_tick(&source).await;
    tokio::time::sleep(SECOND * 2).await;
    assert!(never.take().is_empty());
    assert_eq!(each.take(), ["update a@1->1", "update a@1->1"]);
}

#[tokio::test(start_paused = true)]
async fn inf_033_each_check_decides_which_handlers_are_due() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().resync(SECOND));
    let (second, third) = (with_handler(&informer, SECOND * 2).await, with_handler(&informer, SECOND * 3).await);
    let _running = informer.start();
    second.received(1).await;
    third.received(1).await;
    tokio::time::sleep(SECOND / 2).await;
    let mut received = Vec::new();
    for _ in 0..6 {
        second.take();
        third.take();
        tokio::time::sleep(SECOND).await;
        received.push((second.take().len(), third.take().len()));
    }
    assert_eq!(received.iter().map(|(second, _)| second).sum::<usize>(), 3);
    assert_eq!(received.iter().map(|(_, third)| third).sum::<usize>(), 2);
}

#[tokio::test(start_paused = true)]
async fn inf_037_a_resync_reaches_the_handlers_that_were_due_at_the_tick() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, never, each) = after_a_tick(&source).await;
    source.modify(pod("a")).unwrap();
    let late = with_handler(&informer, NO_RESYNC).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(never.take(), ["update a@1->2"]);
    assert_eq!(each.take(), ["update a@1->2", "update a@2->2"]);
    assert!(late.take().iter().all(|line| line != "update a@2->2"));
}

#[tokio::test(start_paused = true)]
async fn inf_038_a_resync_is_an_update_to_the_same_version() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().resync(SECOND));
    let same: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = Arc::clone(&same);
    informer
        .add_handler(move |event: Event<Untyped>| {
            if let Event::Update { old, new } = event {
                log.lock().unwrap().push(old.is_same_state_as(&new));
            }
        })
        .unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(*same.lock().unwrap(), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn ihc_30_deleted_and_created_during_an_outage_is_one_update() {
    let source = source();
    source.add(labelled("pod1", "x", "A")).unwrap();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    let uids: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let log = Arc::clone(&uids);
    _informer
        .add_handler(move |event: Event<Untyped>| {
            if let Event::Update { old, new } = event {
                log.lock().unwrap().push((old.uid().to_owned(), new.uid().to_owned()));
            }
        })
        .unwrap();
    source.delete_without_event(labelled("pod1", "x", "A")).unwrap();
    source.add_without_event(labelled("pod1", "x", "B")).unwrap();
    relist(&source).await;
    assert_eq!(recorder.take(), ["initial pod1@1", "update pod1@1->3"]);
    assert_eq!(*uids.lock().unwrap(), [("A".to_owned(), "B".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn inf_027_deleted_and_created_between_two_lists_is_one_update() {
    let source = source();
    source.add(labelled("a", "x", "A")).unwrap();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    source.delete_without_event(labelled("a", "x", "A")).unwrap();
    source.add_without_event(labelled("a", "y", "B")).unwrap();
    relist(&source).await;
    assert_eq!(recorder.take(), ["initial a@1", "update a@1->3"]);
    assert_eq!(informer.indexer().get("a").unwrap().uid(), "B");
}

#[tokio::test(start_paused = true)]
async fn inf_028_each_event_of_a_watch_is_a_call_and_a_relist_folds() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (_informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    (0..3).for_each(|_| drop(source.modify(pod("a")).unwrap()));
    recorder.received(4).await;
    assert_eq!(recorder.take(), ["initial a@1", "update a@1->2", "update a@2->3", "update a@3->4"]);
    (0..3).for_each(|_| drop(source.modify_without_event(pod("a")).unwrap()));
    relist(&source).await;
    assert_eq!(recorder.take(), ["update a@4->7"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_missing_from_a_relist_is_a_tombstone() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    recorder.take();
    source.modify_without_event(pod("a")).unwrap();
    source.delete_without_event(pod("a")).unwrap();
    relist(&source).await;
    assert_eq!(recorder.take_sorted(), ["missed a@1", "update b@2->2"], "what it was when it went is not known");
    assert_eq!(stored(&informer), ["b@2"]);
}
