//! The basic contract: adds, hand-outs and finishes of keys.

use super::*;
use crate::limiter::Exponential;

#[test]
fn wq_001_one_queue_supports_immediate_delayed_and_rate_limited_adds() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add("now");
    queue.add_after("later", ms(10));
    queue.add_rate_limited("failed");
    assert_eq!(take_all(&queue), ["now"]);
    clock.step(ms(5));
    assert_eq!(take_all(&queue), ["failed"]);
    clock.step(ms(5));
    assert_eq!(take_all(&queue), ["later"]);
    assert_eq!(queue.failures(&"failed"), 1);
    queue.forget(&"failed");
    assert_eq!(queue.failures(&"failed"), 0);
    assert!(!queue.is_shutting_down());
    queue.shut_down();
    assert!(queue.is_shutting_down());
}

#[test]
fn wq_002_a_key_is_ready_in_flight_or_in_flight_and_dirty() {
    let queue = WorkQueue::new();
    let state = || {
        let stats = queue.stats();
        (stats.ready, stats.depth, stats.in_flight)
    };
    queue.add("a");
    assert_eq!(state(), (1, 1, 0));
    let item = queue.try_next().unwrap();
    assert_eq!(state(), (0, 0, 1));
    queue.add("a");
    assert_eq!(state(), (0, 1, 1), "it needs in_flight and is not queued");
    assert!(queue.try_next().is_none());
    item.done();
    assert_eq!(state(), (1, 1, 0));
    queue.try_next().unwrap().done();
    assert_eq!(state(), (0, 0, 0));
}

#[test]
fn wqu_001_an_add_is_ignored_if_dirty_or_shutting_down_and_deferred_if_processing() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("a");
    assert_eq!((queue.len(), queue.stats().depth), (0, 1));
    queue.shut_down();
    queue.add("b");
    item.done();
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn wq_004_an_add_is_counted_once_and_wakes_one_waiter() {
    let queue = WorkQueue::new();
    let (first_woken, first_waker) = Woken::new();
    let (second_woken, second_waker) = Woken::new();
    let (mut first, mut second) = (queue.next(), queue.next());
    assert!(poll_with(&mut first, &first_waker).is_pending());
    assert!(poll_with(&mut second, &second_waker).is_pending());
    queue.add("a");
    assert_eq!((first_woken.times(), second_woken.times()), (1, 0));
    queue.add("a");
    assert_eq!((first_woken.times(), second_woken.times()), (1, 0), "a duplicate wakes no worker");
    assert_eq!(queue.stats().adds, 1);
    let Poll::Ready(Some(item)) = poll(&mut first) else { panic!("the one that was woken gets it") };
    queue.add("a");
    assert_eq!(second_woken.times(), 0, "the key is with its worker");
    assert_eq!(queue.stats().adds, 2);
    item.done();
    assert_eq!(second_woken.times(), 1);
    queue.shut_down();
    queue.add("late");
    assert_eq!(queue.stats().adds, 2);
}

#[test]
fn wq_005_a_key_that_is_queued_is_not_queued_again() {
    let queue = WorkQueue::new();
    ["foo", "bar", "foo"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 2);
    assert!(!queue.is_empty());
}

#[test]
fn wq_006_many_adds_are_handed_out_once() {
    let queue = WorkQueue::new();
    (0..100).for_each(|_| queue.add("bar"));
    assert_eq!(take_all(&queue), ["bar"]);
    assert!(queue.is_empty());
}

#[test]
fn wq_007_adds_while_in_flight_cause_one_more_run() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.try_next().unwrap();
    (0..100).for_each(|_| queue.add("foo"));
    assert_eq!(queue.len(), 0);
    item.done();
    assert_eq!(queue.len(), 1);
    assert_eq!(take_all(&queue), ["foo"]);
    assert_eq!(take_all(&queue), [""; 0]);
}

#[test]
fn wqu_003_keys_added_while_in_flight_are_queued_last_once() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.try_next().unwrap();
    ["a", "b", "a"].into_iter().for_each(|key| queue.add(key));
    item.done();
    assert_eq!(take_all(&queue), ["b", "a"]);
}

