use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::compat::Fifo;
use crate::delta_fifo::DeltaFifo;
use crate::delta_queue::testing::{SharedStore, TestSink, object, objects, text, version};
use crate::ordered_queue::{ListMode, OrderedQueue};
use crate::reflector::Reflector;
use crate::reflector::testing::too_many;
use crate::testing::FakeSource;

fn atomic() -> (Producer, Consumer) {
    channel("things", OrderedQueue::new(ListMode::Atomic), empty())
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn said(popped: Popped<'_>) -> Vec<String> {
    popped.deltas().iter().map(text).collect()
}

fn apply(store: &SharedStore, mut popped: Popped<'_>) {
    store.apply(popped.drain());
}

/// A store that nothing is written to.
fn empty() -> Indexer<Untyped> {
    SharedStore::of(&[]).0.indexer()
}

#[tokio::test(start_paused = true)]
async fn dfq_027_a_pop_waits_for_a_delta_or_the_close() {
    let (mut producer, mut consumer) = channel("things", DeltaFifo::new(), empty());
    let reader = tokio::spawn(async move {
        let first = consumer.pop().await.map(said);
        (first, consumer.pop().await.map(said))
    });
    tokio::task::yield_now().await;
    assert!(!reader.is_finished());
    producer.add(object("a@1")).unwrap();
    tokio::task::yield_now().await;
    assert!(!reader.is_finished());
    producer.close();
    assert_eq!(reader.await.unwrap(), (Some(vec!["Added a@1".into()]), None));
}

#[tokio::test(start_paused = true)]
async fn dfq_028_queued_deltas_are_delivered_after_closing() {
    let (mut producer, mut consumer) = channel("things", DeltaFifo::new(), empty());
    producer.add(object("a@1")).unwrap();
    producer.close();
    producer.update(object("a@2")).unwrap();
    assert_eq!(consumer.pop().await.map(said).unwrap(), ["Added a@1", "Updated a@2"]);
    assert!(consumer.pop().await.is_none());
    producer.replace(objects(&["b@3"]), version("3")).unwrap();
    assert_eq!(consumer.pop().await.map(said).unwrap(), ["Replaced b@3"]);
    assert!(consumer.pop().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn rfq_007_queued_deltas_are_delivered_after_closing() {
    let (mut producer, mut consumer) = atomic();
    {
        let mut waiting = pin!(consumer.pop());
        assert!(poll(waiting.as_mut()).is_pending());
        producer.add(object("a@1")).unwrap();
        producer.close();
        assert_eq!(waiting.await.map(said).unwrap(), ["Added a@1"]);
    }
    assert!(consumer.pop().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn fif_005_a_pop_waits_for_a_delta_or_the_close() {
    let (mut producer, mut consumer) = channel("things", Fifo::new(), empty());
    producer.add(object("a@1")).unwrap();
    producer.add(object("a@2")).unwrap();
    producer.add(object("b@1")).unwrap();
    producer.delete(object("b@2")).unwrap();
    producer.close();
    assert_eq!(consumer.pop().await.map(said).unwrap(), ["Updated a@2"]);
    assert!(consumer.pop().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_producer_closes() {
    let (producer, mut consumer) = atomic();
    let mut other = producer.clone();
    drop(producer);
    other.add(object("a@1")).unwrap();
    {
        assert!(consumer.pop().await.is_some());
        let mut waiting = pin!(consumer.pop());
        assert!(poll(waiting.as_mut()).is_pending());
    }
    drop(other);
    assert!(consumer.pop().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dfq_029_pushes_succeed_while_a_batch_is_processed() {
    let (mut producer, mut consumer) = channel("things", DeltaFifo::new(), empty());
    producer.add(object("a@1")).unwrap();
    let popped = consumer.pop().await.unwrap();
    producer.update(object("a@2")).unwrap();
    assert_eq!(producer.len(), 1);
    drop(popped);
    assert_eq!(consumer.pop().await.map(said).unwrap(), ["Updated a@2"]);
}

#[test]
fn dfq_029_deltas_in_processing_count_as_known() {
    for keyed in [true, false] {
        let store = SharedStore::of(&["old@1"]);
        let (mut producer, mut consumer) = match keyed {
            true => channel("things", DeltaFifo::new(), store.0.indexer()),
            false => channel("things", OrderedQueue::new(ListMode::PerItem), store.0.indexer()),
        };
        producer.add(object("new@2")).unwrap();
        producer.delete(object("old@3")).unwrap();
        let popped = consumer.try_pop().unwrap();
        // Neither has reached the store, and neither is queued.
        producer.replace(Vec::new(), version("4")).unwrap();
        apply(&store, popped);
        assert_eq!(store.texts(), ["new@2"]);
        let popped = consumer.try_pop().unwrap();
        assert_eq!(popped.deltas().iter().map(text).collect::<Vec<_>>(), ["Missed new@2"]);
        apply(&store, popped);
        assert!(store.texts().is_empty() && consumer.try_pop().is_none());
    }
}

#[test]
fn dfq_029_a_list_that_is_being_processed_counts_as_all_that_is_known() {
    let store = SharedStore::of(&["old@1"]);
    let (mut producer, mut consumer) = channel("things", DeltaFifo::new(), store.0.indexer());
    producer.replace(objects(&["new@2"]), version("2")).unwrap();
    let popped = consumer.try_pop().unwrap();
    producer.delete(object("old@3")).unwrap();
    producer.delete(object("new@4")).unwrap();
    drop(popped);
    assert_eq!(consumer.try_pop().map(said).unwrap(), ["Deleted new@4"]);
    assert!(consumer.try_pop().is_none());
}

#[test]
fn rfq_033_the_queue_is_full_at_two_thousand() {
    assert_eq!(BACKLOG_LIMIT, 2000);
    let (mut producer, mut consumer) = atomic();
    for number in 0..1999 {
        producer.add(object(&format!("a{number}@1"))).unwrap();
    }
    assert!(poll(pin!(producer.room())).is_ready());
    producer.add(object("b@1")).unwrap();
    let other = producer.clone();
    let (mut one, mut two) = (pin!(producer.room()), pin!(other.room()));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    assert!(consumer.try_pop().is_some());
    assert!(poll(one).is_ready() && poll(two).is_ready());
}

#[tokio::test(start_paused = true)]
async fn ihc_14_a_producer_waits_while_the_queue_is_full() {
    let (mut producer, mut consumer) = atomic();
    producer.add(object("first@1")).unwrap();
    let popped = consumer.pop().await.unwrap();
    for number in 0..1999 {
        producer.add(object(&format!("a{number}@1"))).unwrap();
    }
    assert!(poll(pin!(producer.room())).is_ready());
    producer.add(object("last@1")).unwrap();
    let waiting = {
        let producer = producer.clone();
        tokio::spawn(async move { producer.room().await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(popped);
    assert!(consumer.pop().await.is_some());
    waiting.await.unwrap();
}

#[test]
fn rfq_034_one_batch_at_a_time_for_one_consumer() {
    // The compiler enforces a single consumer: it is not Clone, and a batch borrows it.
    let (mut producer, mut consumer) = atomic();
    producer.add(object("a@1")).unwrap();
    producer.update(object("a@2")).unwrap();
    let order: Vec<Vec<String>> = std::iter::from_fn(|| consumer.try_pop().map(said)).collect();
    assert_eq!(order, [["Added a@1"], ["Updated a@2"]]);
}

#[test]
fn ihc_15_synced_only_after_processing() {
    let queues: [Box<dyn Fn() -> (Producer, Consumer)>; 3] = [
        Box::new(|| channel("things", DeltaFifo::new(), empty())),
        Box::new(|| channel("things", Fifo::new(), empty())),
        Box::new(atomic),
    ];
    for queue in queues {
        let (mut producer, mut consumer) = queue();
        producer.replace(objects(&["a@1"]), version("1")).unwrap();
        let popped = consumer.try_pop().unwrap();
        assert!(popped.is_initial());
        let mut waiting = pin!(producer.wait_for_sync());
        assert!(!producer.has_synced() && poll(waiting.as_mut()).is_pending());
        drop(popped);
        assert!(producer.has_synced() && consumer.has_synced());
        assert_eq!(poll(waiting), Poll::Ready(true));
    }
}

#[test]
fn dfq_030_a_batch_that_is_dropped_unread_is_processed() {
    let (mut producer, mut consumer) = atomic();
    producer.replace(objects(&["a@1"]), version("1")).unwrap();
    let reader = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _popped = consumer.try_pop().unwrap();
        panic!("could not apply it");
    }));
    assert!(reader.is_err());
    assert!(consumer.has_synced() && consumer.try_pop().is_none());
}

#[test]
fn without_a_consumer_nothing_is_queued() {
    let (mut producer, consumer) = atomic();
    producer.replace(objects(&["a@1"]), version("1")).unwrap();
    for number in 0..BACKLOG_LIMIT {
        producer.add(object(&format!("a{number}@1"))).unwrap();
    }
    consumer.close();
    let other = producer.clone();
    let mut waiting = pin!(other.wait_for_sync());
    assert!(poll(waiting.as_mut()).is_pending());
    drop(consumer);
    assert_eq!(poll(waiting), Poll::Ready(false));
    assert!(poll(pin!(producer.room())).is_ready());
    assert!(producer.is_empty() && !producer.has_synced());
    let error = producer.add(object("a@2")).unwrap_err();
    assert!(error.to_string().contains("things"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_pop_loses_nothing() {
    let (mut producer, mut consumer) = atomic();
    {
        let mut waiting = pin!(consumer.pop());
        assert!(poll(waiting.as_mut()).is_pending());
        producer.add(object("a@1")).unwrap();
    }
    assert_eq!(consumer.pop().await.map(said).unwrap(), ["Added a@1"]);
}

#[test]
fn a_reflector_can_write_to_it() {
    let store = SharedStore::of(&["a@1"]);
    let (mut producer, mut consumer) = channel("things", OrderedQueue::new(ListMode::Atomic), store.0.indexer());
    let writer: &mut dyn DeltaSink = &mut producer;
    assert_eq!(writer.known(&ObjectKey::cluster("a")).unwrap().resource_version(), "1");
    writer.update(object("a@2")).unwrap();
    writer.bookmark(&version("3")).unwrap();
    writer.resync().unwrap();
    writer.flush().unwrap();
    let mut all = Vec::new();
    while let Some(popped) = consumer.try_pop() {
        all.extend(popped.deltas().iter().map(text));
        apply(&store, popped);
    }
    assert_eq!(all, ["Updated a@2", "Bookmark 3", "SyncAll"]);
    assert_eq!(store.texts(), ["a@2"]);
}

#[test]
fn dfq_031_processing_is_slow_above_100_ms_with_more_than_ten_queued() {
    let millis = Duration::from_millis;
    assert!(is_slow(11, 1, millis(101)));
    assert!(!is_slow(10, 1, millis(101)));
    assert!(!is_slow(11, 1, millis(100)));
}

#[test]
fn rfq_032_a_batch_may_take_longer_up_to_a_second() {
    let millis = Duration::from_millis;
    assert!(!is_slow(11, 5, millis(500)));
    assert!(is_slow(11, 5, millis(501)));
    assert!(!is_slow(11, 1000, millis(1000)));
    assert!(is_slow(11, usize::MAX, millis(1001)));
}

#[test]
fn dfq_032_debug_shows_the_name_of_the_channel() {
    let (producer, consumer) = channel("DeltaFIFO *v1.Pod", DeltaFifo::new(), empty());
    for said in [format!("{producer:?}"), format!("{consumer:?}")] {
        assert!(said.contains("DeltaFIFO *v1.Pod"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn rfq_033_a_writer_that_cannot_wait_is_paced() {
    let (producer, mut consumer) = atomic();
    let mut writer = producer.clone();
    let written = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let work = tokio::spawn(async move {
        let write = async {
            for number in 0..5000 {
                writer.add(object(&format!("a{number}@1"))).unwrap();
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            "done"
        };
        producer.paced(write).await
    });
    let mut popped = 0;
    while let Some(batch) = consumer.pop().await {
        // The consumer is slow: the other tasks run many times meanwhile.
        for _ in 0..6000 {
            tokio::task::yield_now().await;
        }
        popped += batch.deltas().len();
        assert!(written.load(std::sync::atomic::Ordering::Relaxed) <= popped + BACKLOG_LIMIT);
    }
    assert_eq!((popped, work.await.unwrap()), (5000, "done"));
}

#[tokio::test(start_paused = true)]
async fn a_custom_reflector_and_consumer_share_a_channel() {
    let info = Arc::clone(object("a@1").resource());
    let source = FakeSource::new(Arc::clone(&info));
    let first = source.add(object("a@1")).unwrap();
    let store = SharedStore::of(&[]);
    let (producer, mut consumer) = channel("things", OrderedQueue::new(ListMode::PerItem), store.0.indexer());
    let mut reflector = Reflector::builder(Arc::new(source.clone()), info).build();
    let mut writer = producer.clone();
    let running = tokio::spawn(async move { producer.paced(reflector.run(&mut writer)).await });

    let popped = consumer.pop().await.unwrap();
    assert!(popped.is_initial());
    apply(&store, popped);
    assert_eq!(store.texts(), [format!("a@{}", first.resource_version())]);
    let second = source.add(object("b@1")).unwrap();
    source.delete(object("a@1")).unwrap();
    while !store.texts().iter().eq([&format!("b@{}", second.resource_version())]) {
        let popped = consumer.pop().await.unwrap();
        assert!(!popped.is_initial());
        apply(&store, popped);
    }
    // Aborting the reflector drops its producers.
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    while let Some(popped) = consumer.pop().await {
        apply(&store, popped);
    }
    assert!(consumer.has_synced());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_producers_lose_no_delta_and_no_wake_up() {
    let (producer, mut consumer) = atomic();
    for name in ["a", "b", "c", "d"] {
        let mut producer = producer.clone();
        tokio::spawn(async move {
            for number in 0..3000 {
                producer.room().await;
                producer.update(object(&format!("{name}@{}", number + 1))).unwrap();
            }
        });
    }
    drop(producer);
    let mut reached: HashMap<ObjectKey, u32> = HashMap::new();
    while let Some(popped) = consumer.pop().await {
        for object in popped.deltas().iter().filter_map(Delta::object) {
            let reached = reached.entry(object.key().clone()).or_default();
            *reached += 1;
            assert_eq!(object.resource_version(), reached.to_string());
        }
    }
    assert_eq!(reached.into_values().collect::<Vec<_>>(), [3000; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_stops_when_its_consumer_is_dropped() {
    // While it watches without events, when an event follows, and while it waits after errors.
    for (event, refused) in [(false, false), (true, false), (false, true)] {
        let info = Arc::clone(object("a@1").resource());
        let source = FakeSource::new(Arc::clone(&info));
        source.add(object("a@1")).unwrap();
        let (mut producer, consumer) = atomic();
        let failures = Arc::new(Mutex::new(0));
        let count = Arc::clone(&failures);
        let mut reflector =
            Reflector::builder(Arc::new(source.clone()), info).on_error(move |_| *count.lock().unwrap() += 1).build();
        if refused {
            source.set_list_error(Some(too_many()));
        }
        let running = tokio::spawn(async move { reflector.run(&mut producer).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let before = *failures.lock().unwrap();
        if event {
            source.add(object("b@1")).unwrap();
        }
        drop(consumer);
        running.await.unwrap();
        assert_eq!(*failures.lock().unwrap(), before, "stopping is not a failure");
    }
}
