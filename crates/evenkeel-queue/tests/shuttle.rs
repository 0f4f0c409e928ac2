//! The queue under many thread schedules: run with `RUSTFLAGS="--cfg shuttle"`.
//!
//! A lost wake-up leaves no runnable thread, which shuttle reports as a deadlock with its schedule.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is a finding")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use evenkeel_queue::limiter::Exponential;
use evenkeel_queue::{
    AddOptions, Clock, DrainDelayed, DrainError, Item, KeyEvent, Observer, Sleep, SuspendedAdds, TokioClock, WorkQueue,
};
use shuttle::rand::Rng;
use shuttle::sync::{Arc, Barrier, Mutex, mpsc};
use shuttle::{future, rand, thread};

/// Number of schedules of each kind.
const ORDERS: usize = 2_000;

/// Runs a scenario under many schedules: random ones, and ones with few context switches at unlikely points.
fn try_out(scenario: fn()) {
    shuttle::check_random(scenario, ORDERS);
    shuttle::check_pct(scenario, ORDERS, 3);
}

/// Operations on the queue and their results.
#[derive(Clone, Default)]
struct History(Arc<Mutex<HistoryState>>);

#[derive(Default)]
struct HistoryState {
    /// How often each key was added.
    added: BTreeMap<u32, u32>,
    /// How often it had been added at its last hand-out.
    seen: BTreeMap<u32, u32>,
    in_hand: BTreeSet<u32>,
    runs: Vec<u32>,
}

impl History {
    fn add(&self, key: u32, add: impl FnOnce(u32)) {
        *self.0.lock().unwrap().added.entry(key).or_default() += 1;
        add(key);
    }

    /// Processes a key; `finish` ends its item.
    fn work(&self, item: Item<u32>, finish: impl FnOnce(Item<u32>)) -> usize {
        self.take(&item);
        thread::yield_now();
        self.put_back(item, finish)
    }

    fn take(&self, item: &Item<u32>) {
        let mut state = self.0.lock().unwrap();
        assert!(state.in_hand.insert(*item.key()), "two workers have {}", item.key());
        let added = state.added.get(item.key()).copied().unwrap_or_default();
        state.seen.insert(*item.key(), added);
        state.runs.push(*item.key());
    }

    /// Returns the number of runs.
    fn put_back(&self, item: Item<u32>, finish: impl FnOnce(Item<u32>)) -> usize {
        let runs = {
            let mut state = self.0.lock().unwrap();
            assert!(state.in_hand.remove(item.key()));
            state.runs.len()
        };
        finish(item);
        runs
    }

    fn runs_of(&self, key: u32) -> usize {
        self.0.lock().unwrap().runs.iter().filter(|run| **run == key).count()
    }

    /// Asserts that every key was handed out after its last add.
    fn close(&self, queue: &WorkQueue<u32>) {
        let state = self.0.lock().unwrap();
        assert_eq!(state.seen, state.added, "a key was lost");
        assert!(state.in_hand.is_empty());
        let stats = queue.stats();
        assert_eq!((stats.depth, stats.in_flight, stats.delayed), (0, 0, 0));
    }
}

/// A manual clock.
#[derive(Clone)]
struct ManualClock(Arc<Mutex<ClockState>>);

struct ClockState {
    now: Instant,
    sleepers: Vec<(Instant, Waker)>,
}

impl ManualClock {
    fn new() -> Self {
        ManualClock(Arc::new(Mutex::new(ClockState { now: TokioClock.now(), sleepers: Vec::new() })))
    }

    fn pass(&self, time: Duration) {
        let due: Vec<_> = {
            let mut state = self.0.lock().unwrap();
            state.now += time;
            let now = state.now;
            state.sleepers.extract_if(.., |(time, _)| *time <= now).collect()
        };
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(poll_fn(move |context| {
            let mut state = clock.0.lock().unwrap();
            if state.now >= time {
                return Poll::Ready(());
            }
            state.sleepers.push((time, context.waker().clone()));
            Poll::Pending
        }))
    }
}

const TICK: Duration = Duration::from_millis(1);

