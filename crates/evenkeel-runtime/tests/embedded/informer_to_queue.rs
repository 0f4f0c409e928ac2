//! Informers that fill queues, in virtual time.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use evenkeel_cache::testing::FakeSource;
use evenkeel_cache::{Filter, HandlerOptions, InformerOptions, Obj, ObjectKey, Registration, SharedInformer};
use evenkeel_queue::{DrainDelayed, Item, LOW_PRIORITY, WorkQueue};
use evenkeel_runtime::{enqueue_key, enqueue_owner};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

type Queue = WorkQueue<ObjectKey>;
type Pods = SharedInformer<Pod>;

fn pod(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name}})
}

fn owned(name: &str, owner: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]}})
}

fn source(pods: &[&str]) -> FakeSource {
    let source = FakeSource::of::<Pod>();
    for name in pods {
        source.add(pod(name)).unwrap();
    }
    source
}

fn informer(source: &FakeSource) -> Pods {
    Pods::new(source.clone(), source.resource(), InformerOptions::new())
}

/// Runs all tasks until they wait. (Virtual time passes only when all tasks wait.)
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Dequeues all keys with their priorities, sorted by key.
fn taken(queue: &Queue) -> Vec<(String, i32)> {
    let finished = |item: Item<ObjectKey>| {
        let taken = (item.key().to_string(), item.priority());
        item.done();
        taken
    };
    let mut taken: Vec<_> = std::iter::from_fn(|| queue.try_next()).map(finished).collect();
    taken.sort();
    taken
}

fn all_at(priority: i32, keys: &[&str]) -> Vec<(String, i32)> {
    keys.iter().map(|key| (format!("ns/{key}"), priority)).collect()
}

#[tokio::test(start_paused = true)]
async fn ask_10_events_mark_the_initial_list() {
    let (source, queue) = (source(&["a", "b"]), Queue::new());
    let pods = informer(&source);
    let registration = pods.add_handler(enqueue_key(&queue)).unwrap();
    let _running = pods.start();
    registration.synced().await.unwrap();
    assert_eq!(taken(&queue), all_at(LOW_PRIORITY, &["a", "b"]));
    source.add(pod("c")).unwrap();
    source.modify(pod("a")).unwrap();
    settle().await;
    assert_eq!(taken(&queue), all_at(0, &["a", "c"]), "independent of the age of the object");

    let late = Queue::new();
    pods.add_handler(enqueue_key(&late)).unwrap().synced().await.unwrap();
    assert_eq!(taken(&late), all_at(LOW_PRIORITY, &["a", "b", "c"]), "they existed before the handler");
    assert!(queue.is_empty(), "other queues receive nothing");
}

#[tokio::test(start_paused = true)]
async fn ask_10_changes_found_by_a_relist_do_not_belong_to_the_initial_list() {
    let (source, queue) = (source(&["changed", "gone", "same"]), Queue::new());
    let pods = informer(&source);
    let options = HandlerOptions::new().resync(Duration::from_secs(3600));
    pods.add_handler(enqueue_key(&queue).with(options)).unwrap();
    let _running = pods.start();
    settle().await;
    assert_eq!(taken(&queue).len(), 3);
    source.modify_without_event(pod("changed")).unwrap();
    source.delete_without_event(pod("gone")).unwrap();
    source.add_without_event(pod("new")).unwrap();
    source.reset_watch();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (low, live): (Vec<_>, Vec<_>) = taken(&queue).into_iter().partition(|(_, priority)| *priority != 0);
    assert_eq!(live, all_at(0, &["changed", "gone", "new"]));
    assert!(low.is_empty() || low == all_at(LOW_PRIORITY, &["same"]), "{low:?}");
}

