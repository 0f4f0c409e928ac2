//! Kubernetes protobuf (FUZ-11). The first byte selects the check, the second one the kind or the cuts.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::codec::Codec;
use evenkeel_core::protobuf::{Message, from_slice, to_vec, unwrap_envelope, wrap_envelope, write_json};
use evenkeel_core::{Obj, ResourceInfo};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::streams::check_stream;
use crate::budget::{DECODER, TREE, within};
use crate::input::Input;

/// Kinds with many forms of fields: maps, times, quantities, integers or strings, raw JSON, JSON schemas, recursion.
const KINDS: [(&str, &str); 10] = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Node"),
    ("v1", "Service"),
    ("events.k8s.io/v1", "Event"),
    ("apps/v1", "ControllerRevision"),
    ("v1", "Status"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    match input.choice(&[0, 1, 2]) {
        0 => check_message(&mut input),
        1 => check_envelope(input.0),
        _ => check_stream(Codec::Protobuf, &mut input),
    }
}

/// Decoding, and encoding what was decoded, are inverse to each other, and agree with the JSON of the message.
fn check_message(input: &mut Input<'_>) {
    let (api_version, kind) = input.choice(&KINDS);
    let message = Message::of_kind(api_version, kind).expect("a built-in kind");
    let mut json = Vec::new();
    if within(TREE, input.0.len(), || write_json(message, input.0, None, &mut json)).is_err() {
        return;
    }
    let value: Value = serde_json::from_slice(&json).expect("the JSON of a message is JSON");
    let tree = from_slice::<Value>(message, input.0).expect("what has JSON can be decoded");
    assert_eq!(without_nulls(tree), without_nulls(value.clone()), "the tree and the JSON of a message");
    let Ok(bytes) = to_vec(message, &value) else { return };
    let mut again = Vec::new();
    write_json(message, &bytes, None, &mut again).expect("what was encoded can be decoded");
    let value = without_nulls(value);
    assert_eq!(
        without_nulls(serde_json::from_slice(&again).expect("JSON")),
        value,
        "decoded, encoded and decoded again"
    );
    if kind == "Pod" {
        let of_json = serde_json::from_value::<Pod>(value).ok();
        let of_protobuf = from_slice::<Pod>(message, &bytes).ok();
        assert_eq!(of_protobuf, of_json, "a pod of protobuf and of its JSON");
    }
}

/// An envelope states what was put into it, and an object in one can be read.
fn check_envelope(bytes: &[u8]) {
    let pods = Arc::new(ResourceInfo::of::<Pod>());
    let object =
        within(DECODER, bytes.len(), || Obj::<Pod>::decode(Codec::Protobuf, &pods, Bytes::copy_from_slice(bytes)).ok());
    if let Some(object) = object {
        let _ = object.path("spec.containers[0].image");
        let _ = object.path("metadata.labels['a']");
        let _ = object.annotation("a");
        if let Ok(json) = object.json() {
            serde_json::from_slice::<Value>(&json).expect("the JSON of an object is JSON");
        }
    }
    if let Ok(envelope) = unwrap_envelope(bytes) {
        let wrapped = wrap_envelope(envelope.api_version, envelope.kind, envelope.raw);
        let again = unwrap_envelope(&wrapped).expect("an envelope of ours");
        assert_eq!(
            (again.api_version, again.kind, again.raw),
            (envelope.api_version, envelope.kind, envelope.raw),
            "wrapped again"
        );
    }
    if let Some(status) = Codec::Protobuf.decode_status(bytes) {
        let text = serde_json::to_vec(&status).expect("a status has JSON");
        assert_eq!(Codec::Json.decode_status(&text), Some(status), "a status of protobuf in JSON");
    }
}

/// Removes members that are null: JSON of Kubernetes does not distinguish them from absent ones.
fn without_nulls(mut value: Value) -> Value {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, member| !member.is_null());
                members.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    remove(&mut value);
    value
}
