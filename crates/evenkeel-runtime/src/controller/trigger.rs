//! [`Trigger`]: reconciles keys for reasons that no informer reports.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, WorkQueue};

use super::history::{EnqueueReason, History};
use super::metrics;

/// The number of keys that a trigger keeps while no controller is attached.
const PENDING_LIMIT: usize = 10_000;

/// Enqueues keys for a reason that no informer reports: a timer, a message, an event outside of the cluster. controller-runtime's
/// `source.Channel`.
///
/// Cheap to clone. Every controller that is [attached](super::Controller::triggered_by) receives all keys.
///
/// Keys that are triggered while no controller is attached are kept for the next one: each key once, and at most 10,000. Further
/// keys are dropped, counted in [`TRIGGER_DROPPED`](metrics::TRIGGER_DROPPED) and logged once. A controller that starts
/// reconciles every existing object anyway, so only keys of objects that do not exist are lost.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_core::ObjectKey;
/// use evenkeel_runtime::controller::Trigger;
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Controller, Next};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let trigger = Trigger::new();
/// let controller = Controller::<Pod>::new(&client).triggered_by(&trigger);
/// trigger.reconcile(ObjectKey::namespaced("default", "web-0"));
/// controller.run(shutdown_signal()?, |_, _| async { Ok(Next::done()) }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Trigger(Arc<Mutex<TriggerState>>);

#[derive(Default)]
struct TriggerState {
    listeners: Vec<TriggerListener>,
    /// The keys that were triggered while no controller was attached.
    pending: HashSet<ObjectKey>,
    /// Whether keys were dropped since a controller was last attached.
    is_overflowing: bool,
}

/// A controller that receives the keys.
#[derive(Clone)]
struct TriggerListener {
    queue: WorkQueue<ObjectKey>,
    history: History,
}

impl TriggerListener {
    fn add(&self, keys: impl IntoIterator<Item = ObjectKey>, how: AddOptions) {
        let recorded = keys.into_iter().inspect(|key| self.history.queued(key, || EnqueueReason::Trigger));
        self.queue.add_all(recorded, how);
    }
}

impl Trigger {
    /// Returns a trigger that no controller is attached to.
    pub fn new() -> Self {
        Trigger::default()
    }

    fn state(&self) -> MutexGuard<'_, TriggerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a key.
    pub fn reconcile(&self, key: ObjectKey) {
        self.reconcile_all([key], AddOptions::new());
    }

    /// Enqueues keys with a priority or a delay. Keys that are kept for a later controller are added with the default priority and
    /// without delay.
    pub fn reconcile_all(&self, keys: impl IntoIterator<Item = ObjectKey>, how: AddOptions) {
        let keys: Vec<_> = keys.into_iter().collect();
        let listeners = {
            let mut state = self.state();
            state.listeners.retain(|listener| !listener.queue.is_shutting_down());
            if state.listeners.is_empty() {
                return state.keep(keys);
            }
            state.listeners.clone()
        };
        for listener in listeners {
            listener.add(keys.iter().cloned(), how);
        }
    }

    /// Sends all keys to this queue from now on, starting with the pending ones.
    pub(super) fn attach(&self, queue: &WorkQueue<ObjectKey>, history: &History) {
        let listener = TriggerListener { queue: queue.clone(), history: history.clone() };
        let mut state = self.state();
        state.listeners.push(listener.clone());
        state.is_overflowing = false;
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        listener.add(pending, AddOptions::new());
    }
}

impl TriggerState {
    /// Keeps keys for the next controller, up to the limit.
    fn keep(&mut self, keys: Vec<ObjectKey>) {
        let mut dropped = 0;
        for key in keys {
            if self.pending.len() < PENDING_LIMIT || self.pending.contains(&key) {
                self.pending.insert(key);
            } else {
                dropped += 1;
            }
        }
        if dropped == 0 {
            return;
        }
        ::metrics::counter!(metrics::TRIGGER_DROPPED).increment(dropped);
        if !std::mem::replace(&mut self.is_overflowing, true) {
            tracing::warn!(limit = PENDING_LIMIT, "no controller is attached to the trigger; dropping further keys");
        }
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let queues: Vec<_> = state.listeners.iter().map(|listener| &listener.queue).collect();
        f.debug_struct("Trigger").field("queues", &queues).field("pending", &state.pending.len()).finish()
    }
}

#[cfg(test)]
mod tests;
