//! Priorities of keys.

use std::num::NonZeroU32;

use super::*;
use crate::limiter::{Exponential, RateLimiter};
use crate::{AddOptions, LOW_PRIORITY, QueueBuilder};

fn at(priority: i32) -> AddOptions {
    AddOptions::new().priority(priority)
}

/// Takes all ready keys, with their priorities.
fn take_with_priority<K: Key>(queue: &WorkQueue<K>) -> Vec<(K, i32)> {
    std::iter::from_fn(|| {
        queue.try_next().map(|item| (item.priority(), done(item))).map(|(priority, key)| (key, priority))
    })
    .collect()
}

/// A queue in which keys of a lower priority get no share.
fn strict<K: Key>() -> QueueBuilder<K> {
    WorkQueue::builder().share(None)
}

fn share(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

#[test]
fn pq_001_the_highest_priority_is_first_and_equal_ones_are_fifo() {
    let queue = strict().build();
    queue.add_all(["low"], at(LOW_PRIORITY));
    queue.add_all(["a", "b"], at(1));
    queue.add("c");
    queue.add_all(["highest"], at(i32::MAX));
    queue.add_all(["d"], at(1));
    queue.add_all(["lowest"], at(i32::MIN));
    queue.add("e");
    let expected = [
        ("highest", i32::MAX),
        ("a", 1),
        ("b", 1),
        ("d", 1),
        ("c", 0),
        ("e", 0),
        ("low", LOW_PRIORITY),
        ("lowest", i32::MIN),
    ];
    assert_eq!(take_with_priority(&queue), expected);
}

#[test]
fn pq_001_many_priorities_at_once() {
    let queue = strict().build();
    (0..5000).for_each(|key: i32| queue.add_all([key], at(key * 7919 % 101)));
    let taken = take_with_priority(&queue);
    assert_eq!(taken.len(), 5000);
    assert!(taken.is_sorted_by(|a, b| a.1 > b.1 || a.1 == b.1 && a.0 < b.0));
}

#[test]
fn pq_002_a_key_in_use_is_not_handed_out_and_counts_in_depth_when_added_again() {
    let queue = WorkQueue::new();
    queue.add_all(["a"], at(1));
    let item = queue.try_next().unwrap();
    queue.add_all(["a"], at(5));
    queue.add_all(["a"], at(2));
    assert!(queue.try_next().is_none());
    assert_eq!((queue.len(), queue.stats().depth), (0, 1));
    item.done();
    assert_eq!(queue.len(), 1);
    assert_eq!(take_with_priority(&queue), [("a", 5)]);
}

#[test]
fn pq_003_the_highest_priority_wins_and_a_raised_key_is_last_in_its_level() {
    let queue = strict().build();
    queue.add_all(["a", "b", "c"], at(0));
    queue.add_all(["x"], at(1));
    queue.add_all(["b"], at(1));
    queue.add_all(["c"], at(-1));
    queue.add_all(["x"], at(0));
    assert_eq!(queue.len(), 4);
    assert_eq!(take_with_priority(&queue), [("x", 1), ("b", 1), ("a", 0), ("c", 0)]);
}

#[test]
fn pq_003_a_key_raised_many_times_is_queued_once() {
    let queue = strict().build();
    queue.add_all(0..500, at(LOW_PRIORITY));
    for priority in 1..20 {
        queue.add_all((0..500).rev(), at(priority));
        assert_eq!(queue.len(), 500);
    }
    let taken = take_with_priority(&queue);
    assert_eq!(taken, Vec::from_iter((0..500).rev().map(|key| (key, 19))));
    queue.add_all(0..500, at(3));
    assert_eq!(take_with_priority(&queue), Vec::from_iter((0..500).map(|key| (key, 3))), "nothing is remembered");
}

#[tokio::test(start_paused = true)]
async fn pq_003_the_earliest_time_and_the_highest_priority_win() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let queue = strict().on_readd(pending).build();
        queue.add_all(["a"], at(3).after(ms(10)));
        queue.add_all(["a"], at(7).after(ms(20)));
        queue.add_all(["a"], at(5).after(ms(5)));
        queue.add_all(["b"], at(6));
        step(ms(5)).await;
        assert_eq!(take_with_priority(&queue), [("a", 7), ("b", 6)]);
    }
}

