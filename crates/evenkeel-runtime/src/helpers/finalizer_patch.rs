//! Adds and removes finalizers with patches that never lose the finalizers of others.

use evenkeel_client::{Api, Client, DEFAULT_RETRY, Error, Patch};
use evenkeel_core::{Header, Obj};
use serde_json::json;

/// Returns whether the object has this finalizer.
pub fn contains_finalizer(object: &Header, finalizer: &str) -> bool {
    object.finalizers().any(|name| name == finalizer)
}

/// Adds a finalizer to an object, and returns the current object. Writes nothing if the object has the finalizer.
///
/// The write requires the resource version that was read, so that the finalizers of others are never lost. On a conflict the
/// object is read and written again, up to five times. `object` may be stale, such as one from a lister. Returns `None` if the
/// object was deleted, also if another object has its name now.
///
/// # Errors
/// Returns the error of the request. The server rejects new finalizers for objects that are being deleted.
pub async fn add_finalizer<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    finalizer: &str,
) -> Result<Option<Obj<K>>, Error> {
    patch_finalizers(client, object, |current| with(current, &[finalizer])).await
}

/// Removes a finalizer from an object, and returns the current object. Writes nothing if the object does not have the finalizer.
/// Conflicts are handled as in [`add_finalizer`].
///
/// The server deletes an object that is being deleted with its last finalizer: the last state is returned then. Returns `None` if
/// the object was deleted before.
///
/// # Errors
/// Returns the error of the request.
pub async fn remove_finalizer<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    finalizer: &str,
) -> Result<Option<Obj<K>>, Error> {
    remove_finalizers(client, object, &[finalizer]).await
}

/// Adds finalizers to an object. Returns an object that is being deleted unchanged, because the server rejects new finalizers for
/// it.
pub(super) async fn ensure_finalizers<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    wanted: &[&str],
) -> Result<Option<Obj<K>>, Error> {
    let is_deleted = |current: &Header| current.deletion_timestamp().is_some();
    patch_finalizers(client, object, |current| if is_deleted(current) { None } else { with(current, wanted) }).await
}

/// Returns the finalizers of an object and the wanted ones; `None` if it has them all.
fn with(object: &Header, wanted: &[&str]) -> Option<Vec<String>> {
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !contains_finalizer(object, name)).collect();
    (!missing.is_empty()).then(|| object.finalizers().chain(missing).map(str::to_owned).collect())
}

pub(super) async fn remove_finalizers<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    unwanted: &[&str],
) -> Result<Option<Obj<K>>, Error> {
    patch_finalizers(client, object, |current| {
        let rest: Vec<String> =
            current.finalizers().filter(|name| !unwanted.contains(name)).map(str::to_owned).collect();
        (rest.len() < current.finalizers().len()).then_some(rest)
    })
    .await
}

/// Sets the finalizers of an object to what `edit` returns; `None` means that they need no change.
async fn patch_finalizers<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    edit: impl Fn(&Header) -> Option<Vec<String>>,
) -> Result<Option<Obj<K>>, Error> {
    let key = object.key();
    let api = Api::<K, _>::of(client, object.resource()).namespace(key.namespace().unwrap_or_default());
    let mut current = object.clone();
    let mut backoff = DEFAULT_RETRY;
    loop {
        let Some(finalizers) = edit(&current) else { return Ok(Some(current)) };
        // Resource versions are unique, so an object that was deleted and recreated rejects this patch too.
        let patch = Patch::merge(&json!({"metadata": {
            "resourceVersion": current.resource_version(),
            "finalizers": finalizers,
        }}));
        let conflict = match api.patch(key.name(), &patch).await {
            Ok(written) => return Ok(Some(written)),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(error),
        };
        let Some(wait) = backoff.next_wait(fastrand::f64()) else { return Err(conflict) };
        tokio::time::sleep(wait).await;
        current = match api.get(key.name()).await {
            Ok(found) if found.uid() == object.uid() => found,
            Ok(_) => return Ok(None),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
    }
}
