//! Tests of the history checker.

use std::sync::Arc;

use evenkeel_cache::Delivery::{Every, Latest};
use evenkeel_cache::{Deleted, Delivery, Event, Obj, ResourceInfo};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::history::History;
use crate::run::RunCounts;
use crate::truth::{Map, Truth};

/// Returns an object with this uid, version and contents.
fn map(uid: &str, version: u64, n: &str) -> Map {
    let info = Arc::new(ResourceInfo::of::<ConfigMap>());
    let version = version.to_string();
    let value = json!({
        "metadata": {"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": version},
        "data": {"n": n},
    });
    Obj::from_json(&info, value.to_string()).unwrap()
}

fn state(text: &str) -> Map {
    let (uid, version) = text.split_once('@').unwrap();
    map(uid, version.parse().unwrap(), "n")
}

/// Reads events from text: `add u@1`, `initial u@1`, `update u@1 u@2`, `delete u@3`, `missed u@2`, `synced`, `removed`.
fn record(delivery: Delivery, events: &str) -> History {
    let mut history = History::new("handler", delivery, 0);
    let mut synced = false;
    for line in events.split(',').map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let event = match words[..] {
            ["add", object] => Event::Add { object: state(object), initial: false },
            ["initial", object] => Event::Add { object: state(object), initial: true },
            ["update", old, new] => Event::Update { old: state(old), new: state(new) },
            ["delete", object] => Event::Delete(Deleted::Observed(state(object))),
            ["missed", object] => {
                let object = state(object);
                Event::Delete(Deleted::Missed { key: object.key().clone(), last_known: Some(object) })
            }
            ["synced"] => {
                synced = true;
                continue;
            }
            ["removed"] => {
                history.close();
                continue;
            }
            _ => panic!("{line}"),
        };
        history.record(&event, synced);
    }
    history
}

/// The states of the server in most cases; both objects were deleted.
fn truth() -> Truth {
    let mut truth = Truth::default();
    for text in ["u@1", "u@2", "u@3", "v@5", "v@6"] {
        truth.state(&state(text));
    }
    truth.deleted("u");
    truth.deleted("v");
    truth
}

fn verify(delivery: Delivery, events: &str) -> String {
    record(delivery, events).verify(&truth()).join("; ")
}

#[test]
fn legal_histories_have_no_violation() {
    for events in [
        "initial u@1, synced, update u@1 u@2, update u@2 u@2, delete u@4, add v@5",
        "add u@1, missed u@1, add v@5, update v@5 v@6",
        "add u@1, update u@1 u@3, delete u@4, add v@5, delete v@7",
        "add u@2, update u@2 v@5",
        "add u@1, removed",
    ] {
        assert_eq!(verify(Every, events), "", "{events}");
        assert_eq!(verify(Latest, events), "", "{events}");
    }
    for events in [
        "add u@1, update u@4 v@5", // deleted and added again
        "add u@1, delete v@7",     // deleted, added again and deleted
        "add u@1, missed v@6",
        "add u@1, missed u@3",
    ] {
        assert_eq!(verify(Latest, events), "", "{events}");
        assert_ne!(verify(Every, events), "", "{events}");
    }
}

#[test]
fn illegal_histories_are_reported() {
    for (events, violation) in [
        ("add u@1, add u@2", "was added at u@2, but known at u@1"),
        ("update u@1 u@2", "not known"),
        ("delete u@4", "was deleted, but not known"),
        ("missed u@1", "was deleted, but not known"),
        ("add u@1, delete u@4, delete u@4", "was deleted, but not known"),
        ("add u@1, delete u@4, update u@1 u@2", "not known"),
        ("add u@2, update u@1 u@3", "was updated from u@1, but was known at u@2"),
        ("add u@1, update v@5 v@6", "was updated from v@5, but was known at u@1"),
        ("add u@2, update u@2 u@1", "decreased in version"),
        ("add u@2, missed u@2, add u@1", "decreased in version"),
        ("add u@3, delete u@3", "decreased in version"),
        ("add v@6, update v@6 u@2", "decreased in version"),
        ("add u@1, delete v@7", "was deleted as v@7, but known as u@1"),
        ("add u@2, missed u@1", "was missed at u@1, but known at u@2"),
        ("synced, initial u@1", "is initial"),
        ("add u@1, removed, update u@1 u@2", "after the handler was removed"),
        ("add u@4", "never had version 4"),
        ("add v@1", "not n"),
        ("add u@1, delete u@2, add u@3", "added again"),
    ] {
        let violations = verify(Every, events);
        assert!(violations.contains(violation), "{events}: {violations}");
    }
}

#[test]
fn a_delete_of_an_existing_object_is_reported() {
    let mut truth = Truth::default();
    truth.state(&state("u@1"));
    for events in ["add u@1, delete u@4", "add u@1, missed u@1"] {
        let violations = record(Every, events).verify(&truth);
        assert!(violations[0].contains("but never was"), "{violations:?}");
    }
    truth.left("u");
    truth.state(&state("u@5"));
    assert_eq!(record(Every, "add u@1, delete u@4, add u@5").verify(&truth), [""; 0], "it left the selection");
}

#[test]
fn versions_decrease_only_with_a_backup() {
    let events = "add u@3, update u@3 u@1";
    let mut truth = truth();
    assert!(record(Every, events).verify(&truth)[0].contains("decreased in version"));
    truth.backup();
    assert_eq!(record(Every, events).verify(&truth), [""; 0]);
    let again = "add u@3, update u@3 u@1, update u@1 u@3, update u@3 u@1";
    assert!(record(Every, again).verify(&truth)[0].contains("more than 1 times"));
}

#[test]
fn contents_are_compared() {
    let mut history = History::new("handler", Every, 0);
    history.record(&Event::Add { object: map("u", 1, "n"), initial: false }, false);
    history.record(&Event::Update { old: map("u", 1, "n"), new: map("u", 1, "other") }, false);
    assert!(history.violations()[0].contains("has two states"), "{:?}", history.violations());
    let mut history = History::new("handler", Latest, 0);
    history.record(&Event::Add { object: map("u", 1, "n"), initial: false }, false);
    history.record(&Event::Update { old: map("u", 4, "other"), new: map("v", 5, "n") }, false);
    assert!(history.violations()[0].contains("was updated from u@4"), "{:?}", history.violations());
    let mut history = History::new("handler", Every, 0);
    history.record(&Event::Add { object: map("u", 1, "other"), initial: false }, false);
    assert!(history.verify(&truth())[0].contains("at 1, not other"));
}

#[test]
fn differences_to_the_server_are_reported() {
    let history = record(Every, "add u@1, update u@1 u@2");
    assert_eq!(history.difference(&[state("u@2")]), [""; 0]);
    assert_eq!(history.difference(&[state("u@3")]), ["ns/a is at u@3, not at u@2"], "an update was lost");
    assert_eq!(history.difference(&[]), ["ns/a was deleted, but is known"], "a deletion was lost");
    let history = record(Every, "add u@1, missed u@1");
    assert_eq!(history.difference(&[]), [""; 0]);
    assert_eq!(history.difference(&[state("v@5")]), ["ns/a is at v@5, but not known"], "a creation was lost");
}

#[test]
fn the_faults_of_a_few_runs_are_not_counted() {
    let counts = RunCounts { lists: 9, watches: 23, syncs: 5, cuts: 2, missed: 210, ..RunCounts::default() };
    counts.check_faults(3);
    let few = std::panic::catch_unwind(|| counts.check_faults(25)).unwrap_err();
    assert!(few.downcast_ref::<String>().unwrap().starts_with("too few faults in 25 runs"));
}
