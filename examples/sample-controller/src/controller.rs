//! When a Foo is reconciled: informers, handlers, the queue, the workers.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use evenkeel::HandlerOptions;
use evenkeel::cache::factory::SyncError as InformersError;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;
use evenkeel::queue::DrainDelayed;
use tokio::task::JoinSet;

use crate::Foo;

/// Name of the index of Foos by their Deployment.
const BY_DEPLOYMENT: &str = "deployment";
/// Name of the index of Deployments by the UID of their Foo.
pub(crate) const BY_OWNER: &str = "owner";
/// Time limit for ready keys at shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Creates a Deployment for each [`Foo`]. Cheap to clone; all clones are the same controller.
///
/// # Guarantees
///
/// - A Foo is reconciled by one worker at a time, soon after it, its Deployment, or a Deployment of the requested name was
///   added, updated or deleted.
/// - Objects of other owners are never changed: see [`SyncError::NameTaken`](crate::SyncError::NameTaken).
/// - A reconcile includes the effects of the one before: a key is in flight until the caches show its writes.
/// - No Deployment is deleted based on a cache alone. But two of these controllers that see different Foos undo each other's
///   work until both see the same: leader election lets one of them run.
#[derive(Clone)]
pub struct SampleController {
    pub(crate) client: Client,
    pub(crate) recorder: EventRecorder,
    informers: InformerFactory,
    pub(crate) foos: SharedInformer<Foo>,
    pub(crate) deployments: SharedInformer<Deployment>,
    queue: WorkQueue<ObjectKey>,
}

impl SampleController {
    /// Returns a controller that writes with this client, reads from informers of this factory, and records events with this
    /// recorder.
    ///
    /// # Errors
    ///
    /// Returns an error if the informers have ended, or if such a controller uses them already.
    pub fn new(
        client: &Client,
        informers: &InformerFactory,
        recorder: EventRecorder,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let foos = informers.of::<Foo>();
        let deployments = informers.of::<Deployment>();
        foos.add_indexes([Index::by_object(BY_DEPLOYMENT, deployment_key)])?;
        deployments.add_indexes([Index::controller(BY_OWNER)])?;

        let queue = WorkQueue::rate_limited("foos");
        // A Foo that is added, updated or deleted is reconciled,
        foos.add_handler(enqueue_key(&queue))?;
        // and so is the Foo that owns a changed Deployment,
        deployments.add_handler(enqueue_owner::<Foo>(&queue))?;
        // and every Foo that requests a Deployment of that name: it may be free now.
        let by_deployment = foos.indexer();
        let namesakes = enqueue_with(&queue, move |deployment: &Obj<Deployment>| {
            // The index exists: it was added above.
            by_deployment.index_keys(BY_DEPLOYMENT, deployment.key().as_str()).unwrap_or_default()
        });
        deployments.add_handler(namesakes.with(HandlerOptions::new().name("enqueue_namesakes in foos")))?;

        let (client, informers) = (client.clone(), informers.clone());
        Ok(SampleController { client, recorder, informers, foos, deployments, queue })
    }

    /// Returns the informer of Foos.
    pub fn foos(&self) -> &SharedInformer<Foo> {
        &self.foos
    }

    /// Returns the informer of Deployments.
    pub fn deployments(&self) -> &SharedInformer<Deployment> {
        &self.deployments
    }

    /// Returns the queue of Foos to reconcile.
    pub fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    /// Runs this number of workers until `shutdown` completes; then processes ready keys for at most ten seconds, and accepts
    /// no others. It cannot be run again: the queue has ended.
    ///
    /// Dropping the future stops the workers immediately, which is as harmless as a crash: the next controller starts from the
    /// current state.
    ///
    /// # Errors
    ///
    /// Returns an error if an informer ends before its initial list.
    pub async fn run(&self, workers: usize, shutdown: impl Future<Output = ()>) -> Result<(), InformersError> {
        let mut shutdown = pin!(shutdown);
        let running = self.informers.start();
        // Before the caches are synced, objects that are not listed yet would count as missing.
        tokio::select! {
            biased;
            synced = self.informers.wait_for_sync() => synced?,
            () = &mut shutdown => return Ok(()),
        }
        tracing::info!(workers, foos = self.foos.indexer().len(), "caches synced; starting workers");
        let mut team: JoinSet<()> = (0..workers).map(|_| self.clone().work()).collect();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                // Its key is retried after its backoff, and the worker is replaced.
                Some(Err(panic)) = team.join_next() => {
                    tracing::error!(%panic, "worker panicked; replaced");
                    team.spawn(self.clone().work());
                }
            }
        }
        if let Err(unfinished) = self.queue.drain(DrainDelayed::Discard).within(GRACE).await {
            tracing::warn!(%unfinished, "stopping the workers");
            team.shutdown().await;
        }
        while team.join_next().await.is_some() {}
        running.drain().await;
        Ok(())
    }

    /// The loop of a worker.
    async fn work(self) {
        while let Some(item) = self.queue.next().await {
            match self.sync_foo(item.key()).await {
                // Resets its failures.
                Ok(()) => item.forget(),
                // Retries it after its backoff.
                Err(error) => item.retry(error),
            }
            // The key is no longer in flight: if the Foo has changed meanwhile, it is next.
        }
    }
}

/// Returns the Deployment of a Foo, read from its bytes: the index does not decode every Foo.
fn deployment_key(foo: &Obj<Foo>) -> Option<ObjectKey> {
    let name = foo.path("spec.deploymentName").ok()??;
    Some(ObjectKey::new(foo.key().namespace(), &name.text()))
}
