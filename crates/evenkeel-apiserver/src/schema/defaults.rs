//! Defaults of structural schemas (CRD-7).

use serde_json::Value;

use super::prune::is_metadata;
use super::{MAX_DEPTH, Schema, SchemaNode};

impl Schema {
    /// Removes nulls of fields that are neither nullable nor have a default, before defaults are applied.
    pub(crate) fn drop_nulls(&self, value: &mut Value) {
        drop_nulls_below(Some(self.node()), value, 0);
    }
}

fn drop_nulls_below(node: Option<&SchemaNode>, value: &mut Value, depth: usize) {
    let Some(node) = node.filter(|_| depth <= MAX_DEPTH) else {
        return;
    };
    match value {
        Value::Object(object) => object.retain(|key, value| {
            let field = field(node, key);
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            drop_nulls_below(field, value, depth + 1);
            true
        }),
        Value::Array(items) => {
            let child = node.items.as_deref().map(Schema::node);
            for item in items {
                drop_nulls_below(child, item, depth + 1);
            }
        }
        _ => {}
    }
}

impl Schema {
    /// Applies the defaults of absent fields, and of nulls in fields that are not nullable, in all existing objects.
    ///
    /// A default that is an object is itself completed with the defaults of its fields.
    pub(crate) fn apply_defaults(&self, value: &mut Value) {
        default_below(self.node(), value, 0);
    }
}

fn default_below(node: &SchemaNode, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, schema) in &node.properties {
                let field = schema.node();
                let Some(default) = &field.default else { continue };
                let missing = match object.get(name.as_ref()) {
                    Some(value) => value.is_null() && !field.nullable,
                    None => true,
                };
                if missing {
                    object.insert(name.to_string(), default.clone());
                }
            }
            for (key, value) in object.iter_mut() {
                if node.embedded_resource && is_metadata(key) {
                    continue;
                }
                if let Some(field) = field(node, key) {
                    default_item(field, value, depth);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for item in items {
                    default_item(schema.node(), item, depth);
                }
            }
        }
        _ => {}
    }
}

fn default_item(node: &SchemaNode, value: &mut Value, depth: usize) {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        *value = default.clone();
    }
    default_below(node, value, depth + 1);
}

fn field<'a>(node: &'a SchemaNode, key: &str) -> Option<&'a SchemaNode> {
    node.property(key).or(node.values.as_deref()).map(Schema::node)
}
