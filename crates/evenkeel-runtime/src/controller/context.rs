//! [`Context`]: what a reconcile receives beside the object.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_cache::Lister;
use evenkeel_client::api::scope::{Any, Start};
use evenkeel_client::{Api, Client, ObservedWrite, Unstructured};
use evenkeel_core::{ObjectKey, ResourceInfo};
use kube_core::Resource;
use thiserror::Error;
use tokio::sync::watch;

use super::observed_writes::ObservedWrites;
use super::sharding::ControllerShards;
use super::source::StaticKind;
use super::unique_name::UniqueName;
use super::watched_kind::WatchedKind;
use super::watched_kinds::WatchedKinds;
use crate::EventRecorder;
use crate::clusters::{ClusterKey, ClusterMember, HOME};
use crate::ring::RingFence;

/// What a reconcile receives beside the object: its key, a client, listers of the watched kinds, and an event recorder.
///
/// Cheap to clone. A clone that outlives its reconcile still works, but its writes are not awaited any more.
#[derive(Clone)]
pub struct Context {
    reconcile: Arc<ReconcileAttempt>,
}

/// One attempt to reconcile a key.
struct ReconcileAttempt {
    controller: Arc<ControllerShared>,
    key: ObjectKey,
    failures: u32,
    priority: i32,
    waited: Duration,
    client: Client,
    writes: ObservedWrites,
}

/// What all reconciles of a controller share.
pub(super) struct ControllerShared {
    pub(super) name: Arc<UniqueName>,
    pub(super) client: Client,
    pub(super) kinds: Arc<WatchedKinds>,
    pub(super) recorder: OnceLock<EventRecorder>,
    pub(super) stopping: watch::Sender<bool>,
    /// Of a controller of several clusters only.
    pub(super) member: Option<ClusterMember>,
    /// Of a divided controller only.
    pub(super) shards: Option<Arc<ControllerShards>>,
}

impl ControllerShared {
    /// Returns the name, with the cluster if there are several.
    pub(super) fn label(&self) -> String {
        self.member.as_ref().map_or_else(|| self.name.to_string(), ClusterMember::label)
    }
}

/// The controller does not watch the requested kind: no source of it was added, it was removed, or it waits for the kind to be
/// [installed](super::Source::when_installed).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("controller {controller} does not watch {kind}: add it with `owns`, `watches` or `reads`")]
pub struct NotWatched {
    /// The name of the controller.
    pub controller: String,
    /// The kind.
    pub kind: String,
}

