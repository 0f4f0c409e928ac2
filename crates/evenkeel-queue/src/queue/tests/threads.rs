//! Many threads. Only results are asserted, never times.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::thread;

use super::*;

/// The keys in flight, and how often each was handed out.
#[derive(Default)]
struct Watch {
    held: Mutex<HashMap<String, bool>>,
    runs: AtomicUsize,
}

impl Watch {
    fn begin(&self, key: &str) {
        self.runs.fetch_add(1, Ordering::SeqCst);
        match self.held.lock().unwrap().entry(key.to_owned()) {
            Entry::Occupied(mut held) => assert!(!held.insert(true), "two workers have {key}"),
            Entry::Vacant(free) => _ = free.insert(true),
        }
    }

    fn end(&self, key: &str) {
        self.held.lock().unwrap().insert(key.to_owned(), false);
    }

    fn seen(&self) -> usize {
        self.held.lock().unwrap().len()
    }
}

#[test]
fn wq_003_fifty_producers_and_ten_consumers_on_threads() {
    for drains in [false, true] {
        let queue = WorkQueue::<String>::new();
        let watch = Watch::default();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..10)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some(item) = queue.next_blocking() {
                            assert_ne!(item.key(), "added after shutdown!");
                            watch.begin(item.key());
                            thread::yield_now();
                            watch.end(item.key());
                            item.done();
                        }
                    })
                })
                .collect();
            let producers: Vec<_> = (0..50)
                .map(|producer| {
                    let queue = &queue;
                    scope.spawn(move || {
                        for _ in 0..50 {
                            queue.add(format!("key-{producer}"));
                            thread::yield_now();
                        }
                    })
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            if drains {
                queue.drain(DrainDelayed::Discard).wait().unwrap();
                assert_eq!(queue.stats().in_flight, 0);
            } else {
                queue.shut_down();
            }
            queue.add("added after shutdown!".to_owned());
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        assert_eq!(watch.seen(), 50);
        assert!(watch.runs.load(Ordering::SeqCst) <= 2500);
        assert_eq!((queue.len(), queue.stats().depth), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn wq_003_fifty_producers_and_ten_consumers_on_tasks() {
    let queue = WorkQueue::<String>::new();
    let watch = Arc::new(Watch::default());
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let (queue, watch) = (queue.clone(), watch.clone());
            tokio::spawn(async move {
                while let Some(item) = queue.next().await {
                    watch.begin(item.key());
                    tokio::task::yield_now().await;
                    watch.end(item.key());
                    item.done();
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..50)
        .map(|producer| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    queue.add(format!("key-{producer}"));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    queue.drain(DrainDelayed::Discard).await.unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(watch.seen(), 50);
    assert!(queue.is_empty());
}

#[test]
fn wq_028_keys_readded_by_their_workers_all_finish() {
    for drains in [false, true] {
        let queue = WorkQueue::<String>::new();
        let watch = Watch::default();
        let again = Mutex::new(std::collections::HashSet::new());
        thread::scope(|scope| {
            let workers: Vec<_> = (0..10)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some(item) = queue.next_blocking() {
                            watch.begin(item.key());
                            if again.lock().unwrap().insert(item.key().clone()) {
                                queue.add(item.key().clone());
                            }
                            watch.end(item.key());
                            item.done();
                        }
                    })
                })
                .collect();
            let producers: Vec<_> = (0..50)
                .map(|producer| {
                    let queue = &queue;
                    scope.spawn(move || queue.add(format!("key-{producer}")))
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            if drains {
                queue.drain(DrainDelayed::Discard).wait().unwrap();
            } else {
                queue.shut_down();
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        assert_eq!(watch.seen(), 50);
        assert!((50..=100).contains(&watch.runs.load(Ordering::SeqCst)));
        assert_eq!((queue.len(), queue.stats().depth, queue.stats().in_flight), (0, 0, 0));
    }
}

#[test]
fn wq_008_a_contended_key_is_in_flight_once_at_a_time() {
    let queue = WorkQueue::<String>::new();
    let watch = Watch::default();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(item) = queue.next_blocking() {
                    watch.begin(item.key());
                    if watch.runs.load(Ordering::SeqCst) < 2000 {
                        queue.add(item.key().clone());
                    } else {
                        queue.shut_down();
                    }
                    watch.end(item.key());
                    item.done();
                }
            });
        }
        queue.add("hot".to_owned());
    });
    assert!(watch.runs.load(Ordering::SeqCst) >= 2000);
}

#[test]
fn a_panic_on_a_worker_thread_is_a_failure_and_others_continue() {
    let clock = HandClock::new();
    let queue = WorkQueue::<u32>::builder().clock(clock.clone()).build();
    queue.add(1);
    let worker = thread::spawn({
        let queue = queue.clone();
        move || {
            let _item = queue.next_blocking().unwrap();
            panic!("on purpose");
        }
    });
    assert!(worker.join().is_err());
    assert_eq!((queue.failures(&1), queue.stats().delayed, queue.stats().in_flight), (1, 1, 0));
    assert!(queue.try_next().is_none(), "it waits for its backoff");
    clock.step(ms(5));
    assert_eq!(queue.try_next().unwrap().failures(), 1);
}

#[test]
fn wq_022_a_drain_on_a_thread_is_released_by_shut_down() {
    let queue = WorkQueue::<u32>::new();
    queue.add(1);
    let item = queue.try_next().unwrap();
    thread::scope(|scope| {
        let drains: Vec<_> = (0..4)
            .map(|_| {
                let drain = queue.drain(DrainDelayed::Discard);
                scope.spawn(|| drain.wait())
            })
            .collect();
        queue.shut_down();
        for drain in drains {
            let undrained = drain.join().unwrap().unwrap_err();
            assert!(matches!(undrained, crate::DrainError::ShutDown { ready: 0, in_flight: 1 }));
        }
    });
    item.done();
    assert_eq!(queue.drain(DrainDelayed::Discard).wait(), Ok(()), "now it is");
}

#[test]
fn wq_024_all_drains_on_threads_are_woken() {
    let queue = WorkQueue::<u32>::new();
    queue.add(1);
    thread::scope(|scope| {
        let drains: Vec<_> = (0..8)
            .map(|_| {
                let drain = queue.drain(DrainDelayed::Discard);
                scope.spawn(|| drain.wait())
            })
            .collect();
        queue.next_blocking().unwrap().done();
        drains.into_iter().for_each(|drain| assert_eq!(drain.join().unwrap(), Ok(())));
    });
}

#[test]
fn a_deadline_that_has_passed_ends_a_drain_on_a_thread() {
    let queue = WorkQueue::<u32>::builder().clock(HandClock::new()).build();
    queue.add(1);
    let undrained = queue.drain(DrainDelayed::Discard).within(Duration::ZERO).wait();
    assert_eq!(undrained, Err(crate::DrainError::OutOfTime { ready: 1, in_flight: 0 }));
}
