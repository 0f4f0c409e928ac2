use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{Obj, ResourceInfo, Untyped};
use serde_json::json;

use super::*;
use crate::testing::FakeSource;
use crate::{Deleted, Object};

type Pods = SharedInformer<Untyped>;

fn source() -> FakeSource {
    FakeSource::new(Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true))).with_buffer(2000)
}

fn informer(source: &FakeSource) -> Pods {
    Pods::new(source.clone(), source.resource(), crate::InformerOptions::new())
}

fn add(source: &FakeSource, name: &str) -> Object {
    source.add(json!({"metadata": {"name": name, "uid": name}})).unwrap()
}

fn is_added(name: &'static str) -> impl FnMut(&Event<Untyped>) -> Result<bool, Infallible> + Send {
    move |event| Ok(matches!(event, Event::Add { object, .. } if object.key().name() == name))
}

fn key(event: Option<Event<Untyped>>) -> Option<String> {
    event.map(|event| event.key().to_string())
}

#[tokio::test(start_paused = true)]
async fn un_004_existing_objects_are_added_and_an_outage_is_survived() {
    let source = source();
    add(&source, "a");
    let found = UntilWithSync::new(informer(&source)).condition(is_added("a")).run().await.unwrap();
    assert_eq!(key(found).as_deref(), Some("a"));

    let waiting = tokio::spawn(UntilWithSync::new(informer(&source)).condition(is_added("b")).run());
    source.watched(1).await;
    source.add_without_event(json!({"metadata": {"name": "b", "uid": "b"}})).unwrap();
    source.reset_watch();
    assert_eq!(key(waiting.await.unwrap().unwrap()).as_deref(), Some("b"), "the version had expired");
}

#[tokio::test(start_paused = true)]
async fn conditions_are_met_one_after_the_other() {
    let source = source();
    add(&source, "a");
    let until = UntilWithSync::new(informer(&source))
        .condition(is_added("a"))
        .condition(is_added("a"))
        .condition(is_added("b"));
    let waiting = tokio::spawn(until.run());
    source.watched(1).await;
    add(&source, "b");
    assert_eq!(key(waiting.await.unwrap().unwrap()).as_deref(), Some("b"));
    let nothing = UntilWithSync::<_, Infallible>::new(informer(&source)).run().await.unwrap();
    assert!(nothing.is_none());
}

#[tokio::test(start_paused = true)]
async fn un_005_a_precondition_is_evaluated_after_the_sync() {
    let source = source();
    add(&source, "a");
    let has = |name: &'static str| move |indexer: &Indexer<Untyped>| Ok::<_, &'static str>(indexer.get(name).is_some());
    let there =
        UntilWithSync::new(informer(&source)).precondition(has("a")).condition(|_| Err("not asked")).run().await;
    assert!(there.unwrap().is_none());
    let missing = UntilWithSync::new(informer(&source)).precondition(has("b")).condition(|_| Ok(true)).run().await;
    assert_eq!(key(missing.unwrap()).as_deref(), Some("a"));
    let broken = UntilWithSync::new(informer(&source)).precondition(|_| Err("no idea")).run().await;
    assert!(matches!(broken, Err(UntilWithSyncError::Condition("no idea"))));

    source.set_list_error(Some(evenkeel_core::Status::internal("away")));
    let unsynced = informer(&source);
    let running = unsynced.start();
    let waiting = tokio::spawn(UntilWithSync::new(unsynced.clone()).precondition(has("a")).run());
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(running);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "informer pods has stopped: it did not sync");
}

#[tokio::test(start_paused = true)]
async fn un_006_no_task_of_the_informer_is_left_when_it_returns() {
    let source = source();
    add(&source, "a");
    let pods = informer(&source);
    UntilWithSync::new(pods.clone()).condition(is_added("a")).run().await.unwrap();
    assert!(pods.is_stopped());
    assert_eq!((source.watches(), tokio::runtime::Handle::current().metrics().num_alive_tasks()), (0, 0));

    let waiting = tokio::spawn(UntilWithSync::new(informer(&source)).condition(is_added("never")).run());
    source.watched(1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(source.watches(), 0, "given up is over, too");
}

#[tokio::test(start_paused = true)]
async fn iw_001_a_subscription_yields_in_order_and_missed_deletes_with_the_last_known_state() {
    let source = source();
    let a = add(&source, "a");
    let pods = informer(&source);
    let mut events = pods.subscribe(HandlerOptions::new()).unwrap();
    let _running = pods.start();
    assert!(matches!(events.next().await, Some(Event::Add { initial: true, .. })));
    source.delete_without_event(&a).unwrap();
    source.reset_watch();
    let gone = events.next().await.unwrap();
    let Event::Delete(Deleted::Missed { last_known: Some(known), .. }) = &gone else { panic!("{gone:?}") };
    assert_eq!(known.resource_version(), "1");
}

#[tokio::test(start_paused = true)]
async fn iw_002_an_informer_stops_though_its_stream_is_not_read() {
    let source = source();
    let pods = informer(&source);
    let events = pods.subscribe(HandlerOptions::new()).unwrap();
    let running = pods.start();
    (0..100).for_each(|number| drop(add(&source, &format!("p{number}"))));
    pods.synced().await.unwrap();
    running.stop().await;
    assert!(!events.registration().is_active());
}

#[tokio::test(start_paused = true)]
async fn iw_003_a_thousand_events_are_in_order() {
    let source = source();
    let pods = informer(&source);
    let mut events = pods.subscribe(HandlerOptions::new()).unwrap();
    let _running = pods.start();
    pods.synced().await.unwrap();
    source.watched(1).await;
    (0..1000).for_each(|number| drop(add(&source, &format!("p{number}"))));
    for number in 0..1000 {
        assert_eq!(events.next().await.unwrap().key().name(), format!("p{number}"));
    }
}

#[tokio::test(start_paused = true)]
async fn iw_004_the_stream_ends_and_can_be_bounded() {
    let source = source();
    let pods = informer(&source);
    let options = HandlerOptions::new().delivery(crate::Delivery::Latest);
    let mut events = pods.subscribe(options).unwrap();
    let running = pods.start();
    pods.synced().await.unwrap();
    source.watched(1).await;
    let a: Obj<Untyped> = add(&source, "a");
    (0..500).for_each(|_| drop(source.modify(&a).unwrap()));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(events.registration().lag().pending, 1);
    assert!(events.next().await.is_some());
    running.drain().await;
    assert!(events.next().await.is_none());
}
