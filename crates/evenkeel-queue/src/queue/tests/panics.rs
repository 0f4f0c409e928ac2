//! User code that panics or misbehaves: no key is stuck, and other users of the queue are unaffected.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use metrics::{Counter, Gauge, Histogram, HistogramFn, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;
use crate::limiter::RateLimiter;

fn panics<T>(code: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(code)).is_err()
}

/// A limiter that always panics.
struct Bad;

impl<K> RateLimiter<K> for Bad {
    fn when(&self, _: &K, _: u32, _: Instant) -> Duration {
        panic!("limiter")
    }
}

#[test]
fn a_limiter_panic_reaches_the_worker_and_the_key_is_retried() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().limiter(Bad).clock(clock.clone()).build();
    queue.add("a");
    let item = queue.try_next().unwrap();
    assert!(panics(|| item.retry("broken")));
    assert_eq!((queue.stats().in_flight, queue.stats().delayed, queue.failures(&"a")), (0, 1, 1));
    clock.step(ms(5));
    assert_eq!(take(&queue), "a");
    assert!(panics(|| queue.add_rate_limited("b")));
    assert_eq!((queue.stats().delayed, queue.failures(&"b")), (1, 1));
}

#[test]
fn a_limiter_that_panics_does_not_end_the_program_when_the_worker_panics() {
    let queue = WorkQueue::builder().limiter(Bad).build();
    queue.add("a");
    let item = queue.try_next().unwrap();
    assert!(panics(|| {
        let _item = item;
        panic!("worker");
    }));
    assert_eq!((queue.stats().in_flight, queue.stats().delayed), (0, 1));
}

#[test]
fn a_panic_of_the_limiter_is_contained_when_an_item_is_dropped() {
    let queue = WorkQueue::builder().limiter(Bad).build();
    queue.add("a");
    drop(queue.try_next());
    assert_eq!((queue.stats().in_flight, queue.stats().delayed), (0, 1));
}

/// A key whose clone can panic.
#[derive(Debug)]
struct Brittle(u32, Arc<AtomicBool>);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        assert!(!self.1.load(Ordering::SeqCst), "clone");
        Brittle(self.0, self.1.clone())
    }
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Brittle {}

impl Hash for Brittle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn a_clone_that_panics_leaves_no_key_stuck() {
    let (queue, breaks) = (WorkQueue::new(), Arc::new(AtomicBool::new(true)));
    queue.add(Brittle(1, breaks.clone()));
    assert!(panics(|| queue.try_next()));
    breaks.store(false, Ordering::SeqCst);
    queue.add(Brittle(1, breaks));
    queue.try_next().unwrap().forget();
    assert_eq!(queue.stats(), crate::QueueStats { adds: 2, ..Default::default() });
}

#[test]
fn a_tenant_function_that_panics_leaves_no_key_stuck() {
    let breaks = Arc::new(AtomicBool::new(true));
    let broken = breaks.clone();
    let queue = WorkQueue::builder()
        .fair_by(move |key: &&str| {
            assert!(!broken.load(Ordering::SeqCst), "tenant");
            key
        })
        .build();
    assert!(panics(|| queue.add("a")));
    assert!(panics(|| queue.add_rate_limited("a")));
    breaks.store(false, Ordering::SeqCst);
    queue.add("a");
    assert_eq!(take(&queue), "a");
    assert_eq!(queue.stats().failing, 0);
}

#[test]
fn a_tenant_function_panic_reaches_the_caller_of_add() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).fair_by(|key: &&str| key.split('/').nth(1).unwrap()).build();
    queue.add("good/key");
    assert!(panics(|| queue.add_after("bad", secs(1))));
    clock.step(secs(2));
    assert_eq!(take_all(&queue), ["good/key"]);
}

/// First in, first out, with a panic on request.
#[derive(Default)]
struct Shaky {
    tickets: VecDeque<Ticket>,
    push_panics: Arc<AtomicBool>,
    pop_panics: Arc<AtomicBool>,
    /// Counts the calls that find nothing.
    empty: Option<mpsc::Sender<()>>,
}

impl ReadyOrder<&'static str> for Shaky {
    fn push(&mut self, _: &&'static str, ticket: Ticket) {
        assert!(!self.push_panics.load(Ordering::SeqCst), "push");
        self.tickets.push_back(ticket);
    }

    fn pop(&mut self) -> Option<Ticket> {
        assert!(!self.pop_panics.load(Ordering::SeqCst), "pop");
        let ticket = self.tickets.pop_front();
        if let (None, Some(empty)) = (ticket, &self.empty) {
            empty.send(()).unwrap();
        }
        ticket
    }
}

