//! What is refused when a definition is written.

use serde_json::{Value, json};

use super::{DEFINITIONS, definition, definition_errors, detail, serving, spec, with_spec};
use crate::api::Api;

const RULE: &str = "$.properties[spec].x-kubernetes-validations[0]";

#[tokio::test]
async fn cel_003_only_the_name_of_the_metadata_is_declared() {
    let root = |rule: &str| {
        let mut schema = spec(json!({}), json!([]));
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        schema
    };
    serving(root("self.apiVersion != '' && self.kind == 'Sample' && self.metadata.name == 'a' && !has(self.metadata.generateName)")).await;
    assert!(definition_errors(root("has(self.metadata.labels)")).await.contains("undefined field 'labels'"));
}

#[tokio::test]
async fn cel_006_only_declared_fields_are_reachable() {
    let open = |rule: &str| {
        with_spec(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": rule}]}))
    };
    serving(open("self.a == 'x'")).await;
    assert!(definition_errors(open("self.b == 'x'")).await.contains("undefined field 'b'"));
}

#[tokio::test]
async fn cel_008_defaults_must_fulfil_the_rules() {
    let properties = json!({"a": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1", "message": "more"}]}});
    assert_eq!(
        definition_errors(spec(properties, json!([]))).await,
        "$.properties[spec].properties[a].default: Invalid value: 1: more"
    );
}

#[tokio::test]
async fn cel_027_paths_name_the_schema_that_all_versions_share() {
    let bad = spec(json!({}), json!([{"rule": ""}]));
    let api = Api::start().await;
    let mut two = definition(bad.clone());
    let mut second = two["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = (json!("v2"), json!(false));
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    let shared = detail(&api.post(DEFINITIONS, &two).await);
    assert!(shared.starts_with("spec.validation.openAPIV3Schema.properties[spec]"), "{shared}");
    two["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object"});
    let own = detail(&api.post(DEFINITIONS, &two).await);
    assert!(own.starts_with("spec.versions[1].schema.openAPIV3Schema.properties[spec]"), "{own}");
}

#[tokio::test]
async fn cel_028_static_faults_of_rules() {
    let cases: [(Value, &str); 8] = [
        (json!({"rule": " "}), ".rule: Required value: rule is not specified"),
        (json!({"rule": "true", "message": " "}), ".message: Invalid value: \" \": must be non-empty if specified"),
        (
            json!({"rule": "true", "message": "a\nb"}),
            ".message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            json!({"rule": "true\n&& true"}),
            ".message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "messageExpression": " "}),
            ".messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (json!({"rule": "true", "fieldPath": ".b"}), ".fieldPath: Invalid value: \".b\": must be a valid path"),
        (json!({"rule": "true", "fieldPath": "a"}), ".fieldPath: Invalid value: \"a\": must be a valid path"),
        (
            json!({"rule": "true", "reason": "Other"}),
            ".reason: Unsupported value: \"Other\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
             \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
    ];
    for (rule, expected) in cases {
        let found = definition_errors(spec(json!({"a": {"type": "string"}}), json!([rule]))).await;
        assert_eq!(found, format!("{RULE}{expected}"));
    }
}

#[tokio::test]
async fn cel_029_a_rule_that_does_not_compile_is_printed_with_its_place() {
    assert_eq!(
        definition_errors(spec(json!({"a": {"type": "string"}}), json!([{"rule": "self.b > 'x'", "message": "m"}])))
            .await,
        format!(
            "{RULE}.rule: Invalid value: {{\"Rule\":\"self.b \\u003e 'x'\",\"Message\":\"m\",\"MessageExpression\":\"\",\"Reason\":null,\
             \"FieldPath\":\"\",\"OptionalOldSelf\":null}}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > \
             'x'\n | ....^"
        )
    );
}

#[tokio::test]
async fn cel_030_texts_of_the_checker() {
    let cases = [
        ("self.b == 1", "<input>:1:5: undefined field 'b'"),
        ("that == 1", "<input>:1:1: undeclared reference to 'that' (in container '')"),
        ("self.a == 1", "<input>:1:8: found no matching overload for '_==_' applied to '(string, int)'"),
        ("[1, 'a'].size() == 2", "<input>:1:5: expected type 'int' but found 'string'"),
        (
            "self.a ==",
            "<input>:1:10: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("self.a.matches('(')", "<input>:1:16: invalid matches argument"),
        ("duration('x') > duration('1s')", "<input>:1:10: invalid duration argument"),
    ];
    for (rule, expected) in cases {
        let found = definition_errors(spec(json!({"a": {"type": "string"}}), json!([{"rule": rule}]))).await;
        assert!(found.contains(&format!("compilation failed: ERROR: {expected}\n | {rule}\n | ")), "{found}");
    }
}

#[tokio::test]
async fn cel_031_rules_are_boolean_and_messages_are_strings() {
    let refused =
        |rule: Value| async move { definition_errors(spec(json!({"a": {"type": "string"}}), json!([rule]))).await };
    assert!(refused(json!({"rule": "self.a"})).await.ends_with(": cel expression must evaluate to a bool"));
    let found = refused(json!({"rule": "true", "messageExpression": "1"})).await;
    assert!(found.starts_with(&format!("{RULE}.messageExpression: ")), "{found}");
    assert!(found.ends_with(": messageExpression must evaluate to a string"), "{found}");
    let found = refused(json!({"rule": "true", "messageExpression": "self.b"})).await;
    assert!(
        found.contains(": messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'b'"),
        "{found}"
    );
}

#[tokio::test]
async fn cel_032_rules_are_compiled_if_their_schema_is_sound() {
    let properties = json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": " "}]}});
    let found = definition_errors(spec(properties, json!([{"rule": "nonsense("}]))).await;
    assert_eq!(
        found,
        "$.properties[spec].properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
    );
}

#[tokio::test]
async fn cel_042_new_rules_use_what_the_previous_release_had() {
    let properties = || json!({"list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}}});
    let found = definition_errors(spec(properties(), json!([{"rule": "self.list.includes('x')"}]))).await;
    assert!(found.contains("undeclared reference to 'includes' (in container '')"), "{found}");
    let found =
        definition_errors(spec(properties(), json!([{"rule": "authorizer.path('/x').check('get').allowed()"}]))).await;
    assert!(found.contains("undeclared reference to 'authorizer' (in container '')"), "{found}");
}
