//! Failures and backoff of keys.

use super::*;
use crate::compat::FastSlow;
use crate::limiter::{Exponential, RateLimiter, default_controller_limiter};
use crate::{AddOptions, Item};

const FIRST: u64 = 1;

/// 1 ms, 2 ms, 4 ms and so on.
fn doubling() -> crate::QueueBuilder<&'static str> {
    WorkQueue::builder().limiter(Exponential::new(ms(FIRST), secs(1000)))
}

/// Waits for a key and returns it with the wait in virtual milliseconds.
async fn next(queue: &WorkQueue<&'static str>) -> (Item<&'static str>, u64) {
    let since = Since::now();
    let item = queue.next().await.unwrap();
    (item, since.ms())
}

#[tokio::test(start_paused = true)]
async fn rq_001_the_wait_doubles_until_the_failures_are_forgotten() {
    let queue = doubling().build();
    let waits = async |key| {
        queue.add_rate_limited(key);
        let (item, waited) = next(&queue).await;
        item.done();
        waited
    };
    assert_eq!(waits("one").await, 1);
    assert_eq!(waits("one").await, 2);
    assert_eq!(waits("two").await, 1);
    assert_eq!(waits("two").await, 2);
    queue.forget(&"one");
    assert_eq!(waits("one").await, 1);
    assert_eq!(waits("two").await, 4);
}

#[tokio::test(start_paused = true)]
async fn wqu_011_failures_are_counted_forgotten_and_survive_a_plain_finish() {
    let queue = doubling().build();
    queue.add_rate_limited("a");
    assert_eq!(queue.failures(&"a"), 1);
    next(&queue).await.0.done();
    assert_eq!(queue.failures(&"a"), 1, "finishing does not forget");
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(queue.stats().failing, 0);
}

#[tokio::test(start_paused = true)]
async fn rq_002_forget_removes_no_key() {
    let queue = doubling().build();
    queue.add("queued");
    queue.add_rate_limited("waiting");
    ["queued", "waiting", "unknown"].into_iter().for_each(|key| queue.forget(&key));
    let item = queue.try_next().unwrap();
    assert_eq!(item.key(), &"queued");
    queue.forget(item.key());
    assert_eq!(queue.stats().in_flight, 1, "it is still to be finished");
    item.done();
    let (item, waited) = next(&queue).await;
    assert_eq!((*item.key(), item.failures(), waited), ("waiting", 0, 1));
}

#[tokio::test(start_paused = true)]
async fn rq_003_failures_returns_the_count_of_a_key() {
    let queue = doubling().build();
    (0..3).for_each(|_| queue.add_rate_limited("a"));
    queue.add_rate_limited("b");
    assert_eq!([queue.failures(&"a"), queue.failures(&"b"), queue.failures(&"c")], [3, 1, 0]);
    assert_eq!(queue.stats().failing, 2);
    assert_eq!(queue.stats().delayed, 2);
}

/// Counts calls.
#[derive(Clone, Default)]
struct CountedCalls(Arc<AtomicUsize>);

impl RateLimiter<&'static str> for CountedCalls {
    fn when(&self, _: &&'static str, _: u32, _: Instant) -> Duration {
        self.0.fetch_add(1, Ordering::SeqCst);
        ms(1)
    }
}

#[tokio::test(start_paused = true)]
async fn rq_004_after_shut_down_no_failure_is_counted_and_no_limiter_is_called() {
    let calls = CountedCalls::default();
    let queue = WorkQueue::builder().limiter(calls.clone()).build();
    queue.add("held");
    let item = queue.try_next().unwrap();
    queue.shut_down();
    queue.add_rate_limited("a");
    queue.add_all(["a"], AddOptions::new().rate_limited());
    item.retry("too late");
    assert_eq!((queue.failures(&"a"), queue.failures(&"held")), (0, 0));
    assert_eq!(calls.0.load(Ordering::SeqCst), 0);
    assert_eq!(queue.stats().retries, 0);
}

