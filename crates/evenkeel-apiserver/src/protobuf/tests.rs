use evenkeel_core::WireError;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;

const PREFIX: &[u8] = b"k8s\0";

/// Encodes a length-delimited field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [PREFIX.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn bin_1_a_body_is_read_into_the_json_form() {
    // Go encodes every field that is not a pointer, set or not.
    let metadata = [field(1, b"a"), field(2, b""), field(6, b""), varint(7, 0), field(8, b"")].concat();
    let pair = [field(1, b"key"), field(2, b"value")].concat();
    let bytes = [field(1, b"raw"), field(2, b"\x00\xff")].concat();
    let raw = [field(1, &metadata), field(2, &pair), field(3, &bytes), varint(4, 0)].concat();
    let object = decode(&body("v1", "ConfigMap", &raw)).unwrap();
    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"},
        "data": {"key": "value"}, "binaryData": {"raw": "AP8="}, "immutable": false,
    });
    assert_eq!(object, expected, "an optional false is kept, plain zero values are not");
}

#[test]
fn bin_1_inline_fields_times_and_values_of_two_types() {
    let handler = field(2, &[field(1, b"/live"), field(2, &[varint(1, 1), field(3, b"http")].concat())].concat());
    let container = [field(1, b"c"), field(10, &[field(1, &handler), varint(2, 5)].concat())].concat();
    let time = [varint(1, 60), varint(2, 0)].concat();
    let raw = [field(1, &field(8, &time)), field(2, &field(2, &container))].concat();
    let object = decode(&body("v1", "Pod", &raw)).unwrap();
    assert_eq!(object["metadata"]["creationTimestamp"], "1970-01-01T00:01:00Z");
    let probe = json!({"httpGet": {"path": "/live", "port": "http"}, "initialDelaySeconds": 5});
    assert_eq!(object["spec"]["containers"][0]["livenessProbe"], probe);
}

#[test]
fn bin_1_a_body_that_is_not_a_message_is_refused() {
    assert_eq!(decode(b"{}"), Err(ProtobufFault::NoPrefix));
    let unknown = ProtobufFault::UnknownKind { api_version: "example.com/v1".into(), kind: "Foo".into() };
    assert_eq!(decode(&body("example.com/v1", "Foo", b"")), Err(unknown));
    let malformed =
        |path: &str, source| Err(ProtobufFault::Unreadable(ProtobufError::Malformed { path: path.into(), source }));
    assert_eq!(decode(&body("v1", "ConfigMap", &[0x0a, 0x7f])), malformed("", WireError::Truncated));
    assert_eq!(decode(&body("v1", "ConfigMap", &varint(1, 1))), malformed("metadata", WireError::WireType(0)));
}

#[test]
fn bin_1_every_built_in_kind_can_be_sent() {
    for resource in Registry::builtin().resources() {
        let api_version = resource.api_version();
        assert!(Message::of_kind(&api_version, &resource.kind).is_some(), "{api_version} {}", resource.kind);
    }
}

/// Compares both forms of one object of every kind, if `EVENKEEL_FIXTURES` names a directory of fixtures.
#[test]
fn bin_1_both_forms_of_an_object_are_the_same() {
    let Some(folder) = std::env::var_os("EVENKEEL_FIXTURES") else {
        return;
    };
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let Ok(object) = decode(&std::fs::read(&path).unwrap()) else { continue };
        let expected: Value = serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        let registry = Registry::builtin();
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let Some(resource) = registry.lookup_kind(group, version, object["kind"].as_str().unwrap()) else { continue };
        let Some(schema) = resource.schema() else { continue };
        // A field that was removed after the fixtures were created is unknown in JSON only.
        let normal = |mut object: Value| schema.decode_builtin(&mut object).map(|_unknown| object);
        assert!(normal(object).unwrap() == normal(expected).unwrap(), "{} differs", path.display());
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

proptest! {
    #[test]
    fn bin_1_any_bytes_give_a_response(raw in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(&raw);
        let _ = decode(&[PREFIX, &raw].concat());
        let _ = decode(&body("v1", "Pod", &raw));
        let _ = decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw));
    }
}
