//! Tests of merging, field sets of intents and intent validation.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::super::fields::{fields_of, without};
use super::super::merge::merge;
use super::super::set::FieldSet;
use super::super::{FieldTypes, check_intent};
use super::types::{Types, WORKLOAD};
use crate::schema::Schema;

static LISTS: LazyLock<Types> = LazyLock::new(|| {
    Types::new(&json!({"properties": {
        "set": {"items": {}, "x-kubernetes-list-type": "set"},
        "atomic": {"items": {}},
        "atomicMap": {"x-kubernetes-map-type": "atomic"},
        "map": {"additionalProperties": {"additionalProperties": {}}},
        "list": {
            "items": {"properties": {"key": {}, "id": {}, "value": {"additionalProperties": {}}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "id"]
        }
    }}))
});

#[track_caller]
fn merges(live: Value, intent: Value, expected: Value) {
    assert_eq!(merge(&live, &intent, Some(&*LISTS)), expected, "{live} and {intent}");
}

/// Every letter is an item.
#[track_caller]
fn merges_sets(live: &str, intent: &str, expected: &str) {
    let set = |letters: &str| json!({"set": letters.chars().map(String::from).collect::<Vec<_>>()});
    merges(set(live), set(intent), set(expected));
}

#[test]
fn ssa_8_sets_merge_by_value_in_the_order_of_the_intent() {
    merges_sets("", "abc", "abc");
    merges_sets("abc", "", "abc");
    merges_sets("abc", "defxyz", "abcdefxyz");
    merges_sets("cdef", "ace", "acdef");
    merges_sets("abcxyz", "defxyz", "abcdefxyz");
    merges_sets("cagf", "cfag", "cfag");
    merges_sets("abcd", "defa", "bcdefa");
    merges_sets("cdefghij", "2h3e4kl", "cdfg2hij3e4kl");
    merges_sets("abcdefghij", "1b2h3e4kl", "a1bcdfg2hij3e4kl");
    merges(json!({"set": [1, 2, 3.5]}), json!({"set": [1, 2, 3]}), json!({"set": [1, 2, 3.5, 3]}));
}

#[test]
fn ssa_13_duplicates_in_the_object_are_tolerated() {
    merges_sets("abb", "c", "abbc");
    merges_sets("abb", "b", "ab");
    merges_sets("abb", "a", "abb");
    merges_sets("abcdec", "1b2ed", "a1bc2ecd");
    merges_sets("abcdec", "1b2ced", "a1b2ced");
    merges_sets("aabb", "bcd", "aabcd");
    merges_sets("aabb", "", "aabb");
    merges_sets("cagfca", "cfag", "cfag");
    merges_sets("aay", "am", "amy");
    let list = |items: Value| json!({"list": items});
    merges(
        list(json!([{"key": "a", "id": 1, "b": true}, {"key": "b", "id": 2}, {"key": "a", "id": 1, "n": 2}])),
        list(json!([{"key": "a", "id": 1, "n": 3}, {"key": "c", "id": 3}, {"key": "b", "id": 2}])),
        list(json!([{"key": "a", "id": 1, "n": 3}, {"key": "c", "id": 3}, {"key": "b", "id": 2}])),
    );
}

#[test]
fn ssa_8_lists_of_objects_merge_by_all_their_keys() {
    let list = |items: &[(&str, u8)]| {
        let items: Vec<Value> = items.iter().map(|(key, id)| json!({"key": key, "id": id})).collect();
        json!({"list": items})
    };
    merges(list(&[("a", 1)]), list(&[("a", 2)]), list(&[("a", 1), ("a", 2)]));
    merges(list(&[("a", 1), ("b", 1)]), list(&[("a", 1), ("a", 2)]), list(&[("a", 1), ("b", 1), ("a", 2)]));
    merges(list(&[("b", 2)]), list(&[("a", 1), ("b", 2), ("c", 3)]), list(&[("a", 1), ("b", 2), ("c", 3)]));
    merges(list(&[("a", 1), ("b", 2), ("c", 3)]), list(&[("c", 3), ("a", 1)]), list(&[("b", 2), ("c", 3), ("a", 1)]));
    merges(
        json!({"list": [{"key": "a", "id": 1, "value": {"x": 1, "y": 1}}]}),
        json!({"list": [{"key": "a", "id": 1, "value": {"y": 2, "z": 2}}]}),
        json!({"list": [{"key": "a", "id": 1, "value": {"x": 1, "y": 2, "z": 2}}]}),
    );
}

#[test]
fn ssa_8_maps_merge_by_key_and_what_is_atomic_is_replaced() {
    merges(
        json!({"map": {"a": {"x": 1}, "b": {"x": 1}}}),
        json!({"map": {"a": {"y": 2}, "c": {}}}),
        json!({"map": {"a": {"x": 1, "y": 2}, "b": {"x": 1}, "c": {}}}),
    );
    merges(json!({"atomic": [1, 2]}), json!({"atomic": [3]}), json!({"atomic": [3]}));
    merges(json!({"atomic": [1, 2]}), json!({"atomic": []}), json!({"atomic": []}));
    merges(json!({"atomicMap": {"a": 1}}), json!({"atomicMap": {"b": 1}}), json!({"atomicMap": {"b": 1}}));
    // A value of another shape replaces that of the object.
    merges(json!({"map": 1}), json!({"map": {"a": {}}}), json!({"map": {"a": {}}}));
    merges(json!({"map": {"a": {}}}), json!({"map": 1}), json!({"map": 1}));
}

#[test]
fn ssa_8_null_replaces_scalars_and_keeps_granular_values() {
    merges(json!({"atomic": [1]}), json!({"atomic": null}), json!({"atomic": null}));
    merges(json!({"map": {"a": {}}}), json!({"map": null}), json!({"map": {"a": {}}}));
    merges(json!({"set": ["a"]}), json!({"set": null}), json!({"set": ["a"]}));
    merges(json!({"other": 1}), json!({"other": null}), json!({"other": null}));
    merges(json!({}), json!({"other": null}), json!({"other": null}));
}

#[track_caller]
fn names<T: FieldTypes>(types: Option<&T>, object: Value, expected: Value) {
    assert_eq!(fields_of(&object, types).encode(), expected, "{object}");
}

#[test]
fn ssa_8_the_fields_of_an_intent() {
    let types = Some(&*WORKLOAD);
    names(types, json!({"data": {"a": "b"}}), json!({"f:data": {"f:a": {}}}));
    // An empty map is owned itself, an empty list is not.
    names(types, json!({"data": {}}), json!({"f:data": {}}));
    names(types, json!({"metadata": {"finalizers": []}}), json!({}));
    names(
        types,
        json!({"data": null, "spec": {"replicas": null}}),
        json!({"f:data": {}, "f:spec": {"f:replicas": {}}}),
    );
    names(types, json!({"metadata": {"finalizers": ["a"]}}), json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}));
    names(
        types,
        json!({"spec": {"selector": {"a": {"b": 1}}, "args": [1]}}),
        json!({"f:spec": {"f:args": {}, "f:selector": {}}}),
    );
    // Defaults are part of the key, though not in the intent.
    names(
        types,
        json!({"spec": {"ports": [{"port": 1}]}}),
        json!({"f:spec": {"f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
    );
    // Keys of maps of maps are owned besides what is in them.
    names(Some(&*LISTS), json!({"map": {"a": {"x": 1}}}), json!({"f:map": {"f:a": {".": {}, "f:x": {}}}}));
}

#[test]
fn ssa_14_without_a_schema_an_intent_names_every_map_and_no_item() {
    names::<Types>(
        None,
        json!({"spec": {"a": {"b": [1, {"c": 1}]}}}),
        json!({"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}}}),
    );
}

#[test]
fn fields_can_be_removed_from_an_object() {
    let object = json!({
        "set": ["a", "b"], "atomic": [1], "map": {"a": {"x": 1}, "b": {"x": 1}},
        "list": [{"key": "a", "id": 1, "value": {"x": 1}}, {"key": "b", "id": 1}]
    });
    let gone = json!({
        "f:set": {"v:\"a\"": {}}, "f:map": {"f:a": {"f:x": {}}, "f:b": {}}, "f:never": {},
        "f:list": {"k:{\"id\":1,\"key\":\"a\"}": {"f:value": {}}, "k:{\"id\":1,\"key\":\"b\"}": {".": {}, "f:key": {}}}
    });
    assert_eq!(
        without(&object, &FieldSet::decode(&gone).unwrap(), Some(&*LISTS)),
        json!({"set": ["b"], "atomic": [1], "map": {"a": null}, "list": [{"key": "a", "id": 1}]})
    );
}

#[test]
fn sets_of_an_older_schema_are_converted() {
    let fields = json!({
        "f:spec": {"f:selector": {"f:a": {}, "f:b": {}}, "f:args": {"v:1": {}}, "f:ports": {"k:{\"port\":1}": {"f:port": {}}}},
        "f:unknown": {"f:a": {}}
    });
    let mut set = FieldSet::decode(&fields).unwrap();
    set.conform(Some(&*WORKLOAD));
    assert_eq!(
        set.encode(),
        json!({
            "f:spec": {"f:selector": {}, "f:args": {}, "f:ports": {"k:{\"port\":1}": {"f:port": {}}}},
            "f:unknown": {"f:a": {}}
        })
    );
}

#[test]
fn ssa_9_paths_in_messages() {
    let fields = json!({
        "f:spec": {
            ".": {}, "f:replicas": {},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}, "f:list": {"i:0": {}}
        },
        "f:metadata": {"f:finalizers": {"v:\"a\"": {}}}
    });
    assert_eq!(
        FieldSet::decode(&fields).unwrap().paths(),
        [
            ".spec",
            ".metadata.finalizers[=\"a\"]",
            ".spec.replicas",
            ".spec.list[0]",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].name",
        ]
    );
}

#[test]
fn ssa_13_errors_of_an_intent() {
    let schema = Schema::builtin("io.k8s.api.core.v1.Pod").unwrap();
    let container = |fields: Value| json!({"spec": {"containers": [fields]}});
    let fine = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"any": "key"}, "finalizers": null},
        "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}],
                                 "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}], "tolerations": [{}, {}]}
    });
    assert_eq!(check_intent(&fine, schema), Ok(()));
    for (intent, expected) in [
        (json!({"bogus": 1}), ".bogus: field not declared in schema"),
        (
            container(json!({"name": "a", "bogus": 1})),
            ".spec.containers[name=\"a\"].bogus: field not declared in schema",
        ),
        (json!({"spec": {"tolerations": [{"bogus": 1}]}}), ".spec.tolerations[0].bogus: field not declared in schema"),
        (container(json!(null)), ".spec.containers: element 0: associative list with keys may not have a null element"),
        (container(json!(1)), ".spec.containers: element 0: associative list with keys may not have non-map elements"),
        (
            json!({"metadata": {"finalizers": [{}]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"metadata": {"finalizers": ["a", "b", "a"]}}),
            ".metadata.finalizers: duplicate entries for key [=\"a\"]",
        ),
        (json!({"spec": []}), ".spec: expected map, got []"),
        (json!({"spec": {"containers": {}}}), ".spec.containers: expected list, got {}"),
        (json!({"spec": {"nodeName": 1}}), ".spec.nodeName: expected string, got 1"),
        (json!({"spec": {"priority": "1"}}), ".spec.priority: expected numeric (int or float), got \"1\""),
        (json!({"spec": {"hostPID": "yes"}}), ".spec.hostPID: expected boolean, got \"yes\""),
        (
            container(json!({"name": "a", "resources": {"limits": {"cpu": {}}}})),
            ".spec.containers[name=\"a\"].resources.limits.cpu: expected any scalar, got {}",
        ),
        (
            json!({"metadata": {"bogus": 1}, "spec": {"bogus": 1}}),
            "errors:\n  .metadata.bogus: field not declared in schema\n  .spec.bogus: field not declared in schema",
        ),
    ] {
        assert_eq!(check_intent(&intent, schema), Err(expected.to_owned()));
    }
}

#[test]
fn ssa_13_items_of_custom_resources_need_a_key() {
    let schema =
        Schema::structural(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }}}}))
        .unwrap();
    let check = |spec: Value| check_intent(&json!({"spec": spec}), &schema);
    assert_eq!(check(json!({"list": [{"a": "1"}, {"a": "1", "b": "1"}], "free": {"anything": [1]}})), Ok(()));
    assert_eq!(
        check(json!({"list": [{}]})).unwrap_err(),
        ".spec.list: element 0: associative list with keys has an element that omits all key fields [\"a\" \"b\"] (and \
         doesn't have default values for any key fields)"
    );
    assert_eq!(check(json!({"other": 1})).unwrap_err(), ".spec.other: field not declared in schema");
}
