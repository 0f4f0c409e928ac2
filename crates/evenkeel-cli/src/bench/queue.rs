//! `evenkeel bench queue`: what it costs to put keys into a work queue and to take them out.
//!
//! There are two kinds of queues: as client-go's default for controllers is, with a name, a limiter and `forget`; and
//! [plain](plain) ones without any of these.
//!
//! `bench/queue.sh` does the same with client-go's queue and with controller-runtime's, and compares them.

mod plain;

use std::env;
use std::future;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use evenkeel_core::ObjectKey;
use evenkeel_queue::limiter::default_controller_limiter;
use evenkeel_queue::{Clock, Item, Key, Sleep, TokioClock, WorkQueue};
use serde::Serialize;
use tokio::task::JoinSet;

use super::process::{memory, processor_nanos};
use crate::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run this case alone, in this process; otherwise each case is run in a process of its own
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// How many keys; otherwise as many as are usual for the case
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    keys: Option<u32>,
    /// How many workers take keys, in the cases with workers; otherwise 1, and also 4 and 16 if all cases are run
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Case {
    /// One thread adds
    Add,
    /// One thread takes and finishes what was added before
    GetDone,
    /// One thread adds while others take, forget and finish
    Workers,
    /// As `add`, with a plain queue
    PlainAdd,
    /// As `get-done`, with a plain queue
    PlainGetDone,
    /// As `workers`, with a plain queue, and without `forget`
    PlainWorkers,
    /// As `plain-workers`, with threads that block
    PlainThreads,
    /// Adds delayed keys, and takes them when they are due
    Delayed,
    /// Keys are added that have failed
    RateLimited,
    /// What a key takes up that was added for later
    WaitingMemory,
    /// What a key takes up that has failed and waits
    BackOffMemory,
}

/// What is run if no case is named: the case, the number of keys, and the number of workers.
const USUAL: [(Case, u32, u32); 18] = [
    (Case::Add, MILLION, 1),
    (Case::GetDone, MILLION, 1),
    (Case::Workers, MILLION, 1),
    (Case::Workers, MILLION, 4),
    (Case::Workers, MILLION, 16),
    (Case::PlainAdd, MILLION, 1),
    (Case::PlainGetDone, MILLION, 1),
    (Case::PlainWorkers, MILLION, 1),
    (Case::PlainWorkers, MILLION, 4),
    (Case::PlainWorkers, MILLION, 16),
    (Case::PlainThreads, MILLION, 1),
    (Case::PlainThreads, MILLION, 4),
    (Case::PlainThreads, MILLION, 16),
    (Case::Delayed, MILLION / 5, 1),
    (Case::Delayed, 10 * MILLION, 1),
    (Case::RateLimited, MILLION, 1),
    (Case::WaitingMemory, 10 * MILLION, 1),
    (Case::BackOffMemory, MILLION, 1),
];
const MILLION: u32 = 1_000_000;

