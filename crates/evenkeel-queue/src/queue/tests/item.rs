//! A key in the hands of a worker, and how it leaves them.

use super::*;
use crate::limiter::{Exponential, RateLimiter};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::builder().limiter(Exponential::new(ms(10), secs(1000))).build()
}

/// A worker that has the key and then is where the test wants it to be.
fn hold(queue: &WorkQueue<&'static str>) -> tokio::task::JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(async move {
        let _item = queue.next().await;
        std::future::pending::<()>().await;
    })
}

#[tokio::test(start_paused = true)]
async fn wq_015_an_item_that_is_dropped_is_finished_and_its_failures_stay() {
    let queue = queue();
    queue.add_rate_limited("a");
    step(ms(10)).await;
    drop(queue.try_next());
    let stats = queue.stats();
    assert_eq!((stats.in_flight, stats.depth, stats.delayed, stats.failing), (0, 0, 0, 1));
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn wq_016_an_item_is_finished_once_whatever_is_said_of_it() {
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
    drop(held);
    assert!(poll(&mut second).is_pending());
}

/// Remembers what it was told to forget.
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
async fn an_item_says_how_it_went() {
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
async fn a_key_that_comes_back_at_once_is_handed_out_when_the_item_is_gone() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.try_next().unwrap().retry_after(Duration::ZERO);
    assert_eq!(take_all(&queue), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_has_failed_and_its_key_comes_back() {
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
async fn a_task_that_panics_after_the_end_does_not_hold_up_a_drain() {
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
async fn a_worker_that_is_cancelled_has_finished_unless_it_is_asked_to_try_again() {
    let plain = queue();
    plain.add("a");
    let worker = hold(&plain);
    settle().await;
    worker.abort();
    assert!(worker.await.unwrap_err().is_cancelled());
    let stats = plain.stats();
    assert_eq!((stats.in_flight, stats.delayed, plain.failures(&"a")), (0, 0, 0));

    let again = WorkQueue::builder().limiter(Exponential::new(ms(10), secs(1))).retry_dropped(true).build();
    again.add("a");
    let worker = hold(&again);
    settle().await;
    worker.abort();
    assert!(worker.await.unwrap_err().is_cancelled());
    assert_eq!((again.failures(&"a"), again.stats().delayed), (1, 1));
    let since = Since::now();
    let item = again.next().await.unwrap();
    assert_eq!((item.failures(), since.ms()), (1, 10));
    item.forget();
    assert_eq!((again.failures(&"a"), again.stats().delayed), (0, 0), "what was said is not said again");
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
async fn an_item_knows_how_long_its_key_was_ready_if_the_queue_has_a_name() {
    let queue = WorkQueue::rate_limited("waited");
    queue.add("a");
    step(ms(30)).await;
    assert_eq!(queue.try_next().unwrap().waited(), ms(30));
    queue.add_after("b", ms(10));
    step(ms(30)).await;
    assert_eq!(queue.try_next().unwrap().waited(), ms(20), "from when it was due");
    let item = {
        queue.add("c");
        queue.try_next().unwrap()
    };
    queue.add("c");
    step(ms(5)).await;
    assert_eq!(queue.stats().longest_running, Some(ms(5)));
    drop(item);
    assert_eq!(queue.stats().oldest_ready, Some(ms(5)));
    assert_eq!(queue.try_next().unwrap().waited(), ms(5));
    assert_eq!((queue.stats().oldest_ready, queue.stats().longest_running), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_requeued_comes_back_later_each_time_and_forgets_nothing() {
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
