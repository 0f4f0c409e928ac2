//! The upgrade from client-side apply, as client-go's `csaupgrade`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use evenkeel_core::Obj;
use serde_json::{Value, json};

use super::ManagedFieldsError;
use super::entries::{ManagedObject, is_of, text, unite};
use crate::api::Patch;

/// The path of the annotation that client-side apply writes, in a set of fields.
const LAST_APPLIED: [&str; 3] = ["f:metadata", "f:annotations", "f:kubectl.kubernetes.io/last-applied-configuration"];

/// Returns the patch after which `manager` owns, by apply, what the old managers own by update; `None` if there is nothing to do.
///
/// Without it, the first server-side apply of a program that used to update objects leaves the fields with two owners, and a
/// field that the program stops applying is never removed. `subresource` is empty for the object itself.
///
/// Entries of other API versions than that of the manager's entry are removed with the rest. Other managers are unchanged. The
/// patch is bound to the version of the object: after a conflict, read it again.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::managed_fields::upgrade_from_client_side_apply;
/// use evenkeel_client::retry_on_conflict;
///
/// let deployments = client.apps_v1().deployments("default");
/// retry_on_conflict(async || {
///     let web = deployments.get("web").await?;
///     if let Some(patch) = upgrade_from_client_side_apply(&web, &["my-operator-v1"], "my-operator", "")? {
///         deployments.patch("web", &patch).await?;
///     }
///     Ok::<_, evenkeel_client::Error>(())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The object has no managed fields, or the entries to unite cannot be read.
pub fn upgrade_from_client_side_apply<K>(
    object: &Obj<K>,
    old_managers: &[&str],
    manager: &str,
    subresource: &str,
) -> Result<Option<Patch>, ManagedFieldsError> {
    let managed = ManagedObject::of(object)?;
    let before = managed.entries()?;
    let mut entries = before.to_vec();
    for old in old_managers {
        upgrade(&managed, &mut entries, old, manager, subresource)?;
    }
    if entries == before {
        return Ok(None);
    }
    Ok(Some(Patch::json(&json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version()},
    ]))))
}

fn upgrade(
    managed: &ManagedObject,
    entries: &mut Vec<Value>,
    old: &str,
    manager: &str,
    subresource: &str,
) -> Result<(), ManagedFieldsError> {
    let is_old = |entry: &Value| is_of(entry, old, "Update", subresource);
    let applied = entries.iter().position(|entry| is_of(entry, manager, "Apply", subresource));
    let Some(target) = applied.or_else(|| entries.iter().position(is_old)) else { return Ok(()) };
    let Some(entry) = entries.get(target) else { return Ok(()) };
    let mut fields = managed.fields(entry)?.clone();
    let version = text(entry, "apiVersion").to_owned();
    for entry in entries.iter().filter(|entry| is_old(entry) && text(entry, "apiVersion") == version) {
        unite(&mut fields, managed.fields(entry)?);
    }
    if let Some(entry) = entries.get_mut(target).and_then(Value::as_object_mut) {
        entry.insert("manager".to_owned(), manager.into());
        entry.insert("operation".to_owned(), "Apply".into());
        entry.insert("fieldsV1".to_owned(), fields.into());
    }
    entries.retain(|entry| !is_old(entry));
    Ok(())
}

/// Returns the managers that wrote the object by client-side apply: those that own its last-applied annotation by update.
/// Entries that cannot be read are ignored.
///
/// # Errors
/// The object has no managed fields.
pub fn client_side_managers<K>(object: &Obj<K>) -> Result<Vec<String>, ManagedFieldsError> {
    let managed = ManagedObject::of(object)?;
    let owns = |entry: &&Value| {
        let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
        LAST_APPLIED.iter().try_fold(fields, |place, element| place.get(element)).is_some()
    };
    let updates = managed.entries()?.iter().filter(|entry| text(entry, "operation") == "Update");
    let managers: BTreeSet<Cow<'_, str>> = updates.filter(owns).map(|entry| text(entry, "manager").into()).collect();
    Ok(managers.into_iter().map(Cow::into_owned).collect())
}
