//! Apply to a kind whose versions have different fields: what each manager owns is compared in the version through which it
//! wrote (CWH-003).

use std::collections::BTreeSet;

use evenkeel_core::Status;
use serde_json::Value;

use super::FieldTypes;
use super::apply::{all_fields, prune};
use super::compare::changes;
use super::entry::ManagedFieldsEntry;
use super::fields::without;
use super::set::FieldSet;

/// The versions of a kind, and the conversion between them.
pub(crate) trait FieldVersions<T> {
    type Error: From<Status>;

    /// Returns the types of a version; `None` if it is not served any more.
    fn types(&self, api_version: &str) -> Option<&T>;

    /// Converts an object of any version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Self::Error>;
}

/// No version: those of the kind differ in their names alone.
pub(crate) enum SameFields {}

impl<T> FieldVersions<T> for SameFields {
    type Error = Status;

    fn types(&self, _: &str) -> Option<&T> {
        match *self {}
    }

    fn convert(&self, _: &Value, _: &str) -> Result<Value, Status> {
        match *self {}
    }
}

/// The fields that an apply adds or changes, and those that it removes.
pub(super) struct Difference<'a> {
    pub(super) written: FieldSet<'a>,
    pub(super) removed: FieldSet<'a>,
}

impl<'a> Difference<'a> {
    pub(super) fn new<T: FieldTypes>(old: Option<&'a Value>, new: &'a Value, types: Option<&T>) -> Self {
        let mut changes = changes(old, new, types);
        let removed = std::mem::take(&mut changes.removed);
        Difference { written: changes.into_written(), removed }
    }
}

/// The two sides of an apply in the version of a manager.
pub(super) struct ConvertedSides<'v, T> {
    pub(super) version: String,
    pub(super) types: Option<&'v T>,
    pub(super) old: Value,
    pub(super) new: Value,
}

/// Converts both sides of an apply to every other version through which a manager wrote.
pub(super) fn convert_sides<'v, T, V: FieldVersions<T>>(
    versions: Option<&'v V>,
    entries: &[ManagedFieldsEntry<'_>],
    own: &str,
    (old, new): (&Value, &Value),
) -> Result<Vec<ConvertedSides<'v, T>>, V::Error> {
    let Some(versions) = versions else { return Ok(Vec::new()) };
    let others: BTreeSet<&str> =
        entries.iter().map(|entry| entry.api_version).filter(|version| *version != own).collect();
    let sides = others.into_iter().map(|version| {
        Ok(ConvertedSides {
            version: version.to_owned(),
            types: versions.types(version),
            old: versions.convert(old, version)?,
            new: versions.convert(new, version)?,
        })
    });
    sides.collect()
}

/// Removes the fields of the manager's previous intent that are not in this one and have no other owner. Both the previous
/// intent and the owners count in their versions; `own` is that of the merged object and of the new intent.
pub(super) fn prune_in_versions<'a, T: FieldTypes, V: FieldVersions<T>>(
    merged: Value,
    last: &ManagedFieldsEntry<'a>,
    wanted: &FieldSet<'a>,
    others: &[ManagedFieldsEntry<'a>],
    (types, own): (Option<&T>, &str),
    versions: Option<&V>,
) -> Result<Value, V::Error> {
    let is_other = |entry: &ManagedFieldsEntry<'_>| entry.api_version != own;
    let Some(versions) = versions.filter(|_| is_other(last) || others.iter().any(is_other)) else {
        return Ok(prune(merged, &last.fields, wanted, others, types));
    };
    let types_of = |version: &str| if version == own { types } else { versions.types(version) };
    let convert = |object: &Value, from: &str, to: &str| match from == to {
        true => Ok(object.clone()),
        false => versions.convert(object, to),
    };
    let start = last.api_version;
    let start_types = types_of(start);
    let whole = convert(&merged, own, start)?;
    let last_fields = last.fields.clone().with_declared_fields(start_types);
    let mut pruned = without(&whole, &last_fields, start_types);
    // The version of the removal is first: what it keeps may be needed by a conversion.
    let rest: BTreeSet<&str> = others.iter().map(|entry| entry.api_version).chain([own]).collect();
    let order = std::iter::once(start).chain(rest.into_iter().filter(|version| *version != start));
    let (mut merged_now, mut at) = (whole.clone(), start);
    for version in order {
        let sets = others.iter().filter(|entry| entry.api_version == version).map(|entry| &entry.fields);
        let sets: Vec<FieldSet<'_>> = sets.chain((version == own).then_some(wanted)).cloned().collect();
        if sets.is_empty() {
            continue;
        }
        keep_identity(&mut pruned, &merged_now);
        pruned = convert(&pruned, at, version)?;
        merged_now = convert(&merged_now, at, version)?;
        at = version;
        let types = types_of(version);
        let mut removed = all_fields(&merged_now, types);
        removed.subtract(&all_fields(&pruned, types));
        removed.subtract(&FieldSet::union(sets).with_declared_fields(types));
        pruned = without(&merged_now, &removed, types);
    }
    keep_identity(&mut pruned, &merged_now);
    let pruned = convert(&pruned, at, start)?;
    // Only what the manager had applied itself is removed: the rest may have an untracked owner.
    let mut removed = all_fields(&whole, start_types);
    removed.subtract(&all_fields(&pruned, start_types));
    let kept = without(&whole, &removed.intersection(&last_fields), start_types);
    convert(&kept, start, own)
}

/// Restores what a conversion needs of an object from which fields were removed: its kind, and its metadata without what
/// managers own.
fn keep_identity(pruned: &mut Value, whole: &Value) {
    const OWNED: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
    drop_nulls(pruned);
    let mut metadata = whole.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.retain(|key, _| !OWNED.contains(&key.as_str()));
    if !pruned.is_object() {
        *pruned = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = pruned.as_object_mut() else { return };
    for key in ["apiVersion", "kind"] {
        if let Some(value) = whole.get(key) {
            fields.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(kept)) = fields.remove("metadata") {
        metadata.extend(kept.into_iter().filter(|(key, _)| OWNED.contains(&key.as_str())));
    }
    fields.insert("metadata".to_owned(), Value::Object(metadata));
}

/// Removes the fields that the removal of their content has left as null. The recursion is as deep as the object.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
