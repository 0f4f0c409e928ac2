//! [`EventSink`]: the destination of events.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{Client, Error, Patch};
use k8s_openapi::api::{core, events};
use serde_json::Value;

use super::EventKey;

/// The destination of events of one API: `E` is the `Event` of `v1` or of `events.k8s.io/v1`. [`Client`] implements
/// both.
///
/// Calls for different events run concurrently, calls for one event one after another. A call is dropped after 30
/// seconds, or when it is no longer needed.
pub trait EventSink<E>: Send + Sync + 'static {
    /// Creates an event. Returns the stored event.
    fn create<'a>(&'a self, event: &'a E) -> SinkFuture<'a, E>;

    /// Patches an existing event by a strategic merge patch. `event` is the expected result.
    fn patch<'a>(&'a self, event: &'a E, patch: &'a Value) -> SinkFuture<'a, E>;
}

/// The future of a sink operation.
pub type SinkFuture<'a, E> = Pin<Box<dyn Future<Output = Result<E, SinkError>> + Send + 'a>>;

/// Why an event was not written, as far as it decides what happens next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The event to patch does not exist; it is created instead.
    #[error("event not found")]
    NotFound,
    /// The event to create exists. It is patched if it carries a count; otherwise nothing more is done.
    #[error("event already exists")]
    AlreadyExists,
    /// The namespace is being deleted, and its events with it. Not worth a warning.
    #[error("the namespace of the event is being deleted")]
    NamespaceTerminating,
    /// A permanent rejection: the event is dropped.
    #[error("event rejected: {source}")]
    Refused {
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A transient failure: the write is retried.
    #[error("event write failed: {source}")]
    Unavailable {
        /// The minimum delay that the server asked for.
        after: Option<Duration>,
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl From<Error> for SinkError {
    fn from(error: Error) -> Self {
        if error.is_not_found() {
            return SinkError::NotFound;
        }
        if error.is_already_exists() {
            return SinkError::AlreadyExists;
        }
        if error.is_namespace_terminating() {
            return SinkError::NamespaceTerminating;
        }
        let after = error.suggests_delay().filter(|after| !after.is_zero()).map(|after| after.min(LONGEST));
        if is_passing(&error) {
            SinkError::Unavailable { after, source: Box::new(error) }
        } else {
            SinkError::Refused { source: Box::new(error) }
        }
    }
}

/// The longest `Retry-After` that is honoured.
const LONGEST: Duration = Duration::from_secs(300);

/// Returns whether the same request may succeed later: the server is overloaded or broken, did not respond, or its
/// response could not be parsed.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.status() {
        Some(status) => status.code == 429 || status.code >= 500 || error.suggests_delay().is_some(),
        None => !matches!(error, Error::Request(_) | Error::Config(_)),
    }
}

/// The two forms of events.
pub(crate) trait SinkEvent: Clone + Send + Sync + 'static {
    /// Returns the identity for delivery: namespace and name.
    fn id(&self) -> EventKey;
    /// Clears the resource version.
    fn forget_version(&mut self);
    /// Returns the reporting controller.
    fn controller(&self) -> &str;
}

macro_rules! sink_event {
    ($event:ty, $controller:ident) => {
        impl SinkEvent for $event {
            fn id(&self) -> EventKey {
                let meta = &self.metadata;
                EventKey::of([meta.namespace.as_deref(), meta.name.as_deref()].map(Option::unwrap_or_default))
            }

            fn forget_version(&mut self) {
                self.metadata.resource_version = None;
            }

            fn controller(&self) -> &str {
                self.$controller.as_deref().unwrap_or_default()
            }
        }

        impl EventSink<$event> for Client {
            fn create<'a>(&'a self, event: &'a $event) -> SinkFuture<'a, $event> {
                let api = self.api::<$event>().namespace(event.metadata.namespace.as_deref().unwrap_or_default());
                // The driver retries failed writes itself, without delaying others.
                let call = api.create(event).with(|request| request.max_retries(0));
                Box::pin(async move { typed(call.await) })
            }

            fn patch<'a>(&'a self, event: &'a $event, patch: &'a Value) -> SinkFuture<'a, $event> {
                let api = self.api::<$event>().namespace(event.metadata.namespace.as_deref().unwrap_or_default());
                let name = event.metadata.name.as_deref().unwrap_or_default();
                let call = api.patch(name, &Patch::strategic(patch));
                let call = call.with(|request| request.max_retries(0));
                Box::pin(async move { typed(call.await) })
            }
        }
    };
}

sink_event!(core::v1::Event, reporting_component);
sink_event!(events::v1::Event, reporting_controller);

fn typed<E>(written: Result<evenkeel_core::Obj<E>, Error>) -> Result<E, SinkError>
where
    E: Clone + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let event = written?.typed().map_err(Error::from)?;
    Ok(Arc::unwrap_or_clone(event))
}