/// What one case took, for each key.
#[derive(Debug, Serialize)]
struct Figures {
    queue: &'static str,
    case: Case,
    keys: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<u32>,
    #[serde(flatten)]
    costs: Costs,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Costs {
    Time {
        ns_per_key: f64,
        cpu_ns_per_key: f64,
    },
    InAndOut {
        ns_per_key_in: f64,
        cpu_ns_per_key_in: f64,
        ns_per_key_out: f64,
        cpu_ns_per_key_out: f64,
    },
    /// Live memory cannot be distinguished from what the allocator keeps, so that is counted, too.
    Memory {
        resident_bytes_per_key: f64,
        peak_bytes_per_key: f64,
    },
}

impl Case {
    fn has_workers(self) -> bool {
        matches!(self, Case::Workers | Case::PlainWorkers | Case::PlainThreads)
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.case {
        None => run_all(&arguments),
        Some(case) => {
            let usual = USUAL.iter().find(|(usual, ..)| *usual == case).map_or(MILLION, |(_, keys, _)| *keys);
            let figures = measure(case, arguments.keys.unwrap_or(usual), arguments.workers.unwrap_or(1)).await?;
            writeln!(io::stdout().lock(), "{}", serde_json::to_string(&figures)?)?;
            Ok(())
        }
    }
}

/// Runs every case in a process of its own, because what one leaves behind would change what the next one takes.
fn run_all(arguments: &Arguments) -> Outcome {
    let usual = |(case, keys, workers): (Case, u32, u32)| {
        let workers = arguments.workers.filter(|_| case.has_workers()).unwrap_or(workers);
        (case, arguments.keys.unwrap_or(keys), workers)
    };
    let mut cases: Vec<_> = USUAL.into_iter().map(usual).collect();
    // Explicit numbers make some cases equal.
    cases.dedup();
    let program = env::current_exe()?;
    let shows_progress = io::stderr().is_terminal();
    for (number, (case, keys, workers)) in cases.iter().enumerate() {
        let name = case.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        if shows_progress {
            eprint!("\r\x1b[K{} of {}: {name}, {keys} keys", number + 1, cases.len());
        }
        let mut command = Command::new(&program);
        command.args([
            "bench",
            "queue",
            "--case",
            &name,
            "--keys",
            &keys.to_string(),
            "--workers",
            &workers.to_string(),
        ]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if shows_progress {
            eprint!("\r\x1b[K");
        }
        if !output.status.success() {
            return Err(format!("the case {name} of {keys} keys ended early: {}", output.status).into());
        }
        io::stdout().lock().write_all(&output.stdout)?;
    }
    Ok(())
}

async fn measure(case: Case, count: u32, workers: u32) -> Result<Figures, Failure> {
    let costs = match case {
        Case::Add => {
            let (keys, queue) = (keys(count), queue(TokioClock));
            time(count, async || add_all(&queue, keys.iter().cloned())).await?
        }
        Case::GetDone => {
            let (keys, queue) = (keys(count), queue(TokioClock));
            add_all(&queue, keys.iter().cloned())?;
            time(count, async || take_all(&queue, count).await).await?
        }
        Case::Workers => {
            let (keys, queue) = (keys(count), queue(TokioClock));
            time(count, async || work_off(&queue, keys.iter().cloned(), workers, Item::forget).await).await?
        }
        Case::PlainAdd => plain::add(count).await?,
        Case::PlainGetDone => plain::get_done(count).await?,
        Case::PlainWorkers => plain::tasks(count, workers).await?,
        Case::PlainThreads => plain::threads(count, workers).await?,
        Case::Delayed => {
            let clock = Manual::default();
            let (keys, queue, mut delays) = (keys(count), queue(clock.clone()), Delays::new());
            let add = time(count, async || {
                keys.iter().for_each(|key| queue.add_after(key.clone(), delays.next()));
                expect(queue.stats().delayed == keys.len())
            });
            let added = add.await?;
            let take = time(count, async || {
                clock.step(Duration::from_secs(3 * 3600));
                take_all(&queue, count).await
            });
            Costs::in_and_out(added, take.await?)
        }
        Case::RateLimited => {
            let (keys, queue) = (keys(count), queue(TokioClock));
            time(count, async || {
                keys.iter().for_each(|key| queue.add_rate_limited(key.clone()));
                expect(queue.stats().failing == keys.len())
            })
            .await?
        }
        Case::WaitingMemory => {
            let mut delays = Delays::new();
            space(count, |queue, key| queue.add_after(key, delays.next()))?
        }
        Case::BackOffMemory => space(count, |queue, key| queue.add_rate_limited(key))?,
    };
    let workers = case.has_workers().then_some(workers);
    Ok(Figures { queue: "evenkeel", case, keys: count, workers, costs })
}

/// A queue as client-go's default is: named, and with the limiter of a controller.
fn queue(clock: impl Clock) -> WorkQueue<ObjectKey> {
    WorkQueue::builder().name("bench").limiter(default_controller_limiter()).clock(clock).build()
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::namespaced(&format!("team-{:02}", number % 50), &format!("web-5d9c8b7f6-{number:08}"))
}

fn keys(count: u32) -> Vec<ObjectKey> {
    (0..count).map(key).collect()
}

fn add_all<K: Key>(queue: &WorkQueue<K>, keys: impl ExactSizeIterator<Item = K>) -> Outcome {
    let count = keys.len();
    keys.for_each(|key| queue.add(key));
    expect(queue.len() == count)
}

async fn take_all<K: Key>(queue: &WorkQueue<K>, count: u32) -> Outcome {
    for _ in 0..count {
        if let Some(item) = queue.next().await {
            item.done();
        }
    }
    expect(queue.is_empty() && queue.stats().delayed == 0)
}

/// Adds the keys while so many tasks take and finish them.
async fn work_off<K: Key>(
    queue: &WorkQueue<K>,
    keys: impl ExactSizeIterator<Item = K>,
    workers: u32,
    finish: impl Fn(Item<K>) + Copy + Send + 'static,
) -> Outcome {
    let count = keys.len();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut taken = 0;
            while let Some(item) = queue.next().await {
                finish(item);
                taken += 1;
            }
            taken
        });
    }
    // This is not one of the threads that the tasks run on.
    keys.for_each(|key| queue.add(key));
    queue.shut_down();
    let taken: usize = tasks.join_all().await.into_iter().sum();
    expect(taken == count)
}

