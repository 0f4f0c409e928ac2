use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the differences as JSON.
fn changes(old: &Value, new: &Value) -> Value {
    serde_json::to_value(diff(old, new, false)).unwrap()
}

fn secret(old: &Value, new: &Value) -> String {
    serde_json::to_string(&diff(old, new, true)).unwrap()
}

#[test]
fn a_changed_added_or_removed_value_is_one_difference() {
    let old = json!({"spec": {"replicas": 2, "paused": true, "template": {"a": 1}}});
    let new = json!({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}, "template": {"a": 1}}});
    assert_eq!(
        changes(&old, &new),
        json!([
            {"path": "spec.paused", "old": true},
            {"path": "spec.replicas", "old": 2, "new": 3},
            {"path": "spec.strategy", "new": {"type": "Recreate"}},
        ])
    );
    assert_eq!(changes(&old, &old), json!([]));
}

#[test]
fn null_differs_from_absent() {
    assert_eq!(changes(&json!({"a": null}), &json!({})), json!([{"path": "a", "old": null}]));
    assert_eq!(changes(&json!({"a": null}), &json!({"a": {}})), json!([{"path": "a", "old": null, "new": {}}]));
}

#[test]
fn fields_that_every_write_changes_are_ignored() {
    let old = json!({"metadata": {"resourceVersion": "7", "generation": 1, "managedFields": [1], "name": "a"}});
    let new = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"resourceVersion": "8", "generation": 2, "managedFields": [2], "name": "a"},
    });
    assert_eq!(changes(&old, &new), json!([]));
    // Elsewhere they are ordinary fields.
    let (old, new) = (json!({"spec": {"generation": 1}}), json!({"spec": {"generation": 2}}));
    assert_eq!(changes(&old, &new), json!([{"path": "spec.generation", "old": 1, "new": 2}]));
}

#[test]
fn names_that_are_no_identifiers_are_quoted() {
    let new = json!({"metadata": {"labels": {"example.com/team": "a", "": 1, "a]\n": 2, "ok-1": 3}}});
    let old = json!({"metadata": {"labels": {}}});
    let changes = changes(&old, &new);
    let paths: Vec<&str> = changes.as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            r#"metadata.labels[""]"#,
            r#"metadata.labels["a]\n"]"#,
            r#"metadata.labels["example.com/team"]"#,
            "metadata.labels.ok-1",
        ]
    );
}

#[test]
fn elements_with_names_are_compared_by_name() {
    let old = json!({"containers": [{"name": "web", "image": "a"}, {"name": "log", "image": "b"}]});
    let new = json!({"containers": [{"name": "init", "image": "c"}, {"name": "web", "image": "d"}]});
    assert_eq!(
        changes(&old, &new),
        json!([
            {"path": "containers[name=web].image", "old": "a", "new": "d"},
            {"path": "containers[name=log]", "old": {"name": "log", "image": "b"}},
            {"path": "containers[name=init]", "new": {"name": "init", "image": "c"}},
        ])
    );
    let old = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    let new = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(changes(&old, &new), json!([{"path": "conditions[type=Ready].status", "old": "False", "new": "True"}]));
}

#[test]
fn other_lists_are_compared_by_index() {
    assert_eq!(
        changes(&json!({"args": ["a", "b"]}), &json!({"args": ["a", "c", "d"]})),
        json!([{"path": "args[1]", "old": "b", "new": "c"}, {"path": "args[2]", "new": "d"}])
    );
    // A duplicate key, a missing key, another order: comparison by index.
    let one = json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]);
    let two = json!([{"name": "a", "v": 1}, {"name": "a", "v": 3}]);
    assert_eq!(changes(&one, &two), json!([{"path": "[1].v", "old": 2, "new": 3}]));
    let (one, two) = (json!([{"name": "a"}, {"name": "b"}]), json!([{"name": "b"}, {"name": "a"}]));
    assert_eq!(changes(&one, &two).as_array().unwrap().len(), 2, "an order that changes is a change");
    let (one, two) = (json!([{"name": "a"}]), json!([{"name": "a"}, {"v": 1}]));
    assert_eq!(changes(&one, &two), json!([{"path": "[1]", "new": {"v": 1}}]));
}

