//! Server-side apply, step by step.

use std::sync::LazyLock;

use evenkeel_core::Status;
use serde_json::{Value, json};

use super::super::{Write, apply};
use super::types::{Types, WORKLOAD};
use super::{T1, T2, T3, owners, track, write};

static NESTED: LazyLock<Types> = LazyLock::new(|| {
    Types::new(&json!({"properties": {
        "metadata": {"default": {}, "properties": {"labels": {"additionalProperties": {}}}},
        "set": {"items": {}, "x-kubernetes-list-type": "set"},
        "map": {"additionalProperties": {"additionalProperties": {}}},
        "struct": {"properties": {"name": {}, "value": {}}},
        "lists": {
            "items": {"properties": {"name": {}, "value": {"items": {}, "x-kubernetes-list-type": "set"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]
        }
    }}))
});

/// An object with successive writes of several managers.
struct WriteSequence {
    live: Option<Value>,
    types: &'static Types,
    clock: u8,
}

impl WriteSequence {
    fn new() -> Self {
        WriteSequence { live: None, types: &NESTED, clock: 0 }
    }

    fn now(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    /// Applies, then drops null fields like a decoder.
    fn try_apply(&mut self, manager: &str, intent: Value, force: bool) -> Result<(), Status> {
        let now = self.now();
        let intent = named(intent);
        let mut object = apply(self.live.as_ref(), &intent, Some(self.types), &write(manager, &now), force)?;
        drop_nulls(&mut object);
        self.live = Some(object);
        Ok(())
    }

    #[track_caller]
    fn apply(mut self, manager: &str, intent: Value) -> Self {
        self.try_apply(manager, intent, false).unwrap();
        self
    }

    #[track_caller]
    fn force(mut self, manager: &str, intent: Value) -> Self {
        self.try_apply(manager, intent, true).unwrap();
        self
    }

    /// Returns the message of the conflict.
    #[track_caller]
    fn refuses(&mut self, manager: &str, intent: Value) -> String {
        let before = self.live.clone();
        let status = self.try_apply(manager, intent, false).unwrap_err();
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(self.live, before);
        status.message
    }

    fn update(mut self, manager: &str, object: Value) -> Self {
        let now = self.now();
        let mut object = named(object);
        track(self.live.as_ref(), &mut object, Some(self.types), &write(manager, &now));
        self.live = Some(object);
        self
    }

    #[track_caller]
    fn is(self, object: Value) -> Self {
        let mut live = self.live.clone().unwrap();
        live.as_object_mut().unwrap().remove("metadata");
        assert_eq!(live, object);
        self
    }

    /// Returns the owners in the order of the list.
    #[track_caller]
    fn belongs_to(self, expected: &[(&str, Value)]) -> Self {
        let live = self.live.clone().unwrap();
        let found: Vec<(&str, Value)> =
            owners(&live).into_iter().map(|(manager, _, fields)| (manager, fields.clone())).collect();
        assert_eq!(found, expected);
        self
    }
}

fn named(mut object: Value) -> Value {
    object["metadata"] = json!({"name": "x"});
    object
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
    if let Value::Array(items) = value {
        items.iter_mut().for_each(drop_nulls);
    }
}

fn item(name: &str) -> String {
    format!("k:{{\"name\":{name:?}}}")
}

#[test]
fn ssa_2_ssa_3_the_entry_of_an_applier() {
    let write = Write { api_version: "apps/v1", subresource: Some("status"), ..write("one", T1) };
    let intent = json!({"metadata": {"name": "x"}, "data": {"a": "1"}});
    let object = apply(None, &intent, Some(&*WORKLOAD), &write, false).unwrap();
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "one", "operation": "Apply", "apiVersion": "apps/v1", "time": T1, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}}, "subresource": "status"
        }])
    );
    // Another version is the same entry, another sub-resource is not, nor is an update.
    let other = Write { api_version: "apps/v2", now: T2, ..write };
    let object = apply(Some(&object), &intent, Some(&*WORKLOAD), &other, false).unwrap();
    assert_eq!(object["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    assert_eq!(object["metadata"]["managedFields"][0]["apiVersion"], "apps/v2");
    let main = Write { subresource: None, ..other };
    let mut object = apply(Some(&object), &intent, Some(&*WORKLOAD), &main, false).unwrap();
    assert_eq!(object["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    let old = object.clone();
    object["data"]["b"] = json!("1");
    track(Some(&old), &mut object, Some(&*WORKLOAD), &Write { now: T3, ..main });
    let operations: Vec<&Value> =
        object["metadata"]["managedFields"].as_array().unwrap().iter().map(|entry| &entry["operation"]).collect();
    assert_eq!(operations, ["Apply", "Apply", "Update"]);
}

#[test]
fn ssa_4_an_intent_does_not_own_fields_without_owner() {
    let intent = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "1"}
    });
    let object = apply(None, &intent, Some(&*NESTED), &write("one", T1), false).unwrap();
    assert_eq!(object, intent);
}

