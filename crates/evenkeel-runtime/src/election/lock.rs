//! [`Lock`]: the storage of the leader record. [`LeaseLock`]: a Lease.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_client::{Api, ApiRequest, Client, Config, Error};
use evenkeel_core::Obj;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::record::{Record, VersionedRecord};

/// The future of a [`Lock`] operation.
pub type LockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// The storage of the leader record, shared by all candidates, with atomic writes.
///
/// Use [`LeaseLock`]; tests bring their own.
///
/// Safety depends on two properties. A read returns the newest record, never a stale copy. A write happens only if the
/// stored version is the one it names, or, for [`create`](Self::create), if there is no record. Latency does not
/// matter: requests that take too long are dropped, and may still take effect.
pub trait Lock: Send + Sync + 'static {
    /// Reads the record. `None` if there is none.
    fn get(&self) -> LockFuture<'_, Option<VersionedRecord>>;

    /// Writes the first record.
    fn create(&self, record: Record) -> LockFuture<'_, VersionedRecord>;

    /// Replaces the record of this version.
    fn update(&self, record: Record, version: String) -> LockFuture<'_, VersionedRecord>;

    /// Returns the name of the lock for logs: `namespace/name`.
    fn describe(&self) -> String;

    /// Returns the object that events refer to. `None` if there is none.
    fn reference(&self) -> Option<ObjectReference> {
        None
    }
}

/// Why a lock could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another candidate wrote first: the version differs, or a record exists already.
    #[error("another version of the lease {lock} is there")]
    Conflict {
        /// The lock, `namespace/name`.
        lock: String,
    },
    /// An update before the first `get` or `create`.
    #[error("lease not initialized, call get or create first")]
    NotInitialized,
    /// The API server rejected the request, or could not be reached.
    #[error(transparent)]
    Api(#[from] Error),
    /// Any other failure of a lock.
    #[error("{problem}")]
    Other {
        /// What failed.
        problem: String,
    },
}

/// A lock in a Lease of `coordination.k8s.io/v1`.
///
/// An update sends the object as it was last read, with a new spec and the configured labels. Other labels,
/// annotations and owner references are kept.
pub struct LeaseLock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    user_agent: String,
    last_seen: Mutex<Option<Arc<Lease>>>,
}

impl LeaseLock {
    /// Returns a lock in the Lease of this namespace and name, which need not exist yet.
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

    /// Sets labels that each write adds to the Lease. Its other labels are kept.
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

    async fn call<V>(&self, call: ApiRequest<Obj<Lease>, V>) -> Result<VersionedRecord, LockError>
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
        Ok(VersionedRecord { record, version })
    }
}

impl Lock for LeaseLock {
    fn get(&self) -> LockFuture<'_, Option<VersionedRecord>> {
        Box::pin(async move {
            match self.call(self.api.get(&self.name)).await {
                Ok(held) => Ok(Some(held)),
                Err(LockError::Api(error)) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn create(&self, record: Record) -> LockFuture<'_, VersionedRecord> {
        Box::pin(async move {
            let (name, namespace) = (Some(self.name.clone()), Some(self.namespace.clone()));
            let mut metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
            self.label(&mut metadata);
            self.call(self.api.create(&Lease { metadata, spec: Some(record.to_spec()) })).await
        })
    }

    fn update(&self, record: Record, version: String) -> LockFuture<'_, VersionedRecord> {
        Box::pin(async move {
            let seen = self.last_seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut metadata = seen.ok_or(LockError::NotInitialized)?.metadata.clone();
            metadata.resource_version = Some(version);
            // Not needed in the request; the server keeps its own.
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

/// The type of a lock, for programs that read it from a flag or a file.
///
/// Only Leases remain. The types that Kubernetes has removed are recognised and rejected with an error that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockType {
    /// `leases`
    Leases,
}

/// The lock type is not supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockTypeError {
    /// Kubernetes has removed this type.
    #[error("{name} lock is removed, migrate to leases")]
    Removed {
        /// The name of the type.
        name: String,
    },
    /// There is no such type.
    #[error("Invalid lock-type {name}")]
    Unknown {
        /// The name of the type.
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
