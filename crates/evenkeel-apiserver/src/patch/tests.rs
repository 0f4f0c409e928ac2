use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::merge_patch::create_merge_patch;
use super::*;

fn apply(kind: PatchType, doc: Value, body: &[u8]) -> Result<Value, Status> {
    super::apply(kind, doc, body, None).map(|patched| patched.object)
}

fn patched(doc: Value, patch: Value) -> Result<Value, PatchError> {
    let mut doc = doc;
    apply_json_patch(&mut doc, patch.to_string().as_bytes())?;
    Ok(doc)
}

fn why(doc: Value, patch: Value) -> OperationError {
    match patched(doc, patch) {
        Err(PatchError::Operation { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsupported_server_side_apply_is_refused() {
    let status = apply(PatchType::Apply, json!({}), b"a: 1").unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (501, "NotImplemented"));
}

#[test]
fn pat_5_operations() {
    let doc = json!({"data": {"k": "v"}, "list": [1, 2], "a/b": {"m~n": 1}});
    assert_eq!(
        patched(
            doc.clone(),
            json!([
                {"op": "test", "path": "/data/k", "value": "v"},
                {"op": "add", "path": "/data/x", "value": "1"},
                {"op": "replace", "path": "/data/k", "value": "w"},
                {"op": "add", "path": "/list/-", "value": 4},
                {"op": "add", "path": "/list/2", "value": 3},
                {"op": "add", "path": "/list/0", "value": 0},
                {"op": "remove", "path": "/list/1"},
                {"op": "move", "from": "/a~1b/m~0n", "path": "/data/moved"},
                {"op": "copy", "from": "/list", "path": "/copied"},
            ])
        )
        .unwrap(),
        json!({
            "data": {"k": "w", "x": "1", "moved": 1}, "list": [0, 2, 3, 4], "copied": [0, 2, 3, 4], "a/b": {}
        })
    );
    assert_eq!(
        patched(doc.clone(), json!([{"op": "replace", "path": "", "value": {"new": true}}])).unwrap(),
        json!({"new": true})
    );
    assert_eq!(patched(doc.clone(), json!([{"op": "test", "path": "", "value": doc}])).unwrap(), doc);
    assert_eq!(patched(doc.clone(), json!(null)).unwrap(), doc);
}

#[test]
fn pat_5_failing_operations_are_distinguished() {
    use OperationError::*;
    let doc = || json!({"data": {"k": "v"}, "list": [1, 2]});
    for (operation, expected) in [
        (json!({"op": "test", "path": "/data/k", "value": "nope"}), TestFailed),
        (json!({"op": "test", "path": "/no/k", "value": null}), Missing),
        (json!({"op": "remove", "path": "/data/missing"}), Missing),
        (json!({"op": "remove", "path": ""}), BadPath),
        (json!({"op": "add", "path": "/no/parent", "value": 1}), Missing),
        (json!({"op": "add", "path": "/data/k/deeper", "value": 1}), Missing),
        (json!({"op": "add", "path": "", "value": {}}), BadPath),
        (json!({"op": "add", "path": "data/x", "value": 1}), BadPath),
        (json!({"op": "add", "path": "/list/3", "value": 1}), BadIndex),
        (json!({"op": "add", "path": "/list/-1", "value": 1}), BadIndex),
        (json!({"op": "add", "path": "/list/01", "value": 1}), BadIndex),
        (json!({"op": "add", "path": "/list/+1", "value": 1}), BadIndex),
        (json!({"op": "add", "path": "/list/x", "value": 1}), BadIndex),
        (json!({"op": "replace", "path": "/list/2", "value": 1}), BadIndex),
        (json!({"op": "replace", "path": "/list/-", "value": 1}), BadIndex),
        (json!({"op": "remove", "path": "/list/2"}), BadIndex),
        (json!({"op": "replace", "path": "", "value": 1}), ScalarRoot),
        (json!({"op": "move", "from": "/data", "path": "/data/in"}), IntoItself),
        (json!({"op": "move", "from": "/nothing", "path": "/data/in"}), Missing),
        (json!({"op": "copy", "from": "/nothing", "path": "/data/in"}), Missing),
        (json!({"op": "bogus", "path": "/data"}), UnknownOperation),
        (json!({"path": "/data"}), UnknownOperation),
        (json!(null), UnknownOperation),
    ] {
        assert_eq!(why(doc(), json!([operation])), expected, "{operation}");
    }
}

#[test]
fn pat_5_where_the_real_server_is_lenient() {
    let doc = json!({"data": {"k": null}});
    assert_eq!(
        patched(
            doc,
            json!([
                {"op": "test", "path": "/data/missing", "value": null},
                {"op": "test", "path": "/data/k"},
                {"op": "replace", "path": "/data/new", "value": 1},
                {"op": "add", "path": "/data/empty"},
            ])
        )
        .unwrap(),
        json!({"data": {"k": null, "new": 1, "empty": null}})
    );
}

#[test]
fn pat_5_errors_as_the_client_sees_them() {
    let status = apply(PatchType::Json, json!({}), b"not json").unwrap_err();
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "apiVersion": "v1", "code": 400, "kind": "Status", "message": "invalid JSON patch", "metadata": {},
            "reason": "BadRequest", "status": "Failure"
        })
    );
    let status = apply(PatchType::Json, json!({}), br#"[{"op":"remove","path":"/x"}]"#).unwrap_err();
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "apiVersion": "v1", "code": 422, "details": {}, "kind": "Status", "metadata": {}, "reason": "Invalid",
            "message": "the server rejected our request due to an error in our request", "status": "Failure"
        })
    );
    for (body, message) in [
        (r#"{"op":"add"}"#, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("[1]", "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (r#"[{"op":1}]"#, "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ] {
        let status = apply(PatchType::Json, json!({}), body.as_bytes()).unwrap_err();
        assert_eq!(status.code, 400);
        assert_eq!(status.message, format!("error decoding patch: json: {message}"));
    }
}

