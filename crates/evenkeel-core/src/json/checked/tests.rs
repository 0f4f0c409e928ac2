use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Lane, PortableLane, look_up_checked};
use crate::json::{JsonPath, JsonValue};

/// Returns the JSON of the value at a path, which both look-ups must find.
fn at(text: &str, path: &str) -> Option<String> {
    let path = JsonPath::parse(path).unwrap();
    let found = look_up_checked(text.as_bytes(), path.segments()).map(|value| value.json().to_owned());
    let expected = JsonValue::look_up(text, path.segments()).unwrap();
    assert_eq!(found.as_deref(), expected.as_ref().map(JsonValue::json), "{path:?} of {text}");
    found
}

#[test]
fn values_are_found_behind_nested_and_escaped_ones() {
    let text = r#" {"a": {"b": "}]\"{", "c": [1, {"d": []}, "x\\"]}, "e\u0041": -1.5e3 , "spec": {"nodeName": "n1", "n": null}} "#;
    assert_eq!(at(text, "spec.nodeName").as_deref(), Some("\"n1\""));
    assert_eq!(at(text, "eA").as_deref(), Some("-1.5e3"));
    assert_eq!(at(text, "a.c[1]").as_deref(), Some(r#"{"d": []}"#));
    assert_eq!(at(text, "a.c[2]").as_deref(), Some(r#""x\\""#));
    for absent in ["spec.n", "spec.m", "a.c[3]", "a.c[1].d[0]", "a.b.c", "a[0]", "b"] {
        assert_eq!(at(text, absent), None, "{absent}");
    }
}

#[test]
fn lanes_of_all_processors_have_the_same_masks() {
    let text: Vec<u8> = (0..=u8::MAX).chain(*b"\"{\\[}]\"\"}}}}{{{{{").collect();
    for bytes in text.windows(16) {
        let bytes = bytes.first_chunk().unwrap();
        let (lane, portable) = (Lane::of(bytes), PortableLane::of(bytes));
        for (byte, set) in [(b'"', 0), (b'\\', 0), (b'}', 0x20), (b'{', 0x20)] {
            let mask = (0..16).filter(|at| bytes[*at] | set == byte).fold(0, |mask, at| mask | 1 << at);
            assert_eq!((lane.where_byte(byte, set), portable.where_byte(byte, set)), (mask, mask), "{bytes:?}");
        }
    }
}

#[test]
fn malformed_text_ends_the_search() {
    let text = r#"{"a":{"b":["#;
    for end in 0..text.len() {
        for path in ["a.b[0]", "a.b[1]", "c", "a.c"] {
            look_up_checked(&text.as_bytes()[..end], JsonPath::parse(path).unwrap().segments());
        }
    }
    for text in ["{]", "{}}", "[}", "{\"a\"}", "{\"a\" 1}", "\"\\", "{\"a\\"] {
        look_up_checked(text.as_bytes(), JsonPath::parse("a.b").unwrap().segments());
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\{}\\[\\]\n\u{e9},:]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[ab\"\\\\]{0,2}", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_finds_what_the_checking_look_up_finds(value in value(), path in prop::collection::vec("\\.[ab]|\\[[0-3]\\]", 0..4)) {
        let path = path.concat();
        at(&value.to_string(), &path);
        at(&serde_json::to_string_pretty(&value).unwrap(), &path);
    }
}
