use serde_json::json;

use super::*;
use crate::memory::Memory;

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n"},
           "metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}})
}

#[test]
fn sto_6_canonical_order_and_revision_slot() {
    let record = Draft::new(&pod(), Facts::default(), 9).commit(9);
    assert_eq!(
        record.json(),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"9"},"spec":{"nodeName":"n"}}"#
    );
    assert_eq!(record.metadata(), br#"{"name":"a","uid":"u","resourceVersion":"9"}"#);
}

#[test]
fn sto_7_body_follows_kind_and_version() {
    let record = Draft::new(&pod(), Facts::default(), 9).commit(9);
    assert!(record.body().starts_with(br#""metadata":{"#));
}

#[test]
fn a_revision_with_more_digits_than_expected_still_fits() {
    let record = Draft::new(&pod(), Facts::default(), 99).commit(100);
    assert_eq!(record.value()["metadata"]["resourceVersion"], "100");
    assert_eq!(record.metadata(), br#"{"name":"a","uid":"u","resourceVersion":"100"}"#);
    let later: Value = serde_json::from_slice(&record.json_at(12_345)).unwrap();
    assert_eq!(later["metadata"]["resourceVersion"], "12345");
    let metadata: Value = serde_json::from_slice(&record.metadata_at(5)).unwrap();
    assert_eq!(metadata, json!({"name": "a", "uid": "u", "resourceVersion": "5"}));
}

#[test]
fn bin_4_the_message_that_is_kept_first_stays() {
    let record = Draft::new(&pod(), Facts::default(), 9).commit(9);
    assert_eq!(record.protobuf(), None);
    let memory = Memory::default();
    let charge = || memory.charge_encoding(8).unwrap();
    assert_eq!(record.cache_protobuf(b"one".to_vec(), charge()), b"one");
    assert_eq!(record.cache_protobuf(b"another".to_vec(), charge()), b"one");
    assert_eq!(record.protobuf(), Some(&b"one"[..]));
}

#[test]
fn labels_are_found_by_key() {
    let facts = Facts { labels: Box::new([("a".into(), "1".into()), ("b".into(), "2".into())]), ..Facts::default() };
    assert_eq!(facts.label("b"), Some("2"));
    assert_eq!(facts.label("c"), None);
}
