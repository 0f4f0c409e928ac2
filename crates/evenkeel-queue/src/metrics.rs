//! The metrics of a queue, under client-go's names.
//!
//! They are reported through the facade of the crate `metrics`, to a recorder that is installed before or after the queue is
//! built. Queues without a name report nothing.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | `workqueue_depth` | `name`, `priority` | keys that need processing, including those added again while in flight |
//! | `workqueue_adds_total` | `name` | adds that made a key need processing |
//! | [`QUEUE_DURATION`] | `name` | seconds from then until the key is handed out |
//! | [`WORK_DURATION`] | `name` | seconds that a key is in flight |
//! | `workqueue_unfinished_work_seconds` | `name` | sum of the ages of all keys in flight |
//! | `workqueue_longest_running_processor_seconds` | `name` | age of the longest run in flight |
//! | `workqueue_retries_total` | `name` | delayed adds |
//! | `workqueue_waiting_keys` | `name` | delayed keys |
//!
//! The label `priority` is present for priorities other than the default one. Beyond 25 different priorities, the others are
//! reported as `exceeded_cardinality_limit`.
//!
//! Queues that share a name are reported together: the longest run is the maximum, everything else the sum.
//!
//! Unfinished work is sampled twice a second while keys are in flight, by a task of the worker's runtime. Without a runtime,
//! [`WorkQueue::stats`](crate::WorkQueue::stats) has the longest run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram, with_recorder,
};

use evenkeel_base::task::scheduled;

use crate::Key;
use crate::machine::QueueMachine;
use crate::shared::Shared;
use crate::sync::{Arc, Weak};

pub(crate) const DEPTH: &str = "workqueue_depth";
pub(crate) const ADDS: &str = "workqueue_adds_total";
/// The histogram of the time that keys are ready.
pub const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
/// The histogram of the time that keys are in flight.
pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
pub(crate) const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
pub(crate) const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
pub(crate) const RETRIES: &str = "workqueue_retries_total";
pub(crate) const WAITING: &str = "workqueue_waiting_keys";

/// Buckets for [`QUEUE_DURATION`] and [`WORK_DURATION`], in seconds. client-go's end at ten seconds.
pub const DURATION_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// The sampling period of unfinished work.
const PERIOD: Duration = Duration::from_millis(500);

/// Priorities with their own label.
const LABELS: usize = 25;

/// Describes the metrics to the recorder. Queues do this when they first report.
pub fn describe() {
    describe_gauge!(DEPTH, Unit::Count, "Keys that need processing.");
    describe_counter!(ADDS, Unit::Count, "Adds that made a key need processing.");
    describe_histogram!(QUEUE_DURATION, Unit::Seconds, "Time from when a key needs processing until it is handed out.");
    describe_histogram!(WORK_DURATION, Unit::Seconds, "Time that a key is in flight.");
    describe_gauge!(UNFINISHED_WORK, Unit::Seconds, "Sum of the ages of all keys in flight.");
    describe_gauge!(LONGEST_RUNNING, Unit::Seconds, "Age of the longest run in flight.");
    describe_counter!(RETRIES, Unit::Count, "Delayed adds.");
    describe_gauge!(WAITING, Unit::Count, "Delayed keys.");
}

/// The metrics of one queue.
///
/// A program may build queues before it installs a recorder, which it can install once. The handles are therefore looked up at
/// most twice: at first use, and when the recorder has changed since.
pub(crate) struct QueueMetrics {
    name: SharedString,
    id: u64,
    first: OnceLock<(usize, Handles)>,
    later: OnceLock<Handles>,
    is_watched: AtomicBool,
}

struct Handles {
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    waiting: Gauge,
}

/// The reported values. Gauges are changed by differences, because several queues may share a name.
#[derive(Default)]
pub(crate) struct PublishedMetrics {
    /// Whether these were reported to the later of two recorders, which receives everything from the start.
    is_later: bool,
    adds: u64,
    retries: u64,
    waiting: usize,
    /// The depth of the default priority, the only one in most queues.
    depth: Option<Depth>,
    /// The depths of other priorities.
    depths: BTreeMap<i32, Depth>,
    /// The number of priorities with their own label.
    labels: usize,
}

