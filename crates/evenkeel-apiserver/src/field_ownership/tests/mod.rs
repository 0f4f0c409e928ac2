mod apply;
mod apply_properties;
mod merging;
mod properties;
mod types;

use serde_json::json;

use super::set::FieldSet;
use super::*;
use types::{Types, WORKLOAD};

fn write<'a>(manager: &'a str, now: &'a str) -> Write<'a> {
    Write { manager, api_version: "v1", subresource: None, now, reset: &[] }
}

/// Updates the ownership of an object that replaces `old`, or that is created.
fn track<T: FieldTypes>(old: Option<&Value>, new: &mut Value, types: Option<&T>, write: &Write<'_>) {
    if let Some(old) = old {
        update_managed_fields(old, new, types, write);
    } else if let Some(text) = first_managed_fields(new, types, write) {
        let managed: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(managed.to_string().as_bytes(), text, "keys are sorted");
        new["metadata"]["managedFields"] = managed;
    }
}

/// Writes `new` over `old` and returns the stored object.
fn stored(old: Option<&Value>, new: Value, write: &Write<'_>) -> Value {
    let mut new = new;
    track(old, &mut new, Some(&*WORKLOAD), write);
    new
}

/// Returns manager, time and fields of every entry.
fn owners(object: &Value) -> Vec<(&str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |entry: &'_ Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| {
            assert_eq!(text(entry, "fieldsType"), "FieldsV1");
            (entry["manager"].as_str().unwrap(), entry["time"].as_str().unwrap_or_default(), &entry["fieldsV1"])
        })
        .collect()
}

fn create_set(object: &Value) -> Value {
    FieldSet::of(object, Some(&*WORKLOAD)).encode()
}

const T1: &str = "2026-01-01T00:00:01Z";
const T2: &str = "2026-01-01T00:00:02Z";
const T3: &str = "2026-01-01T00:00:03Z";

#[test]
fn ssa_2_the_entry_of_a_create() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let object = stored(None, object, &write("unknown", T1));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
            "manager": "unknown", "operation": "Update", "time": T1
        }])
    );
    let status = Write { subresource: Some("status"), ..write("kubelet", T2) };
    let mut new = object.clone();
    new["status"] = json!({"phase": "Running"});
    let object = stored(Some(&object), new, &status);
    assert_eq!(object["metadata"]["managedFields"][1]["subresource"], "status");
}

#[test]
fn ssa_2_entries_are_sorted() {
    let entry = |manager: &str, operation: &str, time: &str, field: &str| {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {field: {}}}
        })
    };
    let old = json!({
        "metadata": {"managedFields": [
            entry("z", "Update", T1, "f:a"), entry("b", "Update", T2, "f:b"), entry("a", "Update", T2, "f:c"),
            entry("y", "Apply", T3, "f:d"),
        ]},
        "data": {"a": "1", "b": "1", "c": "1", "d": "1"}
    });
    let mut new = old.clone();
    new["data"]["e"] = json!("1");
    let object = stored(Some(&old), new, &write("m", T1));
    let names: Vec<&str> = owners(&object).into_iter().map(|(manager, ..)| manager).collect();
    assert_eq!(names, ["y", "m", "z", "a", "b"]);
}

#[test]
fn ssa_3_the_manager_is_the_field_manager_or_the_user_agents_product() {
    assert_eq!(manager_name(Some("mine"), Some("kubectl/v1.32")), "mine");
    assert_eq!(manager_name(None, Some("kubectl/v1.32 (linux/amd64)")), "kubectl");
    assert_eq!(manager_name(Some(""), Some("my agent")), "my agent");
    assert_eq!(manager_name(None, Some("a\u{7}b\u{a0}c\"/1")), "abc\"");
    assert_eq!(manager_name(None, Some("/1")), "unknown");
    assert_eq!(manager_name(None, None), "unknown");
    let long = "\u{e9}".repeat(100);
    assert_eq!(manager_name(None, Some(&long)), "\u{e9}".repeat(64));
}

#[test]
fn ssa_3_updates_through_another_version_are_another_entry() {
    let v1 = write("m", T1);
    let v2 = Write { api_version: "v2", ..write("m", T2) };
    let old = stored(None, json!({"metadata": {}, "data": {"a": "1"}}), &v1);
    let mut new = old.clone();
    new["data"]["b"] = json!("1");
    let object = stored(Some(&old), new, &v2);
    assert_eq!(
        owners(&object),
        [("m", T1, &json!({"f:data": {".": {}, "f:a": {}}})), ("m", T2, &json!({"f:data": {"f:b": {}}}))]
    );
}

