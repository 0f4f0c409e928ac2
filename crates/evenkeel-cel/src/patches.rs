//! The objects that expressions of mutations make: operations of a JSON patch, and parts of the object that is changed.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::schema::{DeclKind, DeclType, ObjectDecl};
use crate::value::{Key, List, Map, Value};

/// The type of the changed object. The type of its field `spec` is `Object.spec`.
const OBJECT: &str = "Object";

/// Returns the type of an operation of a JSON patch.
pub(crate) fn operation_type() -> Arc<ObjectDecl> {
    static OPERATION: LazyLock<Arc<ObjectDecl>> = LazyLock::new(|| {
        let field = |name: &str, kind| (name.to_owned(), DeclType::new(kind, None, 1));
        let text = ["op", "path", "from"].map(|name| field(name, DeclKind::String));
        let fields = text.into_iter().chain([field("value", DeclKind::Dyn)]);
        Arc::new(ObjectDecl::with_plain_names("JSONPatch", fields))
    });
    Arc::clone(&OPERATION)
}

/// Returns whether a type is that of the object or of a part of it.
pub(crate) fn is_object_part(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// An object that stands in a field that its type does not name, such as an `Object.status` in `Object{spec: …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisnamedObject {
    /// The type of the object.
    pub found: String,
    /// The type that its place requires.
    pub expected: String,
}

impl fmt::Display for MisnamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unexpected type name {:?}, expected {:?}, which matches field name path from root Object type",
            self.found, self.expected
        )
    }
}

impl std::error::Error for MisnamedObject {}

impl Value<'_> {
    /// Returns the objects within an object whose types are not named after the fields in which they stand. Lists and maps in
    /// between have no names.
    pub fn misnamed_objects(&self) -> Vec<MisnamedObject> {
        let mut found = Vec::new();
        if let Value::Map(Map::Object(name, _)) = self {
            self.collect_misnamed(&mut name.to_string(), &mut found);
        }
        found
    }

    /// The recursion is as deep as the expression that made the value.
    fn collect_misnamed(&self, path: &mut String, found: &mut Vec<MisnamedObject>) {
        match self {
            Value::Map(Map::Object(name, fields)) => {
                if **name != **path {
                    found.push(MisnamedObject { found: name.to_string(), expected: path.clone() });
                }
                for (key, value) in &**fields {
                    let Key::String(key) = key else { continue };
                    let length = path.len();
                    path.push('.');
                    path.push_str(key);
                    value.collect_misnamed(path, found);
                    path.truncate(length);
                }
            }
            Value::Map(Map::Owned(entries)) => {
                entries.values().for_each(|value| value.collect_misnamed(path, found));
            }
            Value::List(List::Owned(items)) => items.iter().for_each(|item| item.collect_misnamed(path, found)),
            _ => {}
        }
    }

    /// Returns whether the value takes no more than about this many bytes as JSON. An expression makes values that share
    /// parts, and are far larger as JSON than what they cost: ask before [`Value::to_json`] and
    /// [`Value::misnamed_objects`].
    pub fn fits_within(&self, bytes: usize) -> bool {
        self.spend(&mut { bytes }).is_some()
    }

    /// Takes the size of the value from what is left. Ends when nothing is, so that it never takes longer than that.
    fn spend(&self, left: &mut usize) -> Option<()> {
        *left = left.checked_sub(1)?;
        match self {
            Value::String(text) => take(left, text.len()),
            Value::Bytes(bytes) => take(left, bytes.len()),
            Value::List(List::Json(items, _)) => items.iter().try_for_each(|item| spend_json(item, left)),
            Value::List(List::Owned(items)) => items.iter().try_for_each(|item| item.spend(left)),
            Value::Map(Map::Json(fields, _)) => spend_fields(fields, left),
            Value::Map(Map::Owned(entries) | Map::Object(_, entries)) => entries.iter().try_for_each(|(key, value)| {
                if let Key::String(key) = key {
                    take(left, key.len())?;
                }
                value.spend(left)
            }),
            Value::Optional(Some(value)) => value.spend(left),
            _ => Some(()),
        }
    }

    /// Returns a field of an object that an expression made.
    pub fn made_field(&self, name: &str) -> Option<Value<'_>> {
        match self {
            Value::Map(map @ Map::Object(..)) => map.field(name),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub fn items(&self) -> Option<Vec<Value<'_>>> {
        match self {
            Value::List(list) => Some(list.iter().collect()),
            _ => None,
        }
    }
}

fn take(left: &mut usize, bytes: usize) -> Option<()> {
    *left = left.checked_sub(bytes)?;
    Some(())
}

fn spend_json(json: &Json, left: &mut usize) -> Option<()> {
    take(left, 1)?;
    match json {
        Json::String(text) => take(left, text.len()),
        Json::Array(items) => items.iter().try_for_each(|item| spend_json(item, left)),
        Json::Object(fields) => spend_fields(fields, left),
        _ => Some(()),
    }
}

fn spend_fields(fields: &serde_json::Map<String, Json>, left: &mut usize) -> Option<()> {
    fields.iter().try_for_each(|(key, value)| {
        take(left, key.len())?;
        spend_json(value, left)
    })
}

#[cfg(test)]
mod tests;
