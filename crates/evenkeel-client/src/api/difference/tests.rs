use super::*;

/// The examples of RFC 7386.
fn merged(mut target: Value, patch: &Value) -> Value {
    let Value::Object(members) = patch else { return patch.clone() };
    if !target.is_object() {
        target = json!({});
    }
    let object = target.as_object_mut().unwrap();
    for (member, value) in members {
        match (value, object.remove(member)) {
            (Value::Null, _) => {}
            (value, old) => _ = object.insert(member.clone(), merged(old.unwrap_or_default(), value)),
        }
    }
    target
}

#[test]
fn wrh_001_the_merge_patch_makes_one_value_the_other() {
    let values = [
        json!({}),
        json!({"a": 1}),
        json!({"a": {"b": [1, 2], "c": "x"}}),
        json!({"a": {"b": [1], "d": {"e": true}}, "f": 2}),
        json!({"a": {"c": "x"}, "f": {"g": []}}),
    ];
    for before in &values {
        for after in &values {
            match merge_difference(before, after) {
                None => assert_eq!(before, after),
                Some(patch) => assert_eq!(&merged(before.clone(), &patch), after, "{before} {patch}"),
            }
        }
    }
    assert_eq!(merge_difference(&values[1], &values[1]), None);
}

#[test]
fn wrh_001_lists_are_replaced_and_missing_members_are_null() {
    let (before, after) = (json!({"a": [1, 2], "b": {"c": 1, "d": 2}}), json!({"a": [2], "b": {"d": 2}}));
    assert_eq!(merge_difference(&before, &after), Some(json!({"a": [2], "b": {"c": null}})));
}

#[test]
fn wrh_005_a_strategic_patch_merges_lists_by_their_keys() {
    let types = MergeType::of_kind("v1", "Pod").unwrap();
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let before = json!({
        "metadata": {"finalizers": ["a", "b"]},
        "spec": {"containers": [container("x", "1"), container("y", "1")], "tolerations": [{"key": "t"}], "nodeName": "n"},
    });
    let mut after = before.clone();
    assert_eq!(strategic_difference(&before, &after, types), None);
    after["metadata"]["finalizers"] = json!(["b", "c"]);
    after["spec"] = json!({"containers": [container("z", "1"), container("x", "2")], "tolerations": []});
    let expected = json!({
        "metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["b", "c"],
        },
        "spec": {
            "containers": [container("z", "1"), {"name": "x", "image": "2"}, {"$patch": "delete", "name": "y"}],
            "$setElementOrder/containers": [{"name": "z"}, {"name": "x"}],
            "tolerations": [],
            "nodeName": null,
        },
    });
    assert_eq!(strategic_difference(&before, &after, types), Some(expected));
}

#[test]
fn wrh_005_a_list_without_unique_merge_keys_is_replaced() {
    let types = MergeType::of_kind("v1", "Pod").unwrap();
    let pod = |ports: Value| json!({"spec": {"containers": [{"name": "a", "ports": ports}]}});
    let dns = json!({"containerPort": 53, "protocol": "UDP"});
    let before = pod(json!([dns]));
    let after = pod(json!([dns, {"containerPort": 53, "protocol": "TCP"}]));
    let patch = strategic_difference(&before, &after, types).unwrap();
    let ports = &patch["spec"]["containers"][0]["ports"];
    assert_eq!(ports[2], json!({"$patch": "replace"}));
    assert_eq!(ports.as_array().unwrap().len(), 3);
}