#[tokio::test(start_paused = true)]
async fn pq_003_a_key_that_is_ready_and_waits_has_one_priority() {
    let queue = strict().build();
    queue.add_all(["other"], at(6));
    queue.add("a");
    queue.add_all(["a"], at(5).after(secs(1)));
    queue.add_all(["a"], at(5).after(secs(2)));
    queue.add_all(["a"], at(7).after(secs(3)));
    assert_eq!(queue.len(), 2);
    assert_eq!(take_with_priority(&queue), [("a", 7), ("other", 6)]);
    step(secs(1)).await;
    assert_eq!(take_with_priority(&queue), [("a", 7)]);

    queue.add_all(["b"], at(4).after(secs(1)));
    queue.add("b");
    assert_eq!(take_with_priority(&queue), [("b", 4)]);
    step(secs(1)).await;
    assert_eq!(take_with_priority(&queue), [("b", 4)], "an add in between does not lower it");
}

#[tokio::test(start_paused = true)]
async fn pq_003_a_priority_given_while_in_flight_applies_to_the_next_run() {
    let queue = strict().build();
    queue.add_all(["a"], at(9));
    let item = queue.try_next().unwrap();
    queue.add("a");
    queue.add_all(["a"], at(2).after(secs(1)));
    item.done();
    assert_eq!(take_with_priority(&queue), [("a", 2)], "not the one of the run that is over");
    let item = {
        queue.add("b");
        queue.try_next().unwrap()
    };
    queue.add("b");
    queue.add_all(["b"], at(3).after(ms(10)));
    step(ms(10)).await;
    item.done();
    assert_eq!(take_with_priority(&queue), [("b", 3)]);
}

/// Records the keys of its calls.
#[derive(Clone, Default)]
struct CountedCalls(Arc<Mutex<Vec<&'static str>>>);

impl RateLimiter<&'static str> for CountedCalls {
    fn when(&self, key: &&'static str, _: u32, _: Instant) -> Duration {
        self.0.lock().unwrap().push(key);
        ms(10)
    }
}

#[tokio::test(start_paused = true)]
async fn pq_004_no_delay_is_immediate_and_the_smaller_of_delay_and_backoff_wins() {
    let calls = CountedCalls::default();
    let queue = WorkQueue::builder().limiter(calls.clone()).build();
    queue.add_all(["now"], AddOptions::new().after(Duration::ZERO));
    assert_eq!(take_all(&queue), ["now"]);
    queue.add_all(["limited", "too"], AddOptions::new().rate_limited());
    queue.add_all(["sooner"], AddOptions::new().rate_limited().after(ms(4)));
    queue.add_all(["not later"], AddOptions::new().rate_limited().after(ms(40)));
    queue.add_all(["not at once"], AddOptions::new().rate_limited().after(Duration::ZERO));
    assert_eq!(*calls.0.lock().unwrap(), ["limited", "too", "sooner", "not later", "not at once"]);
    assert_eq!(queue.len(), 0);
    step(ms(4)).await;
    assert_eq!(take_all(&queue), ["sooner"]);
    step(ms(6)).await;
    assert_eq!(take_all(&queue), ["limited", "too", "not later", "not at once"]);
}

#[tokio::test(start_paused = true)]
async fn pq_005_keys_of_one_priority_are_in_the_order_in_which_they_became_ready() {
    let queue = strict().build();
    queue.add_all(["third"], at(1).after(ms(30)));
    queue.add_all(["first"], at(1).after(ms(10)));
    step(ms(20)).await;
    queue.add_all(["second"], at(1));
    step(ms(20)).await;
    queue.add_all(["fourth"], at(1));
    queue.add_all(["above"], at(2).after(ms(1)));
    step(ms(1)).await;
    assert_eq!(take_all(&queue), ["above", "first", "second", "third", "fourth"]);
}

#[tokio::test(start_paused = true)]
async fn pq_006_only_ready_keys_count_and_every_delayed_add_is_a_retry() {
    let queue = WorkQueue::new();
    queue.add_all(["waits"], at(1).after(secs(1)));
    queue.add_all(["ready"], at(1));
    queue.add_all(["now"], at(1).after(Duration::ZERO));
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.depth, stats.adds, stats.retries), (2, 2, 2, 2));
    step(secs(1)).await;
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.depth, stats.adds, stats.retries), (3, 3, 3, 2));
}

