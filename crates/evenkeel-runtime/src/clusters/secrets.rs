//! [`KubeconfigSecrets`]: engages the clusters whose kubeconfigs are in Secrets.

use std::fmt;
use std::sync::{Arc, Weak};

use evenkeel_cache::{Event, Handler, HandlerOptions, InformerFactory, RunningInformers, SharedInformer};
use evenkeel_client::{Client, Config};
use evenkeel_core::Obj;
use k8s_openapi::api::core::v1::Secret;

use super::set::{ClusterSet, Clusters};
use crate::controller::not_synced;
use crate::health::Reason;

/// The label of Secrets with a kubeconfig, as multicluster-runtime has it.
const LABELS: &str = "sigs.k8s.io/multicluster-runtime-kubeconfig=true";
/// The key of the kubeconfig in a Secret.
const KEY: &str = "kubeconfig";

/// Accepts or refuses the configuration of a cluster.
type CheckConfig = Arc<dyn Fn(&str, &Config) -> Result<(), String> + Send + Sync>;

/// Fills a set of [`Clusters`] from the Secrets of one namespace, and keeps it current. multicluster-runtime's kubeconfig provider.
///
/// - A Secret with the label `sigs.k8s.io/multicluster-runtime-kubeconfig: "true"` has a kubeconfig under the key `kubeconfig`. The
///   name of the Secret is the name of the cluster.
/// - A Secret that is added engages its cluster, one whose kubeconfig changes replaces it, and one that is deleted or loses the label
///   disengages it. Any other change has no effect.
/// - Kubeconfigs are not trusted: no plugins, no files, no proxies, TLS with verification ([`Config::from_untrusted`]).
/// - A kubeconfig that cannot be used is in the [status](Clusters::statuses) of its cluster, which continues with the previous one.
///
/// ```
/// # async fn example(home: evenkeel_client::Client) {
/// use evenkeel_runtime::clusters::KubeconfigSecrets;
///
/// let clusters = KubeconfigSecrets::new(&home, "fleet")
///     .allow(|_, config| match config.server.host().ends_with(".fleet.example.com") {
///         true => Ok(()),
///         false => Err("the server is not part of the fleet".to_owned()),
///     })
///     .start();
/// # drop(clusters);
/// # }
/// ```
#[must_use = "does nothing until `start` is called"]
pub struct KubeconfigSecrets {
    home: Client,
    namespace: String,
    labels: String,
    key: String,
    check: CheckConfig,
}

/// The informer of the Secrets. Dropping it stops it.
pub(super) struct WatchedSecrets {
    informer: SharedInformer<Secret>,
    _running: RunningInformers,
}

impl KubeconfigSecrets {
    /// Returns the Secrets of a namespace of the home cluster.
    pub fn new(home: &Client, namespace: impl Into<String>) -> Self {
        KubeconfigSecrets {
            home: home.clone(),
            namespace: namespace.into(),
            labels: LABELS.to_owned(),
            key: KEY.to_owned(),
            check: Arc::new(|_, _| Ok(())),
        }
    }

    /// Sets the labels of the Secrets: a string such as `fleet=blue`, or a [`LabelSelector`](evenkeel_core::LabelSelector).
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Sets the key of the kubeconfig in a Secret. Default: `kubeconfig`.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets a check of the name and the configuration of a cluster before it is engaged. Default: all are accepted.
    ///
    /// A kubeconfig may name any server, also one that only this machine can reach, and requests with the credentials of the
    /// kubeconfig are sent there. A program for which that matters checks [`Config::server`].
    pub fn allow(mut self, check: impl Fn(&str, &Config) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check = Arc::new(check);
        self
    }

    /// Starts to watch the Secrets, and returns the set that they fill. It stops when the last clone of the set is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> Clusters {
        Clusters::filled_by(|set| {
            let informers = InformerFactory::builder(&self.home)
                .name("clusters")
                .namespace(&*self.namespace)
                .configure::<Secret>(|secrets| secrets.labels(&self.labels))
                .build();
            let informer = informers.of::<Secret>();
            let handler = SecretHandler { set: Arc::downgrade(set), key: self.key, check: self.check };
            if let Err(stopped) = informer.add_handler(handler.with(HandlerOptions::new().name("clusters"))) {
                // An informer that was just made has not stopped.
                tracing::error!(%stopped, "kubeconfigs are not watched");
            }
            WatchedSecrets { informer, _running: informers.start() }
        })
    }
}

impl WatchedSecrets {
    pub(super) fn is_ready(&self) -> Result<(), Reason> {
        match self.informer.has_synced() {
            true => Ok(()),
            false => {
                Err(format!("the kubeconfigs have not been listed: {}", not_synced(&self.informer.status())).into())
            }
        }
    }
}

/// Engages and disengages clusters as their Secrets change.
struct SecretHandler {
    set: Weak<ClusterSet>,
    key: String,
    check: CheckConfig,
}

impl Handler<Secret> for SecretHandler {
    fn handle(&mut self, event: Event<Secret>) {
        let Some(set) = self.set.upgrade() else { return };
        match event {
            Event::Add { object, .. } | Event::Update { new: object, .. } => self.engage(&set, &object),
            Event::Delete(deleted) => set.disengage_kubeconfig(deleted.key().name()),
        }
    }
}

impl SecretHandler {
    fn engage(&self, set: &Arc<ClusterSet>, secret: &Obj<Secret>) {
        let name = Arc::from(secret.key().name());
        match self.kubeconfig(secret) {
            // A rejected kubeconfig is in the status of the cluster.
            Ok(kubeconfig) => _ = set.engage_kubeconfig(&name, &kubeconfig, |config| (self.check)(&name, config)),
            Err(problem) => set.reject(&name, problem),
        }
    }

    fn kubeconfig(&self, secret: &Obj<Secret>) -> Result<String, String> {
        let (name, key) = (secret.key(), &self.key);
        // The error of a Secret may show a part of its contents.
        let decoded = secret.typed().map_err(|_| format!("the Secret {name} cannot be decoded"))?;
        let bytes = decoded.data.as_ref().and_then(|data| data.get(key));
        let bytes = bytes.ok_or_else(|| format!("the Secret {name} has no key {key:?}"))?;
        let text = std::str::from_utf8(&bytes.0);
        text.map(str::to_owned).map_err(|error| format!("the key {key:?} of the Secret {name} is no text: {error}"))
    }
}

impl fmt::Debug for KubeconfigSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeconfigSecrets")
            .field("home", &self.home)
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
