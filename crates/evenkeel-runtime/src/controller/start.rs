//! Starts a controller: assembles its queue, its sources and its informers.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use evenkeel_cache::{InformerFactory, RunningInformers};
use evenkeel_core::{FieldSelector, LabelSelector, Obj};
use evenkeel_queue::WorkQueue;
use tokio::sync::watch;

use super::Controller;
use super::context::{Context, ControllerShared};
use super::error::ControllerError;
use super::history::{DiagnosticsEntry, History};
use super::metrics::ControllerMetrics;
use super::next::Next;
use super::reconcile_error::ReconcileError;
use super::sharding::{ControllerShards, KeyPlaces, ShardedController};
use super::source_set::{SourceContext, SourceSet, SourceSharding};
use super::source_slot::SourceSlot;
use super::standby::StandbyController;
use super::started::StartedController;
use super::unique_name::UniqueName;
use crate::clusters::ClusterMember;

/// The objects that the controller watches. Empty texts stand for no restriction.
#[derive(Default)]
pub(super) struct WatchScope {
    /// The namespace of all kinds.
    pub(super) namespace: String,
    /// The selectors of the controller's own kind.
    pub(super) labels: String,
    pub(super) fields: String,
}

impl WatchScope {
    /// Returns informers of these objects, which are shared with the given ones where they are the same.
    fn narrow(
        &self,
        informers: InformerFactory,
        select: impl FnOnce(&InformerFactory, &str, &str) -> InformerFactory,
    ) -> Result<InformerFactory, String> {
        LabelSelector::parse(&self.labels).map_err(|error| error.to_string())?;
        FieldSelector::parse(&self.fields).map_err(|error| error.to_string())?;
        let informers = informers.in_namespace(&*self.namespace).map_err(|error| {
            format!("{error}: remove `.namespace(…)` from the controller, or build the informers without a namespace")
        })?;
        let is_selected = !self.labels.is_empty() || !self.fields.is_empty();
        Ok(if is_selected { select(&informers, &self.labels, &self.fields) } else { informers })
    }
}

impl<K: 'static> Controller<K> {
    /// Starts informers that fill the caches and the queue, without workers. For replicas that wait to become leader:
    /// [`lead`](StandbyController::lead) starts to reconcile at once.
    ///
    /// # Errors
    /// Returns an error if the configuration contradicts itself, or if a shared informer has stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn standby(self) -> Result<StandbyController<K>, ControllerError> {
        let name = match &self.member {
            Some(member) => Arc::clone(member.name()),
            None => Arc::new(UniqueName::claim(&self.requested_name())),
        };
        let label = self.member.as_ref().map_or_else(|| name.to_string(), ClusterMember::label);
        let owner = self.owner;
        let invalid = |problem: String| ControllerError::InvalidConfig { controller: label.clone(), problem };
        let informers =
            self.informers.unwrap_or_else(|| InformerFactory::builder(&self.client).name(name.as_str()).build());
        let sharding = match &self.ring {
            None => None,
            Some(ring) => {
                let places = KeyPlaces::of(ring.ring().divides_by(), &owner).map_err(invalid)?;
                Some(SourceSharding { places, scope: ring.scope().clone() })
            }
        };
        let select =
            |informers: &InformerFactory, labels: &str, fields: &str| (self.select)(informers, &owner, labels, fields);
        let informers = self.scope.narrow(informers, select).map_err(invalid)?;
        let builder =
            self.configure_queue.into_iter().fold(WorkQueue::builder(), |builder, configure| configure(builder));
        let queue = builder.name(name.as_str()).build();
        let history = if self.diagnostics.is_some() { History::open() } else { History::default() };
        if let Some(inspector) = &self.inspector {
            inspector.queue(&label, &queue);
            if let Some(ring) = &self.ring {
                inspector.ring(&ring.ring().handle());
            }
        }
        let sources = SourceSet::new(SourceContext {
            controller: label,
            client: self.client.clone(),
            informers: informers.clone(),
            sharding: sharding.clone(),
            queue: queue.clone(),
            history: history.clone(),
            inspector: self.inspector.clone(),
            resync: self.settings.resync,
            sync_timeout: self.settings.sync_timeout,
            owner,
        });
        let shards = self.ring.as_ref().zip(sharding).map(|(ring, sharding)| {
            ControllerShards::new(ShardedController {
                controller: sources.controller.clone(),
                client: self.client.clone(),
                namespace: self.scope.namespace.clone(),
                ring: ring.ring().handle(),
                places: sharding.places,
                queue: queue.clone(),
                kinds: Arc::clone(&sources.kinds),
                own_writes: self.settings.own_writes,
            })
        });
        let primary = SourceSlot::new(Box::new(self.primary), true);
        let mut others = self.cell.start(&sources).into_iter();
        let added = sources.add(&primary).and_then(|()| others.try_for_each(|slot| sources.add(&slot)));
        let metrics = match &self.member {
            Some(member) => Arc::clone(member.metrics()),
            None => Arc::new(ControllerMetrics::new(name.as_str(), self.settings.concurrency)),
        };
        let owns_recorder = self.recorder.is_none();
        let shared = Arc::new(ControllerShared {
            name,
            client: self.client,
            kinds: Arc::clone(&sources.kinds),
            recorder: self.recorder.map_or_else(OnceLock::new, OnceLock::from),
            stopping: watch::Sender::new(false),
            member: self.member,
            shards,
        });
        let diagnostics_entry =
            self.diagnostics.and_then(|diagnostics| DiagnosticsEntry::new(diagnostics, &history, &shared, &queue));
        let mut started = StartedController {
            shared,
            queue,
            sources,
            metrics,
            settings: self.settings,
            informers,
            running: RunningInformers::default(),
            owns_recorder,
            history,
            inspector: self.inspector,
            diagnostics_entry,
            dropped_keys: OnceLock::new(),
            cell: self.cell,
            ring: self.ring,
        };
        // On an error, dropping the started controller removes the handlers that were added.
        added?;
        for trigger in self.triggers {
            trigger.attach(&started.queue, &started.history);
        }
        started.sources.follow_all();
        started.running.merge(started.informers.start());
        Ok(StandbyController { started, on_deleted: self.on_deleted, kind: PhantomData })
    }

    /// Runs until `shutdown` resolves, then drains within the [grace period](Self::grace). Dropping the future stops everything at
    /// once.
    ///
    /// `reconcile` receives the cached object. It compares the actual state with the desired one and writes the difference. It must
    /// be idempotent: it may run at any time and any number of times.
    ///
    /// `?` in it takes every error. A function with another error type than [`ReconcileError`], or a struct, is passed as
    /// [`reconcile_with(…)`](super::reconcile_with).
    ///
    /// # Errors
    /// Returns an error if the controller cannot start, or does not drain within the grace period. A `shutdown` that resolves
    /// before the caches have synced is no error.
    ///
    /// # Panics
    /// Outside of a tokio runtime; and if a reconcile panics while [`recover_panics`](Self::recover_panics) is false.
    pub async fn run<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        self.standby()?.lead(shutdown, reconcile).await
    }
}
