//! [`Finalizers`]: what has to be done before an object goes.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use evenkeel_client::{Client, Error};
use evenkeel_core::Obj;

use super::contains_finalizer;
use super::finalizer_patch::{ensure_finalizers, remove_finalizers};

type BoxError = Box<dyn StdError + Send + Sync>;
type Cleanup<K> = dyn Fn(Obj<K>) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync;

/// What has to be done before objects of a kind go, each under the name of its finalizer.
///
/// Call [`finalize`](Self::finalize) first in every reconcile. While the object is not being deleted, it puts the finalizers on
/// it, so that it cannot go unseen. When it is, it does what has to be done and takes those off that are done.
///
/// A cleanup may run again after it has succeeded, if the program ends or the server is away before its finalizer is off: it
/// has to be one that can be repeated. Finalizers that were not registered here are left alone.
///
/// ```
/// # use evenkeel_client::Client;
/// # use evenkeel_core::Obj;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn delete_bucket(name: &str) -> Result<(), std::io::Error> { Ok(()) }
/// use evenkeel_runtime::helpers::{Finalized, Finalizers};
///
/// # async fn example(client: Client, map: Obj<ConfigMap>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut finalizers = Finalizers::<ConfigMap>::new();
/// finalizers.register("example.com/bucket", |map| async move { Ok(delete_bucket(map.key().name()).await?) })?;
///
/// match finalizers.finalize(&client, &map).await? {
///     Finalized::Live { object, .. } => println!("reconcile {}", object.key()),
///     Finalized::Deleting { .. } | Finalized::Deleted => println!("nothing more to do"),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Finalizers<K> {
    registered: Vec<(String, Box<Cleanup<K>>)>,
}

/// What became of an object.
#[derive(Debug)]
pub enum Finalized<K> {
    /// It is not being deleted, and has all finalizers.
    Live {
        /// The object as it is now.
        object: Obj<K>,
        /// Whether finalizers had to be put on it.
        updated: bool,
    },
    /// It is being deleted, and everything has been done that was to be done here.
    Deleting {
        /// The object as it is now, or was at last if nobody else's finalizers keep it.
        object: Obj<K>,
        /// Whether finalizers were taken off.
        updated: bool,
    },
    /// It is not there any more.
    Deleted,
}

/// A cleanup was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one for that finalizer.
    #[error("finalizer {name:?} is registered already")]
    Taken {
        /// The finalizer.
        name: String,
    },
    /// A server takes only names with a domain, such as `example.com/bucket`.
    #[error("{name:?} cannot be a finalizer: it has to begin with a domain, as in \"example.com/bucket\"")]
    Name {
        /// The finalizer.
        name: String,
    },
}

/// An object could not be finalized. What was done is not done again if its finalizer is off.
#[derive(Debug)]
#[non_exhaustive]
pub enum FinalizeError {
    /// Finalizers could not be put on or taken off.
    Write(Error),
    /// Cleanups failed. The finalizers of the others are off, unless that failed too.
    Cleanup {
        /// Those that failed, in their order.
        failures: Vec<CleanupFailure>,
        /// EnqueueReason those of the others are not off.
        write: Option<Error>,
    },
}

/// A cleanup that failed.
#[derive(Debug)]
pub struct CleanupFailure {
    /// Its finalizer, which is still on the object.
    pub finalizer: String,
    /// EnqueueReason.
    pub error: Box<dyn StdError + Send + Sync>,
}

impl<K: 'static> Finalizers<K> {
    /// None yet.
    pub fn new() -> Self {
        Finalizers { registered: Vec::new() }
    }

    /// Registers what has to be done for a finalizer. Cleanups run one after the other, in the order in which they were
    /// registered.
    ///
    /// # Errors
    /// If there is one for that finalizer, or it has no domain.
    pub fn register<A>(
        &mut self,
        finalizer: impl Into<String>,
        cleanup: impl Fn(Obj<K>) -> A + Send + Sync + 'static,
    ) -> Result<(), RegisterError>
    where
        A: Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        let name = finalizer.into();
        if !name.split_once('/').is_some_and(|(domain, rest)| !domain.is_empty() && !rest.is_empty()) {
            return Err(RegisterError::Name { name });
        }
        if self.registered.iter().any(|(taken, _)| *taken == name) {
            return Err(RegisterError::Taken { name });
        }
        self.registered.push((name, Box::new(move |object| Box::pin(cleanup(object)))));
        Ok(())
    }

    /// Puts the finalizers on an object that is not being deleted; for one that is, runs the cleanups whose finalizers it has and
    /// takes off those that succeed. One that fails holds up none of the others.
    ///
    /// # Errors
    /// If a cleanup fails, all of those that did; or if the server does. Try again later, as with every reconcile that fails.
    pub async fn finalize(&self, client: &Client, object: &Obj<K>) -> Result<Finalized<K>, FinalizeError> {
        let names: Vec<&str> = self.registered.iter().map(|(name, _)| name.as_str()).collect();
        let current = match object.deletion_timestamp() {
            Some(_) => Some(object.clone()),
            None => ensure_finalizers(client, object, &names).await.map_err(FinalizeError::Write)?,
        };
        let Some(current) = current else { return Ok(Finalized::Deleted) };
        // The deletion may have become known only now.
        if current.deletion_timestamp().is_none() {
            return Ok(Finalized::Live { updated: !current.is_same_state_as(object), object: current });
        }
        self.clean_up(client, &current).await
    }

    async fn clean_up(&self, client: &Client, object: &Obj<K>) -> Result<Finalized<K>, FinalizeError> {
        let (mut done, mut failures) = (Vec::new(), Vec::new());
        for (name, cleanup) in self.registered.iter().filter(|(name, _)| contains_finalizer(object, name)) {
            match cleanup(object.clone()).await {
                Ok(()) => done.push(name.as_str()),
                Err(error) => failures.push(CleanupFailure { finalizer: name.clone(), error }),
            }
        }
        let written = remove_finalizers(client, object, &done).await;
        if !failures.is_empty() {
            return Err(FinalizeError::Cleanup { failures, write: written.err() });
        }
        match written.map_err(FinalizeError::Write)? {
            Some(now) => Ok(Finalized::Deleting { updated: !done.is_empty(), object: now }),
            None => Ok(Finalized::Deleted),
        }
    }
}

impl<K: 'static> Default for Finalizers<K> {
    fn default() -> Self {
        Finalizers::new()
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.registered.iter().map(|(name, _)| name)).finish()
    }
}

impl fmt::Display for FinalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FinalizeError::Write(error) => write!(f, "the finalizers could not be written: {error}"),
            FinalizeError::Cleanup { failures, write } => {
                for (number, CleanupFailure { finalizer, error }) in failures.iter().enumerate() {
                    let joint = if number == 0 { "" } else { "; " };
                    write!(f, "{joint}finalizer {finalizer} failed: {error}")?;
                }
                match write {
                    Some(error) => write!(f, "; and the others could not be taken off: {error}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl StdError for FinalizeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // The text of the error is in ours, so what comes next is its cause.
            FinalizeError::Write(error) => error.source(),
            FinalizeError::Cleanup { failures, .. } => failures.first().and_then(|failure| failure.error.source()),
        }
    }
}
