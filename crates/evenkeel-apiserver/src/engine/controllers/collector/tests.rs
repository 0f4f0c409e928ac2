use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::carry_out::Progress;
use super::queue::WorkQueue;
use super::*;
use crate::engine::Settings;
use crate::engine::object;
use crate::engine::options::{Propagation, WriteOptions};
use crate::engine::target::{Target, WriteScope, Writer};
use crate::env::Env;

const MAPS: &str = "configmaps";

/// A clock that stands still, and uids that count.
#[derive(Default)]
struct CountingEnv(std::sync::atomic::AtomicU64);

impl Env for CountingEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1 << 40, Ordering::Relaxed)
    }
}

fn engine() -> Arc<ApiEngine> {
    ApiEngine::new(Settings::default(), Arc::new(CountingEnv::default()))
}

/// Creates a ConfigMap in `default`. Returns its uid.
fn create(engine: &ApiEngine, name: &str, owners: Value) -> String {
    let registry = engine.registry();
    let resource = registry.lookup("", "v1", MAPS).unwrap();
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "ownerReferences": owners}});
    let options = WriteOptions::default();
    let (_, written) = engine.create_object(resource, Some("default"), map, Writer::server(&options)).unwrap();
    written.record.facts.uid.to_string()
}

/// Replaces the metadata of a ConfigMap.
fn change(engine: &ApiEngine, name: &str, edit: impl Fn(&mut Value)) {
    let registry = engine.registry();
    let resource = registry.lookup("", "v1", MAPS).unwrap();
    let target = Target { resource, namespace: Some("default"), name, scope: WriteScope::Main };
    let options = WriteOptions::default();
    let written = engine.update_object(target, Writer::server(&options), |old| {
        let mut new = old.clone();
        edit(&mut new);
        Ok(new)
    });
    written.unwrap();
}

fn reference(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

fn exists(engine: &ApiEngine, name: &str) -> bool {
    engine.store.get(MAPS, &format!("default/{name}")).is_some()
}

#[test]
fn gcx_010_a_decision_about_an_earlier_state_is_not_carried_out() {
    for adopted in [false, true] {
        let engine = engine();
        let solid = create(&engine, "solid", json!([]));
        create(&engine, "child", json!([reference("gone", "no-uid")]));
        let item = engine.next_item().unwrap();
        let delete = Decision::Delete { propagation: Propagation::Background, unblock_first: false };
        assert_eq!(item.decision, delete);
        change(&engine, "child", |new| {
            object::metadata_mut(new).insert("labels".into(), json!({"a": "b"}));
            if adopted {
                object::metadata_mut(new).insert("ownerReferences".into(), json!([reference("solid", &solid)]));
            }
        });
        let mut work = PendingWork::none(&engine);
        let progress = engine.act_on(&item, &mut work);
        assert_eq!(progress, Progress::Again);
        assert!(exists(&engine, "child"));
        engine.record_progress(&item.node.uid, progress);
        while engine.collect_step(&mut work) {}
        assert_eq!(exists(&engine, "child"), adopted);
    }
}

#[test]
fn gcx_010_another_object_of_the_same_name_is_left_alone() {
    let engine = engine();
    create(&engine, "child", json!([reference("gone", "no-uid")]));
    let item = engine.next_item().unwrap();
    let registry = engine.registry();
    let resource = registry.lookup("", "v1", MAPS).unwrap();
    let target = Target { resource, namespace: Some("default"), name: "child", scope: WriteScope::Main };
    engine.delete_object(target, &Default::default(), None).unwrap();
    create(&engine, "child", json!([]));
    let mut work = PendingWork::none(&engine);
    let progress = engine.act_on(&item, &mut work);
    engine.record_progress(&item.node.uid, progress);
    while engine.collect_step(&mut work) {}
    assert!(exists(&engine, "child"));
}

#[test]
fn work_that_fails_is_tried_again_later() {
    let engine = engine();
    create(&engine, "child", json!([reference("gone", "no-uid")]));
    let item = engine.next_item().unwrap();
    engine.record_progress(&item.node.uid, Progress::Failed);
    assert!(!engine.has_garbage());
    let mut graph = engine.owner_graph.lock().unwrap();
    assert_eq!(graph.queue.pop(FIRST_RETRY - Duration::from_millis(1)), None);
    assert_eq!(graph.queue.pop(FIRST_RETRY), Some(Arc::clone(&item.node.uid)));
    graph.node_mut(&item.node.uid).unwrap().failures = 60;
    drop(graph);
    engine.record_progress(&item.node.uid, Progress::Failed);
    let mut graph = engine.owner_graph.lock().unwrap();
    assert_eq!(graph.queue.pop(LAST_RETRY), Some(Arc::clone(&item.node.uid)));
}

#[test]
fn plain_objects_have_no_nodes() {
    let engine = engine();
    let uid = create(&engine, "plain", json!([]));
    let owned = create(&engine, "owned", json!([reference("plain", &uid)]));
    engine.follow_owners();
    let graph = engine.owner_graph.lock().unwrap();
    assert!(graph.node(&uid).is_none() && graph.node(&owned).is_some());
    assert!(graph.has_dependents(&uid));
    drop(graph);
    change(&engine, "owned", |new| drop(object::metadata_mut(new).remove("ownerReferences")));
    engine.follow_owners();
    let graph = engine.owner_graph.lock().unwrap();
    assert!(graph.node(&owned).is_none() && !graph.has_dependents(&uid));
}

#[test]
fn the_queue_keeps_the_earlier_time_and_the_order_of_arrival() {
    let mut queue = WorkQueue::default();
    let second = Duration::from_secs;
    for (uid, due) in [("a", 5), ("b", 1), ("c", 1), ("a", 9), ("b", 2)] {
        queue.push(&uid.into(), second(due));
    }
    assert_eq!(queue.pop(second(0)), None);
    assert_eq!(queue.pop(second(1)).as_deref(), Some("b"));
    queue.push(&"a".into(), second(0));
    assert_eq!(queue.pop(second(1)).as_deref(), Some("a"));
    queue.remove("c");
    assert!(!queue.has_due(second(100)));
}
