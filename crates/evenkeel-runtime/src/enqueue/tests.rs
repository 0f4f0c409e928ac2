//! Handlers that receive events one by one, without an informer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_cache::{Deleted, Filter};
use evenkeel_core::Untyped;
use evenkeel_queue::Item;
use evenkeel_queue::compat::{ReadyOrder, Ticket};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;

type Queue = WorkQueue<ObjectKey>;

fn object(metadata: Value) -> Obj<Pod> {
    let info = Arc::new(ResourceInfo::of::<Pod>());
    Obj::from_json(&info, json!({"metadata": metadata}).to_string()).unwrap()
}

fn pod(name: &str, version: u32) -> Obj<Pod> {
    object(json!({"namespace": "ns", "name": name, "uid": "u", "resourceVersion": version.to_string()}))
}

/// A pod with owners: API version, kind, name, and whether it is the controller.
fn owned(version: u32, owners: &[(&str, &str, &str, bool)]) -> Obj<Pod> {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(api_version, kind, name, controller)| {
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": controller})
        })
        .collect();
    object(json!({
        "namespace": "ns", "name": "child", "uid": "u", "resourceVersion": version.to_string(), "ownerReferences": owners
    }))
}

fn add(object: Obj<Pod>) -> Event<Pod> {
    Event::Add { object, initial: false }
}

fn initial(object: Obj<Pod>) -> Event<Pod> {
    Event::Add { object, initial: true }
}

fn update(old: Obj<Pod>, new: Obj<Pod>) -> Event<Pod> {
    Event::Update { old, new }
}

fn deleted(object: Obj<Pod>) -> Event<Pod> {
    Event::Delete(Deleted::Observed(object))
}

fn missed(name: &str, last_known: Option<Obj<Pod>>) -> Event<Pod> {
    Event::Delete(Deleted::Missed { key: ObjectKey::namespaced("ns", name), last_known })
}

/// Dequeues all keys, with their priorities.
fn taken<Q: Key + ToString>(queue: &WorkQueue<Q>) -> Vec<(String, i32)> {
    let finished = |item: Item<Q>| {
        let taken = (item.key().to_string(), item.priority());
        item.done();
        taken
    };
    std::iter::from_fn(|| queue.try_next()).map(finished).collect()
}

fn taken_keys<Q: Key + ToString>(queue: &WorkQueue<Q>) -> Vec<String> {
    taken(queue).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn co_012_add_update_and_delete_enqueue_the_key_of_the_object() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    for event in [add(pod("a", 1)), update(pod("a", 1), pod("a", 2)), deleted(pod("a", 3))] {
        handler.handle(event);
        assert_eq!(taken(&queue), [("ns/a".to_owned(), 0)]);
    }
}

#[test]
fn key_007_a_tombstone_enqueues_its_key() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    handler.handle(missed("a", None));
    handler.handle(missed("b", Some(pod("b", 1))));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), 0), ("ns/b".to_owned(), 0)]);
}

#[test]
fn mns_011_an_object_out_of_scope_enqueues_nothing() {
    let queue = Queue::new();
    let left = || Event::Delete(Deleted::OutOfScope { object: owned(1, &[("apps/v1", "ReplicaSet", "set", true)]) });
    enqueue_key(&queue).handle(left());
    enqueue_owner::<ReplicaSet>(&queue).handle(left());
    enqueue_with(&queue, |pod: &Obj<Pod>| [pod.key().clone()]).handle(left());
    assert!(taken(&queue).is_empty());
}

