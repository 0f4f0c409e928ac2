use serde_json::{Value, json};

use super::super::*;
use super::{builtin, errors, structural};

/// The schema of `Foo` in the recorded scenario.
fn foo() -> Schema {
    structural(json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["deploymentName"], "properties": {
            "deploymentName": {"type": "string", "minLength": 1},
            "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 10},
        }},
        "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}},
    }}))
}

/// Checks one field `x` of the given schema.
fn field_errors(schema: Value, value: Value) -> Vec<String> {
    let schema = structural(json!({"type": "object", "properties": {"x": schema}}));
    errors(&schema, &json!({"x": value}))
}

#[test]
fn crd_7_defaults_fill_absent_fields() {
    let schema = structural(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "string", "default": "y", "nullable": true},
        "c": {"type": "string"},
        "nested": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 3}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"e": {"type": "boolean", "default": true}}}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "default": "z"}},
    }}}}));
    let mut value = json!({"metadata": {"x": null}, "spec":
        {"a": null, "b": null, "c": null, "list": [{}, {"e": false}], "map": {"k": null}}});
    schema.drop_nulls(&mut value);
    schema.apply_defaults(&mut value).unwrap();
    assert_eq!(
        value["spec"],
        json!({"a": "x", "b": null, "nested": {"d": 3}, "list": [{"e": true}, {"e": false}], "map": {"k": "z"}})
    );
    let mut empty = json!({});
    schema.apply_defaults(&mut empty).unwrap();
    assert_eq!(empty, json!({}), "defaults do not reach into what is not there");
}

#[test]
fn crd_8_texts_of_the_recorded_scenario() {
    let schema = foo();
    let check = |spec: Value| errors(&schema, &json!({"apiVersion": "g/v1", "kind": "Foo", "spec": spec}));
    assert_eq!(check(json!({})), ["spec.deploymentName: Required value"]);
    assert_eq!(
        check(json!({"deploymentName": ""})),
        ["spec.deploymentName: Invalid value: \"\": spec.deploymentName in body should be at least 1 chars long"]
    );
    assert_eq!(
        check(json!({"deploymentName": "d", "replicas": 99})),
        ["spec.replicas: Invalid value: 99: spec.replicas in body should be less than or equal to 10"]
    );
    assert_eq!(
        check(json!({"deploymentName": "d", "replicas": "two"})),
        ["spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\""]
    );
    let faults = schema.validate(&json!({"spec": {"deploymentName": "d", "replicas": "two"}}));
    assert_eq!(faults[0].fault, crate::field::FieldFault::TypeInvalid);
    assert!(check(json!({"deploymentName": "d", "replicas": 3.0})).is_empty());
}

#[test]
fn crd_8_keywords_of_strings() {
    let x = field_errors;
    assert_eq!(
        x(json!({"type": "string", "enum": ["a", "b"]}), json!("x")),
        ["x: Unsupported value: \"x\": supported values: \"a\", \"b\""]
    );
    assert_eq!(
        x(json!({"type": "string", "maxLength": 2}), json!("äöü")),
        ["x: Too long: may not be more than 2 bytes"]
    );
    assert_eq!(
        x(json!({"type": "string", "pattern": "^a+$"}), json!("b")),
        ["x: Invalid value: \"b\": x in body should match '^a+$'"]
    );
    assert!(x(json!({"type": "string", "pattern": "^a+$"}), json!("aa")).is_empty());
    assert_eq!(
        x(json!({"type": "string", "format": "date-time"}), json!("soon")),
        ["x: Invalid value: \"soon\": x in body must be of type date-time: \"soon\""]
    );
    assert!(x(json!({"type": "string", "format": "no-such"}), json!("soon")).is_empty());
    assert_eq!(
        x(json!({"type": "string"}), Value::Null),
        ["x: Invalid value: \"null\": x in body must be of type string: \"null\""]
    );
    assert!(x(json!({"type": "string", "nullable": true}), Value::Null).is_empty());
}

#[test]
fn crd_8_keywords_of_numbers() {
    let x = field_errors;
    assert_eq!(
        x(json!({"type": "integer", "minimum": 1}), json!(0)),
        ["x: Invalid value: 0: x in body should be greater than or equal to 1"]
    );
    assert_eq!(
        x(json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}), json!(1.5)),
        ["x: Invalid value: 1.5: x in body should be less than 1.5"]
    );
    assert_eq!(
        x(json!({"type": "integer", "multipleOf": 3}), json!(4)),
        ["x: Invalid value: 4: x in body should be a multiple of 3"]
    );
    assert!(x(json!({"type": "number", "multipleOf": 0.5}), json!(1.5)).is_empty());
    assert_eq!(
        x(json!({"type": "integer", "format": "int32"}), json!(5_000_000_000u64)),
        ["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x"]
    );
    let either = json!({"x-kubernetes-int-or-string": true});
    assert!(x(either.clone(), json!(1)).is_empty());
    assert!(x(either.clone(), json!("50%")).is_empty());
    assert_eq!(
        x(either, json!(true)),
        ["x: Invalid value: \"boolean\": x in body must be of type integer,string: \"boolean\""]
    );
}

