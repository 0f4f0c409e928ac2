//! For any schema and any value, the passes terminate, do not panic, and are idempotent.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "spec", "status"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["apiVersion", "kind", "metadata"]).prop_map(str::to_owned),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-10i64..10).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c0-9:.µ -]{0,6}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// A keyword with a suitable value.
fn keyword() -> impl Strategy<Value = (&'static str, Value)> {
    let format = prop::sample::select(vec![
        "date",
        "date-time",
        "duration",
        "uuid4",
        "uri",
        "email",
        "hostname",
        "cidr",
        "mac",
        "byte",
        "int32",
        "isbn",
        "creditcard",
        "k8s-long-name",
        "no-such",
    ]);
    prop_oneof![
        (-5.0..5.0f64).prop_map(|bound| ("minimum", json!(bound))),
        (-5i64..5).prop_map(|bound| ("maximum", json!(bound))),
        (-2i64..4).prop_map(|factor| ("multipleOf", json!(factor))),
        (0u64..4).prop_map(|limit| ("minLength", json!(limit))),
        (0u64..4).prop_map(|limit| ("maxLength", json!(limit))),
        (0u64..4).prop_map(|limit| ("maxItems", json!(limit))),
        (0u64..4).prop_map(|limit| ("minProperties", json!(limit))),
        "[a-c()*+?]{0,4}".prop_map(|pattern| ("pattern", json!(pattern))),
        format.prop_map(|format| ("format", json!(format))),
        vec(scalar(), 1..3).prop_map(|choices| ("enum", Value::from(choices))),
        vec(key(), 1..3).prop_map(|names| ("required", json!(names))),
        any::<bool>().prop_map(|flag| ("nullable", json!(flag))),
        any::<bool>().prop_map(|flag| ("x-kubernetes-preserve-unknown-fields", json!(flag))),
        any::<bool>().prop_map(|flag| ("x-kubernetes-embedded-resource", json!(flag))),
        Just(("x-kubernetes-list-type", json!("set"))),
        Just(("additionalProperties", json!(true))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["object", "object", "array", "string", "integer", "number", "boolean"]);
    let leaf = (kind, vec(keyword(), 0..3)).prop_map(|(kind, keywords)| {
        let mut schema = Map::from_iter([("type".to_owned(), json!(kind))]);
        schema.extend(keywords.into_iter().map(|(key, value)| (key.to_owned(), value)));
        Value::Object(schema)
    });
    leaf.prop_recursive(5, 40, 4, |inner| {
        let object = (btree_map(key(), inner.clone(), 0..4), vec(keyword(), 0..3));
        let branch = (vec(inner.clone(), 1..3), inner.clone());
        prop_oneof![
            object.prop_map(|(properties, keywords)| {
                let mut schema = Map::from_iter([
                    ("type".to_owned(), json!("object")),
                    ("properties".to_owned(), Value::Object(properties.into_iter().collect())),
                ]);
                schema.extend(keywords.into_iter().map(|(key, value)| (key.to_owned(), value)));
                Value::Object(schema)
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            branch.prop_map(|(parts, not)| json!({"type": "object", "anyOf": parts, "oneOf": parts, "not": not})),
            (inner, value()).prop_map(|(mut schema, default)| {
                schema["default"] = default;
                schema
            }),
        ]
    })
}

fn strip_defaults(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            entries.remove("default");
            entries.values_mut().for_each(strip_defaults);
        }
        Value::Array(parts) => parts.iter_mut().for_each(strip_defaults),
        _ => {}
    }
}

fn admission_faults(schema: &Value) -> Vec<crate::field::FieldError> {
    let mut definition = json!({"metadata": {"name": "a.b.c"}, "spec": {
        "group": "b.c",
        "names": {"plural": "a", "kind": "A"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
    }});
    crate::crd::admit::create(&mut definition)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn crd_9_pruning_is_idempotent(schema in schema(), mut value in value()) {
        let schema = Schema::structural(&schema).unwrap();
        schema.prune(&mut value);
        let once = value.clone();
        prop_assert_eq!(schema.prune(&mut value), Vec::<String>::new());
        prop_assert_eq!(value, once);
    }

    #[test]
    fn crd_7_defaulting_is_idempotent(schema in schema(), mut value in value()) {
        let schema = Schema::structural(&schema).unwrap();
        schema.drop_nulls(&mut value);
        schema.apply_defaults(&mut value).unwrap();
        let once = value.clone();
        schema.apply_defaults(&mut value).unwrap();
        prop_assert_eq!(value, once);
    }

    #[test]
    fn crd_8_validation_accepts_any_json(schema in schema(), value in value()) {
        let schema = Schema::structural(&schema).unwrap();
        for error in schema.validate(&value) {
            prop_assert!(!error.field.is_empty());
        }
    }

    #[test]
    fn crd_6_preparing_a_custom_resource_is_idempotent(mut schema in schema(), mut value in value()) {
        // Only admission ensures that defaults survive pruning.
        strip_defaults(&mut schema);
        let schema = Schema::structural(&schema).unwrap();
        if crate::crd::prepare(&schema, &mut value).is_ok() {
            let once = value.clone();
            crate::crd::prepare(&schema, &mut value).unwrap();
            prop_assert_eq!(value, once);
        }
    }

    #[test]
    fn crd_5_admission_handles_any_schema(schema in schema()) {
        admission_faults(&schema);
    }

    #[test]
    fn dry_5_decoding_handles_any_json(mut value in value()) {
        for id in ["io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.Event",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"]
        {
            let schema = Schema::builtin(id).unwrap();
            if schema.decode_builtin(&mut value).is_ok() {
                schema.validate_builtin(&value);
            }
        }
    }

    #[test]
    fn json_reads_what_serde_reads(value in value()) {
        let parsed = json::parse(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(parsed.value, serde_json::from_str::<Value>(&value.to_string()).unwrap());
        prop_assert!(parsed.duplicates.is_empty());
    }

    #[test]
    fn json_and_go_agree_on_what_is_json(text in r#"[]\[{}:,"a0-9.eE+ \\utrlsfn-]{0,12}"#) {
        let read = json::parse(text.as_bytes()).is_ok();
        let found = crate::go_json::syntax_error(text.as_bytes());
        prop_assert!(found.is_none() || !read, "{} {:?}", text, found);
        // Only serde_json rejects lone surrogates and numbers out of range.
        let may_differ = text.contains("\\u") || text.contains(['e', 'E']);
        prop_assert!(found.is_some() || read || may_differ, "{}", text);
    }

    #[test]
    fn times_settle_in_one_round(text in "[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](Z|\\+0[0-9]:00)") {
        if let Ok(once) = time::canonical(&text, false) {
            prop_assert_eq!(time::canonical(&once, false), Ok(once));
        }
    }
}
