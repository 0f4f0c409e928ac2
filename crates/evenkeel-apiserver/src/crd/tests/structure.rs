use serde_json::{Value, json};

use super::{decoded, foos, refused};
use crate::crd::admit;

/// Returns the errors of admission for a schema of `spec`, without the common prefix of the paths.
fn schema_faults(schema: Value) -> Vec<String> {
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let prefix = "spec.validation.openAPIV3Schema.properties[spec]";
    refused(pointer, schema).into_iter().map(|text| text.replace(&format!("{prefix}."), "")).collect()
}

#[test]
fn crd_5_types_are_required() {
    assert_eq!(
        schema_faults(json!({"properties": {"a": {}, "l": {"type": "array", "items": {}}, "m": {"type": "array"},
            "i": {"x-kubernetes-int-or-string": true}, "p": {"x-kubernetes-preserve-unknown-fields": true}}})),
        [
            "properties[a].type: Required value: must not be empty for specified object fields",
            "properties[l].items.type: Required value: must not be empty for specified array items",
            "properties[m].items: Required value: must be specified",
            "type: Required value: must not be empty for specified object fields",
        ]
    );
    assert_eq!(
        refused("/spec/versions/0/schema/openAPIV3Schema", json!({"type": "string"})),
        [
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": only \"object\" is allowed as the \
             type at the root of the schema if the status subresource is enabled",
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ]
    );
    assert_eq!(
        schema_faults(json!({"type": "text"})),
        ["type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \
          \"object\", \"string\""]
    );
}

#[test]
fn crd_5_nothing_structural_inside_junctors() {
    assert_eq!(
        schema_faults(json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [
            {"type": "object", "description": "d", "properties": {"a": {"default": "x"}}},
            {"properties": {"b": {"minLength": 1}}}]})),
        [
            "anyOf[0].description: Forbidden: must be empty to be structural",
            "anyOf[0].properties[a].default: Forbidden: must be undefined to be structural",
            "anyOf[0].type: Forbidden: must be empty to be structural",
        ]
    );
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let good = json!({"type": "object", "properties": {
        "a": {"x-kubernetes-int-or-string": true, "anyOf": either},
        "b": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"pattern": "^a"}]}}});
    assert_eq!(schema_faults(good), [""; 0]);
    let root = "/spec/versions/0/schema/openAPIV3Schema";
    assert_eq!(
        refused(
            root,
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {},
            "not": {"properties": {"x": {"minimum": 1}}}})
        ),
        [
            "spec.validation.openAPIV3Schema: Invalid value: {\"not\":{\"properties\":{\"x\":{\"minimum\":1}}},\
          \"properties\":{},\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}: only [Description Type \
          Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems \
          UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] \
          fields are allowed at the root of the schema if the status subresource is enabled",
            "spec.validation.openAPIV3Schema.properties[x]: Required value: because it is defined in \
          spec.validation.openAPIV3Schema.not.properties[x]"
        ]
    );
}

#[test]
fn crd_5_metadata_may_restrict_the_name_alone() {
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let place = "spec.validation.openAPIV3Schema.properties";
    assert!(
        refused(pointer, json!({"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}))
            .is_empty()
    );
    assert_eq!(
        refused(pointer, json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
        [format!(
            "{place}[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata \
                  is implicitly specified"
        )]
    );
    assert_eq!(
        refused(pointer, json!({"kind": {"type": "string", "default": "x"}})),
        [format!("{place}[kind].default: Forbidden: must not be set in top-level kind")]
    );
}

#[test]
fn crd_5_properties_exclude_additional_properties() {
    assert_eq!(
        schema_faults(json!({"type": "object", "properties": {"a": {"type": "string"}},
            "additionalProperties": {"type": "string"}})),
        ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"]
    );
    let root = "/spec/versions/0/schema/openAPIV3Schema/additionalProperties";
    let mut definition = decoded(foos());
    definition["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources");
    *definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").unwrap() =
        json!({"type": "object", "additionalProperties": {"type": "string"}});
    assert!(definition.pointer(root).is_some());
    let errors: Vec<String> = admit::create(&mut definition).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"]
    );
}

#[test]
fn crd_5_lists_of_maps_need_keys() {
    let list = |more: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object",
            "required": ["k"], "properties": {"k": {"type": "string"}, "o": {"type": "string"}}}});
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema_faults(json!({"type": "object", "properties": {"l": list}}))
            .into_iter()
            .map(|text| text.replace("properties[l].", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(list(json!({"x-kubernetes-list-map-keys": ["k"]})), [""; 0]);
    assert_eq!(
        list(json!({})),
        ["x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"]
    );
    assert_eq!(
        list(json!({"x-kubernetes-list-map-keys": ["z"]})),
        ["x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties"]
    );
    assert_eq!(
        list(json!({"x-kubernetes-list-map-keys": ["o"]})),
        [
            "items.properties[o].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have \
          a default or be a required property"
        ]
    );
    assert_eq!(
        list(json!({"x-kubernetes-list-type": "bag"})),
        ["x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\""]
    );
    assert_eq!(
        list(json!({"x-kubernetes-list-type": "set"})),
        ["items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with \
          x-kubernetes-list-type=set"]
    );
}

#[test]
fn crd_5_embedded_resources_are_objects() {
    assert_eq!(
        schema_faults(json!({"type": "object", "properties": {
            "a": {"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "b": {"type": "object", "x-kubernetes-embedded-resource": true}}})),
        [
            "properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
            "properties[b].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true \
             without x-kubernetes-preserve-unknown-fields",
        ]
    );
}

#[test]
fn crd_5_patterns_and_defaults_are_checked() {
    let faults = schema_faults(json!({"type": "string", "pattern": "("}));
    assert!(faults[0].starts_with("pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: "));
    assert_eq!(
        schema_faults(json!({"type": "object", "properties": {
            "n": {"type": "integer", "maximum": 3, "default": 4},
            "o": {"type": "object", "default": {"z": 1}, "properties": {"a": {"type": "string"}}}}})),
        [
            "properties[n].default: Invalid value: 4:  in body should be less than or equal to 3",
            "properties[o].default: Invalid value: {\"z\":1}: must not have unknown fields",
        ]
    );
}

#[test]
fn crd_5_keywords_that_are_not_supported() {
    assert_eq!(
        schema_faults(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"},
            "additionalItems": {"type": "string"}, "definitions": {"a": {}}})),
        [
            "additionalItems: Forbidden: additionalItems is not supported",
            "definitions: Forbidden: definitions is not supported",
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ]
    );
}

#[test]
fn a_schema_too_deep_is_rejected() {
    let mut schema = json!({"type": "string"});
    for _ in 0..300 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let pointer = "/spec/versions/0/schema/openAPIV3Schema";
    let errors = refused(pointer, schema);
    assert_eq!(
        errors,
        ["spec.validation.openAPIV3Schema: Invalid value: \"\": the schema nests deeper than 128 levels"]
    );
}
