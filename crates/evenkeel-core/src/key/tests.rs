use std::collections::{BTreeSet, HashMap};

use super::*;

fn split(text: &str) -> (String, String) {
    let key: ObjectKey = text.parse().unwrap();
    (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned())
}

#[test]
fn key_001_namespace_slash_name_or_the_name_alone() {
    assert_eq!(ObjectKey::new(Some("ns"), "a").as_str(), "ns/a");
    assert_eq!(ObjectKey::new(None, "a").as_str(), "a");
    assert_eq!(ObjectKey::new(Some(""), "a"), ObjectKey::cluster("a"));
}

#[test]
fn key_004_one_or_two_parts_and_never_three() {
    assert_eq!(split("a"), ("".into(), "a".into()));
    assert_eq!(split("ns/a"), ("ns".into(), "a".into()));
    assert_eq!(split(""), ("".into(), "".into()));
    assert_eq!(split("/x"), ("".into(), "x".into()));
    assert_eq!(split("x/"), ("x".into(), "".into()));
    let error = "a/b/c".parse::<ObjectKey>().unwrap_err();
    assert_eq!(error, KeyError::TooManyParts { key: "a/b/c".into() });
    assert!(error.to_string().contains("\"a/b/c\""), "{error}");
}

#[test]
fn key_005_parsing_and_printing_are_inverse_but_for_a_leading_slash() {
    for text in ["", "a", "ns/a", "ns/"] {
        assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
    }
    assert_eq!("/a".parse::<ObjectKey>().unwrap().to_string(), "a");
}

#[test]
fn key_012_a_name_with_a_slash_is_cut_at_the_first_one() {
    let key = ObjectKey::namespaced("a", "b/c");
    assert_eq!((key.namespace(), key.name()), (Some("a"), "b/c"));
}

#[test]
fn short_and_long_keys_are_alike() {
    for length in [0, 1, INLINE - 3, INLINE - 2, INLINE, 300] {
        let name = "é".repeat(length / 2) + &"x".repeat(length % 2);
        let key = ObjectKey::namespaced("n", &name);
        assert_eq!((key.as_str(), key.namespace(), key.name()), (&*format!("n/{name}"), Some("n"), &*name));
        assert_eq!(key.as_bytes(), key.as_str().as_bytes());
        assert_eq!(matches!(key.0, KeyText::Inline { .. }), name.len() + 2 <= INLINE);
        assert_eq!(key.clone(), key);
    }
    assert_eq!(size_of::<ObjectKey>(), 48);
    let mut sorted = [ObjectKey::cluster(&"b".repeat(60)), ObjectKey::cluster("c"), ObjectKey::cluster("a")];
    sorted.sort();
    assert_eq!(sorted.map(|key| key.name().len()), [1, 60, 1]);
}

#[test]
fn key_013_identity_is_namespace_and_name() {
    let mut map = HashMap::new();
    map.insert(ObjectKey::namespaced("ns", "a"), 1);
    assert_eq!(map.get("ns/a"), Some(&1));
    assert_eq!(map.insert(ObjectKey::new(Some("ns"), "a"), 2), Some(1));
}

#[test]
fn keys_sort_bytewise_by_their_text() {
    let sorted: BTreeSet<ObjectKey> =
        ["b/a", "a/b", "a-b/a", "a", "a/a"].iter().map(|text| text.parse().unwrap()).collect();
    let texts: Vec<&str> = sorted.iter().map(ObjectKey::as_str).collect();
    assert_eq!(texts, ["a", "a-b/a", "a/a", "a/b", "b/a"]);
}
