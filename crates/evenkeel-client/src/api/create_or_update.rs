//! [`create_or_update`]: brings an object into a desired state, whether it exists or not.

use std::fmt;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::Obj;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::changes::{raw_value, wanted_value};
use super::difference::merge_difference;
use super::scope::Addressable;
use super::{Api, Object};
use crate::error::Error;
use crate::rest::RequestError;
use crate::retry::{Backoff, DEFAULT_RETRY, RetryError};

/// The result of [`create_or_update`], with the object as the server stores it.
#[derive(Clone)]
pub enum CreateOrUpdate<K> {
    /// The object did not exist and was created.
    Created(Obj<K>),
    /// The object was updated.
    Updated(Obj<K>),
    /// The object was in the desired state; nothing was written.
    Unchanged(Obj<K>),
}

impl<K> CreateOrUpdate<K> {
    /// Returns the object.
    pub fn object(&self) -> &Obj<K> {
        match self {
            CreateOrUpdate::Created(object) | CreateOrUpdate::Updated(object) | CreateOrUpdate::Unchanged(object) => {
                object
            }
        }
    }

    /// Returns whether something was written.
    pub fn is_changed(&self) -> bool {
        !matches!(self, CreateOrUpdate::Unchanged(_))
    }
}

impl<K> fmt::Debug for CreateOrUpdate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            CreateOrUpdate::Created(_) => "Created",
            CreateOrUpdate::Updated(_) => "Updated",
            CreateOrUpdate::Unchanged(_) => "Unchanged",
        };
        f.debug_tuple(name).field(self.object()).finish()
    }
}

