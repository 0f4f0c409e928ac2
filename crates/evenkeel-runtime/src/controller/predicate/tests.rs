use std::sync::Arc;

use evenkeel_cache::Deleted;
use evenkeel_core::ResourceInfo;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn pod(version: &str, metadata: Value) -> Obj<Pod> {
    let mut object = json!({"metadata": {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": version}});
    for (name, value) in metadata.as_object().unwrap() {
        object["metadata"][name] = value.clone();
    }
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), object.to_string()).unwrap()
}

fn update(old: Value, new: Value) -> Event<Pod> {
    Event::Update { old: pod("1", old), new: pod("2", new) }
}

fn others() -> [Event<Pod>; 3] {
    let object = pod("1", json!({}));
    [
        Event::Add { object: object.clone(), initial: true },
        Event::Add { object: object.clone(), initial: false },
        Event::Delete(Deleted::Observed(object)),
    ]
}

#[test]
fn co_014_change_predicates_accept_adds_and_deletes() {
    for event in others() {
        for changed in [generation_changed(), labels_changed(), annotations_changed(), resource_version_changed()] {
            assert!(changed.accepts(&event));
        }
    }
}

#[test]
fn co_014_an_update_is_accepted_if_it_changes_the_field() {
    let cases = [
        (generation_changed(), json!({"generation": 1}), json!({"generation": 2}), json!({"generation": 1})),
        (labels_changed(), json!({"labels": {"a": "1"}}), json!({"labels": {"a": "2"}}), json!({"labels": {"a": "1"}})),
        (labels_changed(), json!({}), json!({"labels": {"a": "2"}}), json!({"labels": {}})),
        (labels_changed(), json!({"labels": {"a": "1"}}), json!({"labels": {"b": "1"}}), json!({"labels": {"a": "1"}})),
        (
            annotations_changed(),
            json!({"annotations": {"a": "1"}}),
            json!({"annotations": {"a": "2"}}),
            json!({"annotations": {"a": "1"}}),
        ),
        (annotations_changed(), json!({}), json!({"annotations": {"a": "2"}}), json!({"annotations": {}})),
    ];
    for (predicate, old, changed, same) in cases {
        assert!(predicate.accepts(&update(old.clone(), changed)), "{predicate:?}");
        assert!(!predicate.accepts(&update(old, same)), "{predicate:?}");
    }
    let same = pod("1", json!({}));
    let resync = Event::Update { old: same.clone(), new: same };
    assert!(!resource_version_changed().accepts(&resync));
    assert!(resource_version_changed().accepts(&update(json!({}), json!({}))));
}

#[test]
fn co_014_a_label_selector_matches_the_current_or_last_known_state() {
    let web = label_selector(LabelSelector::parse("app=web").unwrap());
    let (yes, no) = (json!({"labels": {"app": "web"}}), json!({"labels": {"app": "db"}}));
    assert!(web.accepts(&update(no.clone(), yes.clone())));
    assert!(!web.accepts(&update(yes.clone(), no)));
    assert!(web.accepts(&Event::Delete(Deleted::Observed(pod("1", yes)))));
    let unknown = Deleted::Missed { key: evenkeel_core::ObjectKey::namespaced("ns", "a"), last_known: None };
    assert!(!web.accepts(&Event::<Pod>::Delete(unknown)));
}

#[test]
fn co_014_predicates_compose() {
    let yes = |_: &Event<Pod>| true;
    let no = |_: &Event<Pod>| false;
    let event = update(json!({}), json!({}));
    assert!(and(yes, yes).accepts(&event) && !and(yes, no).accepts(&event) && !and(no, yes).accepts(&event));
    assert!(or(yes, no).accepts(&event) && or(no, yes).accepts(&event) && !or(no, no).accepts(&event));
    assert!(not(no).accepts(&event) && !not(yes).accepts(&event));
    assert!(and(and(yes, or(no, yes)), not(no)).accepts(&event));
}
