//! What a failed rule prints.

use serde_json::json;

use super::{SAMPLE, SAMPLES, definition_errors, errors, sample, serving, spec, with_spec};

#[tokio::test]
async fn cel_001_rules_stand_at_every_node_of_the_spine() {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let mut schema = spec(
        json!({"list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": rule("self > 0")}},
               "map": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": rule("self != 'x'")}}}),
        rule("has(self.list)"),
    );
    schema["x-kubernetes-validations"] = rule("self.metadata.name != 'b'");
    let api = serving(schema).await;
    assert_eq!(
        errors(&api, json!({"list": [1, 0], "map": {"k": "x"}})).await,
        "[spec.list[1]: Invalid value: 0: failed rule: self > 0, spec.map[k]: Invalid value: \"x\": failed rule: self != 'x']"
    );
    assert_eq!(errors(&api, json!({})).await, "spec: Invalid value: failed rule: has(self.list)");
    let nested = json!({"type": "object", "properties": {"a": {"type": "string"}},
                        "allOf": [{"properties": {"a": {"x-kubernetes-validations": [{"rule": "true"}]}}}]});
    assert!(
        definition_errors(with_spec(nested))
            .await
            .contains("x-kubernetes-validations: Forbidden: must be empty to be structural")
    );
}

#[tokio::test]
async fn cel_002_rules_run_where_there_is_a_value_the_parents_first() {
    let schema = spec(
        json!({"a": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "self.size() > 1"}]}}),
        json!([{"rule": "self == self"}, {"rule": "!has(self.a) || self.a != 'x'", "message": "first"}, {"rule": "self.a != 'x'", "message": "second"}]),
    );
    let api = serving(schema).await;
    let response = errors(&api, json!({"a": null})).await;
    assert_eq!(response, "spec: Invalid value: \"object\": no such key: a evaluating rule: second");
    assert_eq!(
        errors(&api, json!({"a": "x"})).await,
        "[spec: Invalid value: first, spec: Invalid value: second, spec.a: Invalid value: \"x\": failed rule: self.size() > 1]"
    );
}

#[tokio::test]
async fn cel_009_scalars_are_printed_objects_and_lists_are_not() {
    let failing = json!([{"rule": "false", "message": "no"}]);
    let api = serving(spec(
        json!({"text": {"type": "string", "x-kubernetes-validations": failing}, "number": {"type": "number", "x-kubernetes-validations": failing},
               "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": failing}}),
        json!([]),
    ))
    .await;
    assert_eq!(errors(&api, json!({"text": "a\"b"})).await, "spec.text: Invalid value: \"a\\\"b\": no");
    assert_eq!(errors(&api, json!({"number": 1.5})).await, "spec.number: Invalid value: 1.5: no");
    assert_eq!(errors(&api, json!({"list": []})).await, "spec.list: Invalid value: no");
}

#[tokio::test]
async fn cel_010_the_root_is_printed_as_nil() {
    let mut schema = spec(json!({"a": {"type": "string"}}), json!([]));
    schema["x-kubernetes-validations"] = json!([{"rule": "has(self.spec.a)", "message": "needs a"}]);
    let api = serving(schema).await;
    let response = api.post(SAMPLES, &sample(json!({}))).await;
    assert_eq!(super::detail(&response), "<nil>: Invalid value: needs a");
    assert_eq!(response.expect(422)["details"]["causes"][0]["field"], "<nil>");
}

