//! Delayed keys.

use super::*;
use crate::AddOptions;

/// Waits for the next key, finishes it, and returns it with the time.
async fn arrival(queue: &WorkQueue<&'static str>, since: &Since) -> (&'static str, u64) {
    (done(queue.next().await.unwrap()), since.ms())
}

#[tokio::test(start_paused = true)]
async fn dq_001_a_delayed_add_is_counted_unless_shutting_down_and_zero_is_immediate() {
    let queue = WorkQueue::new();
    queue.add_after("now", Duration::ZERO);
    queue.add_after("later", ms(1));
    assert_eq!((queue.len(), queue.stats().delayed, queue.stats().retries), (1, 1, 2));
    assert_eq!(take_all(&queue), ["now"]);
    queue.shut_down();
    queue.add_after("late", Duration::ZERO);
    queue.add_after("late", ms(1));
    assert_eq!((queue.len(), queue.stats().retries), (0, 2));
    step(ms(2)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn wqu_008_a_delayed_add_is_ready_at_its_time_and_never_after_shut_down() {
    let queue = WorkQueue::new();
    queue.add_after("now", Duration::ZERO);
    assert_eq!(take(&queue), "now");
    let since = Since::now();
    queue.add_after("second", ms(20));
    queue.add_after("first", ms(10));
    assert_eq!(arrival(&queue, &since).await, ("first", 10));
    queue.shut_down();
    queue.add_after("third", ms(1));
    assert!(queue.next().await.is_none());
    assert_eq!(since.ms(), 10);
}

#[tokio::test(start_paused = true)]
async fn wqu_010_a_key_whose_delay_is_over_does_not_wait_at_shutdown() {
    let ends: [fn(&WorkQueue<&'static str>); 2] =
        [WorkQueue::shut_down, |queue| drop(queue.drain(crate::DrainDelayed::Discard))];
    for end in ends {
        let queue = WorkQueue::new();
        queue.add_after("due", ms(10));
        queue.add_after("waiting", ms(30));
        // No worker waits for them.
        step(ms(20)).await;
        end(&queue);
        assert_eq!(take_all(&queue), ["due"]);
        assert!(queue.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn dq_002_the_time_is_fixed_when_the_key_is_added() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("a", ms(50));
    step(ms(30)).await;
    assert_eq!(arrival(&queue, &since).await, ("a", 50));
    queue.add_after("b", ms(50));
    step(ms(500)).await;
    assert_eq!(arrival(&queue, &since).await, ("b", 550), "it was ready long ago");
}

#[tokio::test(start_paused = true)]
async fn dq_003_adding_never_waits_however_many_keys_do() {
    let queue = WorkQueue::new();
    (0..100_000).for_each(|key: u32| queue.add_after(key, ms(u64::from(key % 977) + 1)));
    assert_eq!(queue.stats().delayed, 100_000);
    step(secs(1)).await;
    let mut keys = take_all(&queue);
    assert!(keys.is_sorted_by_key(|key| key % 977));
    keys.sort_unstable();
    assert_eq!(keys, Vec::from_iter(0..100_000));
}

#[tokio::test(start_paused = true)]
async fn qhc_08_delayed_adds_never_block_without_workers() {
    let queue = WorkQueue::new();
    queue.add_after(0, ms(1));
    step(secs(1)).await;
    (1..5000).for_each(|key: u32| queue.add_after(key, secs(1)));
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.delayed), (1, 4999));
}

#[tokio::test(start_paused = true)]
async fn dq_004_keys_become_ready_the_earliest_first() {
    let queue = WorkQueue::new();
    let since = Since::now();
    [("c", 3000), ("a", 1), ("d", 3_600_000), ("b", 64)]
        .into_iter()
        .for_each(|(key, wait)| queue.add_after(key, ms(wait)));
    for expected in [("a", 1), ("b", 64), ("c", 3000), ("d", 3_600_000)] {
        assert_eq!(arrival(&queue, &since).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn dq_004_a_due_key_precedes_later_adds() {
    let queue = WorkQueue::new();
    queue.add("held");
    let held = queue.try_next().unwrap();
    queue.add_after("due", ms(10));
    step(ms(20)).await;
    queue.add("held");
    queue.add("new");
    held.done();
    assert_eq!(take_all(&queue), ["due", "new", "held"]);
}

#[tokio::test(start_paused = true)]
async fn dq_005_a_key_due_at_once_is_ready_at_once() {
    let queue = WorkQueue::new();
    queue.add_after("later", secs(1));
    queue.add_all(["a", "b"], AddOptions::new().after(Duration::ZERO));
    assert_eq!((queue.len(), queue.stats().delayed), (2, 1));
    assert_eq!(take_all(&queue), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn dq_006_an_idle_queue_arms_no_timer_and_a_waiting_one_arms_one() {
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.map(done) })
        })
        .collect();
    step(secs(60)).await;
    assert_eq!(clock.timers(), 0, "workers that wait for nothing in particular need no timer");
    queue.add_after("a", secs(1));
    settle().await;
    assert_eq!(clock.timers(), 1, "one of them keeps the time");
    step(secs(60)).await;
    assert_eq!(clock.timers(), 1);
    queue.shut_down();
    let mut got = Vec::new();
    for worker in workers {
        got.extend(worker.await.unwrap());
    }
    assert_eq!(got, ["a"]);
    assert_eq!(clock.timers(), 1);
}

#[tokio::test(start_paused = true)]
async fn dq_006_delayed_keys_arm_no_timer_without_waiting_workers() {
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    (0..100).for_each(|key| queue.add_after(key, secs(key)));
    step(secs(200)).await;
    assert_eq!(queue.len(), 100);
    assert_eq!(clock.timers(), 0);
}

#[test]
fn qhc_09_a_timer_that_never_fires_does_not_hide_due_keys() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add_after("a", secs(1));
    let mut next = queue.next();
    assert!(poll(&mut next).is_pending());
    clock.step(secs(10));
    assert_eq!(queue.len(), 1);
    assert!(poll(&mut next).is_ready());
}

#[tokio::test(start_paused = true)]
async fn dq_007_a_key_is_ready_after_its_delay_and_not_before() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50));
    assert_eq!(queue.len(), 0);
    step(ms(49)).await;
    assert_eq!(queue.len(), 0);
    step(ms(11)).await;
    assert_eq!(queue.len(), 1);
    assert_eq!(take_all(&queue), ["foo"]);
    step(secs(10)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_007_no_delay_is_ever_cut_short_not_even_by_less_than_a_tick() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    clock.step(Duration::from_nanos(19_900));
    queue.add_after("a", Duration::from_nanos(500));
    clock.step(Duration::from_nanos(499));
    assert_eq!(queue.len(), 0);
    clock.step(Duration::from_nanos(1));
    assert_eq!(queue.len(), 0);
    clock.step(Duration::from_micros(20));
    assert_eq!(queue.len(), 1, "at the next tick");
    queue.add_after("never", Duration::MAX);
    clock.step(secs(365 * 24 * 3600));
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn dq_007_delays_and_failures_hold_in_a_queue_that_is_decades_old() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add_after("never", Duration::MAX);
    clock.step(secs(3600 * 24 * 365 * 44));
    queue.add_after("later", secs(60));
    assert_eq!(queue.len(), 0);
    clock.step(secs(60));
    for _ in 0..10 {
        while queue.is_empty() {
            clock.step(secs(1));
        }
        let item = queue.try_next().unwrap();
        assert_eq!(*item.key(), "later");
        item.retry("broken");
    }
    assert_eq!(queue.failures(&"later"), 10);
}

#[tokio::test(start_paused = true)]
async fn dq_008_a_later_time_is_ignored() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(70));
    assert_eq!(queue.stats().delayed, 1);
    step(ms(60)).await;
    assert_eq!(take_all(&queue), ["foo"]);
    step(ms(20)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_009_an_earlier_time_holds() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(30));
    assert_eq!(arrival(&queue, &since).await, ("foo", 30));
    step(secs(1)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_009_a_worker_that_waits_for_the_later_time_is_woken_for_the_earlier_one() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("foo", secs(50));
    let mut next = queue.next();
    tokio::select! {
        biased;
        _ = &mut next => panic!("too soon"),
        () = step(secs(1)) => {}
    }
    queue.add_after("foo", secs(2));
    next.await.unwrap().done();
    assert_eq!(since.ms(), 3000);
}

#[tokio::test(start_paused = true)]
async fn qhc_07_the_earliest_of_three_times_wins() {
    let queue = WorkQueue::new();
    [50, 30, 70].into_iter().for_each(|wait| queue.add_after("a", ms(wait)));
    step(ms(40)).await;
    assert_eq!(take_all(&queue), ["a"]);
    step(ms(60)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn wqu_009_a_key_delayed_twice_is_ready_once_at_the_earlier_time() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("a", ms(30));
    queue.add_after("b", ms(20));
    queue.add_after("a", ms(10));
    assert_eq!(arrival(&queue, &since).await, ("a", 10));
    assert_eq!(arrival(&queue, &since).await, ("b", 20));
    step(secs(1)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_010_keys_are_in_the_order_of_their_times_also_after_a_clock_jump() {
    let queue = WorkQueue::new();
    [("c", 1000), ("b", 500), ("a", 250)].into_iter().for_each(|(key, wait)| queue.add_after(key, ms(wait)));
    tokio::time::advance(secs(2)).await;
    assert_eq!(take_all(&queue), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn dq_011_keys_of_one_time_are_in_insertion_order() {
    let queue = WorkQueue::new();
    (0..5000).for_each(|key| queue.add_after(key, ms(100)));
    step(ms(60)).await;
    (5000..5100).for_each(|key| queue.add_after(key, ms(40)));
    step(ms(39)).await;
    (5100..5200).for_each(|key| queue.add_after(key, ms(1)));
    step(secs(1)).await;
    assert_eq!(take_all(&queue), Vec::from_iter(0..5200));
}

#[tokio::test(start_paused = true)]
async fn dq_012_an_add_does_not_end_the_wait() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("a", secs(3600));
    queue.add("a");
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(arrival(&queue, &since).await, ("a", 3_600_000));
}

#[tokio::test(start_paused = true)]
async fn dq_012_with_merging_the_earliest_time_wins() {
    let queue = WorkQueue::builder().on_readd(OnReadd::Merge).build();
    queue.add_after("a", secs(3600));
    queue.add("a");
    assert_eq!(queue.stats().delayed, 0);
    assert_eq!(take_all(&queue), ["a"]);
    step(secs(7200)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn qhc_06_an_add_during_the_wait_is_one_more_run_or_the_only_one() {
    for (pending, again) in [(OnReadd::Keep, 1), (OnReadd::Merge, 0)] {
        let queue = WorkQueue::builder().on_readd(pending).build();
        queue.add_after("a", secs(3600));
        queue.add("a");
        assert_eq!(take(&queue), "a");
        step(secs(3600)).await;
        assert_eq!(queue.len(), again);
    }
}

#[tokio::test(start_paused = true)]
async fn dq_013_a_key_due_while_dirty_is_handed_out_once() {
    let (log, storage) = logged_order();
    let queue = WorkQueue::builder().ready_order(storage).build();
    queue.add_after("a", ms(10));
    queue.add("a");
    step(ms(20)).await;
    assert_eq!(queue.len(), 1);
    assert_eq!(log.take(), ["push a", "touch a"], "it is an add like any other");
    let item = queue.try_next().unwrap();
    queue.add_after("a", ms(10));
    step(ms(20)).await;
    assert_eq!((queue.len(), queue.stats().depth), (0, 1));
    queue.add("a");
    item.done();
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(log.take(), ["push a"]);
}

#[tokio::test(start_paused = true)]
async fn dq_014_shut_down_discards_delayed_keys() {
    let queue = WorkQueue::new();
    queue.add_after("a", ms(10));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    settle().await;
    queue.shut_down();
    queue.shut_down();
    assert!(worker.await.unwrap());
    step(secs(1)).await;
    assert_eq!((queue.len(), queue.stats().delayed), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn wqu_010_delayed_keys_are_discarded_at_shut_down() {
    let queue = WorkQueue::new();
    queue.add_after("waits", ms(1));
    queue.add("ready");
    queue.shut_down();
    step(ms(5)).await;
    assert_eq!(take_all(&queue), ["ready"]);
}

#[tokio::test(start_paused = true)]
async fn dq_015_a_discarding_drain_drops_delayed_keys_at_once() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("a", secs(3600));
    let mut next = queue.next();
    assert!(poll(&mut next).is_pending());
    assert_eq!(queue.drain(DrainDelayed::Discard).await, Ok(()));
    assert!(next.await.is_none());
    assert_eq!(since.ms(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_015_a_flushing_drain_hands_delayed_keys_to_waiting_workers() {
    let queue = WorkQueue::new();
    let since = Since::now();
    [("b", 20), ("a", 10)].into_iter().for_each(|(key, wait)| queue.add_after(key, secs(wait)));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut keys = Vec::new();
                while let Some(item) = queue.next().await {
                    keys.push(*item.key());
                }
                keys
            })
        })
        .collect();
    settle().await;
    assert_eq!(queue.drain(DrainDelayed::Flush).await, Ok(()));
    let mut keys = Vec::new();
    for worker in workers {
        keys.extend(worker.await.unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(since.ms(), 0);
}

#[tokio::test(start_paused = true)]
async fn qhc_10_after_a_drain_no_task_and_no_key_remains() {
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add_after("a", secs(3600));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    settle().await;
    queue.drain(DrainDelayed::Discard).await.unwrap();
    assert!(worker.await.unwrap());
    let timers = clock.timers();
    step(secs(7200)).await;
    assert!(queue.try_next().is_none());
    assert_eq!((queue.stats().delayed, clock.timers()), (0, timers));
}

#[tokio::test(start_paused = true)]
async fn dq_016_delays_work_with_any_ready_order_and_clock() {
    let clock = HandClock::new();
    let (log, storage) = logged_order();
    let queue = WorkQueue::builder().name("dq-016").clock(clock.clone()).ready_order(storage).build();
    queue.add_after("a", secs(1));
    assert!(log.take().is_empty(), "a storage has nothing to do with keys that wait");
    clock.step(secs(1));
    assert_eq!(queue.len(), 1);
    assert_eq!(log.take(), ["push a"]);
    assert_eq!(queue.stats().retries, 1);
}

#[tokio::test(start_paused = true)]
async fn dq_017_delayed_keys_do_not_count_as_queued() {
    let queue = WorkQueue::new();
    queue.add_after("a", ms(1));
    queue.add("b");
    let stats = queue.stats();
    assert_eq!((queue.len(), stats.depth, stats.delayed), (1, 1, 1));
}