struct Depth {
    gauge: Gauge,
    is_labelled: bool,
    reported: usize,
}

impl QueueMetrics {
    pub(crate) fn new(name: &str) -> Self {
        QueueMetrics {
            name: SharedString::from_owned(name.to_owned()),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            first: OnceLock::new(),
            later: OnceLock::new(),
            is_watched: AtomicBool::new(false),
        }
    }

    pub(crate) fn taken(&self, waited: Duration) {
        self.handles().queue_duration.record(waited);
    }

    pub(crate) fn finished(&self, took: Duration) {
        self.handles().work_duration.record(took);
    }

    /// Reports changes.
    pub(crate) fn publish<K: Key>(&self, machine: &mut QueueMachine<K>, published: &mut PublishedMetrics) {
        let handles = self.handles();
        if self.later.get().is_some() != published.is_later {
            *published = PublishedMetrics { is_later: true, ..PublishedMetrics::default() };
            machine.depths().for_each(|(priority, depth)| self.publish_depth(priority, depth, published));
        }
        let (adds, retries, waiting) = (machine.adds(), machine.retries(), machine.waiting());
        if adds != published.adds {
            handles.adds.increment(adds - published.adds);
        }
        if retries != published.retries {
            handles.retries.increment(retries - published.retries);
        }
        if waiting != published.waiting {
            handles.waiting.increment(waiting as f64 - published.waiting as f64);
        }
        (published.adds, published.retries, published.waiting) = (adds, retries, waiting);
        while let Some((priority, depth)) = machine.changed_depth() {
            self.publish_depth(priority, depth, published);
        }
    }

    /// Withdraws the gauges of a dropped queue.
    pub(crate) fn retire(&self, published: &mut PublishedMetrics) {
        let PublishedMetrics { is_later, waiting, depth, depths, .. } = std::mem::take(published);
        let handles = if is_later { self.later.get() } else { self.first.get().map(|(_, handles)| handles) };
        if let Some(handles) = handles {
            handles.waiting.decrement(waiting as f64);
            if self.is_watched.load(Ordering::Acquire) {
                self.set_unfinished(handles, Duration::ZERO, Duration::ZERO);
            }
        }
        for depth in depth.into_iter().chain(depths.into_values()) {
            depth.gauge.decrement(depth.reported as f64);
        }
    }

    fn publish_depth(&self, priority: i32, depth: usize, published: &mut PublishedMetrics) {
        let PublishedMetrics { depth: default, depths, labels, .. } = published;
        let new = || Depth { gauge: self.depth_gauge(priority, *labels), is_labelled: *labels < LABELS, reported: 0 };
        if priority == 0 {
            default.get_or_insert_with(new).report(depth);
            return;
        }
        let known = match depths.entry(priority) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(entry) => {
                let known = entry.insert(new());
                *labels = LABELS.min(*labels + 1);
                known
            }
        };
        // A label is never reused for another priority.
        if known.report(depth) {
            depths.remove(&priority);
        }
    }

    fn depth_gauge(&self, priority: i32, labelled: usize) -> Gauge {
        match priority {
            0 => gauge!(DEPTH, "name" => self.name.clone()),
            _ if labelled < LABELS => {
                gauge!(DEPTH, "name" => self.name.clone(), "priority" => priority.to_string())
            }
            _ => gauge!(DEPTH, "name" => self.name.clone(), "priority" => "exceeded_cardinality_limit"),
        }
    }

    /// Reports unfinished work together with that of other queues of the same name.
    fn set_unfinished(&self, handles: &Handles, sum: Duration, longest: Duration) {
        let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = all.entry(self.name.to_string()).or_default();
        queues.retain(|queue| queue.id != self.id);
        if !sum.is_zero() {
            queues.push(Unfinished { id: self.id, sum, longest });
        }
        let total: Duration = queues.iter().map(|queue| queue.sum).sum();
        let longest = queues.iter().map(|queue| queue.longest).max().unwrap_or_default();
        if queues.is_empty() {
            all.remove(&*self.name);
        }
        // Under the lock, so that reports of two queues are not reordered.
        handles.unfinished.set(total.as_secs_f64());
        handles.longest.set(longest.as_secs_f64());
    }

    fn handles(&self) -> &Handles {
        if let Some(handles) = self.later.get() {
            return handles;
        }
        let recorder = recorder();
        let (known, handles) = self.first.get_or_init(|| (recorder, Handles::new(&self.name)));
        if *known == recorder { handles } else { self.later.get_or_init(|| Handles::new(&self.name)) }
    }
}

