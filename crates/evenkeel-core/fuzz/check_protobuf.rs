//! Properties of any input. The fuzz target and the property tests both call them.
#![allow(unreachable_pub, clippy::expect_used, reason = "it is a part of two programs")]

use evenkeel_core::protobuf::{Message, from_slice, to_vec, unwrap_envelope, wrap_envelope, write_json};
use serde_json::Value;

/// Kinds whose messages have every form that the table knows.
pub const KINDS: [(&str, &str); 14] = [
    ("v1", "Pod"),
    ("v1", "PodList"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "PersistentVolume"),
    ("v1", "WatchEvent"),
    ("apps/v1", "ControllerRevision"),
    ("apps/v1", "StatefulSet"),
    ("events.k8s.io/v1", "Event"),
    ("policy/v1", "PodDisruptionBudget"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("metrics.k8s.io/v1beta1", "NodeMetrics"),
];

/// Reads bytes as a message of one of the kinds: tree and text agree, and what is read can be written and is then stable.
pub fn check(kind: usize, bytes: &[u8]) {
    let _ = unwrap_envelope(bytes);
    let (api_version, kind) = KINDS[kind % KINDS.len()];
    let message = Message::of_kind(api_version, kind).expect("it is in the table");
    let tree = from_slice::<Value>(message, bytes);
    let mut text = Vec::new();
    let written = write_json(message, bytes, None, &mut text);
    let Ok(tree) = tree else {
        // JSON inside of the message is parsed for the tree, but only looked over for the text.
        assert!(written.is_err() || serde_json::from_slice::<Value>(&text).is_err(), "only the text could be read");
        return;
    };
    written.expect("the tree could be read");
    // JSON may not nest as deep as messages.
    if let Ok(parsed) = serde_json::from_slice::<Value>(&text) {
        assert!(same(&parsed, &tree), "text and tree differ");
    }
    if let Ok(first) = to_vec(message, &tree) {
        let again: Value = from_slice(message, &first).expect("we wrote it");
        let second = to_vec(message, &again).expect("it could be written before");
        let envelope = wrap_envelope(api_version, kind, &second);
        assert_eq!(unwrap_envelope(&envelope).expect("we wrote it").raw, second);
        let third: Value = from_slice(message, &second).expect("we wrote it");
        assert!(same(&again, &third), "what was written once differs from what was written twice");
    }
}

/// Whether values are equal; fractions may differ in the last place, as JSON is not read exactly.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a == b || (a - b).abs() <= a.abs() * 1e-12
        }
        (a, b) => a == b,
    }
}
