//! [`create_or_update`]: having an object as it should be, whether it is there or not.

use std::fmt;

use evenkeel_core::Obj;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::scope::Addressable;
use super::{Api, Object};
use crate::error::Error;
use crate::rest::RequestError;
use crate::retry::{Backoff, DEFAULT_RETRY, RetryError};

/// What [`create_or_update`] has done, and the object as the server has it now.
#[derive(Clone)]
pub enum CreateOrUpdate<K> {
    /// There was none; now there is.
    Created(Obj<K>),
    /// It was another.
    Updated(Obj<K>),
    /// It was as it should be; nothing was written.
    Unchanged(Obj<K>),
}

impl<K> CreateOrUpdate<K> {
    /// The object.
    pub fn object(&self) -> &Obj<K> {
        match self {
            CreateOrUpdate::Created(object) | CreateOrUpdate::Updated(object) | CreateOrUpdate::Unchanged(object) => {
                object
            }
        }
    }

    /// Whether something was written.
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

/// What a function that changes an object answers with: nothing, or a `Result`. An error means that the object is to be left as
/// it is, such as one that belongs to somebody else; it comes back as [`Error::Declined`].
pub trait Mutation {
    /// # Errors
    /// Why the object is to be left as it is.
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

/// Changes an object, if whoever does so agrees.
pub(super) fn change<K: Object, M: Mutation>(object: &mut K, mutate: impl FnOnce(&mut K) -> M) -> Result<(), Error> {
    mutate(object).outcome().map_err(|source| {
        let name = object.name().map(|name| name.into_owned()).unwrap_or_default();
        Error::Declined { name, source }
    })
}

/// Has an object as `mutate` wants it. `initial` names it, and is what it begins as if it is not there yet.
///
/// The object is read. If it is not there, a copy of `initial` is mutated and created. If it is, a copy of it is mutated,
/// and written if that has changed it. Whenever somebody else was faster (the object has changed, or come, or gone since it
/// was read) all of this happens again, up to five times: so `mutate` may run more than once, each time on a fresh copy.
///
/// What is written is the whole object as `K` knows it. Fields of which `K` knows nothing are lost when an object is
/// updated, as with every update: for objects that newer programs write as well, use server-side apply
/// ([`Api::apply`]) or a type that keeps all fields, such as [`Unstructured`](crate::Unstructured).
///
/// `mutate` may answer with a `Result`; if that is an error, nothing is written: see [`Mutation`].
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
///     CreateOrUpdate::Created(map) => println!("{} is new", map.key()),
///     CreateOrUpdate::Updated(map) => println!("{} was changed", map.key()),
///     CreateOrUpdate::Unchanged(map) => println!("{} was fine", map.key()),
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
    let mut races = Races::new();
    loop {
        match attempt(api, &name, initial, &mut mutate).await {
            Ok(done) => return Ok(done),
            Err(failure) => races.lost(failure).await?,
        }
    }
}

/// Why an attempt failed, and whether it was because somebody else was faster.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) raced: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, raced: false }
    }
}

/// How often somebody else was faster, and how long to wait before the next attempt.
pub(super) struct Races {
    backoff: Backoff,
    previous: Option<Error>,
}

impl Races {
    pub(super) fn new() -> Self {
        Races { backoff: DEFAULT_RETRY, previous: None }
    }

    /// Waits, if another attempt may do better; else the error is the end of it.
    pub(super) async fn lost(&mut self, failure: Failure) -> Result<(), Error> {
        let Failure { error, raced } = failure;
        if !raced {
            return Err(RetryError::Failed { error, previous: self.previous.take() }.into());
        }
        let Some(wait) = self.backoff.next_wait(fastrand::f64()) else { return Err(error) };
        self.previous = Some(error);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// The name of an object that may be there already.
pub(super) fn name_of<K: Object>(initial: &K) -> Result<String, Error> {
    initial.name().map(|name| name.into_owned()).ok_or_else(|| {
        let problem = "an object that may be there already needs a name, and it has none".to_owned();
        RequestError::Invalid { problem }.into()
    })
}

async fn attempt<K, S, M>(
    api: &Api<K, S>,
    name: &str,
    initial: &K,
    mutate: impl FnOnce(&mut K) -> M,
) -> Result<CreateOrUpdate<K>, Failure>
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
    match plan(found, initial, mutate)? {
        Plan::Create(object) => api.create(&object).await.map(CreateOrUpdate::Created).map_err(|error| {
            let raced = error.is_already_exists() || error.is_conflict();
            Failure { error, raced }
        }),
        Plan::Update(object) => api.update(&object).await.map(CreateOrUpdate::Updated).map_err(|error| {
            let raced = error.is_conflict() || error.is_not_found();
            Failure { error, raced }
        }),
        Plan::Keep(object) => Ok(CreateOrUpdate::Unchanged(object)),
    }
}

/// What is to be done.
enum Plan<K> {
    Create(K),
    Update(K),
    Keep(Obj<K>),
}

fn plan<K, M: Mutation>(found: Option<Obj<K>>, initial: &K, mutate: impl FnOnce(&mut K) -> M) -> Result<Plan<K>, Error>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let Some(found) = found else {
        let mut object = initial.clone();
        change(&mut object, mutate)?;
        same_name(initial, &object)?;
        return Ok(Plan::Create(object));
    };
    let current = found.typed()?;
    let mut object = K::clone(&current);
    change(&mut object, mutate)?;
    same_name(&*current, &object)?;
    // Types of objects need not be comparable, and maps in them need not be ordered; their JSON is the one and both.
    Ok(if value(&*current)? == value(&object)? { Plan::Keep(found) } else { Plan::Update(object) })
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
    let problem = format!(
        "the object {:?} was renamed while it was mutated; nothing was written",
        before.name().unwrap_or_default()
    );
    Err(RequestError::Invalid { problem }.into())
}
