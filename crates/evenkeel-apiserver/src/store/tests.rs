use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Duration = Duration::ZERO;

fn table() -> Arc<str> {
    "configmaps".into()
}

fn object(key: &str, data: u32) -> Value {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"n": data.to_string()},
           "metadata": {"namespace": namespace, "name": name}})
}

fn draft(key: &str, data: u32) -> Write {
    Write::Put(Draft::new(&object(key, data), Facts::default(), 1))
}

fn put(store: &Store, key: &str, data: u32) -> u64 {
    let expect = match store.get(&table(), key) {
        Some(record) => Expect::Revision(record.revision),
        None => Expect::Absent,
    };
    store.commit(&table(), key, expect, draft(key, data), NOW).unwrap().0
}

fn delete(store: &Store, key: &str) -> u64 {
    let record = store.get(&table(), key).unwrap();
    store.commit(&table(), key, Expect::Revision(record.revision), Write::Delete, NOW).unwrap().0
}

fn names(page: &Page) -> Vec<String> {
    page.records.iter().map(|record| record.value()["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn list(store: &Store, span: Span<'_>, at: At) -> Result<Page, Unavailable> {
    store.list(&table(), span, at, |_, _| true)
}

#[test]
fn sto_1_every_write_takes_one_revision() {
    let store = Store::new(History::default());
    assert_eq!(put(&store, "ns/a", 1), 1);
    assert_eq!(put(&store, "ns/a", 2), 2);
    assert_eq!(delete(&store, "ns/a"), 3);
    let stale = store.commit(&table(), "ns/a", Expect::Revision(2), draft("ns/a", 3), NOW);
    assert_eq!(stale.unwrap_err(), CommitConflict);
    assert_eq!(store.revision(), 3, "a failed write takes no revision");
}

#[test]
fn sto_2_lists_carry_the_revision_of_the_store() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    store.commit(&"secrets".into(), "ns/s", Expect::Absent, draft("ns/s", 1), NOW).unwrap();
    assert_eq!(list(&store, Span::default(), At::Latest).unwrap().revision, 2);
    assert_eq!(store.get(&table(), "ns/a").unwrap().revision, 1);
}

#[test]
fn sto_3_reads_at_a_revision_see_the_newest_version_not_newer() {
    let store = Store::new(History::default());
    let created = put(&store, "ns/a", 1);
    let updated = put(&store, "ns/a", 2);
    let deleted = delete(&store, "ns/a");
    let again = put(&store, "ns/a", 3);
    let seen = |revision| {
        let page = list(&store, Span::default(), At::Exactly(revision)).unwrap();
        page.records.first().map(|record| record.value()["data"]["n"].as_str().unwrap().to_owned())
    };
    assert_eq!(seen(created).as_deref(), Some("1"));
    assert_eq!(seen(updated).as_deref(), Some("2"));
    assert_eq!(seen(deleted), None);
    assert_eq!(seen(again).as_deref(), Some("3"));
}

#[test]
fn sto_3_evicted_history_leaves_one_version_per_key_and_no_tombstone() {
    let store = Store::new(History { events: 2, age: None, ..History::default() });
    put(&store, "ns/gone", 0);
    delete(&store, "ns/gone");
    for data in 0..10 {
        put(&store, "ns/a", data);
    }
    let inner = store.read();
    let objects = &inner.tables[&table()].objects;
    assert_eq!(objects.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["ns/a"]);
    assert_eq!(objects.get("ns/a").unwrap().len(), 3, "the two remembered events and the state before them");
}

#[test]
fn sto_4_keys_are_in_byte_order_and_namespaces_are_ranges() {
    let store = Store::new(History::default());
    for key in ["b/x", "a-b/y", "a/z", "a/b"] {
        put(&store, key, 0);
    }
    assert_eq!(names(&list(&store, Span::default(), At::Latest).unwrap()), ["y", "b", "z", "x"]);
    let page = list(&store, Span { prefix: "a/", ..Span::default() }, At::Latest).unwrap();
    assert_eq!(names(&page), ["b", "z"]);
}

#[test]
fn obj_9_pages_continue_after_the_last_key() {
    let store = Store::new(History::default());
    for key in ["ns/a", "ns/b", "ns/c"] {
        put(&store, key, 0);
    }
    let first = list(&store, Span { prefix: "ns/", after: None, limit: 2 }, At::Latest).unwrap();
    assert_eq!(
        (names(&first), first.next_after.as_deref(), first.remaining),
        (vec!["a".into(), "b".into()], Some("ns/b"), 1)
    );
    let span = Span { prefix: "ns/", after: first.next_after.as_deref(), limit: 2 };
    let second = list(&store, span, At::Exactly(first.revision)).unwrap();
    assert_eq!((names(&second), second.next_after, second.remaining), (vec!["c".into()], None, 0));
}

#[test]
fn lst_18_compaction_makes_old_reads_fail() {
    let store = Store::new(History::default());
    let old = put(&store, "ns/a", 1);
    let new = put(&store, "ns/a", 2);
    store.compact(new);
    let refused = list(&store, Span::default(), At::Exactly(old)).unwrap_err();
    assert_eq!(refused, Unavailable::Compacted { floor: new });
    assert!(list(&store, Span::default(), At::Exactly(new)).is_ok());
    assert!(store.watch_from(&table(), Interest::All, old).is_err());
    assert!(store.watch_from(&table(), Interest::All, new).is_ok());
}

#[test]
fn lst_16_a_future_revision_is_too_large() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    let refused = list(&store, Span::default(), At::NotOlderThan(9)).unwrap_err();
    assert_eq!(refused, Unavailable::Future { current: 1 });
}

