//! Simulates the rest of a cluster: makes Deployments available, and deletes those whose owner was deleted. Both are
//! level-triggered, so extra or late runs are sanitize.

use std::time::Duration;

use evenkeel::cache::{Deleted, HandlerFuncs, Index, Indexer, InformerFactory, Lister, RunningInformers};
use evenkeel::client::{Client, Error, PartialObjectMetadata, Patch};
use evenkeel::core::{Obj, ObjectKey};
use evenkeel::queue::{Item, WorkQueue};
use evenkeel_sample_controller::Foo;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use serde_json::json;
use tokio::task::JoinSet;

use super::environment::with_short_backoff;
use crate::Failure;

/// Number of Deployments processed concurrently.
const WORKERS: usize = 4;
/// Delay before the server is queried again for an owner that the informer does not have.
const NOT_CACHED_RETRY: Duration = Duration::from_millis(200);
/// Name of the index of Deployments by owner UID.
const BY_OWNER: &str = "owner";

/// The simulated cluster. [`stop`](Self::stop) ends it gracefully; on drop, it stops writing.
pub(super) struct Cluster {
    running: RunningInformers,
    queue: WorkQueue<ObjectKey>,
    team: JoinSet<()>,
}

/// Shared state of the workers.
#[derive(Clone)]
struct Worker {
    client: Client,
    queue: WorkQueue<ObjectKey>,
    deployments: Lister<Deployment>,
    foos: Lister<PartialObjectMetadata>,
}

impl Cluster {
    /// Starts processing Deployments, one step of each per `step`.
    pub(super) fn start(client: &Client, step: Duration) -> Result<Self, Failure> {
        let informers = InformerFactory::builder(client)
            .name("cluster")
            .configure::<Deployment>(|kind| with_short_backoff(kind).index(Index::controller(BY_OWNER)))
            .configure_metadata(&client.resource::<Foo>(), with_short_backoff)
            .build();
        let queue = WorkQueue::rate_limited("cluster");
        let deployments = informers.of::<Deployment>();
        let foos = informers.metadata::<Foo>();
        // Delayed, as pods take a while to start.
        let (came, changed) = (queue.clone(), queue.clone());
        deployments.add_handler(
            HandlerFuncs::new()
                .on_add(move |deployment: Obj<Deployment>, _| came.add_after(deployment.key().clone(), step))
                .on_update(move |_, deployment| changed.add_after(deployment.key().clone(), step)),
        )?;
        let (orphaned, owned) = (queue.clone(), deployments.indexer());
        foos.add_handler(
            HandlerFuncs::new().on_delete(move |foo| orphaned.add_all(children(&owned, &foo), Default::default())),
        )?;
        let running = informers.start();

        let client = client.clone();
        let worker = Worker { client, queue: queue.clone(), deployments: deployments.lister(), foos: foos.lister() };
        let team = (0..WORKERS).map(|_| worker.clone().work()).collect();
        Ok(Cluster { running, queue, team })
    }

    /// Stops the workers and informers.
    pub(super) async fn stop(mut self) {
        self.queue.shut_down();
        self.team.shutdown().await;
        self.running.drain().await;
    }
}

/// Returns the Deployments of a deleted Foo.
fn children(deployments: &Indexer<Deployment>, foo: &Deleted<PartialObjectMetadata>) -> Vec<ObjectKey> {
    let Some(foo) = foo.object() else { return Vec::new() };
    // The index exists: the informer was built with it.
    deployments.index_keys(BY_OWNER, foo.uid()).unwrap_or_default()
}

impl Worker {
    async fn work(self) {
        while let Some(item) = self.queue.next().await {
            self.finish(item).await;
        }
    }

    async fn finish(&self, item: Item<ObjectKey>) {
        let Some(deployment) = self.deployments.get(item.key()) else { return item.forget() };
        match self.tend(&deployment).await {
            Ok(Owner::NotCached) => item.requeue_after(NOT_CACHED_RETRY),
            Ok(_) => item.forget(),
            // Deleted, or replaced by a newer version. The informer delivers either.
            Err(error) if error.is_not_found() || error.is_conflict() => item.forget(),
            Err(error) => item.retry(error),
        }
    }

    async fn tend(&self, deployment: &Obj<Deployment>) -> Result<Owner, Error> {
        let name = deployment.key().name();
        let deployments = self.client.api::<Deployment>().namespace(deployment.key().namespace().unwrap_or_default());
        let owner = self.owner(deployment).await?;
        if owner == Owner::Closed {
            deployments.delete(name).only_uid(deployment.uid()).await?;
        } else if let Some(status) = Rollout::of(deployment).ok().and_then(|rollout| rollout.next_status()) {
            // Conditional on the version read: a newer one starts over.
            let patch = json!({"metadata": {"resourceVersion": deployment.resource_version()}, "status": status});
            deployments.status().patch(name, &Patch::merge(&patch)).await?;
        }
        Ok(owner)
    }

    async fn owner(&self, deployment: &Obj<Deployment>) -> Result<Owner, Error> {
        let Some(owner) = deployment.controller().filter(|owner| owner.kind == "Foo") else { return Ok(Owner::Known) };
        let namespace = deployment.key().namespace();
        if self.foos.get(ObjectKey::new(namespace, owner.name)).is_some_and(|foo| foo.uid() == owner.uid) {
            return Ok(Owner::Known);
        }
        // Only the server is authoritative: a Foo that the informer does not have may be new.
        let foos = self.client.api::<Foo>().namespace(namespace.unwrap_or_default());
        match foos.get(owner.name).await {
            Ok(foo) if foo.uid() == owner.uid => Ok(Owner::NotCached),
            Ok(_) => Ok(Owner::Closed),
            Err(error) if error.is_not_found() => Ok(Owner::Closed),
            Err(error) => Err(error),
        }
    }
}

/// State of the Foo that owns a Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It exists and the informer will deliver its delete; or there is no owner.
    Known,
    /// It exists, but the informer does not have it. If it is deleted before that, no notification follows.
    NotCached,
    Closed,
}

/// The fields of a Deployment that its next status depends on.
#[derive(Debug)]
struct Rollout {
    replicas: Option<i32>,
    generation: Option<i64>,
    status: DeploymentStatus,
}

impl Rollout {
    fn of(deployment: &Obj<Deployment>) -> Result<Self, Failure> {
        let replicas = deployment.path("spec.replicas")?.and_then(|replicas| replicas.as_i64());
        let status = deployment.path("status")?.map(|status| serde_json::from_str(status.json())).transpose()?;
        Ok(Rollout {
            replicas: replicas.map(i32::try_from).transpose()?,
            generation: deployment.generation(),
            status: status.unwrap_or_default(),
        })
    }

    /// Returns the next status on the way to the spec, or none if it is reached.
    fn next_status(&self) -> Option<DeploymentStatus> {
        let wanted = self.replicas.unwrap_or(1).max(0);
        let available = self.status.available_replicas.unwrap_or_default().max(0);
        if available == wanted && self.status.observed_generation == self.generation {
            return None;
        }
        // One replica per step, unless that takes too long.
        let missing = wanted - available;
        let next = available + missing.signum() * (missing.abs() / 4).max(missing.abs().min(1));
        Some(DeploymentStatus {
            replicas: Some(wanted),
            updated_replicas: Some(wanted),
            ready_replicas: Some(next),
            available_replicas: Some(next),
            unavailable_replicas: None,
            observed_generation: self.generation,
            ..self.status.clone()
        })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
