use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Tasks = Heap<&'static str, (&'static str, i32)>;

fn heap() -> Tasks {
    Heap::new(|task: &(&str, i32)| task.0, |a, b| a.1 < b.1)
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn drain(heap: &Tasks) -> Vec<(&'static str, i32)> {
    std::iter::from_fn(|| heap.try_pop()).collect()
}

#[test]
fn hep_001_the_least_value_is_popped_first() {
    let heap = heap();
    heap.add_all([("c", 11), ("a", 10), ("d", 1), ("b", 30)]).unwrap();
    assert_eq!(drain(&heap), [("d", 1), ("a", 10), ("c", 11), ("b", 30)]);
}

#[test]
fn hep_001_a_known_key_is_replaced_and_reordered() {
    let heap = heap();
    heap.add_all([("a", 10), ("b", 20), ("c", 30)]).unwrap();
    heap.add(("a", 25)).unwrap();
    heap.add(("c", 5)).unwrap();
    assert_eq!(heap.len(), 3);
    assert_eq!(drain(&heap), [("c", 5), ("b", 20), ("a", 25)]);
}

#[tokio::test(start_paused = true)]
async fn hep_001_a_pop_waits_while_the_heap_is_empty() {
    let heap = Arc::new(heap());
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let heap = Arc::clone(&heap);
            tokio::spawn(async move { heap.pop().await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    heap.add_all([("a", 2), ("b", 1)]).unwrap();
    let mut popped = Vec::new();
    for reader in readers {
        popped.push(reader.await.unwrap().unwrap().0);
    }
    popped.sort_unstable();
    assert_eq!(popped, ["a", "b"]);
}

#[test]
fn hep_001_no_waiter_sleeps_while_a_value_exists() {
    // Two values are added with one wake-up; the woken waiter wakes the other.
    let heap = heap();
    let (mut one, mut two) = (pin!(heap.pop()), pin!(heap.pop()));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    heap.add_all([("a", 1), ("b", 2)]).unwrap();
    assert_eq!(poll(one), Poll::Ready(Some(("a", 1))));
    assert_eq!(poll(two), Poll::Ready(Some(("b", 2))));
}

#[test]
fn hep_002_add_if_absent_keeps_the_present_value() {
    let heap = heap();
    heap.add_if_absent(("a", 10)).unwrap();
    heap.add_if_absent(("a", 1)).unwrap();
    heap.add_if_absent(("b", 5)).unwrap();
    assert_eq!(drain(&heap), [("b", 5), ("a", 10)]);
}

#[test]
fn hep_002_add_all_is_atomic() {
    let heap = heap();
    let mut waiting = pin!(heap.pop());
    assert!(poll(waiting.as_mut()).is_pending());
    heap.add_all([("a", 3), ("b", 2), ("c", 1)]).unwrap();
    assert_eq!(poll(waiting), Poll::Ready(Some(("c", 1))));
}

#[test]
fn hep_003_removal_is_by_key() {
    let heap = heap();
    heap.add_all([("a", 1), ("b", 2), ("c", 3), ("d", 4)]).unwrap();
    assert_eq!(heap.remove(&"b"), Some(("b", 2)));
    assert_eq!(heap.remove(&"b"), None);
    assert_eq!(heap.remove(&"x"), None);
    assert_eq!(drain(&heap), [("a", 1), ("c", 3), ("d", 4)]);
}

#[test]
fn hep_004_a_closed_heap_rejects_adds_and_can_be_emptied() {
    let heap = heap();
    heap.add_all([("a", 1), ("b", 2), ("c", 3)]).unwrap();
    heap.close();
    assert!(heap.is_closed());
    assert_eq!(heap.add(("d", 4)), Err(HeapClosed));
    assert_eq!(heap.add_if_absent(("d", 4)), Err(HeapClosed));
    assert_eq!(heap.add_all([("a", 4)]), Err(HeapClosed));
    assert_eq!(HeapClosed.to_string(), "heap is closed");
    assert_eq!((heap.get(&"c"), heap.len()), (Some(("c", 3)), 3));
    assert_eq!(heap.remove(&"b"), Some(("b", 2)));
    assert_eq!(poll(pin!(heap.pop())), Poll::Ready(Some(("a", 1))));
    assert_eq!(poll(pin!(heap.pop())), Poll::Ready(Some(("c", 3))));
    assert_eq!(poll(pin!(heap.pop())), Poll::Ready(None));
}

#[test]
fn hep_004_closing_wakes_all_waiters() {
    let heap = heap();
    let (mut one, mut two) = (pin!(heap.pop()), pin!(heap.pop()));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    heap.close();
    assert_eq!(poll(one), Poll::Ready(None));
    assert_eq!(poll(two), Poll::Ready(None));
}

#[test]
fn hep_005_reads_do_not_change_the_heap() {
    let heap = heap();
    heap.add_all([("a", 1), ("b", 2)]).unwrap();
    assert_eq!(heap.get(&"b"), Some(("b", 2)));
    assert_eq!(heap.get(&"x"), None);
    let (mut list, mut keys) = (heap.list(), heap.keys());
    list.sort_unstable();
    keys.sort_unstable();
    assert_eq!((list, keys), (vec![("a", 1), ("b", 2)], vec!["a", "b"]));
    assert_eq!(heap.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_heap_matches_a_sorted_map(ops in vec((0..3u8, 0..12u8, any::<u8>()), 0..200)) {
        let heap = Heap::new(|entry: &(u8, u8)| entry.0, |a, b| a.1 < b.1);
        let mut model: BTreeMap<u8, u8> = BTreeMap::new();
        for (op, key, value) in ops {
            match op {
                0 => {
                    heap.add((key, value)).unwrap();
                    model.insert(key, value);
                }
                1 => prop_assert_eq!(heap.remove(&key).map(|entry| entry.1), model.remove(&key)),
                _ => {
                    let popped = heap.try_pop();
                    prop_assert_eq!(popped.map(|entry| entry.1), model.values().min().copied());
                    if let Some((key, value)) = popped {
                        prop_assert_eq!(model.remove(&key), Some(value));
                    }
                }
            }
            prop_assert_eq!(heap.len(), model.len());
            for (key, value) in &model {
                prop_assert_eq!(heap.get(key), Some((*key, *value)));
            }
        }
    }
}