#[test]
fn the_observer_receives_each_key_with_its_object_and_event_class() {
    let (queue, observed) = (Queue::new(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let keys = |pod: &Obj<Pod>| ["x", "y"].map(|name| ObjectKey::namespaced(pod.key().name(), name));
    let mut handler = enqueue_with(&queue, keys).observing({
        let observed = Arc::clone(&observed);
        move |key, object, class| observed.lock().unwrap().push((key.to_string(), object.to_string(), class))
    });
    for (event, class) in [
        (initial(pod("a", 1)), EventClass::Initial),
        (add(pod("a", 1)), EventClass::Added),
        (update(pod("a", 1), pod("a", 2)), EventClass::Updated),
        (update(pod("a", 2), pod("a", 2)), EventClass::Unchanged),
        (deleted(pod("a", 3)), EventClass::Deleted),
        (missed("a", Some(pod("a", 3))), EventClass::Missed),
    ] {
        handler.handle(event);
        let [x, y] = ["a/x", "a/y"].map(|key| (key.to_owned(), "ns/a".to_owned(), class));
        assert_eq!(std::mem::take(&mut *observed.lock().unwrap()), [x, y]);
    }
}

#[test]
fn co_015_a_mapper_can_distinguish_a_tombstone_from_an_observed_delete() {
    let (seen, unseen) = (deleted(pod("a", 2)), missed("a", Some(pod("a", 1))));
    let is_missed = |event: &Event<Pod>| matches!(event, Event::Delete(Deleted::Missed { .. }));
    assert_eq!((is_missed(&seen), is_missed(&unseen)), (false, true));
    // Both map to the same key, because a tombstone contains the last known state.
    let queue = Queue::new();
    let mut handler = enqueue_with(&queue, |pod: &Obj<Pod>| [ObjectKey::namespaced("of", pod.key().name())]);
    handler.handle(seen);
    handler.handle(unseen);
    assert_eq!(taken_keys(&queue), ["of/a"]);
}

#[test]
fn co_012_the_controlling_owner_is_matched_by_group_and_kind_in_any_version() {
    let queue = Queue::new();
    let mut handler = enqueue_owner::<ReplicaSet>(&queue);
    handler.handle(add(owned(1, &[("apps/v1", "ReplicaSet", "set", true)])));
    assert_eq!(taken_keys(&queue), ["ns/set"]);
    handler.handle(add(owned(1, &[("apps/v1beta2", "ReplicaSet", "old-set", true)])));
    assert_eq!(taken_keys(&queue), ["ns/old-set"]);
    for other in [
        ("apps/v1", "Deployment", "set", true),
        ("extensions/v1beta1", "ReplicaSet", "set", true),
        ("v1", "ReplicaSet", "set", true),
        ("apps/v1", "ReplicaSet", "set", false),
        ("apps/v1", "ReplicaSet", "", true),
    ] {
        handler.handle(add(owned(1, &[other])));
        assert!(queue.is_empty(), "{other:?}");
    }
    handler.handle(add(pod("orphan", 1)));
    assert!(queue.is_empty());
}

#[test]
fn co_012_any_owner_enqueues_all_owners() {
    let queue = Queue::new();
    let owners = [
        ("apps/v1", "ReplicaSet", "a", false),
        ("apps/v1", "Deployment", "b", true),
        ("apps/v1", "ReplicaSet", "c", true),
        ("apps/v1", "ReplicaSet", "a", false),
    ];
    enqueue_owner::<ReplicaSet>(&queue).any_owner().handle(add(owned(1, &owners)));
    assert_eq!(taken_keys(&queue), ["ns/a", "ns/c"]);
}

#[test]
fn co_012_the_key_of_a_cluster_scoped_owner_has_no_namespace() {
    let queue = Queue::new();
    let mirror = owned(1, &[("v1", "Node", "node-1", true)]);
    enqueue_owner::<Node>(&queue).handle(add(mirror.clone()));
    assert_eq!(taken_keys(&queue), ["node-1"]);
    let node = ResourceInfo::of::<Node>();
    Enqueue::owner_of(&queue, &node).handle(deleted(mirror));
    assert_eq!(taken_keys(&queue), ["node-1"]);
}

#[test]
fn a_cluster_scoped_object_has_no_namespaced_owner() {
    let queue = Queue::new();
    let references = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true}]);
    let child = object(json!({"name": "child", "ownerReferences": references}));
    enqueue_owner::<Deployment>(&queue).handle(add(child));
    assert!(queue.is_empty());
}

#[test]
fn co_012_an_update_enqueues_the_old_and_the_new_owner_once() {
    let queue = Queue::new();
    let mut handler = enqueue_owner::<ReplicaSet>(&queue);
    let child = |version, owner| owned(version, &[("apps/v1", "ReplicaSet", owner, true)]);
    handler.handle(update(child(1, "a"), child(2, "b")));
    assert_eq!(taken_keys(&queue), ["ns/a", "ns/b"]);
    handler.handle(update(child(2, "b"), child(3, "b")));
    assert_eq!(taken_keys(&queue), ["ns/b"]);
    handler.handle(update(child(3, "b"), owned(4, &[])));
    assert_eq!(taken_keys(&queue), ["ns/b"], "the former owner is enqueued");
    handler.handle(deleted(child(5, "c")));
    handler.handle(missed("child", Some(child(5, "d"))));
    assert_eq!(taken_keys(&queue), ["ns/c", "ns/d"]);
}