fn timed_queue(clock: &ManualClock) -> WorkQueue<u32> {
    let limiter = Exponential::new(TICK, 4 * TICK);
    WorkQueue::builder().clock(clock.clone()).limiter(limiter).build()
}

/// Polls for a key and drops the future at some point, even if a key is ready. `None` if it was dropped.
async fn next_if_soon(queue: &WorkQueue<u32>) -> Option<Option<Item<u32>>> {
    let mut next = pin!(queue.next());
    let mut patience = rand::thread_rng().gen_range(0..4);
    poll_fn(move |context| {
        if patience == 0 {
            return Poll::Ready(None);
        }
        patience -= 1;
        context.waker().wake_by_ref();
        next.as_mut().poll(context).map(Some)
    })
    .await
}

fn blocking_worker(queue: &WorkQueue<u32>, history: &History) -> thread::JoinHandle<()> {
    let (queue, history) = (queue.clone(), history.clone());
    thread::spawn(move || {
        while let Some(item) = queue.next_blocking() {
            history.work(item, Item::done);
        }
    })
}

fn worker(queue: &WorkQueue<u32>, history: &History) -> future::JoinHandle<()> {
    worker_until(usize::MAX, queue, history)
}

/// Starts a worker that shuts the queue down after the last of this many runs. A shutdown from outside would wake
/// waiters that a key should have woken.
fn worker_until(last: usize, queue: &WorkQueue<u32>, history: &History) -> future::JoinHandle<()> {
    let (queue, history) = (queue.clone(), history.clone());
    future::spawn(async move {
        while let Some(item) = queue.next().await {
            end_after(last, &queue, history.work(item, Item::forget));
        }
    })
}

/// A worker that stops early, and processes a key if it gets one before.
fn impatient_worker_until(last: usize, queue: &WorkQueue<u32>, history: &History) -> future::JoinHandle<()> {
    let (queue, history) = (queue.clone(), history.clone());
    future::spawn(async move {
        for _ in 0..2 {
            match next_if_soon(&queue).await {
                Some(Some(item)) => end_after(last, &queue, history.work(item, Item::done)),
                Some(None) => return,
                None => {}
            }
        }
    })
}

fn end_after(last: usize, queue: &WorkQueue<u32>, runs: usize) {
    if runs == last {
        queue.shut_down();
    }
}

fn join_all(tasks: impl IntoIterator<Item = future::JoinHandle<()>>) {
    future::block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn producer(queue: &WorkQueue<u32>, history: &History, keys: &'static [u32]) -> thread::JoinHandle<()> {
    let (queue, history) = (queue.clone(), history.clone());
    thread::spawn(move || keys.iter().for_each(|key| history.add(*key, |key| queue.add(key))))
}

#[test]
fn wq_008_no_key_is_lost_or_in_flight_twice() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        let producers = [producer(&queue, &history, &[0, 1, 0]), producer(&queue, &history, &[1, 2])];
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.drain(DrainDelayed::Discard).wait().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        history.close(&queue);
    });
}

#[test]
fn counts_are_consistent_while_keys_are_added_taken_and_finished() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let (task, thread) = (worker(&queue, &history), blocking_worker(&queue, &history));
        let counting = {
            let queue = queue.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let stats = queue.stats();
                    assert!(stats.ready <= stats.depth && stats.depth <= 2 && stats.in_flight <= 2, "{stats:?}");
                    assert!(queue.len() <= 2);
                }
            })
        };
        let producers = [producer(&queue, &history, &[0, 1, 0]), producer(&queue, &history, &[1])];
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.shut_down();
        counting.join().unwrap();
        thread.join().unwrap();
        join_all([task]);
        history.close(&queue);
    });
}

#[test]
fn adds_during_shut_down_are_handed_out_or_ignored() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        let producers = [producer(&queue, &history, &[0, 1]), producer(&queue, &history, &[0])];
        queue.shut_down();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(history.runs_of(0) <= 2 && history.runs_of(1) <= 1);
        let stats = queue.stats();
        assert_eq!((stats.depth, stats.in_flight), (0, 0));
    });
}

