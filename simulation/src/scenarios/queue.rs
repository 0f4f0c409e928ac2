//! A work queue with adders and workers, and without an API server (WRK-7).

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::queue::{AddOptions, DrainDelayed, DrainError, Item, LOW_PRIORITY, RateLimiter, WorkQueue};
use evenkeel_base::task::scheduled;
use evenkeel_sim::{Fault, Process, Scenario};
use tokio::time::{Instant, sleep, timeout};

use self::model::QueueModel;
use super::Outcome;

/// Few keys, so that adds meet.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const ADDERS: u32 = 3;
/// Adds of each adder.
const ADDS: u32 = 8;

type Key = &'static str;

/// One queue, its users, and what must become of each key.
#[derive(Clone)]
struct QueueRun {
    process: Process,
    queue: WorkQueue<Key>,
    model: Arc<QueueModel>,
}

/// Waits that are drawn, and known to the model.
struct DrawnWaits {
    process: Process,
    model: Arc<QueueModel>,
}

impl RateLimiter<Key> for DrawnWaits {
    fn when(&self, key: &Key, _: u32, _: std::time::Instant) -> Duration {
        let wait = Duration::from_millis(u64::from(1 + self.process.choose(3_000)));
        self.model.backs_off(key, wait);
        wait
    }
}

/// Adds, delays and retries keys while workers process them, then shuts the queue down in one of its ways.
async fn use_queue(process: Process) -> Outcome {
    let model = Arc::new(QueueModel::new(process.clone()));
    let limiter = DrawnWaits { process: process.clone(), model: Arc::clone(&model) };
    let queue = WorkQueue::builder().limiter(limiter).build();
    let run = QueueRun { process: process.clone(), queue, model };
    let adders = (0..ADDERS).map(|_| tokio::spawn(scheduled(run.clone().add_keys())));
    let workers = (0..=process.choose(3)).map(|_| tokio::spawn(scheduled(run.clone().work())));
    let tasks: Vec<_> = adders.chain(workers).collect();
    run.pause(15_000).await;
    run.end().await;
    for task in tasks {
        task.await?;
    }
    run.model.ended();
    process.shutdown().await;
    Ok(())
}

impl QueueRun {
    /// Waits up to so many milliseconds.
    async fn pause(&self, milliseconds: u32) {
        sleep(Duration::from_millis(u64::from(self.process.choose(milliseconds)))).await;
    }

    fn choose_wait(&self) -> Duration {
        Duration::from_millis(u64::from(self.process.choose(6_000)))
    }

    async fn add_keys(self) {
        for _ in 0..ADDS {
            let key = KEYS[self.process.choose(KEYS.len() as u32) as usize];
            match self.process.choose(6) {
                0 | 1 => {
                    self.model.adds(key);
                    self.queue.add(key);
                }
                2 | 3 => {
                    let wait = self.choose_wait();
                    self.model.adds_after(key, wait);
                    self.queue.add_after(key, wait);
                }
                4 => {
                    self.model.adds(key);
                    self.queue.add_with(key, AddOptions::new().priority(LOW_PRIORITY));
                }
                _ => {
                    // Its wait is known when the limiter was called.
                    self.queue.add_rate_limited(key);
                    self.model.fails(key, self.queue.failures(&key));
                }
            }
            self.pause(2_000).await;
        }
    }

    async fn work(self) {
        loop {
            let since = Instant::now();
            // A worker that stops waiting must not take a key with it.
            let limit = Duration::from_millis(u64::from(1 + self.process.choose(4_000)));
            let next = match self.process.choose(3) {
                2 => timeout(limit, self.queue.next()).await,
                _ => Ok(self.queue.next().await),
            };
            match next {
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(item)) => {
                    self.model.takes(item.key(), item.failures(), since);
                    if self.process.choose(4) != 0 {
                        self.pause(1_500).await;
                    }
                    self.finish(item);
                }
            }
        }
    }

    /// Finishes an item in one of the ways that there are.
    fn finish(&self, item: Item<Key>) {
        let key = *item.key();
        // A panic drops the item, which is a failure.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let item = item;
            self.process.may_panic();
            item
        }));
        let Ok(item) = outcome else { return self.model.finishes_failed(key, self.queue.failures(&key)) };
        match self.process.choose(8) {
            0..=2 => {
                item.forget();
                self.model.forgets(key);
                self.model.finishes(key, self.queue.failures(&key));
            }
            3 => {
                item.done();
                self.model.finishes(key, self.queue.failures(&key));
            }
            4 => {
                item.requeue();
                self.model.finishes_failed(key, self.queue.failures(&key));
            }
            5 => {
                drop(item);
                self.model.finishes_failed(key, self.queue.failures(&key));
            }
            6 => {
                let wait = self.choose_wait();
                item.retry_after(wait);
                self.model.finishes_until(key, wait, self.queue.failures(&key));
            }
            _ => {
                let wait = self.choose_wait();
                item.requeue_after(wait);
                self.model.forgets(key);
                self.model.finishes_until(key, wait, self.queue.failures(&key));
            }
        }
    }

    /// Shuts the queue down.
    async fn end(&self) {
        let way = self.process.choose(4);
        if way == 3 {
            self.queue.shut_down();
            self.model.stops(DrainDelayed::Discard);
            return;
        }
        let delayed = if way == 0 { DrainDelayed::Flush } else { DrainDelayed::Discard };
        let mut drain = self.queue.drain(delayed);
        self.model.stops(delayed);
        if way == 2 {
            drain = drain.within(Duration::from_millis(u64::from(self.process.choose(1_000))));
        }
        match drain.await {
            Ok(()) => self.model.drained(),
            Err(DrainError::OutOfTime { ready, in_flight }) => self.model.out_of_time(ready, in_flight),
            Err(error) => self.process.fail("stop means stop", error.to_string()),
        }
    }
}

/// A queue with adders, delayed adders, rate-limited adders and workers, which is shut down or drained while they work.
pub fn queue() -> Scenario {
    Scenario::new("queue")
        .without_server()
        .process("queue", use_queue)
        .faults([Fault::ClockJumps, Fault::Panics])
        .compare_final_state(false)
        .rough_for(Duration::from_secs(30))
        .settle_within(Duration::from_secs(60))
        .stable_for(Duration::ZERO)
}