#[tokio::test]
async fn cel_011_an_expression_a_message_or_the_rule_is_the_message() {
    let rule = |number: i64, rest: serde_json::Value| {
        let mut rule = json!({"rule": format!(" self.a != {number} ")});
        rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        rule
    };
    let api = serving(spec(
        json!({"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 10}}),
        json!([
            rule(1, json!({"message": " text ", "messageExpression": "'a is ' + self.b"})),
            rule(2, json!({"message": " text "})),
            rule(3, json!({})),
        ]),
    ))
    .await;
    assert_eq!(errors(&api, json!({"a": 1, "b": "one"})).await, "spec: Invalid value: a is one");
    assert_eq!(errors(&api, json!({"a": 2})).await, "spec: Invalid value: text");
    assert_eq!(errors(&api, json!({"a": 3})).await, "spec: Invalid value: failed rule: self.a != 3");
}

#[tokio::test]
async fn cel_012_an_unusable_message_expression_is_passed_over() {
    let rule = |number: i64, expression: &str| json!({"rule": format!("self.a != {number}"), "message": "text", "messageExpression": expression});
    let api = serving(spec(
        json!({"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 100}}),
        json!([rule(1, "self.b"), rule(2, "'  '"), rule(3, "'a\\nb'"), rule(4, "self.b + self.b")]),
    ))
    .await;
    for number in 1..=4 {
        assert_eq!(errors(&api, json!({"a": number})).await, "spec: Invalid value: text", "{number}");
    }
}

#[tokio::test]
async fn cel_013_a_reason_sets_the_type_of_the_error() {
    let rule =
        |number: i64, reason: &str| json!({"rule": format!("self.a != {number}"), "message": "text", "reason": reason});
    let api = serving(spec(
        json!({"a": {"type": "integer"}}),
        json!([rule(1, "FieldValueForbidden"), rule(2, "FieldValueRequired"), rule(3, "FieldValueInvalid")]),
    ))
    .await;
    assert_eq!(errors(&api, json!({"a": 1})).await, "spec: Forbidden: text");
    assert_eq!(errors(&api, json!({"a": 2})).await, "spec: Required value: text");
    assert_eq!(errors(&api, json!({"a": 3})).await, "spec: Invalid value: text");
}

#[tokio::test]
async fn cel_014_a_duplicate_has_no_message() {
    let rules = json!([{"rule": "self != 'x'", "message": "text", "reason": "FieldValueDuplicate"}]);
    let api = serving(spec(json!({"a": {"type": "string", "x-kubernetes-validations": rules}}), json!([]))).await;
    assert_eq!(errors(&api, json!({"a": "x"})).await, "spec.a: Duplicate value: \"x\"");
}

#[tokio::test]
async fn cel_015_a_field_path_is_appended() {
    let properties = json!({"a": {"type": "object", "properties": {"b": {"type": "integer"}}},
                            "m": {"type": "object", "additionalProperties": {"type": "string"}}});
    let rules = json!([{"rule": "self.a.b != 1", "fieldPath": ".a.b", "message": "text"},
                       {"rule": "self.a.b != 2", "fieldPath": ".m['x']", "message": "text"}]);
    let api = serving(spec(properties, rules)).await;
    assert_eq!(errors(&api, json!({"a": {"b": 1}})).await, "spec.a.b: Invalid value: text");
    assert_eq!(errors(&api, json!({"a": {"b": 2}})).await, "spec.m[x]: Invalid value: text");
}

#[tokio::test]
async fn cel_016_an_evaluation_error_names_the_schema_type() {
    let properties = json!({"a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "integer"}});
    let rules = json!([{"rule": "self.a[3] == 1 || self.b == 7"}, {"rule": "1 / self.b > 0 || self.b == 7", "message": "text"}]);
    let api = serving(spec(properties, rules)).await;
    assert_eq!(
        errors(&api, json!({"a": [], "b": 0})).await,
        "[spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.a[3] == 1 || self.b == 7, \
         spec: Invalid value: \"object\": division by zero evaluating rule: text]"
    );
}

#[tokio::test]
async fn cel_017_overloads_that_do_not_exist_are_explained() {
    let properties = json!({"a": {"x-kubernetes-int-or-string": true}});
    let api = serving(spec(properties, json!([{"rule": "self.a + 1 == 2"}]))).await;
    api.post(SAMPLES, &sample(json!({"a": 1}))).await.expect(201);
    api.delete(SAMPLE).await.expect(200);
    assert_eq!(
        errors(&api, json!({"a": "x"})).await,
        "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or \
         macro signature for rule: self.a + 1 == 2"
    );
}

#[tokio::test]
async fn cel_020_no_rule_runs_on_an_object_that_its_schema_rejects() {
    let properties = json!({"a": {"type": "string", "enum": ["x"]}, "b": {"type": "integer", "maximum": 3}});
    let api = serving(spec(properties, json!([{"rule": "false", "message": "never"}]))).await;
    assert_eq!(
        errors(&api, json!({"a": "y"})).await,
        "[spec.a: Unsupported value: \"y\": supported values: \"x\", <nil>: Invalid value: null: some validation rules were not \
         checked because the object was invalid; correct the existing errors to complete validation]"
    );
    assert_eq!(
        errors(&api, json!({"b": 4})).await,
        "[spec.b: Invalid value: 4: spec.b in body should be less than or equal to 3, spec: Invalid value: never]"
    );
}
