//! Decoding random bytes, and valid messages that were mutated, truncated and reordered.

use evenkeel_core::protobuf::{Message, from_slice, to_vec};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

#[path = "../../fuzz/check_protobuf.rs"]
mod check_protobuf;

use check_protobuf::{KINDS, check};

fn metadata() -> Value {
    json!({
        "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"x": "y", "z": ""}, "annotations": {"k": "v"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
        "finalizers": ["f", "g"],
        "managedFields": [{"manager": "m", "operation": "Apply", "time": "1970-01-01T00:00:00Z", "fieldsV1": {"f:a": {}}}],
    })
}

/// Returns a valid object of each kind.
fn object(kind: &str) -> Value {
    let pod = json!({
        "metadata": metadata(),
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "args": ["1", "2"], "ports": [{"containerPort": 80}, {"containerPort": -1}],
                 "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
                 "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
                 "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}},
                {"name": "d", "readinessProbe": {"tcpSocket": {"port": 80}}}
            ],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s", "defaultMode": 420}}],
            "terminationGracePeriodSeconds": 0, "hostUsers": false,
            "securityContext": {"supplementalGroups": [1, 2, -3]},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}], "startTime": "2026-01-02T03:04:05Z"},
    });
    let schema = json!({
        "type": "object", "maximum": 1.5, "minimum": -3, "enum": [1, "a", null, {"b": []}], "default": {"x": 1},
        "properties": {"a": {"items": {"type": "string"}}, "b": {"items": {"additionalProperties": true}}},
        "dependencies": {"a": ["b", "c"], "d": {"type": "string"}}, "x-kubernetes-int-or-string": true,
    });
    match kind {
        "Pod" => pod,
        "PodList" => json!({"metadata": {"resourceVersion": "9"}, "items": [pod.clone(), pod]}),
        "Secret" => json!({"metadata": metadata(), "data": {"a": "AP8=", "b": ""}, "stringData": {"c": "d"}}),
        "Service" => {
            json!({"metadata": metadata(), "spec": {"ports": [{"port": 1, "targetPort": "x"}], "clusterIPs": ["a"]}})
        }
        "PersistentVolume" => {
            json!({"metadata": metadata(), "spec": {"capacity": {"storage": "1Gi"}, "nfs": {"server": "s", "path": "p"}}})
        }
        "WatchEvent" => {
            json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}})
        }
        "ControllerRevision" => json!({"metadata": metadata(), "revision": 2, "data": {"a": [1, null]}}),
        "StatefulSet" => {
            json!({"metadata": metadata(), "spec": {"volumeClaimTemplates": [{"metadata": {"name": "x"}}]}})
        }
        "Event" => {
            json!({"metadata": metadata(), "eventTime": "2026-01-02T03:04:05.000006Z", "series": {"count": 2, "lastObservedTime": null}})
        }
        "PodDisruptionBudget" => {
            json!({"metadata": metadata(), "spec": {"minAvailable": "50%", "selector": {}}, "status": {"disruptedPods": {"a": null, "b": "2026-01-02T03:04:05Z"}}})
        }
        "SubjectAccessReview" => json!({"spec": {"user": "u", "extra": {"a": ["1", "2"], "b": []}}}),
        "ValidatingAdmissionPolicy" => {
            json!({"spec": {"matchConstraints": {"resourceRules": [{"resourceNames": ["n"], "operations": ["CREATE"], "apiGroups": ["g"], "scope": "*"}]}}})
        }
        "CustomResourceDefinition" => {
            json!({"metadata": metadata(), "spec": {"versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}}]}})
        }
        "NodeMetrics" => json!({"metadata": metadata(), "window": "1m0.5s", "usage": {"cpu": "1"}}),
        other => panic!("{other}"),
    }
}

fn message(kind: usize) -> (&'static Message, Vec<u8>) {
    let (api_version, name) = KINDS[kind];
    let message = Message::of_kind(api_version, name).unwrap();
    (message, to_vec(message, &object(name)).unwrap())
}

#[test]
fn valid_objects_round_trip() {
    for (kind, (_, name)) in KINDS.iter().enumerate() {
        let (message, bytes) = message(kind);
        check(kind, &bytes);
        let mut shown: Value = from_slice(message, &bytes).unwrap();
        let mut expected = object(name);
        // Null and meaningless values are not written; protobuf has no empty lists.
        for value in [&mut shown, &mut expected] {
            prune(value);
        }
        assert_eq!(shown, expected, "{name}");
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(prune);
            object.retain(|_, value| !value.is_null());
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_cause_no_panic(kind in 0..KINDS.len(), bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        check(kind, &bytes);
    }

    #[test]
    fn pb_093_changed_messages_give_the_same_text_and_tree(
        kind in 0..KINDS.len(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>(), 0..4), 0..6),
    ) {
        let (_, mut bytes) = message(kind);
        for (at, byte, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, byte),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        check(kind, &bytes);
    }

    /// Fields of one message in any order, and some of them twice: the result is the same except for the order of lists.
    #[test]
    fn pb_066_fields_decode_in_any_order(kind in 0..KINDS.len(), seed in any::<u64>(), twice in any::<Index>()) {
        let (message, bytes) = message(kind);
        let mut fields = split(&bytes);
        let again = fields[twice.index(fields.len())].clone();
        fields.push(again);
        let mut order = seed;
        for at in (1..fields.len()).rev() {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            fields.swap(at, (order >> 33) as usize % (at + 1));
        }
        let shuffled = fields.concat();
        check(kind, &shuffled);
        let keys = |bytes: &[u8]| {
            let value: Value = from_slice(message, bytes).unwrap();
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(keys(&shuffled), keys(&bytes));
    }
}

/// Splits a message whose fields are varints and values shorter than 2^14.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let varint = |bytes: &[u8]| {
            let length = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
            let value = bytes[..length].iter().rev().fold(0usize, |value, byte| value << 7 | usize::from(byte & 0x7f));
            (length, value)
        };
        let (tag, kind) = varint(rest);
        let (number, value) = varint(&rest[tag..]);
        let length = tag + number + if kind & 7 == 2 { value } else { 0 };
        fields.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    fields
}
