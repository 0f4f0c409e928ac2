use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;

fn condition(status: &str, reason: &str, second: i64) -> Condition {
    let at = json!({
        "type": "Ready", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": format!("2026-01-01T00:00:0{second}Z"),
    });
    serde_json::from_value(at).unwrap()
}

fn time(conditions: &[Condition]) -> Time {
    find_condition(conditions, "Ready").unwrap().last_transition_time.clone()
}

#[test]
fn the_time_of_a_transition_is_when_the_status_changed() {
    let mut conditions = vec![Condition { type_: "Other".into(), ..condition("True", "Fine", 0) }];
    let first = condition("False", "Waiting", 1);
    assert!(set_condition(&mut conditions, first.clone()));
    assert!(!set_condition(&mut conditions, condition("False", "Waiting", 2)), "only the time is another");
    assert_eq!(time(&conditions), first.last_transition_time);
    assert!(set_condition(&mut conditions, condition("False", "StillWaiting", 3)));
    assert_eq!(time(&conditions), first.last_transition_time, "another reason is no transition");
    assert!(!is_condition_true(&conditions, "Ready"));
    let last = condition("True", "Done", 4);
    assert!(set_condition(&mut conditions, last.clone()));
    assert_eq!(time(&conditions), last.last_transition_time);
    assert!(is_condition_true(&conditions, "Ready"));
    assert_eq!(conditions.len(), 2);
    assert_eq!(conditions[0].type_, "Other");
}

#[test]
fn another_generation_is_a_change() {
    let mut conditions = Vec::new();
    let seen = |generation| Condition { observed_generation: Some(generation), ..condition("True", "Done", 1) };
    assert!(set_condition(&mut conditions, seen(1)));
    assert!(set_condition(&mut conditions, seen(2)));
    assert!(!set_condition(&mut conditions, seen(2)));
    assert_eq!(find_condition(&conditions, "Ready").unwrap().observed_generation, Some(2));
}

#[test]
fn conditions_are_removed_by_type() {
    let mut conditions = vec![condition("True", "Done", 1)];
    assert!(!remove_condition(&mut conditions, "Other"));
    assert!(remove_condition(&mut conditions, "Ready"));
    assert_eq!(find_condition(&conditions, "Ready"), None);
    assert!(!is_condition_true(&conditions, "Ready"));
}
