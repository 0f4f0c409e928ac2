use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_core::DynamicObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::codec::Codec;
use crate::obj::Obj;
use crate::protobuf::{to_vec, wrap_envelope};
use crate::resource::ResourceInfo;

fn info(kind: &str) -> Arc<ResourceInfo> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    Arc::new(ResourceInfo::new(group, "v1", kind, "things", true))
}

/// The same object in both forms.
fn both<K>(kind: &str, value: &Value) -> (Obj<K>, Obj<K>) {
    let info = info(kind);
    let message = Message::of_kind(info.api_version(), kind).unwrap();
    let bytes = wrap_envelope(info.api_version(), kind, &to_vec(message, value).unwrap());
    let mut value = value.clone();
    value["kind"] = kind.into();
    value["apiVersion"] = info.api_version().into();
    (
        Obj::decode(Codec::Protobuf, &info, bytes.into()).unwrap(),
        Obj::decode(Codec::Json, &info, serde_json::to_vec(&value).unwrap().into()).unwrap(),
    )
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {"app": "web", "tier": "1"}, "annotations": {"a/b": "x", "c": "\"quoted\""},
            "finalizers": ["x/y", "z"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": true}],
            "managedFields": [
                {"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": {}}},
                {"manager": "n", "time": "2026-01-02T03:04:05Z"},
            ],
        },
        "spec": {
            "nodeName": "n1",
            "priority": 0,
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "cm", "items": [{"key": "k", "path": "p"}]}}],
            "containers": [
                {
                    "name": "c", "image": "web:1", "args": ["-a", "-b"],
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 3},
                },
                {"name": "d", "readinessProbe": {"tcpSocket": {"port": 80}}},
            ],
            "tolerations": [{"key": "k", "tolerationSeconds": 0}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-02T03:04:05Z", "hostIPs": [{"ip": "1.2.3.4"}]},
    })
}

fn paths_of(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric());
                let step = match (plain, path.is_empty()) {
                    (true, true) => name.clone(),
                    (true, false) => format!(".{name}"),
                    (false, _) => format!("[{name}]"),
                };
                paths_of(value, format!("{path}{step}"), out);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                paths_of(value, format!("{path}[{index}]"), out);
            }
        }
        _ => {}
    }
    out.push(path);
}

fn value_at<K>(obj: &Obj<K>, path: &str) -> Option<Value> {
    obj.path(path).unwrap().map(|value| serde_json::from_str(value.json()).unwrap())
}

#[test]
fn every_path_finds_the_value_of_the_json() {
    let (protobuf, json) = both::<Pod>("Pod", &pod());
    let mut paths = Vec::new();
    paths_of(&pod(), String::new(), &mut paths);
    assert!(paths.len() > 80);
    for path in &paths {
        assert_eq!(value_at(&protobuf, path).is_some(), value_at(&json, path).is_some(), "{path}");
        if path != "spec.containers[0].livenessProbe.httpGet" && !path.is_empty() {
            let (mut left, right) = (value_at(&protobuf, path), value_at(&json, path));
            prune(&mut left, &right);
            assert_eq!(left, right, "{path}");
        }
    }
}

/// Removes values that Go always shows and the test omits.
fn prune(left: &mut Option<Value>, right: &Option<Value>) {
    if let (Some(left), Some(right)) = (left, right) {
        prune_value(left, right);
    }
}

fn prune_value(left: &mut Value, right: &Value) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.retain(|name, _| right.contains_key(name));
            for (name, value) in left {
                prune_value(value, &right[name]);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for (left, right) in left.iter_mut().zip(right) {
                prune_value(left, right);
            }
        }
        _ => {}
    }
}

