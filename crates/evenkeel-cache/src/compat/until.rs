//! [`UntilWithSync`]: waits for conditions on the events of an informer.

use std::fmt;

use crate::handler::HandlerOptions;
use crate::informer::{SharedInformer, Stopped, Subscription};
use crate::{Event, Indexer};

/// Waits for conditions on the events of an informer, through outages of any length: client-go's `UntilWithSync`. For a
/// single object evenkeel-client's `wait_for` is lighter.
///
/// Conditions are met one after the other. Each is evaluated with the event that met the previous one first, then with later
/// events. Objects of the initial list arrive as additions.
///
/// ```
/// # async fn example(informer: evenkeel_cache::SharedInformer<k8s_openapi::api::core::v1::Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_cache::Event;
/// use evenkeel_cache::compat::UntilWithSync;
///
/// let event = UntilWithSync::new(informer)
///     .condition(|event| Ok::<_, std::convert::Infallible>(matches!(event, Event::Delete(gone) if gone.key().name() == "web-0")))
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "does nothing until `run` is awaited"]
pub struct UntilWithSync<K, E> {
    informer: SharedInformer<K>,
    precondition: Option<Precondition<K, E>>,
    conditions: Vec<Condition<K, E>>,
}

type Precondition<K, E> = Box<dyn FnOnce(&Indexer<K>) -> Result<bool, E> + Send>;
type Condition<K, E> = Box<dyn FnMut(&Event<K>) -> Result<bool, E> + Send>;

/// Error of [`UntilWithSync::run`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilWithSyncError<E> {
    /// A condition returned an error.
    #[error("condition failed: {0}")]
    Condition(#[source] E),
    /// The informer stopped before the condition was met.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl<K: 'static, E> UntilWithSync<K, E> {
    /// Waits with this informer, which must not have been started. It stops when the wait ends.
    pub fn new(informer: SharedInformer<K>) -> Self {
        UntilWithSync { informer, precondition: None, conditions: Vec::new() }
    }

    /// Adds a condition on the synced store. If it holds, [`run`](Self::run) returns at once.
    pub fn precondition(mut self, holds: impl FnOnce(&Indexer<K>) -> Result<bool, E> + Send + 'static) -> Self {
        self.precondition = Some(Box::new(holds));
        self
    }

    /// Adds a condition, to be met after those added before.
    pub fn condition(mut self, holds: impl FnMut(&Event<K>) -> Result<bool, E> + Send + 'static) -> Self {
        self.conditions.push(Box::new(holds));
        self
    }

    /// Waits. Returns the event that met the last condition, or `None` if there was none to wait for.
    ///
    /// The informer has stopped when this returns. Dropping the future stops it. There is no time limit; put a timeout around
    /// it.
    ///
    /// # Errors
    /// If a condition returns an error, or if the informer stops.
    pub async fn run(self) -> Result<Option<Event<K>>, UntilWithSyncError<E>> {
        let UntilWithSync { informer, precondition, conditions } = self;
        let mut events = informer.subscribe(HandlerOptions::new().name("until"))?;
        let running = informer.start();
        let outcome = met(&informer, &mut events, precondition, conditions).await;
        drop(events);
        running.stop().await;
        outcome
    }
}

async fn met<K: 'static, E>(
    informer: &SharedInformer<K>,
    events: &mut Subscription<K>,
    precondition: Option<Precondition<K, E>>,
    conditions: Vec<Condition<K, E>>,
) -> Result<Option<Event<K>>, UntilWithSyncError<E>> {
    if let Some(holds) = precondition {
        informer.synced().await?;
        if holds(&informer.indexer()).map_err(UntilWithSyncError::Condition)? {
            return Ok(None);
        }
    }
    let mut last: Option<Event<K>> = None;
    for mut holds in conditions {
        loop {
            if let Some(event) = &last
                && holds(event).map_err(UntilWithSyncError::Condition)?
            {
                break;
            }
            last = Some(events.next().await.ok_or_else(|| Stopped::new(informer.name(), "the condition was not met"))?);
        }
    }
    Ok(last)
}

impl<K, E> fmt::Debug for UntilWithSync<K, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilWithSync")
            .field("informer", &self.informer)
            .field("conditions", &self.conditions.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
