//! [`Context`]: what a reconcile has in its hands.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_cache::Lister;
use evenkeel_client::Client;
use evenkeel_client::Unstructured;
use evenkeel_client::api::scope::{Any, Start};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use kube_core::Resource;
use thiserror::Error;
use tokio::sync::watch;

use super::observed_writes::ObservedWrites;
use super::source::StaticKind;
use super::tracked::{TrackedApi, TrackedClient};
use super::unique_name::UniqueName;
use super::watched_kind::WatchedKind;
use crate::EventRecorder;

/// What a reconcile has in its hands beside the object: who it is about, how to write, and what else there is to read.
///
/// Cheap to clone. A clone that outlives its reconcile still works; but what it writes is not noted any more.
#[derive(Clone)]
pub struct Context {
    reconcile: Arc<Reconcile>,
}

/// One reconcile.
struct Reconcile {
    controller: Arc<ControllerShared>,
    key: ObjectKey,
    failures: u32,
    priority: i32,
    waited: Duration,
    client: TrackedClient,
    notes: ObservedWrites,
}

/// What all reconciles of a controller share.
pub(super) struct ControllerShared {
    pub(super) name: UniqueName,
    pub(super) client: Client,
    pub(super) kinds: Arc<[WatchedKind]>,
    pub(super) recorder: OnceLock<EventRecorder>,
    pub(super) stopping: watch::Sender<bool>,
}

/// A kind was asked for that the controller does not look at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("controller {controller} does not look at {kind}: say so with `owns`, `watches` or `reads`")]
pub struct NotWatched {
    /// The controller.
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
        let notes = ObservedWrites::new(&controller.kinds);
        let client = TrackedClient::new(&controller.client, &notes);
        let controller = Arc::clone(controller);
        Context { reconcile: Arc::new(Reconcile { controller, key, failures, priority, waited, client, notes }) }
    }

    pub(super) fn notes(&self) -> &ObservedWrites {
        &self.reconcile.notes
    }

    /// Which object this is about.
    pub fn key(&self) -> &ObjectKey {
        &self.reconcile.key
    }

    /// What the controller is called.
    pub fn controller(&self) -> &str {
        self.reconcile.controller.name.as_str()
    }

    /// Which attempt this is: 1, and one more for each reconcile of this key in a row that failed or asked for a requeue.
    pub fn attempt(&self) -> u32 {
        self.reconcile.failures.saturating_add(1)
    }

    /// The priority that the key was handed out with.
    pub fn priority(&self) -> i32 {
        self.reconcile.priority
    }

    /// How long the key was ready before it was handed out.
    pub fn waited(&self) -> Duration {
        self.reconcile.waited
    }

    /// A client whose writes are noted: the next reconcile of this key begins when the caches show them.
    pub fn client(&self) -> &TrackedClient {
        &self.reconcile.client
    }

    /// The objects of a kind, to be written. For reads, [`lister`](Self::lister) asks nobody.
    pub fn api<T>(&self) -> TrackedApi<T, <T::Scope as Start>::Scope>
    where
        T: Resource + 'static,
        T::DynamicType: Default,
        T::Scope: Start,
    {
        self.reconcile.client.api()
    }

    /// The objects of a kind that is only known now, to be written.
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> TrackedApi<Unstructured, Any> {
        self.reconcile.client.dynamic(info)
    }

    /// ObservedWrites that this object was written, by other means than [`client`](Self::client): it is what the server answered.
    pub fn wrote<T>(&self, object: &Obj<T>) {
        self.reconcile.notes.wrote(object);
    }

    /// ObservedWrites that this object was deleted, by other means than [`client`](Self::client), and is gone.
    pub fn deleted<T>(&self, object: &Obj<T>) {
        self.reconcile.notes.deleted(object.resource(), object.key(), object.uid());
    }

    /// Reads of a kind that the controller looks at: its own, those that it owns or watches, and those that it was told to
    /// [read](super::Controller::reads). They have synced.
    ///
    /// # Errors
    /// If it does not look at that kind.
    pub fn lister<T: StaticKind>(&self) -> Result<Lister<T>, NotWatched> {
        let kind = || T::kind(&T::DynamicType::default()).into_owned();
        self.find(|kind| kind.lister::<T>(), kind)
    }

    /// The same for a kind that is only known now, as `Unstructured`, or for the metadata of a kind, as
    /// `PartialObjectMetadata`: as the [source](super::Source) has it.
    ///
    /// # Errors
    /// If the controller does not look at that kind, or not in that form.
    pub fn lister_of<T: 'static>(&self, info: &ResourceInfo) -> Result<Lister<T>, NotWatched> {
        self.find(|kind| kind.lister::<T>().filter(|_| kind.is_about(info)), || info.kind().to_owned())
    }

    fn find<T>(
        &self,
        lister: impl Fn(&WatchedKind) -> Option<Lister<T>>,
        kind: impl FnOnce() -> String,
    ) -> Result<Lister<T>, NotWatched> {
        let controller = &self.reconcile.controller;
        let found = controller.kinds.iter().find_map(lister);
        found.ok_or_else(|| NotWatched { controller: controller.name.to_string(), kind: kind() })
    }

    /// What the controller is about. The first kind is that of its own kind.
    pub(super) fn primary<K: 'static>(&self) -> Option<Lister<K>> {
        self.reconcile.controller.kinds.first().and_then(WatchedKind::lister::<K>)
    }

    /// Tells people what the controller does.
    pub fn recorder(&self) -> &EventRecorder {
        let controller = &self.reconcile.controller;
        controller.recorder.get_or_init(|| EventRecorder::new(&controller.client, controller.name.as_str()))
    }

    /// Waits until the controller is asked to end. A reconcile that takes long can then come to an end by itself; it has as
    /// long as the [grace](super::Controller::grace), and is dropped after that.
    pub async fn cancelled(&self) {
        let mut stopping = self.reconcile.controller.stopping.subscribe();
        // The sender lives as long as this.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Whether the controller is asked to end.
    pub fn is_cancelled(&self) -> bool {
        *self.reconcile.controller.stopping.borrow()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("key", self.key())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
