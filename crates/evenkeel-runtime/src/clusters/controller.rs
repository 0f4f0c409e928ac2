//! [`MultiClusterController`]: reconciles the objects of a kind in several clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::factory::InformerFactoryBuilder;
use evenkeel_client::{PartialObjectMetadata, Unstructured};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::cluster::Cluster;
use super::engagement::{EngagementPlan, EngagementStop};
use super::member::SharedController;
use super::set::Clusters;
use super::template::ControllerTemplate;
use crate::controller::{Context, Controller, ControllerError, Next, ReconcileError, StaticKind};

/// The number of workers, unless it is set.
const WORKERS: usize = 4;

type ClusterFilter = Box<dyn Fn(&Cluster) -> bool + Send + Sync>;

/// Builds and runs a controller of several clusters: `reconcile` runs for each object of kind `K` in each cluster of a set.
///
/// ```
/// # async fn example(clusters: evenkeel_runtime::clusters::Clusters) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::Next;
/// use evenkeel_runtime::clusters::MultiClusterController;
/// use evenkeel_runtime::controller::predicate;
/// use evenkeel_runtime::manager::shutdown_signal;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// MultiClusterController::<Deployment>::new(&clusters)
///     .owns::<ReplicaSet>()
///     .configure(|controller, _| controller.when(predicate::generation_changed()))
///     .run(shutdown_signal()?, |deployment, ctx| async move {
///         let sets = ctx.lister::<ReplicaSet>()?; // of the cluster of the deployment, as are `ctx.client()` and `ctx.recorder()`
///         println!("{} and {} sets in {}", deployment.key(), sets.list_all().len(), ctx.cluster());
///         Ok(Next::done())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// In each cluster it is a [`Controller`], with its guarantees: caches, queue, backoff, own writes and events are those of the cluster.
///
/// # Guarantees
/// - A cluster that does not respond delays no other. Its caches have 30 seconds to sync; after a failure they are tried again with a backoff
///   from 1 second to 5 minutes. The [status](Clusters::statuses) states why.
/// - Workers are shared: clusters with keys take turns. No cluster occupies all of them, if there are at least two.
/// - After 5 requests in a row without a connection, the keys of a cluster are parked until a request gets a response. They occupy no worker.
/// - When a cluster is disengaged, its keys leave the queue, and [`Context::cancelled`] of its reconciles resolves. `on_deleted` does not
///   run: nothing was deleted.
///
/// # Lifetime
/// [`run`](Self::run) is a future. When `shutdown` resolves, the controller drains in all clusters at once. Dropping the future stops
/// everything. In a [`Manager`](crate::Manager) it is a task: `manager.elected("foos", |stop| controller.run(stop.requested(),
/// reconcile))`.
#[must_use = "a controller does nothing until it runs"]
pub struct MultiClusterController<K> {
    clusters: Clusters,
    name: String,
    template: ControllerTemplate<K>,
    filters: Vec<ClusterFilter>,
    workers: usize,
    workers_per_cluster: Option<usize>,
}

impl<K: StaticKind> MultiClusterController<K> {
    /// Returns a controller of the objects of kind `K` in these clusters.
    pub fn new(clusters: &Clusters) -> Self {
        MultiClusterController::over(clusters, &ResourceInfo::of::<K>(), Controller::<K>::new)
    }
}

impl MultiClusterController<Unstructured> {
    /// Returns a controller of the objects of a kind that is known only at run time.
    pub fn dynamic(clusters: &Clusters, info: &Arc<ResourceInfo>) -> Self {
        let kind = Arc::clone(info);
        MultiClusterController::over(clusters, info, move |client| Controller::dynamic(client, &kind))
    }
}

impl MultiClusterController<PartialObjectMetadata> {
    /// Returns a controller that requests and caches only the metadata of its objects.
    pub fn metadata(clusters: &Clusters, info: &Arc<ResourceInfo>) -> Self {
        let kind = Arc::clone(info);
        MultiClusterController::over(clusters, info, move |client| Controller::metadata(client, &kind))
    }
}

