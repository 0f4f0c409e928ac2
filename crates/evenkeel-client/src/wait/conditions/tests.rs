use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use k8s_openapi::api::core::v1::Pod;

use super::*;

fn pod(rest: &str) -> Obj<Pod> {
    let json = format!(r#"{{"metadata":{{"name":"a","uid":"u1","generation":3}}{rest}}}"#);
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json).unwrap()
}

fn ready(pod: &Obj<Pod>) -> bool {
    condition_true("Ready")(Some(pod))
}

#[test]
fn conditions_are_read_from_the_status() {
    let status =
        r#","status":{"conditions":[{"type":"Initialized","status":"False"},{"type":"Ready","status":"True"}]}"#;
    assert!(ready(&pod(status)));
    assert!(!condition_true("Initialized")(Some(&pod(status))));
    assert!(condition_is("Initialized", "False")(Some(&pod(status))));
    assert!(!condition_is("Missing", "False")(Some(&pod(status))));
    assert!(!condition_true::<Pod>("Ready")(None));
}

#[test]
fn malformed_statuses_have_no_condition() {
    for odd in [
        "",
        r#","status":null"#,
        r#","status":{}"#,
        r#","status":{"conditions":null}"#,
        r#","status":{"conditions":{"Ready":"True"}}"#,
        r#","status":{"conditions":[{"type":"Ready"}]}"#,
    ] {
        assert!(!ready(&pod(odd)), "{odd}");
    }
}

#[test]
fn outdated_conditions_are_ignored() {
    let own = |generation| {
        format!(r#","status":{{"conditions":[{{"type":"Ready","status":"True","observedGeneration":{generation}}}]}}"#)
    };
    assert!(!ready(&pod(&own(2))) && ready(&pod(&own(3))));
    let whole = |generation| {
        format!(r#","status":{{"observedGeneration":{generation},"conditions":[{{"type":"Ready","status":"True"}}]}}"#)
    };
    assert!(!ready(&pod(&whole(2))) && ready(&pod(&whole(3))));
}

#[test]
fn presence_and_its_combinations() {
    let there = pod("");
    assert!(exists()(Some(&there)) && !exists::<Pod>()(None));
    assert!(is_deleted::<Pod>()(None) && !is_deleted()(Some(&there)));
    let gone = is_deleted_or_replaced("u1");
    assert!(!gone(Some(&there)) && gone(None) && is_deleted_or_replaced("u2")(Some(&there)));
    assert!(or(exists(), is_deleted())(Some(&there)) && !and(exists(), is_deleted())(Some(&there)));
    assert!(not(is_deleted())(Some(&there)));
}