impl Depth {
    /// Reports the change since the last report. Returns true if the entry can be removed.
    fn report(&mut self, depth: usize) -> bool {
        if depth != self.reported {
            self.gauge.increment(depth as f64 - self.reported as f64);
        }
        self.reported = depth;
        depth == 0 && !self.is_labelled
    }
}

impl Handles {
    fn new(name: &SharedString) -> Self {
        describe();
        Handles {
            adds: counter!(ADDS, "name" => name.clone()),
            retries: counter!(RETRIES, "name" => name.clone()),
            queue_duration: histogram!(QUEUE_DURATION, "name" => name.clone()),
            work_duration: histogram!(WORK_DURATION, "name" => name.clone()),
            unfinished: gauge!(UNFINISHED_WORK, "name" => name.clone()),
            longest: gauge!(LONGEST_RUNNING, "name" => name.clone()),
            waiting: gauge!(WAITING, "name" => name.clone()),
        }
    }
}

/// The unfinished work of one queue.
struct Unfinished {
    id: u64,
    sum: Duration,
    longest: Duration,
}

/// The unfinished work of all queues, by name: those that share a name report its sum and its maximum.
static UNFINISHED: Mutex<BTreeMap<String, Vec<Unfinished>>> = Mutex::new(BTreeMap::new());

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Identifies the current recorder.
fn recorder() -> usize {
    with_recorder(|recorder| std::ptr::from_ref(recorder).cast::<()>().addr())
}

/// Starts the task that samples unfinished work, unless it runs.
pub(crate) fn watch<K: Key>(shared: &Arc<Shared<K>>) {
    let Some(metrics) = &shared.metrics else { return };
    if metrics.is_watched.load(Ordering::Relaxed) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if !metrics.is_watched.swap(true, Ordering::AcqRel) {
        runtime.spawn(scheduled(watching(Watch(Arc::downgrade(shared)))));
    }
}

/// Marks the sampling task as ended, also if its runtime ends.
struct Watch<K: Key>(Weak<Shared<K>>);

impl<K: Key> Drop for Watch<K> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0.upgrade().as_ref().and_then(|shared| shared.metrics.as_ref()) {
            metrics.is_watched.store(false, Ordering::Release);
        }
    }
}

async fn watching<K: Key>(mut watch: Watch<K>) {
    loop {
        let sleep = {
            let Some(shared) = watch.0.upgrade() else { return };
            let Some(next) = shared.clock.now().checked_add(PERIOD) else { return };
            let Ok(sleep) = catch_unwind(AssertUnwindSafe(|| shared.clock.sleep_until(next))) else {
                tracing::warn!(queue = shared.name(), "runtime has no timers; unfinished work is not reported");
                // The flag stays set, so the task is not started again.
                watch.0 = Weak::new();
                return;
            };
            sleep
        };
        sleep.await;
        if !watch.0.upgrade().is_some_and(|shared| report_unfinished(&shared)) {
            // The flag is cleared already, and another task may have started.
            watch.0 = Weak::new();
            return;
        }
    }
}

/// Reports unfinished work. Returns false if there is none, or if the queue is shut down.
fn report_unfinished<K: Key>(shared: &Shared<K>) -> bool {
    let Some(metrics) = &shared.metrics else { return false };
    let now = shared.now();
    let (sum, longest, goes_on) = shared.look(|state| {
        let ages = state.machine.runs().map(|begun| now.since(begun));
        let (sum, longest) = ages.fold((Duration::ZERO, Duration::ZERO), |(sum, max), age| (sum + age, max.max(age)));
        let goes_on = state.machine.is_running() && state.machine.processing() > 0;
        if !goes_on {
            metrics.is_watched.store(false, Ordering::Release);
        }
        // A queue that is shut down is not sampled any more.
        if state.machine.is_running() { (sum, longest, goes_on) } else { (Duration::ZERO, Duration::ZERO, false) }
    });
    metrics.set_unfinished(metrics.handles(), sum, longest);
    goes_on
}