#[test]
fn values_of_secrets_are_redacted() {
    let old = json!({"data": {"password": "aHVudGVyMg==", "gone": "c2VjcmV0"}});
    let new = json!({"data": {"password": "aHVudGVyMjI="}, "stringData": {"more": "hunter3"}, "type": "Opaque"});
    let text = secret(&old, &new);
    for hint in ["hunter", "aHVu", "c2Vj"] {
        assert!(!text.contains(hint), "{text}");
    }
    let text: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        text,
        json!([
            {"path": "data.gone", "old": "[redacted, 6 bytes]"},
            {"path": "data.password", "old": "[redacted, 7 bytes]", "new": "[redacted, 8 bytes]"},
            {"path": "stringData.more", "new": "[redacted, 7 bytes]"},
            {"path": "type", "new": "Opaque"},
        ])
    );
    // The same fields of another kind are not secret.
    assert_eq!(changes(&json!({"data": {"a": "b"}}), &json!({"data": {}})), json!([{"path": "data.a", "old": "b"}]));
}

#[test]
fn the_copy_of_a_secret_by_kubectl_is_redacted() {
    let applied = json!({"metadata": {"annotations": {LAST_APPLIED: "{\"data\":{\"k\":\"hunter2\"}}", "a": "b"}}});
    for (old, new) in [
        (json!({"metadata": {}}), applied.clone()),
        (json!({}), applied.clone()),
        (applied.clone(), json!({"metadata": {"annotations": "nonsense"}})),
        (applied.clone(), json!({"metadata": "nonsense"})),
        (json!({"metadata": [1]}), json!({"metadata": [applied["metadata"]]})),
        (applied, json!("nonsense")),
    ] {
        let text = secret(&old, &new);
        assert!(text.contains("redacted") && !text.contains("hunter2"), "{text}");
    }
}

/// Removes the ignored fields of a state.
fn counted(mut state: Value) -> Value {
    if let Some(object) = state.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, _| !BOOKKEEPING.contains(&name.as_str()));
            if metadata.is_empty() {
                object.remove("metadata");
            }
        }
    }
    state
}

fn names() -> impl Strategy<Value = String> {
    let known = ["metadata", "annotations", "managedFields", "resourceVersion", "data", "name", "type", "kind", "a.b"];
    proptest::sample::select(known.map(str::to_owned).to_vec())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[ab]?".prop_map(Value::from)];
    leaf.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(names(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Returns two states, the second often similar to the first.
fn states() -> impl Strategy<Value = (Value, Value)> {
    fn change(value: &mut Value, seed: usize, with: &Value) {
        match value {
            Value::Object(members) if !members.is_empty() && !seed.is_multiple_of(4) => {
                let at = seed % members.len();
                if let Some(member) = members.values_mut().nth(at) {
                    change(member, seed / 2, with);
                }
            }
            Value::Array(list) if !list.is_empty() && !seed.is_multiple_of(4) => {
                let at = seed % list.len();
                list.rotate_left(at);
                change(&mut list[0], seed / 2, with);
            }
            other => other.clone_from(with),
        }
    }
    (values(), values(), any::<usize>()).prop_map(|(old, other, seed)| {
        let mut new = old.clone();
        change(&mut new, seed, &other);
        (old, new)
    })
}

proptest! {
    #[test]
    fn there_is_no_difference_exactly_between_equal_states((old, new) in states(), is_secret: bool) {
        let is_equal = counted(old.clone()) == counted(new.clone());
        prop_assert_eq!(diff(&old, &new, is_secret).is_empty(), is_equal);
    }

    #[test]
    fn the_reverse_diff_mirrors_the_diff((old, new) in states(), is_secret: bool) {
        let order = |changes: Vec<Change<'_>>| {
            let text = |change: &Change<'_>| format!("{change:?}");
            let mut texts: Vec<String> = changes.iter().map(text).collect();
            texts.sort();
            texts
        };
        let back = diff(&new, &old, is_secret);
        let turned = back.into_iter().map(|Change { path, old, new }| Change { path, old: new, new: old });
        prop_assert_eq!(order(diff(&old, &new, is_secret)), order(turned.collect()));
    }
}
