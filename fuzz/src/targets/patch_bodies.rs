//! The bodies of patches (FUZ-24). The first byte selects the check; a JSON object and the body follow.

use evenkeel_apiserver::internals::{PatchFormat, patch};
use evenkeel_core::difference::{ListPatch, json_patch};
use serde_json::{Value, json};

use crate::budget::{TREE, within};
use crate::input::Input;

/// A JSON patch may copy 3 MiB of JSON.
const COPIES: usize = 3 << 20;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let check = input.choice(&[0, 1, 2, 3, 4, 5]);
    let object = input.json();
    match check {
        0 => check_json_patch(&object, input.0),
        1 => check_json_patch(&object, input.json().to_string().as_bytes()),
        2 => check_merge(&object, input.0),
        3 => check_merge(&object, input.json().to_string().as_bytes()),
        4 => check_strategic(&object, input.0),
        _ => check_difference(&object, &input.json()),
    }
}

/// The result can be sent and read again.
fn check_result(result: &Value) {
    let text = result.to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "the result is nested too deeply");
}

fn check_json_patch(object: &Value, body: &[u8]) {
    let apply = || patch(PatchFormat::Json, object.clone(), body, None);
    let Ok(result) = within(TREE, object.to_string().len() + body.len() + COPIES, apply) else { return };
    check_result(&result);
    // Operations that only test leave the object as it is.
    let operations: Value = serde_json::from_slice(body).expect("the body was applied");
    let mut operations = operations.as_array().into_iter().flatten();
    if operations.all(|operation| operation["op"] == "test") {
        assert_eq!(result, *object, "tests have changed the object");
    }
}

fn check_merge(object: &Value, body: &[u8]) {
    let apply = |object: &Value| patch(PatchFormat::Merge, object.clone(), body, None);
    let Ok(result) = within(TREE, object.to_string().len() + body.len(), || apply(object)) else { return };
    check_result(&result);
    let merge_patch: Value = serde_json::from_slice(body).expect("the body was applied");
    assert_eq!(result, merged(object.clone(), &merge_patch), "the algorithm of RFC 7386");
    assert_eq!(apply(&result).ok().as_ref(), Some(&result), "applied twice");
}

/// The algorithm of RFC 7386, section 2.
fn merged(target: Value, merge_patch: &Value) -> Value {
    let Value::Object(members) = merge_patch else { return merge_patch.clone() };
    let Value::Object(mut target) = (if target.is_object() { target } else { json!({}) }) else { unreachable!() };
    for (name, value) in members {
        if value.is_null() {
            target.remove(name);
        } else {
            let old = target.remove(name).unwrap_or_default();
            target.insert(name.clone(), merged(old, value));
        }
    }
    Value::Object(target)
}

fn check_strategic(object: &Value, body: &[u8]) {
    let apply = || patch(PatchFormat::Strategic, object.clone(), body, Some("io.k8s.api.core.v1.Pod"));
    let Ok(result) = within(TREE, object.to_string().len() + body.len(), apply) else { return };
    check_result(&result);
}

/// The difference between two objects leads from one to the other.
fn check_difference(from: &Value, to: &Value) {
    if !to.is_object() && !to.is_array() {
        return;
    }
    for lists in [ListPatch::Elements, ListPatch::Whole] {
        let operations = serde_json::to_vec(&json_patch(from, to, lists)).expect("a patch is JSON");
        let result = patch(PatchFormat::Json, from.clone(), &operations, None);
        assert_eq!(result.ok().as_ref(), Some(to), "{}", String::from_utf8_lossy(&operations));
    }
}