#[test]
fn wat_22_a_watch_overtaken_by_the_ring_is_closed() {
    let store = Store::new(History { events: 2, age: None, ..History::default() });
    put(&store, "ns/a", 0);
    let mut cursor = store.watch_from(&table(), Interest::All, 1).unwrap();
    for data in 1..4 {
        put(&store, "ns/a", data);
    }
    assert_eq!(store.advance(&mut cursor, 10).unwrap_err(), CursorExpired);
}

#[test]
fn wat_20_the_default_history_holds_4096_events() {
    let store = Store::new(History::default());
    for data in 0..5000 {
        put(&store, "ns/a", data);
    }
    assert_eq!(store.stats().events, 4096);
    assert!(store.watch_from(&table(), Interest::All, 5000 - 4096).is_ok());
    let refused = store.watch_from(&table(), Interest::All, 5000 - 4097).unwrap_err();
    assert_eq!(refused, Unavailable::Compacted { floor: 5000 - 4096 });
}

#[test]
fn wat_21_the_history_starts_with_the_store_not_with_the_first_object() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 0);
    store.compact(1);
    put(&store, "ns/a", 1);
    let secrets: Arc<str> = "secrets".into();
    assert!(store.watch_from(&secrets, Interest::All, 1).is_ok(), "nothing of it is forgotten");
    let refused = store.watch_from(&secrets, Interest::All, 0).unwrap_err();
    assert_eq!(
        refused,
        Unavailable::Compacted { floor: 1 },
        "revisions before the compaction are refused for every resource"
    );
}

#[test]
fn sto_17_half_a_history_of_events_wakes_all_watches() {
    let store = Store::new(History { events: 8, age: None, ..History::default() });
    let alarm = Arc::new(Alarm::default());
    let mut cursor = store.watch_from(&table(), Interest::Namespace("quiet".into()), 0).unwrap();
    cursor.watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
    for data in 0..100 {
        put(&store, "busy/a", data);
        if alarm.0.swap(0, Ordering::SeqCst) > 0 {
            store.advance(&mut cursor, 10).expect("woken in time");
            cursor.watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
        }
    }
    assert!(store.can_advance(&cursor));
}