#[test]
fn pat_5_too_many_operations_are_413() {
    let operations = |count: usize| Value::from(vec![json!({"op": "test", "path": "", "value": {}}); count]);
    assert!(apply(PatchType::Json, json!({}), operations(10_000).to_string().as_bytes()).is_ok());
    let status = apply(PatchType::Json, json!({}), operations(10_001).to_string().as_bytes()).unwrap_err();
    assert!(status.is_request_entity_too_large());
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn pat_5_copies_are_bounded() {
    // Each copy doubles the object: without a bound, 40 operations would make a terabyte.
    let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
    assert_eq!(why(json!({"a": ["x"]}), Value::from(doubling)), OperationError::CopiesTooLarge);
}

#[test]
fn pat_5_depth_is_bounded() {
    let mut operations = Vec::new();
    let mut path = String::new();
    for _ in 0..500 {
        path.push_str("/a");
        operations.push(json!({"op": "add", "path": path, "value": {}}));
    }
    assert_eq!(why(json!({}), Value::from(operations)), OperationError::TooDeep);

    // Moves deepen too, but a move within the limit is not refused for the depth of other fields.
    let chain = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    let deep_path = "/b".to_owned() + &"/a".repeat(100);
    let doc = || json!({"b": chain(100), "deep": chain(60), "flat": {}});
    assert_eq!(why(doc(), json!([{"op": "move", "from": "/deep", "path": deep_path}])), OperationError::TooDeep);
    assert!(patched(doc(), json!([{"op": "move", "from": "/flat", "path": deep_path}])).is_ok());
}

#[test]
fn pat_6_merge() {
    // The examples of RFC 7386, appendix A, as far as the target of a PATCH is an object.
    for (target, patch, result) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let merged = apply(PatchType::Merge, target.clone(), patch.to_string().as_bytes()).unwrap();
        assert_eq!(merged, result, "{target} + {patch}");
    }
}

#[test]
fn pat_6_a_body_that_is_not_an_object_is_400() {
    for (body, message) in [
        ("not json", "invalid JSON patch"),
        ("", "invalid JSON patch"),
        ("null", "Invalid JSON Patch"),
        ("[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("\"x\"", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ] {
        let status = apply(PatchType::Merge, json!({"a": 1}), body.as_bytes()).unwrap_err();
        assert!(status.is_bad_request());
        assert_eq!(status.message, message);
    }
}

#[test]
fn pat_8_a_result_that_cannot_be_read_is_422() {
    let status = unreadable_result(&json!({"data": 1}), "strict decoding error: unknown field \"x\"");
    assert!(status.is_invalid());
    assert_eq!(
        status.message,
        " \"\" is invalid: patch: Invalid value: \"{\\\"data\\\":1}\": strict decoding error: unknown field \"x\""
    );
    assert_eq!(status.details.unwrap().causes[0].field, "patch");
}

fn name() -> impl Strategy<Value = String> {
    select(&["a", "b", "c"][..]).prop_map(str::to_owned)
}

/// Small documents over few names, so that two of them often share paths; merge patches cannot write `null`.
fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![any::<bool>().prop_map(Value::from), (0..3i64).prop_map(Value::from), Just(json!("s"))];
    let node = scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(name(), inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    btree_map(name(), node, 0..3).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// A JSON patch that turns `from` into `to`: replaces what differs, from the outside in.
fn diff(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        if from != to {
            operations.push(json!({"op": "replace", "path": path, "value": to}));
        }
        return;
    };
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        operations.push(json!({"op": "remove", "path": format!("{path}/{name}")}));
    }
    for (name, value) in new {
        let path = format!("{path}/{name}");
        match old.get(name) {
            Some(old) => diff(old, value, &path, operations),
            None => operations.push(json!({"op": "add", "path": path, "value": value})),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn fuz_1_merge_patch_algebra(a in document(), b in document()) {
        let patch = create_merge_patch(&a, &b).to_string();
        prop_assert_eq!(&apply(PatchType::Merge, a, patch.as_bytes()).unwrap(), &b);
        prop_assert_eq!(create_merge_patch(&b, &b), json!({}));
    }

    #[test]
    fn fuz_1_json_patch_algebra(a in document(), b in document()) {
        let mut operations = Vec::new();
        diff(&a, &b, "", &mut operations);
        prop_assert_eq!(patched(a, Value::from(operations)).unwrap(), b);
    }
}

proptest! {
    #[test]
    fn fuz_1_arbitrary_bodies_never_panic(a in document(), body in vec(any::<u8>(), 0..64)) {
        let _ = apply(PatchType::Json, a.clone(), &body);
        let _ = apply(PatchType::Merge, a.clone(), &body);
        let _ = apply(PatchType::StrategicMerge, a, &body);
    }

    #[test]
    fn fuz_1_arbitrary_operations_never_panic(
        a in document(),
        operations in vec(
            (
                prop_oneof![Just("add"), Just("remove"), Just("replace"), Just("move"), Just("copy"), Just("test")],
                "(/[abc~01-]{0,2}){0,3}",
                "(/[abc~01-]{0,2}){0,3}",
            ),
            0..6,
        ),
    ) {
        let operations: Vec<Value> = operations
            .into_iter()
            .map(|(op, path, from)| json!({"op": op, "path": path, "from": from, "value": {"a": [1]}}))
            .collect();
        let _ = patched(a, Value::from(operations));
    }
}