#[test]
fn absent_values_are_none_and_malformed_paths_are_errors() {
    let (protobuf, json) = both::<Pod>("Pod", &pod());
    for path in [
        "nothing",
        "spec.nothing",
        "spec.nodeName.x",
        "spec.nodeName[0]",
        "spec.containers.name",
        "spec.containers[2]",
        "spec.containers[x]",
        "spec.containers[0].args[2]",
        "metadata.labels.none",
        "metadata.labels.app.x",
        "metadata.selfLink",
        "spec.volumes[0].configMap",
        "metadata.managedFields[0].fieldsV1.nothing",
        "spec.hostname",
    ] {
        assert_eq!((protobuf.path(path).unwrap(), json.path(path).unwrap()), (None, None), "{path}");
    }
    for path in ["spec..x", "spec.containers[0", "metadata.annotations['a/b"] {
        for object in [&protobuf, &json] {
            let error = object.path(path).unwrap_err();
            assert!(matches!(&error, DecodeError::Path(_)) && error.to_string().contains("expected"), "{error}");
        }
    }
    for path in ["metadata.annotations['a/b']", ".metadata.annotations[\"a/b\"]", "metadata.annotations[a/b]"] {
        for object in [&protobuf, &json] {
            assert_eq!(object.path(path).unwrap().unwrap().text(), "x", "{path}");
        }
    }
    assert_eq!(value_at(&protobuf, "kind"), Some("Pod".into()));
    assert_eq!(value_at(&protobuf, "[kind]"), Some("Pod".into()));
    assert_eq!(value_at(&protobuf, "kind.x"), None);
    assert_eq!(value_at(&protobuf, "").unwrap()["kind"], json!("Pod"), "the whole");
    assert_eq!(value_at(&protobuf, "apiVersion"), Some("v1".into()));
}

#[test]
fn pb_023_well_known_messages_decode_like_json() {
    let (pod, _) = both::<Pod>("Pod", &pod());
    for (path, expected) in [
        ("spec.containers[0].resources.limits.cpu", json!("100m")),
        ("spec.containers[0].resources.limits[memory]", json!("1Gi")),
        ("spec.containers[0].livenessProbe.httpGet.port", json!("http")),
        ("spec.containers[1].readinessProbe.tcpSocket.port", json!(80)),
        ("spec.priority", json!(0)),
        ("status.startTime", json!("2026-01-02T03:04:05Z")),
        ("spec.volumes[0].emptyDir", json!({})),
        ("spec.volumes[1].configMap.name", json!("cm")),
        ("metadata.managedFields[0].fieldsV1[f:metadata]", json!({"f:labels": {}})),
        ("spec.containers[0].args", json!(["-a", "-b"])),
        ("spec.containers[0].args[1]", json!("-b")),
    ] {
        assert_eq!(value_at(&pod, path), Some(expected), "{path}");
    }
}

#[test]
fn pb_030_the_last_of_several_values_wins() {
    let entry = |key: &[u8], value: &[u8]| {
        let entry = [&[0x0a, key.len() as u8], key, &[0x12, value.len() as u8], value].concat();
        [&[0x12, entry.len() as u8][..], &entry].concat()
    };
    // The data of a config map, and metadata given twice, at the end.
    let raw =
        [entry(b"k", b"1"), entry(b"l", b""), entry(b"k", b"2"), vec![0x0a, 3, 0x0a, 1, b'a', 0x0a, 3, 0x0a, 1, b'b']]
            .concat();
    let obj =
        Obj::<ConfigMap>::decode(Codec::Protobuf, &info("ConfigMap"), wrap_envelope("v1", "ConfigMap", &raw).into())
            .unwrap();
    assert_eq!(obj.key().as_str(), "b");
    assert_eq!(value_at(&obj, "metadata.name"), Some("b".into()));
    assert_eq!(obj.typed().unwrap().metadata.name.as_deref(), Some("b"));
    assert_eq!(obj.typed().unwrap().data.as_ref().unwrap()["k"], "2");
    assert_eq!(value_at(&obj, "data.k"), Some("2".into()));
    assert_eq!(value_at(&obj, "data.l"), Some("".into()));
}

#[test]
fn annotations_are_looked_up() {
    let (protobuf, json) = both::<Pod>("Pod", &pod());
    for key in ["a/b", "c", "d"] {
        assert_eq!(protobuf.annotation(key).unwrap(), json.annotation(key).unwrap(), "{key}");
    }
}