impl Context {
    pub(super) fn new(
        controller: &Arc<ControllerShared>,
        key: ObjectKey,
        (failures, priority, waited): (u32, i32, Duration),
    ) -> Self {
        let writes = ObservedWrites::new(&controller.kinds);
        let client = controller.client.with_write_observer({
            let writes = writes.clone();
            let (shards, key) = (controller.shards.clone(), key.clone());
            move |write: &ObservedWrite<'_>| {
                if let Some(shards) = &shards {
                    shards.wrote(&key, write);
                }
                writes.observe(write);
            }
        });
        let controller = Arc::clone(controller);
        Context {
            reconcile: Arc::new(ReconcileAttempt { controller, key, failures, priority, waited, client, writes }),
        }
    }

    /// Returns a context without a controller, for tests of helpers.
    #[cfg(test)]
    pub(crate) fn detached(client: &Client, key: ObjectKey) -> Self {
        let controller = Arc::new(ControllerShared {
            name: Arc::new(UniqueName::claim("detached")),
            client: client.clone(),
            kinds: Arc::default(),
            recorder: OnceLock::new(),
            stopping: watch::Sender::new(false),
            member: None,
            shards: None,
        });
        Context::new(&controller, key, (0, 0, Duration::ZERO))
    }

    pub(super) fn observed_writes(&self) -> &ObservedWrites {
        &self.reconcile.writes
    }

    /// Returns the key of the reconcile.
    pub fn key(&self) -> &ObjectKey {
        &self.reconcile.key
    }

    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        self.reconcile.controller.name.as_str()
    }

    /// Returns the name of the cluster that the object is in, for a controller of [several clusters](crate::clusters). It is empty for
    /// the home cluster and for every other controller.
    pub fn cluster(&self) -> &str {
        self.reconcile.controller.member.as_ref().map_or(HOME, |member| member.cluster().name())
    }

    /// Returns the cluster and the key of the reconcile.
    pub fn cluster_key(&self) -> ClusterKey {
        ClusterKey::new(self.cluster(), self.key().clone())
    }

    /// Returns the number of the attempt: 1, plus the reconciles of this key in a row that failed or returned
    /// [`Next::requeue`](super::Next::requeue).
    pub fn attempt(&self) -> u32 {
        self.reconcile.failures.saturating_add(1)
    }

    /// Returns the priority that the key was dequeued with.
    pub fn priority(&self) -> i32 {
        self.reconcile.priority
    }

    /// Returns how long the key was ready before it was dequeued.
    pub fn waited(&self) -> Duration {
        self.reconcile.waited
    }

    /// Returns a client that observes its writes: the next reconcile of this key starts when the caches show them. Helpers that
    /// take a client or an `Api` work with it as with any other.
    ///
    /// Writes through other clients are not observed.
    pub fn client(&self) -> &Client {
        &self.reconcile.client
    }

    /// Returns the API of a kind, with [`client`](Self::client). Reads from [`lister`](Self::lister) need no request.
    pub fn api<T>(&self) -> Api<T, <T::Scope as Start>::Scope>
    where
        T: Resource + 'static,
        T::DynamicType: Default,
        T::Scope: Start,
    {
        self.client().api()
    }

    /// Returns the API of a kind that is known only at run time, with [`client`](Self::client).
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> Api<Unstructured, Any> {
        self.client().dynamic(info)
    }

    /// Returns the lister of a kind that the controller watches: its own kind, kinds that it owns or watches, and kinds that it
    /// [reads](super::Controller::reads). The caches have synced.
    ///
    /// # Errors
    /// Returns an error if the controller does not watch the kind, or not any more.
    pub fn lister<T: StaticKind>(&self) -> Result<Lister<T>, NotWatched> {
        let kind = || T::kind(&T::DynamicType::default()).into_owned();
        self.find(|kind| kind.lister::<T>(), kind)
    }

    /// Returns the lister of a kind that is known only at run time (`Unstructured`), or of the metadata of a kind
    /// (`PartialObjectMetadata`): the form that its [source](super::Source) has.
    ///
    /// # Errors
    /// Returns an error if the controller does not watch the kind, or not in that form.
    pub fn lister_of<T: 'static>(&self, info: &ResourceInfo) -> Result<Lister<T>, NotWatched> {
        self.find(|kind| kind.lister::<T>().filter(|_| kind.is_about(info)), || info.kind().to_owned())
    }

    fn find<T>(
        &self,
        lister: impl Fn(&WatchedKind) -> Option<Lister<T>>,
        kind: impl FnOnce() -> String,
    ) -> Result<Lister<T>, NotWatched> {
        let controller = &self.reconcile.controller;
        let found = controller.kinds.find(lister);
        found.ok_or_else(|| NotWatched { controller: controller.name.to_string(), kind: kind() })
    }

    /// Returns the lister of the controller's own kind; `None` while the kind is not served.
    pub(super) fn primary<K: 'static>(&self) -> Option<Lister<K>> {
        self.reconcile.controller.kinds.primary()?.lister::<K>()
    }

    /// Returns the event recorder of the controller.
    pub fn recorder(&self) -> &EventRecorder {
        let controller = &self.reconcile.controller;
        controller.recorder.get_or_init(|| EventRecorder::new(&controller.client, controller.name.as_str()))
    }

    /// Waits until the controller shuts down, or until its cluster is [disengaged](crate::clusters::Clusters::disengage). A long
    /// reconcile can then return early; it is dropped at the end of the [grace period](super::Controller::grace).
    ///
    /// In a [divided](super::Controller::sharded) controller it also completes when the key moves to another replica (after half of the
    /// [drain limit](crate::ring::Ring::drain_limit), or at once with [`cancel_on_move`](crate::ring::Ring::cancel_on_move)), and when
    /// the Lease of this replica is not renewed in time.
    pub async fn cancelled(&self) {
        let controller = &self.reconcile.controller;
        let mut stopping = controller.stopping.subscribe();
        // The sender lives as long as the context.
        let stopped = async { drop(stopping.wait_for(|stopping| *stopping).await) };
        match &controller.shards {
            None => stopped.await,
            Some(shards) => tokio::select! {
                biased;
                () = stopped => {}
                () = shards.cancelled(self.key()) => {}
            },
        }
    }

    /// Returns whether [`cancelled`](Self::cancelled) completes at once.
    pub fn is_cancelled(&self) -> bool {
        let controller = &self.reconcile.controller;
        *controller.stopping.borrow()
            || controller.shards.as_ref().is_some_and(|shards| shards.is_cancelled(self.key()))
    }

    /// Returns the fence of the key, for a store outside of the cluster that rejects lower epochs. `None` if the controller is not
    /// [divided](super::Controller::sharded), or if this replica does not hold the key any more.
    pub fn fence(&self) -> Option<RingFence> {
        self.reconcile.controller.shards.as_ref()?.fence(self.key())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("key", self.key())
            .field("attempt", &self.attempt())
            .field("writes", &self.reconcile.writes)
            .finish_non_exhaustive()
    }
}
