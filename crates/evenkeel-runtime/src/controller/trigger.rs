//! [`Trigger`]: reasons to reconcile that no informer tells of.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::ObjectKey;
use evenkeel_queue::{Add, WorkQueue};

/// Has controllers reconcile keys for a reason that no informer tells of: a timer, a message, something outside of the cluster.
///
/// Cheap to clone. Several controllers can have one; each of them gets all keys. Keys that are given while none runs are kept
/// for the next that begins, each once.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_core::ObjectKey;
/// use evenkeel_runtime::controller::Trigger;
/// use evenkeel_runtime::{Controller, Next};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let trigger = Trigger::new();
/// let controller = Controller::<Pod>::new(&client).triggered_by(&trigger);
/// trigger.reconcile(ObjectKey::namespaced("default", "web-0"));
/// controller.run(tokio::signal::ctrl_c(), |_, _| async { Ok(Next::done()) }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Trigger(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    queues: Vec<WorkQueue<ObjectKey>>,
    /// What was given while there was no queue.
    early: HashSet<ObjectKey>,
}

impl Trigger {
    /// A trigger that nobody listens to yet.
    pub fn new() -> Self {
        Trigger::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has this key reconciled.
    pub fn reconcile(&self, key: ObjectKey) {
        self.reconcile_all([key], Add::new());
    }

    /// Has these keys reconciled, in a way that is said for all of them: with which priority, and when. What is given while
    /// no controller runs is reconciled when one does, with the default priority.
    pub fn reconcile_all(&self, keys: impl IntoIterator<Item = ObjectKey>, how: Add) {
        let keys: Vec<_> = keys.into_iter().collect();
        let queues = {
            let mut state = self.state();
            state.queues.retain(|queue| !queue.is_shutting_down());
            if state.queues.is_empty() {
                return state.early.extend(keys);
            }
            state.queues.clone()
        };
        for queue in queues {
            queue.add_all(keys.iter().cloned(), how);
        }
    }

    /// From now on this queue gets the keys.
    pub(super) fn attach(&self, queue: &WorkQueue<ObjectKey>) {
        let mut state = self.state();
        state.queues.push(queue.clone());
        let early = std::mem::take(&mut state.early);
        drop(state);
        queue.add_all(early, Add::new());
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Trigger").field("queues", &state.queues).field("early", &state.early.len()).finish()
    }
}