#[test]
fn co_012_a_mapper_receives_the_old_and_the_new_state() {
    let queue = WorkQueue::<String>::new();
    let mut handler = enqueue_with(&queue, |pod: &Obj<Pod>| [format!("v{}", pod.resource_version()), "all".to_owned()]);
    handler.handle(add(pod("a", 1)));
    assert_eq!(taken_keys(&queue), ["v1", "all"]);
    handler.handle(update(pod("a", 1), pod("a", 2)));
    assert_eq!(taken_keys(&queue), ["v1", "all", "v2"]);
    handler.handle(deleted(pod("a", 3)));
    assert_eq!(taken_keys(&queue), ["v3", "all"]);
}

/// A ready order that counts how often a contained key is added.
struct Touches(VecDeque<Ticket>, Arc<AtomicUsize>);

impl ReadyOrder<String> for Touches {
    fn push(&mut self, _: &String, ticket: Ticket) {
        self.0.push_back(ticket);
    }

    fn touch(&mut self, _: &String) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.0.pop_front()
    }
}

#[test]
fn co_012_duplicate_keys_of_a_mapper_are_added_once() {
    let touches = Arc::new(AtomicUsize::new(0));
    let queue = WorkQueue::builder().ready_order(Touches(VecDeque::new(), touches.clone())).build();
    let mut handler = enqueue_with(&queue, |_: &Obj<Pod>| vec!["all".to_owned(); 1000]);
    handler.handle(update(pod("a", 1), pod("a", 2)));
    assert_eq!((queue.len(), touches.load(Ordering::Relaxed)), (1, 0));
    queue.add("all".to_owned());
    assert_eq!((queue.len(), touches.load(Ordering::Relaxed)), (1, 1), "a failure would be recorded");
}

#[test]
fn a_mapper_is_called_once_for_a_resync() {
    let queue = WorkQueue::<String>::new();
    let mut asked = 0;
    let mut handler = enqueue_with(&queue, move |_: &Obj<Pod>| {
        asked += 1;
        Some(asked.to_string())
    });
    handler.handle(update(pod("a", 1), pod("a", 1)));
    assert_eq!(taken_keys(&queue), ["1"]);
}

#[test]
fn co_012_a_tombstone_without_a_state_has_no_owner_and_no_mapped_keys() {
    let queue = Queue::new();
    enqueue_owner::<ReplicaSet>(&queue).handle(missed("a", None));
    enqueue_with(&queue, |pod: &Obj<Pod>| Some(pod.key().clone())).handle(missed("a", None));
    assert!(queue.is_empty());
}

#[test]
fn co_013_the_initial_list_and_resyncs_have_low_priority() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    let known = pod("resynced", 2);
    handler.handle(initial(pod("first", 1)));
    handler.handle(update(known.clone(), known));
    handler.handle(update(pod("relisted", 3), pod("relisted", 3)));
    let low = ["ns/first", "ns/resynced", "ns/relisted"].map(|key| (key.to_owned(), LOW_PRIORITY));
    assert_eq!(taken(&queue), low);
    handler.handle(add(pod("new", 4)));
    handler.handle(update(pod("changed", 4), pod("changed", 5)));
    handler.handle(deleted(pod("deleted", 6)));
    handler.handle(missed("missed", None));
    let live = ["ns/new", "ns/changed", "ns/deleted", "ns/missed"].map(|key| (key.to_owned(), 0));
    assert_eq!(taken(&queue), live);
}

#[test]
fn a_recreated_object_counts_as_changed_even_at_the_same_version() {
    let queue = Queue::new();
    let again = object(json!({"namespace": "ns", "name": "a", "uid": "another", "resourceVersion": "1"}));
    enqueue_key(&queue).handle(update(pod("a", 1), again));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), 0)]);
}

#[test]
fn co_013_owners_and_mapped_keys_have_the_priority_of_the_event() {
    let queue = Queue::new();
    let child = owned(1, &[("apps/v1", "ReplicaSet", "set", true)]);
    enqueue_owner::<ReplicaSet>(&queue).handle(initial(child.clone()));
    enqueue_with(&queue, |pod: &Obj<Pod>| Some(pod.key().clone())).handle(update(child.clone(), child));
    let low = ["ns/set", "ns/child"].map(|key| (key.to_owned(), LOW_PRIORITY));
    assert_eq!(taken(&queue), low);
}

