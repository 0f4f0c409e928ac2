use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn mode(text: &str, paths: &[&str], mode: PruneMode) -> Option<String> {
    let paths = JsonPaths::new(paths).unwrap();
    paths.prune(text, mode).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn members_and_elements_are_removed_with_their_commas() {
    let text = r#" { "a" : 1 , "b" : [ 10 , 20 , 30 ] , "c.d" : { "e" : null , "f" : "x,}" } } "#;
    let without = |paths: &[&str]| mode(text, paths, PruneMode::Remove);
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(without(&["a"]), is(r#" { "b" : [ 10 , 20 , 30 ] , "c.d" : { "e" : null , "f" : "x,}" } } "#));
    assert_eq!(without(&["b[1]"]), is(r#" { "a" : 1 , "b" : [ 10 , 30 ] , "c.d" : { "e" : null , "f" : "x,}" } } "#));
    assert_eq!(without(&["b", "[c.d].f"]), is(r#" { "a" : 1 , "c.d" : { "e" : null } } "#));
    assert_eq!(without(&["a", "b"]), is(r#" { "c.d" : { "e" : null , "f" : "x,}" } } "#));
    assert_eq!(without(&["a", "b[*]", "[c.d][*]"]), is(r#" { "b" : [ ] , "c.d" : { } } "#));
    assert_eq!(without(&["[*]"]), is(" { } "));
    for nowhere in ["x", "a.b", "b.0", "b[3]", "b[x]", "[c.d].e.f"] {
        assert_eq!(without(&[nowhere]), None, "{nowhere}");
    }
    assert_eq!(without(&[]), None);
}

#[test]
fn only_selected_paths_stay() {
    let text = r#"{"a":1,"b":[10,{"x":1,"y":2},30],"c":{"d":{"e":5},"f":6}}"#;
    let only = |paths: &[&str]| mode(text, paths, PruneMode::Keep);
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(only(&["c.f"]), is(r#"{"c":{"f":6}}"#));
    assert_eq!(only(&["b[*].y", "a"]), is(r#"{"a":1,"b":[{"y":2}]}"#));
    assert_eq!(only(&["c", "c.d.e"]), is(r#"{"c":{"d":{"e":5},"f":6}}"#), "the wider path wins");
    assert_eq!(only(&["a.b", "c.d.x"]), is(r#"{"c":{"d":{}}}"#));
    assert_eq!(only(&["a", "b", "c"]), None);
    assert_eq!(only(&[]), is("{}"));
}

#[test]
fn kept_metadata_is_found_at_any_position() {
    let paths = ["metadata.x", "[metadata].y[0]"];
    for (text, rest) in [
        (r#"{"metadata":{"x":1,"a":2},"x":3}"#, r#"{"metadata":{"a":2},"x":3}"#),
        (r#"{"a":{"metadata":{"x":1}},"metadata":{"y":[1,2]}}"#, r#"{"a":{"metadata":{"x":1}},"metadata":{"y":[2]}}"#),
        (r#"{"metadata":null,"metadata":{"x":1}}"#, r#"{"metadata":null,"metadata":{}}"#),
    ] {
        assert_eq!(mode(text, &paths, PruneMode::Remove).as_deref(), Some(rest));
    }
    assert_eq!(mode(r#"{"a":1}"#, &paths, PruneMode::Remove), None);
}

#[test]
fn malformed_paths_are_errors() {
    for odd in ["", "a..b", "a.", "a[", "a[0]b", "a['b"] {
        let error = JsonPaths::new([odd]).unwrap_err();
        assert!(matches!(&error, PathError::Malformed { path, .. } if path == odd), "{error}");
    }
    let many = |count| JsonPaths::new((0..count).map(|number| format!("a{number}")));
    assert_eq!(many(129).unwrap_err(), PathError::TooMany { limit: 128 });
    let text = r#"{"a0":0,"b":1,"a127":2}"#;
    assert_eq!(many(128).unwrap().prune(text, PruneMode::Remove).unwrap().unwrap(), br#"{"b":1}"#);
    assert_eq!(JsonPaths::new(["a.b[x.y][0][*]", "c"]).unwrap().to_string(), "a.b[x.y][0][*], c");
}

/// The model of pruning, on a tree.
fn model(value: &Value, paths: &[Vec<PathSegment>], mode: PruneMode) -> Value {
    let part = |leads: &dyn Fn(&PathSegment) -> bool, value: &Value| -> Option<Value> {
        let followed: Vec<Vec<PathSegment>> =
            paths.iter().filter(|path| leads(&path[0])).map(|path| path[1..].to_vec()).collect();
        let is_end = followed.iter().any(Vec::is_empty);
        let has_inside = value.is_object() || value.is_array();
        match mode {
            PruneMode::Remove if is_end => None,
            PruneMode::Remove => Some(model(value, &followed, mode)),
            PruneMode::Keep if is_end => Some(value.clone()),
            PruneMode::Keep if followed.is_empty() || !has_inside => None,
            PruneMode::Keep => Some(model(value, &followed, mode)),
        }
    };
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), part(&|segment| segment.matches_member(name), value)?)))
                .collect(),
        ),
        Value::Array(elements) => Value::Array(
            elements
                .iter()
                .enumerate()
                .filter_map(|(index, value)| part(&|segment| segment.matches_element(index), value))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        r#"[a,\\"\]\}é]{0,4}"#.prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[abc,\"]", inner, 0..5).prop_map(|map| json!(map)),
        ]
    });
    prop::collection::btree_map("[abc]|metadata", value, 0..4).prop_map(|map| json!(map))
}

fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        "[abc]".prop_map(|name| format!(".{name}")),
        Just("[*]".to_owned()),
        (0..4).prop_map(|index| format!("[{index}]")),
        Just("[,]".to_owned()),
    ];
    let steps = prop::collection::vec(step, 1..5);
    (any::<bool>(), steps).prop_map(|(inside, steps)| {
        let start = if inside { "metadata" } else { "" };
        format!("{start}{}", steps.concat()).trim_start_matches('.').to_owned()
    })
}

proptest! {
    #[test]
    fn pruning_text_equals_pruning_a_tree(
        value in json(),
        paths in prop::collection::vec(path(), 0..5),
        pretty in any::<bool>(),
        others in any::<bool>(),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let how = if others { PruneMode::Keep } else { PruneMode::Remove };
        let read = JsonPaths::new(&paths).unwrap();
        let steps: Vec<Vec<PathSegment>> = read.paths.iter().map(|steps| steps.to_vec()).collect();
        let expected = model(&value, &steps, how);
        let rest = read.prune(&text, how).unwrap();
        prop_assert_eq!(rest.is_none(), expected == value, "nothing is copied for nothing");
        if let Some(rest) = rest {
            prop_assert_eq!(rest.capacity(), rest.len());
            let found: Value = serde_json::from_slice(&rest)
                .map_err(|error| TestCaseError::fail(format!("{error}: {}", String::from_utf8_lossy(&rest))))?;
            prop_assert_eq!(found, expected, "{}", text);
        }
    }
}
