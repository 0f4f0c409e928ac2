//! Items and their verdicts.

use super::*;
use crate::limiter::{Exponential, RateLimiter};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::builder().limiter(Exponential::new(ms(10), secs(1000))).build()
}

/// A worker that holds an item and continues as the test decides.
fn hold(queue: &WorkQueue<&'static str>) -> tokio::task::JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(async move {
        let _item = queue.next().await;
        std::future::pending::<()>().await;
    })
}

#[tokio::test(start_paused = true)]
async fn wq_015_a_done_item_is_finished_and_keeps_its_failures() {
    let queue = queue();
    queue.add_rate_limited("a");
    step(ms(10)).await;
    queue.try_next().unwrap().done();
    let stats = queue.stats();
    assert_eq!((stats.in_flight, stats.depth, stats.delayed, stats.failing), (0, 0, 0, 1));
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn wq_016_an_item_is_finished_once_by_any_verdict() {
    let queue = queue();
    for finish in [Item::forget, |item: Item| item.retry("x"), |item: Item| item.retry_after(secs(1)), drop] {
        queue.add("a");
        let item = queue.try_next().unwrap();
        queue.add("a");
        finish(item);
        let again = queue.try_next().unwrap();
        assert!(queue.try_next().is_none(), "one worker has it, and no second copy is there");
        again.forget();
        assert_eq!(queue.stats().in_flight, 0);
    }
}

type Item = crate::Item<&'static str>;

#[tokio::test(start_paused = true)]
async fn qhc_03_two_workers_never_hold_a_key_that_was_finished_and_added_again() {
    let queue = queue();
    queue.add("a");
    let item = queue.next().await.unwrap();
    queue.add("a");
    item.forget();
    let held = queue.next().await.unwrap();
    let mut second = queue.next();
    assert!(poll(&mut second).is_pending());
    held.done();
    assert!(poll(&mut second).is_pending());
}

/// Records the calls of `forget`.
#[derive(Clone, Default)]
struct Forgotten(Arc<Mutex<Vec<&'static str>>>);

impl RateLimiter<&'static str> for Forgotten {
    fn when(&self, _: &&'static str, failures: u32, _: Instant) -> Duration {
        ms(10) * failures
    }

    fn forget(&self, key: &&'static str) {
        self.0.lock().unwrap().push(key);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_set_its_own_wait_and_counts() {
    let queue = WorkQueue::builder().limiter(Forgotten::default()).build();
    queue.add("a");
    let since = Since::now();
    queue.next().await.unwrap().fail_after(ms(300), "not before");
    let item = queue.next().await.unwrap();
    assert_eq!((item.failures(), since.ms()), (1, 300));
    item.retry("fails");
    let item = queue.next().await.unwrap();
    assert_eq!((item.failures(), since.ms()), (2, 320), "the backoff has grown");
    queue.shut_down();
    item.fail_after(ms(300), "too late");
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn verdicts_of_an_item_set_wait_and_failures() {
    let limiter = Forgotten::default();
    let queue = WorkQueue::builder().limiter(limiter.clone()).build();
    let next = async || {
        let since = Since::now();
        let item = queue.next().await.unwrap();
        (item.failures(), item, since.ms())
    };
    queue.add("a");
    next().await.1.retry("fails");
    let (failures, item, waited) = next().await;
    assert_eq!((failures, waited), (1, 10));
    item.retry_after(ms(3));
    let (failures, item, waited) = next().await;
    assert_eq!((failures, waited), (1, 3), "neither more nor less failures");
    item.retry("fails");
    let (failures, item, waited) = next().await;
    assert_eq!((failures, waited), (2, 20));
    assert!(limiter.0.lock().unwrap().is_empty());
    item.requeue_after(ms(7));
    assert_eq!(*limiter.0.lock().unwrap(), ["a"]);
    let (failures, item, waited) = next().await;
    assert_eq!((failures, waited), (0, 7), "it went well");
    item.retry("fails");
    next().await.1.forget();
    assert_eq!(limiter.0.lock().unwrap().len(), 2);
    assert_eq!((queue.failures(&"a"), queue.stats().failing, queue.stats().delayed), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_retried_without_delay_is_ready_when_its_item_is_finished() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.try_next().unwrap().retry_after(Duration::ZERO);
    assert_eq!(take_all(&queue), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_panicking_task_is_retried() {
    let queue = queue();
    queue.add("a");
    for failures in 0..3 {
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move {
                let item = queue.next().await.unwrap();
                assert_eq!(item.failures(), failures);
                panic!("on purpose");
            }
        });
        assert!(worker.await.unwrap_err().is_panic());
        assert_eq!(queue.failures(&"a"), failures + 1);
        assert_eq!(queue.stats().in_flight, 0);
    }
    let since = Since::now();
    let item = queue.next().await.unwrap();
    assert_eq!(since.ms(), 40);
    item.forget();
}

#[tokio::test(start_paused = true)]
async fn a_panicking_task_does_not_block_a_drain() {
    let queue = queue();
    queue.add("a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.next().await.unwrap();
            step(secs(1)).await;
            panic!("on purpose");
        }
    });
    settle().await;
    assert_eq!(queue.drain(DrainDelayed::Flush).await, Ok(()));
    assert!(worker.await.is_err());
    assert_eq!(queue.failures(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_worker_is_cancelled_is_retried_after_its_backoff() {
    let queue = queue();
    queue.add("a");
    let worker = hold(&queue);
    settle().await;
    worker.abort();
    assert!(worker.await.unwrap_err().is_cancelled());
    assert_eq!((queue.failures(&"a"), queue.stats().delayed, queue.stats().in_flight), (1, 1, 0));
    let since = Since::now();
    let item = queue.next().await.unwrap();
    assert_eq!((item.failures(), since.ms()), (1, 10));
    item.forget();
    assert_eq!((queue.failures(&"a"), queue.stats().delayed), (0, 0), "an item has one verdict");
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_worker_returns_early_is_retried_after_its_backoff() {
    fn work(item: Item) -> Result<(), std::num::ParseIntError> {
        let _: u32 = item.key().parse()?;
        item.forget();
        Ok(())
    }
    let queue = queue();
    queue.add("a");
    for failures in 1..4 {
        assert!(work(queue.next().await.unwrap()).is_err());
        assert_eq!((queue.failures(&"a"), queue.stats().delayed), (failures, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_done_item_keeps_its_failures_and_is_not_requeued() {
    let queue = queue();
    queue.add("a");
    queue.next().await.unwrap().retry("once");
    queue.next().await.unwrap().done();
    let stats = queue.stats();
    assert_eq!((queue.failures(&"a"), stats.depth, stats.delayed, stats.in_flight), (1, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_item_is_not_retried_during_shutdown() {
    let queue = queue();
    queue.add("a");
    let item = queue.try_next().unwrap();
    let drain = queue.drain(DrainDelayed::Flush);
    drop(item);
    assert_eq!(drain.await, Ok(()));
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_item_can_be_finished_by_another_task_and_outlive_the_handles() {
    let queue = queue();
    queue.add("a");
    let item = queue.next().await.unwrap();
    drop(queue);
    tokio::spawn(async move { item.retry("elsewhere") }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_named_queue_has_the_ready_time_of_its_key() {
    let queue = WorkQueue::rate_limited("waited");
    let waited = || {
        let item = queue.try_next().unwrap();
        let waited = item.waited();
        item.done();
        waited
    };
    queue.add("a");
    step(ms(30)).await;
    assert_eq!(waited(), ms(30));
    queue.add_after("b", ms(10));
    step(ms(30)).await;
    assert_eq!(waited(), ms(20), "from when it was due");
    let item = {
        queue.add("c");
        queue.try_next().unwrap()
    };
    queue.add("c");
    step(ms(5)).await;
    assert_eq!(queue.stats().longest_running, Some(ms(5)));
    item.done();
    assert_eq!(queue.stats().oldest_ready, Some(ms(5)));
    assert_eq!(waited(), ms(5));
    assert_eq!((queue.stats().oldest_ready, queue.stats().longest_running), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_requeued_key_backs_off_and_keeps_its_failures() {
    let queue = queue();
    queue.add("a");
    for wait in [10, 20, 40] {
        queue.next().await.unwrap().requeue();
        let since = Since::now();
        queue.next().await.unwrap().retry_after(ms(0));
        assert_eq!(since.ms(), wait);
    }
    assert_eq!(queue.failures(&"a"), 3);
}