#[test]
fn an_object_converts_to_json() {
    let (protobuf, _) = both::<Pod>("Pod", &pod());
    let mut read: Value = serde_json::from_slice(&protobuf.json().unwrap()).unwrap();
    assert_eq!((&read["kind"], &read["apiVersion"]), (&json!("Pod"), &json!("v1")));
    prune_value(&mut read, &pod());
    assert_eq!(read, pod());
    // An item of a list is filled in.
    let message = Message::of_kind("v1", "Pod").unwrap();
    let raw = protobuf.raw().unwrap();
    let item = Obj::<Pod>::new(
        &info("Pod"),
        ParsedObject {
            header: Header::of_protobuf(message, &raw, None, None).unwrap(),
            payload: Payload::protobuf(raw, message),
        },
    );
    assert_eq!(item.header().kind(), None);
    assert_eq!(item.json().unwrap(), protobuf.json().unwrap());
}

#[test]
fn pb_069_types_receive_the_kind_as_from_json() {
    let (map, map_json) = both::<ConfigMap>("ConfigMap", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    assert_eq!(map.typed().unwrap(), map_json.typed().unwrap());
    let dynamic = map.clone().cast::<DynamicObject>().typed().unwrap();
    assert_eq!(dynamic.types.as_ref().unwrap().kind, "ConfigMap");
    assert_eq!(dynamic.types.as_ref().unwrap().api_version, "v1");
    assert_eq!((dynamic.metadata.name.as_deref(), &dynamic.data["data"]["k"]), (Some("a"), &json!("v")));
    let value = map.clone().cast::<Value>().typed().unwrap();
    assert_eq!(*value, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}}));
    let raw = map.clone().cast::<Box<serde_json::value::RawValue>>().typed().unwrap();
    assert_eq!(raw.get().as_bytes(), &*map.json().unwrap());

    #[derive(serde::Deserialize, Debug, PartialEq)]
    #[serde(tag = "kind")]
    enum Any {
        ConfigMap { data: std::collections::BTreeMap<String, String> },
    }
    let Any::ConfigMap { data } = &*map.clone().cast::<Any>().typed().unwrap();
    assert_eq!(data["k"], "v");

    let other = map.cast::<Secret>().typed().unwrap_err();
    let other_json = map_json.cast::<Secret>().typed().unwrap_err();
    assert!(other.to_string().starts_with("ConfigMap a does not fit its type at "), "{other}");
    assert!(other_json.to_string().starts_with("ConfigMap a does not fit its type at "), "{other_json}");
}

#[test]
fn a_type_mismatch_is_reported_with_kind_key_and_path() {
    #[derive(serde::Deserialize, Debug)]
    #[expect(dead_code, reason = "nothing gets so far")]
    struct Odd {
        spec: OddSpec,
    }
    #[derive(serde::Deserialize, Debug)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "nothing gets so far")]
    struct OddSpec {
        node_name: u32,
    }
    let (protobuf, json) = both::<Odd>("Pod", &pod());
    for obj in [protobuf, json] {
        let error = obj.typed().unwrap_err();
        assert_eq!(error.path(), "spec.nodeName", "{error}");
        assert!(
            error.to_string().starts_with("Pod ns/a does not fit its type at spec.nodeName: invalid type"),
            "{error}"
        );
        assert!(!error.to_string().contains("n1"), "{error}");
    }
}

#[test]
fn malformed_messages_are_reported_on_access() {
    let message = Message::of_kind("v1", "Pod").unwrap();
    // A valid name, and a spec whose fifth field is truncated.
    let raw = [&[0x0a, 3, 0x0a, 1, b'a'][..], &[0x12, 2, 0x52, 9]].concat();
    let obj = Obj::<Pod>::decode(Codec::Protobuf, &info("Pod"), wrap_envelope("v1", "Pod", &raw).into()).unwrap();
    assert_eq!(message.name(), "Pod");
    for error in [
        obj.typed().map(drop).unwrap_err(),
        obj.json().map(drop).unwrap_err(),
        obj.path("spec.nodeName").map(drop).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("cannot decode Pod a: malformed protobuf"), "{error}");
    }
    assert!(obj.path("metadata.name").unwrap().is_some(), "other fields stay readable");
    assert!(obj.annotation("x").unwrap().is_none());
}