#[test]
fn wq_008_a_key_in_flight_is_not_handed_out_again() {
    let queue = WorkQueue::new();
    queue.add("a");
    let held = queue.try_next().unwrap();
    for _ in 0..10 {
        queue.add("a");
        assert!(queue.try_next().is_none());
    }
    held.done();
    assert_eq!(take(&queue), "a");
}

#[test]
fn wqu_004_two_workers_never_have_one_key() {
    let queue = WorkQueue::new();
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    let (a, b) = (queue.try_next().unwrap(), queue.try_next().unwrap());
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    assert!(queue.try_next().is_none());
    b.done();
    let again = queue.try_next().unwrap();
    assert_eq!(again.key(), &"b");
    assert!(queue.try_next().is_none(), "a is still held");
    a.done();
    again.done();
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn wq_009_keys_are_fifo_and_readded_keys_are_last() {
    let queue = WorkQueue::new();
    (0..1000).for_each(|key| queue.add(key));
    queue.add(0);
    assert_eq!(take_all(&queue), Vec::from_iter(0..1000));
    (0..3).for_each(|key| queue.add(key));
    let item = queue.try_next().unwrap();
    queue.add(0);
    queue.add(3);
    item.done();
    assert_eq!(take_all(&queue), [1, 2, 3, 0]);
}

#[test]
fn wq_010_a_ready_order_is_touched_for_adds_of_queued_keys_only() {
    let (log, storage) = logged_order();
    let queue = WorkQueue::builder().ready_order(storage).build();
    ["a", "a", "b"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(log.take(), ["push a", "touch a", "push b"]);
    assert_eq!(queue.len(), 2);
    let item = queue.try_next().unwrap();
    ["a", "a"].into_iter().for_each(|key| queue.add(key));
    assert!(log.take().is_empty());
    item.done();
    assert_eq!(log.take(), ["push a"]);
    assert_eq!(take_all(&queue), ["b", "a"]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn wqu_007_slots_are_freed_and_a_repeated_add_touches_the_ready_order() {
    let (log, storage) = logged_order();
    let queue = WorkQueue::builder().ready_order(storage).build();
    ["a", "a"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(log.take(), ["push a", "touch a"]);
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(queue.stats(), crate::QueueStats { adds: 1, ..Default::default() });
}

/// Returns every ticket several times.
struct Stutter(Vec<Ticket>, usize);

impl ReadyOrder<u32> for Stutter {
    fn push(&mut self, _: &u32, ticket: Ticket) {
        self.0.push(ticket);
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.1 += 1;
        let tickets = &mut self.0;
        if self.1.is_multiple_of(3) { tickets.pop() } else { tickets.last().copied() }
    }
}

#[test]
fn wq_010_a_ready_order_that_returns_duplicates_is_harmless() {
    let queue = WorkQueue::builder().ready_order(Stutter(Vec::new(), 0)).build();
    for round in 0..20 {
        (0..round).for_each(|key| queue.add(key));
        let mut seen = std::collections::BTreeSet::new();
        while let Some(item) = queue.try_next() {
            assert!(seen.insert(*item.key()), "each key once");
            item.forget();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wq_011_next_waits_for_a_key() {
    let queue = WorkQueue::new();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|item| *item.key()) }
    });
    step(secs(3600)).await;
    assert!(!worker.is_finished());
    queue.add("a");
    assert_eq!(worker.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn wqu_002_next_waits_for_a_key_or_the_shutdown() {
    let queue = WorkQueue::new();
    queue.add(1);
    let mut next = queue.next();
    let Poll::Ready(Some(item)) = poll(&mut next) else { panic!("there is a key") };
    let mut next = queue.next();
    assert!(poll(&mut next).is_pending());
    queue.add(2);
    queue.shut_down();
    item.done();
    assert_eq!(next.await.map(|item| *item.key()), Some(2), "what is there is still handed out");
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn wq_012_queued_keys_are_handed_out_after_shut_down() {
    let queue = WorkQueue::new();
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    queue.shut_down();
    assert_eq!(done(queue.next().await.unwrap()), "a");
    assert_eq!(done(queue.next().await.unwrap()), "b");
    for _ in 0..3 {
        assert!(queue.next().await.is_none());
        assert!(queue.next_blocking().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn wq_013_none_is_returned_when_no_key_can_follow() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("a");
    queue.shut_down();
    let mut next = queue.next();
    assert!(poll(&mut next).is_pending(), "a is handed out again");
    item.done();
    let again = next.await.unwrap();
    assert!(queue.next().await.is_none(), "no key can follow");
    again.done();
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn qhc_01_next_waits_for_keys_readded_while_draining() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    queue.add("a");
    let drain = tokio::spawn(queue.drain(DrainDelayed::Discard).into_future());
    let mut next = queue.next();
    assert!(poll(&mut next).is_pending());
    item.done();
    let item = next.await.unwrap();
    assert!(!drain.is_finished());
    item.done();
    assert!(queue.next().await.is_none());
    assert_eq!(drain.await.unwrap(), Ok(()));
}

#[test]
fn wq_014_finishing_a_dirty_key_wakes_one_waiter() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.add("a");
    let (woken, waker) = Woken::new();
    let mut waiters = [queue.next(), queue.next(), queue.next()];
    waiters.iter_mut().for_each(|next| assert!(poll_with(next, &waker).is_pending()));
    item.done();
    assert_eq!(woken.times(), 1);
    assert!(waiters.iter_mut().any(|next| poll(next).is_ready()));
}

#[test]
fn wq_017_len_counts_ready_keys() {
    let queue = WorkQueue::new();
    ["queued", "processing", "both"].into_iter().for_each(|key| queue.add(key));
    queue.add_after("delayed", secs(3600));
    let first = queue.try_next().unwrap();
    let second = queue.try_next().unwrap();
    queue.add("processing");
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.stats().depth, 2);
    first.done();
    second.done();
    assert_eq!(queue.len(), 2);
}

#[test]
fn wq_018_adds_after_shut_down_are_dropped() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.try_next().unwrap();
    queue.shut_down();
    queue.add("a");
    queue.add("added after shutdown!");
    queue.add_after("a", Duration::ZERO);
    queue.add_all(["b"], crate::AddOptions::new());
    assert_eq!(queue.stats().depth, 0);
    item.done();
    assert!(queue.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn wq_019_shut_down_does_not_wait_wakes_all_and_may_be_repeated() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.is_none() })
        })
        .collect();
    settle().await;
    queue.shut_down();
    queue.shut_down();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
    assert_eq!(queue.stats().in_flight, 1);
    item.forget();
}

#[test]
fn wq_025_it_is_shutting_down_from_the_first_call_on() {
    for drains in [false, true] {
        let queue = WorkQueue::<u32>::new();
        assert!(!queue.is_shutting_down());
        if drains {
            drop(queue.drain(DrainDelayed::Flush));
        } else {
            queue.shut_down();
        }
        assert!(queue.is_shutting_down());
        queue.shut_down();
        assert!(queue.is_shutting_down());
    }
}

#[test]
fn wq_026_a_finished_key_is_freed() {
    let queue = WorkQueue::new();
    let key: Arc<str> = "a large key".into();
    let weak = Arc::downgrade(&key);
    queue.add(key);
    queue.add("another".into());
    assert!(weak.upgrade().is_some());
    queue.try_next().unwrap().done();
    assert!(weak.upgrade().is_none());
    assert_eq!(queue.len(), 1);
}

#[test]
fn wq_027_a_queue_may_have_a_name_a_clock_a_ready_order_and_a_limiter() {
    assert_eq!(WorkQueue::<u32>::new().name(), None);
    assert_eq!(WorkQueue::<u32>::rate_limited("Foos").name(), Some("Foos"));
    assert_eq!(WorkQueue::<u32>::builder().name("").build().name(), None);
    let (log, storage) = logged_order();
    let clock = HandClock::new();
    let queue = WorkQueue::builder()
        .name("all")
        .clock(clock.clone())
        .ready_order(storage)
        .limiter(Exponential::new(secs(1), secs(1)))
        .build();
    queue.add_rate_limited("a");
    assert!(log.take().is_empty());
    clock.step(secs(1));
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(log.take(), ["push a"]);
}
