//! [`Trigger`]: reasons to reconcile that no informer tells of.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, WorkQueue};

use super::history::{EnqueueReason, History};

/// Has controllers reconcile keys for a reason that no informer tells of: a timer, a message, something outside of the cluster.
///
/// Cheap to clone. Several controllers can have one; each of them gets all keys. Keys that are given while none runs are kept
/// for the next that begins, each once.
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
    /// What was given while nobody listened.
    pending: HashSet<ObjectKey>,
}

/// A controller that gets the keys.
#[derive(Clone)]
struct TriggerListener {
    queue: WorkQueue<ObjectKey>,
    history: History,
}

impl TriggerListener {
    fn add(&self, keys: impl IntoIterator<Item = ObjectKey>, how: AddOptions) {
        let noted = keys.into_iter().inspect(|key| self.history.queued(key, || EnqueueReason::Trigger));
        self.queue.add_all(noted, how);
    }
}

impl Trigger {
    /// A trigger that nobody listens to yet.
    pub fn new() -> Self {
        Trigger::default()
    }

    fn state(&self) -> MutexGuard<'_, TriggerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has this key reconciled.
    pub fn reconcile(&self, key: ObjectKey) {
        self.reconcile_all([key], AddOptions::new());
    }

    /// Has these keys reconciled, in a way that is said for all of them: with which priority, and when. What is given while
    /// no controller runs is reconciled when one does, with the default priority.
    pub fn reconcile_all(&self, keys: impl IntoIterator<Item = ObjectKey>, how: AddOptions) {
        let keys: Vec<_> = keys.into_iter().collect();
        let listeners = {
            let mut state = self.state();
            state.listeners.retain(|listener| !listener.queue.is_shutting_down());
            if state.listeners.is_empty() {
                return state.pending.extend(keys);
            }
            state.listeners.clone()
        };
        for listener in listeners {
            listener.add(keys.iter().cloned(), how);
        }
    }

    /// From now on this queue gets the keys.
    pub(super) fn attach(&self, queue: &WorkQueue<ObjectKey>, history: &History) {
        let listener = TriggerListener { queue: queue.clone(), history: history.clone() };
        let mut state = self.state();
        state.listeners.push(listener.clone());
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        listener.add(pending, AddOptions::new());
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let queues: Vec<_> = state.listeners.iter().map(|listener| &listener.queue).collect();
        f.debug_struct("Trigger").field("queues", &queues).field("pending", &state.pending.len()).finish()
    }
}
