//! Plain queues: `String` keys, no name, no limiter, and no verdict but `done`.
//!
//! Keys are made before the measurement. The queue takes them over, as it does from an event handler that made them.

use std::thread;

use evenkeel_queue::{Item, WorkQueue};

use super::{Costs, add_all, expect, key, take_all, time, work_off};
use crate::Failure;

pub(super) async fn add(count: u32) -> Result<Costs, Failure> {
    let (keys, queue) = (keys(count), WorkQueue::<String>::new());
    time(count, async || add_all(&queue, keys.into_iter())).await
}

pub(super) async fn get_done(count: u32) -> Result<Costs, Failure> {
    let queue = WorkQueue::new();
    add_all(&queue, keys(count).into_iter())?;
    time(count, async || take_all(&queue, count).await).await
}

pub(super) async fn tasks(count: u32, workers: u32) -> Result<Costs, Failure> {
    let (keys, queue) = (keys(count), WorkQueue::<String>::new());
    time(count, async || work_off(&queue, keys.into_iter(), workers, Item::done).await).await
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