#[tokio::test(start_paused = true)]
async fn rq_005_failures_of_unused_keys_expire() {
    let queue = doubling().remember_failures(secs(60)).build();
    queue.add_rate_limited("a");
    next(&queue).await.0.done();
    step(secs(59)).await;
    assert_eq!(queue.failures(&"a"), 1);
    step(secs(1)).await;
    assert_eq!(queue.failures(&"a"), 0);
    queue.add("a");
    let item = queue.try_next().unwrap();
    assert_eq!(item.failures(), 0);
    item.done();
    assert_eq!(queue.failures(&"a"), 0);
    queue.add_rate_limited("a");
    next(&queue).await.0.done();
    step(secs(61)).await;
    queue.add_rate_limited("a");
    assert_eq!(queue.failures(&"a"), 1, "that was the first one again");
}

#[tokio::test(start_paused = true)]
async fn rq_005_failures_of_delayed_and_readded_keys_are_kept() {
    let queue =
        WorkQueue::builder().limiter(Exponential::new(secs(600), secs(600))).remember_failures(secs(60)).build();
    queue.add_rate_limited("a");
    step(secs(599)).await;
    assert_eq!(queue.failures(&"a"), 1, "it waits");
    let (item, _) = next(&queue).await;
    step(secs(600)).await;
    assert_eq!(queue.failures(&"a"), 1, "a worker has it");
    item.done();
    for _ in 0..5 {
        step(secs(50)).await;
        queue.add("a");
        assert_eq!(take(&queue), "a");
    }
    assert_eq!(queue.failures(&"a"), 1, "it was seen all the time");
}

#[tokio::test(start_paused = true)]
async fn rq_005_expired_failures_use_no_memory() {
    let queue = WorkQueue::builder().remember_failures(secs(60)).build();
    (0..10_000).for_each(|key: u32| queue.add_rate_limited(key));
    step(secs(1)).await;
    assert_eq!(take_all(&queue).len(), 10_000);
    assert_eq!(queue.stats().failing, 10_000);
    step(secs(60)).await;
    for key in 10_000..15_000 {
        queue.add(key);
        take_all(&queue);
    }
    assert_eq!(queue.stats().failing, 0);
}

#[tokio::test(start_paused = true)]
async fn rq_006_a_worker_that_fails_adds_its_key_before_it_finishes_even_with_no_wait() {
    let queue = WorkQueue::builder().limiter(Exponential::new(Duration::ZERO, Duration::ZERO)).build();
    queue.add("a");
    for _ in 0..5 {
        let item = queue.try_next().unwrap();
        queue.add_rate_limited(*item.key());
        assert!(queue.try_next().is_none(), "not before it is finished");
        item.done();
    }
    assert_eq!(queue.failures(&"a"), 5);
    queue.try_next().unwrap().forget();
    assert_eq!((queue.failures(&"a"), queue.stats().depth), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rq_007_a_queue_with_any_ready_order_is_rate_limited() {
    let (_, storage) = logged_order();
    let queue = doubling().name("rq-007").ready_order(storage).build();
    queue.add_rate_limited("a");
    queue.add_rate_limited("b");
    let (item, waited) = next(&queue).await;
    assert_eq!((*item.key(), waited), ("a", 1));
    item.retry("again");
    next(&queue).await.0.done();
    assert_eq!(next(&queue).await.1, 2);
}

#[tokio::test(start_paused = true)]
async fn qhc_11_the_bucket_of_client_go_delays_a_storm() {
    let queue = WorkQueue::builder().limiter(default_controller_limiter()).build();
    let since = Since::now();
    (1..=150).for_each(|key: u32| queue.add_rate_limited(key));
    let mut times = std::collections::HashMap::new();
    for _ in 0..150 {
        let item = queue.next().await.unwrap();
        times.insert(*item.key(), since.ms());
    }
    assert!((1..=100).all(|key| times[&key] == 5));
    assert_eq!((times[&120], times[&150]), (2000, 5000));
}

#[tokio::test(start_paused = true)]
async fn qhc_11_without_a_bucket_a_storm_delays_no_other_key() {
    let queue = WorkQueue::new();
    let since = Since::now();
    (1..=150).for_each(|key: u32| queue.add_rate_limited(key));
    for _ in 1..=150 {
        queue.next().await.unwrap().done();
    }
    assert_eq!(since.ms(), 5);
}

/// Fails a key until its backoff is `wait`.
async fn failing_until(queue: &WorkQueue<&'static str>, wait: u64) {
    queue.add("a");
    let mut backoff = FIRST;
    loop {
        let (item, _) = next(queue).await;
        item.retry("it does not work");
        if backoff == wait {
            return;
        }
        backoff *= 2;
    }
}

#[tokio::test(start_paused = true)]
async fn ask_32_failures_count_when_their_backoff_was_waited_for() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let queue = doubling().on_readd(pending).build();
        queue.add("a");
        next(&queue).await.0.retry("once");
        for failures in 1..15 {
            let (item, waited) = next(&queue).await;
            assert_eq!((item.failures(), waited), (failures, FIRST << (failures - 1)));
            item.retry("again");
        }
        assert_eq!(queue.failures(&"a"), 15);
    }
}