impl<K: 'static> MultiClusterController<K> {
    fn over(
        clusters: &Clusters,
        info: &ResourceInfo,
        begin: impl Fn(&evenkeel_client::Client) -> Controller<K> + Send + Sync + 'static,
    ) -> Self {
        MultiClusterController {
            clusters: clusters.clone(),
            name: info.kind().to_lowercase(),
            template: ControllerTemplate::new(begin),
            filters: Vec::new(),
            workers: WORKERS,
            workers_per_cluster: None,
        }
    }

    /// Sets the name in logs, metrics and events. Default: the kind in lower case. A number is appended if another controller of
    /// this process has the name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Restricts the controller to the clusters that the filter accepts. May be called several times: all filters must accept. A cluster
    /// is tested when it is engaged.
    pub fn only(mut self, filter: impl Fn(&Cluster) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Box::new(filter));
        self
    }

    /// Watches kind `T` in every cluster: see [`Controller::owns`].
    pub fn owns<T: StaticKind>(self) -> Self {
        self.configure(|controller, _| controller.owns::<T>())
    }

    /// Watches kind `T` in every cluster: see [`Controller::watches`]. The keys are in the cluster of the object.
    pub fn watches<T: StaticKind, I>(self, keys: impl Fn(&Obj<T>) -> I + Clone + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        self.configure(move |controller, _| controller.watches::<T, I>(keys.clone()))
    }

    /// Caches kind `T` in every cluster for reads with [`Context::lister`].
    pub fn reads<T: StaticKind>(self) -> Self {
        self.configure(|controller, _| controller.reads::<T>())
    }

    /// Configures the controller of each cluster, also of those that are engaged later: everything that [`Controller`] has, and
    /// differently for some clusters. Its name and its workers are those of this controller.
    ///
    /// The function runs before each attempt to start the cluster.
    pub fn configure(
        mut self,
        configure: impl Fn(Controller<K>, &Cluster) -> Controller<K> + Send + Sync + 'static,
    ) -> Self {
        self.template.step(configure);
        self
    }

    /// Configures the informers of each cluster, also of those that are engaged later: indexes, namespaces, selectors, transforms.
    pub fn informers(
        mut self,
        configure: impl Fn(InformerFactoryBuilder) -> InformerFactoryBuilder + Send + Sync + 'static,
    ) -> Self {
        self.template.informers(configure);
        self
    }

    /// Sets the number of workers, which all clusters share. Default: 4. 0 counts as 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.workers = NonZeroUsize::new(workers).map_or(1, NonZeroUsize::get);
        self
    }

    /// Sets the number of workers that one cluster occupies at most. Default: all but one, and at least one, so that a cluster whose
    /// requests hang leaves a worker for the others. 0 counts as 1.
    pub fn concurrency_per_cluster(mut self, workers: usize) -> Self {
        self.workers_per_cluster = Some(NonZeroUsize::new(workers).map_or(1, NonZeroUsize::get));
        self
    }

    /// Sets the timeout of one reconcile: see [`Controller::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.configure(move |controller, _| controller.timeout(limit))
    }

    /// Sets the time that the caches of a cluster have to sync before it is tried again. Default: 30 seconds.
    pub fn sync_timeout(self, limit: Duration) -> Self {
        self.configure(move |controller, _| controller.sync_timeout(limit))
    }

    /// Sets the grace period: the time that reconciles have to return after `shutdown`, or after their cluster was disengaged. Default:
    /// 30 seconds. See [`Controller::grace`].
    pub fn grace(self, grace: Duration) -> Self {
        self.configure(move |controller, _| controller.grace(grace))
    }

    /// Runs until `shutdown` resolves, then drains in all clusters. Dropping the future stops everything at once.
    ///
    /// `reconcile` is that of [`Controller::run`]; everything in its [`Context`] is of the cluster of the object.
    ///
    /// # Errors
    /// Returns an error if the controller does not drain within the grace period. A cluster that fails is no error: it is tried again.
    ///
    /// # Panics
    /// Outside of a tokio runtime; and if a reconcile panics while [`Controller::recover_panics`] is false.
    pub async fn run<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let plan = EngagementPlan {
            template: self.template,
            shared: Arc::new(SharedController::new(&self.name, self.workers)),
            workers: self.workers_per_cluster.unwrap_or(self.workers - 1).clamp(1, self.workers),
            reconcile: Arc::new(move |object, context| Box::pin(reconcile(object, context))),
        };
        let engagements = Engagements {
            clusters: self.clusters,
            filters: self.filters,
            plan: Arc::new(plan),
            shutdown: watch::Sender::new(false),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
        };
        engagements.run(shutdown).await
    }
}

