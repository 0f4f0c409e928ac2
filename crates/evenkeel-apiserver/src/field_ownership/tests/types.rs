//! A schema for tests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::super::FieldTypes;
use crate::schema::ListType;

/// A schema in OpenAPI's form, with the keywords that field ownership reads.
#[derive(Debug, Default)]
pub(super) struct Types {
    properties: BTreeMap<String, Types>,
    values: Option<Box<Types>>,
    items: Option<Box<Types>>,
    list_type: String,
    list_keys: Vec<String>,
    atomic_map: bool,
    default: Option<Value>,
}

impl Types {
    pub(super) fn new(schema: &Value) -> Self {
        let inner = |name: &str| schema.get(name).map(|schema| Box::new(Types::new(schema)));
        let properties = schema.get("properties").and_then(Value::as_object);
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        Types {
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), Types::new(schema)))
                .collect(),
            values: inner("additionalProperties"),
            items: inner("items"),
            list_type: schema["x-kubernetes-list-type"].as_str().unwrap_or("atomic").to_owned(),
            list_keys: keys.into_iter().flatten().map(|key| key.as_str().unwrap().to_owned()).collect(),
            atomic_map: schema["x-kubernetes-map-type"] == "atomic",
            default: schema.get("default").cloned(),
        }
    }
}

impl FieldTypes for Types {
    fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.values.as_deref())
    }

    fn declares(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    fn list_type(&self) -> ListType<'_> {
        match self.list_type.as_str() {
            "set" => ListType::Set,
            "map" => ListType::Map(&self.list_keys),
            _ => ListType::Atomic,
        }
    }

    fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }

    fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }
}

/// A schema shaped like a built-in kind, with every relevant feature.
pub(super) static WORKLOAD: LazyLock<Types> = LazyLock::new(|| {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    Types::new(&json!({
        "properties": {
            "metadata": {"default": {}, "properties": {
                "labels": strings, "annotations": strings,
                "finalizers": {"items": {}, "x-kubernetes-list-type": "set"},
                "ownerReferences": {
                    "items": {"x-kubernetes-map-type": "atomic"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]
                }
            }},
            "data": strings,
            "spec": {"default": {}, "properties": {
                "replicas": {},
                "selector": {"x-kubernetes-map-type": "atomic"},
                "strategy": {"default": {}, "properties": {"type": {}, "rollingUpdate": {"properties": {"max": {}}}}},
                "args": {"items": {}, "x-kubernetes-list-type": "atomic"},
                "ports": {
                    "items": {"properties": {"port": {}, "protocol": {"default": "TCP"}, "name": {}}},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]
                }
            }},
            "status": {"default": {}, "properties": {"phase": {}}}
        }
    }))
});