#[test]
fn sto_24_expiring_history_wakes_all_watches() {
    let store = Store::new(History { events: 100, age: Some(Duration::from_secs(60)), ..History::default() });
    let alarm = Arc::new(Alarm::default());
    let mut cursor = store.watch_from(&table(), Interest::Namespace("quiet".into()), 0).unwrap();
    cursor.watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
    put(&store, "busy/a", 1);
    store.tick(Duration::from_secs(1));
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    store.advance(&mut cursor, 10).unwrap();
    store.tick(Duration::from_secs(100));
    assert!(store.can_advance(&cursor));
}

#[test]
fn a_watcher_that_has_read_everything_survives_compaction() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 0);
    let mut cursor = store.watch_from(&table(), Interest::All, 1).unwrap();
    store.commit(&"secrets".into(), "ns/s", Expect::Absent, draft("ns/s", 1), NOW).unwrap();
    store.compact(2);
    assert!(store.advance(&mut cursor, 10).unwrap().is_empty());
}

#[test]
fn wat_19_a_quiet_resource_keeps_up_with_the_counter() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 0);
    let mut cursor = store.watch_from(&table(), Interest::All, 1).unwrap();
    store.commit(&"secrets".into(), "ns/s", Expect::Absent, draft("ns/s", 1), NOW).unwrap();
    assert!(store.advance(&mut cursor, 10).unwrap().is_empty());
    assert_eq!(cursor.revision, 2);
}

#[test]
fn sto_23_a_lagging_replica_shows_the_past_until_it_catches_up() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    let mut cursor = store.watch_from(&table(), Interest::All, 1).unwrap();
    store.set_lag(1);
    put(&store, "ns/b", 2);
    assert_eq!(names(&list(&store, Span::default(), At::Any).unwrap()), ["a"]);
    assert_eq!(names(&list(&store, Span::default(), At::Latest).unwrap()), ["a", "b"]);
    assert!(store.advance(&mut cursor, 10).unwrap().is_empty());
    store.set_lag(0);
    assert_eq!(store.advance(&mut cursor, 10).unwrap().len(), 1);
}

#[test]
fn sto_23_events_of_a_lagging_replica_wake_their_watches() {
    let store = Store::new(History::default());
    store.set_lag(1);
    let alarm = Arc::new(Alarm::default());
    let mut cursor = store.watch_from(&table(), Interest::All, 0).unwrap();
    put(&store, "ns/a", 1);
    cursor.watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
    assert!(store.advance(&mut cursor, 10).unwrap().is_empty());
    store.commit(&"secrets".into(), "ns/s", Expect::Absent, draft("ns/s", 1), NOW).unwrap();
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1, "a write of another resource moved the replica on");
    assert_eq!(store.advance(&mut cursor, 10).unwrap().len(), 1);
}

#[test]
fn sto_24_events_expire_by_age() {
    let store = Store::new(History { events: 100, age: Some(Duration::from_secs(60)), ..History::default() });
    let old = put(&store, "ns/a", 1);
    put(&store, "ns/a", 2);
    store.tick(Duration::from_secs(60));
    assert!(list(&store, Span::default(), At::Exactly(old)).is_ok());
    store.tick(Duration::from_secs(61));
    assert!(list(&store, Span::default(), At::Exactly(old)).is_err());
}

#[test]
fn sto_27_an_image_restores_everything_and_shares_the_objects() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    let image = store.image();
    let cursor = store.watch_from(&table(), Interest::All, 1).unwrap();
    put(&store, "ns/a", 2);
    put(&store, "ns/b", 2);
    let fork = Store::new(History::default());
    fork.load(&image);
    assert_eq!(put(&fork, "ns/c", 3), 2, "the fork continues independently from the same revision");
    assert_eq!(names(&list(&fork, Span::default(), At::Latest).unwrap()), ["a", "c"]);
    let shared = |store: &Store| store.list(&table(), Span::default(), At::Exactly(1), |_, _| true).unwrap().records;
    assert!(Arc::ptr_eq(&shared(&store)[0], &shared(&fork)[0]));
    store.replace(&image);
    assert_eq!(names(&list(&store, Span::default(), At::Latest).unwrap()), ["a"]);
    assert!(cursor.watch_waker.is_closed(), "what the watch has seen never happened");
}