#[test]
fn a_change_overtakes_the_initial_list() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    for name in ["a", "b", "c"] {
        handler.handle(initial(pod(name, 1)));
    }
    handler.handle(update(pod("c", 1), pod("c", 2)));
    assert_eq!(taken_keys(&queue), ["ns/c", "ns/a", "ns/b"]);
}

#[test]
fn priorities_can_be_set_and_disabled() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue).priority(7).background_priority(-1);
    handler.handle(initial(pod("a", 1)));
    handler.handle(add(pod("b", 2)));
    assert_eq!(taken(&queue), [("ns/b".to_owned(), 7), ("ns/a".to_owned(), -1)]);
    let mut handler = handler.without_priorities();
    handler.handle(initial(pod("a", 1)));
    handler.handle(add(pod("b", 2)));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), 0), ("ns/b".to_owned(), 0)]);
}

#[test]
fn hnd_003_each_handler_can_be_filtered() {
    let queue = Queue::new();
    let labelled = |version: u32, app: &str| {
        object(json!({"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"app": app}}))
    };
    let is_web = |pod: &Obj<Pod>| pod.label("app") == Some("web");
    let mut handler = Filter::new(is_web, enqueue_key(&queue));
    handler.handle(initial(labelled(1, "db")));
    handler.handle(update(labelled(1, "db"), labelled(2, "db")));
    assert!(queue.is_empty());
    handler.handle(initial(labelled(2, "web")));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), LOW_PRIORITY)], "the filter keeps the initial flag");
    handler.handle(update(labelled(2, "db"), labelled(3, "web")));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), 0)], "accepted by the filter after a change");
    handler.handle(update(labelled(3, "web"), labelled(4, "db")));
    assert_eq!(taken(&queue), [("ns/a".to_owned(), 0)], "and removed from it by one");
    let mut owners = Filter::new(is_web, enqueue_owner::<ReplicaSet>(&queue));
    owners.handle(add(owned(5, &[("apps/v1", "ReplicaSet", "set", true)])));
    assert!(queue.is_empty());
    let mut mapped = Filter::new(is_web, enqueue_with(&queue, |pod: &Obj<Pod>| Some(pod.key().clone())));
    mapped.handle(add(labelled(6, "web")));
    assert_eq!(taken_keys(&queue), ["ns/a"]);
}

#[test]
fn handler_names_contain_function_and_queue() {
    fn name(handler: &impl Handler<Pod>) -> String {
        handler.name().into_owned()
    }
    let queue = Queue::rate_limited("sets");
    assert_eq!(name(&enqueue_key(&queue)), "enqueue_key in sets");
    assert_eq!(name(&enqueue_owner::<ReplicaSet>(&queue)), "enqueue_owner ReplicaSet in sets");
    assert_eq!(name(&enqueue_key(&Queue::new())), "enqueue_key");
    let mapped = enqueue_with(&queue, |pod: &Obj<Pod>| Some(pod.key().clone()));
    assert_eq!(name(&mapped), "enqueue_with in sets");
    assert!(format!("{:?}", enqueue_key(&queue).with(HandlerOptions::new())).contains("sets"));
}

#[test]
fn a_queue_that_is_shut_down_accepts_no_keys() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    queue.shut_down();
    handler.handle(add(pod("a", 1)));
    assert!(queue.is_empty() && queue.next_blocking().is_none());
}

#[test]
fn one_handler_serves_every_kind() {
    let queue = Queue::new();
    let mut handler = enqueue_key(&queue);
    handler.handle(add(pod("a", 1)));
    handler.handle(add(pod("b", 1)).cast::<Untyped>());
    assert_eq!(taken_keys(&queue), ["ns/a", "ns/b"]);
}

#[test]
fn a_handler_does_not_keep_a_queue_alive() {
    let queue = WorkQueue::rate_limited("dropped");
    let weak = queue.downgrade();
    let mut handler = enqueue_key(&queue);
    handler.handle(add(pod("a", 1)));
    assert_eq!(taken_keys(&queue), ["ns/a"]);
    drop(queue);
    assert!(weak.upgrade().is_none());
    handler.handle(add(pod("b", 1)));
    assert_eq!(Handler::<Pod>::name(&handler), "enqueue_key in dropped");
}