#[test]
fn wq_028_keys_added_while_in_flight_are_handed_out_again() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [0, 1].map(|_| {
            let (queue, history) = (queue.clone(), history.clone());
            thread::spawn(move || {
                while let Some(item) = queue.next_blocking() {
                    history.take(&item);
                    if history.runs_of(*item.key()) == 1 {
                        history.add(*item.key(), |key| queue.add(key));
                    }
                    end_after(4, &queue, history.put_back(item, Item::done));
                }
            })
        });
        let producing = producer(&queue, &history, &[0, 1]);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        producing.join().unwrap();
        history.close(&queue);
    });
}

#[test]
fn a_cancelled_next_loses_no_wake_up() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [
            impatient_worker_until(3, &queue, &history),
            worker_until(3, &queue, &history),
            impatient_worker_until(3, &queue, &history),
        ];
        let producing = producer(&queue, &history, &[0, 1, 2]);
        join_all(workers);
        producing.join().unwrap();
        history.close(&queue);
    });
}

#[test]
fn each_key_finds_a_worker_while_others_are_busy() {
    try_out(|| {
        let queue = WorkQueue::new();
        let all_have_one = Arc::new(Barrier::new(3));
        let workers = [0, 1, 2].map(|_| {
            let (queue, all_have_one) = (queue.clone(), all_have_one.clone());
            thread::spawn(move || {
                let item = queue.next_blocking().unwrap();
                all_have_one.wait();
                item.done();
            })
        });
        queue.add_all([0, 1], AddOptions::new());
        queue.add(2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn keys_that_become_due_find_workers_while_others_are_busy() {
    try_out(|| {
        let clock = ManualClock::new();
        let queue = timed_queue(&clock);
        let all_have_one = Arc::new(Barrier::new(3));
        let workers = [0, 1, 2].map(|_| {
            let (queue, all_have_one) = (queue.clone(), all_have_one.clone());
            future::spawn(async move {
                let item = queue.next().await.unwrap();
                all_have_one.wait();
                item.done();
            })
        });
        let producing = {
            let (queue, clock) = (queue.clone(), clock.clone());
            thread::spawn(move || {
                // Two keys at once, and one that needs a timekeeper while the other workers are busy.
                queue.add_all([0, 1], AddOptions::new().after(TICK));
                queue.add_after(2, 2 * TICK);
                clock.pass(TICK);
                clock.pass(TICK);
            })
        };
        join_all(workers);
        producing.join().unwrap();
    });
}

#[test]
fn a_key_is_due_at_its_time_although_another_was_due_first() {
    try_out(|| {
        let clock = ManualClock::new();
        let (queue, history) = (timed_queue(&clock), History::default());
        let workers = [
            worker_until(1, &queue, &history),
            impatient_worker_until(1, &queue, &history),
            worker_until(1, &queue, &history),
        ];
        queue.add_after(0, 10 * TICK);
        history.add(1, |key| queue.add_after(key, 2 * TICK));
        clock.pass(TICK);
        clock.pass(TICK);
        // The time does not advance any more.
        join_all(workers);
        history.close(&queue);
    });
}

#[test]
fn workers_that_are_threads_and_workers_that_are_tasks_share_the_work() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let (task, thread) = (worker(&queue, &history), blocking_worker(&queue, &history));
        let impatient = impatient_worker_until(usize::MAX, &queue, &history);
        producer(&queue, &history, &[0, 1, 2]).join().unwrap();
        queue.drain(DrainDelayed::Discard).wait().unwrap();
        thread.join().unwrap();
        join_all([task, impatient]);
        history.close(&queue);
    });
}

#[test]
fn wq_024_all_drains_return() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        producer(&queue, &history, &[0, 1]).join().unwrap();
        let drainers = [DrainDelayed::Discard, DrainDelayed::Flush].map(|delayed| {
            let queue = queue.clone();
            thread::spawn(move || queue.drain(delayed).wait())
        });
        let drainer = {
            let queue = queue.clone();
            future::spawn(async move { queue.drain(DrainDelayed::Discard).await })
        };
        drainers.into_iter().for_each(|drainer| drainer.join().unwrap().unwrap());
        future::block_on(drainer).unwrap().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        history.close(&queue);
    });
}

