//! Waiting for a key, and cancelled waits.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::*;

/// Takes keys, and drops the future at random or when a timer is sooner.
async fn fickle_worker(queue: WorkQueue<u32>, seed: u64) -> Vec<u32> {
    let mut coin = fastrand::Rng::with_seed(seed);
    let mut keys = Vec::new();
    loop {
        let mut next = queue.next();
        for _ in 0..coin.u32(0..3) {
            if let Poll::Ready(item) =
                std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut next).poll(context))).await
            {
                match item {
                    Some(item) => keys.push(done(item)),
                    None => return keys,
                }
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(next);
        tokio::select! {
            item = queue.next() => match item {
                Some(item) => keys.push(done(item)),
                None => return keys,
            },
            () = step(ms(coin.u64(0..4))) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn futures_that_are_dropped_at_random_lose_no_key() {
    for seed in 0..20 {
        let queue = WorkQueue::new();
        let workers: Vec<_> = (0..5).map(|n| tokio::spawn(fickle_worker(queue.clone(), seed * 10 + n))).collect();
        let mut coin = fastrand::Rng::with_seed(seed);
        for key in 0..300 {
            match coin.u32(0..3) {
                0 => queue.add(key),
                1 => queue.add_after(key, ms(coin.u64(0..20))),
                _ => queue.add_rate_limited(key),
            }
            if coin.u32(0..10) == 0 {
                step(ms(coin.u64(0..5))).await;
            }
        }
        step(secs(1)).await;
        let stats = queue.stats();
        assert_eq!((stats.ready, stats.delayed, stats.in_flight), (0, 0, 0), "no wake is lost");
        queue.shut_down();
        let mut keys = Vec::new();
        for worker in workers {
            keys.extend(worker.await.unwrap());
        }
        keys.sort_unstable();
        assert_eq!(keys, Vec::from_iter(0..300));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn futures_that_are_dropped_at_random_on_many_threads_lose_no_key() {
    let queue = WorkQueue::new();
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut coin = fastrand::Rng::with_seed(n);
                let mut keys = Vec::new();
                loop {
                    tokio::select! {
                        biased;
                        item = queue.next() => match item {
                            Some(item) => keys.push(done(item)),
                            None => return keys,
                        },
                        () = async { for _ in 0..coin.u32(0..4) { tokio::task::yield_now().await } } => {}
                    }
                }
            })
        })
        .collect();
    (0..5000).for_each(|key: u32| queue.add(key));
    queue.drain(DrainDelayed::Discard).await.unwrap();
    let mut keys = Vec::new();
    for worker in workers {
        keys.extend(worker.await.unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, Vec::from_iter(0..5000));
}

#[test]
fn a_woken_waiter_that_is_dropped_wakes_the_next() {
    let queue = WorkQueue::new();
    let (mut first, mut second, mut third) = (queue.next(), queue.next(), queue.next());
    let woken: Vec<_> = [&mut first, &mut second, &mut third]
        .into_iter()
        .map(|next| {
            let (woken, waker) = Woken::new();
            assert!(poll_with(next, &waker).is_pending());
            woken
        })
        .collect();
    let times = || [woken[0].times(), woken[1].times(), woken[2].times()];
    queue.add("a");
    assert_eq!(times(), [1, 0, 0]);
    drop(first);
    assert_eq!(times(), [1, 1, 0]);
    drop(second);
    assert_eq!(times(), [1, 1, 1]);
    assert!(poll(&mut third).is_ready());
}

#[test]
fn a_waiter_woken_for_a_key_that_another_took_waits_again() {
    let queue = WorkQueue::new();
    let mut first = queue.next();
    let (woken, waker) = Woken::new();
    assert!(poll_with(&mut first, &waker).is_pending());
    queue.add("a");
    assert_eq!(take(&queue), "a");
    assert!(poll_with(&mut first, &waker).is_pending());
    queue.add("b");
    assert_eq!(woken.times(), 2);
    assert!(poll(&mut first).is_ready());
}

#[test]
fn the_last_waker_that_was_given_is_the_one_that_is_woken() {
    let queue = WorkQueue::new();
    let mut next = queue.next();
    let ((old, old_waker), (new, new_waker)) = (Woken::new(), Woken::new());
    assert!(poll_with(&mut next, &old_waker).is_pending());
    assert!(poll_with(&mut next, &new_waker).is_pending());
    queue.add("a");
    assert_eq!((old.times(), new.times()), (0, 1));
}

#[test]
fn as_many_waiters_are_woken_as_keys_exist() {
    let queue = WorkQueue::new();
    let mut waiting: Vec<_> = (0..5).map(|_| queue.next()).collect();
    let woken: Vec<_> = waiting
        .iter_mut()
        .map(|next| {
            let (woken, waker) = Woken::new();
            assert!(poll_with(next, &waker).is_pending());
            woken
        })
        .collect();
    queue.add_all(["a", "b", "c"], crate::AddOptions::new());
    assert_eq!(woken.iter().map(|woken| woken.times()).sum::<usize>(), 3);
    queue.shut_down();
    assert_eq!(woken.iter().map(|woken| woken.times()).sum::<usize>(), 3, "there are still keys");
    waiting[..3].iter_mut().for_each(|next| assert!(matches!(poll(next), Poll::Ready(Some(_)))));
    assert!(woken.iter().all(|woken| woken.times() == 1), "and at the end all are");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_timekeeper_is_replaced() {
    let queue = WorkQueue::new();
    let since = Since::now();
    queue.add_after("a", ms(500));
    let mut first = queue.next();
    assert!(poll(&mut first).is_pending());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(done) }
    });
    step(ms(100)).await;
    drop(first);
    assert_eq!(second.await.unwrap(), Some("a"));
    assert_eq!(since.ms(), 500);
}

