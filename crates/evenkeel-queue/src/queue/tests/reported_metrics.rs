//! Metrics of queues.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::*;
use crate::metrics::{
    ADDS, DEPTH, DURATION_BUCKETS, LONGEST_RUNNING, QUEUE_DURATION, RETRIES, UNFINISHED_WORK, WAITING, WORK_DURATION,
};
use crate::{AddOptions, LOW_PRIORITY};

/// The values of a recorder. A snapshot resets them, so earlier values are kept here.
struct Seen {
    snapshotter: Snapshotter,
    sums: BTreeMap<String, f64>,
    values: BTreeMap<String, Vec<f64>>,
}

impl Seen {
    fn new(recorder: &DebuggingRecorder) -> Self {
        Seen { snapshotter: recorder.snapshotter(), sums: BTreeMap::new(), values: BTreeMap::new() }
    }

    /// Reads the values since the last call. A metric is named with its labels: `name{label=value}`.
    fn read(&mut self) {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            match value {
                DebugValue::Counter(count) => *self.sums.entry(name).or_default() += count as f64,
                DebugValue::Gauge(change) => *self.sums.entry(name).or_default() += change.into_inner(),
                DebugValue::Histogram(values) => {
                    self.values.entry(name).or_default().extend(values.into_iter().map(|value| value.into_inner()));
                }
            }
        }
    }

    /// A counter, or a gauge that is incremented and decremented only.
    fn sum(&mut self, name: &str, labels: &str) -> f64 {
        self.read();
        self.sums.get(&format!("{name}{{{labels}}}")).copied().unwrap_or_default()
    }

    /// A gauge that is set, as of the last snapshot.
    fn set(&mut self, name: &str, labels: &str) -> f64 {
        self.sums.clear();
        self.sum(name, labels)
    }

    fn values(&mut self, name: &str, labels: &str) -> Vec<f64> {
        self.read();
        self.values.get(&format!("{name}{{{labels}}}")).cloned().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn wm_001_a_queue_without_a_name_reports_nothing_and_runs_no_task() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let clock = CountingClock::default();
    for queue in [WorkQueue::builder().clock(clock.clone()), WorkQueue::builder().clock(clock.clone()).name("")] {
        let queue = queue.build();
        queue.add("a");
        let item = queue.next().await.unwrap();
        step(secs(10)).await;
        item.retry("fails");
    }
    seen.read();
    assert!(seen.sums.is_empty() && seen.values.is_empty());
    assert_eq!(clock.timers(), 0);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn wm_002_every_metric_carries_the_name_of_its_queue() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    for name in ["one", "two"] {
        let queue = WorkQueue::rate_limited(name);
        queue.add("a");
        queue.add_after("b", ms(1));
        let item = queue.next().await.unwrap();
        step(secs(1)).await;
        item.forget();
    }
    seen.read();
    for name in ["one", "two"] {
        for metric in [DEPTH, ADDS, UNFINISHED_WORK, LONGEST_RUNNING, RETRIES, WAITING] {
            assert!(seen.sums.contains_key(&format!("{metric}{{name={name}}}")), "{metric} of {name}");
        }
        for metric in [QUEUE_DURATION, WORK_DURATION] {
            assert_eq!(seen.values(metric, &format!("name={name}")).len(), 1, "{metric} of {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wm_003_a_recorder_may_be_installed_after_the_queue() {
    let queue = WorkQueue::rate_limited("wm-003");
    queue.add("a");
    queue.add_all(["b", "c"], AddOptions::new().priority(3));
    (0..5).for_each(|_| queue.add_after("w", secs(1)));
    queue.add_after("x", secs(2));
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    queue.add("d");
    assert_eq!(seen.sum(DEPTH, "name=wm-003"), 2.0);
    assert_eq!(seen.sum(DEPTH, "name=wm-003,priority=3"), 2.0);
    assert_eq!(seen.sum(WAITING, "name=wm-003"), 2.0, "those are counted that were there before");
    assert_eq!((seen.sum(ADDS, "name=wm-003"), seen.sum(RETRIES, "name=wm-003")), (4.0, 6.0));
    step(secs(1)).await;
    assert_eq!(take_all(&queue).len(), 5);
    assert_eq!(seen.sum(WAITING, "name=wm-003"), 1.0);
    assert_eq!(seen.sum(DEPTH, "name=wm-003"), 0.0);
    assert_eq!(seen.values(QUEUE_DURATION, "name=wm-003").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn wm_004_a_key_is_counted_when_it_becomes_dirty() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("wm-004");
    queue.add("foo");
    assert_eq!((seen.sum(ADDS, "name=wm-004"), seen.sum(DEPTH, "name=wm-004")), (1.0, 1.0));
    step(Duration::from_millis(50)).await;
    let item = queue.next().await.unwrap();
    (0..5).for_each(|_| queue.add("foo"));
    assert_eq!((seen.sum(ADDS, "name=wm-004"), seen.sum(DEPTH, "name=wm-004")), (2.0, 1.0));
    item.done();
    queue.add_after("later", ms(1));
    assert_eq!(seen.sum(ADDS, "name=wm-004"), 2.0, "not while it waits");
    step(ms(1)).await;
    assert_eq!(queue.len(), 2);
    assert_eq!((seen.sum(ADDS, "name=wm-004"), seen.sum(DEPTH, "name=wm-004")), (3.0, 2.0));
    queue.shut_down();
    queue.add("late");
    assert_eq!(seen.sum(ADDS, "name=wm-004"), 3.0);
}

#[tokio::test(start_paused = true)]
async fn qhc_05_depth_and_len_differ_by_readded_keys() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("hc-05");
    queue.add("a");
    let item = queue.next().await.unwrap();
    (0..5).for_each(|_| queue.add("a"));
    assert_eq!((queue.len(), queue.stats().depth), (0, 1));
    assert_eq!((seen.sum(DEPTH, "name=hc-05"), seen.sum(ADDS, "name=hc-05")), (1.0, 2.0));
    item.done();
    assert_eq!((queue.len(), seen.sum(DEPTH, "name=hc-05")), (1, 1.0));
    queue.next().await.unwrap().done();
    assert_eq!(seen.sum(DEPTH, "name=hc-05"), 0.0);
    assert_eq!(seen.values(QUEUE_DURATION, "name=hc-05").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn wm_005_the_depth_can_exceed_the_length() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("wm-005");
    queue.add_all(0..10, AddOptions::new());
    let items: Vec<_> = (0..4).map(|_| queue.try_next().unwrap()).collect();
    queue.add_all(0..10, AddOptions::new());
    assert_eq!((queue.len(), seen.sum(DEPTH, "name=wm-005")), (6, 10.0));
    items.into_iter().for_each(Item::done);
    assert_eq!((queue.len(), seen.sum(DEPTH, "name=wm-005")), (10, 10.0));
}

#[tokio::test(start_paused = true)]
async fn wm_006_the_time_in_the_queue_is_from_the_first_add_to_the_hand_out() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("wm-006");
    queue.add("foo");
    step(ms(30)).await;
    queue.add("foo");
    step(ms(20)).await;
    let item = queue.next().await.unwrap();
    queue.add("foo");
    step(ms(25)).await;
    item.done();
    queue.next().await.unwrap().done();
    queue.add_after("later", ms(10));
    step(ms(15)).await;
    queue.try_next().unwrap().done();
    queue.add_all(["raised"], AddOptions::new().priority(LOW_PRIORITY));
    step(ms(7)).await;
    queue.add("raised");
    step(ms(1)).await;
    queue.try_next().unwrap().done();
    assert_eq!(seen.values(QUEUE_DURATION, "name=wm-006"), [0.05, 0.025, 0.005, 0.008]);
}

#[tokio::test(start_paused = true)]
async fn wm_007_the_time_of_the_work_is_from_the_hand_out_to_its_end() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("wm-007");
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key));
    let (a, b, c) = (queue.try_next().unwrap(), queue.try_next().unwrap(), queue.try_next().unwrap());
    step(ms(25)).await;
    a.forget();
    step(ms(25)).await;
    b.retry("fails");
    step(ms(950)).await;
    c.done();
    assert_eq!(seen.values(WORK_DURATION, "name=wm-007"), [0.025, 0.05, 1.0]);
}