#[test]
fn ssa_4_fields_without_owner() {
    let object = json!({
        "apiVersion": "v1", "kind": "X",
        "metadata": {
            "name": "a", "namespace": "b", "creationTimestamp": T1, "selfLink": "x", "uid": "u", "clusterName": "c",
            "generation": 1, "resourceVersion": "5", "generateName": "a-", "labels": {"x": "y"}
        }
    });
    assert_eq!(create_set(&object), json!({"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:x": {}}}}));
    // Without a schema `metadata` itself would be added; it still has no owner.
    assert_eq!(
        FieldSet::of::<Types>(&object, None).encode(),
        json!({"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:x": {}}}})
    );
}

#[test]
fn ssa_4_reset_fields_are_not_taken() {
    let object = json!({"metadata": {}, "spec": {"replicas": 1}, "status": {"phase": "x"}});
    let main = Write { reset: &["status"], ..write("m", T1) };
    let object = stored(None, object, &main);
    assert_eq!(owners(&object), [("m", T1, &json!({"f:spec": {"f:replicas": {}}}))]);
    let status = Write { subresource: Some("status"), reset: &["metadata", "spec"], ..write("m", T2) };
    let mut new = object.clone();
    new["metadata"]["labels"] = json!({"x": "y"});
    new["spec"]["replicas"] = json!(2);
    new["status"]["phase"] = json!("y");
    let object = stored(Some(&object), new, &status);
    assert_eq!(
        owners(&object),
        [("m", T1, &json!({"f:spec": {"f:replicas": {}}})), ("m", T2, &json!({"f:status": {"f:phase": {}}}))]
    );
}

#[test]
fn ssa_5_changed_fields_change_owner() {
    let a = stored(None, json!({"metadata": {}, "data": {"k": "1", "l": "1", "m": "1"}}), &write("a", T1));
    // The request of a client that does not know managedFields.
    let b = stored(
        Some(&a),
        json!({"metadata": {"labels": {"x": "y"}}, "data": {"k": "2", "l": "1", "n": "1"}}),
        &write("b", T2),
    );
    assert_eq!(
        owners(&b),
        [
            ("a", T1, &json!({"f:data": {".": {}, "f:l": {}}})),
            ("b", T2, &json!({"f:data": {"f:k": {}, "f:n": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}})),
        ]
    );
    // A removed field has no owner; a manager without fields is removed; an entry that gains nothing keeps its time.
    let mut new = b.clone();
    new.as_object_mut().unwrap().remove("data");
    let c = stored(Some(&b), new, &write("c", T3));
    assert_eq!(owners(&c), [("b", T2, &json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}))]);
    // Further fields are added to the manager's entry.
    let mut new = c.clone();
    new["metadata"]["labels"]["z"] = json!("1");
    let d = stored(Some(&c), new, &write("b", T3));
    assert_eq!(owners(&d), [("b", T3, &json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}, "f:z": {}}}}))]);
}

#[test]
fn ssa_5_a_write_that_changes_nothing_changes_no_entry() {
    let a = stored(None, json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}}), &write("a", T1));
    let same = stored(Some(&a), json!({"metadata": {}, "data": {"k": "1"}}), &write("b", T2));
    assert_eq!(same["metadata"]["managedFields"], a["metadata"]["managedFields"]);
}

#[test]
fn ssa_5_without_owned_fields_there_is_no_list() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(stored(None, object.clone(), &write("m", T1)), object);
    let held = json!({"metadata": {"name": "a", "finalizers": ["evenkeel.dev/hold"]}});
    let held = stored(None, held, &write("m", T1));
    assert_eq!(
        owners(&held),
        [("m", T1, &json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"evenkeel.dev/hold\"": {}}}}))]
    );
    let free = json!({"metadata": {"name": "a"}});
    assert_eq!(stored(Some(&held), free.clone(), &write("m", T2)), free);
}

#[test]
fn ssa_5_structs_have_no_owner_but_maps_and_items_do() {
    let object = json!({
        "metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]},
        "spec": {
            "strategy": {"rollingUpdate": {"max": 1}},
            "selector": {"matchLabels": {"a": "b"}},
            "args": ["a", "b"],
            "ports": [{"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP"}]
        },
        "status": {}
    });
    assert_eq!(
        create_set(&object),
        json!({
            "f:metadata": {"f:ownerReferences": {".": {}, "k:{\"uid\":\"1\"}": {}}},
            "f:spec": {
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:max": {}}},
                "f:selector": {},
                "f:args": {},
                "f:ports": {
                    ".": {},
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
                    "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}
                }
            }
        })
    );
    // A struct that is added to or removed from the JSON is no change.
    let old = stored(None, json!({"metadata": {}, "spec": {"replicas": 1}}), &write("a", T1));
    let same = stored(Some(&old), json!({"metadata": {}, "spec": {"replicas": 1, "strategy": {}}}), &write("b", T2));
    assert_eq!(owners(&same), owners(&old));
}