#[test]
fn crd_8_keywords_of_lists_and_objects() {
    let x = field_errors;
    let list = |more: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    assert_eq!(
        x(list(json!({"minItems": 1})), json!([])),
        ["x: Invalid value: 0: x in body should have at least 1 items"]
    );
    assert_eq!(x(list(json!({"maxItems": 1})), json!(["a", "b"])), ["x: Too many: 2: must have at most 1 items"]);
    assert_eq!(
        x(list(json!({})), json!(["a", 1])),
        ["x[1]: Invalid value: \"integer\": x[1] in body must be of type string: \"integer\""]
    );
    assert_eq!(
        x(list(json!({"x-kubernetes-list-type": "set"})), json!(["a", "b", "a", "a"])),
        ["x[2]: Duplicate value: \"a\""]
    );
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}});
    assert_eq!(
        x(map, json!([{"k": "a", "v": 1}, {"k": "b"}, {"k": "a", "v": 2}])),
        ["x[2]: Duplicate value: {\"k\":\"a\"}"]
    );
    let object = json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}});
    assert_eq!(x(object.clone(), json!({})), ["x: Invalid value: 0: x in body should have at least 1 properties"]);
    assert_eq!(
        x(object, json!({"k": "v"})),
        ["x.k: Invalid value: \"string\": x.k in body must be of type integer: \"string\""]
    );
}

#[test]
fn crd_8_junctors() {
    let x = field_errors;
    let either = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert!(x(either.clone(), json!({"a": ""})).is_empty());
    assert_eq!(
        x(either.clone(), json!({"a": "", "b": ""})),
        ["<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found 2 valid alternatives"]
    );
    assert_eq!(
        x(either, json!({})),
        [
            "<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found none valid",
            "x.a: Required value",
        ]
    );
    assert_eq!(
        x(json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 10}]}), json!(5)),
        [
            "<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
            "x: Invalid value: 5: x in body should be less than or equal to 1",
        ]
    );
    assert_eq!(
        x(json!({"type": "string", "allOf": [{"minLength": 1}, {"pattern": "^a"}]}), json!("b")),
        [
            "x: Invalid value: \"b\": x in body should match '^a'",
            "<nil>: Invalid value: \"\": \"x\" must validate all the schemas (allOf)",
        ]
    );
    assert_eq!(
        x(json!({"type": "string", "not": {"enum": ["no"]}}), json!("no")),
        ["<nil>: Invalid value: \"\": \"x\" must not validate the schema (not)"]
    );
}

#[test]
fn crd_8_embedded_resources_need_kind_and_version() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        field_errors(schema.clone(), json!({"kind": "", "metadata": {"name": "n"}})),
        ["x.apiVersion: Required value", "x.kind: Invalid value: \"\": must not be empty",]
    );
    assert!(field_errors(schema, json!({"apiVersion": "v1", "kind": "Pod", "spec": {}})).is_empty());
}

#[test]
fn crd_8_formats() {
    for (format, good, bad) in [
        ("date", "2026-01-31", "2026-02-31"),
        ("date-time", "2026-01-01T00:00:00.5Z", "2026-01-01"),
        ("duration", "1h30m", "soon"),
        ("duration", "22 ns", "22 parsecs"),
        ("uuid", "4dd5ebd8-7f4a-4b32-9c4d-0d8a1f2f1d11", "4dd5ebd8"),
        ("uuid4", "4dd5ebd8-7f4a-4b32-9c4d-0d8a1f2f1d11", "4dd5ebd8-7f4a-3b32-9c4d-0d8a1f2f1d11"),
        ("uri", "https://example.com/x", "not a uri"),
        ("email", "Ada <ada@example.com>", "ada"),
        ("hostname", "a-b.example.com", "-a.example.com"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "01:23:45:67:89:ab", "01:23:45"),
        ("byte", "AAEC", "!!!"),
        ("hexcolor", "#ff00aa", "#ff00a"),
        ("rgbcolor", "rgb(1, 2, 255)", "rgb(1,2,256)"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "111-11-1111", "111-11-111"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a-b.c", "A.b"),
    ] {
        assert!(is_known_format(format));
        assert!(formats::accepts(format, good), "{format} {good}");
        assert!(!formats::accepts(format, bad), "{format} {bad}");
    }
    assert!(!is_known_format("semver"));
}

#[test]
fn crd_9_unknown_fields_are_pruned() {
    let schema = structural(json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string"}}}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }},
    }}));
    let mut value = json!({"apiVersion": "g/v1", "kind": "Foo", "metadata": {"labels": {"a": "b"}}, "extra": 1, "spec": {
        "known": "k", "bogus": 1, "open": {"any": {"thing": 1}, "strict": {"a": "", "z": 1}},
        "map": {"k": {"b": "", "z": 1}}, "list": [{"c": ""}, {"z": 1}],
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {"z": 1}, "z": 1},
    }});
    assert_eq!(
        schema.prune(&mut value),
        [
            "extra",
            "spec.bogus",
            "spec.embedded.spec.z",
            "spec.embedded.z",
            "spec.list[1].z",
            "spec.map.k.z",
            "spec.open.strict.z",
        ]
    );
    assert_eq!(
        value,
        json!({"apiVersion": "g/v1", "kind": "Foo", "metadata": {"labels": {"a": "b"}}, "spec": {
            "known": "k", "open": {"any": {"thing": 1}, "strict": {"a": ""}},
            "map": {"k": {"b": ""}}, "list": [{"c": ""}, {}],
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {}},
        }})
    );
    assert!(schema.prune(&mut value).is_empty());
}