#[tokio::test(start_paused = true)]
async fn there_is_a_timekeeper_however_many_waiters_are_dropped() {
    let queue = WorkQueue::new();
    let since = Since::now();
    (0..50).for_each(|key| queue.add_after(key, secs(key + 1)));
    let workers: Vec<_> = (0..50)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.map(done) })
        })
        .collect();
    settle().await;
    // The first waiter is the timekeeper, and is aborted first.
    for (n, worker) in workers.iter().enumerate().take(25) {
        step(ms(10)).await;
        worker.abort();
        assert_eq!(queue.stats().delayed, 50, "after {n}");
    }
    for expected in 0..25 {
        step(secs(expected + 1) - ms(since.ms())).await;
        assert_eq!(queue.stats().delayed as u64, 49 - expected);
    }
    queue.shut_down();
    let mut got = BTreeSet::new();
    for worker in workers {
        got.extend(worker.await.ok().flatten());
    }
    assert_eq!(got, BTreeSet::from_iter(0..25));
}

#[tokio::test(start_paused = true)]
async fn a_timekeeper_that_gets_a_key_is_replaced() {
    let queue = WorkQueue::new();
    let since = Since::now();
    let worker = |queue: &WorkQueue<&'static str>| {
        let queue = queue.clone();
        let since = Since(since.0);
        tokio::spawn(async move { (done(queue.next().await.unwrap()), since.ms()) })
    };
    let workers = [worker(&queue), worker(&queue), worker(&queue)];
    settle().await;
    [("c", 30), ("a", 10), ("b", 20)].into_iter().for_each(|(key, wait)| queue.add_after(key, ms(wait)));
    let mut got = Vec::new();
    for worker in workers {
        got.push(worker.await.unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, [("a", 10), ("b", 20), ("c", 30)]);
}

#[tokio::test(start_paused = true)]
async fn a_ready_key_is_given_to_a_waiter_without_the_timer() {
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add_after("later", secs(1));
    let (mut keeper, mut other) = (queue.next(), queue.next());
    let ((keeper_woken, keeper_waker), (other_woken, other_waker)) = (Woken::new(), Woken::new());
    assert!(poll_with(&mut keeper, &keeper_waker).is_pending());
    assert!(poll_with(&mut other, &other_waker).is_pending());
    queue.add("now");
    assert_eq!((keeper_woken.times(), other_woken.times()), (0, 1));
    assert!(poll(&mut other).is_ready());
    assert_eq!(clock.timers(), 2, "that of the timekeeper and that of its deputy");
}

#[tokio::test(start_paused = true)]
async fn the_deputy_takes_a_due_key_if_the_timekeeper_is_not_polled() {
    let queue = WorkQueue::new();
    queue.add_after("a", secs(1));
    let mut kept = queue.next();
    assert!(poll(&mut kept).is_pending());
    let (since, item) = (Since::now(), queue.next().await.unwrap());
    assert_eq!((*item.key(), since.ms()), ("a", 1100));
}

#[tokio::test(start_paused = true)]
async fn two_waiters_arm_a_timer() {
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    queue.add_after("a", secs(1));
    let mut waiting: Vec<_> = (0..5).map(|_| queue.next()).collect();
    waiting.iter_mut().for_each(|next| assert!(poll(next).is_pending()));
    assert_eq!(clock.timers(), 2);
    queue.add("b");
    assert!(poll(&mut waiting[2]).is_ready(), "one that has no timer");
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_due_keys_as_are_moved_at_once_leave_no_worker_spinning() {
    for many in [681, 682, 683, 1024, 3000] {
        let clock = CountingClock::default();
        let queue = WorkQueue::builder().clock(clock.clone()).build();
        (0..many).for_each(|key: u32| queue.add_after(key, ms(5)));
        for _ in 0..many {
            queue.next().await.unwrap().done();
        }
        // The cooperative budget of the task is full again.
        settle().await;
        let timers = clock.timers();
        let mut next = queue.next();
        assert!(poll(&mut next).is_pending());
        assert_eq!(clock.timers(), timers, "nothing waits any more");
        queue.add(0);
        assert!(poll(&mut next).is_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn blocking_and_waiting_workers_share_a_queue() {
    let queue = WorkQueue::new();
    let blocking = std::thread::spawn({
        let queue = queue.clone();
        move || std::iter::from_fn(|| queue.next_blocking().map(done)).collect::<Vec<u32>>()
    });
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut keys = Vec::new();
            while let Some(item) = queue.next().await {
                keys.push(done(item));
            }
            keys
        }
    });
    for key in 0..500 {
        queue.add(key);
        tokio::task::yield_now().await;
    }
    queue.drain(DrainDelayed::Discard).await.unwrap();
    let mut keys = waiting.await.unwrap();
    keys.extend(blocking.join().unwrap());
    keys.sort_unstable();
    assert_eq!(keys, Vec::from_iter(0..500));
}

#[tokio::test]
async fn a_busy_worker_yields_to_other_tasks() {
    let queue = WorkQueue::new();
    queue.add_all(0..10_000, crate::AddOptions::new());
    queue.shut_down();
    let ran = Arc::new(AtomicBool::new(false));
    let other = ran.clone();
    tokio::spawn(async move { other.store(true, Ordering::SeqCst) });
    let mut before = 0;
    while let Some(item) = queue.next().await {
        before += usize::from(!ran.load(Ordering::SeqCst));
        item.forget();
    }
    assert!(before < 1_000, "{before} keys were handed out before the other task had a turn");
}
