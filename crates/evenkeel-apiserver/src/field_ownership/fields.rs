//! The fields of an intent, and the removal of fields from an object.

use serde_json::{Map, Value};

use super::FieldTypes;
use super::compare::{Shape, element, groups, keyed, shape};
use super::path::PathElement;
use super::set::{FieldSet, FieldSetNode};

/// Returns the fields that an object names, which its applier owns. Granular maps and lists contribute only their
/// entries; an empty map is a field itself.
pub(super) fn fields_of<'a, T: FieldTypes>(object: &'a Value, types: Option<&T>) -> FieldSet<'a> {
    named(object, types).below
}

fn named<'a, T: FieldTypes>(value: &'a Value, types: Option<&T>) -> FieldSetNode<'a> {
    let mut node = FieldSetNode::default();
    match shape(value, types) {
        Shape::Leaf => node.member = true,
        Shape::Map(map) => {
            node.below = FieldSet::with_capacity(map.len());
            for (name, value) in map {
                let mut field = named(value, types.and_then(|types| types.field(name)));
                let declared = types.is_some_and(|types| types.declares(name));
                field.member |= !declared || value.as_object().is_some_and(Map::is_empty);
                node.below.push(PathElement::Field(name), field);
            }
        }
        Shape::List(list, types) => {
            node.below = FieldSet::with_capacity(list.len());
            for (element, items) in groups(&keyed(list, types)) {
                let mut item = match items {
                    [(_, only)] => named(only, types.items()),
                    // Items that share a key are owned together.
                    _ => FieldSetNode::default(),
                };
                item.member = true;
                node.below.push(element, item);
            }
        }
    }
    node
}

/// Returns the object without these fields. A map or list that loses all its entries becomes `null`; the decoder of
/// the result decides whether it remains.
pub(super) fn without<T: FieldTypes>(value: &Value, removed: &FieldSet<'_>, types: Option<&T>) -> Value {
    match shape(value, types) {
        // An atomic value has no parts to remove.
        Shape::Leaf => value.clone(),
        Shape::Map(map) => {
            let mut kept = Map::new();
            for (name, value) in map {
                let types = types.and_then(|types| types.field(name));
                if let Some(value) = reduced(value, removed.get(&PathElement::Field(name)), types) {
                    kept.insert(name.clone(), value);
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Shape::List(list, types) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                let node = element(item, types).and_then(|element| removed.get(&element));
                kept.extend(reduced(item, node, types.items()));
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
    }
}

fn reduced<T: FieldTypes>(value: &Value, removed: Option<&FieldSetNode<'_>>, types: Option<&T>) -> Option<Value> {
    match removed {
        Some(node) if node.member => None,
        Some(node) => Some(without(value, &node.below, types)),
        None => Some(value.clone()),
    }
}