#[test]
fn dur_012_a_replaced_content_is_above_all_issued_revisions() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    let image = store.image();
    put(&store, "ns/a", 2);
    let issued = put(&store, "ns/b", 2);
    store.replace(&image);
    assert_eq!(store.revision(), issued + 1);
    for known in 0..=issued {
        let refused = store.watch_from(&table(), Interest::All, known).unwrap_err();
        assert_eq!(refused, Unavailable::Compacted { floor: issued + 1 });
    }
    let mut cursor = store.watch_from(&table(), Interest::All, issued + 1).unwrap();
    assert_eq!(put(&store, "ns/c", 1), issued + 2);
    assert_eq!(store.advance(&mut cursor, 9).unwrap().len(), 1);
}

#[test]
fn dur_005_skipped_revisions_are_refused_and_earlier_ones_resume() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    let last = put(&store, "ns/a", 2);
    store.raise(100);
    store.raise(50);
    assert_eq!(put(&store, "ns/a", 3), 101);
    for lost in [last + 1, 99] {
        let refused = store.watch_from(&table(), Interest::All, lost).unwrap_err();
        assert_eq!(refused, Unavailable::Compacted { floor: 100 });
        assert_eq!(list(&store, Span::default(), At::Exactly(lost)).unwrap_err(), refused);
    }
    for known in [last - 1, last, 100] {
        let mut cursor = store.watch_from(&table(), Interest::All, known).unwrap();
        let events = store.advance(&mut cursor, 9).unwrap();
        assert_eq!(events.len(), if known < last { 2 } else { 1 }, "{known}");
    }
    let restored = Store::new(History::default());
    restored.load(&store.image());
    assert!(restored.watch_from(&table(), Interest::All, 99).is_err(), "an image remembers them");
}

#[test]
fn dur_005_the_first_revision_follows_the_clock() {
    let at = |text: &str| first_revision(text.parse().unwrap());
    assert_eq!(at("2024-01-01T00:00:01.000002Z"), 1_000_002);
    assert_eq!(at("1999-01-01T00:00:00Z"), 0, "a clock that is wrong by years is no error");
    assert!(at("2300-01-01T00:00:00Z") < 1 << 53, "JavaScript clients can compare it");
}

#[test]
fn wat_6_a_revision_that_was_never_issued_is_refused() {
    let store = Store::new(History::default());
    let now = put(&store, "ns/a", 1);
    let refused = store.watch_from(&table(), Interest::All, now + 1).unwrap_err();
    assert_eq!(refused, Unavailable::Future { current: now });
    store.set_lag(1);
    assert!(store.watch_from(&table(), Interest::All, now).is_ok(), "a replica reaches it");
}

#[test]
fn sto_27_an_image_contains_the_compaction() {
    let store = Store::new(History::default());
    put(&store, "ns/a", 1);
    store.compact(1);
    let image = store.image();
    put(&store, "ns/a", 2);
    store.compact(2);
    let store = Store::new(History::default());
    store.load(&image);
    let secrets: Arc<str> = "secrets".into();
    let page = store.list(&secrets, Span::default(), At::Any, |_, _| true).unwrap();
    assert_eq!(page.revision, 1, "nothing is read at a revision that never happened");
    assert!(store.watch_from(&secrets, Interest::All, 1).is_ok());
    let fork = Store::new(History::default());
    fork.load(&image);
    assert_eq!(fork.watch_from(&secrets, Interest::All, 0).unwrap_err(), Unavailable::Compacted { floor: 1 });
}

