use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Context, Poll, Waker};

use tokio::sync::Semaphore;

use super::*;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn syn_001_done_when_the_upstream_is_done_and_nothing_is_outstanding() {
    let tracker = AsyncTracker::new();
    let mut waiting = pin!(tracker.wait());
    tracker.start("a");
    tracker.start("b");
    tracker.finished(&"a");
    tracker.upstream_has_synced();
    assert!(!tracker.has_synced() && poll(waiting.as_mut()).is_pending());
    tracker.start("c");
    tracker.finished(&"b");
    assert!(!tracker.has_synced());
    tracker.finished(&"c");
    assert!(tracker.has_synced() && poll(waiting).is_ready());
    // Once done, it stays done, and nothing is retained.
    tracker.start("d");
    assert!(tracker.has_synced() && tracker.lock().keys.is_empty());
}

#[test]
fn syn_001_single_file() {
    let tracker = SingleFileTracker::new();
    let mut waiting = pin!(tracker.wait());
    let a = tracker.start();
    let b = tracker.clone().start();
    drop(a);
    tracker.upstream_has_synced();
    assert!(!tracker.has_synced() && poll(waiting.as_mut()).is_pending());
    drop(b);
    assert!(tracker.has_synced() && poll(waiting).is_ready());
    let late = tracker.start();
    assert!(tracker.has_synced());
    drop(late);
    tracker.upstream_has_synced();
    assert!(tracker.has_synced());
}

#[test]
fn syn_002_an_upstream_with_nothing_outstanding_completes_at_once() {
    let (by_key, single) = (AsyncTracker::<u8>::new(), SingleFileTracker::new());
    assert!(!by_key.has_synced() && !single.has_synced());
    by_key.upstream_has_synced();
    single.upstream_has_synced();
    assert!(by_key.has_synced() && single.has_synced());
    // All that was started has finished, but the upstream is not done.
    let (by_key, single) = (AsyncTracker::new(), SingleFileTracker::new());
    by_key.start(1);
    by_key.finished(&1);
    drop(single.start());
    assert!(!by_key.has_synced() && !single.has_synced());
}

#[test]
fn syn_003_a_finish_without_a_start_is_harmless() {
    let tracker = AsyncTracker::new();
    tracker.finished(&1);
    tracker.start(2);
    tracker.upstream_has_synced();
    tracker.finished(&1);
    tracker.finished(&3);
    assert!(!tracker.has_synced());
    tracker.finished(&2);
    assert!(tracker.has_synced());
}

#[test]
fn syn_003_many_threads() {
    let (by_key, single) = (AsyncTracker::new(), SingleFileTracker::new());
    let early = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let started: Vec<Started> = (0..100).map(|_| single.start()).collect();
            (0..100).for_each(|number| by_key.start((thread, number)));
            let (by_key, single, early) = (&by_key, &single, &early);
            scope.spawn(move || {
                for (number, started) in started.into_iter().enumerate() {
                    if by_key.has_synced() || single.has_synced() {
                        early.store(true, Ordering::Relaxed);
                    }
                    by_key.finished(&(thread, number));
                    drop(started);
                }
            });
        }
        by_key.upstream_has_synced();
        single.upstream_has_synced();
    });
    assert!(by_key.has_synced() && single.has_synced() && !early.into_inner());
}

#[test]
fn syn_004_synced_once_every_start_has_finished() {
    let tracker = SingleFileTracker::new();
    let mut started: Vec<Started> = (0..10).map(|_| tracker.start()).collect();
    tracker.upstream_has_synced();
    while let Some(one) = started.pop() {
        assert!(!tracker.has_synced());
        drop(one);
    }
    assert!(tracker.has_synced());
    assert_eq!(tracker.shared.count.load(Ordering::Acquire), UPSTREAM);
}

/// Returns a lazy value that counts its evaluations; the gate admits each of them.
fn gated() -> (Arc<Semaphore>, Arc<AtomicUsize>, Lazy<usize, Infallible>) {
    let (gate, count) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let lazy = {
        let (gate, count) = (Arc::clone(&gate), Arc::clone(&count));
        Lazy::new(move || {
            let (gate, number) = (Arc::clone(&gate), 1 + count.fetch_add(1, Ordering::Relaxed));
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(number)
            }
        })
    };
    (gate, count, lazy)
}

#[test]
fn syn_005_one_evaluation_per_notification_for_all_callers() {
    let (gate, count, lazy) = gated();
    {
        let (mut one, mut two) = (pin!(lazy.get()), pin!(lazy.get()));
        assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
        gate.add_permits(1);
        assert_eq!(poll(one), Poll::Ready(Ok(1)));
        assert_eq!(poll(two), Poll::Ready(Ok(1)));
    }
    assert_eq!(poll(pin!(lazy.get())), Poll::Ready(Ok(1)));
    lazy.notify();
    lazy.notify();
    assert_eq!(count.load(Ordering::Relaxed), 1);
    gate.add_permits(1);
    assert_eq!(poll(pin!(lazy.get())), Poll::Ready(Ok(2)));
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn syn_005_a_stale_evaluation_never_replaces_a_newer_one() {
    let (gate, count, lazy) = gated();
    let mut stale = pin!(lazy.get());
    assert!(poll(stale.as_mut()).is_pending());
    lazy.notify();
    let mut fresh = pin!(lazy.get());
    assert!(poll(fresh.as_mut()).is_pending());
    gate.add_permits(2);
    assert_eq!(poll(fresh), Poll::Ready(Ok(2)));
    assert_eq!(poll(stale), Poll::Ready(Ok(1)));
    assert_eq!(poll(pin!(lazy.get())), Poll::Ready(Ok(2)));
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn syn_005_errors_are_not_kept() {
    let count = Arc::new(AtomicUsize::new(0));
    let lazy = {
        let count = Arc::clone(&count);
        Lazy::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move { if number < 2 { Err(number) } else { Ok(number) } }
        })
    };
    let asked: Vec<Poll<Result<usize, usize>>> = (0..4).map(|_| poll(pin!(lazy.get()))).collect();
    assert_eq!(asked, [Poll::Ready(Err(0)), Poll::Ready(Err(1)), Poll::Ready(Ok(2)), Poll::Ready(Ok(2))]);
}

#[test]
fn syn_005_a_waiter_evaluates_if_the_other_is_cancelled() {
    let (gate, _, lazy) = gated();
    let mut waiting = pin!(lazy.get());
    {
        let mut first = pin!(lazy.get());
        assert!(poll(first.as_mut()).is_pending() && poll(waiting.as_mut()).is_pending());
    }
    gate.add_permits(1);
    assert_eq!(poll(waiting), Poll::Ready(Ok(2)));
}

#[test]
fn syn_006_after_a_notice_the_value_is_at_least_as_new() {
    let source = Arc::new(AtomicUsize::new(0));
    let lazy = {
        let source = Arc::clone(&source);
        Arc::new(Lazy::<usize, Infallible>::new(move || {
            let source = Arc::clone(&source);
            async move { Ok(source.load(Ordering::SeqCst)) }
        }))
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (source, lazy) = (Arc::clone(&source), Arc::clone(&lazy));
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for _ in 0..200 {
                    let written = 1 + source.fetch_add(1, Ordering::SeqCst);
                    lazy.notify();
                    assert!(runtime.block_on(lazy.get()).unwrap() >= written);
                }
            });
        }
    });
    assert_eq!(source.load(Ordering::SeqCst), 800);
}
