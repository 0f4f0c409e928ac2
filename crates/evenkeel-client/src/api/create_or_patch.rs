//! [`create_or_patch`]: brings an object and its status into a desired state, sending only the difference.

use evenkeel_core::Obj;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::create_or_update::{
    AttemptError, ConflictBackoff, CreateOrUpdate, Mutation, change, name_of, same_name, value,
};
use super::scope::Addressable;
use super::{Api, Object, Patch};
use crate::error::Error;

/// Brings an object into the state that `mutate` sets, status included. `initial` names it, and is its initial state if
/// it does not exist.
///
/// Unlike [`create_or_update`](crate::create_or_update) it sends only what `mutate` changed. Fields that `K` does not
/// know are kept, except within lists, which are replaced as a whole. The patch is bound to the version that was read:
/// on a conflict everything is repeated, up to five times, with `mutate` on a fresh copy.
///
/// A changed status is written in a second request, to the status subresource, because servers ignore it elsewhere. A
/// kind without that subresource stores its status like any other field: use `create_or_update` for it.
///
/// # Errors
/// `initial` has no name, `mutate` [fails](Mutation) or changes the name, or a request fails. The object may then be
/// written without its status; the next call writes the rest.
pub async fn create_or_patch<K, S, M>(
    api: &Api<K, S>,
    initial: &K,
    mut mutate: impl FnMut(&mut K) -> M,
) -> Result<CreateOrUpdate<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    let name = name_of(initial)?;
    let mut conflicts = ConflictBackoff::new();
    loop {
        match attempt(api, &name, initial, &mut mutate).await {
            Ok(done) => return Ok(done),
            Err(failure) => conflicts.wait_after(failure).await?,
        }
    }
}

/// Another client created or changed the object since it was read.
fn raced(error: Error) -> AttemptError {
    let raced = error.is_conflict() || error.is_already_exists();
    AttemptError { error, raced }
}

async fn attempt<K, S, M>(
    api: &Api<K, S>,
    name: &str,
    initial: &K,
    mutate: impl FnOnce(&mut K) -> M,
) -> Result<CreateOrUpdate<K>, AttemptError>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    let (before, found) = match api.get(name).await {
        Ok(found) => (K::clone(&*found.typed().map_err(Error::from)?), Some(found)),
        Err(error) if error.is_not_found() => (initial.clone(), None),
        Err(error) => return Err(error.into()),
    };
    let mut wanted = before.clone();
    change(&mut wanted, mutate)?;
    same_name(&before, &wanted)?;
    let Some(found) = found else {
        let created = api.create(&wanted).await.map_err(raced)?;
        // Keeps what the server itself set in the status.
        let status =
            Some(parts(&wanted)?.1).filter(|status| status.as_object().is_some_and(|status| !status.is_empty()));
        return Ok(CreateOrUpdate::Created(patch_status(api, name, created, status).await.map_err(raced)?));
    };
    let ((old, old_status), (new, new_status)) = (parts(&before)?, parts(&wanted)?);
    let (patch, status) = (difference(&old, &new), difference(&old_status, &new_status));
    if patch.is_none() && status.is_none() {
        return Ok(CreateOrUpdate::Unchanged(found));
    }
    let written = match patch {
        None => found,
        Some(patch) => api.patch(name, &Patch::merge(&bound(patch, &found))).await.map_err(|error| {
            // The object may have been deleted since it was read.
            let raced = error.is_conflict() || error.is_not_found();
            AttemptError { error, raced }
        })?,
    };
    Ok(CreateOrUpdate::Updated(patch_status(api, name, written, status).await.map_err(raced)?))
}

/// Splits an object into its JSON without the status, and its status.
fn parts<K: Object>(object: &K) -> Result<(Value, Value), Error> {
    let mut rest = value(object)?;
    let status = rest.as_object_mut().and_then(|members| members.remove("status")).unwrap_or_default();
    Ok((rest, status))
}

async fn patch_status<K: 'static, S: Addressable>(
    api: &Api<K, S>,
    name: &str,
    object: Obj<K>,
    status: Option<Value>,
) -> Result<Obj<K>, Error> {
    let Some(status) = status else { return Ok(object) };
    let patch = bound(json!({"status": status}), &object);
    api.status().patch(name, &Patch::merge(&patch)).await
}

/// Binds a patch to the version of the object.
fn bound<K>(mut patch: Value, object: &Obj<K>) -> Value {
    if let Some(members) = patch.as_object_mut() {
        let metadata = members.entry("metadata").or_insert_with(|| Map::new().into());
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), object.resource_version().into());
        }
    }
    patch
}

/// Computes the merge patch (RFC 7386) from one value to the other; `None` if they are equal.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let removed = old.keys().filter(|member| !new.contains_key(*member)).map(|member| (member.clone(), Value::Null));
    let changed = new.iter().filter_map(|(member, value)| {
        let patch = match old.get(member) {
            Some(old) => difference(old, value)?,
            None => value.clone(),
        };
        Some((member.clone(), patch))
    });
    let patch: Map<String, Value> = removed.chain(changed).collect();
    (!patch.is_empty()).then(|| patch.into())
}

#[cfg(test)]
mod tests;
