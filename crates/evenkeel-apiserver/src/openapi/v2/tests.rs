use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::registry::tests::{custom, with_foo};

const POD: &str = "io.k8s.api.core.v1.Pod";

/// A protobuf field: its number and its content.
type Field<'a> = (u32, &'a [u8]);

/// Reads the fields of a message. Numbers are returned as their bytes.
fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes);
        let length = match tag & 7 {
            0 => rest.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1,
            1 => 8,
            2 => {
                let (length, content) = varint(rest);
                let (content, rest) = content.split_at(length as usize);
                fields.push(((tag >> 3) as u32, content));
                bytes = rest;
                continue;
            }
            other => panic!("wire type {other}"),
        };
        let (content, rest) = rest.split_at(length);
        fields.push(((tag >> 3) as u32, content));
        bytes = rest;
    }
    fields
}

fn varint(bytes: &[u8]) -> (u64, &[u8]) {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (number, rest) = bytes.split_at(length);
    (number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)), rest)
}

/// Returns the content of the only field of this number.
fn field(message: &[u8], number: u32) -> &[u8] {
    let found: Vec<&[u8]> =
        fields(message).into_iter().filter(|(n, _)| *n == number).map(|(_, content)| content).collect();
    assert_eq!(found.len(), 1, "field {number}");
    found[0]
}

/// Reads a map: entries of a name and a value.
fn entries(message: &[u8], number: u32) -> BTreeMap<&str, &[u8]> {
    let entries = fields(message).into_iter().filter(|(n, _)| *n == number);
    entries.map(|(_, entry)| (std::str::from_utf8(field(entry, 1)).unwrap(), field(entry, 2))).collect()
}

fn text(message: &[u8], number: u32) -> &str {
    std::str::from_utf8(field(message, number)).unwrap()
}

/// Returns the extensions of a schema, decoded.
fn extensions(schema: &[u8]) -> BTreeMap<&str, Value> {
    entries(schema, 31).into_iter().map(|(name, any)| (name, serde_json::from_str(text(any, 2)).unwrap())).collect()
}

