//! [`EventSink`]: where events are written.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{Client, Error, Patch};
use k8s_openapi::api::{core, events};
use serde_json::Value;

use super::EventKey;

/// Where events of one API are written: `E` is the `Event` of `v1` or of `events.k8s.io/v1`. A [`Client`] is both.
///
/// It is called for several events at once, and for one event after the other. A call that takes longer than 30 seconds, or is not
/// wanted any more, is dropped.
pub trait EventSink<E>: Send + Sync + 'static {
    /// Writes an event that is not there. Answers with what the server made of it.
    fn create<'a>(&'a self, event: &'a E) -> SinkFuture<'a, E>;

    /// Changes an event that is there, by a strategic merge patch. `event` is what it should be after that.
    fn patch<'a>(&'a self, event: &'a E, patch: &'a Value) -> SinkFuture<'a, E>;
}

/// What a sink answers, when it has an answer.
pub type SinkFuture<'a, E> = Pin<Box<dyn Future<Output = Result<E, SinkError>> + Send + 'a>>;

/// Why an event was not written, as far as that matters for what happens next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The event to patch is not there: it is created instead.
    #[error("there is no such event")]
    NotFound,
    /// The event to create is there. If it is one that counts, it is patched instead; else there is no more to do.
    #[error("there is such an event already")]
    AlreadyExists,
    /// The namespace is going away, and its events with it. This is not worth a warning.
    #[error("the namespace of the event is being deleted")]
    NamespaceTerminating,
    /// It would be the same at any other time: the event is dropped.
    #[error("the event is not accepted: {source}")]
    Refused {
        /// What was wrong with it.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It may go better later.
    #[error("the event was not written: {source}")]
    Unavailable {
        /// How long to wait at least, if somebody asks for that.
        after: Option<Duration>,
        /// What went wrong.
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

/// No server is waited for longer than that.
const LONGEST: Duration = Duration::from_secs(300);

/// Whether the same call may go better another time: the server is overloaded or broken, there was no answer, or none that can
/// be understood.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.status() {
        Some(status) => status.code == 429 || status.code >= 500 || error.suggests_delay().is_some(),
        None => !matches!(error, Error::Request(_) | Error::Config(_)),
    }
}

/// The two forms of events.
pub(crate) trait SinkEvent: Clone + Send + Sync + 'static {
    /// What it is to those who deliver: namespace and name.
    fn id(&self) -> EventKey;
    /// Says nothing of the state that the server had before.
    fn forget_version(&mut self);
    /// Who reports it.
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
                // What goes wrong is tried again by those who call, without keeping others waiting.
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