#[tokio::test(start_paused = true)]
async fn wm_008_unfinished_work_is_reported_twice_a_second_while_there_is_any() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().name("wm-008").clock(clock.clone()).build();
    step(secs(10)).await;
    assert_eq!(clock.timers(), 0, "nothing is unfinished");
    ["a", "b"].into_iter().for_each(|key| queue.add(key));
    let a = queue.next().await.unwrap();
    step(ms(200)).await;
    let b = queue.next().await.unwrap();
    step(ms(299)).await;
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-008"), 0.0, "not yet");
    step(ms(1)).await;
    settle().await;
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-008"), 0.8);
    step(ms(500)).await;
    settle().await;
    assert_eq!(seen.set(LONGEST_RUNNING, "name=wm-008"), 1.0);
    a.done();
    step(ms(500)).await;
    settle().await;
    assert_eq!(seen.set(LONGEST_RUNNING, "name=wm-008"), 1.3);
    b.done();
    step(ms(500)).await;
    settle().await;
    seen.read();
    assert!(seen.sums.contains_key(&format!("{UNFINISHED_WORK}{{name=wm-008}}")));
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-008"), 0.0);
    let timers = clock.timers();
    step(secs(60)).await;
    assert_eq!(clock.timers(), timers, "then sampling ends");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    queue.add("c");
    let c = queue.next().await.unwrap();
    step(ms(500)).await;
    settle().await;
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-008"), 0.5, "until there is work again");
    c.done();
}