fn write(registry: &Registry) -> (Value, Vec<u8>) {
    let (json, protobuf) = document::write(registry);
    (serde_json::from_slice(&json).unwrap(), protobuf)
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn oav_001_both_forms_have_the_same_paths_definitions_and_parameters() {
    let (json, protobuf) = write(&with_foo());
    assert_eq!((&json["swagger"], text(&protobuf, 1)), (&json!("2.0"), "2.0"));
    for (member, number, entry) in [("paths", 8, 2), ("definitions", 9, 1), ("parameters", 10, 1)] {
        let encoded: Vec<&str> = entries(field(&protobuf, number), entry).into_keys().collect();
        assert_eq!(keys(&json[member]), encoded, "{member}");
    }
    assert_eq!(json["security"], json!([{"BearerToken": []}]));
}

#[test]
fn oav_001_protobuf_has_what_kubectl_reads_of_a_definition() {
    let (_, protobuf) = write(&with_foo());
    let definitions = entries(field(&protobuf, 9), 1);
    let kind = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
    assert_eq!(extensions(definitions[POD])["x-kubernetes-group-version-kind"], kind);
    let properties = entries(field(definitions["io.k8s.api.core.v1.PodSpec"], 25), 1);
    let containers = properties["containers"];
    assert_eq!(extensions(containers)["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(text(field(containers, 22), 1), "array");
    let item = field(field(containers, 23), 1);
    assert_eq!(text(item, 1), "#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(text(definitions["io.k8s.api.core.v1.PodSpec"], 19), "containers");
    let values = field(field(entries(field(definitions["io.k8s.api.core.v1.ConfigMap"], 25), 1)["data"], 21), 1);
    assert_eq!(text(field(values, 22), 1), "string");
}

#[test]
fn oav_001_protobuf_has_what_kubectl_reads_of_an_operation() {
    let (_, protobuf) = write(&with_foo());
    let paths = entries(field(&protobuf, 8), 2);
    let patch = field(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8);
    let texts = |number| -> Vec<&str> {
        let found = fields(patch).into_iter().filter(|(n, _)| *n == number);
        found.map(|(_, content)| std::str::from_utf8(content).unwrap()).collect()
    };
    assert!(texts(7).contains(&"application/strategic-merge-patch+json"), "{:?}", texts(7));
    // ParametersItem.parameter.non_body_parameter.query_parameter_sub_schema
    let queries: Vec<&str> = fields(patch)
        .into_iter()
        .filter(|(number, _)| *number == 8)
        .filter_map(|(_, item)| fields(item).into_iter().find(|(number, _)| *number == 1))
        .filter_map(|(_, parameter)| fields(parameter).into_iter().find(|(number, _)| *number == 2))
        .map(|(_, parameter)| text(field(parameter, 3), 4))
        .collect();
    assert_eq!(queries, ["dryRun", "fieldValidation"]);
    let kind = text(entries(patch, 13)["x-kubernetes-group-version-kind"], 2);
    assert_eq!(serde_json::from_str::<Value>(kind).unwrap(), json!({"group": "", "version": "v1", "kind": "Pod"}));
    let responses = entries(field(patch, 9), 1);
    let schema = field(field(field(responses["200"], 1), 2), 1);
    assert_eq!(text(schema, 1), format!("#/definitions/{POD}"));
}

#[test]
fn oav_001_every_reference_resolves() {
    let (json, _) = write(&with_foo());
    let text = json.to_string();
    assert!(!text.contains("#/components/"));
    for (prefix, member) in [("\"#/definitions/", "definitions"), ("\"#/parameters/", "parameters")] {
        for rest in text.split(prefix).skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(json[member][name].is_object(), "{name}");
        }
    }
}

#[test]
fn oav_001_built_in_definitions_have_the_words_of_v2_only() {
    let (json, _) = write(&Registry::builtin());
    let definitions = json["definitions"].as_object().unwrap();
    let quantity = &definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(*quantity, json!({"type": "string"}));
    let either = &definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!(*either, json!({"type": "string", "format": "int-or-string"}));
    let metadata = &definitions[POD]["properties"]["metadata"];
    assert_eq!(*metadata, json!({"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}));
    for (name, schema) in definitions {
        for word in ["default", "allOf", "oneOf"] {
            assert!(schema.get(word).is_none(), "{name}");
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (field, property) in properties {
                assert!(property.get(word).is_none(), "{name}.{field}: {word}");
            }
        }
    }
}

#[test]
fn oav_001_the_cached_forms_decompress_to_what_was_written() {
    let registry = with_foo();
    let document = compress(&registry);
    let (json, protobuf) = document::write(&registry);
    assert_eq!(document.json.plain(), json);
    assert_eq!(document.protobuf.plain(), protobuf);
    let kept = document.json.gzip.len() + document.protobuf.gzip.len();
    assert!(kept < 300_000, "{kept} bytes are kept");
}

/// Returns the v2 definition of a custom resource with this schema.
fn reduced(schema: Value) -> Value {
    let mut foo = custom("stable.example.com", "v1", "CronTab", "crontabs");
    std::sync::Arc::get_mut(foo.custom.as_mut().unwrap()).unwrap().published_schema = schema;
    let registry = Registry::builtin().with_definition("crontabs.stable.example.com", vec![foo]);
    let (json, protobuf) = write(&registry);
    assert!(entries(field(&protobuf, 9), 1).contains_key("com.example.stable.v1.CronTab"));
    json["definitions"]["com.example.stable.v1.CronTab"].clone()
}

#[test]
fn oav_002_custom_definitions_lose_what_v2_has_no_word_for() {
    let schema = reduced(json!({
        "type": "object",
        "description": "a CronTab",
        "required": ["spec", "maybe"],
        "properties": {
            "spec": {
                "type": "object",
                "not": {"required": ["x"]},
                "properties": {
                    "replicas": {"type": "integer", "minimum": 1, "default": 3, "anyOf": [{"minimum": 2}]},
                    "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                             "properties": {"hidden": {"type": "string"}}},
                    "openList": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
                                 "items": {"type": "object"}},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
                    "openTemplate": {"type": "object", "x-kubernetes-embedded-resource": true,
                                     "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
        },
    }));
    assert_eq!(schema["description"], "a CronTab");
    assert_eq!(schema["required"], json!(["spec"]));
    assert_eq!(schema["properties"]["maybe"], json!({}));
    let kind = json!([{"group": "stable.example.com", "version": "v1", "kind": "CronTab"}]);
    assert_eq!(schema["x-kubernetes-group-version-kind"], kind);
    let metadata = json!({"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"});
    assert_eq!(schema["properties"]["metadata"], metadata);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec.get("not"), None);
    let fields = &spec["properties"];
    assert_eq!(fields["replicas"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(fields["port"], json!({"x-kubernetes-int-or-string": true}));
    for open in ["open", "openList"] {
        assert_eq!(fields[open], json!({"x-kubernetes-preserve-unknown-fields": true}), "{open}");
    }
    assert_eq!(fields["template"]["properties"]["metadata"], metadata);
    assert_eq!(fields["openTemplate"].get("properties"), None);
}

#[test]
fn oav_002_a_definition_that_allows_any_field_lists_none() {
    let kind = json!([{"group": "stable.example.com", "version": "v1", "kind": "CronTab"}]);
    let bare = json!({"type": "object", "x-kubernetes-group-version-kind": kind});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                      "properties": {"spec": {"type": "object"}}});
    for schema in [Value::Null, open] {
        assert_eq!(reduced(schema), bare);
    }
}
