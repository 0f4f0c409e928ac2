//! Drains and shutdown.

use tokio::task::JoinHandle;

use super::*;
use crate::{Drain, DrainError};

fn spawn(drain: Drain<&'static str>) -> JoinHandle<Result<(), DrainError>> {
    tokio::spawn(drain.into_future())
}

#[tokio::test(start_paused = true)]
async fn wq_020_a_drain_waits_for_the_workers() {
    let queue = WorkQueue::new();
    ["foo", "bar"].into_iter().for_each(|key| queue.add(key));
    let items = [queue.next().await.unwrap(), queue.next().await.unwrap()];
    let drain = spawn(queue.drain(DrainDelayed::Discard));
    for item in items {
        step(secs(3600)).await;
        assert!(!drain.is_finished(), "a worker still has a key");
        item.done();
    }
    assert_eq!(drain.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn wq_021_a_drain_waits_for_readded_keys() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.next().await.unwrap();
    queue.add("foo");
    let drain = spawn(queue.drain(DrainDelayed::Discard));
    item.done();
    settle().await;
    assert!(!drain.is_finished(), "not at the first end of the work");
    let again = queue.next().await.unwrap();
    settle().await;
    assert!(!drain.is_finished());
    again.done();
    assert_eq!(drain.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn wqu_006_a_drain_waits_for_queued_and_readded_keys() {
    let queue = WorkQueue::new();
    ["taken", "queued"].into_iter().for_each(|key| queue.add(key));
    let item = queue.next().await.unwrap();
    queue.add("taken");
    let drain = spawn(queue.drain(DrainDelayed::Discard));
    item.done();
    for key in ["queued", "taken"] {
        settle().await;
        assert!(!drain.is_finished());
        assert_eq!(take(&queue), key);
    }
    assert_eq!(drain.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn wq_022_shut_down_releases_a_drain() {
    let queue = WorkQueue::new();
    ["foo", "queued"].into_iter().for_each(|key| queue.add(key));
    let item = queue.next().await.unwrap();
    let drains = [spawn(queue.drain(DrainDelayed::Discard)), spawn(queue.drain(DrainDelayed::Flush))];
    settle().await;
    queue.shut_down();
    for drain in drains {
        assert_eq!(drain.await.unwrap(), Err(DrainError::ShutDown { ready: 1, in_flight: 1 }));
    }
    item.forget();
    assert_eq!(take_all(&queue), ["queued"], "what is there is still handed out");
}

#[tokio::test(start_paused = true)]
async fn wqu_005_shut_down_does_not_wait_and_a_drain_waits_until_shut_down() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    queue.shut_down();
    queue.add("b");
    assert_eq!((queue.len(), queue.stats().in_flight), (0, 1));
    let drain = queue.drain(DrainDelayed::Discard).await;
    assert_eq!(drain, Err(DrainError::ShutDown { ready: 0, in_flight: 1 }), "it is too late for that");
    item.done();

    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let drain = spawn(queue.drain(DrainDelayed::Discard));
    settle().await;
    assert!(!drain.is_finished());
    queue.shut_down();
    assert!(drain.await.unwrap().is_err());
    item.done();
}

#[tokio::test(start_paused = true)]
async fn wq_023_a_drain_waits_for_ready_keys() {
    let queue = WorkQueue::new();
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    let drain = spawn(queue.drain(DrainDelayed::Discard));
    for key in ["a", "b"] {
        step(secs(1)).await;
        assert!(!drain.is_finished());
        let item = queue.next().await.unwrap();
        assert_eq!(item.key(), &key);
        item.forget();
    }
    assert_eq!(drain.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn qhc_02_a_drain_without_workers_ends_with_its_deadline() {
    let queue = WorkQueue::new();
    let since = Since::now();
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    let undrained = queue.drain(DrainDelayed::Discard).within(ms(100)).await;
    assert_eq!(undrained, Err(DrainError::OutOfTime { ready: 2, in_flight: 0 }));
    assert_eq!(since.ms(), 100);
    let drain = spawn(queue.drain(DrainDelayed::Discard).within(ms(100)));
    assert_eq!(take_all(&queue), ["a", "b"], "draining continues");
    assert_eq!(drain.await.unwrap(), Ok(()));
    assert_eq!(since.ms(), 100);
}

#[tokio::test(start_paused = true)]
async fn wq_023_the_deadline_counts_from_when_it_was_set() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let since = Since::now();
    let drain = queue.drain(DrainDelayed::Discard).within(secs(10));
    step(secs(4)).await;
    assert_eq!(drain.await, Err(DrainError::OutOfTime { ready: 0, in_flight: 1 }));
    assert_eq!(since.ms(), 10_000);
    item.done();
    let unlimited = queue.drain(DrainDelayed::Discard).within(Duration::MAX);
    assert_eq!(unlimited.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn wq_024_all_drains_are_woken() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let drains: Vec<_> = (0..10).map(|_| spawn(queue.drain(DrainDelayed::Discard))).collect();
    let mut given_up = queue.drain(DrainDelayed::Discard).into_future();
    assert!(poll(&mut given_up).is_pending());
    drop(given_up);
    settle().await;
    item.done();
    for drain in drains {
        assert_eq!(drain.await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn qhc_04_two_drains_both_return() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let drains = [(); 2].map(|()| spawn(queue.drain(DrainDelayed::Discard).within(secs(1))));
    settle().await;
    item.done();
    for drain in drains {
        assert_eq!(drain.await.unwrap(), Ok(()));
    }
    assert_eq!(since.ms(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_starts_with_the_call_and_rejects_adds() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.next().await.unwrap();
    let drain = queue.drain(DrainDelayed::Discard);
    assert!(queue.is_shutting_down());
    queue.add("b");
    queue.add("a");
    item.retry("while draining");
    assert_eq!(queue.stats().depth, 0);
    assert_eq!(drain.await, Ok(()));
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_drained_at_once() {
    for delayed in [DrainDelayed::Discard, DrainDelayed::Flush] {
        let queue = WorkQueue::<&str>::new();
        assert_eq!(queue.drain(delayed).await, Ok(()));
        assert_eq!(queue.drain(delayed).wait(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn flushed_keys_are_awaited_and_in_the_order_of_their_times() {
    let queue = WorkQueue::new();
    let since = Since::now();
    [("c", 30), ("a", 10), ("b", 20)].into_iter().for_each(|(key, wait)| queue.add_after(key, secs(wait)));
    queue.add("ready");
    let undrained = queue.drain(DrainDelayed::Flush).within(ms(1)).await;
    assert_eq!(undrained, Err(DrainError::OutOfTime { ready: 4, in_flight: 0 }));
    let drain = spawn(queue.drain(DrainDelayed::Flush));
    settle().await;
    assert!(!drain.is_finished());
    assert_eq!(take_all(&queue), ["ready", "a", "b", "c"]);
    assert_eq!(drain.await.unwrap(), Ok(()));
    assert_eq!(since.ms(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_keys_are_flushed_to_one_waiting_worker() {
    let queue = WorkQueue::<u32>::new();
    (0..50_000).for_each(|key| queue.add_after(key, secs(u64::from(key) + 1)));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut keys = Vec::new();
            while let Some(item) = queue.next().await {
                keys.push(*item.key());
            }
            keys
        }
    });
    settle().await;
    assert_eq!(queue.drain(DrainDelayed::Flush).await, Ok(()));
    assert_eq!(worker.await.unwrap(), Vec::from_iter(0..50_000));
}

#[tokio::test(start_paused = true)]
async fn shut_down_discards_keys_of_a_flushing_drain() {
    let queue = WorkQueue::new();
    queue.add_after("a", secs(1));
    let drain = spawn(queue.drain(DrainDelayed::Flush));
    settle().await;
    queue.shut_down();
    assert_eq!(drain.await.unwrap(), Ok(()), "there is nothing left to wait for");
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_discarding_drain_overrides_a_flushing_one() {
    for second_discards in [true, false] {
        let queue = WorkQueue::<&str>::new();
        queue.add_after("later", secs(60));
        let (first, second) = if second_discards {
            (DrainDelayed::Flush, DrainDelayed::Discard)
        } else {
            (DrainDelayed::Discard, DrainDelayed::Flush)
        };
        let first = spawn(queue.drain(first));
        settle().await;
        assert_eq!(queue.drain(second).await, Ok(()));
        assert_eq!(first.await.unwrap(), Ok(()));
        assert!(queue.next().await.is_none());
    }
}
