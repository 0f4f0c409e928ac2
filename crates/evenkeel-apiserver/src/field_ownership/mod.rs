//! Field ownership: `metadata.managedFields` of all objects that are created, updated, patched or applied.
//!
//! After a write, its manager is the only owner of the fields that it changed, and the fields that it removed have no
//! owner (SSA-5). The schema defines the granularity: maps are owned key by key and lists by their items' keys or
//! values unless they are declared atomic. Without a schema, maps are granular and lists atomic (SSA-14). Server-side
//! apply ([`apply()`]), where a manager owns every field of its intent, changed or not, uses the same sets.
//!
//! Entries written under another version of the API are compared as if they were written under this one: the versions
//! of a custom resource share their field names. Where a converter says otherwise, an apply converts ([`FieldVersions`]);
//! updates do not.

mod apply;
mod atomics;
mod compare;
mod conflict;
mod creation;
mod entry;
mod fields;
mod intent;
mod last_applied;
mod merge;
mod path;
mod set;
#[cfg(test)]
mod tests;
mod versions;

use serde_json::{Map, Value};

use crate::schema::{ListType, Schema};

pub(crate) use apply::{apply, apply_in_versions};
pub(crate) use atomics::atomic_parts;
use entry::{ManagedFieldsEntry, ManagerOperation};
pub(crate) use intent::check as check_intent;
pub(crate) use merge::merge_intent;
use set::FieldSet;
pub(crate) use versions::FieldVersions;

/// The properties of a schema that field ownership needs.
pub(crate) trait FieldTypes {
    /// Returns the type of a field of an object: a declared property, else the type of the map's values.
    fn field(&self, name: &str) -> Option<&Self>;
    /// Returns whether the field is a declared property, rather than a key of a map.
    fn declares(&self, name: &str) -> bool;
    /// Returns the type of a list's items.
    fn items(&self) -> Option<&Self>;
    /// Returns how a list's items are identified.
    fn list_type(&self) -> ListType<'_>;
    /// Returns whether an object is owned as a whole.
    fn is_atomic_map(&self) -> bool;
    /// Returns the default of an absent field.
    fn default_value(&self) -> Option<&Value>;

    /// Returns whether every object of this type has the field, even where its JSON omits it.
    ///
    /// kube-apiserver compares Go structs, in which a struct-valued field such as `spec` always exists and can be
    /// neither added nor removed. Such a field has no owner, only its contents have. OpenAPI marks such fields with
    /// the default `{}`. Lists that are written even when they are not set, such as a pod's containers, always exist
    /// too.
    ///
    /// `field` is the type of the field.
    fn always_has(&self, _name: &str, field: Option<&Self>) -> bool {
        let default = field.and_then(Self::default_value);
        default.and_then(Value::as_object).is_some_and(Map::is_empty)
    }
}

impl FieldTypes for Schema {
    fn field(&self, name: &str) -> Option<&Self> {
        Schema::field(self, name)
    }

    fn declares(&self, name: &str) -> bool {
        Schema::declares(self, name)
    }

    fn items(&self) -> Option<&Self> {
        Schema::items(self)
    }

    fn list_type(&self) -> ListType<'_> {
        Schema::list_type(self)
    }

    fn is_atomic_map(&self) -> bool {
        Schema::is_atomic_map(self)
    }

    fn default_value(&self) -> Option<&Value> {
        Schema::default_value(self)
    }

    fn always_has(&self, name: &str, field: Option<&Self>) -> bool {
        let default = field.and_then(Self::default_value);
        default.and_then(Value::as_object).is_some_and(Map::is_empty) || self.writes_null(name)
    }
}

/// The parameters of one write that field ownership needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// The manager; see [`manager_name`].
    pub(crate) manager: &'a str,
    /// The version of the API that the write came through, e.g. `apps/v1`.
    pub(crate) api_version: &'a str,
    /// `status`, `scale`, …; `None` on the main endpoint.
    pub(crate) subresource: Option<&'a str>,
    /// The time of the write in RFC 3339 with whole seconds.
    pub(crate) now: &'a str,
    /// Fields of the object that this endpoint does not write (SSA-4): `status` on the main endpoint of a kind
    /// that has a status sub-resource, `metadata` and `spec` on a custom resource's status.
    pub(crate) reset: &'a [&'a str],
}

/// Returns the manager of a request's changes (SSA-3): `fieldManager`, else the product in the `User-Agent`, else
/// `unknown`.
pub(crate) fn manager_name(field_manager: Option<&str>, user_agent: Option<&str>) -> String {
    const MAX_BYTES: usize = 128;
    if let Some(chosen) = field_manager.filter(|name| !name.is_empty()) {
        return chosen.to_owned();
    }
    let product = user_agent.and_then(|agent| agent.split('/').next()).unwrap_or_default();
    let mut name = String::new();
    for character in product.chars().filter(|character| crate::go_json::is_print(*character)) {
        if name.len() + character.len_utf8() > MAX_BYTES {
            break;
        }
        name.push(character);
    }
    if name.is_empty() {
        name.push_str("unknown");
    }
    name
}

