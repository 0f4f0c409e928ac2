//! Finalizers of an object on the server.

use evenkeel_client::{Api, Client, DEFAULT_RETRY, Error, Patch};
use evenkeel_core::{Header, Obj};
use serde_json::json;

/// Whether the object has this finalizer.
pub fn contains_finalizer(object: &Header, finalizer: &str) -> bool {
    object.finalizers().any(|name| name == finalizer)
}

/// Has a finalizer on an object, and answers with the object as it then is. Nothing is written if it has it already.
///
/// What is written is bound to the version of the object that was looked at, so that the finalizers of others are never lost. If
/// somebody else has written meanwhile, the object is read and written again, up to five times. `object` may be behind, such
/// as one from a lister. Answers `None` if the object is gone, or another has its name now.
///
/// # Errors
/// Those of the call. A server refuses new finalizers for objects that are being deleted.
pub async fn add_finalizer<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    finalizer: &str,
) -> Result<Option<Obj<K>>, Error> {
    change(client, object, |current| with(current, &[finalizer])).await
}

/// Takes a finalizer from an object, and answers with the object as it then is. Nothing is written if it does not have it. See
/// [`add_finalizer`] for what holds meanwhile.
///
/// An object that is being deleted goes with its last finalizer: what is answered then is what it was at last. `None` if it
/// was gone before.
///
/// # Errors
/// Those of the call.
pub async fn remove_finalizer<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    finalizer: &str,
) -> Result<Option<Obj<K>>, Error> {
    remove_finalizers(client, object, &[finalizer]).await
}

/// Has finalizers on an object, unless it is being deleted: it takes no more of them then, and is answered as it is.
pub(super) async fn ensure_finalizers<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    wanted: &[&str],
) -> Result<Option<Obj<K>>, Error> {
    let is_deleted = |current: &Header| current.deletion_timestamp().is_some();
    change(client, object, |current| if is_deleted(current) { None } else { with(current, wanted) }).await
}

/// The finalizers of an object and these; `None` if it has them all.
fn with(object: &Header, wanted: &[&str]) -> Option<Vec<String>> {
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !contains_finalizer(object, name)).collect();
    (!missing.is_empty()).then(|| object.finalizers().chain(missing).map(str::to_owned).collect())
}

pub(super) async fn remove_finalizers<K: 'static>(
    client: &Client,
    object: &Obj<K>,
    unwanted: &[&str],
) -> Result<Option<Obj<K>>, Error> {
    change(client, object, |current| {
        let rest: Vec<String> =
            current.finalizers().filter(|name| !unwanted.contains(name)).map(str::to_owned).collect();
        (rest.len() < current.finalizers().len()).then_some(rest)
    })
    .await
}

/// Has the finalizers of an object as `edit` wants them; `None` if they are so already.
async fn change<K: 'static>(
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
        // No two objects have the same version, so one that was made anew does not take this either.
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
