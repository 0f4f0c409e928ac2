//! Observers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{secs, step};
use crate::{AddOptions, DrainDelayed, ItemOutcome, KeyEvent, KeyState, Observer, WorkQueue};

type Steps = Arc<Mutex<Vec<(&'static str, KeyEvent)>>>;

/// Records events.
struct Scribe(Steps);

impl Observer<&'static str> for Scribe {
    fn event(&self, key: &&'static str, step: KeyEvent) {
        self.0.lock().unwrap().push((key, step));
    }
}

fn observed(queue: &WorkQueue<&'static str>) -> (Steps, crate::ObserverGuard) {
    let steps = Steps::default();
    let observation = queue.observe(Scribe(Arc::clone(&steps)));
    (steps, observation)
}

fn take(steps: &Steps) -> Vec<(&'static str, KeyEvent)> {
    std::mem::take(&mut steps.lock().unwrap())
}

const ADDED: KeyEvent = KeyEvent::Added { priority: 0, after: None, rate_limited: false };

fn out(failures: u32) -> KeyEvent {
    KeyEvent::Dequeued { priority: 0, waited: Duration::ZERO, failures }
}

fn finished(outcome: ItemOutcome, requeue_after: Option<Duration>, failures: u32) -> KeyEvent {
    let state = if requeue_after.is_some() { KeyState::Delayed } else { KeyState::Absent };
    KeyEvent::Finished { outcome, requeue_after, state, failures }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_reported_from_its_add_to_its_finish() {
    let queue = WorkQueue::new();
    let (steps, _guard) = observed(&queue);
    queue.add("a");
    queue.next().await.unwrap().forget();
    assert_eq!(take(&steps), [("a", ADDED), ("a", out(0)), ("a", finished(ItemOutcome::Succeeded, None, 0))]);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_add_is_reported_with_its_options() {
    let queue = WorkQueue::new();
    let (steps, _guard) = observed(&queue);
    queue.add_after("a", secs(1));
    queue.add_with("b", AddOptions::new().priority(7));
    queue.add_all(["c", "d"], AddOptions::new().after(secs(2)).priority(1));
    queue.add_rate_limited("e");
    let later = |after, priority| KeyEvent::Added { priority, after: Some(after), rate_limited: false };
    let events = [
        ("a", later(secs(1), 0)),
        ("b", KeyEvent::Added { priority: 7, after: None, rate_limited: false }),
        ("c", later(secs(2), 1)),
        ("d", later(secs(2), 1)),
        ("e", KeyEvent::Added { priority: 0, after: Some(Duration::from_millis(5)), rate_limited: true }),
    ];
    assert_eq!(take(&steps), events);
}

#[tokio::test(start_paused = true)]
async fn each_verdict_is_reported_with_its_wait() {
    let queue = WorkQueue::new();
    queue.add("a");
    let (steps, _guard) = observed(&queue);
    let ms = Duration::from_millis;
    queue.next().await.unwrap().retry("no luck");
    queue.next().await.unwrap().requeue();
    queue.next().await.unwrap().retry_after(secs(1));
    queue.next().await.unwrap().requeue_after(secs(1));
    queue.next().await.unwrap().done();
    queue.add("b");
    queue.next().await.unwrap().give_up("no use");
    let events = [
        ("a", out(0)),
        ("a", finished(ItemOutcome::Failed, Some(ms(5)), 1)),
        ("a", out(1)),
        ("a", finished(ItemOutcome::Requeued, Some(ms(10)), 2)),
        ("a", out(2)),
        ("a", finished(ItemOutcome::Requeued, Some(secs(1)), 2)),
        ("a", out(2)),
        ("a", finished(ItemOutcome::Succeeded, Some(secs(1)), 0)),
        ("a", out(0)),
        ("a", finished(ItemOutcome::Done, None, 0)),
        ("b", ADDED),
        ("b", out(0)),
        ("b", finished(ItemOutcome::GaveUp, None, 0)),
    ];
    assert_eq!(take(&steps), events);
}

#[test]
fn an_error_is_reported_before_the_finish() {
    struct Reasons(Arc<Mutex<Vec<String>>>);
    impl Observer<&'static str> for Reasons {
        fn event(&self, _: &&'static str, step: KeyEvent) {
            if let KeyEvent::Finished { outcome, .. } = step {
                self.0.lock().unwrap().push(format!("{outcome:?}"));
            }
        }
        fn failed(&self, key: &&'static str, error: &dyn std::fmt::Display) {
            self.0.lock().unwrap().push(format!("{key}: {error}"));
        }
    }
    let (queue, events) = (WorkQueue::new(), Arc::new(Mutex::new(Vec::new())));
    let _guard = queue.observe(Reasons(Arc::clone(&events)));
    queue.add("a");
    queue.try_next().unwrap().retry("no luck");
    queue.add("b");
    queue.try_next().unwrap().give_up("no use");
    assert_eq!(*events.lock().unwrap(), ["a: no luck", "Failed", "b: no use", "GaveUp"]);
}

/// The state of the last finished key, and its wait.
fn left(steps: &Steps) -> (KeyState, Option<Duration>) {
    match take(steps).last() {
        Some((_, KeyEvent::Finished { state, requeue_after, .. })) => (*state, *requeue_after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_finish_reports_whether_the_key_is_queued_again() {
    let queue = WorkQueue::new();
    let (steps, _guard) = observed(&queue);
    queue.add("a");
    let item = queue.next().await.unwrap();
    queue.add("a");
    item.forget();
    assert_eq!(left(&steps), (KeyState::Ready, None), "it was added meanwhile");
    let item = queue.next().await.unwrap();
    queue.add_after("a", secs(1));
    item.done();
    assert_eq!(left(&steps), (KeyState::Delayed, None), "it was added for later meanwhile");
    let item = queue.next().await.unwrap();
    queue.add("a");
    item.retry("no luck");
    assert_eq!(left(&steps), (KeyState::Ready, Some(Duration::from_millis(5))), "an add is sooner than a backoff");
    queue.next().await.unwrap().give_up("no use");
    assert_eq!(left(&steps), (KeyState::Delayed, None), "the backoff continues");
    let item = queue.next().await.unwrap();
    queue.add_after("a", secs(1));
    item.retry_after(Duration::ZERO);
    assert_eq!(left(&steps), (KeyState::Ready, Some(Duration::ZERO)));
    queue.next().await.unwrap().forget();
    queue.next().await.unwrap().forget();
    assert_eq!(left(&steps), (KeyState::Absent, None));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_a_new_failure_postpones_is_reported_as_delayed() {
    let queue = WorkQueue::new();
    let (steps, _guard) = observed(&queue);
    queue.add("a");
    queue.next().await.unwrap().retry("no luck");
    queue.add("a");
    let item = queue.next().await.unwrap();
    step(secs(1)).await;
    item.retry("no luck");
    assert_eq!(left(&steps), (KeyState::Delayed, Some(Duration::from_millis(10))));
    assert_eq!((queue.len(), queue.stats().delayed), (0, 1));
}

#[test]
fn verdicts_during_shutdown_report_no_retry() {
    type Verdict = fn(crate::Item<&'static str>);
    let verdicts: [Verdict; 4] = [
        |item| item.retry("no luck"),
        |item| item.requeue(),
        |item| item.retry_after(secs(1)),
        |item| item.requeue_after(secs(1)),
    ];
    for verdict in verdicts {
        let queue = WorkQueue::new();
        let (steps, _guard) = observed(&queue);
        queue.add("a");
        let item = queue.try_next().unwrap();
        queue.add_after("a", secs(1));
        queue.shut_down();
        verdict(item);
        assert_eq!(left(&steps), (KeyState::Absent, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_dropped_item_are_reported() {
    let queue = WorkQueue::builder().build();
    let (steps, _guard) = observed(&queue);
    queue.add("a");
    let worker = queue.clone();
    let panicked = tokio::spawn(async move {
        let _item = worker.next().await.unwrap();
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    drop(queue.next().await.unwrap());
    let outcomes: Vec<_> = take(&steps)
        .into_iter()
        .filter_map(|(_, step)| match step {
            KeyEvent::Finished { outcome, requeue_after, .. } => Some((outcome, requeue_after.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [(ItemOutcome::Panicked, true), (ItemOutcome::Dropped, true)]);
}

#[tokio::test(start_paused = true)]
async fn the_finish_of_a_run_is_reported_before_the_next_run() {
    let queue = WorkQueue::new();
    let (steps, _guard) = observed(&queue);
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        workers.spawn(async move {
            while let Some(item) = queue.next().await {
                tokio::task::yield_now().await;
                item.forget();
            }
        });
    }
    for _ in 0..100 {
        queue.add("a");
        tokio::task::yield_now().await;
    }
    step(secs(1)).await;
    queue.shut_down();
    while workers.join_next().await.is_some() {}
    let mut is_out = false;
    for (_, step) in take(&steps) {
        match step {
            KeyEvent::Added { .. } => {}
            KeyEvent::Dequeued { .. } => assert!(!std::mem::replace(&mut is_out, true)),
            KeyEvent::Finished { .. } => assert!(std::mem::replace(&mut is_out, false)),
        }
    }
    assert!(!is_out);
}

#[test]
fn an_observer_may_call_the_queue_and_does_not_keep_it_alive() {
    struct Caller(crate::WeakQueue<&'static str>, Arc<Mutex<Vec<usize>>>);
    impl Observer<&'static str> for Caller {
        fn event(&self, _: &&'static str, _: KeyEvent) {
            let ready = self.0.upgrade().map_or(99, |queue| queue.len());
            self.1.lock().unwrap().push(ready);
        }
    }
    let queue = WorkQueue::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let weak = queue.downgrade();
    let observation = queue.observe(Caller(weak.clone(), Arc::clone(&seen)));
    queue.add("a");
    queue.try_next().unwrap().forget();
    assert_eq!(*seen.lock().unwrap(), [0, 0, 0], "the event precedes the add");
    drop(queue);
    assert!(weak.upgrade().is_none());
    drop(observation);
    assert_eq!(Arc::strong_count(&seen), 1);
}

#[test]
fn dropping_a_guard_unregisters_one_observer() {
    let queue = WorkQueue::new();
    let (first, observation) = observed(&queue);
    let (second, _guard) = observed(&queue);
    queue.add("a");
    drop(observation);
    queue.add("b");
    assert_eq!(take(&first), [("a", ADDED)]);
    assert_eq!(take(&second), [("a", ADDED), ("b", ADDED)]);
    assert_eq!(Arc::strong_count(&first), 1, "it is let go");
}

#[test]
fn an_observer_that_panics_is_called_once_and_affects_no_other() {
    struct Broken(Arc<Mutex<usize>>);
    impl Observer<&'static str> for Broken {
        fn event(&self, _: &&'static str, _: KeyEvent) {
            *self.0.lock().unwrap_or_else(|broken| broken.into_inner()) += 1;
            panic!("on purpose");
        }
    }
    let queue = WorkQueue::new();
    let calls = Arc::new(Mutex::new(0));
    let _broken = queue.observe(Broken(Arc::clone(&calls)));
    let (steps, _guard) = observed(&queue);
    queue.add("a");
    queue.try_next().unwrap().forget();
    assert_eq!(take(&steps).len(), 3);
    assert_eq!(*calls.lock().unwrap_or_else(|broken| broken.into_inner()), 1);
    assert_eq!(queue.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_of_the_queue_is_reported() {
    struct Ends(Arc<Mutex<usize>>);
    impl Observer<&'static str> for Ends {
        fn event(&self, _: &&'static str, _: KeyEvent) {}
        fn shut_down(&self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let ends = Arc::new(Mutex::new(0));
    let queue = WorkQueue::new();
    let _guard = queue.observe(Ends(Arc::clone(&ends)));
    queue.drain(DrainDelayed::Discard).await.unwrap();
    queue.shut_down();
    assert_eq!(*ends.lock().unwrap(), 2);
}
