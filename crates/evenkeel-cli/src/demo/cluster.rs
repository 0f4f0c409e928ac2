//! A stand-in for what a cluster has beside its API server: what makes Deployments available, and what deletes those whose owner
//! is gone. Both look at the world and do the next step, so it does no harm to ask them twice, or late.

use std::time::Duration;

use evenkeel::cache::{Deleted, HandlerFuncs, Index, Indexer, InformerFactory, Lister};
use evenkeel::client::{Client, Error, PartialObjectMetadata, Patch};
use evenkeel::core::{Obj, ObjectKey};
use evenkeel::queue::{Item, WorkQueue};
use evenkeel_sample_controller::Foo;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use serde_json::json;
use tokio::task::JoinSet;

use super::stage::soon_back;
use crate::Failure;

/// How many Deployments are tended at the same time.
const WORKERS: usize = 4;
/// How soon the server is asked again for an owner that the informer has not heard of.
const UNHEARD: Duration = Duration::from_millis(200);
/// The name of the index of Deployments by the uid of their owner.
const BY_OWNER: &str = "owner";

/// The stand-in. Ends in order with [`stop`](Self::stop); when it is dropped, nothing more is written.
pub(super) struct Cluster {
    informers: InformerFactory,
    queue: WorkQueue<ObjectKey>,
    team: JoinSet<()>,
}

/// What every worker has.
#[derive(Clone)]
struct Worker {
    client: Client,
    queue: WorkQueue<ObjectKey>,
    deployments: Lister<Deployment>,
    foos: Lister<PartialObjectMetadata>,
}

impl Cluster {
    /// Begins to tend Deployments: something happens to each of them every `step`.
    pub(super) fn start(client: &Client, step: Duration) -> Result<Self, Failure> {
        let informers = InformerFactory::builder(client)
            .name("cluster")
            .configure::<Deployment>(|kind| {
                kind.informer(|informer| soon_back(informer).index(Index::controller(BY_OWNER)))
            })
            .configure_metadata(&client.resource::<Foo>(), |kind| kind.informer(soon_back))
            .build();
        let queue = WorkQueue::rate_limited("cluster");
        let deployments = informers.of::<Deployment>();
        let foos = informers.metadata::<Foo>();
        // A little later, as it takes pods a while to start.
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
        informers.start();

        let client = client.clone();
        let worker = Worker { client, queue: queue.clone(), deployments: deployments.lister(), foos: foos.lister() };
        let team = (0..WORKERS).map(|_| worker.clone().work()).collect();
        Ok(Cluster { informers, queue, team })
    }

    /// Ends.
    pub(super) async fn stop(mut self) {
        self.queue.shut_down();
        self.team.shutdown().await;
        self.informers.shutdown().await;
    }
}

/// The Deployments of a Foo that is gone.
fn children(deployments: &Indexer<Deployment>, foo: &Deleted<PartialObjectMetadata>) -> Vec<ObjectKey> {
    let Some(foo) = foo.object() else { return Vec::new() };
    // The index is there: the informer was made with it.
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
            Ok(Owner::Unheard) => item.requeue_after(UNHEARD),
            Ok(_) => item.forget(),
            // It is gone, or there is a newer one. Either way the informer will tell.
            Err(error) if error.is_not_found() || error.is_conflict() => item.forget(),
            Err(error) => item.retry(error),
        }
    }

    async fn tend(&self, deployment: &Obj<Deployment>) -> Result<Owner, Error> {
        let name = deployment.key().name();
        let deployments = self.client.api::<Deployment>().namespace(deployment.key().namespace().unwrap_or_default());
        let owner = self.owner(deployment).await?;
        if owner == Owner::Gone {
            deployments.delete(name).only_uid(deployment.uid()).await?;
        } else if let Some(status) = deployment.typed().ok().and_then(|typed| next_status(&typed)) {
            // Only if this is still what the server has: else there is a newer one to begin with.
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
        // Only the server knows for sure: what the informer has not seen may be new.
        let foos = self.client.api::<Foo>().namespace(namespace.unwrap_or_default());
        match foos.get(owner.name).await {
            Ok(foo) if foo.uid() == owner.uid => Ok(Owner::Unheard),
            Ok(_) => Ok(Owner::Gone),
            Err(error) if error.is_not_found() => Ok(Owner::Gone),
            Err(error) => Err(error),
        }
    }
}

/// What is known of the Foo that owns a Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It is there, and the informer will tell when it goes; or there is none that could go.
    Known,
    /// It is there, but the informer has not heard of it. If it goes before that, nobody will tell.
    Unheard,
    Gone,
}

/// What the status of a Deployment is next, on its way to what is asked for. None if it is there.
fn next_status(deployment: &Deployment) -> Option<DeploymentStatus> {
    let wanted = deployment.spec.replicas.unwrap_or(1).max(0);
    let status = deployment.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default().max(0);
    if available == wanted && status.observed_generation == deployment.metadata.generation {
        return None;
    }
    // One at a time as long as that does not take for ever.
    let missing = wanted - available;
    let next = available + missing.signum() * (missing.abs() / 4).max(missing.abs().min(1));
    Some(DeploymentStatus {
        replicas: Some(wanted),
        updated_replicas: Some(wanted),
        ready_replicas: Some(next),
        available_replicas: Some(next),
        unavailable_replicas: None,
        observed_generation: deployment.metadata.generation,
        ..status
    })
}

#[cfg(test)]
mod tests;