/// The engagements of a running controller. Dropping it ends them.
struct Engagements<K> {
    clusters: Clusters,
    filters: Vec<ClusterFilter>,
    plan: Arc<EngagementPlan<K>>,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<Result<(), ControllerError>>,
    running: BTreeMap<Arc<str>, RunningEngagement>,
}

/// The last engagement of a name.
struct RunningEngagement {
    cluster: Cluster,
    ended: EngagementEnd,
}

/// Resolves when the sender is dropped, with the task of the engagement.
type EngagementEnd = watch::Receiver<()>;

impl<K: 'static> Engagements<K> {
    async fn run(mut self, shutdown: impl Future + Send) -> Result<(), ControllerError> {
        let mut shutdown = pin!(shutdown);
        let mut changes = self.clusters.changes();
        loop {
            changes.mark_unchanged();
            self.start();
            tokio::select! {
                biased;
                _ = &mut shutdown => break,
                // The sender lives as long as the set.
                _ = changes.changed() => {}
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = outcome(ended) {
                        tracing::warn!(%error, "cluster was not left in time");
                    }
                }
            }
        }
        self.shutdown.send_replace(true);
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            result = result.and(outcome(ended));
        }
        result
    }

    /// Starts an engagement for each cluster that has none. Those of clusters that are disengaged end by themselves.
    fn start(&mut self) {
        self.running.retain(|_, running| running.ended.has_changed().is_ok());
        for cluster in self.clusters.list() {
            let running = self.running.get(cluster.name());
            if running.is_some_and(|running| running.cluster.is(&cluster)) {
                continue;
            }
            if !self.filters.iter().all(|filter| filter(&cluster)) {
                continue;
            }
            // A cluster that was disengaged meanwhile is no longer in the list of the next change.
            let Some(attachment) = cluster.attach(self.plan.shared.name()) else { continue };
            let predecessor = running.map(|running| running.ended.clone());
            let predecessor = async move {
                if let Some(mut predecessor) = predecessor {
                    // Nothing is sent: this returns when the sender is dropped.
                    let _ = predecessor.changed().await;
                }
            };
            let (alive, ended) = watch::channel(());
            let stop = EngagementStop::new(&cluster, &self.shutdown);
            let engagement = Arc::clone(&self.plan).run(attachment, stop, predecessor);
            self.tasks.spawn(scheduled(async move {
                let _alive = alive;
                engagement.await
            }));
            self.running.insert(Arc::from(cluster.name()), RunningEngagement { cluster, ended });
        }
    }
}

/// Returns the result of an engagement, and continues its panic.
fn outcome(ended: Result<Result<(), ControllerError>, JoinError>) -> Result<(), ControllerError> {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // Aborted with the runtime.
        Err(_) => Ok(()),
    })
}

impl<K> fmt::Debug for MultiClusterController<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiClusterController")
            .field("name", &self.name)
            .field("clusters", &self.clusters)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