/// Updates `new.metadata.managedFields` for the write that turns `old` into `new`.
///
/// The previous ownership is that of the request, so that clients can edit it, or the stored one if the request
/// carries none that is well-formed. An empty list, or a list of one empty entry, resets it (SSA-15). Sub-resources
/// always use the stored one. An object whose ownership was reset, or that was created with nothing to own, stays
/// untracked: only a create starts the tracking. An object without owned fields has no `managedFields`.
pub(crate) fn update_managed_fields<T: FieldTypes>(old: &Value, new: &mut Value, types: Option<&T>, write: &Write<'_>) {
    let Some(requested) = take_requested(new) else { return };
    let stored = old.get("metadata").and_then(|metadata| metadata.get("managedFields")).unwrap_or(&Value::Null);
    let mut changes = compare::changes(Some(old), new, types);
    changes.ignore(write.reset);
    let managed = if requested == *stored && changes.is_empty() {
        requested
    } else {
        let entries = starting_point(&requested, stored, write.subresource.is_some());
        if entries.is_empty() {
            return;
        }
        let removed = std::mem::take(&mut changes.removed);
        entry::encode(after_write(entries, changes.into_written(), &removed, write))
    };
    let is_owned = managed.as_array().is_some_and(|list| !list.is_empty());
    if let Some(Value::Object(metadata)) = new.get_mut("metadata").filter(|_| is_owned) {
        metadata.insert("managedFields".to_owned(), managed);
    }
}

/// Removes `metadata.managedFields` of a new object, and returns those that it gets as JSON text; `None` if no field has an
/// owner. They are a third of a new object, and until it is stored nothing reads them.
pub(crate) fn first_managed_fields<T: FieldTypes>(
    new: &mut Value,
    types: Option<&T>,
    write: &Write<'_>,
) -> Option<Vec<u8>> {
    let requested = take_requested(new)?;
    if requested.is_null() {
        let mut bytes = Vec::with_capacity(entry::USUAL_BYTES);
        bytes.push(b'[');
        let entry = acting_entry(FieldSet::default(), write);
        let is_owned = entry.write_with(&mut bytes, |bytes| creation::write(new, types, write.reset, bytes));
        bytes.push(b']');
        return is_owned.then_some(bytes);
    }
    let mut written = compare::created(new, types);
    written.remove_subtrees(write.reset);
    let entries = starting_point(&requested, &Value::Null, write.subresource.is_some());
    let entries = after_write(entries, written, &FieldSet::default(), write);
    (!entries.is_empty()).then(|| entry::encode_text(entries))
}

/// Takes the ownership that a request carries out of its object; `None` if the object has no metadata.
fn take_requested(new: &mut Value) -> Option<Value> {
    let metadata = new.get_mut("metadata")?.as_object_mut()?;
    Some(metadata.remove("managedFields").unwrap_or(Value::Null))
}

/// Returns the previous entries; a malformed list counts as empty.
fn starting_point<'a>(requested: &'a Value, stored: &'a Value, is_subresource: bool) -> Vec<ManagedFieldsEntry<'a>> {
    if !is_subresource {
        if is_reset(requested) {
            return Vec::new();
        }
        if let Some(entries) = entry::decode(requested).filter(|entries| !entries.is_empty()) {
            return entries;
        }
    }
    entry::decode(stored).unwrap_or_default()
}

fn is_reset(requested: &Value) -> bool {
    match requested.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}

/// Returns the entries after a write that has taken and removed these fields.
fn after_write<'a>(
    mut entries: Vec<ManagedFieldsEntry<'a>>,
    taken: FieldSet<'a>,
    removed: &FieldSet<'_>,
    write: &Write<'a>,
) -> Vec<ManagedFieldsEntry<'a>> {
    for entry in &mut entries {
        entry.fields.subtract(&taken);
        entry.fields.subtract(removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
    if !taken.is_empty() {
        let acting = acting_entry(taken, write);
        match entries.iter_mut().find(|entry| entry.is_same_manager(&acting)) {
            Some(entry) => {
                entry.fields.absorb(acting.fields);
                entry.time = acting.time;
            }
            None => entries.push(acting),
        }
    }
    entry::cap_updaters(&mut entries);
    entries
}

/// Returns the entry of the writer, with these fields.
fn acting_entry<'a>(fields: FieldSet<'a>, write: &Write<'a>) -> ManagedFieldsEntry<'a> {
    ManagedFieldsEntry {
        manager: write.manager,
        operation: ManagerOperation::Update,
        api_version: write.api_version,
        subresource: write.subresource.unwrap_or_default(),
        time: Some(write.now),
        fields,
    }
}

/// Returns whether two objects are equal except for the times of their `managedFields` entries: such a write is a
/// no-op (OBJ-13).
pub(crate) fn equal_ignoring_managed_times(a: &Value, b: &Value) -> bool {
    equal_but(a, b, "metadata", |a, b| {
        equal_but(a, b, "managedFields", |a, b| match (a, b) {
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_but(a, b, "time", |_, _| true))
            }
            _ => a == b,
        })
    })
}

/// Compares two objects field by field, the field `special` with `compare`. Other values are compared directly.
fn equal_but(a: &Value, b: &Value, special: &str, compare: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return a == b;
    };
    a.len() == b.len()
        && a.iter().all(|(name, a)| match b.get(name) {
            Some(b) if name == special => compare(a, b),
            Some(b) => a == b,
            None => false,
        })
}
