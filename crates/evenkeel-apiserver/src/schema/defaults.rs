//! Defaults of structural schemas (CRD-7).

use serde_json::Value;

use super::prune::is_metadata;
use super::{MAX_DEPTH, Schema, SchemaNode};
use crate::limits::MAX_OBJECT_BYTES;

/// The quotes, the colon and the comma of a field.
const NAME_QUOTES: usize = 4;

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

/// The defaults would make an object larger than an object may be. The rest was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefaultsTooLarge;

impl Schema {
    /// Applies the defaults of absent fields, and of nulls in fields that are not nullable, in all existing objects.
    ///
    /// A default that is an object is itself completed with the defaults of its fields. The defaults of one object add at
    /// most [`MAX_OBJECT_BYTES`]: a default of an item is applied to each item of a list, so that a short request may
    /// ask for any amount of memory.
    pub(crate) fn apply_defaults(&self, value: &mut Value) -> Result<(), DefaultsTooLarge> {
        let mut left = MAX_OBJECT_BYTES;
        default_below(self.node(), value, 0, &mut left)
    }
}

/// Takes the size of a default, with its name, from the bytes that are left.
fn charge(left: &mut usize, bytes: usize) -> Result<(), DefaultsTooLarge> {
    *left = left.checked_sub(bytes).ok_or(DefaultsTooLarge)?;
    Ok(())
}

fn default_below(node: &SchemaNode, value: &mut Value, depth: usize, left: &mut usize) -> Result<(), DefaultsTooLarge> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    match value {
        Value::Object(object) => {
            for name in &node.defaulted {
                let Some(field) = node.property(name).map(Schema::node) else { continue };
                let Some(default) = &field.default else { continue };
                let missing = match object.get(name.as_ref()) {
                    Some(value) => value.is_null() && !field.nullable,
                    None => true,
                };
                if missing {
                    charge(left, name.len() + NAME_QUOTES + field.default_size)?;
                    object.insert(name.to_string(), default.clone());
                }
            }
            for (key, value) in object.iter_mut() {
                if node.embedded_resource && is_metadata(key) {
                    continue;
                }
                if let Some(field) = field(node, key) {
                    default_item(field, value, depth, left)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for item in items {
                    default_item(schema.node(), item, depth, left)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn default_item(node: &SchemaNode, value: &mut Value, depth: usize, left: &mut usize) -> Result<(), DefaultsTooLarge> {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        charge(left, node.default_size)?;
        *value = default.clone();
    }
    default_below(node, value, depth + 1, left)
}

fn field<'a>(node: &'a SchemaNode, key: &str) -> Option<&'a SchemaNode> {
    node.property(key).or(node.values.as_deref()).map(Schema::node)
}
