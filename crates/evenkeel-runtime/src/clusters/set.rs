//! [`Clusters`]: the set of engaged clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_base::task::scheduled;
use evenkeel_client::config::ConfigError;
use evenkeel_client::{Client, Config, Error};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::failure::ClusterFailure;
use super::key::HOME;
use super::metrics::ClusterMetrics;
use super::secrets::{KubeconfigSecrets, WatchedSecrets};
use super::status::ClusterStatus;
use crate::error_chain::ErrorChain;
use crate::health::{Check, Diagnostics, MetricsSource, Reason, Source};

/// The section of the diagnostics, which the health server serves as `/debug/clusters`.
const SECTION: &str = "clusters";

/// The clusters that controllers work in. They are engaged and disengaged at any time. Cheap to clone; clones are the same set.
///
/// ```
/// # async fn example(eu: evenkeel_client::Client, us: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::Next;
/// use evenkeel_runtime::clusters::{Clusters, MultiClusterController};
/// use evenkeel_runtime::manager::shutdown_signal;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let clusters = Clusters::new();
/// clusters.engage("eu-1", &eu);
/// clusters.engage("us-1", &us);
/// MultiClusterController::<ConfigMap>::new(&clusters)
///     .run(shutdown_signal()?, |map, ctx| async move {
///         println!("{} in {}", map.key(), ctx.cluster());
///         Ok(Next::done())
///     })
///     .await?;
/// clusters.disengage("eu-1").await;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - Names are any text, and unique in the set. The empty name is the [home cluster](HOME).
/// - Engaging never waits, and a cluster that does not respond delays no other.
/// - Engaging the same client again has no effect. Another client replaces the instance: the controllers leave the old one before they
///   start with the new one.
/// - Keys, caches and tasks of a cluster go with it, and so do its series of [`metrics`](super::metrics). Its objects were not deleted,
///   so nothing is reconciled or cleaned up because of it. A recorder of the program keeps other series until it drops them.
///
/// # Lifetime
/// The set is its own handle: when the last clone is dropped, all clusters are disengaged. A running controller holds a clone.
#[derive(Clone, Default)]
pub struct Clusters(Arc<ClusterSet>);

#[derive(Default)]
pub(super) struct ClusterSet {
    state: Mutex<SetState>,
    /// The number of changes.
    changes: watch::Sender<u64>,
    /// The Secrets that fill the set.
    secrets: OnceLock<WatchedSecrets>,
}

#[derive(Default)]
struct SetState {
    engaged: BTreeMap<Arc<str>, Engaged>,
    /// Why the latest kubeconfig of a cluster is not used.
    rejected: BTreeMap<Arc<str>, ClusterFailure>,
    diagnostics: Vec<Diagnostics>,
}

/// An engaged cluster. Dropping it disengages the cluster.
struct Engaged {
    cluster: Cluster,
    /// Of a cluster from a kubeconfig.
    fingerprint: Option<Fingerprint>,
    probe: AbortHandle,
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.probe.abort();
        self.cluster.disengage();
    }
}

/// The hash of a kubeconfig, which contains secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(kubeconfig: &str) -> Self {
        Fingerprint(Sha256::digest(kubeconfig).into())
    }
}

impl Clusters {
    /// Returns an empty set.
    pub fn new() -> Self {
        Clusters::default()
    }