async fn time(count: u32, work: impl AsyncFnOnce() -> Outcome) -> Result<Costs, Failure> {
    let (cpu, begin) = (processor_nanos()?, TokioClock.now());
    work().await?;
    let passed = TokioClock.now().duration_since(begin).as_nanos() as u64;
    let cpu_ns_per_key = per_key(processor_nanos()?.saturating_sub(cpu), count);
    Ok(Costs::Time { ns_per_key: per_key(passed, count), cpu_ns_per_key })
}

fn space(count: u32, mut add: impl FnMut(&WorkQueue<ObjectKey>, ObjectKey)) -> Result<Costs, Failure> {
    let queue = queue(TokioClock);
    let (_, before) = memory()?;
    (0..count).for_each(|number| add(&queue, key(number)));
    let (peak, after) = memory()?;
    // A few may be due meanwhile.
    let stats = queue.stats();
    expect(stats.delayed + stats.ready == count as usize)?;
    let bytes = |kibibytes: u64| per_key(kibibytes.saturating_sub(before) * 1024, count);
    Ok(Costs::Memory { resident_bytes_per_key: bytes(after), peak_bytes_per_key: bytes(peak) })
}

impl Costs {
    fn in_and_out(added: Costs, taken: Costs) -> Costs {
        match (added, taken) {
            (
                Costs::Time { ns_per_key: ns_per_key_in, cpu_ns_per_key: cpu_ns_per_key_in },
                Costs::Time { ns_per_key: ns_per_key_out, cpu_ns_per_key: cpu_ns_per_key_out },
            ) => Costs::InAndOut { ns_per_key_in, cpu_ns_per_key_in, ns_per_key_out, cpu_ns_per_key_out },
            (other, _) => other,
        }
    }
}

fn per_key(sum: u64, count: u32) -> f64 {
    (sum as f64 / f64::from(count) * 10.0).round() / 10.0
}

fn expect(held: bool) -> Outcome {
    if held { Ok(()) } else { Err("the queue lost keys or kept too many".into()) }
}

/// Between one hour and two, in an order that looks random: xorshift64*.
struct Delays(u64);

impl Delays {
    fn new() -> Self {
        Delays(88_172_645_463_325_252)
    }

    fn next(&mut self) -> Duration {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        const HOUR: u64 = 3_600_000_000_000;
        Duration::from_nanos(HOUR + self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % HOUR)
    }
}

/// A manual clock without timers.
#[derive(Clone)]
struct Manual {
    begun: Instant,
    passed: Arc<AtomicU64>,
}

impl Default for Manual {
    fn default() -> Self {
        Manual { begun: TokioClock.now(), passed: Arc::default() }
    }
}

impl Manual {
    fn step(&self, by: Duration) {
        self.passed.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for Manual {
    fn now(&self) -> Instant {
        self.begun + Duration::from_nanos(self.passed.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(future::pending())
    }
}
