use serde_json::json;

use crate::{Environment, Value};

const NO_VARIABLES: [(&str, Value<'static>); 0] = [];

fn environment() -> Environment {
    Environment::new().with_patch_types()
}

fn evaluate(text: &str) -> Value<'static> {
    environment().compile(text).unwrap().into_program().evaluate(&NO_VARIABLES[..], 10_000).result.unwrap()
}

fn fault(environment: &Environment, text: &str) -> String {
    environment.compile(text).unwrap_err().to_string()
}

#[test]
fn objects_have_any_field() {
    let compiled =
        environment().compile("Object{spec: Object.spec{replicas: 1 + 2, ?absent: optional.none()}}").unwrap();
    assert_eq!(compiled.result_type().to_string(), "Object");
    let made =
        evaluate("Object{spec: Object.spec{replicas: 1 + 2, ?absent: optional.none()}, list: [Object.list{a: 'b'}]}");
    assert_eq!(made.to_json(), Some(json!({"spec": {"replicas": 3}, "list": [{"a": "b"}]})));
    assert!(made.misnamed_objects().is_empty());
    let same = evaluate(
        "Object{a: 1} == Object{a: 1} && dyn(Object{a: 1}) != dyn(Object.b{a: 1}) && dyn(Object{a: 1}) != {'a': 1}",
    );
    assert!(matches!(same, Value::Bool(true)));
}

#[test]
fn types_are_named_after_the_fields() {
    let made = evaluate("Object{spec: Object.wrong{}, items: {'a': [Object.items{b: Object.items.c{}}]}}");
    let misnamed: Vec<String> = made.misnamed_objects().iter().map(ToString::to_string).collect();
    assert_eq!(
        misnamed,
        [
            "unexpected type name \"Object.items.c\", expected \"Object.items.b\", which matches field name path from root \
             Object type",
            "unexpected type name \"Object.wrong\", expected \"Object.spec\", which matches field name path from root Object \
             type"
        ]
    );
}

#[test]
fn operations_of_a_patch_have_four_fields() {
    let text = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: {'x': 1}}]";
    assert_eq!(environment().compile(text).unwrap().result_type().to_string(), "list(JSONPatch)");
    let made = evaluate(text);
    assert_eq!(made.to_json(), Some(json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {"x": 1}}])));
    let items = made.items().unwrap();
    let op = items.first().unwrap().made_field("op").unwrap();
    assert_eq!(op.to_json(), Some(json!("add")));
    assert!(fault(&environment(), "JSONPatch{other: 1}").contains("undefined field 'other'"));
    assert!(
        fault(&environment(), "JSONPatch{op: 1}")
            .contains("expected type of field 'op' is 'string' but provided type is 'int'")
    );
}

#[test]
fn other_environments_know_none_of_them() {
    let plain = Environment::new();
    assert!(fault(&plain, "Object{}").contains("undeclared reference to 'Object'"));
    assert!(fault(&plain, "jsonpatch.escapeKey('a')").contains("undeclared reference to"));
    assert!(fault(&environment(), "Objects{}").contains("undeclared reference to 'Objects'"));
}

#[test]
fn values_that_share_parts_are_measured_as_json() {
    let shared = evaluate("[{'a': 'xyz'}].map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a])");
    let size = shared.to_json().unwrap().to_string().len();
    assert!(shared.fits_within(size) && !shared.fits_within(16 * 4));
    let mut value = evaluate("['x']");
    for _ in 0..64 {
        value = Value::list(vec![value.clone(), value]);
    }
    assert!(!value.fits_within(1 << 20), "2^64 items are not counted one by one");
    assert!(!value.is_bounded(1 << 20, 1000) && !value.is_bounded(usize::MAX, 60));
    assert!(shared.is_bounded(1000, 8));
}
