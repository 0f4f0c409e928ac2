//! SHR-032, SHR-034, SHR-037 and SHR-054: suspended and removed keys, and runs in flight.

use super::*;
use crate::{AddOptions, SuspendedAdds};

fn is_a(key: &&str) -> bool {
    key.starts_with('a')
}

#[test]
fn shr_032_suspended_keys_are_not_handed_out_whatever_their_state() {
    for adds in [SuspendedAdds::Hold, SuspendedAdds::Refuse] {
        let queue = WorkQueue::new();
        // The inbox opens with the first call: some adds are in it when the keys are suspended.
        assert!(queue.is_empty());
        for key in ["a1", "b1", "a2", "b2"] {
            queue.add(key);
        }
        let suspension = queue.suspend(adds, is_a);
        assert_eq!(take_all(&queue), ["b1", "b2"]);
        let stats = queue.stats();
        assert_eq!((stats.ready, stats.suspended), (0, 2));
        drop(suspension);
        assert_eq!((queue.stats().suspended, take_all(&queue)), (0, vec!["a1", "a2"]));
    }
}

#[test]
fn shr_032_refused_keys_do_not_return() {
    let queue = WorkQueue::new();
    for key in ["a1", "a2", "a3", "a4", "b1"] {
        queue.add(key);
    }
    let items: Vec<_> = std::iter::from_fn(|| queue.try_next()).collect();
    queue.add("a1");
    let suspension = queue.suspend(SuspendedAdds::Refuse, is_a);
    queue.add("a5");
    queue.add_after("a6", secs(1));
    queue.add_rate_limited("a7");
    queue.add_all(["a8", "b2"], AddOptions::new());
    let verdicts: [fn(Item<&'static str>); 5] = [
        Item::forget,
        |item| item.retry("broken"),
        |item| item.requeue_after(secs(1)),
        |item| drop(item),
        |item| item.retry("broken"),
    ];
    items.into_iter().zip(verdicts).for_each(|(item, verdict)| verdict(item));
    let stats = queue.stats();
    // b1 has failed. What was added before the suspension is still there.
    assert_eq!((stats.delayed, stats.failing, stats.in_flight), (1, 1, 0));
    assert_eq!(take_all(&queue), ["b2"]);
    drop(suspension);
    assert_eq!(take_all(&queue), ["a1"]);
}

#[tokio::test(start_paused = true)]
async fn shr_034_a_delayed_key_is_not_handed_out_while_it_is_suspended() {
    let queue = WorkQueue::new();
    queue.add_after("a1", secs(1));
    queue.add_after("b1", secs(1));
    let suspension = queue.suspend(SuspendedAdds::Refuse, is_a);
    let woken = { queue.next().await.map(done) };
    assert_eq!(woken, Some("b1"));
    step(secs(10)).await;
    assert!(queue.try_next().is_none());
    drop(suspension);
    assert_eq!(queue.next().await.map(done), Some("a1"));
}

#[tokio::test]
async fn shr_037_keys_added_while_suspended_are_handed_out_when_resumed_and_wake_workers() {
    let queue = WorkQueue::new();
    let suspension = queue.suspend(SuspendedAdds::Hold, is_a);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(done) }
    });
    settle().await;
    queue.add("a1");
    settle().await;
    assert!(!worker.is_finished());
    drop(suspension);
    assert_eq!(worker.await.unwrap(), Some("a1"));
}

#[test]
fn shr_054_suspended_keys_keep_their_order_and_priority() {
    let queue = WorkQueue::new();
    queue.add_with("a-low", AddOptions::new().priority(-1));
    queue.add("a1");
    queue.add("a2");
    let suspension = queue.suspend(SuspendedAdds::Hold, is_a);
    assert!(queue.try_next().is_none());
    queue.add("b1");
    queue.add_with("a2", AddOptions::new().priority(5));
    drop(suspension);
    assert_eq!(take_all(&queue), ["a2", "b1", "a1", "a-low"]);
}

#[test]
fn shr_054_suspensions_are_independent() {
    let queue = WorkQueue::new();
    let first = queue.suspend(SuspendedAdds::Refuse, is_a);
    let second = queue.suspend(SuspendedAdds::Hold, |_| true);
    queue.add("a1");
    queue.add("b1");
    assert!(queue.try_next().is_none());
    drop(first);
    queue.add("a2");
    assert!(queue.try_next().is_none());
    drop(second);
    assert_eq!(take_all(&queue), ["b1", "a2"]);
}

#[test]
fn shr_054_many_suspended_keys_are_set_aside_in_steps() {
    let queue = WorkQueue::new();
    (0..5_000).for_each(|key| queue.add(key));
    let suspension = queue.suspend(SuspendedAdds::Hold, |key| *key < 4_999);
    assert_eq!(take(&queue), 4_999);
    assert_eq!(queue.stats().suspended, 4_999);
    drop(suspension);
    assert_eq!(take_all(&queue), Vec::from_iter(0..4_999));
}