#[test]
fn a_ready_order_that_panics_leaves_no_key_stuck() {
    let storage = Shaky::default();
    let breaks = storage.push_panics.clone();
    let queue = WorkQueue::builder().ready_order(storage).build();
    breaks.store(true, Ordering::SeqCst);
    assert!(panics(|| queue.add("a")));
    breaks.store(false, Ordering::SeqCst);
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("a");
    breaks.store(true, Ordering::SeqCst);
    assert!(panics(|| item.forget()));
    assert_eq!((queue.stats().in_flight, queue.stats().depth), (0, 0));
    breaks.store(false, Ordering::SeqCst);
    queue.add("a");
    assert_eq!(take(&queue), "a");
}

#[test]
fn a_drain_returns_though_a_ready_order_panics_at_the_end() {
    let storage = Shaky::default();
    let breaks = storage.push_panics.clone();
    let queue = WorkQueue::builder().ready_order(storage).build();
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("a");
    let (woken, waker) = Woken::new();
    let mut drained = queue.drain(DrainDelayed::Discard).into_future();
    assert!(poll_with(&mut drained, &waker).is_pending());
    breaks.store(true, Ordering::SeqCst);
    assert!(panics(|| item.forget()));
    assert_eq!(woken.times(), 1);
    assert!(poll_with(&mut drained, &waker).is_ready());
}

#[test]
fn a_thread_that_panics_while_waiting_loses_no_wake_up() {
    let (empty, is_empty) = mpsc::channel();
    let storage = Shaky { empty: Some(empty), ..Shaky::default() };
    let breaks = storage.pop_panics.clone();
    let queue = WorkQueue::builder().ready_order(storage).build();
    let waiting = queue.clone();
    let thread = std::thread::spawn(move || drop(waiting.next_blocking()));
    is_empty.recv().unwrap();
    breaks.store(true, Ordering::SeqCst);
    queue.add("a");
    assert!(thread.join().is_err());
    breaks.store(false, Ordering::SeqCst);
    assert_eq!(take(&queue), "a");
    let (woken, waker) = Woken::new();
    let mut next = queue.next();
    assert!(poll_with(&mut next, &waker).is_pending());
    queue.add("b");
    assert_eq!(woken.times(), 1);
}

/// A waker that panics.
struct Loud;

impl Wake for Loud {
    fn wake(self: Arc<Self>) {
        panic!("waker");
    }
}

#[test]
fn a_panicking_waker_does_not_prevent_other_wake_ups() {
    let queue = WorkQueue::<&str>::new();
    let (woken, waker) = Woken::new();
    let (mut first, mut second, mut third) = (queue.next(), queue.next(), queue.next());
    assert!(poll_with(&mut first, &Waker::from(Arc::new(Loud))).is_pending());
    assert!(poll_with(&mut second, &waker).is_pending());
    assert!(poll_with(&mut third, &waker).is_pending());
    queue.shut_down();
    assert_eq!(woken.times(), 2);
}

/// A key that reads the queue in its drop.
#[derive(Clone, Debug)]
struct Curious(u32, WorkQueue<u32>, Arc<Mutex<Option<WorkQueue<Curious>>>>);

impl PartialEq for Curious {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Curious {}

impl Hash for Curious {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        let queue = self.2.lock().unwrap().clone();
        if let Some(queue) = queue {
            self.1.add(queue.len() as u32);
        }
    }
}

#[test]
fn a_key_may_read_the_queue_in_its_drop() {
    let (queue, seen) = (WorkQueue::new(), WorkQueue::new());
    let link = Arc::new(Mutex::new(Some(queue.clone())));
    let key = |number| Curious(number, seen.clone(), link.clone());
    queue.add(key(1));
    queue.add(key(1));
    queue.add_after(key(1), secs(1));
    queue.add_rate_limited(key(2));
    queue.forget(&key(2));
    queue.add_all([key(1), key(1)], crate::AddOptions::new());
    queue.try_next().unwrap().forget();
    assert!(!seen.is_empty());
    link.lock().unwrap().take();
}

/// A recorder whose histograms panic.
struct Faulty;

impl HistogramFn for Faulty {
    fn record(&self, _: f64) {
        panic!("recorder");
    }
}

impl Recorder for Faulty {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &metrics::Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &metrics::Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Faulty))
    }
}

#[test]
fn a_recorder_that_panics_leaves_no_key_stuck() {
    metrics::with_local_recorder(&Faulty, || {
        let queue = WorkQueue::rate_limited("a");
        queue.add("a");
        assert!(panics(|| queue.try_next()));
        assert_eq!((queue.stats().in_flight, queue.stats().delayed), (0, 1), "it counts as a failure");
    });
}
