//! Server-side apply: each request carries the complete intent of one manager (SSA-8).
//!
//! The intent is merged into the object. Its fields are then owned by the manager, shared with other managers that
//! applied the same value. Fields of the manager's previous intent that the new one omits are removed, unless another
//! manager owns them. Changing fields of other managers is a conflict, unless `force` is set, which takes the
//! ownership.

use evenkeel_core::Status;
use serde_json::Value;

use super::compare::created;
use super::conflict::{self, Conflict};
use super::entry::{self, ManagedFieldsEntry, ManagerOperation};
use super::fields::{fields_of, without};
use super::last_applied;
use super::merge::merge;
use super::set::FieldSet;
use super::versions::{Difference, FieldVersions, SameFields, convert_sides, prune_in_versions};
use super::{FieldTypes, Write};

/// The manager of the fields that existed before the first apply (SSA-7).
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager whose objects may carry client-side apply annotations.
const KUBECTL: &str = "kubectl";

/// Applies an intent. Returns the object with its updated `managedFields`, or the conflicts.
///
/// `live` is the stored object, or `None` for a create. The intent has passed [`check_intent`](super::check_intent())
/// and names only fields that the endpoint writes. The result must still be decoded as its kind: it may have nulls in
/// place of removed fields, and lacks defaults.
pub(crate) fn apply<T: FieldTypes>(
    live: Option<&Value>,
    intent: &Value,
    types: Option<&T>,
    write: &Write<'_>,
    force: bool,
) -> Result<Value, Status> {
    apply_in_versions(live, intent, types, write, force, None::<&SameFields>)
}

/// Applies an intent like [`apply`] to a kind whose versions are converted; `None` if they have the same fields. Ownership
/// through a version that is not served any more is dropped.
pub(crate) fn apply_in_versions<T: FieldTypes, V: FieldVersions<T>>(
    live: Option<&Value>,
    intent: &Value,
    types: Option<&T>,
    write: &Write<'_>,
    force: bool,
    versions: Option<&V>,
) -> Result<Value, V::Error> {
    let mut entries = match live {
        Some(live) => owners(live, types, write, versions),
        None => Vec::new(),
    };
    let mut wanted = fields_of(intent, types);
    let position = entries.iter().position(|entry| entry.is_same_manager(&acting(write)));
    let previous = position.map(|position| entries.remove(position));
    let nothing = Value::Null;
    let base = live.unwrap_or(&nothing);
    let merged = merge(base, intent, types);
    let mut object = match &previous {
        Some(previous) => {
            let own = (types, write.api_version);
            prune_in_versions(merged, previous, &wanted, &entries, own, versions)?
        }
        None => merged,
    };
    let changed = live != Some(&object);
    let sides = convert_sides(versions, &entries, write.api_version, (base, &object))?;
    let own = Difference::new(live, &object, types);
    let others: Vec<(&str, Difference<'_>)> =
        sides.iter().map(|side| (&*side.version, Difference::new(Some(&side.old), &side.new, side.types))).collect();
    let difference_for = |entry: &ManagedFieldsEntry<'_>| {
        others.iter().find(|(version, _)| *version == entry.api_version).map_or(&own, |(_, difference)| difference)
    };
    let conflicts = entries.iter().filter_map(|entry| Conflict::with(entry, &difference_for(entry).written));
    let mut conflicts: Vec<Conflict<'_>> = conflicts.collect();
    if write.manager == KUBECTL && !conflicts.is_empty() {
        last_applied::drop_kubectl_conflicts(&mut conflicts, base, types, write.api_version);
    }
    if !conflicts.is_empty() && !force {
        return Err(conflict::refusal(conflicts).into());
    }
    for entry in &mut entries {
        let difference = difference_for(entry);
        entry.fields.subtract(&difference.written);
        entry.fields.subtract(&difference.removed);
    }
    wanted.remove_never_owned();
    // The time of an entry is that of its manager's last change.
    let time = previous.as_ref().and_then(|previous| previous.time).filter(|_| !changed);
    entries.push(ManagedFieldsEntry { time: time.or(Some(write.now)), fields: wanted, ..acting(write) });
    entries.retain(|entry| !entry.fields.is_empty());
    entry::cap_updaters(&mut entries);
    let managed = (!entries.is_empty()).then(|| entry::encode(entries));
    set_owners(&mut object, managed);
    if write.manager == KUBECTL && write.subresource.is_none() {
        last_applied::refresh(&mut object, intent);
    }
    Ok(object)
}

/// Returns the entry of the applying manager, without fields.
fn acting<'a>(write: &Write<'a>) -> ManagedFieldsEntry<'a> {
    ManagedFieldsEntry {
        manager: write.manager,
        operation: ManagerOperation::Apply,
        api_version: write.api_version,
        subresource: write.subresource.unwrap_or_default(),
        time: None,
        fields: FieldSet::default(),
    }
}

/// Returns the owners of an object. An object without owners is assigned one for its existing fields, so that the
/// first apply does not take them silently.
fn owners<'a, T: FieldTypes, V: FieldVersions<T>>(
    live: &'a Value,
    types: Option<&T>,
    write: &Write<'a>,
    versions: Option<&V>,
) -> Vec<ManagedFieldsEntry<'a>> {
    let stored = live.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    let mut entries = stored.and_then(entry::decode).unwrap_or_default();
    let is_tracked = !entries.is_empty();
    entries.retain_mut(|entry| match versions.filter(|_| entry.api_version != write.api_version) {
        None => {
            entry.fields.conform(types);
            true
        }
        Some(versions) => {
            let types = versions.types(entry.api_version);
            entry.fields.conform(types);
            types.is_some()
        }
    });
    if !is_tracked {
        let mut existing = created(live, types);
        existing.remove_subtrees(write.reset);
        entries.push(ManagedFieldsEntry {
            manager: BEFORE_FIRST_APPLY,
            operation: ManagerOperation::Update,
            time: Some(write.now),
            fields: existing,
            ..acting(write)
        });
    }
    entries
}

/// Removes the fields of the manager's previous intent that are not in this one and have no other owner.
pub(super) fn prune<'a, T: FieldTypes>(
    merged: Value,
    last: &FieldSet<'a>,
    wanted: &FieldSet<'a>,
    others: &[ManagedFieldsEntry<'a>],
    types: Option<&T>,
) -> Value {
    let mut given_up = last.clone();
    given_up.subtract(wanted);
    if given_up.is_empty() {
        return merged;
    }
    let last = last.clone().with_declared_fields(types);
    let owners = others.iter().map(|other| &other.fields).chain([wanted]);
    let owned = FieldSet::union(owners.cloned().collect());
    let owned = owned.with_declared_fields(types);
    // Fields that the previous intent held, with what is below them, and that have no owner now.
    let pruned = without(&merged, &last, types);
    let mut removed = all_fields(&merged, types);
    removed.subtract(&all_fields(&pruned, types));
    removed.subtract(&owned);
    let pruned = without(&merged, &removed, types);
    // Only what the manager had applied itself is removed: the rest may have an untracked owner.
    let mut removed = all_fields(&merged, types);
    removed.subtract(&all_fields(&pruned, types));
    without(&merged, &removed.intersection(&last), types)
}

/// Returns the fields of an object, including declared parents that `fieldsV1` omits.
pub(super) fn all_fields<'a, T: FieldTypes>(object: &'a Value, types: Option<&T>) -> FieldSet<'a> {
    fields_of(object, types).with_declared_fields(types)
}

fn set_owners(object: &mut Value, managed: Option<Value>) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    match managed {
        None => metadata.remove("managedFields"),
        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
    };
}
