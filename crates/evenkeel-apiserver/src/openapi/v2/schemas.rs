//! Turns the schemas of OpenAPI v3 into those of v2, which has fewer words.

use serde_json::{Map, Value, json};

use crate::openapi::document::kinds;
use crate::registry::Resource;

/// The prefixes of references in both versions.
const V3_REFERENCE: &str = "#/components/schemas/";
pub(super) const V2_REFERENCE: &str = "#/definitions/";

/// The nesting limit of a schema, which is also that of the JSON parser.
const MAX_DEPTH: usize = 128;

/// Turns a published built-in schema into its v2 form: no defaults, plain references, and `string` for values that are a
/// string or a number.
pub(super) fn reduce_builtin(schema: &mut Value) {
    reduce_builtin_node(schema, MAX_DEPTH);
}

fn reduce_builtin_node(node: &mut Value, depth: usize) {
    let (Value::Object(node), Some(depth)) = (node, depth.checked_sub(1)) else { return };
    node.remove("default");
    if let Some(reference) = node.remove("allOf").as_ref().and_then(|parts| parts.pointer("/0/$ref")) {
        node.insert("$ref".to_owned(), reference.clone());
    }
    if node.remove("oneOf").is_some() {
        node.insert("type".to_owned(), "string".into());
    }
    if let Some(name) = node.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(V3_REFERENCE)) {
        let reference = format!("{V2_REFERENCE}{name}");
        node.insert("$ref".to_owned(), reference.into());
    }
    each_child(node, |child| reduce_builtin_node(child, depth));
}

/// Returns the v2 schema of a custom resource (OAV-002).
pub(super) fn custom(resource: &Resource, published: &Value) -> Value {
    let mut schema = Map::new();
    match published {
        // kubectl would take any listed field for the only ones that are allowed.
        Value::Object(published) if !preserves_unknown_fields(published) => {
            schema = published.clone();
            reduce_custom_node(&mut schema, MAX_DEPTH);
            complete_embedded(&mut schema, MAX_DEPTH);
            complete(&mut schema);
        }
        _ => {}
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds(resource, &resource.kind));
    Value::Object(schema)
}

/// Removes what v2 has no word for, and types that kubectl's reader of v2 does not support.
fn reduce_custom_node(node: &mut Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for word in ["allOf", "oneOf", "anyOf", "not", "default"] {
        node.remove(word);
    }
    let nullable = is_nullable(node);
    node.remove("nullable");
    let open = preserves_unknown_fields(node);
    if nullable || open {
        node.remove("items");
        node.remove("properties");
    }
    let lists_without_items = node.get("type").is_some_and(|name| name == "array") && !node.contains_key("items");
    let open_object = open && node.get("type").is_some_and(|name| name == "object");
    if nullable || lists_without_items || open_object {
        node.remove("type");
    }
    drop_nullable_from_required(node);
    each_child(node, |child| {
        if let Value::Object(child) = child {
            reduce_custom_node(child, depth);
        }
    });
}

/// A field that may be null counts as absent.
fn drop_nullable_from_required(node: &mut Map<String, Value>) {
    let child_is_nullable = |child: &Value| child.as_object().is_some_and(is_nullable);
    if node.get("additionalProperties").is_some_and(child_is_nullable) {
        node.remove("required");
    }
    let Some(Value::Object(properties)) = node.get("properties") else { return };
    let nullable: Vec<String> =
        properties.iter().filter(|(_, child)| child_is_nullable(child)).map(|(name, _)| name.clone()).collect();
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
        if required.is_empty() {
            node.remove("required");
        }
    }
}

fn is_nullable(node: &Map<String, Value>) -> bool {
    node.get("nullable") == Some(&Value::Bool(true))
}

fn preserves_unknown_fields(node: &Map<String, Value>) -> bool {
    node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// Adds the fields that every object has.
fn complete(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties.insert("metadata".to_owned(), reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    }
}

/// Completes the embedded objects, except those that may have any field.
fn complete_embedded(schema: &mut Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    each_child(schema, |child| {
        let Value::Object(child) = child else { return };
        complete_embedded(child, depth);
        if child.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) && !preserves_unknown_fields(child) {
            complete(child);
        }
    });
}

/// Returns the schema of a custom resource's list.
pub(super) fn custom_list(resource: &Resource, item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"),
            "items": {"type": "array", "items": reference(item)},
        },
        "x-kubernetes-group-version-kind": kinds(resource, &resource.list_kind),
    })
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{V2_REFERENCE}{name}")})
}

/// Visits the schemas directly below a schema.
fn each_child(node: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(&mut visit);
    }
    for key in ["items", "additionalProperties"] {
        node.get_mut(key).into_iter().for_each(&mut visit);
    }
}