/// The result of a function that mutates an object: nothing, or a `Result`. With an error the object is not written,
/// for example because another controller owns it; [`create_or_update`] returns [`Error::Declined`].
pub trait Mutation {
    /// # Errors
    /// Why the object is not written.
    fn outcome(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl Mutation for () {
    fn outcome(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> Mutation for Result<(), E> {
    fn outcome(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}

/// Mutates an object.
pub(super) fn change<K: Object, M: Mutation>(object: &mut K, mutate: impl FnOnce(&mut K) -> M) -> Result<(), Error> {
    mutate(object).outcome().map_err(|source| {
        let name = object.name().map(|name| name.into_owned()).unwrap_or_default();
        Error::Declined { name, source }
    })
}

/// Brings an object into the state that `mutate` sets. `initial` names it, and is its initial state if it does not
/// exist.
///
/// Reads the object. If it does not exist, mutates a copy of `initial` and creates it. If it exists, mutates a copy of
/// it and updates it if that changed it. If another client has created, changed or deleted the object since it was
/// read, everything is repeated, up to five times: `mutate` may run more than once, each time on a fresh copy.
///
/// An update writes the whole object, with the change of `mutate` laid on what was read: fields that `K` does not know are
/// kept. Changes to the status of a kind with a status subresource are lost; [`create_or_patch`](crate::create_or_patch)
/// writes them.
///
/// A function that unsets a field which the server sets again writes on every call. After three equal changes of an object in
/// a row, the client logs a warning with the path of the field.
///
/// `mutate` may return a `Result`; on an error nothing is written: see [`Mutation`].
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::{CreateOrUpdate, create_or_update};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
///
/// let maps = client.api::<ConfigMap>().namespace("default");
/// let named = ConfigMap {
///     metadata: ObjectMeta { name: Some("settings".into()), ..ObjectMeta::default() },
///     ..ConfigMap::default()
/// };
/// let done = create_or_update(&maps, &named, |map| {
///     map.data.get_or_insert_default().insert("colour".into(), "blue".into());
/// });
/// match done.await? {
///     CreateOrUpdate::Created(map) => println!("{} created", map.key()),
///     CreateOrUpdate::Updated(map) => println!("{} updated", map.key()),
///     CreateOrUpdate::Unchanged(map) => println!("{} unchanged", map.key()),
/// }
/// # Ok(())
/// # }
/// ```
pub async fn create_or_update<K, S, M>(
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
        match attempt(api, &name, initial, conflicts.has_waited(), &mut mutate).await {
            Ok(done) => return Ok(done),
            Err(failure) => conflicts.wait_after(failure).await?,
        }
    }
}

/// The error of an attempt, and whether a concurrent write caused it.
pub(super) struct AttemptError {
    pub(super) error: Error,
    pub(super) raced: bool,
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        AttemptError { error, raced: false }
    }
}

/// The backoff after concurrent writes.
pub(super) struct ConflictBackoff {
    backoff: Backoff,
    previous: Option<Error>,
}

impl ConflictBackoff {
    pub(super) fn new() -> Self {
        ConflictBackoff { backoff: DEFAULT_RETRY, previous: None }
    }

    /// Returns whether this is not the first attempt.
    fn has_waited(&self) -> bool {
        self.previous.is_some()
    }

    /// Waits before the next attempt, or returns the error if there is none.
    pub(super) async fn wait_after(&mut self, failure: AttemptError) -> Result<(), Error> {
        let AttemptError { error, raced } = failure;
        if !raced {
            return Err(RetryError::Failed { error, previous: self.previous.take() }.into());
        }
        let Some(wait) = self.backoff.next_wait(fastrand::f64()) else { return Err(error) };
        self.previous = Some(error);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Returns the name of an object that may exist.
pub(super) fn name_of<K: Object>(initial: &K) -> Result<String, Error> {
    initial.name().map(|name| name.into_owned()).ok_or_else(|| {
        let problem = "the object has no name, which create-or-update needs to look it up".to_owned();
        RequestError::Invalid { problem }.into()
    })
}

async fn attempt<K, S, M>(
    api: &Api<K, S>,
    name: &str,
    initial: &K,
    is_retry: bool,
    mutate: impl FnOnce(&mut K) -> M,
) -> Result<CreateOrUpdate<K>, AttemptError>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
    M: Mutation,
{
    let found = match api.get(name).await {
        Ok(object) => Some(object),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let (repeated, info) = (api.client.repeated_writes(), &api.info);
    match plan(found, initial, mutate)? {
        PlannedWrite::Create(object) => api.create(&object).await.map(CreateOrUpdate::Created).map_err(|error| {
            let raced = error.is_already_exists() || error.is_conflict();
            AttemptError { error, raced }
        }),
        PlannedWrite::Update { mut wanted, difference } => {
            if is_retry && is_planted(Defect::RetriedPutUnconditional) {
                remove_version(&mut wanted);
            }
            let updated = api.replace(name, &wanted).await.map_err(|error| {
                let raced = error.is_conflict() || error.is_not_found();
                AttemptError { error, raced }
            })?;
            repeated.record(info, updated.key(), Some(&difference));
            Ok(CreateOrUpdate::Updated(updated))
        }
        PlannedWrite::Keep(object) => {
            repeated.record(info, object.key(), None);
            Ok(CreateOrUpdate::Unchanged(object))
        }
    }
}

/// Makes an update of an object unconditional.
fn remove_version(object: &mut Value) {
    object.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| metadata.remove("resourceVersion"));
}

/// The write to make.
enum PlannedWrite<K> {
    Create(K),
    Update { wanted: Value, difference: Value },
    Keep(Obj<K>),
}

fn plan<K, M: Mutation>(
    found: Option<Obj<K>>,
    initial: &K,
    mutate: impl FnOnce(&mut K) -> M,
) -> Result<PlannedWrite<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let Some(found) = found else {
        let mut object = initial.clone();
        change(&mut object, mutate)?;
        same_name(initial, &object)?;
        return Ok(PlannedWrite::Create(object));
    };
    let current = found.typed()?;
    let mut object = K::clone(&current);
    change(&mut object, mutate)?;
    same_name(&*current, &object)?;
    let raw = raw_value(&found)?;
    let wanted = wanted_value(&raw, &*current, &object)?;
    Ok(match merge_difference(&raw, &wanted) {
        None => PlannedWrite::Keep(found),
        Some(difference) => PlannedWrite::Update { wanted, difference },
    })
}

pub(super) fn value<K: Object>(object: &K) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| {
        let what = std::any::type_name::<K>().to_owned();
        RequestError::Body { what, problem: error.to_string() }.into()
    })
}

pub(super) fn same_name<K: Object>(before: &K, after: &K) -> Result<(), Error> {
    if before.name() == after.name() && before.namespace() == after.namespace() {
        return Ok(());
    }
    let problem =
        format!("the mutation renamed the object {:?}; nothing was written", before.name().unwrap_or_default());
    Err(RequestError::Invalid { problem }.into())
}
