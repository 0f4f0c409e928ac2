//! Tests of the bounded history.

use super::super::history::*;
use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn step(key: &str, stage: KeyStage) -> KeyStep {
    KeyStep {
        source: 2,
        name: "source".into(),
        stage,
        key: key.into(),
        version: "7".into(),
        text: "a step".to_owned(),
        is_failure: false,
        cause: None,
    }
}

fn caused(key: &str, by: &str, queue: SourceId) -> KeyStep {
    let cause = Cause {
        source: 1,
        informer: "maps".into(),
        handler: "fill".into(),
        kind: "ConfigMap".into(),
        what: "updated",
        key: by.into(),
        version: "812".into(),
    };
    let name = format!("queue {queue}").into();
    KeyStep { source: queue, name, cause: Some(Arc::new(cause)), ..step(key, KeyStage::Queue) }
}

fn list<'a>(changes: &'a serde_json::Map<String, Value>, name: &str) -> &'a [Value] {
    changes[name].as_array().unwrap()
}

#[test]
fn every_ring_is_bounded_and_evictions_are_counted() {
    let mut history = RecentHistory::default();
    for index in 0..10_000u64 {
        history.step(at(index), step("a", KeyStage::Store));
        history.notification(at(index), &"maps".into(), "update", "a", "1");
        history.error(at(index), "c", "a", &format!("error {index}"));
        history.note(at(index), "a note");
    }
    let changes = history.since(0, Some("a"));
    assert_eq!(list(&changes, "notifications").len(), NOTIFICATIONS);
    assert_eq!(list(&changes, "errors").len(), ERRORS);
    assert_eq!(list(&changes, "notes").len(), NOTES);
    assert_eq!(changes["follow"]["steps"].as_array().unwrap().len(), FOLLOWED);
    assert_eq!(changes["follow"]["steps"][FOLLOWED - 1]["at"], 9999.0, "the newest steps are kept");
    assert_eq!(history.evicted(), 40_000 - (STEPS + NOTIFICATIONS + ERRORS + NOTES) as u64);
}

#[test]
fn entries_since_a_number_are_returned_once_oldest_first() {
    let mut history = RecentHistory::default();
    let maps = "maps".into();
    history.notification(at(1), &maps, "add", "a", "1");
    let known = history.next();
    assert!(!history.has_changes_since(known, Some("a")));
    history.notification(at(2), &maps, "update", "a", "2");
    history.notification(at(3), &maps, "delete", "b", "3");
    assert!(history.has_changes_since(known, None));
    let changes = history.since(known, None);
    let kinds: Vec<_> = list(&changes, "notifications").iter().map(|entry| entry["what"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["update", "delete"]);
    assert!(!changes.contains_key("follow"));
    assert!(list(&history.since(history.next(), None), "notifications").is_empty());
}

#[test]
fn following_a_key_includes_caused_steps_and_excludes_other_keys() {
    let mut history = RecentHistory::default();
    history.step(at(1), step("default/owner", KeyStage::Store));
    let known = history.next();
    history.step(at(2), step("default/other", KeyStage::Store));
    assert!(!history.has_changes_since(known, Some("default/child")));
    history.step(at(3), caused("default/owner", "default/child", 2));
    assert!(history.has_changes_since(known, Some("default/child")));
    let changes = history.since(0, Some("default/child"));
    let step = &changes["follow"]["steps"][0];
    assert_eq!((step["key"].as_str(), step["stage"].as_str()), (Some("default/owner"), Some("queue")));
    assert_eq!(step["cause"]["version"], "812");
    assert_eq!(history.since(0, Some("default/owner"))["follow"]["steps"].as_array().unwrap().len(), 2);
}

#[test]
fn consecutive_equal_errors_are_one_entry_with_a_count_and_a_stable_id() {
    let mut history = RecentHistory::default();
    history.error(at(1), "c", "a", "no room");
    let known = history.next();
    history.error(at(2), "c", "a", "no room");
    let changes = history.since(known, None);
    let [error] = list(&changes, "errors") else { panic!("{changes:?}") };
    assert_eq!((error["id"].as_u64(), error["count"].as_u64(), error["at"].as_f64()), (Some(0), Some(2), Some(2.0)));
    history.error(at(3), "c", "b", "no room");
    assert_eq!(list(&history.since(0, None), "errors").len(), 2);
}

#[test]
fn texts_are_one_line_of_bounded_length() {
    let mut history = RecentHistory::default();
    history.error(at(1), "c\u{7}", "a", &format!("two\nlines {}", "x".repeat(10_000)));
    history.note(at(1), "\u{1b}[31mred");
    let changes = history.since(0, None);
    let error = changes["errors"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("two lines ") && error.len() < 1100, "{error}");
    assert_eq!(changes["notes"][0]["text"], " [31mred");
}

#[test]
fn edges_from_handlers_to_queues_are_recorded_and_bounded() {
    let mut history = RecentHistory::default();
    (0..2000).for_each(|source| history.add_source(source));
    for queue in 1000..2000 {
        history.step(at(0), caused("a", "a", queue));
        history.step(at(0), caused("a", "a", 1000));
    }
    assert_eq!(history.queues_fed_by(1, "fill").len(), 256);
    assert_eq!(history.queues_fed_by(1, "fill")[0], "queue 1000");
    assert!(history.queues_fed_by(1, "other").is_empty() && history.queues_fed_by(2, "fill").is_empty());
}

#[test]
fn removing_a_source_removes_its_counters_and_edges_and_late_steps_do_not_restore_them() {
    let mut history = RecentHistory::default();
    let receive = |history: &mut RecentHistory, source| history.count(source, |counts| counts.received += 2);
    [1, 3, 4].into_iter().for_each(|source| history.add_source(source));
    receive(&mut history, 3);
    assert_eq!(history.counts(3), SourceCounts { received: 2, ..SourceCounts::default() });
    for queue in [3, 4] {
        history.step(at(0), caused("a", "a", queue));
    }
    assert_eq!(history.queues_fed_by(1, "fill"), ["queue 3", "queue 4"]);
    history.remove_source(3);
    receive(&mut history, 3);
    history.step(at(1), caused("a", "a", 3));
    assert!(!history.contains_source(3));
    assert_eq!((history.counts(3), history.queues_fed_by(1, "fill")), (SourceCounts::default(), vec!["queue 4"]));
    history.remove_source(1);
    history.step(at(1), caused("a", "a", 4));
    assert!(history.queues_fed_by(1, "fill").is_empty());
}
