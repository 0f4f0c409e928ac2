//! The entries of `metadata.managedFields`, and their sets of fields.

use evenkeel_core::Obj;
use serde_json::{Map, Value};

use super::ManagedFieldsError;

/// An object and its entries.
pub(super) struct ManagedObject {
    pub(super) value: Value,
    /// Kind and key, for errors.
    pub(super) name: String,
}

impl ManagedObject {
    pub(super) fn of<K>(object: &Obj<K>) -> Result<Self, ManagedFieldsError> {
        let name = format!("{} {}", object.kind(), object.key());
        let malformed = |problem: String| ManagedFieldsError::Malformed { object: name.clone(), problem };
        let json = object.json().map_err(|error| malformed(error.to_string()))?;
        let value = serde_json::from_slice(&json).map_err(|error| malformed(error.to_string()))?;
        Ok(ManagedObject { value, name })
    }

    /// Returns the entries, of which there is at least one.
    pub(super) fn entries(&self) -> Result<&[Value], ManagedFieldsError> {
        let entries = self.value.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
        match entries {
            Some(entries) if !entries.is_empty() => Ok(entries),
            _ => Err(ManagedFieldsError::Missing { object: self.name.clone() }),
        }
    }

    pub(super) fn malformed(&self, problem: impl Into<String>) -> ManagedFieldsError {
        ManagedFieldsError::Malformed { object: self.name.clone(), problem: problem.into() }
    }

    /// Returns the set of fields of an entry.
    pub(super) fn fields<'e>(&self, entry: &'e Value) -> Result<&'e Map<String, Value>, ManagedFieldsError> {
        let manager = || text(entry, "manager").to_owned();
        let fields = entry.get("fieldsV1").and_then(Value::as_object);
        let fields = fields.ok_or_else(|| self.malformed(format!("{:?} has no fieldsV1", manager())))?;
        match check(fields) {
            Ok(()) => Ok(fields),
            Err(element) => Err(self.malformed(format!("{:?} has the field {element:?}", manager()))),
        }
    }
}

/// Returns a text of an entry; empty if it has none.
pub(super) fn text<'e>(entry: &'e Value, member: &str) -> &'e str {
    entry.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether an entry is of this manager, operation and subresource, which is empty for the object itself.
pub(super) fn is_of(entry: &Value, manager: &str, operation: &str, subresource: &str) -> bool {
    text(entry, "manager") == manager
        && text(entry, "operation") == operation
        && text(entry, "subresource") == subresource
}

/// Returns whether nothing below an element is owned, so that the element itself is.
pub(super) fn is_leaf(below: &Map<String, Value>) -> bool {
    below.keys().all(|name| name == ".")
}

/// Checks a set of fields. Returns the first element that is none.
fn check(fields: &Map<String, Value>) -> Result<(), &str> {
    for (name, below) in fields {
        let is_element = name == "." || name.split_once(':').is_some_and(|(kind, _)| kind.len() == 1);
        match below.as_object() {
            Some(below) if is_element => check(below)?,
            _ => return Err(name),
        }
    }
    Ok(())
}

/// Adds the fields of one set to another.
pub(super) fn unite(fields: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (name, below) in other {
        let Some(present) = fields.get_mut(name).and_then(Value::as_object_mut) else {
            fields.insert(name.clone(), below.clone());
            continue;
        };
        let Some(below) = below.as_object().filter(|_| name != ".") else { continue };
        // A leaf is owned itself, also if something below it is owned as well.
        let is_owned = present.contains_key(".") || present.is_empty() || below.contains_key(".") || below.is_empty();
        unite(present, below);
        if is_owned && !is_leaf(present) {
            present.insert(".".to_owned(), Map::new().into());
        }
    }
}