    /// Returns a set with the home cluster alone.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn home(client: &Client) -> Self {
        let clusters = Clusters::new();
        clusters.engage(HOME, client);
        clusters
    }

    /// Returns the set of the clusters whose kubeconfigs are in Secrets of a namespace of the home cluster, and keeps it current:
    /// see [`KubeconfigSecrets`], which has options. The home cluster itself is not in the set unless it is
    /// [engaged](Self::engage).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn from_secrets(home: &Client, namespace: impl Into<String>) -> Self {
        KubeconfigSecrets::new(home, namespace).start()
    }

    pub(super) fn filled_by(secrets: impl FnOnce(&Arc<ClusterSet>) -> WatchedSecrets) -> Self {
        let clusters = Clusters::new();
        let watched = secrets(&clusters.0);
        // The set is new, so nothing fills it yet.
        let _ = clusters.0.secrets.set(watched);
        clusters
    }

    /// Engages a cluster: every controller of the set starts its caches there, and reconciles its objects. Returns at once, and whether
    /// the client is new.
    ///
    /// A client that [shares connections](Client::shares_connections_with) with the one that is engaged under the name has no effect.
    /// Any other replaces it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn engage(&self, name: impl Into<Arc<str>>, client: &Client) -> bool {
        let is_same = |engaged: &Engaged| engaged.cluster.client().shares_connections_with(client);
        self.0.engage(&name.into(), client, None, is_same)
    }

    /// Engages the cluster of a kubeconfig, which is not trusted: see [`Config::from_untrusted`]. Returns at once, and whether the
    /// kubeconfig is new.
    ///
    /// A kubeconfig that equals the one that the cluster was engaged with has no effect. Any other replaces it.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used. The cluster continues with the previous one, if there is one, and its
    /// [status](Self::statuses) contains the error.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn engage_kubeconfig(&self, name: impl Into<Arc<str>>, kubeconfig: &str) -> Result<bool, Error> {
        self.0.engage_kubeconfig(&name.into(), kubeconfig, |_| Ok(()))
    }

    /// Disengages a cluster. At the call, its keys leave the queues, and [`Context::cancelled`](crate::Context::cancelled) of its
    /// reconciles resolves. The future waits until they have returned and nothing of the cluster is left; it need not be awaited.
    /// Returns whether the cluster was engaged.
    ///
    /// Reconciles have the [grace period](super::MultiClusterController::grace) of their controller.
    pub fn disengage(&self, name: &str) -> impl Future<Output = bool> + Send + use<> {
        let disengaged = self.0.disengage(name);
        async move {
            match disengaged {
                None => false,
                Some(cluster) => {
                    cluster.abandoned().await;
                    true
                }
            }
        }
    }

    /// Returns an engaged cluster.
    pub fn get(&self, name: &str) -> Option<Cluster> {
        self.0.state().engaged.get(name).map(|engaged| engaged.cluster.clone())
    }

    /// Returns the engaged clusters, sorted by name.
    pub fn list(&self) -> Vec<Cluster> {
        self.0.state().engaged.values().map(|engaged| engaged.cluster.clone()).collect()
    }

    /// Returns the status of every cluster, sorted by name: of those that are engaged, and of those whose kubeconfig was rejected.
    pub fn statuses(&self) -> Vec<ClusterStatus> {
        self.0.statuses()
    }

    /// Returns a readiness check of the home cluster: it fails until the Secrets that fill the set have been listed, and while the home
    /// cluster is engaged and the caches of a controller there have not synced. Other clusters do not count: their status is in the
    /// [diagnostics](Self::diagnostics). Its name is `home-cluster`.
    pub fn home_check(&self) -> Check {
        let clusters = Arc::downgrade(&self.0);
        Check::new("home-cluster", move || clusters.upgrade().map_or(Ok(()), |clusters| clusters.is_home_ready()))
    }

    /// Reports every cluster in the section `clusters` of these diagnostics, which the health server serves as `/debug/clusters`.
    pub fn diagnostics(&self, diagnostics: &Diagnostics) {
        let names: Vec<_> = {
            let mut state = self.0.state();
            state.diagnostics.push(diagnostics.clone());
            state.engaged.keys().chain(state.rejected.keys()).cloned().collect()
        };
        for name in names {
            diagnostics.add(self.0.source(&name));
        }
    }

    /// Returns metrics with the label `cluster`, beside those of another source: see [`metrics`](super::metrics).
    ///
    /// ```
    /// # fn example(clusters: evenkeel_runtime::clusters::Clusters) {
    /// use evenkeel_runtime::health::{Health, HealthServer};
    ///
    /// // Or `clusters.metrics(Prometheus::install()?)`, with the feature `prometheus`.
    /// let server = HealthServer::builder(&Health::new()).metrics(clusters.metrics(|| "up 1\n".to_owned()));
    /// # drop(server);
    /// # }
    /// ```
    pub fn metrics(&self, others: impl MetricsSource) -> ClusterMetrics {
        ClusterMetrics::new(&self.0, others)
    }

    /// Returns the number of changes of the set, to wait for the next one.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

impl ClusterSet {
    fn state(&self) -> MutexGuard<'_, SetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Engages a cluster, unless the one of that name is the same. Returns whether it did.
    fn engage(
        self: &Arc<Self>,
        name: &Arc<str>,
        client: &Client,
        fingerprint: Option<Fingerprint>,
        is_same: impl FnOnce(&Engaged) -> bool,
    ) -> bool {
        let replaced = {
            let mut state = self.state();
            state.rejected.remove(name);
            if state.engaged.get(name).is_some_and(is_same) {
                return false;
            }
            let cluster = Cluster::new(Arc::clone(name), client);
            let probe = tokio::spawn(scheduled(cluster.clone().probe())).abort_handle();
            state.engaged.insert(Arc::clone(name), Engaged { cluster, fingerprint, probe })
        };
        tracing::info!(cluster = &**name, ?client, is_replaced = replaced.is_some(), "cluster engaged");
        // Before the change is announced: controllers leave the old instance first.
        drop(replaced);
        self.report(name);
        self.changes.send_modify(|changes| *changes += 1);
        true
    }