#[test]
fn wm_008_unfinished_work_is_reported_by_the_next_runtime_too() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::builder().name("runtimes").clock(CountingClock::default()).build();
    for key in ["first", "second"] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        queue.add(key);
        let item = runtime.block_on(async {
            let item = queue.next().await.unwrap();
            step(ms(700)).await;
            item
        });
        assert!(seen.set(UNFINISHED_WORK, "name=runtimes") > 0.0, "{key}");
        drop(runtime);
        item.done();
    }
}

#[tokio::test(start_paused = true)]
async fn wm_009_after_the_end_unfinished_work_is_not_reported() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let clock = CountingClock::default();
    let queue = WorkQueue::builder().name("wm-009").clock(clock.clone()).build();
    queue.add("a");
    let item = queue.next().await.unwrap();
    step(ms(600)).await;
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-009"), 0.5);
    queue.shut_down();
    step(secs(10)).await;
    assert_eq!(seen.set(UNFINISHED_WORK, "name=wm-009"), 0.0, "it is set to nothing");
    assert_eq!(clock.timers(), 2, "the one that had begun was the last");
    item.done();
}

#[tokio::test(start_paused = true)]
async fn wm_010_every_delayed_add_is_a_retry() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("wm-010");
    queue.add_after("a", Duration::ZERO);
    queue.add_after("a", secs(1));
    queue.add_after("a", secs(2));
    queue.add_rate_limited("b");
    queue.add_all(["c", "d"], AddOptions::new().priority(5).after(secs(1)));
    assert_eq!(seen.sum(RETRIES, "name=wm-010"), 6.0);
    queue.try_next().unwrap().retry("fails");
    step(secs(5)).await;
    queue.try_next().unwrap().retry_after(secs(1));
    assert_eq!(seen.sum(RETRIES, "name=wm-010"), 8.0);
    queue.add("e");
    queue.shut_down();
    queue.add_after("f", secs(1));
    queue.add_rate_limited("f");
    assert_eq!(seen.sum(RETRIES, "name=wm-010"), 8.0);
}

