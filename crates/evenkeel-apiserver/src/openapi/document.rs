//! The document of one group version: its paths, and all schemas that they reference.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use super::operations::{PathItem, paths};
use crate::registry::{Resource, Version};

static FACTS: &str = include_str!("../../data/openapi-schemas-1.37.json");

/// The published schemas by name, as text: documents copy them verbatim.
static SCHEMAS: LazyLock<HashMap<&'static str, &'static RawValue>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the facts are part of the program, and a test reads them")]
    serde_json::from_str(FACTS).expect("the embedded OpenAPI facts are valid")
});

const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

#[derive(Serialize)]
struct Text<'a> {
    openapi: &'static str,
    info: Info,
    paths: BTreeMap<String, PathItem<'a>>,
    components: Components<'a>,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Components<'a> {
    schemas: BTreeMap<&'a str, &'a RawValue>,
}

/// Writes the document of a group version (DIS-14, DIS-15).
pub(super) fn write(version: &Version, descriptions: Option<&Descriptions>) -> Vec<u8> {
    let custom = custom_schemas(version, descriptions);
    let paths = paths(version);
    let mut wanted = BTreeSet::new();
    for item in paths.values() {
        wanted.extend(item.schemas());
    }
    let mut schemas = reachable(&wanted, &custom);
    let described = descriptions.map(|descriptions| describe(&schemas, descriptions)).unwrap_or_default();
    schemas.extend(described.iter().map(|(name, schema)| (*name, &**schema)));
    let document = Text {
        openapi: "3.0.0",
        info: Info { title: "Kubernetes", version: "v1.37.0" },
        components: Components { schemas },
        paths,
    };
    serde_json::to_vec(&document).unwrap_or_default()
}

/// Returns the built-in schemas with their descriptions. Custom schemas have theirs already.
fn describe<'a>(
    schemas: &BTreeMap<&'a str, &'a RawValue>,
    descriptions: &Descriptions,
) -> BTreeMap<&'a str, Box<RawValue>> {
    let builtin = schemas.iter().filter(|(name, _)| is_published(name));
    builtin
        .filter_map(|(name, schema)| {
            let mut schema = serde_json::from_str(schema.get()).ok()?;
            descriptions.add_to(name, &mut schema);
            Some((*name, to_raw_value(&schema).ok()?))
        })
        .collect()
}

/// Returns the schemas of these names and, transitively, all that they reference.
fn reachable<'a>(
    wanted: &BTreeSet<&str>,
    custom: &'a BTreeMap<String, Box<RawValue>>,
) -> BTreeMap<&'a str, &'a RawValue> {
    let mut found: BTreeMap<&'a str, &'a RawValue> = BTreeMap::new();
    let find = |name: &str| -> Option<(&'a str, &'a RawValue)> {
        match custom.get_key_value(name) {
            Some((name, schema)) => Some((name, schema)),
            None => SCHEMAS.get_key_value(name).map(|(name, schema)| (*name, *schema)),
        }
    };
    let mut open: Vec<(&'a str, &'a RawValue)> = wanted.iter().filter_map(|name| find(name)).collect();
    while let Some((name, schema)) = open.pop() {
        if found.insert(name, schema).is_none() {
            let referred = references(schema.get()).filter(|name| !found.contains_key(name));
            open.extend(referred.filter_map(find));
        }
    }
    found
}

/// Returns the names that a schema's text references.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split(REFERENCE).skip(1).filter_map(|rest| rest.split_once('"').map(|(name, _)| name))
}

/// Returns the name of a kind's schema in a document: custom groups are reversed, like Java packages.
pub(super) fn schema_name(resource: &Resource) -> String {
    match &resource.schema {
        Some(crate::registry::SchemaHandle::Builtin(schema)) => schema.id().to_owned(),
        _ => {
            let labels: Vec<&str> = resource.group.rsplit('.').collect();
            format!("{}.{}.{}", labels.join("."), resource.version, resource.kind)
        }
    }
}

/// Returns whether a built-in schema of this name exists.
pub(super) fn is_published(name: &str) -> bool {
    SCHEMAS.contains_key(name)
}

/// Returns the built-in schemas, sorted by name.
pub(super) fn published_schemas() -> BTreeMap<&'static str, &'static RawValue> {
    SCHEMAS.iter().map(|(name, schema)| (*name, *schema)).collect()
}

fn custom_schemas(version: &Version, descriptions: Option<&Descriptions>) -> BTreeMap<String, Box<RawValue>> {
    let mut schemas = BTreeMap::new();
    for resource in &version.resources {
        let Some(facts) = &resource.custom else { continue };
        let name = schema_name(resource);
        let mut object = object_schema(resource, &facts.published_schema);
        let mut list = list_schema(resource, &name);
        if let Some(descriptions) = descriptions {
            descriptions.add_common_to(&mut object);
            descriptions.add_common_to(&mut list);
        }
        for (name, schema) in [(format!("{name}List"), list), (name, object)] {
            if let Ok(schema) = to_raw_value(&schema) {
                schemas.insert(name, schema);
            }
        }
    }
    schemas
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

pub(super) fn kinds(resource: &Resource, kind: &str) -> Value {
    json!([{"group": resource.group, "version": resource.version, "kind": kind}])
}

/// Returns a custom schema as published, with the fields that every object has (DIS-15).
fn object_schema(resource: &Resource, published: &Value) -> Value {
    let mut schema = match published {
        Value::Object(schema) => schema.clone(),
        _ => Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), true.into())]),
    };
    complete_embedded(&mut schema, MAX_DEPTH);
    complete(&mut schema);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds(resource, &resource.kind));
    Value::Object(schema)
}

/// Adds the fields that every object has, which definitions omit.
fn complete(schema: &mut Map<String, Value>) {
    schema.insert("type".to_owned(), "object".into());
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties.insert("metadata".to_owned(), json!({"allOf": [reference(&format!("{META}ObjectMeta"))]}));
    }
}

/// The depth limit of the search for embedded objects, which is also that of the JSON parser.
const MAX_DEPTH: usize = 128;

/// Completes the embedded objects, which are marked as such.
fn complete_embedded(schema: &mut Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let mut visit = |node: &mut Value| {
        let Value::Object(node) = node else { return };
        complete_embedded(node, depth);
        if node.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            complete(node);
        }
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(&mut visit);
    }
    for key in ["items", "additionalProperties"] {
        schema.get_mut(key).into_iter().for_each(&mut visit);
    }
}

fn list_schema(resource: &Resource, item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(&format!("{META}ListMeta"))]},
            "items": {"type": "array", "items": reference(item)},
        },
        "x-kubernetes-group-version-kind": kinds(resource, &resource.list_kind),
    })
}
