//! [`ControllerTemplate`]: builds the controller of each cluster.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::InformerFactory;
use evenkeel_cache::factory::InformerFactoryBuilder;
use evenkeel_client::Client;

use super::cluster::Cluster;
use super::member::{ClusterMember, SharedController};
use crate::Controller;

/// The time that the caches of a cluster have to sync, unless it is set.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

type BeginController<K> = Box<dyn Fn(&Client) -> Controller<K> + Send + Sync>;
type ConfigureController<K> = Box<dyn Fn(Controller<K>, &Cluster) -> Controller<K> + Send + Sync>;
type ConfigureInformers = Box<dyn Fn(InformerFactoryBuilder) -> InformerFactoryBuilder + Send + Sync>;

/// Builds the controller of each cluster, and again for each attempt.
pub(super) struct ControllerTemplate<K> {
    begin: BeginController<K>,
    steps: Vec<ConfigureController<K>>,
    informers: Vec<ConfigureInformers>,
}

impl<K: 'static> ControllerTemplate<K> {
    pub(super) fn new(begin: impl Fn(&Client) -> Controller<K> + Send + Sync + 'static) -> Self {
        ControllerTemplate { begin: Box::new(begin), steps: Vec::new(), informers: Vec::new() }
    }

    /// Adds a step that configures the controller.
    pub(super) fn step(&mut self, step: impl Fn(Controller<K>, &Cluster) -> Controller<K> + Send + Sync + 'static) {
        self.steps.push(Box::new(step));
    }

    /// Adds a step that configures the informers.
    pub(super) fn informers(
        &mut self,
        step: impl Fn(InformerFactoryBuilder) -> InformerFactoryBuilder + Send + Sync + 'static,
    ) {
        self.informers.push(Box::new(step));
    }

    /// Returns a controller of one cluster. Its caches are its own.
    pub(super) fn build(&self, cluster: &Cluster, shared: &Arc<SharedController>, workers: usize) -> Controller<K> {
        let member = ClusterMember::new(cluster, shared);
        let informers = InformerFactory::builder(cluster.client()).name(member.label());
        let informers = self.informers.iter().fold(informers, |informers, step| step(informers)).build();
        let controller = (self.begin)(cluster.client()).informers(&informers).sync_timeout(SYNC_TIMEOUT);
        let controller = self.steps.iter().fold(controller, |controller, step| step(controller, cluster));
        // The last, because name and workers are shared.
        controller.concurrency(workers).member(member)
    }
}