#[test]
fn ssa_7_fields_before_the_first_apply_have_an_owner() {
    let mut live = named(json!({"struct": {"name": "a"}, "map": {"m": {"x": 1}}}));
    live["status"] = json!({"phase": "x"});
    live["metadata"]["managedFields"] = json!([]);
    let write = Write { reset: &["status"], ..write("one", T2) };
    let intent = named(json!({"struct": {"name": "a", "value": 1}}));
    let object = apply(Some(&live), &intent, Some(&*NESTED), &write, false).unwrap();
    assert_eq!(
        owners(&object),
        [
            ("one", T2, &json!({"f:struct": {"f:name": {}, "f:value": {}}})),
            (
                "before-first-apply",
                T2,
                &json!({"f:map": {".": {}, "f:m": {".": {}, "f:x": {}}}, "f:struct": {".": {}, "f:name": {}}})
            ),
        ]
    );
    assert_eq!(object["metadata"]["managedFields"][1]["operation"], "Update");
    let intent = named(json!({"struct": {"name": "b"}}));
    let status = apply(Some(&live), &intent, Some(&*NESTED), &write, false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .struct.name"
    );
    // A new object has no prior owners.
    assert_eq!(owners(&apply(None, &intent, Some(&*NESTED), &write, false).unwrap()).len(), 1);
}

#[test]
fn ssa_8_omitted_fields_are_removed() {
    WriteSequence::new()
        .apply(
            "one",
            json!({"set": ["a", "b"], "map": {"m": {"x": 1}, "n": {}}, "lists": [{"name": "a"}, {"name": "b"}]}),
        )
        .apply("one", json!({"set": ["b"], "map": {"n": {}}, "lists": [{"name": "b", "value": ["x"]}]}))
        .is(json!({"set": ["b"], "map": {"n": {}}, "lists": [{"name": "b", "value": ["x"]}]}))
        .apply("one", json!({"lists": [{"name": "b"}]}))
        .is(json!({"lists": [{"name": "b"}]}))
        .apply("one", json!({}))
        .is(json!({}))
        .belongs_to(&[]);
}

#[test]
fn ssa_8_fields_of_other_appliers_stay() {
    WriteSequence::new()
        .apply("one", json!({"set": ["a", "b", "c"]}))
        .apply("two", json!({"set": ["c", "d"]}))
        .apply("one", json!({"set": ["a"]}))
        .is(json!({"set": ["a", "c", "d"]}))
        .belongs_to(&[
            ("two", json!({"f:set": {"v:\"c\"": {}, "v:\"d\"": {}}})),
            ("one", json!({"f:set": {"v:\"a\"": {}}})),
        ]);
}

