use serde_json::{Value, json};

use super::alignment::align;
use super::*;

fn changed(raw: &Value, before: &Value, after: &Value) -> Value {
    let mut changed = raw.clone();
    overlay(&mut changed, before, after.clone());
    changed
}

fn patch(from: &Value, to: &Value, lists: ListPatch) -> Value {
    serde_json::to_value(json_patch(from, to, lists)).unwrap()
}

#[test]
fn wrh_004_a_change_keeps_what_the_type_lacks_wherever_it_is() {
    // `x` is unknown to the type, which writes an empty `e` that the object did not have.
    let raw =
        json!({"x": 1, "spec": {"x": 2, "n": 1, "items": [{"name": "a", "x": 3}, {"name": "b", "v": 1, "x": 4}]}});
    let before = json!({"e": [], "spec": {"n": 1, "items": [{"name": "a"}, {"name": "b", "v": 1}]}});
    assert_eq!(changed(&raw, &before, &before), raw);

    let mut after = before.clone();
    after["spec"]["n"] = json!(2);
    let mut expected = raw.clone();
    expected["spec"]["n"] = json!(2);
    assert_eq!(changed(&raw, &before, &after), expected);

    // Items that are moved, changed and inserted keep their unknown members.
    after["spec"]["items"] = json!([{"name": "new"}, {"name": "b", "v": 2}, {"name": "a"}]);
    expected["spec"]["items"] = json!([{"name": "new"}, {"name": "b", "v": 2, "x": 4}, {"name": "a", "x": 3}]);
    assert_eq!(changed(&raw, &before, &after), expected);
}

#[test]
fn wrh_004_items_without_an_identity_keep_their_places() {
    let raw = json!([{"v": 1, "x": 1}, {"v": 1, "x": 2}]);
    let before = json!([{"v": 1}, {"v": 1}]);
    assert_eq!(changed(&raw, &before, &json!([{"v": 1}, {"v": 2}])), json!([{"v": 1, "x": 1}, {"v": 2, "x": 2}]));
    assert_eq!(changed(&raw, &before, &json!([{"v": 1}])), json!([{"v": 1, "x": 1}]));
    assert_eq!(changed(&raw, &before, &json!("other")), json!("other"));
}

#[test]
fn wrh_004_and_arv_021_items_without_an_identity_are_found_where_they_moved_to() {
    let raw = json!([{"v": 1, "x": 1}, {"v": 2, "x": 2}, {"v": 3, "x": 3}]);
    let before = json!([{"v": 1}, {"v": 2}, {"v": 3}]);
    // Equally long: the element that is nowhere else takes the place that is left.
    let after = json!([{"v": 3}, {"v": 9}, {"v": 1}]);
    assert_eq!(changed(&raw, &before, &after), json!([{"v": 3, "x": 3}, {"v": 9, "x": 2}, {"v": 1, "x": 1}]));
    // Longer: it is new.
    let after = json!([{"v": 3}, {"v": 9}, {"v": 1}, {"v": 2}]);
    let expected = json!([{"v": 3, "x": 3}, {"v": 9}, {"v": 1, "x": 1}, {"v": 2, "x": 2}]);
    assert_eq!(changed(&raw, &before, &after), expected);
    // An element is the origin of one other at most.
    let after = json!([{"v": 3}, {"v": 3}]);
    assert_eq!(changed(&raw, &before, &after), json!([{"v": 3}, {"v": 3, "x": 3}]));
}

#[test]
fn no_element_of_an_alignment_is_used_twice() {
    let lists: Vec<Vec<Value>> = (0..81_usize)
        .map(|number| (0..4).map(|digit| json!({"v": number / 3_usize.pow(digit) % 3})).collect::<Vec<_>>())
        .flat_map(|list| (0..=4).map(move |length| list[..length].to_vec()))
        .collect();
    for before in &lists {
        for after in &lists {
            let mut found: Vec<usize> = align(before, after).into_iter().flatten().collect();
            found.sort_unstable();
            let count = found.len();
            found.dedup();
            assert_eq!(found.len(), count, "{before:?} {after:?}");
            assert!(before.len() != after.len() || count == after.len(), "{before:?} {after:?}");
        }
    }
}

#[test]
fn an_identity_is_a_scalar_that_no_other_element_has() {
    assert!(is_identity(&[json!({"port": 1}), json!({"port": "1"})], "port"));
    for other in [json!({"port": 1}), json!({"port": null}), json!({"port": [1]}), json!({}), json!(1)] {
        assert!(!is_identity(&[json!({"port": 1}), other], "port"));
    }
}

#[test]
fn wrh_001_a_json_patch_has_one_operation_per_member() {
    let before = json!({"a/b": {"c~": 1, "d": [1]}, "e": 1, "f": null});
    let after = json!({"a/b": {"c~": 2, "d": [1, 2]}, "g": {"h": null}, "f": null});
    let expected = json!([
        {"op": "remove", "path": "/e"},
        {"op": "replace", "path": "/a~1b/c~0", "value": 2},
        {"op": "replace", "path": "/a~1b/d", "value": [1, 2]},
        {"op": "add", "path": "/g", "value": {"h": null}},
    ]);
    assert_eq!(patch(&before, &after, ListPatch::Whole), expected);
    assert_eq!(patch(&before, &before, ListPatch::Whole), json!([]));
    assert_eq!(patch(&before, &after, ListPatch::Elements)[2], json!({"op": "add", "path": "/a~1b/d/1", "value": 2}));
}
