//! Calls that are left for the next holder of the lock: no caller can observe the difference.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use super::*;

#[test]
fn wq_006_deferred_adds_merge_and_keep_their_order() {
    for many in [1, 31, 32, 33, 255, 256, 257, 2_000] {
        let queue = WorkQueue::new();
        for round in 0..2 {
            (0..many).for_each(|key| queue.add(key));
            (0..many).rev().for_each(|key| queue.add(key));
            assert_eq!((queue.len(), queue.stats().adds), (many, (round + 1) * many as u64));
            assert_eq!(take_all(&queue), Vec::from_iter(0..many), "{many} keys");
        }
    }
}

#[test]
fn deferred_adds_are_visible_to_every_call() {
    let queue = WorkQueue::new();
    // The inbox opens with the first call.
    assert!(queue.is_empty());
    queue.add("a");
    assert_eq!((queue.len(), queue.is_empty()), (1, false));
    queue.add("b");
    assert_eq!((queue.stats().ready, queue.stats().adds), (2, 2));
    queue.add("c");
    let item = queue.try_next().unwrap();
    queue.add("a");
    assert_eq!((*item.key(), queue.stats().depth, queue.len()), ("a", 3, 2));
    item.done();
    queue.add("d");
    queue.shut_down();
    queue.add("e");
    assert_eq!(take_all(&queue), ["b", "c", "a", "d"]);
}

#[test]
fn a_deferred_add_wakes_a_worker_that_waits_later() {
    let queue = WorkQueue::new();
    assert!(queue.is_empty());
    queue.add("a");
    let (woken, waker) = Woken::new();
    let mut next = queue.next();
    assert_eq!(ready(poll_with(&mut next, &waker)), "a");
    let mut next = queue.next();
    assert!(poll_with(&mut next, &waker).is_pending());
    queue.add("b");
    assert_eq!(woken.times(), 1);
    queue.add("c");
    assert_eq!(woken.times(), 1, "it is awake");
    assert_eq!(ready(poll_with(&mut next, &waker)), "b");
    assert_eq!(take_all(&queue), ["c"]);
}

/// Finishes the item that a future has returned, and returns its key.
fn ready<K: Key>(polled: Poll<Option<Item<K>>>) -> K {
    match polled {
        Poll::Ready(Some(item)) => done(item),
        _ => panic!("no key is ready"),
    }
}

#[test]
fn a_bounded_number_of_adds_is_deferred() {
    let (queue, key) = (WorkQueue::new(), Arc::new(1));
    for _ in 0..10_000 {
        queue.add(key.clone());
        assert!(Arc::strong_count(&key) <= 300, "{}", Arc::strong_count(&key));
    }
    assert_eq!((queue.len(), Arc::strong_count(&key)), (1, 2));
}

/// A key whose clone waits, and which can panic when it is compared.
#[derive(Clone)]
struct Gate {
    enters: mpsc::Sender<()>,
    leaves: Arc<Mutex<mpsc::Receiver<()>>>,
}

struct Slow {
    number: u32,
    gate: Option<Gate>,
    breaks: Option<Arc<AtomicBool>>,
}

impl Slow {
    fn plain(number: u32) -> Self {
        Slow { number, gate: None, breaks: None }
    }
}

impl Clone for Slow {
    fn clone(&self) -> Self {
        if let Some(gate) = &self.gate {
            gate.enters.send(()).unwrap();
            gate.leaves.lock().unwrap().recv().unwrap();
        }
        Slow { number: self.number, gate: None, breaks: self.breaks.clone() }
    }
}

impl PartialEq for Slow {
    fn eq(&self, other: &Self) -> bool {
        let breaks = self.breaks.iter().chain(&other.breaks).any(|breaks| breaks.load(Ordering::SeqCst));
        assert!(!breaks, "comparison");
        self.number == other.number
    }
}

impl Eq for Slow {}

impl Hash for Slow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}

#[test]
fn adds_and_verdicts_do_not_wait_for_a_hand_out() {
    let queue = WorkQueue::new();
    let ((enters, entered), (leave, leaves)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate { enters, leaves: Arc::new(Mutex::new(leaves)) };
    [1, 2, 3].into_iter().for_each(|number| queue.add(Slow::plain(number)));
    let (first, second, third) = (queue.try_next().unwrap(), queue.try_next().unwrap(), queue.try_next().unwrap());
    queue.add(Slow { gate: Some(gate), ..Slow::plain(4) });
    let taker = std::thread::spawn({
        let queue = queue.clone();
        move || queue.try_next().map(|item| done(item).number)
    });
    entered.recv().unwrap();
    // The other thread has the lock.
    queue.add(Slow::plain(2));
    first.done();
    second.forget();
    queue.add(Slow::plain(1));
    queue.add(Slow::plain(3));
    leave.send(()).unwrap();
    assert_eq!(taker.join().unwrap(), Some(4));
    third.done();
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.depth, stats.in_flight, stats.adds), (3, 3, 0, 7));
    assert_eq!(take_all(&queue).iter().map(|key| key.number).collect::<Vec<_>>(), [2, 1, 3]);
}

#[test]
fn a_deferred_add_whose_comparison_panics_loses_only_itself() {
    let (queue, breaks) = (WorkQueue::new(), Arc::new(AtomicBool::new(false)));
    let brittle = || Slow { breaks: Some(breaks.clone()), ..Slow::plain(1) };
    queue.add(brittle());
    assert_eq!(queue.len(), 1);
    queue.add(Slow::plain(2));
    queue.add(brittle());
    queue.add(Slow::plain(3));
    breaks.store(true, Ordering::SeqCst);
    assert_eq!(queue.len(), 3, "the caller of another method is not affected");
    // Without the inbox, the caller of `add` is.
    let mut next = queue.next();
    let items: Vec<_> = (0..3).map(|_| queue.try_next().unwrap()).collect();
    assert!(poll(&mut next).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.add(brittle()))).is_err());
    breaks.store(false, Ordering::SeqCst);
    items.into_iter().for_each(Item::done);
    queue.add(brittle());
    assert_eq!(ready(poll(&mut next)).number, 1);
}

#[tokio::test(start_paused = true)]
async fn adds_are_not_deferred_while_keys_are_delayed() {
    let queue = WorkQueue::new();
    queue.add_after("late", ms(10));
    queue.add("a");
    step(ms(10)).await;
    queue.add("b");
    assert_eq!(take_all(&queue), ["a", "late", "b"], "a key that is due precedes a later add");
}