#[tokio::test(start_paused = true)]
async fn shr_054_remove_if_removes_keys_of_every_state_and_their_failures() {
    let queue = WorkQueue::new();
    for key in ["a-again", "a-flying", "a-failed", "a-idle", "b-again", "b-flying", "b-failed", "b-idle"] {
        queue.add(key);
    }
    let (mut in_flight, mut failed) = (Vec::new(), Vec::new());
    while let Some(item) = queue.try_next() {
        let is_running = item.key().ends_with("again") || item.key().ends_with("flying");
        if is_running { in_flight.push(item) } else { failed.push(item) }
    }
    failed.into_iter().for_each(|item| item.retry("broken"));
    // Of the idle keys, only the failures are left.
    step(ms(10)).await;
    for _ in 0..4 {
        let item = queue.try_next().unwrap();
        if item.key().ends_with("idle") { item.done() } else { item.retry("broken") }
    }
    for prefix in ["a", "b"] {
        let key = |state: &str| -> &'static str { format!("{prefix}-{state}").leak() };
        queue.add(key("again"));
        queue.add_after(key("flying"), secs(5));
        queue.add_after(key("delayed"), secs(5));
        queue.add(key("ready"));
    }
    let suspension = queue.suspend(SuspendedAdds::Hold, |key| key.ends_with("-held"));
    queue.add("a-held");
    queue.add("b-held");
    assert_eq!([done(queue.try_next().unwrap()), done(queue.try_next().unwrap())], ["a-ready", "b-ready"]);
    assert!(queue.try_next().is_none());
    queue.add("a-ready");
    queue.add("b-ready");
    let before = queue.stats();
    assert_eq!((before.ready, before.suspended, before.delayed, before.failing), (2, 2, 6, 4), "{before:?}");
    assert_eq!(queue.remove_if(is_a), 7);
    let after = queue.stats();
    assert_eq!((after.ready, after.suspended, after.delayed, after.failing), (1, 1, 3, 2), "{after:?}");
    assert_eq!(["a-failed", "a-idle", "b-failed", "b-idle"].map(|key| queue.failures(&key)), [0, 0, 2, 1]);
    assert_eq!(queue.in_flight(is_a).count(), 2);
    in_flight.into_iter().for_each(Item::forget);
    drop(suspension);
    step(secs(60)).await;
    let mut rest = take_all(&queue);
    rest.sort_unstable();
    assert_eq!(rest, ["b-again", "b-delayed", "b-failed", "b-flying", "b-held", "b-ready"]);
    assert_eq!(queue.remove_if(is_a), 0);
}

#[test]
fn shr_054_remove_if_works_on_a_queue_of_many_pages() {
    let queue = WorkQueue::new();
    (0..10_000).for_each(|key| queue.add(key));
    assert_eq!(queue.remove_if(|key| key % 10 != 3), 9_000);
    assert_eq!(take_all(&queue), Vec::from_iter((0..1_000).map(|index| index * 10 + 3)));
}

#[test]
fn shr_054_remove_if_removes_from_a_custom_order() {
    let (_, order) = logged_order();
    let queue = WorkQueue::builder().ready_order(order).build();
    for key in ["a1", "b1", "a2", "b2"] {
        queue.add(key);
    }
    let mut expected = take_all(&queue);
    for key in ["a1", "b1", "a2", "b2"] {
        queue.add(key);
    }
    assert_eq!((queue.remove_if(is_a), queue.len()), (2, 2));
    expected.retain(|key| !is_a(key));
    let mut rest = take_all(&queue);
    rest.sort_unstable();
    expected.sort_unstable();
    assert_eq!(rest, expected);
    queue.add("a1");
    assert_eq!(take_all(&queue), ["a1"]);
}

#[test]
fn shr_054_in_flight_waits_for_the_runs_of_that_moment() {
    let queue = WorkQueue::new();
    ["a1", "a2", "b1"].into_iter().for_each(|key| queue.add(key));
    let [first, second, other] = [(); 3].map(|()| queue.try_next().unwrap());
    let mut running = queue.in_flight(is_a);
    let (woken, waker) = Woken::new();
    assert_eq!(running.count(), 2);
    assert!(poll_with(&mut running, &waker).is_pending());
    drop(other);
    first.forget();
    assert_eq!((running.count(), woken.times()), (1, 0));
    queue.add("a3");
    let later = queue.try_next().unwrap();
    second.forget();
    assert_eq!((running.count(), woken.times()), (0, 1));
    assert!(poll_with(&mut running, &waker).is_ready());
    assert_eq!(queue.in_flight(|_| true).count(), 1);
    later.forget();
    assert!(poll_with(&mut queue.in_flight(|_| true), &waker).is_ready());
}

#[test]
fn shr_032_a_drain_does_not_wait_for_suspended_keys() {
    let queue = WorkQueue::new();
    queue.add("a1");
    queue.add("b1");
    let suspension = queue.suspend(SuspendedAdds::Hold, is_a);
    let drain = queue.drain(DrainDelayed::Flush);
    assert_eq!(take_all(&queue), ["b1"]);
    drain.wait().unwrap();
    drop(suspension);
    assert!(queue.try_next().is_none());
    assert_eq!(queue.stats().ready, 0);
}