#[test]
fn custom_metadata_merges_like_any_other() {
    let metadata = foo();
    let metadata = metadata.field("metadata").unwrap();
    assert_eq!(metadata.field("ownerReferences").unwrap().list_type(), ListType::Map(&["uid".to_owned()]));
    let restricted = structural(json!({"type": "object", "properties":
        {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}}}}));
    assert!(restricted.field("metadata").unwrap().field("labels").is_some());
    assert_eq!(
        errors(&restricted, &json!({"metadata": {"name": "long"}})),
        ["metadata.name: Too long: may not be more than 2 bytes"]
    );
}

#[test]
fn schemas_that_nest_too_deep_are_refused() {
    let mut schema = json!({"type": "object"});
    for _ in 0..200 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    assert_eq!(Schema::structural(&schema).unwrap_err(), SchemaFault::TooDeep);
    assert_eq!(Schema::structural(&json!(1)).unwrap_err(), SchemaFault::NotAnObject);
    let props = builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let fault = props.decode_builtin(&mut schema).unwrap_err();
    assert!(fault.to_string().ends_with("nests deeper than 128 levels"));
}

#[test]
fn patterns_are_bounded() {
    assert!(pattern_bytes("^[a-z]+$").is_ok());
    assert!(pattern_bytes("(").is_err());
    assert!(pattern_bytes("((a{1000}){1000}){1000}").is_err());
}

#[test]
fn crd_12_faults_of_unchanged_values_are_tolerated() {
    let schema = structural(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "b": {"type": "string", "maxLength": 1},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
            {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 1}},
    }}}}));
    let check = |old: Value, new: Value| -> Vec<String> {
        schema.validate_update(&json!({"spec": new}), &json!({"spec": old})).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(json!({"a": "long"}), json!({"a": "long", "b": "x"})), [""; 0]);
    assert_eq!(check(json!({"a": "long"}), json!({"a": "longer"})), ["spec.a: Too long: may not be more than 1 bytes"]);
    assert_eq!(
        check(json!({"l": [{"k": "x", "v": 5}]}), json!({"l": [{"k": "y", "v": 6}, {"k": "x", "v": 5}]})),
        ["spec.l[0].v: Invalid value: 6: spec.l[0].v in body should be less than or equal to 1"]
    );
    assert_eq!(check(json!({"s": ["a", "a"]}), json!({"s": ["a", "a", "b"]})), [""; 0]);
    assert_eq!(check(json!({"s": ["a"]}), json!({"s": ["a", "a"]})), ["spec.s[1]: Duplicate value: \"a\""]);
}

#[test]
fn crd_8_extremes_do_not_overflow() {
    let integer = |keyword: &str, value: Value, number: i64| {
        let mut schema = json!({"type": "integer"});
        schema[keyword] = value;
        field_errors(schema, json!(number)).len()
    };
    assert_eq!(integer("multipleOf", json!(-1), i64::MIN), 1);
    assert_eq!(integer("multipleOf", json!(0), 0), 1);
    assert_eq!(integer("multipleOf", json!(1), i64::MIN), 0);
    assert_eq!(integer("maximum", json!(1e300), i64::MAX), 0);
    assert_eq!(integer("minimum", json!(-1e300), i64::MIN), 0);
    let digits = "9".repeat(200_000);
    for format in ["isbn", "creditcard", "ssn", "uuid", "duration", "cidr", "date-time"] {
        assert!(!formats::accepts(format, &digits), "{format}");
    }
}