fn cut_both(paths: &[&str], cut: PruneMode) -> (Obj<Pod>, Obj<Pod>) {
    let paths = JsonPaths::new(paths).unwrap();
    let (protobuf, json) = both::<Pod>("Pod", &pod());
    let cut = |obj: Obj<Pod>| match cut {
        PruneMode::Remove => obj.without(&paths).unwrap(),
        PruneMode::Keep => obj.only(&paths).unwrap(),
    };
    (cut(protobuf), cut(json))
}

fn json_of(obj: &Obj<Pod>) -> Value {
    serde_json::from_slice(&obj.json().unwrap()).unwrap()
}

/// Protobuf drops lists and maps that became empty.
fn without_empty_lists(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| *value != json!([]) && (name != "labels" || *value != json!({})));
            members.values_mut().for_each(without_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_lists),
        _ => {}
    }
}

#[test]
fn pruning_protobuf_equals_pruning_json() {
    for (paths, is_protobuf) in [
        (&["metadata.managedFields"][..], true),
        (&["metadata.managedFields", "status", "spec.volumes"], true),
        (&["metadata.managedFields[*].fieldsV1"], true),
        (&["metadata.managedFields[0]", "metadata.managedFields[1].time"], true),
        (&["metadata.labels.app", "metadata.annotations[a/b]"], true),
        (&["metadata.labels[*]", "metadata.finalizers[0]"], true),
        (&["spec.containers[*].resources.limits.cpu", "spec.containers[1].name"], true),
        (&["spec.containers[0].livenessProbe.httpGet", "spec.volumes[1].configMap.name"], true),
        (&["spec.nodeName.nothing", "spec.containers[0].args[0]"], true),
        (&["metadata.managedFields[0].fieldsV1[f:spec]"], false),
        (&["[*].managedFields"], true),
        (&["kind", "spec"], true),
    ] {
        let (protobuf, json) = cut_both(paths, PruneMode::Remove);
        let (mut left, mut right) = (json_of(&protobuf), json_of(&json));
        without_empty_lists(&mut right);
        prune_value(&mut left, &right);
        assert_eq!(left, right, "{paths:?}");
        let is = if is_protobuf { Codec::Protobuf.media_type() } else { Codec::Json.media_type() };
        assert_eq!(protobuf.media_type(), is, "{paths:?}");
        same_header(protobuf.header(), json.header());
    }
    for paths in [
        &["metadata.name"][..],
        &["metadata.name", "metadata.labels.app", "spec.containers[*].image", "kind"],
        &["metadata.name", "spec.containers[1]", "metadata.annotations", "apiVersion"],
        &["metadata.name", "spec.nodeName.nothing", "spec.containers[0].resources.limits[cpu]"],
        &["metadata.name", "metadata.managedFields[0].fieldsV1[f:spec]"],
        &["metadata.name", "metadata.uid", "spec.volumes[0].emptyDir"],
    ] {
        let (protobuf, json) = cut_both(paths, PruneMode::Keep);
        let (mut left, mut right) = (json_of(&protobuf), json_of(&json));
        without_empty_lists(&mut left);
        without_empty_lists(&mut right);
        prune_value(&mut left, &right);
        assert_eq!(left, right, "{paths:?}");
        same_header(protobuf.header(), json.header());
    }
}

#[test]
fn values_cut_from_protobuf_use_minimal_memory() {
    let (protobuf, _) = cut_both(&["metadata.managedFields"], PruneMode::Remove);
    let mut value = pod();
    value["metadata"].as_object_mut().unwrap().remove("managedFields");
    let expected = to_vec(Message::of_kind("v1", "Pod").unwrap(), &value).unwrap();
    let raw = protobuf.raw().unwrap();
    assert_eq!(raw, expected, "as if it had never been there");
    drop(protobuf);
    assert_eq!(raw.try_into_mut().map_or(expected.len(), |bytes| bytes.capacity()), expected.len());
}

#[test]
fn pruning_nothing_returns_the_object_itself() {
    let (obj, _) = both::<Pod>("Pod", &json!({"metadata": {"name": "a"}}));
    let same = obj.without(&JsonPaths::new(["metadata.managedFields", "status.phase"]).unwrap()).unwrap();
    assert!(std::ptr::eq(obj.header(), same.header()));
    let error = obj.without(&JsonPaths::new(["metadata.name"]).unwrap()).unwrap_err();
    assert!(matches!(error, DecodeError::NoName { .. }), "{error}");
    let error = obj.without(&JsonPaths::new(["metadata"]).unwrap()).unwrap_err();
    assert!(matches!(error, DecodeError::NoMetadata { .. }), "{error}");
}

