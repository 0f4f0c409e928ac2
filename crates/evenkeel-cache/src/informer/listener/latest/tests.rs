use super::super::super::testing::{object, tell};
use super::*;

fn drain(latest: &mut LatestQueue) -> Vec<String> {
    std::iter::from_fn(|| latest.pop())
        .map(|item| match item {
            LatestItem::Event(event, _) => tell(&event),
            LatestItem::Synced => "synced".to_owned(),
            LatestItem::Barrier(_) => "barrier".to_owned(),
        })
        .collect()
}

fn add(name: &str, version: u64) -> Event<Untyped> {
    Event::Add { object: object(name, version), initial: false }
}

fn update(name: &str, old: u64, new: u64) -> Event<Untyped> {
    Event::Update { old: object(name, old), new: object(name, new) }
}

fn delete(name: &str, version: u64) -> Event<Untyped> {
    Event::Delete(Deleted::Observed(object(name, version)))
}

#[test]
fn changes_of_one_object_are_merged_and_keep_their_position() {
    let mut latest = LatestQueue::default();
    for event in [add("a", 1), update("b", 2, 3), update("a", 1, 4), update("b", 3, 5), delete("c", 6)] {
        latest.push(event, Instant::now());
    }
    assert_eq!(latest.len(), 3);
    assert_eq!(drain(&mut latest), ["add a@4", "update b@2->5", "delete c@6"]);
}

#[test]
fn an_object_added_and_deleted_while_queued_is_not_delivered() {
    let mut latest = LatestQueue::default();
    latest.push(add("a", 1), Instant::now());
    latest.push(delete("a", 2), Instant::now());
    assert!(drain(&mut latest).is_empty());
    latest.push(delete("b", 3), Instant::now());
    latest.push(add("b", 4), Instant::now());
    assert_eq!(drain(&mut latest), ["update b@3->4"], "gone and back: it was seen before");
    latest.push(update("b", 4, 5), Instant::now());
    latest.push(delete("b", 6), Instant::now());
    assert_eq!(drain(&mut latest), ["delete b@6"], "no delete is lost of what was seen");
}

#[test]
fn the_sync_mark_stays_behind_earlier_notifications() {
    let mut latest = LatestQueue::default();
    latest.push(Event::Add { object: object("a", 1), initial: true }, Instant::now());
    latest.push_synced();
    latest.push(update("a", 1, 2), Instant::now());
    latest.push(add("b", 3), Instant::now());
    assert_eq!(drain(&mut latest), ["initial a@2", "synced", "add b@3"]);
}

#[test]
fn objects_added_and_deleted_while_queued_do_not_grow_the_queue() {
    let mut latest = LatestQueue::default();
    latest.push(add("stays", 1), Instant::now());
    for round in 0..10_000 {
        let name = format!("pod-{round}");
        latest.push(add(&name, round), Instant::now());
        latest.push(delete(&name, round), Instant::now());
    }
    assert_eq!(latest.len(), 1);
    assert!(latest.order.len() < 64, "{}", latest.order.len());
    assert_eq!(drain(&mut latest), ["add stays@1"]);
}

#[test]
fn a_recreated_object_moves_to_the_end_of_the_queue() {
    let mut latest = LatestQueue::default();
    latest.push(add("a", 1), Instant::now());
    latest.push(add("b", 2), Instant::now());
    latest.push(delete("a", 3), Instant::now());
    latest.push(add("a", 4), Instant::now());
    assert_eq!(drain(&mut latest), ["add b@2", "add a@4"]);
    assert_eq!((latest.stale, latest.order.len()), (0, 0));
}