#[tokio::test(start_paused = true)]
async fn inf_038_a_resync_has_low_priority_and_a_change_has_not() {
    let (source, queue) = (source(&["a", "b"]), Queue::new());
    let pods = informer(&source);
    let options = HandlerOptions::new().resync(Duration::from_secs(30)).name("resyncs");
    let registration = pods.add_handler(enqueue_key(&queue).with(options)).unwrap();
    assert_eq!(registration.name(), "resyncs");
    let _running = pods.start();
    settle().await;
    taken(&queue);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(taken(&queue), all_at(LOW_PRIORITY, &["a", "b"]));
    tokio::time::sleep(Duration::from_secs(30)).await;
    source.modify(pod("b")).unwrap();
    settle().await;
    let expected = [all_at(LOW_PRIORITY, &["a"]), all_at(0, &["b"])].concat();
    assert_eq!(taken(&queue), expected, "a change of what was resynced takes the higher priority");
}

#[tokio::test(start_paused = true)]
async fn ctl_009_a_worker_receives_the_key_of_a_deleted_object_and_finds_none() {
    let (source, queue) = (source(&["a"]), Queue::new());
    let pods = informer(&source);
    pods.add_handler(enqueue_key(&queue)).unwrap();
    let _running = pods.start();
    let reader = pods.lister();
    let item = queue.next().await.unwrap();
    assert!(reader.get(item.key()).is_some());
    source.delete(pod("a")).unwrap();
    settle().await;
    assert!(queue.is_empty(), "a worker has it");
    item.forget();
    let item = queue.next().await.unwrap();
    assert_eq!(item.key().as_str(), "ns/a");
    assert!(reader.get(item.key()).is_none());
}

#[tokio::test(start_paused = true)]
async fn co_012_every_former_owner_of_a_child_is_enqueued() {
    let (source, queue) = (source(&[]), Queue::new());
    let pods = informer(&source);
    pods.add_handler(enqueue_owner::<ReplicaSet>(&queue)).unwrap();
    let _running = pods.start();
    settle().await;
    source.watched(1).await;
    // All changes happen before the handler runs.
    source.add(owned("child", "first")).unwrap();
    source.modify(owned("child", "second")).unwrap();
    source.modify(owned("child", "third")).unwrap();
    settle().await;
    assert_eq!(taken(&queue), all_at(0, &["first", "second", "third"]));
}

/// A worker that had the key for another reason may have read the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_added_and_deleted_while_the_handler_is_busy_is_enqueued() {
    let (source, queue) = (source(&[]), Queue::new());
    let pods = informer(&source);
    let (busy, is_busy) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let gate = move |pod: &Obj<Pod>| {
        if pod.key().name() == "gate" {
            busy.send(()).unwrap();
            released.recv().unwrap();
        }
        true
    };
    let registration = pods.add_handler(Filter::new(gate, enqueue_key(&queue))).unwrap();
    let _running = pods.start();
    source.watched(1).await;
    source.add(pod("gate")).unwrap();
    tokio::task::spawn_blocking(move || is_busy.recv().unwrap()).await.unwrap();
    source.add(pod("short-lived")).unwrap();
    let last = source.delete(pod("short-lived")).unwrap();
    pods.lister().at_least(&last.version()).await.unwrap();
    release.send(()).unwrap();
    while registration.lag().pending > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(taken(&queue), all_at(0, &["gate", "short-lived"]));
}