#[tokio::test(start_paused = true)]
async fn ask_32_an_unrelated_add_neither_counts_nor_moves_the_deadline() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    let since = Since::now();
    for _ in 0..20 {
        step(ms(2)).await;
        queue.add("a");
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 0);
        item.retry("still not");
        assert_eq!(queue.failures(&"a"), 7);
    }
    let (item, _) = next(&queue).await;
    assert_eq!(since.ms(), 64, "the deadline of the failure that counted");
    item.retry("this one counts");
    assert_eq!(queue.failures(&"a"), 8);
    assert_eq!(next(&queue).await.1, 128);
}

#[tokio::test(start_paused = true)]
async fn ask_32_with_merging_an_unrelated_add_does_not_count_either() {
    let queue = doubling().on_readd(OnReadd::Merge).build();
    failing_until(&queue, 64).await;
    let since = Since::now();
    for _ in 0..20 {
        step(ms(2)).await;
        queue.add("a");
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 0);
        item.retry("still not");
        assert_eq!(queue.failures(&"a"), 7);
    }
    let (item, _) = next(&queue).await;
    assert_eq!(since.ms(), 64, "the deadline of the failure that counted");
    item.retry("this one counts");
    assert_eq!(queue.failures(&"a"), 8);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_failure_after_a_delayed_add_that_cut_the_backoff_does_not_count() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let queue = doubling().on_readd(pending).build();
        failing_until(&queue, 64).await;
        queue.add_after("a", ms(10));
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 10);
        item.retry("too soon");
        assert_eq!(queue.failures(&"a"), 7);
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 64);
        item.retry("in time");
        assert_eq!(queue.failures(&"a"), 8);
    }
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_later_add_does_not_make_the_backoff_look_cut_short() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    queue.add_after("a", ms(100));
    let (item, waited) = next(&queue).await;
    assert_eq!(waited, 64);
    item.retry("in time");
    assert_eq!(queue.failures(&"a"), 8);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_backoff_that_is_longer_than_a_wait_is_cut_short_by_it() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    let (item, _) = next(&queue).await;
    queue.add_after("a", ms(10));
    item.retry("while another wait is on");
    assert_eq!(queue.failures(&"a"), 8);
    let (item, waited) = next(&queue).await;
    assert_eq!(waited, 10);
    item.retry("too soon");
    assert_eq!(queue.failures(&"a"), 8);
    assert_eq!(next(&queue).await.1, 128);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_key_that_was_added_while_it_failed_does_not_count_when_it_fails_at_once() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let queue = doubling().on_readd(pending).build();
        failing_until(&queue, 64).await;
        let (item, _) = next(&queue).await;
        queue.add("a");
        item.retry("and it was added meanwhile");
        assert_eq!(queue.failures(&"a"), 8);
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 0);
        item.retry("at once");
        assert_eq!(queue.failures(&"a"), 8, "{pending:?}");
        let (item, waited) = next(&queue).await;
        assert_eq!(waited, 128);
        item.retry("in time");
        assert_eq!(queue.failures(&"a"), 9);
    }
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_key_made_ready_early_stays_early_despite_delayed_adds() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    queue.add_after("a", ms(10));
    step(ms(11)).await;
    assert_eq!(queue.len(), 1);
    queue.add_after("a", secs(5));
    queue.try_next().unwrap().retry("too soon");
    assert_eq!(queue.failures(&"a"), 7);
    assert_eq!(next(&queue).await.1, 64);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_key_taken_after_the_end_of_its_backoff_counts() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let queue = doubling().on_readd(pending).build();
        failing_until(&queue, 64).await;
        queue.add("a");
        step(ms(64)).await;
        queue.try_next().unwrap().retry("late enough");
        assert_eq!(queue.failures(&"a"), 8);
    }
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_success_resets_the_backoff() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    queue.add("a");
    next(&queue).await.0.forget();
    let (item, waited) = next(&queue).await;
    assert_eq!((item.failures(), waited), (0, 64), "the wait continues, the failures are cleared");
    item.retry("first");
    assert_eq!(queue.failures(&"a"), 1);
    assert_eq!(next(&queue).await.1, 1);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_failure_after_the_failures_were_forgotten_is_the_first() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    queue.add("a");
    let (item, _) = next(&queue).await;
    queue.forget(&"a");
    item.retry("first");
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_worker_that_calls_add_rate_limited_is_treated_alike() {
    let queue = doubling().build();
    failing_until(&queue, 64).await;
    let since = Since::now();
    queue.add("a");
    let (item, _) = next(&queue).await;
    queue.add_rate_limited("a");
    item.done();
    assert_eq!(queue.failures(&"a"), 7);
    next(&queue).await.0.done();
    assert_eq!(since.ms(), 64);
}

