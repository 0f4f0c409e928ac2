//! Patches of examples, and of generated changes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ListPatch, json_patch, overlay};
use crate::testing::apply_patch;

/// Returns the object that the API server has after a hook has changed `before` to `after`.
fn changed(raw: &Value, before: &Value, after: &Value) -> Value {
    let patch = super::of_change(raw.to_string().as_bytes(), before, after).unwrap();
    let mut object = raw.clone();
    if let Some(patch) = patch {
        apply_patch(&mut object, &patch).unwrap();
    }
    object
}

fn operations(from: &Value, to: &Value) -> Value {
    serde_json::to_value(json_patch(from, to, ListPatch::Elements)).unwrap()
}

#[test]
fn arv_021_fields_that_the_type_lacks_stay() {
    let raw = json!({"spec": {"size": 1, "unknown": {"a": 1}}, "extra": [1]});
    let before = json!({"spec": {"size": 1}});
    let after = json!({"spec": {"size": 2}, "status": {}});
    let expected = json!({"spec": {"size": 2, "unknown": {"a": 1}}, "extra": [1], "status": {}});
    assert_eq!(changed(&raw, &before, &after), expected);
}

#[test]
fn arv_021_defaults_that_decoding_adds_are_not_written() {
    let raw = json!({"metadata": {"name": "a"}});
    let before = json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}});
    let after = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"replicas": 1}});
    assert_eq!(changed(&raw, &before, &after), json!({"metadata": {"name": "a", "labels": {"x": "y"}}}));
}

#[test]
fn ohc_005_a_field_that_the_type_lacks_survives_changes_of_its_list() {
    let raw = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "unknown": true}]});
    let before = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    let after = json!({"containers": [{"name": "a", "image": "2"}, {"name": "b", "image": "1"}]});
    let expected = json!({"containers": [{"name": "a", "image": "2"}, {"name": "b", "image": "1", "unknown": true}]});
    assert_eq!(changed(&raw, &before, &after), expected);

    let after = json!({"containers": [{"name": "s"}, {"name": "a", "image": "2"}, {"name": "b", "image": "3"}]});
    let expected = json!({"containers": [
        {"name": "s"}, {"name": "a", "image": "2"}, {"name": "b", "image": "3", "unknown": true},
    ]});
    assert_eq!(changed(&raw, &before, &after), expected);
    assert_eq!(
        operations(&raw, &expected),
        json!([
            {"op": "replace", "path": "/containers/1/image", "value": "3"},
            {"op": "replace", "path": "/containers/0/image", "value": "2"},
            {"op": "add", "path": "/containers/0", "value": {"name": "s"}},
        ])
    );
}

#[test]
fn elements_without_an_identity_keep_unknown_fields_if_their_place_is_known() {
    let raw = json!([{"a": 1, "u": 1}, {"a": 2, "u": 2}, {"a": 3, "u": 3}]);
    let before = json!([{"a": 1}, {"a": 2}, {"a": 3}]);
    // As many as before: by position.
    let after = json!([{"a": 1}, {"a": 9}, {"a": 3}]);
    assert_eq!(changed(&raw, &before, &after), json!([{"a": 1, "u": 1}, {"a": 9, "u": 2}, {"a": 3, "u": 3}]));
    // One more: equal ends are matched, and the element between them is new.
    let after = json!([{"a": 1}, {"a": 9}, {"a": 2}, {"a": 3}]);
    let expected = json!([{"a": 1, "u": 1}, {"a": 9}, {"a": 2, "u": 2}, {"a": 3, "u": 3}]);
    assert_eq!(changed(&raw, &before, &after), expected);
    // Moved: found by its value.
    let after = json!([{"a": 3}, {"a": 1}, {"a": 2}]);
    assert_eq!(changed(&raw, &before, &after), json!([{"a": 3, "u": 3}, {"a": 1, "u": 1}, {"a": 2, "u": 2}]));
}

#[test]
fn arv_022_paths_are_escaped_and_removals_run_from_the_end() {
    let from = json!({"a/b": {"c~d": 1}, "list": [1, 2, 3, 4], "same": [1, {"x": null}]});
    let to = json!({"a/b": {"c~d": 2}, "list": [1, 4], "same": [1, {"x": null}]});
    assert_eq!(
        operations(&from, &to),
        json!([
            {"op": "replace", "path": "/a~1b/c~0d", "value": 2},
            {"op": "remove", "path": "/list/2"},
            {"op": "remove", "path": "/list/1"},
        ])
    );
    assert_eq!(operations(&from, &from), json!([]));
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        "[a~/]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[ab~/]{1,2}|name", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Adds a field that the type lacks to every object.
fn with_unknown(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(with_unknown).collect(),
        Value::Object(members) => {
            let known = members.iter().map(|(key, value)| (key.clone(), with_unknown(value)));
            Value::Object(known.chain([("unknown".to_owned(), Value::from(7))]).collect())
        }
        other => other.clone(),
    }
}

fn without_unknown(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(without_unknown).collect(),
        Value::Object(members) => {
            let known = members.iter().filter(|(key, _)| *key != "unknown");
            Value::Object(known.map(|(key, value)| (key.clone(), without_unknown(value))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn arv_022_a_patch_leads_to_its_target(from in document(), to in document()) {
        let mut object = from.clone();
        let patch = serde_json::to_vec(&json_patch(&from, &to, ListPatch::Elements)).unwrap();
        apply_patch(&mut object, &patch).unwrap();
        prop_assert_eq!(object, to);
    }

    #[test]
    fn arv_021_the_typed_part_of_the_result_is_what_the_hook_made(before in document(), after in document()) {
        let raw = with_unknown(&before);
        prop_assert_eq!(without_unknown(&changed(&raw, &before, &after)), after.clone());
        // Nothing changed: nothing is lost.
        let mut same = raw.clone();
        overlay(&mut same, &before, before.clone());
        prop_assert_eq!(same, raw);
    }
}
