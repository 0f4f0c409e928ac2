//! Tests of the report of informers and queues.

use evenkeel_cache::Event;
use evenkeel_cache::source::SourceError;
use evenkeel_core::Status;

use super::super::session::PageSession;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_followed_from_the_watch_to_the_reconcile_with_its_cause() {
    let fixture = Fixture::start(&[]).await;
    fixture.source.add(map("a")).unwrap();
    settle().await;
    fixture.queue.next().await.unwrap().retry("no luck");
    fixture.queue.next().await.unwrap().forget();
    let expected = [
        "maps: watch event: added",
        "maps: stored; notifying handlers: add",
        "maps: fill notified: add",
        "work: added",
        "work: dequeued after 1 ms",
        "work: failed, 1 in a row; requeued with a backoff of 5 ms",
        "work: dequeued, attempt 2",
        "work: reconciled",
    ];
    assert_eq!(steps_of(&fixture.inspector, "default/a"), expected);
    let report = fixture.inspector.report(Some("default/a"));
    let steps = report["follow"]["steps"].as_array().unwrap();
    let stages: Vec<_> = steps.iter().map(|step| step["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["deltas", "store", "handlers", "queue", "workers", "delayed", "workers", "done"]);
    let cause = json!({"informer": "maps", "kind": "ConfigMap", "what": "added", "key": "default/a", "version": "1"});
    assert_eq!(steps[3]["cause"], cause);
    assert_eq!(report["errors"][0]["error"], "no luck");
    assert_eq!(report["informers"][0]["handlers"][0]["feeds"], json!(["work"]));
}

#[tokio::test(start_paused = true)]
async fn an_add_outside_of_a_handler_has_no_cause() {
    let fixture = Fixture::start(&["a"]).await;
    fixture.queue.add("default/b".parse().unwrap());
    let report = fixture.inspector.report(Some("default/b"));
    assert_eq!(report["follow"]["steps"][0]["cause"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn two_inspectors_of_one_informer_record_causes_and_a_dropped_one_leaves_no_state() {
    let fixture = Fixture::start(&[]).await;
    let other = Inspector::new();
    other.informer(&fixture.informer);
    other.queue("the same", &fixture.queue);
    fixture.source.add(map("a")).unwrap();
    settle().await;
    for inspector in [&fixture.inspector, &other] {
        let report = inspector.report(Some("default/a"));
        assert_eq!(report["follow"]["steps"][3]["cause"]["key"], "default/a");
    }
    // The inspector is dropped during a handler call.
    let last = std::sync::Mutex::new(Some(fixture.inspector));
    fixture.informer.add_handler(move |_: Event<ConfigMap>| drop(last.lock().unwrap().take())).unwrap();
    settle().await;
    fixture.queue.add("default/b".parse().unwrap());
    assert_eq!(other.report(Some("default/b"))["follow"]["steps"][0]["cause"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_removed_informer_is_no_cause_even_if_its_handler_call_did_not_return() {
    let fixture = Fixture::start(&[]).await;
    let (inspector, queue) = (fixture.inspector.clone(), fixture.queue.clone());
    let handler = move |_: Event<ConfigMap>| {
        queue.add("default/before".parse().unwrap());
        inner(&inspector).history().remove_source(0);
        queue.add("default/after".parse().unwrap());
    };
    fixture.informer.add_handler(handler).unwrap();
    fixture.source.add(map("a")).unwrap();
    settle().await;
    let cause = |key: &str| match fixture.inspector.report(Some(key))["follow"]["steps"].as_array().unwrap().as_slice()
    {
        [added] => added["cause"]["key"].clone(),
        steps => panic!("{key}: {steps:?}"),
    };
    assert_eq!(["default/before", "default/after"].map(cause), [json!("default/a"), Value::Null]);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_object_of_a_relist_notifies_only_handlers_due_for_a_resync() {
    let fixture = Fixture::start(&["a"]).await;
    fixture.source.send_error(Status::expired("too old"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.inspector.report(None)["informers"][0]["relists"], 1);
    let applied = "maps: unchanged in the store; notifying handlers due for a resync: update".to_owned();
    assert!(steps_of(&fixture.inspector, "default/a").contains(&applied));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_one_line_of_bounded_length_and_a_shown_key_can_be_followed() {
    let inspector = Inspector::new();
    let queue = WorkQueue::<String>::new();
    inspector.queue("two\nlines", &queue);
    queue.add(format!("a\n{}", "é".repeat(1000)));
    queue.try_next().unwrap().retry("no luck");
    let report = inspector.report(None);
    assert_eq!(report["queues"][0]["name"], "two lines");
    let shown = report["errors"][0]["key"].as_str().unwrap();
    assert!(shown.starts_with("a éé") && shown.ends_with('…') && shown.len() <= 1024, "{shown}");
    assert_eq!(steps_of(&inspector, shown).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_report_has_the_state_of_informers_and_queues_and_one_notification_for_all_handlers() {
    let fixture = Fixture::start(&["a", "b"]).await;
    fixture.informer.add_handler(|_: Event<ConfigMap>| {}).unwrap();
    settle().await;
    let report = fixture.inspector.report(None);
    let informer = &report["informers"][0];
    assert_eq!((informer["name"].as_str(), informer["kind"].as_str()), (Some("maps"), Some("ConfigMap")));
    assert_eq!((informer["watch"].as_str(), informer["objects"].as_u64()), (Some("watching"), Some(2)));
    assert_eq!(informer["handlers"].as_array().unwrap().len(), 2);
    assert_eq!(informer["counts"]["applied"], 2);
    assert_eq!(informer["counts"]["notified"], 4);
    assert_eq!(report["queues"][0]["ready"], 2);
    let kinds: Vec<_> = report["notifications"].as_array().unwrap().iter().map(|entry| &entry["what"]).collect();
    assert_eq!(kinds, ["initial", "initial"]);
}

#[tokio::test(start_paused = true)]
async fn an_inspector_keeps_nothing_alive_and_removes_dropped_sources() {
    let Fixture { informer, running, queue, inspector, source } = Fixture::start(&["a"]).await;
    let (weak_informer, weak_queue) = (informer.downgrade(), queue.downgrade());
    running.stop().await;
    assert_eq!(inspector.report(None)["informers"][0]["watch"], "stopped");
    drop((informer, queue));
    settle().await;
    assert!(weak_informer.upgrade().is_none() && weak_queue.upgrade().is_none());
    let report = inspector.report(None);
    assert_eq!((&report["informers"], &report["queues"]), (&json!([]), &json!([])));
    assert!(inner(&inspector).sources.lock().unwrap().all.is_empty());
    drop(source);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_inspector_unregisters_its_observers() {
    let fixture = Fixture::start(&["a"]).await;
    let weak = Arc::downgrade(inner(&fixture.inspector));
    let observers = || [format!("{:?}", fixture.informer), format!("{:?}", fixture.queue)];
    assert!(observers().iter().all(|debug| debug.contains("observers: 1")), "{:?}", observers());
    drop(fixture.inspector);
    assert!(weak.upgrade().is_none());
    assert!(observers().iter().all(|debug| debug.contains("observers: 0")), "{:?}", observers());
    fixture.source.modify(map("a")).unwrap();
    settle().await;
    let again = Inspector::new();
    again.queue("work", &fixture.queue);
    fixture.queue.add("default/b".parse().unwrap());
    assert_eq!(steps_of(&again, "default/b"), ["work: added"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_added_twice_is_shown_once_and_a_duplicate_name_gets_a_number() {
    let fixture = Fixture::start(&[]).await;
    fixture.inspector.informer(&fixture.informer);
    fixture.inspector.queue("another name", &fixture.queue);
    let other = WorkQueue::<ObjectKey>::new();
    fixture.inspector.queue("work", &other);
    let report = fixture.inspector.report(None);
    assert_eq!(report["informers"].as_array().unwrap().len(), 1);
    let names: Vec<_> = report["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["work", "work (2)"]);
}

#[tokio::test(start_paused = true)]
async fn watch_failures_panics_and_errors_of_the_program_are_shown() {
    let fixture = Fixture::start(&["a"]).await;
    fixture.informer.add_handler(|_: Event<ConfigMap>| panic!("on purpose")).unwrap();
    fixture.source.break_watches(|| SourceError::Other("cut".into()));
    settle().await;
    fixture.inspector.error("me", "default/x", "no such object");
    let item = fixture.queue.next().await.unwrap();
    let panicked = tokio::spawn(async move {
        let _item = item;
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    let report = fixture.inspector.report(None);
    let mut errors: Vec<_> =
        report["errors"].as_array().unwrap().iter().map(|entry| entry["error"].as_str().unwrap()).collect();
    errors.sort_unstable();
    assert!(errors.iter().any(|error| error.contains("cut")), "{errors:?}");
    assert!(errors.iter().any(|error| error.ends_with("panicked") && !error.contains("worker")), "{errors:?}");
    assert!(errors.contains(&"worker panicked") && errors.contains(&"no such object"), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_receives_a_full_report_first_and_then_only_changes() {
    let fixture = Fixture::start(&["a"]).await;
    let inner = inner(&fixture.inspector);
    let mut session = PageSession::new(None);
    let first = session.update(inner, Instant::now()).unwrap();
    assert_eq!((&first["first"], first["notifications"].as_array().unwrap().len()), (&json!(true), 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(session.update(inner, Instant::now()), None, "elapsed time alone is no change");
    fixture.source.modify(map("a")).unwrap();
    settle().await;
    let second = session.update(inner, Instant::now()).unwrap();
    assert_eq!(second["first"], false);
    assert_eq!(second["notifications"][0]["what"], "update");
    fixture.inspector.note("a note");
    assert_eq!(session.update(inner, Instant::now()).unwrap()["notes"][0]["text"], "a note");
    assert_eq!(session.update(inner, Instant::now()), None);
}

#[tokio::test(start_paused = true)]
async fn only_the_name_and_version_of_an_object_are_shown() {
    let fixture = Fixture::start(&[]).await;
    let secret = json!({"metadata": {"name": "a", "namespace": "default", "labels": {"l": "hidden-1"}}, "data": {"k": "hidden-2"}});
    fixture.source.add(serde_json::from_value::<ConfigMap>(secret).unwrap()).unwrap();
    settle().await;
    let text = fixture.inspector.report(Some("default/a")).to_string();
    assert!(text.contains("default/a") && !text.contains("hidden"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_object_from_before_the_observation_is_shown_with_its_version() {
    let fixture = Fixture::start(&["old"]).await;
    let later = Inspector::new();
    later.informer(&fixture.informer);
    let report = later.report(Some("default/old"));
    assert_eq!(report["notifications"][0]["key"], "default/old");
    assert_eq!(report["follow"]["steps"][0]["text"], "in the store already");
    let version = report["follow"]["steps"][0]["version"].clone();
    assert_eq!(report["follow"]["stored"], json!([{"informer": "maps", "version": version}]));
    assert_eq!(later.report(Some("default/none"))["follow"]["stored"], json!([]));
}