#[test]
fn wq_022_shut_down_releases_drains() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        queue.add(0);
        let held = queue.next_blocking().unwrap();
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        let drainers = [0, 1].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || queue.drain(DrainDelayed::Discard).wait())
        });
        let ender = {
            let queue = queue.clone();
            thread::spawn(move || queue.shut_down())
        };
        for drainer in drainers {
            let undrained = drainer.join().unwrap().unwrap_err();
            assert!(matches!(undrained, DrainError::ShutDown { in_flight: 1, .. }), "{undrained}");
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        ender.join().unwrap();
        held.done();
        history.close(&queue);
    });
}

#[test]
fn a_timed_out_drain_does_not_block_other_drains() {
    try_out(|| {
        let clock = ManualClock::new();
        let (queue, history) = (timed_queue(&clock), History::default());
        queue.add(0);
        let held = queue.next_blocking().unwrap();
        let hurried = {
            let queue = queue.clone();
            future::spawn(async move { queue.drain(DrainDelayed::Discard).within(TICK).await })
        };
        let patient = {
            let queue = queue.clone();
            thread::spawn(move || queue.drain(DrainDelayed::Discard).wait())
        };
        let worker = blocking_worker(&queue, &history);
        clock.pass(2 * TICK);
        let finisher = thread::spawn(move || held.done());
        patient.join().unwrap().unwrap();
        match future::block_on(hurried).unwrap() {
            Ok(()) | Err(DrainError::OutOfTime { ready: 0, .. }) => {}
            Err(other) => panic!("{other}"),
        }
        finisher.join().unwrap();
        worker.join().unwrap();
        history.close(&queue);
    });
}

#[test]
fn try_next_may_take_a_key_before_waiters() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        let thief = {
            let (queue, history) = (queue.clone(), history.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    if let Some(item) = queue.try_next() {
                        history.work(item, Item::done);
                    }
                }
            })
        };
        producer(&queue, &history, &[0, 1, 0, 2]).join().unwrap();
        thief.join().unwrap();
        queue.drain(DrainDelayed::Discard).wait().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        history.close(&queue);
    });
}

#[test]
fn an_item_may_be_finished_by_another_thread() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let (sender, receiver) = mpsc::channel::<Item<u32>>();
        let finisher = {
            let history = history.clone();
            thread::spawn(move || receiver.iter().for_each(|item| _ = history.put_back(item, Item::done)))
        };
        let workers = [0, 1].map(|_| {
            let (queue, history, sender) = (queue.clone(), history.clone(), sender.clone());
            thread::spawn(move || {
                while let Some(item) = queue.next_blocking() {
                    history.take(&item);
                    sender.send(item).unwrap();
                }
            })
        });
        drop(sender);
        producer(&queue, &history, &[0, 1, 0]).join().unwrap();
        queue.drain(DrainDelayed::Discard).wait().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        finisher.join().unwrap();
        history.close(&queue);
    });
}

#[test]
fn there_is_always_a_timekeeper() {
    try_out(|| {
        let clock = ManualClock::new();
        let (queue, history) = (timed_queue(&clock), History::default());
        let workers = [
            worker_until(3, &queue, &history),
            impatient_worker_until(3, &queue, &history),
            worker_until(3, &queue, &history),
        ];
        let producing = {
            let (queue, history) = (queue.clone(), history.clone());
            thread::spawn(move || {
                history.add(0, |key| queue.add_after(key, 3 * TICK));
                history.add(1, |key| queue.add_after(key, TICK));
                history.add(2, |key| queue.add(key));
            })
        };
        clock.pass(TICK);
        clock.pass(TICK);
        producing.join().unwrap();
        // Nothing but time advances from here on.
        clock.pass(3 * TICK);
        join_all(workers);
        history.close(&queue);
    });
}