#[test]
fn ssa_5_list_items_are_compared_by_key() {
    let ports = |list: Value| json!({"metadata": {}, "spec": {"ports": list}});
    let old = ports(json!([{"port": 1, "protocol": "TCP", "name": "a"}, {"port": 2, "protocol": "TCP"}]));
    let old = stored(None, old, &write("a", T1));
    let new = ports(json!([{"port": 3, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "b"}]));
    let new = stored(Some(&old), new, &write("b", T2));
    let key = |port: u8| format!("k:{{\"port\":{port},\"protocol\":\"TCP\"}}");
    assert_eq!(
        owners(&new),
        [
            ("a", T1, &json!({"f:spec": {"f:ports": {".": {}, key(1): {".": {}, "f:port": {}, "f:protocol": {}}}}})),
            (
                "b",
                T2,
                &json!({"f:spec": {"f:ports": {
                    key(1): {"f:name": {}}, key(3): {".": {}, "f:port": {}, "f:protocol": {}}
                }}})
            ),
        ]
    );
    // A changed order is no changed field.
    let mut turned = new.clone();
    turned["spec"]["ports"].as_array_mut().unwrap().reverse();
    let turned = stored(Some(&new), turned, &write("c", T3));
    assert_eq!(owners(&turned), owners(&new));
}

#[test]
fn ssa_13_items_that_share_a_key_are_owned_together() {
    let ports = |list: Value| json!({"metadata": {}, "spec": {"ports": list}});
    let twice = ports(json!([{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]));
    let key = "k:{\"port\":1,\"protocol\":\"TCP\"}";
    assert_eq!(create_set(&twice), json!({"f:spec": {"f:ports": {".": {}, key: {}}}}));
    let old = stored(None, twice.clone(), &write("a", T1));
    let other = ports(json!([{"port": 1, "name": "a"}, {"port": 1, "name": "c"}]));
    assert_eq!(
        owners(&stored(Some(&old), other, &write("b", T2))),
        [("a", T1, &json!({"f:spec": {"f:ports": {}}})), ("b", T2, &json!({"f:spec": {"f:ports": {key: {}}}}))]
    );
    let once = ports(json!([{"port": 1, "name": "a"}]));
    let once = stored(Some(&old), once, &write("b", T2));
    assert_eq!(
        owners(&once)[1],
        ("b", T2, &json!({"f:spec": {"f:ports": {key: {".": {}, "f:name": {}, "f:port": {}}}}}))
    );
    let again = stored(Some(&once), twice, &write("c", T3));
    assert_eq!(
        owners(&again),
        [("a", T1, &json!({"f:spec": {"f:ports": {}}})), ("c", T3, &json!({"f:spec": {"f:ports": {key: {}}}}))]
    );
}

#[test]
fn ssa_6_the_oldest_updaters_become_ancient_changes() {
    let mut object = json!({"metadata": {}, "data": {"k0": "1"}});
    let times: Vec<String> = (0..14).map(|n| format!("2026-01-01T00:00:{n:02}Z")).collect();
    let mut live: Option<Value> = None;
    for (n, time) in times.iter().enumerate() {
        object["data"][format!("k{n}")] = json!("1");
        let next = stored(live.as_ref(), object.clone(), &write(&format!("m{n:02}"), time));
        live = Some(next);
        let count = owners(live.as_ref().unwrap()).len();
        assert_eq!(count, (n + 1).min(10));
    }
    let live = live.unwrap();
    let owners = owners(&live);
    assert_eq!(
        owners[0],
        (
            "ancient-changes",
            "2026-01-01T00:00:04Z",
            &json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}, "f:k4": {}}})
        )
    );
    assert_eq!(owners[1].0, "m05");
}