#[test]
fn wm_011_the_names_are_those_of_client_go() {
    assert_eq!(
        [DEPTH, ADDS, QUEUE_DURATION, WORK_DURATION, UNFINISHED_WORK, LONGEST_RUNNING, RETRIES],
        [
            "workqueue_depth",
            "workqueue_adds_total",
            "workqueue_queue_duration_seconds",
            "workqueue_work_duration_seconds",
            "workqueue_unfinished_work_seconds",
            "workqueue_longest_running_processor_seconds",
            "workqueue_retries_total",
        ]
    );
}

#[test]
fn wm_012_the_buckets_reach_a_thousand_seconds() {
    assert_eq!(DURATION_BUCKETS.len(), 12);
    assert_eq!((DURATION_BUCKETS[0], DURATION_BUCKETS[9], DURATION_BUCKETS[11]), (1e-8, 10.0, 1000.0));
    assert!(DURATION_BUCKETS.windows(2).all(|pair| (pair[1] / pair[0] - 10.0).abs() < 1e-9));
}

#[tokio::test(start_paused = true)]
async fn pq_007_the_depth_is_reported_for_each_priority() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("pq-007");
    queue.add_all(["a", "b"], AddOptions::new().priority(LOW_PRIORITY));
    queue.add_all(["c"], AddOptions::new().priority(2));
    queue.add("d");
    let mut depths = || {
        let of = |seen: &mut Seen, label: &str| seen.sum(DEPTH, &format!("name=pq-007{label}"));
        [of(&mut seen, ",priority=2"), of(&mut seen, ""), of(&mut seen, ",priority=-100")]
    };
    assert_eq!(depths(), [1.0, 1.0, 2.0]);
    queue.add("a");
    assert_eq!(depths(), [1.0, 2.0, 1.0], "a rise moves it");
    let item = queue.try_next().unwrap();
    assert_eq!(depths(), [0.0, 2.0, 1.0]);
    queue.add_all(["c"], AddOptions::new().priority(LOW_PRIORITY));
    assert_eq!(depths(), [0.0, 2.0, 2.0], "added again");
    queue.add_all(["c"], AddOptions::new().priority(2));
    assert_eq!(depths(), [1.0, 2.0, 1.0]);
    item.done();
    assert_eq!(take_all(&queue).len(), 4);
    assert_eq!(depths(), [0.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn pq_007_more_than_25_priorities_share_a_label() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::rate_limited("many");
    for round in 0..3 {
        (1..=100).rev().for_each(|key| queue.add_all([key + round * 100], AddOptions::new().priority(key + round)));
        queue.add(0);
        seen.read();
        let depths = || seen.sums.iter().filter(|(name, _)| name.starts_with(DEPTH));
        assert_eq!(depths().map(|(_, depth)| depth).sum::<f64>(), 101.0);
        assert!(depths().all(|(_, depth)| *depth >= 0.0), "no depth is negative");
        assert_eq!(depths().filter(|(name, _)| name.contains("priority=") && !name.contains("exceeded")).count(), 25);
        assert!(seen.sum(DEPTH, "name=many,priority=exceeded_cardinality_limit") >= 75.0);
        assert_eq!(seen.sum(DEPTH, "name=many"), 1.0, "the default priority always has its place");
        assert_eq!(take_all(&queue).len(), 101);
        seen.read();
        let left: f64 =
            seen.sums.iter().filter(|(name, _)| name.starts_with(DEPTH)).map(|(_, depth)| depth.abs()).sum();
        assert_eq!(left, 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn several_queues_of_one_name_are_added_up() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let queues = [WorkQueue::rate_limited("same"), WorkQueue::rate_limited("same")];
    for queue in &queues {
        queue.add_all(0..3, AddOptions::new());
        queue.add_after(9, secs(1));
    }
    assert_eq!((seen.sum(DEPTH, "name=same"), seen.sum(WAITING, "name=same")), (6.0, 2.0));
    take_all(&queues[0]);
    queues[1].shut_down();
    assert_eq!((seen.sum(DEPTH, "name=same"), seen.sum(WAITING, "name=same")), (3.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn wm_003_a_recorder_installed_later_gets_the_descriptions() {
    let queue = WorkQueue::rate_limited("described");
    queue.add("a");
    let recorder = DebuggingRecorder::new();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    queue.add("b");
    let reported = recorder.snapshotter().snapshot().into_vec();
    assert!(!reported.is_empty());
    assert!(reported.iter().all(|(_, unit, description, _)| unit.is_some() && description.is_some()));
}

#[test]
fn the_depth_gauge_is_zero_when_the_queue_is_dropped() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    metrics::with_local_recorder(&recorder, || {
        let queue = WorkQueue::rate_limited("gone");
        (0..3).for_each(|key| queue.add(key));
        queue.add_all([4, 5], AddOptions::new().priority(LOW_PRIORITY));
        queue.add_after(9, secs(60));
        assert_eq!((seen.sum(DEPTH, "name=gone"), seen.sum(WAITING, "name=gone")), (3.0, 1.0));
        assert_eq!(seen.sum(DEPTH, "name=gone,priority=-100"), 2.0);
        drop(queue);
    });
    assert_eq!((seen.sum(DEPTH, "name=gone"), seen.sum(WAITING, "name=gone")), (0.0, 0.0));
    assert_eq!(seen.sum(DEPTH, "name=gone,priority=-100"), 0.0);
}

#[test]
fn wm_001_without_a_name_the_time_waited_is_zero() {
    let clock = HandClock::new();
    let queue = WorkQueue::builder().clock(clock.clone()).build();
    clock.step(secs(3600));
    queue.add("a");
    queue.add_after("b", secs(60));
    assert_eq!(queue.try_next().unwrap().waited(), Duration::ZERO);
}

/// A clock without timers, such as that of a runtime built without them. Counts the requests for one.
#[derive(Clone, Default)]
struct NoTimers(Arc<AtomicUsize>);

impl Clock for NoTimers {
    fn now(&self) -> Instant {
        TokioClock.now()
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("there are no timers");
    }
}

#[tokio::test]
async fn wm_008_without_timers_sampling_starts_once() {
    let clock = NoTimers::default();
    let queue = WorkQueue::builder().name("no-timers").clock(clock.clone()).build();
    for _ in 0..10 {
        queue.add("a");
        queue.next().await.unwrap().forget();
        settle().await;
    }
    assert_eq!(clock.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn two_queues_of_one_name_report_their_sum_and_their_longest_run() {
    let recorder = DebuggingRecorder::new();
    let mut seen = Seen::new(&recorder);
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let (first, second) = (WorkQueue::rate_limited("shared"), WorkQueue::rate_limited("shared"));
    first.add("a");
    let a = first.next().await.unwrap();
    step(secs(3)).await;
    second.add("b");
    second.add("c");
    let b = second.next().await.unwrap();
    step(secs(2)).await;
    assert_eq!(seen.sum(DEPTH, "name=shared"), 1.0);
    step(ms(500)).await;
    let (sum, longest) = (seen.set(UNFINISHED_WORK, "name=shared"), seen.sum(LONGEST_RUNNING, "name=shared"));
    assert!((7.0..=8.0).contains(&sum), "5.5 s and 2.5 s, up to half a second ago: {sum}");
    assert!((5.0..=5.5).contains(&longest), "{longest}");
    a.done();
    drop(first);
    step(secs(1)).await;
    let (sum, longest) = (seen.set(UNFINISHED_WORK, "name=shared"), seen.sum(LONGEST_RUNNING, "name=shared"));
    assert!((3.0..=3.5).contains(&sum) && sum == longest, "the other queue is still reported: {sum}, {longest}");
    b.done();
}