#[test]
fn failed_keys_are_retried_while_time_passes() {
    try_out(|| {
        let clock = ManualClock::new();
        let (queue, history) = (timed_queue(&clock), History::default());
        let (failed, failures) = mpsc::channel();
        let workers = [0, 1].map(|_| {
            let (queue, history, failed) = (queue.clone(), history.clone(), failed.clone());
            future::spawn(async move {
                while let Some(item) = queue.next().await {
                    let runs = history.work(item, |item| match item.failures() {
                        0 => {
                            item.retry("not yet");
                            failed.send(()).unwrap();
                        }
                        _ => item.forget(),
                    });
                    end_after(4, &queue, runs);
                }
            })
        });
        drop(failed);
        let passing = thread::spawn(move || failures.iter().for_each(|()| clock.pass(TICK)));
        let producing = producer(&queue, &history, &[0, 1]);
        join_all(workers);
        producing.join().unwrap();
        passing.join().unwrap();
        history.close(&queue);
    });
}

#[test]
fn delayed_keys_are_handed_out_at_once_by_a_flushing_drain() {
    try_out(|| {
        let clock = ManualClock::new();
        let (queue, history) = (timed_queue(&clock), History::default());
        let workers = [worker(&queue, &history), worker(&queue, &history)];
        let producer = {
            let (queue, history) = (queue.clone(), history.clone());
            thread::spawn(move || [0, 1, 2].map(|key| history.add(key, |key| queue.add_after(key, TICK))))
        };
        producer.join().unwrap();
        // The time does not advance.
        future::block_on(queue.drain(DrainDelayed::Flush).into_future()).unwrap();
        join_all(workers);
        history.close(&queue);
    });
}

#[test]
fn shr_054_suspended_keys_stop_are_waited_for_and_resume() {
    try_out(|| {
        let (queue, history) = (WorkQueue::new(), History::default());
        let workers = [blocking_worker(&queue, &history), blocking_worker(&queue, &history)];
        let producer = producer(&queue, &history, &[1, 2, 3, 1]);
        // Odd keys stop: none runs after the wait, and all of them run when they are resumed.
        let suspension = queue.suspend(SuspendedAdds::Hold, |key| key % 2 == 1);
        future::block_on(queue.in_flight(|key| key % 2 == 1));
        let before = history.runs_of(1) + history.runs_of(3);
        thread::yield_now();
        assert_eq!(history.runs_of(1) + history.runs_of(3), before, "a suspended key runs");
        drop(suspension);
        producer.join().unwrap();
        queue.shut_down();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        history.close(&queue);
    });
}

/// Checks the order of the events of each key.
struct Order(Arc<Mutex<BTreeMap<u32, (u32, bool)>>>);

impl Observer<u32> for Order {
    fn event(&self, key: &u32, step: KeyEvent) {
        let mut known = self.0.lock().unwrap();
        let (adds, is_out) = known.entry(*key).or_default();
        match step {
            KeyEvent::Added { .. } => *adds += 1,
            KeyEvent::Dequeued { .. } => {
                assert!(*adds > 0, "{key} is handed out and was never added");
                assert!(!*is_out, "{key} is handed out again before it is finished");
                *is_out = true;
            }
            KeyEvent::Finished { .. } => {
                assert!(*is_out, "{key} is finished and was not handed out");
                *is_out = false;
            }
            _ => {}
        }
    }
}

#[test]
fn events_of_each_key_are_in_order() {
    try_out(|| {
        let queue = WorkQueue::new();
        let events = Arc::new(Mutex::new(BTreeMap::new()));
        // A panicking observer is skipped, so its findings are checked at the end.
        let _guard = queue.observe(Order(events.clone()));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    while let Some(item) = queue.next_blocking() {
                        thread::yield_now();
                        item.forget();
                    }
                })
            })
            .collect();
        for key in [1, 2, 1, 1] {
            queue.add(key);
            thread::yield_now();
        }
        queue.shut_down();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let events = events.lock().unwrap();
        assert_eq!(events[&1].0 + events[&2].0, 4, "the observer has panicked");
        assert!(events.values().all(|(_, is_out)| !is_out), "the observer has panicked");
    });
}