#[test]
fn pq_008_an_add_is_seen_by_the_very_next_call() {
    let queue = WorkQueue::new();
    for key in 0..1000 {
        queue.add_all([key], at(key % 3));
        assert_eq!(queue.len(), 1);
        assert_eq!(take(&queue), key);
    }
}

#[test]
fn pq_008_an_iterator_that_uses_the_queue_can_be_added() {
    let queue = WorkQueue::new();
    queue.add_all((0..1000).inspect(|key| queue.add(key + 1000)), at(1));
    assert_eq!(queue.len(), 2000);
}

#[tokio::test(start_paused = true)]
async fn pq_009_with_merging_a_key_is_ready_or_waits_and_never_both() {
    let queue = strict().on_readd(OnReadd::Merge).build();
    queue.add_all(["a"], at(1).after(secs(10)));
    queue.add_all(["a"], at(0));
    queue.add_all(["b"], at(0));
    queue.add_all(["b"], at(2).after(secs(10)));
    assert_eq!(queue.stats().delayed, 0);
    assert_eq!(take_with_priority(&queue), [("b", 2), ("a", 1)]);
    step(secs(20)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pq_010_shut_down_wakes_waiters_and_hands_out_queued_keys() {
    let queue = strict::<u32>().build();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    settle().await;
    queue.shut_down();
    assert!(worker.await.unwrap());

    let queue = strict().build();
    queue.add_all(["low"], at(-1));
    queue.add_all(["high"], at(1));
    queue.shut_down();
    queue.shut_down();
    queue.add_all(["late"], at(9));
    assert_eq!(take_all(&queue), ["high", "low"]);
    assert!(queue.next().await.is_none());
    assert_eq!(queue.drain(DrainDelayed::Flush).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn pq_011_the_default_limiter_is_per_key_from_5_ms_to_1000_s() {
    let queue = WorkQueue::new();
    (0..200).for_each(|key: u32| queue.add_rate_limited(key));
    let since = Since::now();
    for _ in 0..200 {
        queue.next().await.unwrap().done();
    }
    assert_eq!(since.ms(), 5);
    let mut waits = Vec::new();
    queue.add(999);
    for _ in 0..21 {
        let since = Since::now();
        queue.next().await.unwrap().retry("fails");
        waits.push(since.ms());
    }
    assert_eq!(waits[..4], [0, 5, 10, 20]);
    assert_eq!(waits[18..], [655_360, 1_000_000, 1_000_000]);
}

/// Takes this many keys, adding one of a high priority for each.
fn under_load(queue: &WorkQueue<u32>, times: u32, load: i32) -> Vec<u32> {
    (0..times)
        .map(|n| {
            queue.add_all([1_000_000 + n], at(load));
            take(queue)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn pq_012_low_keys_get_an_eighth_in_the_order_of_their_age() {
    let queue = WorkQueue::new();
    queue.add_all(0..100, at(LOW_PRIORITY));
    queue.add_all(5_000_000..5_000_010, at(10));
    let taken = under_load(&queue, 800, 10);
    let low: Vec<_> = taken.iter().enumerate().filter(|(_, key)| **key < 100).collect();
    assert_eq!(Vec::from_iter(low.iter().map(|(_, key)| **key)), Vec::from_iter(0..100));
    assert!(low.windows(2).all(|pair| pair[1].0 - pair[0].0 == 8), "one of eight");
}

#[tokio::test(start_paused = true)]
async fn ask_10_the_share_serves_the_oldest_key_first() {
    let queue = WorkQueue::builder().share(share(4)).build();
    for (key, priority) in [(0, -5), (1, -1), (2, -5), (3, 3), (4, -1)] {
        queue.add_all([key], at(priority));
        step(ms(1)).await;
    }
    queue.add_all(5_000_000..5_000_010, at(10));
    let taken = under_load(&queue, 20, 10);
    let low: Vec<_> = taken.into_iter().filter(|key| *key < 10).collect();
    assert_eq!(low, [0, 1, 2, 3, 4]);
}

#[test]
fn ask_10_a_low_key_without_higher_keys_does_not_wait() {
    let queue = WorkQueue::new();
    queue.add_all(0..50, at(LOW_PRIORITY));
    assert_eq!(take_all(&queue), Vec::from_iter(0..50));
}

#[test]
fn ask_10_high_keys_have_all_but_the_share_even_behind_a_large_backlog() {
    let queue = WorkQueue::new();
    queue.add_all(0..10_000, at(LOW_PRIORITY));
    queue.add_all(20_000..20_070, at(1));
    let taken: Vec<_> = (0..80).map(|_| take(&queue)).collect();
    assert_eq!(taken.iter().filter(|key| **key >= 20_000).count(), 70);
}

#[test]
fn ask_10_the_share_is_configurable_or_disabled() {
    let queue = strict().build();
    queue.add_all([0], at(-1));
    queue.add_all([5_000_000], at(1));
    assert!(!under_load(&queue, 1000, 1).contains(&0), "strict priority starves");
    for n in 2..10 {
        let queue = WorkQueue::builder().share(share(n)).build();
        queue.add_all(0..1000, at(-1));
        queue.add_all([5_000_000], at(1));
        let low = under_load(&queue, n * 10, 1).into_iter().filter(|key| *key < 1000).count();
        assert_eq!(low, 10);
    }
}

#[tokio::test(start_paused = true)]
async fn pq_012_an_ageing_key_overtakes_newer_ones() {
    let queue = strict().ageing(secs(1)).build();
    queue.add_all(["old"], at(0));
    step(ms(4900)).await;
    queue.add_all(["new"], at(5));
    queue.add_all(["newer"], at(5));
    assert_eq!(take(&queue), "new", "four points are not enough");
    step(ms(1200)).await;
    assert_eq!(take_with_priority(&queue), [("newer", 5), ("old", 0)], "both have aged");
    queue.add_all(["old"], at(0));
    step(secs(6)).await;
    queue.add_all(["new"], at(5));
    assert_eq!(take_all(&queue), ["old", "new"]);
}

#[tokio::test(start_paused = true)]
async fn pq_012_the_age_of_a_key_starts_at_its_add() {
    let queue = strict().ageing(secs(1)).build();
    step(secs(3600)).await;
    queue.add_all(["low"], at(LOW_PRIORITY));
    queue.add_all(["high"], at(10));
    assert_eq!(take_all(&queue), ["high", "low"]);
    queue.add("first");
    step(secs(1)).await;
    queue.add_all(["high"], at(10));
    assert_eq!(take_all(&queue), ["high", "first"]);
}

#[tokio::test(start_paused = true)]
async fn pq_012_a_raised_key_keeps_its_age() {
    let queue = WorkQueue::builder().name("pq-012").build();
    queue.add_all(["a"], at(LOW_PRIORITY));
    queue.add_all(["b"], at(0));
    step(secs(3)).await;
    queue.add_all(["a", "b"], at(5));
    step(secs(1)).await;
    assert_eq!(queue.stats().oldest_ready, Some(secs(4)));
    assert_eq!(queue.try_next().unwrap().waited(), secs(4));
    assert_eq!(queue.try_next().unwrap().waited(), secs(4));
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_keeps_its_priority() {
    let queue = strict().limiter(Exponential::new(ms(1), ms(1))).build();
    queue.add_all(["a", "b", "c"], at(4));
    queue.try_next().unwrap().retry("fails");
    queue.try_next().unwrap().retry_after(ms(1));
    queue.try_next().unwrap().requeue_after(ms(1));
    step(ms(1)).await;
    assert_eq!(take_with_priority(&queue), [("a", 4), ("b", 4), ("c", 4)]);
}

#[test]
fn pq_003_with_a_share_of_one_the_key_that_has_waited_longest_is_next() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().share(share(1)).clock(clock.clone()).build();
    for (key, priority) in [("first", -1), ("second", 5), ("third", -1), ("fourth", 0)] {
        queue.add_with(key, at(priority));
        clock.step(ms(1));
    }
    assert_eq!(take_all(&queue), ["first", "second", "third", "fourth"]);
}
