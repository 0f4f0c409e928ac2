//! What is seen of informers and queues.

use evenkeel_cache::Event;
use evenkeel_cache::source::SourceError;
use evenkeel_core::Status;

use super::super::viewer::Viewer;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_followed_from_the_watch_to_the_end_of_the_work_and_every_step_has_its_cause() {
    let world = World::start(&[]).await;
    world.source.add(map("a")).unwrap();
    settle().await;
    world.queue.next().await.unwrap().retry("no luck");
    world.queue.next().await.unwrap().forget();
    let told = [
        "maps: watch event: added",
        "maps: in the store; handlers are told: add",
        "maps: fill is told: add",
        "work: added",
        "work: a worker has it, it was ready for 1 ms",
        "work: it failed, 1 in a row; it comes back after 5 ms",
        "work: a worker has it, attempt 2",
        "work: it went well",
    ];
    assert_eq!(story(&world.inspector, "default/a"), told);
    let report = world.inspector.report(Some("default/a"));
    let steps = report["follow"]["steps"].as_array().unwrap();
    let stages: Vec<_> = steps.iter().map(|step| step["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["deltas", "store", "handlers", "queue", "workers", "waiting", "workers", "done"]);
    let because = json!({"informer": "maps", "kind": "ConfigMap", "what": "came", "key": "default/a", "version": "1"});
    assert_eq!(steps[3]["because"], because);
    assert_eq!(report["errors"][0]["error"], "no luck");
    assert_eq!(report["informers"][0]["handlers"][0]["feeds"], json!(["work"]));
}

#[tokio::test(start_paused = true)]
async fn an_add_outside_of_a_handler_has_no_cause() {
    let world = World::start(&["a"]).await;
    world.queue.add("default/b".parse().unwrap());
    let report = world.inspector.report(Some("default/b"));
    assert_eq!(report["follow"]["steps"][0]["because"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn two_inspectors_of_the_same_things_both_know_why_and_one_that_goes_leaves_nothing_behind() {
    let world = World::start(&[]).await;
    let other = Inspector::new();
    other.informer(&world.informer);
    other.queue("the same", &world.queue);
    world.source.add(map("a")).unwrap();
    settle().await;
    for inspector in [&world.inspector, &other] {
        let report = inspector.report(Some("default/a"));
        assert_eq!(report["follow"]["steps"][3]["because"]["key"], "default/a");
    }
    // It goes while a handler is being told.
    let last = std::sync::Mutex::new(Some(world.inspector));
    world.informer.add_handler(move |_: Event<ConfigMap>| drop(last.lock().unwrap().take())).unwrap();
    settle().await;
    world.queue.add("default/b".parse().unwrap());
    assert_eq!(other.report(Some("default/b"))["follow"]["steps"][0]["because"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_gone_is_no_cause_though_the_end_of_a_call_was_never_told() {
    let world = World::start(&[]).await;
    let (inspector, queue) = (world.inspector.clone(), world.queue.clone());
    let handler = move |_: Event<ConfigMap>| {
        queue.add("default/before".parse().unwrap());
        inner(&inspector).ledger().forget(0);
        queue.add("default/after".parse().unwrap());
    };
    world.informer.add_handler(handler).unwrap();
    world.source.add(map("a")).unwrap();
    settle().await;
    let because = |key: &str| match world.inspector.report(Some(key))["follow"]["steps"].as_array().unwrap().as_slice()
    {
        [added] => added["because"]["key"].clone(),
        steps => panic!("{key}: {steps:?}"),
    };
    assert_eq!(["default/before", "default/after"].map(because), [json!("default/a"), Value::Null]);
}

#[tokio::test(start_paused = true)]
async fn of_what_a_list_brings_once_more_as_it_was_it_is_not_said_that_all_handlers_are_told() {
    let world = World::start(&["a"]).await;
    world.source.send_error(Status::expired("too old"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.inspector.report(None)["informers"][0]["relists"], 1);
    let applied = "maps: in the store, as it was; whoever is due for a resync is told: update".to_owned();
    assert!(story(&world.inspector, "default/a").contains(&applied));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_one_line_of_bounded_length_and_what_is_shown_of_a_key_can_be_followed() {
    let inspector = Inspector::new();
    let queue = WorkQueue::<String>::new();
    inspector.queue("two\nlines", &queue);
    queue.add(format!("a\n{}", "é".repeat(1000)));
    queue.try_next().unwrap().retry("no luck");
    let report = inspector.report(None);
    assert_eq!(report["queues"][0]["name"], "two lines");
    let shown = report["errors"][0]["key"].as_str().unwrap();
    assert!(shown.starts_with("a éé") && shown.ends_with('…') && shown.len() <= 1024, "{shown}");
    assert_eq!(story(&inspector, shown).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn informers_and_queues_are_seen_as_they_are_and_notifications_are_told_once_for_all_handlers() {
    let world = World::start(&["a", "b"]).await;
    world.informer.add_handler(|_: Event<ConfigMap>| {}).unwrap();
    settle().await;
    let report = world.inspector.report(None);
    let informer = &report["informers"][0];
    assert_eq!((informer["name"].as_str(), informer["kind"].as_str()), (Some("maps"), Some("ConfigMap")));
    assert_eq!((informer["watch"].as_str(), informer["objects"].as_u64()), (Some("watching"), Some(2)));
    assert_eq!(informer["handlers"].as_array().unwrap().len(), 2);
    assert_eq!(informer["counts"]["applied"], 2);
    assert_eq!(informer["counts"]["told"], 4);
    assert_eq!(report["queues"][0]["ready"], 2);
    let told: Vec<_> = report["notifications"].as_array().unwrap().iter().map(|one| &one["what"]).collect();
    assert_eq!(told, ["initial", "initial"]);
}

#[tokio::test(start_paused = true)]
async fn an_inspector_keeps_nothing_alive_and_what_is_gone_goes() {
    let World { informer, running, queue, inspector, source } = World::start(&["a"]).await;
    let (weak_informer, weak_queue) = (informer.downgrade(), queue.downgrade());
    running.stop().await;
    assert_eq!(inspector.report(None)["informers"][0]["watch"], "stopped");
    drop((informer, queue));
    settle().await;
    assert!(weak_informer.upgrade().is_none() && weak_queue.upgrade().is_none());
    let report = inspector.report(None);
    assert_eq!((&report["informers"], &report["queues"]), (&json!([]), &json!([])));
    assert!(inner(&inspector).lanes.lock().unwrap().all.is_empty());
    drop(source);
}

#[tokio::test(start_paused = true)]
async fn when_the_inspector_is_gone_nothing_is_observed() {
    let world = World::start(&["a"]).await;
    let weak = Arc::downgrade(inner(&world.inspector));
    let observers = || [format!("{:?}", world.informer), format!("{:?}", world.queue)];
    assert!(observers().iter().all(|debug| debug.contains("observers: 1")), "{:?}", observers());
    drop(world.inspector);
    assert!(weak.upgrade().is_none());
    assert!(observers().iter().all(|debug| debug.contains("observers: 0")), "{:?}", observers());
    world.source.modify(map("a")).unwrap();
    settle().await;
    let again = Inspector::new();
    again.queue("work", &world.queue);
    world.queue.add("default/b".parse().unwrap());
    assert_eq!(story(&again, "default/b"), ["work: added"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_twice_is_shown_once_and_a_name_that_is_taken_gets_a_number() {
    let world = World::start(&[]).await;
    world.inspector.informer(&world.informer);
    world.inspector.queue("another name", &world.queue);
    let other = WorkQueue::<ObjectKey>::new();
    world.inspector.queue("work", &other);
    let report = world.inspector.report(None);
    assert_eq!(report["informers"].as_array().unwrap().len(), 1);
    let names: Vec<_> = report["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["work", "work (2)"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_watch_panics_and_what_a_program_says_are_errors() {
    let world = World::start(&["a"]).await;
    world.informer.add_handler(|_: Event<ConfigMap>| panic!("as told")).unwrap();
    world.source.break_watches(|| SourceError::Other("cut".into()));
    settle().await;
    world.inspector.error("me", "default/x", "no such thing");
    let item = world.queue.next().await.unwrap();
    let panicked = tokio::spawn(async move {
        let _item = item;
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    let report = world.inspector.report(None);
    let mut told: Vec<_> =
        report["errors"].as_array().unwrap().iter().map(|one| one["error"].as_str().unwrap()).collect();
    told.sort_unstable();
    assert!(told.iter().any(|error| error.contains("cut")), "{told:?}");
    assert!(told.iter().any(|error| error.ends_with("panicked") && !error.contains("worker")), "{told:?}");
    assert!(told.contains(&"the worker panicked") && told.contains(&"no such thing"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_viewer_is_told_everything_first_and_then_only_what_is_new() {
    let world = World::start(&["a"]).await;
    let inner = inner(&world.inspector);
    let mut viewer = Viewer::new(None);
    let first = viewer.look(inner, Instant::now()).unwrap();
    assert_eq!((&first["first"], first["notifications"].as_array().unwrap().len()), (&json!(true), 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(viewer.look(inner, Instant::now()), None, "time alone is no news");
    world.source.modify(map("a")).unwrap();
    settle().await;
    let second = viewer.look(inner, Instant::now()).unwrap();
    assert_eq!(second["first"], false);
    assert_eq!(second["notifications"][0]["what"], "update");
    world.inspector.note("a line of the story");
    assert_eq!(viewer.look(inner, Instant::now()).unwrap()["notes"][0]["text"], "a line of the story");
    assert_eq!(viewer.look(inner, Instant::now()), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_object_is_shown_but_its_name_and_version() {
    let world = World::start(&[]).await;
    let secret = json!({"metadata": {"name": "a", "namespace": "default", "labels": {"l": "hidden-1"}}, "data": {"k": "hidden-2"}});
    world.source.add(serde_json::from_value::<ConfigMap>(secret).unwrap()).unwrap();
    settle().await;
    let text = world.inspector.report(Some("default/a")).to_string();
    assert!(text.contains("default/a") && !text.contains("hidden"), "{text}");
}