fn same_header(left: &Header, right: &Header) {
    assert_eq!((left.kind(), left.api_version(), left.key()), (right.kind(), right.api_version(), right.key()));
    assert_eq!((left.uid(), left.resource_version()), (right.uid(), right.resource_version()));
    assert_eq!(left.generation(), right.generation());
    assert_eq!(left.creation_timestamp(), right.creation_timestamp());
    assert_eq!(left.deletion_timestamp(), right.deletion_timestamp());
    assert!(left.labels().eq(right.labels()) && left.finalizers().eq(right.finalizers()));
    assert!(left.owner_references().eq(right.owner_references()));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,12}", "\\PC{0,6}"]
}

fn metadata() -> impl Strategy<Value = Value> {
    let texts = (text(), text(), text(), text());
    let map = || prop::collection::btree_map(text(), text(), 0..5);
    let time = || {
        let second = 0..253_402_300_799_i64;
        prop::option::of(second.prop_map(|second| jiff::Timestamp::from_second(second).unwrap().to_string()))
    };
    let owner = (text(), text(), prop::option::of(any::<bool>()));
    let lists = (prop::collection::vec(text(), 0..3), prop::collection::vec(owner, 0..3));
    (texts, map(), map(), (time(), time()), lists, prop_oneof![Just(0), any::<i64>()]).prop_map(
        |((name, namespace, uid, version), labels, annotations, (made, gone), (finalizers, owners), generation)| {
            let owners: Vec<Value> = owners
                .into_iter()
                .map(|(kind, name, controller)| {
                    let mut owner = json!({"kind": kind, "name": name, "uid": "u", "apiVersion": "v1"});
                    if let Some(controller) = controller {
                        owner["controller"] = controller.into();
                    }
                    owner
                })
                .collect();
            let mut metadata = json!({
                "name": format!("n{}", name.replace('/', "-")), "namespace": namespace, "uid": uid, "resourceVersion": version,
                "labels": labels, "annotations": annotations, "finalizers": finalizers, "ownerReferences": owners,
            });
            for (member, value) in [("creationTimestamp", made), ("deletionTimestamp", gone)] {
                if let Some(value) = value {
                    metadata[member] = value.into();
                }
            }
            if generation != 0 {
                metadata["generation"] = generation.into();
            }
            // Go omits these.
            let members = metadata.as_object_mut().unwrap();
            members.retain(|_, value| ![json!(""), json!([]), json!({})].contains(value));
            metadata
        },
    )
}

proptest! {
    #[test]
    fn a_header_is_the_same_from_either_form(metadata in metadata()) {
        let value = json!({"metadata": metadata});
        let (protobuf, json) = both::<ConfigMap>("ConfigMap", &value);
        same_header(protobuf.header(), json.header());
        for key in value["metadata"]["annotations"].as_object().into_iter().flat_map(|members| members.keys()) {
            prop_assert_eq!(protobuf.annotation(key).unwrap(), json.annotation(key).unwrap());
        }
        prop_assert_eq!(protobuf.typed().unwrap(), json.typed().unwrap());
    }

    #[test]
    fn damage_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = wrap_envelope("v1", "Pod", &to_vec(Message::of_kind("v1", "Pod").unwrap(), &pod()).unwrap());
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let Ok(obj) = Obj::<Pod>::decode(Codec::Protobuf, &info("Pod"), bytes.into()) else { return Ok(()) };
        let _ = (obj.typed(), obj.json().map(drop), obj.annotation("c").map(drop));
        let mut paths = Vec::new();
        paths_of(&pod(), String::new(), &mut paths);
        for path in &paths {
            let _ = obj.path(path);
        }
        for path in ["metadata.managedFields", "spec.containers[0].name", "metadata.labels.app", "spec.volumes[*].name"] {
            let paths = JsonPaths::new([path, "metadata.name"]).unwrap();
            let _ = obj.only(&paths);
            let _ = obj.without(&JsonPaths::new([path]).unwrap());
        }
    }
}
