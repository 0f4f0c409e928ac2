//! The contract of the queue, line by line.

mod contract;
mod deferred;
mod delay;
mod drain;
mod fair;
mod item;
mod next;
mod observer;
mod panics;
mod priority;
mod rate;
mod reported_metrics;
mod suspension;
mod threads;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::compat::{ReadyOrder, Ticket};
use crate::{Clock, DrainDelayed, Item, Key, OnReadd, Sleep, TokioClock, WorkQueue};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets virtual time pass.
async fn step(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Lets all other tasks run until they wait.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Virtual milliseconds since some point in time.
struct Since(tokio::time::Instant);

impl Since {
    fn now() -> Self {
        Since(tokio::time::Instant::now())
    }

    fn ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }
}

/// Takes and finishes all ready keys.
fn take_all<K: Key>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_next().map(done)).collect()
}

/// Takes and finishes the next key, which must exist.
fn take<K: Key + Debug>(queue: &WorkQueue<K>) -> K {
    done(queue.try_next().expect("a key is ready"))
}

/// Finishes an item and returns its key.
fn done<K: Key>(item: Item<K>) -> K {
    let key = item.key().clone();
    item.done();
    key
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Woken {
    fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Woken::default());
        (woken.clone(), Waker::from(woken))
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tokio's clock that counts timers.
#[derive(Clone, Default)]
struct CountingClock(Arc<AtomicUsize>);

impl CountingClock {
    fn timers(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Instant {
        TokioClock.now()
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        self.0.fetch_add(1, Ordering::SeqCst);
        TokioClock.sleep_until(time)
    }
}

/// A manual clock whose timers never fire.
#[derive(Clone)]
struct HandClock(Arc<Mutex<Instant>>);

impl HandClock {
    fn new() -> Self {
        HandClock(Arc::new(Mutex::new(TokioClock.now())))
    }

    fn step(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// First in, first out, with a log.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn write(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

struct LoggedOrder {
    log: CallLog,
    tickets: VecDeque<Ticket>,
}

impl ReadyOrder<&'static str> for LoggedOrder {
    fn push(&mut self, key: &&'static str, ticket: Ticket) {
        self.log.write(format!("push {key}"));
        self.tickets.push_back(ticket);
    }

    fn touch(&mut self, key: &&'static str) {
        self.log.write(format!("touch {key}"));
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.tickets.pop_front()
    }
}

fn logged_order() -> (CallLog, LoggedOrder) {
    let log = CallLog::default();
    (log.clone(), LoggedOrder { log, tickets: VecDeque::new() })
}
