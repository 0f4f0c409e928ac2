//! What is counted and timed, under client-go's names, so that existing dashboards work.
//!
//! Everything goes through the facade of the crate `metrics`: install a recorder, before or after the queue is made, and it
//! is there. Queues without a name report nothing.
//!
//! | name | labels | what |
//! |---|---|---|
//! | [`DEPTH`] | `name`, `priority` | keys that need processing, also those that were added again while they are being processed |
//! | [`ADDS`] | `name` | times that a key came to need processing |
//! | [`QUEUE_DURATION`] | `name` | seconds from then until a worker got it |
//! | [`WORK_DURATION`] | `name` | seconds that workers had a key |
//! | [`UNFINISHED_WORK`] | `name` | seconds that workers have had the keys which they have now, all together |
//! | [`LONGEST_RUNNING`] | `name` | seconds that the slowest of them has had its key |
//! | [`RETRIES`] | `name` | times that a key was added for later |
//! | [`WAITING`] | `name` | keys that wait for their time |
//!
//! The label `priority` is there for priorities other than the default one. Of more than 25 different priorities, the others
//! are reported as `exceeded_cardinality_limit`.
//!
//! Unfinished work is looked at twice a second while there is any, by a task of the runtime that the worker runs on. Where
//! there is no runtime, [`WorkQueue::stats`](crate::WorkQueue::stats) tells.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram, with_recorder,
};

use crate::Key;
use crate::machine::QueueMachine;
use crate::shared::Shared;
use crate::sync::{Arc, Weak};

/// Shows how many keys need processing.
pub const DEPTH: &str = "workqueue_depth";
/// Counts keys that came to need processing.
pub const ADDS: &str = "workqueue_adds_total";
/// Times how long keys stay in the queue.
pub const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
/// Times how long workers have a key.
pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
/// Shows how long workers have had what they have.
pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
/// Shows how long the slowest worker has had its key.
pub const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
/// Counts keys that were added for later.
pub const RETRIES: &str = "workqueue_retries_total";
/// Shows how many keys wait for their time.
pub const WAITING: &str = "workqueue_waiting_keys";

/// Buckets for [`QUEUE_DURATION`] and [`WORK_DURATION`], in seconds. client-go's end at ten seconds, beyond which all is one.
pub const DURATION_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// How often unfinished work is looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// So many priorities have a label of their own.
const LABELS: usize = 25;

/// Tells the recorder what the metrics mean. Queues that report anything do this by themselves.
pub fn describe() {
    describe_gauge!(DEPTH, Unit::Count, "Keys that need processing.");
    describe_counter!(ADDS, Unit::Count, "Times that a key came to need processing.");
    describe_histogram!(QUEUE_DURATION, Unit::Seconds, "Time from when a key needs processing until a worker gets it.");
    describe_histogram!(WORK_DURATION, Unit::Seconds, "Time that workers have a key.");
    describe_gauge!(UNFINISHED_WORK, Unit::Seconds, "Time that workers have had the keys which they have now.");
    describe_gauge!(LONGEST_RUNNING, Unit::Seconds, "Time that the slowest worker has had its key.");
    describe_counter!(RETRIES, Unit::Count, "Times that a key was added for later.");
    describe_gauge!(WAITING, Unit::Count, "Keys that wait for their time.");
}

/// The metrics of one queue.
///
/// A program may make its queues before it installs its recorder. A recorder for the whole program can be installed once, so
/// the metrics are looked up at most twice: when they are first needed, and when there is another recorder than there was
/// then.
pub(crate) struct QueueMetrics {
    name: SharedString,
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

/// What has been reported, by changes, because several queues may have one name.
#[derive(Default)]
pub(crate) struct PublishedMetrics {
    /// Whether that was told to the later one of two recorders, which is told everything from the beginning.
    is_later: bool,
    adds: u64,
    retries: u64,
    waiting: usize,
    /// The depth of the default priority, which is the only one in most queues.
    depth: Option<Depth>,
    /// Those of the others.
    depths: BTreeMap<i32, Depth>,
    /// How many of them have a label of their own.
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

    /// Reports what has changed.
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

    /// The queue is gone, and all that is in it.
    pub(crate) fn retire(&self, published: &mut PublishedMetrics) {
        let PublishedMetrics { is_later, waiting, depth, depths, .. } = std::mem::take(published);
        let handles = if is_later { self.later.get() } else { self.first.get().map(|(_, handles)| handles) };
        if let Some(handles) = handles {
            handles.waiting.decrement(waiting as f64);
            if self.is_watched.load(Ordering::Acquire) {
                handles.show_unfinished(Duration::ZERO, Duration::ZERO);
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
            Entry::Vacant(place) => {
                let known = place.insert(new());
                *labels = LABELS.min(*labels + 1);
                known
            }
        };
        // A label that was given is never given to another.
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
    /// Reports the change since the last time. True if nothing has to be remembered any more.
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

    fn show_unfinished(&self, sum: Duration, longest: Duration) {
        self.unfinished.set(sum.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}

/// Which recorder there is.
fn recorder() -> usize {
    with_recorder(|recorder| std::ptr::from_ref(recorder).cast::<()>().addr())
}

/// Looks at unfinished work from now on until there is none, if nobody does.
pub(crate) fn watch<K: Key>(shared: &Arc<Shared<K>>) {
    let Some(metrics) = &shared.metrics else { return };
    if metrics.is_watched.load(Ordering::Relaxed) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if !metrics.is_watched.swap(true, Ordering::AcqRel) {
        runtime.spawn(watching(Watch(Arc::downgrade(shared))));
    }
}

/// Says that nobody looks any more, should the runtime end in the middle of it.
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
                tracing::warn!(queue = shared.name(), "unfinished work is not reported: the runtime has no timers");
                // It stays watched, so nobody tries again.
                watch.0 = Weak::new();
                return;
            };
            sleep
        };
        sleep.await;
        if !watch.0.upgrade().is_some_and(|shared| report_unfinished(&shared)) {
            // That has been said already, and somebody else may have begun.
            watch.0 = Weak::new();
            return;
        }
    }
}

/// Reports unfinished work. False if there is none, or if there is no point in it because the queue is shut down.
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
        // Nobody will look any more at what is not finished when the queue is shut down.
        if state.machine.is_running() { (sum, longest, goes_on) } else { (Duration::ZERO, Duration::ZERO, false) }
    });
    metrics.handles().show_unfinished(sum, longest);
    goes_on
}
