//! [`Finalizers`]: runs cleanups before an object is deleted.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use evenkeel_client::Error;
use evenkeel_core::Obj;

use super::contains_finalizer;
use super::finalizer_patch::{ensure_finalizers, remove_finalizers};
use crate::Context;

type BoxError = Box<dyn StdError + Send + Sync>;
type Cleanup<K> = dyn Fn(Obj<K>, Context) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync;

/// The cleanups that run before objects of a kind are deleted, each under the name of its finalizer.
///
/// Call [`finalize`](Self::finalize) first in every reconcile. It adds the finalizers to an object that is not being deleted, so
/// that the object cannot be deleted unnoticed. For an object that is being deleted, it runs the cleanups and removes the
/// finalizers of those that succeed.
///
/// A cleanup may run again after it has succeeded, if the program exits or the server is unavailable before its finalizer is
/// removed: it must be idempotent. Finalizers that are not registered here are not touched.
///
/// ```
/// # use evenkeel_core::Obj;
/// # use evenkeel_runtime::{Context, Next, ReconcileError};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn delete_bucket(name: &str) -> Result<(), std::io::Error> { Ok(()) }
/// use evenkeel_runtime::helpers::{Finalized, Finalizers, RegisterError};
///
/// fn finalizers() -> Result<Finalizers<ConfigMap>, RegisterError> {
///     let mut finalizers = Finalizers::new();
///     finalizers.register("example.com/bucket", |map, _ctx| async move { Ok(delete_bucket(map.key().name()).await?) })?;
///     Ok(finalizers)
/// }
///
/// async fn reconcile(
///     finalizers: &Finalizers<ConfigMap>,
///     map: Obj<ConfigMap>,
///     ctx: Context,
/// ) -> Result<Next, ReconcileError> {
///     let Finalized::Live { object: map, .. } = finalizers.finalize(&ctx, &map).await? else {
///         return Ok(Next::done()); // cleaned up
///     };
///     println!("reconcile {}", map.key());
///     Ok(Next::done())
/// }
/// ```
pub struct Finalizers<K> {
    registered: Vec<(String, Box<Cleanup<K>>)>,
}

/// The result of [`Finalizers::finalize`].
#[derive(Debug)]
pub enum Finalized<K> {
    /// The object is not being deleted, and has all finalizers.
    Live {
        /// The current object.
        object: Obj<K>,
        /// Whether finalizers were added.
        updated: bool,
    },
    /// The object is being deleted, and all cleanups have succeeded.
    Deleting {
        /// The current object, or its last state if no other finalizers remain.
        object: Obj<K>,
        /// Whether finalizers were removed.
        updated: bool,
    },
    /// The object does not exist any more.
    Deleted,
}

/// A cleanup was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A cleanup is registered for that finalizer.
    #[error("finalizer {name:?} is registered already")]
    Taken {
        /// The finalizer.
        name: String,
    },
    /// The server accepts only names with a domain, such as `example.com/bucket`.
    #[error("{name:?} cannot be a finalizer: it must start with a domain, as in \"example.com/bucket\"")]
    Name {
        /// The finalizer.
        name: String,
    },
}

/// An object could not be finalized. A cleanup whose finalizer was removed does not run again.
#[derive(Debug)]
#[non_exhaustive]
pub enum FinalizeError {
    /// Finalizers could not be added or removed.
    Write(Error),
    /// Cleanups failed. The finalizers of the others are removed, unless that failed too.
    Cleanup {
        /// The failed cleanups, in the order of their registration.
        failures: Vec<CleanupFailure>,
        /// The error of removing the finalizers of the others.
        write: Option<Error>,
    },
}

/// A cleanup that failed.
#[derive(Debug)]
pub struct CleanupFailure {
    /// Its finalizer, which is still on the object.
    pub finalizer: String,
    /// The error of the cleanup.
    pub error: Box<dyn StdError + Send + Sync>,
}

impl<K: 'static> Finalizers<K> {
    /// Returns an empty set.
    pub fn new() -> Self {
        Finalizers { registered: Vec::new() }
    }

    /// Registers the cleanup of a finalizer. Cleanups run one after the other, in the order of their registration.
    ///
    /// # Errors
    /// Returns an error if the finalizer is registered already, or has no domain.
    pub fn register<A>(
        &mut self,
        finalizer: impl Into<String>,
        cleanup: impl Fn(Obj<K>, Context) -> A + Send + Sync + 'static,
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
        self.registered.push((name, Box::new(move |object, ctx| Box::pin(cleanup(object, ctx)))));
        Ok(())
    }

    /// Adds the finalizers to an object that is not being deleted. For an object that is being deleted, runs the cleanups whose
    /// finalizers it has, and removes the finalizers of those that succeed. A cleanup that fails does not keep the others from
    /// running.
    ///
    /// # Errors
    /// Returns the errors of all cleanups that failed, or the error of the write. Retry later, as with every failed reconcile.
    pub async fn finalize(&self, ctx: &Context, object: &Obj<K>) -> Result<Finalized<K>, FinalizeError> {
        let names: Vec<&str> = self.registered.iter().map(|(name, _)| name.as_str()).collect();
        let current = match object.deletion_timestamp() {
            Some(_) => Some(object.clone()),
            None => ensure_finalizers(ctx.client(), object, &names).await.map_err(FinalizeError::Write)?,
        };
        let Some(current) = current else { return Ok(Finalized::Deleted) };
        // The write may have returned an object that is being deleted, though the cached one is not.
        if current.deletion_timestamp().is_none() {
            return Ok(Finalized::Live { updated: !current.is_same_state_as(object), object: current });
        }
        self.clean_up(ctx, &current).await
    }

    async fn clean_up(&self, ctx: &Context, object: &Obj<K>) -> Result<Finalized<K>, FinalizeError> {
        let (mut done, mut failures) = (Vec::new(), Vec::new());
        for (name, cleanup) in self.registered.iter().filter(|(name, _)| contains_finalizer(object, name)) {
            match cleanup(object.clone(), ctx.clone()).await {
                Ok(()) => done.push(name.as_str()),
                Err(error) => failures.push(CleanupFailure { finalizer: name.clone(), error }),
            }
        }
        let written = remove_finalizers(ctx.client(), object, &done).await;
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
            FinalizeError::Write(error) => write!(f, "finalizers could not be written: {error}"),
            FinalizeError::Cleanup { failures, write } => {
                for (number, CleanupFailure { finalizer, error }) in failures.iter().enumerate() {
                    let separator = if number == 0 { "" } else { "; " };
                    write!(f, "{separator}cleanup of finalizer {finalizer} failed: {error}")?;
                }
                match write {
                    Some(error) => write!(f, "; the other finalizers could not be removed: {error}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl StdError for FinalizeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // The message contains the text of the error, so the source is the cause of that error.
            FinalizeError::Write(error) => error.source(),
            FinalizeError::Cleanup { failures, .. } => failures.first().and_then(|failure| failure.error.source()),
        }
    }
}