#[test]
fn ssa_12_path_elements() {
    let written = json!({
        "f:a": {".": {}, "f:b.c/d": {}},
        "f:list": {"k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}, "i:0": {}},
        "f:set": {"v:\"x\"": {}, "v:1": {}, "v:true": {}, "v:\"\\u003ca\\u003e\"": {}}
    });
    assert_eq!(FieldSet::decode(&written).unwrap().encode(), written);
    // Other spellings of the same paths, and unknown kinds of path elements.
    let loose = json!({"f:list": {"k:{\"port\": 80.0, \"name\": \"x\"}": {}, "v: 1.0": {}, "q:what": {"f:x": {}}}});
    assert_eq!(
        FieldSet::decode(&loose).unwrap().encode(),
        json!({"f:list": {"k:{\"name\":\"x\",\"port\":80}": {}, "v:1": {}}})
    );
    for nonsense in [json!({"x": {}}), json!({"i:x": {}}), json!({"k:[1]": {}}), json!({"v:{": {}}), json!({"f:a": 1})]
    {
        assert!(FieldSet::decode(&nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn ssa_14_without_a_schema_maps_are_granular_and_lists_atomic() {
    let object = json!({
        "metadata": {"finalizers": ["a"]}, "spec": {"list": [{"name": "x"}], "empty": {}, "map": {"a": {"b": 1}}}
    });
    assert_eq!(
        FieldSet::of::<Types>(&object, None).encode(),
        json!({
            "f:metadata": {"f:finalizers": {}},
            "f:spec": {".": {}, "f:list": {}, "f:empty": {}, "f:map": {".": {}, "f:a": {".": {}, "f:b": {}}}}
        })
    );
}

#[test]
fn ssa_15_an_empty_list_resets_ownership() {
    let old = stored(None, json!({"metadata": {}, "data": {"k": "1"}}), &write("a", T1));
    for reset in [json!([]), json!([{}])] {
        let new = json!({"metadata": {"managedFields": reset}, "data": {"k": "2"}});
        let new = stored(Some(&old), new, &write("b", T2));
        assert_eq!(new, json!({"metadata": {}, "data": {"k": "2"}}));
        // A reset is permanent.
        let later = stored(Some(&new), json!({"metadata": {}, "data": {"k": "3"}}), &write("b", T3));
        assert_eq!(owners(&later), []);
    }
}

#[test]
fn ssa_15_clients_may_edit_the_owners_but_not_through_a_subresource() {
    let old = stored(None, json!({"metadata": {}, "data": {"k": "1", "l": "1"}}), &write("a", T1));
    let mut edited = old.clone();
    edited["metadata"]["managedFields"][0]["manager"] = json!("other");
    assert_eq!(owners(&stored(Some(&old), edited.clone(), &write("b", T2)))[0].0, "other");
    let status = Write { subresource: Some("status"), ..write("b", T2) };
    assert_eq!(owners(&stored(Some(&old), edited, &status))[0].0, "a");
    // A malformed list counts as none.
    let mut nonsense = old.clone();
    nonsense["metadata"]["managedFields"][0]["operation"] = json!("Guess");
    nonsense["data"]["l"] = json!("2");
    assert_eq!(
        owners(&stored(Some(&old), nonsense, &write("b", T2))),
        [("a", T1, &json!({"f:data": {".": {}, "f:k": {}}})), ("b", T2, &json!({"f:data": {"f:l": {}}}))]
    );
}

#[test]
fn values_that_change_their_shape() {
    let with = |value: Value| json!({"metadata": {}, "x": value});
    let owner = |old: Value, new: Value| {
        let old = stored(None, with(old), &write("a", T1));
        let new = stored(Some(&old), with(new), &write("b", T2));
        let owners = owners(&new);
        owners.iter().map(|(manager, _, set)| json!([manager, set])).collect::<Vec<_>>()
    };
    assert_eq!(owner(json!({"a": 1}), json!("s")), [json!(["b", {"f:x": {}}])]);
    assert_eq!(owner(json!("s"), json!({"a": 1})), [json!(["b", {"f:x": {".": {}, "f:a": {}}}])]);
    assert_eq!(owner(json!([1]), json!({"a": 1})), [json!(["b", {"f:x": {".": {}, "f:a": {}}}])]);
    assert_eq!(owner(json!(null), json!(1)), [json!(["b", {"f:x": {}}])]);
    assert_eq!(owner(json!({"a": 1}), json!(null)), [json!(["a", {"f:x": {}}])]);
    assert_eq!(owner(json!(null), json!({"a": 1})), [json!(["a", {"f:x": {}}]), json!(["b", {"f:x": {"f:a": {}}}])]);
}

#[test]
fn obj_13_times_of_managers_do_not_count() {
    let a = stored(None, json!({"metadata": {"name": "a"}, "data": {"k": "1"}}), &write("m", T1));
    let with = |pointer: &str, value: Value| {
        let mut b = a.clone();
        *b.pointer_mut(pointer).unwrap() = value;
        b
    };
    assert!(equal_ignoring_managed_times(&a, &a));
    assert!(equal_ignoring_managed_times(&a, &with("/metadata/managedFields/0/time", json!(T2))));
    for other in [
        with("/metadata/managedFields/0/manager", json!("n")),
        with("/metadata/managedFields", json!([])),
        with("/metadata/name", json!("b")),
        with("/data/k", json!("2")),
        json!({"metadata": a["metadata"]}),
        json!(1),
    ] {
        assert!(!equal_ignoring_managed_times(&a, &other), "{other}");
        assert!(!equal_ignoring_managed_times(&other, &a), "{other}");
    }
}

#[test]
fn objects_without_metadata_are_unchanged() {
    for object in [json!({"data": {"k": "v"}}), json!({"metadata": 1}), json!([]), json!(null)] {
        assert_eq!(stored(None, object.clone(), &write("m", T1)), object);
    }
}
