//! Properties of the queues: what leaves them, against what was pushed.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::testing::{Known, SharedStore, TestQueue, TestSink, version};
use super::{Delta, DeltaFifo, OrderedQueue};
use crate::compat::Fifo;
use crate::compat::{Consumer, Producer, channel};
use crate::ordered_queue::ListMode;
use crate::{Deleted, Object};

#[derive(Clone, Debug)]
enum Op {
    Put(u8),
    Delete(u8),
    List(Vec<u8>),
    Resync,
    Bookmark,
    Pop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..4u8).prop_map(Op::Put),
        5 => (0..4u8).prop_map(Op::Delete),
        2 => btree_set(0..4u8, 0..4).prop_map(|names| Op::List(names.into_iter().collect())),
        1 => Just(Op::Resync),
        1 => Just(Op::Bookmark),
        4 => prop_oneof![Just(1usize), Just(3), Just(1000)].prop_map(Op::Pop),
    ]
}

/// A model of the server: an object that is created again has a new uid.
#[derive(Default)]
struct Server {
    info: Option<Arc<ResourceInfo>>,
    objects: BTreeMap<u8, (u64, Object)>,
    clock: u64,
}

impl Server {
    fn put(&mut self, name: u8) -> (bool, Object) {
        self.clock += 1;
        let before = self.objects.get(&name).map(|(uid, _)| *uid);
        let uid = before.unwrap_or(self.clock);
        let info = self.info.get_or_insert_with(|| Arc::new(ResourceInfo::new("", "v1", "Thing", "things", false)));
        let metadata = format!(r#""name":"k{name}","uid":"{uid}","resourceVersion":"{}""#, self.clock);
        let object = Object::from_json(info, format!(r#"{{"metadata":{{{metadata}}}}}"#)).unwrap();
        self.objects.insert(name, (uid, object.clone()));
        (before.is_none(), object)
    }

    /// Returns the deleted object, or an unknown one.
    fn delete(&mut self, name: u8) -> Object {
        let gone = self.objects.remove(&name);
        gone.map_or_else(|| Server::default().put(name).1, |(_, object)| object)
    }

    fn list(&mut self, names: &[u8]) -> Vec<Object> {
        self.objects.retain(|name, _| names.contains(name));
        names.iter().map(|name| self.put(*name).1).collect()
    }

    fn texts(&self) -> Vec<String> {
        let at = |(_, object): &(u64, Object)| format!("{}@{}", object.key(), object.resource_version());
        self.objects.values().map(at).collect()
    }
}

/// Applies deltas, and checks that no object replaces another without a deletion between them.
fn apply(store: &mut Known, deltas: impl IntoIterator<Item = Delta>) {
    for delta in deltas {
        if let (false, Some(object)) = (delta.is_deleted(), delta.object()) {
            let before = store.0.get(object.key());
            assert!(before.is_none_or(|before| before.uid() == object.uid()), "{object:?} without a deletion");
        }
        store.apply(delta);
    }
}

/// Applies deltas to a shared store, and checks that no object replaces another without a deletion between them.
fn apply_shared(store: &SharedStore, deltas: impl IntoIterator<Item = Delta>) {
    for delta in deltas {
        if let (false, Some(object)) = (delta.is_deleted(), delta.object()) {
            let before = store.0.get(object.key());
            assert!(before.is_none_or(|before| before.uid() == object.uid()), "{object:?} without a deletion");
        }
        store.apply([delta]);
    }
}

fn push(op: &Op, server: &mut Server, queue: &mut impl TestQueue, store: &Known) {
    match op {
        Op::Put(name) => match server.put(*name) {
            (true, object) => queue.add(object),
            (false, object) => queue.update(object),
        },
        Op::Delete(name) => queue.delete(server.delete(*name).into(), store),
        Op::List(names) => {
            let list = server.list(names);
            queue.replace(list, version("1"), store);
        }
        Op::Resync => queue.resync(store),
        Op::Bookmark => queue.bookmark(version("1")),
        Op::Pop(_) => {}
    }
}

/// Returns the final store, and the state of the server.
fn run(mut queue: impl TestQueue, ops: &[Op]) -> (Vec<String>, Vec<String>) {
    let (mut server, mut store) = (Server::default(), Known::default());
    let mut synced = false;
    for op in ops.iter().chain([&Op::Pop(1000)]) {
        push(op, &mut server, &mut queue, &store);
        if let Op::Pop(limit) = op {
            while let Some(batch) = queue.pop(*limit) {
                apply(&mut store, batch.deltas);
                queue.processed(batch.count);
                if *limit < 1000 {
                    break;
                }
            }
        }
        assert!(queue.has_synced() || !synced, "synced no more");
        synced = queue.has_synced();
    }
    assert!(queue.is_empty());
    assert!(synced || !ops.iter().any(|op| matches!(op, Op::Put(_) | Op::Delete(_) | Op::List(_))));
    (store.texts(), server.texts())
}

fn write(op: &Op, server: &mut Server, producer: &mut Producer) {
    match op {
        Op::Put(name) => match server.put(*name) {
            (true, object) => producer.add(object).unwrap(),
            (false, object) => producer.update(object).unwrap(),
        },
        Op::Delete(name) => producer.delete(server.delete(*name)).unwrap(),
        Op::List(names) => producer.replace(server.list(names), version("1")).unwrap(),
        Op::Resync => producer.resync().unwrap(),
        Op::Bookmark => producer.bookmark(&version("1")).unwrap(),
        Op::Pop(_) => {}
    }
}

/// Writes while a batch is being processed, which reaches the store only afterwards.
fn run_channel(
    store: &SharedStore,
    (mut producer, mut consumer): (Producer, Consumer),
    rounds: &[Vec<Op>],
) -> (Vec<String>, Vec<String>) {
    let mut server = Server::default();
    for ops in rounds {
        let popped = consumer.try_pop();
        ops.iter().for_each(|op| write(op, &mut server, &mut producer));
        if let Some(mut popped) = popped {
            apply_shared(store, popped.drain());
        }
    }
    while let Some(mut popped) = consumer.try_pop() {
        apply_shared(store, popped.drain());
    }
    (store.texts(), server.texts())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_store_behind_a_delta_fifo_ends_as_the_server(ops in vec(op(), 0..200)) {
        let (store, server) = run(DeltaFifo::new(), &ops);
        prop_assert_eq!(store, server);
    }

    #[test]
    fn the_store_behind_a_delta_fifo_that_lags_ends_as_the_server(
        ops in vec(op().prop_filter("no pop", |op| !matches!(op, Op::Pop(_))), 200..600),
    ) {
        let (store, server) = run(DeltaFifo::new(), &ops);
        prop_assert_eq!(store, server);
    }

    #[test]
    fn the_store_behind_an_atomic_queue_ends_as_the_server(ops in vec(op(), 0..200)) {
        let (store, server) = run(OrderedQueue::new(ListMode::Atomic), &ops);
        prop_assert_eq!(store, server);
    }

    #[test]
    fn the_store_behind_a_per_item_queue_ends_as_the_server(ops in vec(op(), 0..200)) {
        let (store, server) = run(OrderedQueue::new(ListMode::PerItem), &ops);
        prop_assert_eq!(store, server);
    }

    #[test]
    fn writes_while_a_batch_is_processed_keep_the_final_state(rounds in vec(vec(op(), 0..8), 0..40)) {
        let store = SharedStore::of(&[]);
        let (seen, server) = run_channel(&store, channel("a", DeltaFifo::new(), store.0.indexer()), &rounds);
        prop_assert_eq!(seen, server);
        for mode in [ListMode::Atomic, ListMode::PerItem] {
            let store = SharedStore::of(&[]);
            let (seen, server) = run_channel(&store, channel("a", OrderedQueue::new(mode), store.0.indexer()), &rounds);
            prop_assert_eq!(seen, server);
        }
    }

    #[test]
    fn every_event_leaves_an_ordered_queue_in_order(ops in vec(op(), 0..200)) {
        let (mut server, mut queue) = (Server::default(), OrderedQueue::new(ListMode::Atomic));
        let (mut pushed, mut popped) = (Vec::new(), Vec::new());
        let record = |delta: &Delta| (delta.is_deleted(), delta.object().map(|object| object.resource_version().to_owned()));
        for op in ops.iter().chain([&Op::Pop(1000), &Op::Pop(usize::MAX)]) {
            match op {
                Op::Put(name) => {
                    let (_, object) = server.put(*name);
                    pushed.push((false, Some(object.resource_version().to_owned())));
                    queue.update(object);
                }
                Op::Delete(name) => {
                    let object = server.delete(*name);
                    pushed.push((true, Some(object.resource_version().to_owned())));
                    queue.delete(Deleted::Observed(object), &Known::default());
                }
                Op::Pop(limit) => while let Some(batch) = queue.pop(*limit) {
                    let mut keys: Vec<_> = batch.deltas.iter().filter_map(Delta::key).collect();
                    keys.sort();
                    keys.dedup();
                    prop_assert_eq!(keys.len(), batch.deltas.len());
                    prop_assert!(batch.deltas.len() <= *limit);
                    popped.extend(batch.deltas.iter().map(record));
                },
                Op::List(_) | Op::Resync | Op::Bookmark => {}
            }
        }
        prop_assert_eq!(pushed, popped);
    }

    #[test]
    fn a_fifo_pops_the_last_state_of_present_objects(ops in vec(op(), 0..200)) {
        let (mut server, mut queue) = (Server::default(), Fifo::new());
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for op in ops.iter().chain([&Op::Pop(1000)]) {
            push(op, &mut server, &mut queue, &Known::default());
            if let Op::Pop(limit) = op {
                let before = queue.len();
                while let Some(batch) = queue.pop(*limit) {
                    for object in batch.deltas.iter().filter_map(Delta::object) {
                        seen.insert(object.key().to_string(), object.resource_version().to_owned());
                    }
                    queue.processed(batch.count);
                }
                prop_assert!(queue.is_empty() && before <= 4);
            }
        }
        for (_, object) in server.objects.values() {
            prop_assert_eq!(seen.get(object.key().as_str()).map(String::as_str), Some(object.resource_version()));
        }
        let heard = |op: &Op| matches!(op, Op::Put(_) | Op::Delete(_) | Op::List(_));
        prop_assert_eq!(queue.has_synced(), ops.iter().any(heard));
    }
}