    /// Engages the cluster of a kubeconfig that the check accepts.
    pub(super) fn engage_kubeconfig(
        self: &Arc<Self>,
        name: &Arc<str>,
        kubeconfig: &str,
        check: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Result<bool, Error> {
        let fingerprint = Fingerprint::of(kubeconfig);
        let is_same = |engaged: &Engaged| engaged.fingerprint == Some(fingerprint);
        {
            let mut state = self.state();
            if state.engaged.get(name).is_some_and(is_same) {
                state.rejected.remove(name);
                return Ok(false);
            }
        }
        let client = Config::from_untrusted(kubeconfig).map_err(Error::from).and_then(|config| {
            check(&config).map_err(|problem| ConfigError::Invalid { problem })?;
            Client::new(config)
        });
        match client {
            Ok(client) => Ok(self.engage(name, &client, Some(fingerprint), is_same)),
            Err(error) => {
                self.reject(name, ErrorChain(&error));
                Err(error)
            }
        }
    }

    /// Records why the latest kubeconfig of a cluster is not used.
    pub(super) fn reject(self: &Arc<Self>, name: &Arc<str>, error: impl fmt::Display) {
        let failure = ClusterFailure::new(error, Instant::now());
        tracing::warn!(cluster = &**name, error = failure.message, "kubeconfig rejected");
        self.state().rejected.insert(Arc::clone(name), failure);
        self.report(name);
    }

    fn disengage(&self, name: &str) -> Option<Cluster> {
        let (engaged, diagnostics) = {
            let mut state = self.state();
            state.rejected.remove(name);
            (state.engaged.remove(name), state.diagnostics.clone())
        };
        diagnostics.iter().for_each(|diagnostics| _ = diagnostics.remove(SECTION, name));
        let cluster = engaged.map(|engaged| engaged.cluster.clone())?;
        tracing::info!(cluster = name, "cluster disengaged");
        self.changes.send_modify(|changes| *changes += 1);
        Some(cluster)
    }

    /// Disengages a cluster that a kubeconfig was engaged with.
    pub(super) fn disengage_kubeconfig(&self, name: &str) {
        if self.state().engaged.get(name).is_none_or(|engaged| engaged.fingerprint.is_some()) {
            self.disengage(name);
        }
    }

    fn status(&self, name: &str) -> Option<ClusterStatus> {
        let (cluster, rejected) = {
            let state = self.state();
            (state.engaged.get(name).map(|engaged| engaged.cluster.clone()), state.rejected.get(name).cloned())
        };
        match (cluster, rejected) {
            (Some(cluster), rejected) => Some(ClusterStatus { rejected, ..cluster.status() }),
            (None, Some(rejected)) => Some(ClusterStatus::rejected(name, rejected)),
            (None, None) => None,
        }
    }

    pub(super) fn statuses(&self) -> Vec<ClusterStatus> {
        let names: BTreeSet<_> = {
            let state = self.state();
            state.engaged.keys().chain(state.rejected.keys()).cloned().collect()
        };
        names.iter().filter_map(|name| self.status(name)).collect()
    }

    fn is_home_ready(&self) -> Result<(), Reason> {
        if let Some(secrets) = self.secrets.get() {
            secrets.is_ready()?;
        }
        match self.status(HOME).filter(|status| !status.is_synced) {
            None => Ok(()),
            Some(ClusterStatus { last_failure: Some(failure), .. }) => {
                Err(format!("the caches have not synced: {}", failure.message).into())
            }
            Some(_) => Err("the caches have not synced".into()),
        }
    }

    /// Adds a cluster to the diagnostics.
    fn report(self: &Arc<Self>, name: &Arc<str>) {
        let diagnostics = self.state().diagnostics.clone();
        diagnostics.iter().for_each(|diagnostics| diagnostics.add(self.source(name)));
    }

    fn source(self: &Arc<Self>, name: &Arc<str>) -> Source {
        let (set, cluster) = (Arc::downgrade(self), Arc::clone(name));
        Source::timed(SECTION, name, move |now| {
            let status = set.upgrade().and_then(|set| set.status(&cluster));
            status.map(|status| status.report(now)).unwrap_or_default()
        })
    }
}

impl Drop for ClusterSet {
    fn drop(&mut self) {
        let SetState { engaged, rejected, diagnostics } = std::mem::take(&mut *self.state());
        for name in engaged.keys().chain(rejected.keys()) {
            diagnostics.iter().for_each(|diagnostics| _ = diagnostics.remove(SECTION, name));
        }
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.state().engaged.keys()).finish()
    }
}
