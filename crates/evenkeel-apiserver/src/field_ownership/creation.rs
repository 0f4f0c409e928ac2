//! The fields that the creator of an object owns, written as text.
//!
//! The text is that of [`created`](super::compare::created), without the set in between: no write is more frequent than a create,
//! and its set would be built to be written once.

use serde_json::{Map, Value};

use super::FieldTypes;
use super::compare::{IDENTITY, Shape, is_empty_map, keyed, shape};
use super::path::PathElement;

/// Appends the owned fields of a new object as `fieldsV1`, without those of its fields `reset`. Returns whether there are any.
pub(super) fn write<T: FieldTypes>(object: &Value, types: Option<&T>, reset: &[&str], bytes: &mut Vec<u8>) -> bool {
    let Shape::Map(map) = shape(object, types) else {
        return false;
    };
    let mut members = Members::start(false, bytes);
    for (name, value) in map.iter().filter(|(name, _)| !reset.contains(&name.as_str())) {
        match (name.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                let types = types.and_then(|types| types.field(name));
                members.add(&PathElement::Field(name), bytes, |bytes| write_metadata(metadata, types, bytes));
            }
            _ => write_field(name, value, types, &mut members, bytes),
        }
    }
    members.end(bytes)
}

/// Appends what is owned of the metadata. They always exist, and what the server sets in them has no owner.
fn write_metadata<T: FieldTypes>(metadata: &Map<String, Value>, types: Option<&T>, bytes: &mut Vec<u8>) -> bool {
    let mut members = Members::start(false, bytes);
    for (name, value) in metadata.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())) {
        write_field(name, value, types, &mut members, bytes);
    }
    members.end(bytes)
}

/// Adds a field of a value that always exists.
fn write_field<T: FieldTypes>(
    name: &str,
    value: &Value,
    types: Option<&T>,
    members: &mut Members,
    bytes: &mut Vec<u8>,
) {
    let field = types.and_then(|types| types.field(name));
    let always_exists = types.is_some_and(|types| types.always_has(name, field));
    if always_exists && is_empty_map(value) {
        return;
    }
    members.add(&PathElement::Field(name), bytes, |bytes| match always_exists {
        true => write_contents(value, field, bytes),
        false => write_whole(value, field, bytes),
    });
}

/// Appends what is owned of a value that always exists.
fn write_contents<T: FieldTypes>(value: &Value, types: Option<&T>, bytes: &mut Vec<u8>) -> bool {
    match shape(value, types) {
        Shape::Map(map) if !map.is_empty() => {
            let mut members = Members::start(false, bytes);
            for (name, value) in map {
                write_field(name, value, types, &mut members, bytes);
            }
            members.end(bytes)
        }
        Shape::List(list, types) if !list.is_empty() => write_list(list, types, false, bytes),
        Shape::Leaf if value.is_null() => false,
        _ => write_leaf(bytes),
    }
}

/// Appends a value that is owned with everything below it. The recursion is bounded by the depth limit of the parser.
fn write_whole<T: FieldTypes>(value: &Value, types: Option<&T>, bytes: &mut Vec<u8>) -> bool {
    match shape(value, types) {
        Shape::Map(map) => {
            let mut members = Members::start(true, bytes);
            for (name, value) in map {
                let field = types.and_then(|types| types.field(name));
                members.add(&PathElement::Field(name), bytes, |bytes| write_whole(value, field, bytes));
            }
            members.end(bytes)
        }
        Shape::List(list, types) => write_list(list, types, true, bytes),
        Shape::Leaf => write_leaf(bytes),
    }
}

fn write_list<T: FieldTypes>(list: &[Value], types: &T, is_owned: bool, bytes: &mut Vec<u8>) -> bool {
    let mut members = Members::start(is_owned, bytes);
    for items in keyed(list, types).chunk_by(|(a, _), (b, _)| a == b) {
        match items {
            [(element, item)] => members.add(element, bytes, |bytes| write_whole(item, types.items(), bytes)),
            // Items that share a key are owned together.
            [(element, _), ..] => members.add(element, bytes, write_leaf),
            [] => {}
        }
    }
    members.end(bytes)
}

fn write_leaf(bytes: &mut Vec<u8>) -> bool {
    bytes.extend_from_slice(b"{}");
    true
}

/// The members below one path, as an object that is being written.
struct Members {
    /// Whether the path itself is owned.
    is_owned: bool,
    /// Where the first member starts.
    start: usize,
}

impl Members {
    fn start(is_owned: bool, bytes: &mut Vec<u8>) -> Self {
        bytes.push(b'{');
        Members { is_owned, start: bytes.len() }
    }

    /// Appends a member, unless `write` returns that it is not owned.
    fn add(&mut self, element: &PathElement<'_>, bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let before = bytes.len();
        match (before > self.start, self.is_owned) {
            (true, _) => bytes.push(b','),
            (false, true) => bytes.extend_from_slice(b"\".\":{},"),
            (false, false) => {}
        }
        element.write_key(bytes);
        if !write(bytes) {
            bytes.truncate(before);
        }
    }

    /// Ends the object. Returns whether the path or a member is owned.
    fn end(self, bytes: &mut Vec<u8>) -> bool {
        let has_members = bytes.len() > self.start;
        bytes.push(b'}');
        self.is_owned || has_members
    }
}