#[tokio::test(start_paused = true)]
async fn ask_32_a_failure_that_does_not_count_takes_nothing_from_the_limiter() {
    let calls = CountedCalls::default();
    let queue = WorkQueue::builder().limiter(calls.clone()).build();
    queue.add("a");
    next(&queue).await.0.retry("counts");
    for _ in 0..10 {
        queue.add("a");
        queue.try_next().unwrap().retry("does not");
    }
    assert_eq!(calls.0.load(Ordering::SeqCst), 1);
    assert_eq!(queue.stats().retries, 11, "it was added for later all the same");
    let (item, waited) = next(&queue).await;
    assert_eq!((item.failures(), waited), (1, 1));
    item.retry("counts");
    assert_eq!(calls.0.load(Ordering::SeqCst), 2);
}

/// Waits for the next key with a manual clock. Returns how long that took.
fn wait_for(queue: &WorkQueue<&'static str>, clock: &HandClock) -> Duration {
    let mut waited = Duration::ZERO;
    while queue.is_empty() {
        clock.step(ms(1));
        waited += ms(1);
    }
    waited
}

#[test]
fn ask_32_a_key_that_is_added_once_while_it_fails_backs_off_more_and_more() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let clock = HandClock::new();
        let queue = WorkQueue::builder().clock(clock.clone()).on_readd(pending).build();
        queue.add("a");
        let mut idle = Duration::ZERO;
        for run in 0..20 {
            idle += wait_for(&queue, &clock);
            let item = queue.try_next().unwrap();
            if run == 0 {
                queue.add("a");
            }
            clock.step(ms(100));
            item.retry("broken");
        }
        assert!(queue.failures(&"a") > 10, "{pending:?}: {} failures", queue.failures(&"a"));
        assert!(idle > secs(100), "{pending:?}: {idle:?}");
    }
}

#[test]
fn ask_32_an_add_during_the_backoff_does_not_end_backing_off() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let clock = HandClock::new();
        let queue = WorkQueue::builder().clock(clock.clone()).on_readd(pending).build();
        queue.add("a");
        queue.try_next().unwrap().retry("broken");
        queue.add("a");
        for _ in 0..20 {
            wait_for(&queue, &clock);
            let item = queue.try_next().unwrap();
            clock.step(ms(100));
            item.retry("broken");
        }
        assert!(queue.failures(&"a") > 10, "{pending:?}: {} failures", queue.failures(&"a"));
    }
}

