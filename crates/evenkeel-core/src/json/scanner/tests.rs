use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::json::JsonValue;

fn check(text: &str) -> Result<()> {
    let mut scanner = Scanner::of_str(text);
    scanner.skip()?;
    scanner.end()
}

fn fault(text: &str) -> (u64, String, JsonErrorKind) {
    let error = check(text).unwrap_err();
    (error.offset(), error.path().to_owned(), error.kind().clone())
}

#[test]
fn members_and_elements_are_visited_in_order() {
    let mut seen = Vec::new();
    let mut scanner = Scanner::of_str(r#" {"a": [1, {"x": null}], "b\u0041": "q", "c": {}} "#);
    scanner
        .object(|scanner, member| {
            if member == "bA" {
                seen.push(format!("{member}={}", scanner.string()?));
            } else if member == "a" {
                scanner.array(|scanner| {
                    seen.push(scanner.value_type()?.to_string());
                    Ok(())
                })?;
            } else {
                seen.push(member.to_owned());
            }
            Ok(())
        })
        .unwrap();
    scanner.end().unwrap();
    assert_eq!(seen, ["a number", "an object", "bA=q", "c"]);
}

#[test]
fn errors_have_their_position() {
    use JsonErrorKind::*;
    assert_eq!(fault(r#"{"a":{"b":[1,tru]}}"#), (13, "a.b[1]".into(), Unexpected { found: b't', expected: "a value" }));
    assert_eq!(fault(r#"{"a":1 "b":2}"#), (7, "a".into(), Unexpected { found: b'"', expected: "',' or '}'" }));
    assert_eq!(fault(r#"{"a":[1,2"#), (9, "a[1]".into(), UnexpectedEnd));
    assert_eq!(fault("{\"a\":\"x\ny\"}"), (7, "a".into(), ControlCharacter));
    assert_eq!(fault(r#"{"a":"\q"}"#), (6, "a".into(), InvalidEscape));
    assert_eq!(fault(r#"{"a":01}"#), (5, "a".into(), InvalidNumber));
    assert_eq!(fault("{} x"), (3, "".into(), Unexpected { found: b'x', expected: "the end" }));
    assert_eq!(fault("{1:2}").2, Unexpected { found: b'1', expected: "the name of a member" });
    let error = Scanner::new(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!((error.offset(), error.path(), error.kind()), (6, "a", &InvalidUtf8));
    let error = Scanner::of_str(r#""x""#).integer().unwrap_err();
    assert_eq!(error.to_string(), "JSON at byte 0: found a string, expected a number");
}

#[test]
fn a_probe_of_a_text_cut_anywhere_fails_without_a_path() {
    let text = r#"{"a":{"b":[1,{"c":"x\"\u0041"},true,null,[],{}]},"d":-1.5e3}"#;
    for length in 0..text.len() {
        let error = Scanner::probe(&text[..length]).skip().unwrap_err();
        assert_eq!(error.path(), "", "cut at {length}");
    }
    assert_eq!(Scanner::probe(text).skip().unwrap(), text);
}

#[test]
fn sec_43_depth_is_limited_to_128() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let nest = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert!(check(&nest(128)).is_ok());
        assert_eq!(fault(&nest(129)).2, JsonErrorKind::TooDeep { limit: 128 });
        assert_eq!(fault(&open.repeat(1_000_000)).2, JsonErrorKind::TooDeep { limit: 128 });
    }
}

#[test]
fn sec_43_integers_never_wrap() {
    assert_eq!(Scanner::of_str("9223372036854775807").integer().unwrap(), i64::MAX);
    for text in ["9223372036854775808", "1.5", "1e3"] {
        let error = Scanner::of_str(text).integer().unwrap_err();
        assert_eq!(error.kind(), &JsonErrorKind::NumberOutOfRange);
    }
}

#[test]
fn surrogates_must_pair_up() {
    assert_eq!(Scanner::of_str(r#""\ud83d\ude00""#).string().unwrap(), "😀");
    for text in [r#""\ud83d""#, r#""\ude00x""#, r#""\ud83dA""#, r#""\ud83d\n""#] {
        assert!(Scanner::of_str(text).string().is_err(), "{text}");
    }
}

#[test]
fn values_are_found_by_path() {
    let text = r#"{"spec":{"n":"a\"b","list":[{"x":1},{"x":true}],"nothing":null},"l":{"a.b/c":"d"}}"#;
    let at = |path| JsonValue::at_path(text, path).unwrap();
    assert_eq!(at("spec.n").unwrap().as_str().unwrap(), "a\"b");
    assert_eq!(at("spec.list[0].x").unwrap().as_i64(), Some(1));
    assert_eq!(at("spec.list[1].x").unwrap().as_bool(), Some(true));
    assert_eq!(at("l[a.b/c]").unwrap().text(), "d");
    assert_eq!(at("spec.list[1]").unwrap().text(), r#"{"x":true}"#);
    for absent in ["spec.nothing", "spec.list[2]", "spec.n.deeper", "other", "spec.list[x]", "l['other']"] {
        assert_eq!(at(absent), None, "{absent}");
    }
    for quoted in ["l['a.b/c']", "l[\"a.b/c\"]", ".l['a.b/c']"] {
        assert_eq!(at(quoted).unwrap().text(), "d", "{quoted}");
    }
    assert!(JsonValue::at_path(text, "spec..n").is_err());
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn output_of_serde_json_is_parsed(value in json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert!(check(&text).is_ok());
        if let Value::String(string) = &value {
            prop_assert_eq!(&*Scanner::of_str(&text).string().unwrap(), string);
        }
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(value in json(), at in any::<prop::sample::Index>(), byte in prop::sample::select(br#"{}[]",:\0-eu."#.to_vec())) {
        let mut bytes = serde_json::to_vec(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let ours = Scanner::new(&bytes).and_then(|mut scanner| { scanner.skip()?; scanner.end() });
        // serde_json does not check the UTF-8 of ignored values.
        let theirs = std::str::from_utf8(&bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        prop_assert_eq!(ours.is_ok(), theirs, "{:?}", ours);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Scanner::new(&bytes).and_then(|mut scanner| scanner.skip().map(drop));
    }
}
