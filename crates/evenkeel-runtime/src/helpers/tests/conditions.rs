use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;

fn at(status: &str, reason: &str, second: i64) -> Condition {
    let condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": format!("2026-01-01T00:00:0{second}Z"),
    });
    serde_json::from_value(condition).unwrap()
}

fn time(conditions: &[Condition]) -> Time {
    find_condition(conditions, "Ready").unwrap().last_transition_time.clone()
}

#[test]
fn the_time_of_a_transition_is_when_the_status_changed() {
    let mut conditions = vec![Condition { type_: "Other".into(), ..at("True", "Fine", 0) }];
    let first = at("False", "Waiting", 1);
    assert!(set_condition(&mut conditions, first.clone()));
    assert!(!set_condition(&mut conditions, at("False", "Waiting", 2)), "only the time is another");
    assert_eq!(time(&conditions), first.last_transition_time);
    assert!(set_condition(&mut conditions, at("False", "StillWaiting", 3)));
    assert_eq!(time(&conditions), first.last_transition_time, "another reason is no transition");
    assert!(!is_condition_true(&conditions, "Ready"));
    let last = at("True", "Done", 4);
    assert!(set_condition(&mut conditions, last.clone()));
    assert_eq!(time(&conditions), last.last_transition_time);
    assert!(is_condition_true(&conditions, "Ready"));
    assert_eq!(conditions.len(), 2);
    assert_eq!(conditions[0].type_, "Other");
}

#[test]
fn another_generation_is_a_change() {
    let mut conditions = Vec::new();
    let seen = |generation| Condition { observed_generation: Some(generation), ..at("True", "Done", 1) };
    assert!(set_condition(&mut conditions, seen(1)));
    assert!(set_condition(&mut conditions, seen(2)));
    assert!(!set_condition(&mut conditions, seen(2)));
    assert_eq!(find_condition(&conditions, "Ready").unwrap().observed_generation, Some(2));
}

#[test]
fn conditions_are_removed_by_type() {
    let mut conditions = vec![at("True", "Done", 1)];
    assert!(!remove_condition(&mut conditions, "Other"));
    assert!(remove_condition(&mut conditions, "Ready"));
    assert_eq!(find_condition(&conditions, "Ready"), None);
    assert!(!is_condition_true(&conditions, "Ready"));
}

#[test]
fn a_condition_of_an_object_has_its_generation_and_keeps_the_time_while_the_status_does() {
    let info = Arc::new(ResourceInfo::of::<ConfigMap>());
    let object = |generation: i64| -> Obj<ConfigMap> {
        Obj::from_json(&info, json!({"metadata": {"name": "a", "generation": generation}}).to_string()).unwrap()
    };
    let mut conditions = vec![at("False", "Waiting", 1)];
    assert!(set_condition(&mut conditions, condition(&object(7), "Ready", false, "StillWaiting", "for two")));
    let ready = find_condition(&conditions, "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason, &*ready.message), ("False", "StillWaiting", "for two"));
    assert_eq!((ready.observed_generation, time(&conditions)), (Some(7), at("", "", 1).last_transition_time));
    assert!(!set_condition(&mut conditions, condition(&object(7), "Ready", false, "StillWaiting", "for two")));
    for (status, expected) in [(Some(true), "True"), (None, "Unknown")] {
        assert!(set_condition(&mut conditions, condition(&object(8), "Ready", status, "Changed", "")));
        assert_eq!(find_condition(&conditions, "Ready").unwrap().status, expected);
        assert!(time(&conditions).0 > at("", "", 1).last_transition_time.0);
    }
}