#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn sto_17_a_commit_wakes_only_matching_watches() {
    let store = Store::new(History::default());
    let watch = |interest| {
        let alarm = Arc::new(Alarm::default());
        let cursor = store.watch_from(&table(), interest, 0).unwrap();
        cursor.watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
        (alarm, cursor)
    };
    let watchers = [
        watch(Interest::All),
        watch(Interest::Namespace("ns".into())),
        watch(Interest::Namespace("other".into())),
        watch(Interest::Key("ns/a".into())),
        watch(Interest::Key("ns/b".into())),
        watch(Interest::Field(0, "n1".into())),
        watch(Interest::Field(0, "n2".into())),
    ];
    let facts = Facts { fields: Box::new(["n1".into()]), ..Facts::default() };
    let draft = Draft::new(&object("ns/a", 1), facts, 1);
    store.commit(&table(), "ns/a", Expect::Absent, Write::Put(draft), NOW).unwrap();
    let woken: Vec<_> = watchers.iter().map(|(alarm, _)| alarm.0.load(Ordering::SeqCst)).collect();
    assert_eq!(woken, [1, 1, 0, 1, 0, 1, 0]);
    drop(watchers);
    assert_eq!(store.stats().watchers, 0, "a dropped cursor leaves the index");
}

#[derive(Clone, Debug)]
enum StoreStep {
    Put(u8),
    Delete(u8),
    Compact(u8),
}

fn steps() -> impl Strategy<Value = Vec<StoreStep>> {
    let step = prop_oneof![
        6 => (0u8..6).prop_map(StoreStep::Put),
        3 => (0u8..6).prop_map(StoreStep::Delete),
        1 => (0u8..10).prop_map(StoreStep::Compact),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Against a naive model that keeps a whole copy of the world per revision (FUZ-1), and for every start revision
    /// the watch guarantees of WAT-27: ordered, unique, without gaps, resumable.
    #[test]
    fn fuz_1_wat_27_store_agrees_with_a_copy_per_revision(steps in steps(), history in 1usize..20) {
        let store = Store::new(History { events: history, age: None, ..History::default() });
        let mut worlds: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new()];
        let mut log: Vec<(u64, String, Option<u32>)> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let mut world = worlds.last().unwrap().clone();
            match step {
                StoreStep::Put(key) => {
                    let key = format!("ns/{key}");
                    let revision = put(&store, &key, index as u32);
                    world.insert(key.clone(), index as u32);
                    log.push((revision, key, Some(index as u32)));
                    worlds.push(world);
                }
                StoreStep::Delete(key) => {
                    let key = format!("ns/{key}");
                    if world.remove(&key).is_some() {
                        log.push((delete(&store, &key), key, None));
                        worlds.push(world);
                    }
                }
                StoreStep::Compact(back) => store.compact(store.revision().saturating_sub((*back).into())),
            }
        }
        prop_assert_eq!(store.revision() as usize + 1, worlds.len());
        for (revision, world) in worlds.iter().enumerate() {
            let revision = revision as u64;
            if let Ok(page) = list(&store, Span::default(), At::Exactly(revision)) {
                let seen: BTreeMap<String, u32> = page.records.iter().map(|record| {
                    let value = record.value();
                    (format!("ns/{}", value["metadata"]["name"].as_str().unwrap()),
                     value["data"]["n"].as_str().unwrap().parse().unwrap())
                }).collect();
                prop_assert_eq!(&seen, world);
            } else {
                prop_assert!(revision < store.revision(), "the present is always to be had");
            }
            if let Ok(mut cursor) = store.watch_from(&table(), Interest::All, revision) {
                let mut seen = Vec::new();
                loop {
                    let batch = store.advance(&mut cursor, 3).unwrap();
                    if batch.is_empty() { break }
                    seen.extend(batch.iter().map(|event| (event.revision, event.key.to_string(),
                        event.current.as_ref().map(|record| record.value()["data"]["n"].as_str().unwrap().parse().unwrap()))));
                }
                let expected: Vec<_> = log.iter().filter(|(at, _, _)| *at > revision).cloned().collect();
                prop_assert_eq!(seen, expected);
            }
        }
        let stats = store.stats();
        prop_assert_eq!(stats.objects, worlds.last().unwrap().len());
        prop_assert!(stats.events <= history);
    }
}

