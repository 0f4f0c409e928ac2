//! Plain queues: `String` keys, no name, no limiter, and no verdict but `done`.
//!
//! Keys are made before the measurement. The queue takes them over, as it does from an event handler that made them.

use std::thread;

use evenkeel_queue::WorkQueue;
use tokio::task::JoinSet;

use super::{Costs, expect, key, take_all, time};
use crate::{Failure, Outcome};

pub(super) async fn add(count: u32) -> Result<Costs, Failure> {
    let (keys, queue) = (keys(count), WorkQueue::<String>::new());
    time(count, async || add_all(&queue, keys)).await
}

pub(super) async fn get_done(count: u32) -> Result<Costs, Failure> {
    let queue = WorkQueue::new();
    add_all(&queue, keys(count))?;
    time(count, async || take_all(&queue, count).await).await
}

pub(super) async fn tasks(count: u32, workers: u32) -> Result<Costs, Failure> {
    let (keys, queue) = (keys(count), WorkQueue::<String>::new());
    time(count, async || {
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let queue = queue.clone();
            tasks.spawn(async move {
                let mut taken = 0;
                while let Some(item) = queue.next().await {
                    item.done();
                    taken += 1;
                }
                taken
            });
        }
        // This is not one of the threads that the tasks run on.
        keys.into_iter().for_each(|key| queue.add(key));
        queue.shut_down();
        let taken: u32 = tasks.join_all().await.into_iter().sum();
        expect(taken == count)
    })
    .await
}

pub(super) async fn threads(count: u32, workers: u32) -> Result<Costs, Failure> {
    let (keys, queue) = (keys(count), WorkQueue::<String>::new());
    time(count, async || {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut taken = 0;
                    while let Some(item) = queue.next_blocking() {
                        item.done();
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        keys.into_iter().for_each(|key| queue.add(key));
        queue.shut_down();
        let taken: u32 = threads.into_iter().filter_map(|thread| thread.join().ok()).sum();
        expect(taken == count)
    })
    .await
}

fn keys(count: u32) -> Vec<String> {
    (0..count).map(|number| key(number).to_string()).collect()
}

fn add_all(queue: &WorkQueue<String>, keys: Vec<String>) -> Outcome {
    let count = keys.len();
    keys.into_iter().for_each(|key| queue.add(key));
    expect(queue.len() == count)
}
