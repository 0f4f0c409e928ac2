//! What makes a Foo be looked at: informers, handlers, the queue, the workers.

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

/// The name of the index of Foos by the Deployment that they ask for.
const BY_DEPLOYMENT: &str = "deployment";
/// The name of the index of Deployments by the uid of the Foo that owns them.
pub(crate) const BY_OWNER: &str = "owner";
/// How long keys that are ready may take when the controller ends.
const GRACE: Duration = Duration::from_secs(10);

/// Makes a Deployment for each [`Foo`]. Cheap to clone, as everything in it is; all clones are the same controller.
///
/// # What may be assumed
///
/// - A Foo is worked on by one worker at a time, soon after it, its Deployment, or a Deployment of the name that it asks for has
///   come, changed or gone.
/// - What belongs to somebody else is never changed: see [`SyncError::NameTaken`](crate::SyncError::NameTaken).
/// - What it does next is done in view of what it did before: a key is not let go before the caches show what was written.
/// - No Deployment is deleted on the word of a cache alone. But two of these controllers that see different Foos undo each other's
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
    /// A controller that writes with this client, sees through informers of this factory, and tells people through this recorder.
    ///
    /// # Errors
    /// If the informers have ended already, or if there is such a controller on top of them already.
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
        // A Foo that comes, changes or goes is looked at,
        foos.add_handler(enqueue_key(&queue))?;
        // and so is the Foo that owns a Deployment to which that happens,
        deployments.add_handler(enqueue_owner::<Foo>(&queue))?;
        // and every Foo that would like to have a Deployment of that name: if somebody else's is gone, it is their turn.
        let by_deployment = foos.indexer();
        let namesakes = enqueue_with(&queue, move |deployment: &Obj<Deployment>| {
            // The index is there: it was added above.
            by_deployment.index_keys(BY_DEPLOYMENT, deployment.key().as_str()).unwrap_or_default()
        });
        deployments.add_handler(namesakes.with(HandlerOptions::new().name("enqueue_namesakes in foos")))?;

        let (client, informers) = (client.clone(), informers.clone());
        Ok(SampleController { client, recorder, informers, foos, deployments, queue })
    }

    /// The informer of Foos.
    pub fn foos(&self) -> &SharedInformer<Foo> {
        &self.foos
    }

    /// The informer of Deployments.
    pub fn deployments(&self) -> &SharedInformer<Deployment> {
        &self.deployments
    }

    /// The keys of Foos that are to be looked at.
    pub fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    /// Works with so many workers until `shutdown` is done; then keys that are ready are worked off, for ten seconds at most, and
    /// none is taken in. It cannot be run again: the queue has ended.
    ///
    /// Dropping this ends the workers where they are, which is as harmless as a crash: the next controller looks at the world anew.
    ///
    /// # Errors
    /// If an informer ends before it has seen everything that there is.
    pub async fn run(&self, workers: usize, shutdown: impl Future<Output = ()>) -> Result<(), InformersError> {
        let mut shutdown = pin!(shutdown);
        self.informers.start();
        // A worker that begins before the stores are full would take for missing what has not been listed yet.
        tokio::select! {
            synced = self.informers.wait_for_sync() => synced?,
            () = &mut shutdown => return Ok(()),
        }
        tracing::info!(workers, foos = self.foos.indexer().len(), "the caches are full, the workers begin");
        let mut team: JoinSet<()> = (0..workers).map(|_| self.clone().work()).collect();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                // The key that it had comes back by itself, after its back-off. So does the worker.
                Some(Err(panic)) = team.join_next() => {
                    tracing::error!(%panic, "a worker has panicked; another one takes its place");
                    team.spawn(self.clone().work());
                }
            }
        }
        if let Err(unfinished) = self.queue.drain(DrainDelayed::Discard).within(GRACE).await {
            tracing::warn!(%unfinished, "the workers are ended where they are");
            team.shutdown().await;
        }
        while team.join_next().await.is_some() {}
        Ok(())
    }

    /// What every worker does.
    async fn work(self) {
        while let Some(item) = self.queue.next().await {
            match self.sync_foo(item.key()).await {
                // It has no failures any more.
                Ok(()) => item.forget(),
                // It comes back after its back-off.
                Err(error) => item.retry(error),
            }
            // Either way the key is free again: whatever has happened to the Foo meanwhile is looked at next.
        }
    }
}

/// The Deployment that a Foo asks for, read from its bytes: an index is no reason to decode every Foo that changes.
fn deployment_key(foo: &Obj<Foo>) -> Option<ObjectKey> {
    let name = foo.path("spec.deploymentName").ok()??;
    Some(ObjectKey::new(foo.key().namespace(), &name.text()))
}
