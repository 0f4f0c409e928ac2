use super::*;

/// The examples of RFC 7386.
fn merged(mut target: Value, patch: &Value) -> Value {
    let Value::Object(members) = patch else { return patch.clone() };
    if !target.is_object() {
        target = json!({});
    }
    let object = target.as_object_mut().unwrap();
    for (member, value) in members {
        match (value, object.remove(member)) {
            (Value::Null, _) => {}
            (value, old) => _ = object.insert(member.clone(), merged(old.unwrap_or_default(), value)),
        }
    }
    target
}

#[test]
fn the_difference_makes_one_value_the_other() {
    let values = [
        json!({}),
        json!({"a": 1}),
        json!({"a": {"b": [1, 2], "c": "x"}}),
        json!({"a": {"b": [1], "d": {"e": true}}, "f": 2}),
        json!({"a": {"c": "x"}, "f": {"g": []}}),
    ];
    for before in &values {
        for after in &values {
            match difference(before, after) {
                None => assert_eq!(before, after),
                Some(patch) => assert_eq!(&merged(before.clone(), &patch), after, "{before} {patch}"),
            }
        }
    }
    assert_eq!(difference(&values[1], &values[1]), None);
}