#[tokio::test(start_paused = true)]
async fn a_queue_drains_while_its_informer_runs() {
    let (source, queue) = (source(&["a"]), Queue::new());
    let pods = informer(&source);
    pods.add_handler(enqueue_key(&queue)).unwrap();
    let running = pods.start();
    let item = queue.next().await.unwrap();
    let drain = queue.drain(DrainDelayed::Discard);
    source.add(pod("b")).unwrap();
    settle().await;
    item.forget();
    drain.await.unwrap();
    assert!(queue.next().await.is_none());
    assert!(!pods.is_stopped());
    running.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_while_its_queue_runs() {
    let (source, queue) = (source(&["a"]), Queue::new());
    let pods = informer(&source);
    let registration = pods.add_handler(enqueue_key(&queue)).unwrap();
    let running = pods.start();
    registration.synced().await.unwrap();
    running.drain().await;
    assert!(!registration.is_active());
    let item = queue.next().await.unwrap();
    assert_eq!(item.key().as_str(), "ns/a", "the notified key is queued");
    item.forget();
    queue.add(ObjectKey::namespaced("ns", "mine"));
    assert_eq!(queue.next().await.unwrap().key().as_str(), "ns/mine");
}

/// The work, in the order of its start.
#[derive(Default)]
struct Log {
    /// The dequeued keys, with the cached version of their objects.
    dequeued: Vec<(String, Option<String>)>,
    held: HashSet<ObjectKey>,
    failures: BTreeMap<String, u32>,
}

type Shared = Arc<Mutex<Log>>;

async fn work(queue: Queue, pods: Pods, log: Shared) {
    while let Some(item) = queue.next().await {
        let version = pods.indexer().get(item.key().as_str()).map(|pod| pod.resource_version().to_owned());
        {
            let mut log = log.lock().unwrap();
            assert!(log.held.insert(item.key().clone()), "two workers have {}", item.key());
            log.dequeued.push((item.key().name().to_owned(), version));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let fails = {
            let mut log = log.lock().unwrap();
            assert!(log.held.remove(item.key()));
            // One key of a hundred fails twice.
            let failures = log.failures.entry(item.key().name().to_owned()).or_default();
            let fails = item.key().name().ends_with("50") && *failures < 2;
            *failures += u32::from(fails);
            fails
        };
        if fails {
            item.retry("not yet");
        } else {
            item.forget();
        }
    }
}

async fn wait_until_idle(queue: &Queue, registration: &Registration) {
    loop {
        let stats = queue.stats();
        if registration.lag().pending == 0 && stats.depth + stats.in_flight + stats.delayed == 0 {
            return;
        }
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_dequeued_before_the_backlog_of_the_initial_list_and_no_key_is_lost() {
    const PODS: usize = 1000;
    let names: Vec<String> = (0..PODS).map(|number| format!("pod-{number:04}")).collect();
    let (source, queue) = (source(&names.iter().map(String::as_str).collect::<Vec<_>>()), Queue::rate_limited("pods"));
    let pods = informer(&source);
    let registration = pods.add_handler(enqueue_key(&queue)).unwrap();
    let running = pods.start();
    registration.synced().await.unwrap();
    assert_eq!(queue.len(), PODS);

    let log = Shared::default();
    let workers: Vec<_> = (0..4).map(|_| tokio::spawn(work(queue.clone(), pods.clone(), log.clone()))).collect();
    while log.lock().unwrap().dequeued.len() < 100 {
        settle().await;
    }
    let seen_keys: HashSet<String> = log.lock().unwrap().dequeued.iter().map(|(name, _)| name.clone()).collect();
    let last = names.iter().rfind(|name| !seen_keys.contains(*name)).unwrap();
    let deleted = names.iter().find(|name| seen_keys.contains(*name) && !name.ends_with("50")).unwrap();
    let before = log.lock().unwrap().dequeued.len();
    let changed = source.modify(pod(last)).unwrap();
    let added = source.add(pod("added-late")).unwrap();
    source.delete(pod(deleted)).unwrap();
    settle().await;
    assert!(queue.len() > 800, "the backlog remains");
    wait_until_idle(&queue, &registration).await;
    queue.drain(DrainDelayed::Discard).await.unwrap();
    for worker in workers {
        worker.await.unwrap();
    }

    let log = std::mem::take(&mut *log.lock().unwrap());
    let at = |name: &str, version: Option<&str>| {
        let seen = |(key, was): &(String, Option<String>)| key == name && was.as_deref() == version;
        log.dequeued.iter().position(seen).unwrap_or_else(|| panic!("{name} at {version:?} was lost"))
    };
    // Each of the four workers may have dequeued a key meanwhile, and one of eight keys is dequeued from the backlog.
    assert!(at(last, Some(changed.resource_version())) < before + 12);
    assert!(at("added-late", Some(added.resource_version())) < before + 12);
    assert!(at(deleted, None) < before + 12, "deletions precede the backlog too");
    for name in &names {
        assert!(log.dequeued.iter().any(|(key, _)| key == name), "{name} was lost");
    }
    assert!(log.failures.iter().all(|(name, failures)| *failures == if name.ends_with("50") { 2 } else { 0 }));
    assert_eq!(log.dequeued.len(), PODS + 1 + 1 + 20, "each once, one updated, one added, ten tried three times");
    running.drain().await;
}