#[test]
fn ask_32_each_failure_is_followed_by_a_wait_even_if_work_takes_longer_than_the_backoff() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let clock = HandClock::new();
        let always = FastSlow::new(ms(5), ms(5), 1);
        let queue = WorkQueue::builder().clock(clock.clone()).on_readd(pending).limiter(always).build();
        queue.add("a");
        queue.try_next().unwrap().retry("broken");
        queue.add("a");
        for run in 0..20 {
            let waited = wait_for(&queue, &clock);
            assert_eq!(waited, if run == 0 { ms(0) } else { ms(5) }, "{pending:?}, run {run}");
            let item = queue.try_next().unwrap();
            clock.step(ms(100));
            item.retry("broken");
        }
        assert_eq!(queue.failures(&"a"), 21);
    }
}

#[test]
fn ask_32_what_is_added_while_a_key_fails_is_still_handed_out_at_once() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add("a");
    queue.try_next().unwrap().retry("broken");
    queue.add("a");
    let item = queue.try_next().unwrap();
    clock.step(ms(100));
    assert_eq!((queue.len(), queue.stats().depth), (0, 1), "its backoff is over");
    queue.add("a");
    item.retry("broken");
    assert_eq!((queue.len(), queue.stats().delayed), (1, 1), "it was added, and it has failed");
}

#[test]
fn ask_32_if_the_work_succeeds_a_retry_that_became_due_meanwhile_is_handed_out() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add("a");
    queue.try_next().unwrap().retry("broken");
    queue.add("a");
    let item = queue.try_next().unwrap();
    clock.step(ms(100));
    item.forget();
    assert_eq!(queue.len(), 1);
}

/// A queue whose failures expire after ten seconds, with a key that has failed and is idle.
fn queue_with_idle_failure(key: &Arc<str>) -> WorkQueue<Arc<str>> {
    let queue = WorkQueue::builder().remember_failures(secs(10)).build();
    queue.add(key.clone());
    queue.try_next().unwrap().requeue();
    queue
}

#[tokio::test(start_paused = true)]
async fn failures_of_idle_keys_expire_by_time_while_a_worker_waits() {
    let key: Arc<str> = "a".into();
    let queue = queue_with_idle_failure(&key);
    let item = queue.next().await.unwrap();
    assert_eq!(item.failures(), 1);
    item.done();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    let failing = || queue.shared.look(|state| state.machine.failing());
    step(ms(9_900)).await;
    assert_eq!((failing(), Arc::strong_count(&key)), (1, 2));
    step(ms(200)).await;
    assert_eq!((failing(), Arc::strong_count(&key)), (0, 1), "nothing has finished, and the key is released");
    queue.shut_down();
    assert!(worker.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn failures_of_idle_keys_expire_without_a_worker_when_the_queue_is_inspected() {
    let key: Arc<str> = "a".into();
    let queue = queue_with_idle_failure(&key);
    step(secs(1)).await;
    done(queue.try_next().unwrap());
    assert_eq!(queue.stats().failing, 1);
    step(secs(11)).await;
    assert_eq!((queue.stats().failing, Arc::strong_count(&key)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn many_failures_that_expire_at_once_are_removed_in_bounded_batches() {
    let queue = WorkQueue::builder().remember_failures(secs(10)).build();
    for key in 0..10_000_u32 {
        queue.add_rate_limited(key);
    }
    step(secs(1)).await;
    assert_eq!(take_all(&queue).len(), 10_000);
    assert_eq!(queue.shared.look(|state| state.machine.failing()), 10_000);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(done) }
    });
    step(secs(11)).await;
    assert_eq!(queue.shared.look(|state| state.machine.failing()), 0);
    queue.add(7);
    assert_eq!(worker.await.unwrap(), Some(7));
}
