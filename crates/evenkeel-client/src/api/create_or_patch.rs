//! [`create_or_patch`]: brings an object and its status into a desired state, sending only the difference.

use std::fmt;

use evenkeel_core::Obj;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::changes::{lock, raw_value, wanted_value};
use super::create_or_update::{AttemptError, ConflictBackoff, Mutation, change, name_of, same_name, value};
use super::difference::merge_difference;
use super::scope::Addressable;
use super::{Api, Object, Patch};
use crate::error::Error;

/// The result of [`create_or_patch`], with the object as the server stores it.
#[derive(Clone)]
pub enum CreateOrPatch<K> {
    /// The object did not exist and was created, and its status written if `mutate` set one.
    Created(Obj<K>),
    /// The object was patched; its status was in the desired state.
    Updated(Obj<K>),
    /// The object and its status were patched.
    UpdatedStatus(Obj<K>),
    /// The status was patched; the rest was in the desired state.
    UpdatedStatusOnly(Obj<K>),
    /// The object was in the desired state; nothing was written.
    Unchanged(Obj<K>),
}

impl<K> CreateOrPatch<K> {
    /// Returns the object.
    pub fn object(&self) -> &Obj<K> {
        self.parts().1
    }

    /// Returns whether something was written.
    pub fn is_changed(&self) -> bool {
        !matches!(self, CreateOrPatch::Unchanged(_))
    }

    fn parts(&self) -> (&'static str, &Obj<K>) {
        match self {
            CreateOrPatch::Created(object) => ("Created", object),
            CreateOrPatch::Updated(object) => ("Updated", object),
            CreateOrPatch::UpdatedStatus(object) => ("UpdatedStatus", object),
            CreateOrPatch::UpdatedStatusOnly(object) => ("UpdatedStatusOnly", object),
            CreateOrPatch::Unchanged(object) => ("Unchanged", object),
        }
    }
}

impl<K> fmt::Debug for CreateOrPatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, object) = self.parts();
        f.debug_tuple(name).field(object).finish()
    }
}

/// Brings an object into the state that `mutate` sets, status included. `initial` names it, and is its initial state if
/// it does not exist.
///
/// Unlike [`create_or_update`](crate::create_or_update) it sends only what `mutate` changed. Fields that `K` does not
/// know are kept. The patch is bound to the version that was read: on a conflict everything is repeated, up to five times,
/// with `mutate` on a fresh copy.
///
/// A changed status is written in a second request, to the status subresource, because servers ignore it elsewhere. A
/// kind without that subresource stores its status like any other field: use `create_or_update` for it.
///
/// A function that unsets a field which the server sets again writes on every call. After three equal changes of an object in
/// a row, the client logs a warning with the path of the field.
///
/// # Errors
/// `initial` has no name, `mutate` [fails](Mutation) or changes the name, or a request fails. The object may then be
/// written without its status; the next call writes the rest.
pub async fn create_or_patch<K, S, M>(
    api: &Api<K, S>,
    initial: &K,
    mutate: impl FnMut(&mut K) -> M,
) -> Result<CreateOrPatch<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    run(api, FirstRead::Live, initial, mutate).await
}

/// Does the same as [`create_or_patch`], starting from what a cache has instead of a read. If the cache is right, that saves
/// the read; `None` is an object that the cache does not have.
///
/// A cache that lags costs a read: if the object exists already, or has another version, it is read from the server and
/// everything is repeated. A cache that drops fields does no harm, because only changed fields are sent.
///
/// ```
/// # async fn example(
/// #     client: evenkeel_client::Client,
/// #     cached: Option<evenkeel_core::Obj<k8s_openapi::api::core::v1::ConfigMap>>,
/// #     initial: k8s_openapi::api::core::v1::ConfigMap,
/// # ) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::create_or_patch_from;
///
/// let maps = client.core_v1().config_maps("default");
/// create_or_patch_from(&maps, cached, &initial, |map| {
///     map.data.get_or_insert_default().insert("colour".into(), "blue".into());
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`create_or_patch`].
pub async fn create_or_patch_from<K, S, M>(
    api: &Api<K, S>,
    cached: Option<Obj<K>>,
    initial: &K,
    mutate: impl FnMut(&mut K) -> M,
) -> Result<CreateOrPatch<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    run(api, FirstRead::Cached(cached), initial, mutate).await
}