#[test]
fn a_commit_wakes_only_requests_whose_revision_is_reached() {
    struct CountWakes(AtomicUsize);
    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let store = Store::new(History::default());
    let requests: Vec<_> = (0..3).map(|_| Arc::new(CountWakes(AtomicUsize::new(0)))).collect();
    for (request, revision) in requests.iter().zip([1, 2, 2]) {
        let waker = Waker::from(Arc::clone(request));
        for _ in 0..2 {
            assert!(store.poll_revision(revision, &mut Context::from_waker(&waker)).is_pending());
        }
    }
    let wakes = || requests.iter().map(|request| request.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
    put(&store, "ns/a", 1);
    assert_eq!(wakes(), [1, 0, 0], "once per task");
    put(&store, "ns/b", 1);
    assert_eq!(wakes(), [1, 1, 1]);
}

#[test]
fn sto_34_a_follower_reads_what_has_changed_since_it_last_read() {
    let store = Store::new(History { events: 4, ..History::default() });
    let changed = |since: Option<u64>| match store.unread(&table(), since) {
        (revision, Unread::Changes(events)) => (revision, events.iter().map(|event| event.key.to_string()).collect()),
        (revision, Unread::Everything(objects)) => {
            let all: Vec<_> = objects.iter().map(|(key, _)| format!("={key}")).collect();
            (revision, all)
        }
    };
    assert_eq!(changed(None), (0, vec![]));
    for key in ["ns/0", "ns/1", "ns/2"] {
        put(&store, key, 1);
    }
    assert_eq!(changed(None).1, ["=ns/0", "=ns/1", "=ns/2"]);
    let last = delete(&store, "ns/0");
    assert_eq!(changed(Some(last - 1)), (last, vec!["ns/0".to_owned()]), "one change, however many objects");
    assert_eq!(changed(Some(last)), (last, vec![]));
    for data in 0..5 {
        put(&store, "ns/1", data);
    }
    assert_eq!(changed(Some(last)).1, ["=ns/1", "=ns/2"], "the history does not reach back so far");
    let known = store.revision();
    store.replace(&Store::new(History::default()).image());
    assert_eq!(changed(Some(known)).1, Vec::<String>::new());
    let image = {
        let other = Store::new(History::default());
        put(&other, "ns/other", 1);
        other.image()
    };
    store.replace(&image);
    assert_eq!(changed(Some(known)).1, ["=ns/other"], "a restored image has another history");
}

#[test]
fn a_follower_of_all_resources_reads_each_commit_once() {
    let store = Store::new(History::default());
    let tables: Vec<Arc<str>> = ["a", "b"].map(Arc::from).into();
    let put = |table: &Arc<str>, key: &str| {
        let draft = Draft::new(&serde_json::json!({"metadata": {"name": key}}), Facts::default(), 0);
        store.commit(table, key, Expect::Absent, Write::Put(draft), Duration::ZERO).unwrap();
    };
    put(&tables[0], "first");
    let (revision, everything) = store.unread_of_all(None, |_| true);
    assert!(matches!(everything, UnreadOfAll::Everything(objects) if objects.len() == 1));
    // More commits than the store remembers the tables of, and fewer than the history of each table.
    for number in 0..6000 {
        put(&tables[number % 2], &format!("k{number}"));
    }
    let (now, unread) = store.unread_of_all(Some(revision), |_| true);
    let UnreadOfAll::Changes(changes) = unread else { panic!("the history reaches back") };
    let revisions: Vec<u64> = changes.iter().map(|(_, event)| event.revision).collect();
    assert_eq!(revisions, (revision + 1..=now).collect::<Vec<_>>());
    put(&tables[1], "last");
    let (now, unread) = store.unread_of_all(Some(now), |_| true);
    assert!(matches!(unread, UnreadOfAll::Changes(changes) if changes.len() == 1 && *changes[0].0 == *"b"));
    let (_, unread) = store.unread_of_all(Some(now), |_| true);
    assert!(matches!(unread, UnreadOfAll::Changes(changes) if changes.is_empty()));
    store.compact(now);
    let (_, unread) = store.unread_of_all(Some(revision), |_| true);
    assert!(matches!(unread, UnreadOfAll::Everything(objects) if objects.len() == 6002));
}
