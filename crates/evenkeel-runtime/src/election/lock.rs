//! [`Lock`]: where the record of who leads is kept. [`LeaseLock`]: in a Lease.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_client::{Api, Call, Client, Config, Error};
use evenkeel_core::Obj;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::record::{Held, Record};

/// What a [`Lock`] does, before it is done.
pub type LockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// Where the record of who leads is kept: a place that all candidates can reach, and that changes in one step or not at all.
///
/// [`LeaseLock`] is what one wants. Tests bring their own.
///
/// Safety rests on two things. A read returns the newest record there is, not a copy that may be old. A write happens only if
/// the version that it names is still there, or, for [`create`](Self::create), if nothing is. Nothing is asked of how long a call
/// takes: those that take too long are dropped, and may still take effect.
pub trait Lock: Send + Sync + 'static {
    /// The record, `None` if there is none.
    fn get(&self) -> LockFuture<'_, Option<Held>>;

    /// Writes the first record.
    fn create(&self, record: Record) -> LockFuture<'_, Held>;

    /// Replaces the record that has this version.
    fn update(&self, record: Record, version: String) -> LockFuture<'_, Held>;

    /// What to call the lock in logs: `namespace/name`.
    fn describe(&self) -> String;

    /// What events are about. `None` if there is no such object.
    fn reference(&self) -> Option<ObjectReference> {
        None
    }
}

/// Why a lock could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else was faster: another version is there, or there is one already.
    #[error("another version of the lease {lock} is there")]
    Conflict {
        /// Which lock.
        lock: String,
    },
    /// There has to be something before it can be replaced.
    #[error("lease not initialized, call get or create first")]
    NotInitialized,
    /// The API server refused, or was not reached.
    #[error(transparent)]
    Api(#[from] Error),
    /// Whatever else keeps a lock from working.
    #[error("{problem}")]
    Other {
        /// What happened.
        problem: String,
    },
}

/// A lock in a Lease of `coordination.k8s.io/v1`.
///
/// An update sends the object as it was last read, with another spec and the labels that were asked for: labels, annotations and
/// owners of others stay.
pub struct LeaseLock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    user_agent: String,
    last_seen: Mutex<Option<Arc<Lease>>>,
}

impl LeaseLock {
    /// The lease of this name in this namespace, which need not be there yet.
    pub fn new(client: &Client, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = namespace.into();
        let agent = client.config().user_agent.clone().unwrap_or_else(Config::default_user_agent);
        LeaseLock {
            api: client.api::<Lease>().namespace(&namespace),
            namespace,
            name: name.into(),
            labels: BTreeMap::new(),
            user_agent: format!("{agent}/leader-election"),
            last_seen: Mutex::default(),
        }
    }

    /// Gives the lease these labels whenever it is written. It keeps those that others gave it.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        self.labels.extend(labels.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    fn label(&self, metadata: &mut ObjectMeta) {
        if !self.labels.is_empty() {
            metadata.labels.get_or_insert_default().extend(self.labels.clone());
        }
    }

    async fn call<V>(&self, call: Call<Obj<Lease>, V>) -> Result<Held, LockError>
    where
        V: 'static,
    {
        let agent = &self.user_agent;
        let answer = call.with(|request| request.header(http::header::USER_AGENT, agent)).await;
        let found = answer.map_err(|error| match error.is_conflict() || error.is_already_exists() {
            true => LockError::Conflict { lock: self.describe() },
            false => LockError::Api(error),
        })?;
        let lease = found.typed().map_err(Error::from)?;
        let record = lease.spec.as_ref().map(Record::from_spec).unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        *self.last_seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        Ok(Held { record, version })
    }
}

impl Lock for LeaseLock {
    fn get(&self) -> LockFuture<'_, Option<Held>> {
        Box::pin(async move {
            match self.call(self.api.get(&self.name)).await {
                Ok(held) => Ok(Some(held)),
                Err(LockError::Api(error)) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn create(&self, record: Record) -> LockFuture<'_, Held> {
        Box::pin(async move {
            let (name, namespace) = (Some(self.name.clone()), Some(self.namespace.clone()));
            let mut metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
            self.label(&mut metadata);
            self.call(self.api.create(&Lease { metadata, spec: Some(record.to_spec()) })).await
        })
    }

    fn update(&self, record: Record, version: String) -> LockFuture<'_, Held> {
        Box::pin(async move {
            let seen = self.last_seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut metadata = seen.ok_or(LockError::NotInitialized)?.metadata.clone();
            metadata.resource_version = Some(version);
            // Nobody has asked for them, and the server keeps its own.
            metadata.managed_fields = None;
            self.label(&mut metadata);
            self.call(self.api.update(&Lease { metadata, spec: Some(record.to_spec()) })).await
        })
    }

    fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn reference(&self) -> Option<ObjectReference> {
        let seen = self.last_seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let metadata = seen.map(|lease| lease.metadata.clone()).unwrap_or_default();
        Some(ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..ObjectReference::default()
        })
    }
}

impl fmt::Debug for LeaseLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseLock").field("lease", &self.describe()).finish_non_exhaustive()
    }
}

/// What a lock is made of, for programs that read it from a flag or a file.
///
/// There is one kind left. Those that Kubernetes has had before are recognised, and refused with a word on what happened to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockType {
    /// `leases`
    Leases,
}

/// There is no such kind of lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockTypeError {
    /// There was one.
    #[error("{name} lock is removed, migrate to leases")]
    Removed {
        /// Its name.
        name: String,
    },
    /// There never was.
    #[error("Invalid lock-type {name}")]
    Unknown {
        /// Its name.
        name: String,
    },
}

impl FromStr for LockType {
    type Err = LockTypeError;

    fn from_str(name: &str) -> Result<Self, LockTypeError> {
        match name {
            "leases" => Ok(LockType::Leases),
            "endpoints" | "configmaps" | "endpointsleases" | "configmapsleases" => {
                Err(LockTypeError::Removed { name: name.to_owned() })
            }
            _ => Err(LockTypeError::Unknown { name: name.to_owned() }),
        }
    }
}