/// Where the first attempt takes the object from.
enum FirstRead<K> {
    Live,
    Cached(Option<Obj<K>>),
}

async fn run<K, S, M>(
    api: &Api<K, S>,
    mut first: FirstRead<K>,
    initial: &K,
    mut mutate: impl FnMut(&mut K) -> M,
) -> Result<CreateOrPatch<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    let name = name_of(initial)?;
    let mut conflicts = ConflictBackoff::new();
    loop {
        let found = match std::mem::replace(&mut first, FirstRead::Live) {
            FirstRead::Cached(found) => found,
            FirstRead::Live => match api.get(&name).await {
                Ok(found) => Some(found),
                Err(error) if error.is_not_found() => None,
                Err(error) => {
                    conflicts.wait_after(error.into()).await?;
                    continue;
                }
            },
        };
        match attempt(api, &name, found, initial, &mut mutate).await {
            Ok(done) => return Ok(done),
            Err(failure) => conflicts.wait_after(failure).await?,
        }
    }
}

async fn attempt<K, S, M>(
    api: &Api<K, S>,
    name: &str,
    found: Option<Obj<K>>,
    initial: &K,
    mutate: impl FnOnce(&mut K) -> M,
) -> Result<CreateOrPatch<K>, AttemptError>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    let Some(found) = found else {
        let mut wanted = initial.clone();
        change(&mut wanted, mutate)?;
        same_name(initial, &wanted)?;
        let created = api.create(&wanted).await.map_err(|error| {
            // Not found is a namespace that does not exist.
            let raced = error.is_conflict() || error.is_already_exists();
            AttemptError { error, raced }
        })?;
        // Keeps what the server itself set in the status.
        let status = split_status(value(&wanted)?)
            .1
            .filter(|status| status.as_object().is_some_and(|status| !status.is_empty()));
        return Ok(CreateOrPatch::Created(match status {
            None => created,
            Some(status) => patch_status(api, name, &created, status).await?,
        }));
    };
    let before = found.typed().map_err(Error::from)?;
    let mut wanted = K::clone(&before);
    change(&mut wanted, mutate)?;
    same_name(&*before, &wanted)?;
    let raw = raw_value(&found)?;
    let wanted = wanted_value(&raw, &*before, &wanted)?;
    let difference = merge_difference(&raw, &wanted);
    let (patch, status) = match difference.clone().map(split_status) {
        None => (None, None),
        Some((rest, status)) => {
            (Some(rest).filter(|rest| rest.as_object().is_none_or(|rest| !rest.is_empty())), status)
        }
    };
    let written = match patch {
        None => None,
        Some(mut patch) => {
            lock(&mut patch, found.resource_version());
            Some(api.patch(name, &Patch::merge(&patch)).await.map_err(|error| {
                // The object may have been deleted since it was read.
                let raced = error.is_conflict() || error.is_not_found();
                AttemptError { error, raced }
            })?)
        }
    };
    let done = match (written, status) {
        (None, None) => CreateOrPatch::Unchanged(found),
        (Some(written), None) => CreateOrPatch::Updated(written),
        (None, Some(status)) => CreateOrPatch::UpdatedStatusOnly(patch_status(api, name, &found, status).await?),
        (Some(written), Some(status)) => CreateOrPatch::UpdatedStatus(patch_status(api, name, &written, status).await?),
    };
    api.client.repeated_writes().record(&api.info, done.object().key(), difference.as_ref());
    Ok(done)
}

/// Splits a value into its members without the status, and its status.
fn split_status(mut value: Value) -> (Value, Option<Value>) {
    let status = value.as_object_mut().and_then(|members| members.remove("status"));
    (value, status)
}

async fn patch_status<K: 'static, S: Addressable>(
    api: &Api<K, S>,
    name: &str,
    object: &Obj<K>,
    status: Value,
) -> Result<Obj<K>, AttemptError> {
    let mut patch = json!({"status": status});
    lock(&mut patch, object.resource_version());
    api.status().patch(name, &Patch::merge(&patch)).await.map_err(|error| {
        let raced = error.is_conflict();
        AttemptError { error, raced }
    })
}