#[test]
fn ssa_8_updater_fields_stay_in_items_that_stay() {
    WriteSequence::new()
        .apply("one", json!({"lists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}))
        .apply("two", json!({"lists": [{"name": "b", "value": ["d"]}]}))
        .update("controller", json!({"lists": [{"name": "a"}, {"name": "b", "value": ["c", "d", "e"]}]}))
        .apply("one", json!({"lists": [{"name": "a"}]}))
        .is(json!({"lists": [{"name": "a"}, {"name": "b", "value": ["d", "e"]}]}))
        .belongs_to(&[
            ("two", json!({"f:lists": {item("b"): {".": {}, "f:name": {}, "f:value": {"v:\"d\"": {}}}}})),
            ("one", json!({"f:lists": {item("a"): {".": {}, "f:name": {}}}})),
            ("controller", json!({"f:lists": {item("b"): {"f:value": {"v:\"e\"": {}}}}})),
        ]);
}

#[test]
fn ssa_8_updater_fields_are_removed_with_their_item() {
    WriteSequence::new()
        .apply("one", json!({"lists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}))
        .apply("two", json!({"lists": [{"name": "a", "value": ["b"]}]}))
        .update("controller", json!({"lists": [{"name": "a", "value": ["b"]}, {"name": "b", "value": ["c", "d"]}]}))
        .apply("one", json!({"lists": [{"name": "a"}]}))
        .is(json!({"lists": [{"name": "a", "value": ["b"]}]}))
        .belongs_to(&[
            ("two", json!({"f:lists": {item("a"): {".": {}, "f:name": {}, "f:value": {"v:\"b\"": {}}}}})),
            ("one", json!({"f:lists": {item("a"): {".": {}, "f:name": {}}}})),
        ]);
}

#[test]
fn ssa_8_structs_lose_only_applied_fields() {
    let started = || WriteSequence::new().apply("one", json!({"struct": {"name": "a"}}));
    started().apply("one", json!({"struct": null})).is(json!({})).belongs_to(&[("one", json!({"f:struct": {}}))]);
    for rest in [json!({}), json!({"struct": {}}), json!({"struct": null})] {
        started()
            .update("controller", json!({"struct": {"name": "a", "value": 1}}))
            .apply("one", rest.clone())
            .is(json!({"struct": {"value": 1}}));
        // The applier does not remove what the controller took over.
        started()
            .update("controller", json!({"struct": {"name": "b", "value": 1}}))
            .apply("one", rest)
            .is(json!({"struct": {"name": "b", "value": 1}}));
    }
}

#[test]
fn ssa_8_the_order_is_that_of_the_last_applier() {
    WriteSequence::new()
        .apply("one", json!({"set": ["a", "b", "c"]}))
        .apply("one", json!({"set": ["c", "a", "b"]}))
        .is(json!({"set": ["c", "a", "b"]}))
        .update("controller", json!({"set": ["a", "b", "c", "d"]}))
        .apply("one", json!({"set": ["c", "b", "a"]}))
        .is(json!({"set": ["c", "d", "b", "a"]}));
}

#[test]
fn ssa_9_conflicts_are_rejected_and_listed() {
    let mut sequence =
        WriteSequence::new().apply("one", json!({"struct": {"name": "a", "value": 1}, "map": {"m": {"x": 1}}}));
    assert_eq!(
        sequence.refuses("two", json!({"struct": {"name": "b"}})),
        "Apply failed with 1 conflict: conflict with \"one\": .struct.name"
    );
    let status = sequence.try_apply("two", json!({"struct": {"name": "b", "value": 2}}), false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .struct.name\n- .struct.value"
    );
    assert_eq!(
        serde_json::to_value(status.details).unwrap(),
        json!({"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".struct.name"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".struct.value"},
        ]})
    );
    let mut sequence = sequence.update("ctl", json!({"struct": {"name": "c", "value": 1}, "map": {"m": {"x": 1}}}));
    assert_eq!(
        sequence.refuses("two", json!({"struct": {"name": "b", "value": 2}})),
        "Apply failed with 2 conflicts: conflicts with \"ctl\" using v1:\n- .struct.name\nconflicts with \"one\":\n\
         - .struct.value"
    );
    // The conflict names the sub-resource.
    let live = sequence.live.clone().unwrap();
    let mut scaled = live.clone();
    scaled["struct"]["value"] = json!(5);
    let scale = Write { subresource: Some("scale"), ..write("hpa", T1) };
    track(Some(&live), &mut scaled, Some(&*NESTED), &scale);
    sequence.live = Some(scaled);
    assert_eq!(
        sequence.refuses("one", json!({"struct": {"value": 1}, "map": {"m": {"x": 1}}})),
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using v1: .struct.value"
    );
}

#[test]
fn ssa_10_force_takes_ownership_and_equal_values_are_shared() {
    WriteSequence::new()
        .apply("one", json!({"struct": {"name": "a", "value": 1}}))
        .apply("two", json!({"struct": {"name": "a"}}))
        .belongs_to(&[
            ("one", json!({"f:struct": {"f:name": {}, "f:value": {}}})),
            ("two", json!({"f:struct": {"f:name": {}}})),
        ])
        .force("two", json!({"struct": {"name": "b"}}))
        .is(json!({"struct": {"name": "b", "value": 1}}))
        .belongs_to(&[("one", json!({"f:struct": {"f:value": {}}})), ("two", json!({"f:struct": {"f:name": {}}}))])
        // Applying the current value shares an updater's field.
        .update("ctl", json!({"struct": {"name": "c", "value": 1}}))
        .apply("two", json!({"struct": {"name": "c"}}))
        .belongs_to(&[
            ("one", json!({"f:struct": {"f:value": {}}})),
            ("two", json!({"f:struct": {"f:name": {}}})),
            ("ctl", json!({"f:struct": {"f:name": {}}})),
        ]);
}

#[test]
fn ssa_11_applying_the_same_again_changes_nothing() {
    let intent = json!({"set": ["a", "b"], "map": {"m": {"x": 1}}, "struct": {"name": "a"}});
    let first = WriteSequence::new().apply("one", intent.clone());
    let before = first.live.clone().unwrap();
    let after = first.apply("one", intent).live.unwrap();
    // Not even the time of the entry.
    assert_eq!(after, before);
}

#[test]
fn ssa_11_an_entry_time_moves_with_the_object_only() {
    let sequence = WriteSequence::new().apply("one", json!({"struct": {"name": "a"}}));
    let sequence = sequence.apply("two", json!({"struct": {"name": "a"}, "set": ["a"]}));
    let sequence = sequence.apply("one", json!({"struct": {"name": "a"}}));
    let live = sequence.live.unwrap();
    let times: Vec<(&str, &str)> = owners(&live).into_iter().map(|(manager, time, _)| (manager, time)).collect();
    assert_eq!(times, [("one", "2026-01-01T00:00:01Z"), ("two", "2026-01-01T00:00:02Z")]);
}

#[test]
fn ssa_14_without_a_schema_lists_are_atomic() {
    let schemaless = |live: Option<&Value>, intent: Value, manager: &str| {
        apply::<Types>(live, &named(intent), None, &write(manager, T1), false)
    };
    let live = schemaless(None, json!({"spec": {"a": {"x": 1}, "list": [{"name": "a"}]}}), "one").unwrap();
    let live = schemaless(Some(&live), json!({"spec": {"a": {"y": 2}}}), "two").unwrap();
    assert_eq!(live["spec"], json!({"a": {"x": 1, "y": 2}, "list": [{"name": "a"}]}));
    let status = schemaless(Some(&live), json!({"spec": {"list": [{"name": "b"}]}}), "two").unwrap_err();
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.list");
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn ssa_16_kubectl_takes_over_what_it_applied_on_the_client() {
    let workload = Some(&*WORKLOAD);
    let mut live = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}, "spec": {"replicas": 1}
    });
    let last = live.to_string();
    live["metadata"]["annotations"] = json!({LAST_APPLIED: last});
    track(None, &mut live, workload, &write("kubectl-client-side-apply", T1));
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    track(Some(&live), &mut scaled, workload, &write("hpa", T2));
    let intent = |data: Value, replicas: Value| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": data, "spec": {"replicas": replicas}});
    let try_apply = |manager: &str, intent: &Value| apply(Some(&scaled), intent, workload, &write(manager, T3), false);
    // kubectl may change what it applied last time, but not what others changed since.
    let wanted = intent(json!({"a": "2", "b": "1"}), json!(5));
    let applied = try_apply("kubectl", &wanted).unwrap();
    assert_eq!(applied["data"], json!({"a": "2", "b": "1"}));
    assert_eq!(applied["metadata"]["annotations"][LAST_APPLIED], format!("{wanted}\n"));
    let status = try_apply("kubectl", &intent(json!({"a": "2"}), json!(2))).unwrap_err();
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"hpa\" using v1: .spec.replicas");
    // Other managers get no such exemption.
    let status = try_apply("other", &wanted).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.a"
    );
}

#[test]
fn ssa_16_an_unreadable_annotation_drops_no_conflict() {
    for annotation in ["", "no json", "{\"apiVersion\":\"v9\",\"data\":{\"a\":\"1\"}}"] {
        let mut live =
            json!({"metadata": {"name": "x", "annotations": {LAST_APPLIED: annotation}}, "data": {"a": "1"}});
        track(None, &mut live, Some(&*WORKLOAD), &write("ctl", T1));
        let intent = json!({"metadata": {"name": "x"}, "data": {"a": "2"}});
        let status = apply(Some(&live), &intent, Some(&*WORKLOAD), &write("kubectl", T2), false).unwrap_err();
        assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"ctl\" using v1: .data.a");
    }
}

#[test]
fn ssa_6_an_apply_also_caps_updaters() {
    let mut sequence = WriteSequence::new();
    for manager in 0..10 {
        let mut object = sequence.live.clone().unwrap_or(json!({"map": {"m": {}}}));
        object["map"]["m"][manager.to_string()] = json!(1);
        object["metadata"] = json!({"name": "x"});
        sequence = sequence.update(&format!("m{manager}"), object);
    }
    let sequence = sequence.apply("one", json!({"struct": {"name": "a"}}));
    assert_eq!(owners(&sequence.live.unwrap()).len(), 11);
}
