//! Resources under test.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_cache::informer::Recovery;
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{InformerOptions, Registration, RunningInformers, SharedInformer, transform};
use evenkeel_client::api::scope::{Any, Scope};
use evenkeel_client::{Api, Client, Unstructured};
use evenkeel_core::shard::ShardSelector;
use evenkeel_core::{Obj, ResourceInfo};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use tokio::sync::mpsc;

use super::counter::{Counter, counter};
use crate::Failure;

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Data {
    /// Pods
    Pods,
    /// Secrets
    Secrets,
    /// EndpointSlices
    Endpointslices,
    /// A custom resource, documents of bench.evenkeel.dev/v1
    Documents,
    /// Twenty built-in kinds, each with an informer of its own
    Kinds,
}

/// Settings of all informers.
pub(super) struct Setup {
    pub(super) client: Client,
    pub(super) failures: mpsc::Sender<String>,
    pub(super) notifications: Arc<AtomicU64>,
    /// Whether managedFields are stripped.
    pub(super) light: bool,
    /// The places of the objects; `None` for all objects without a filter.
    pub(super) shards: Option<ShardSelector>,
}

/// An informer of any kind.
pub(super) struct Informer {
    pub(super) start: Box<dyn Fn() -> RunningInformers>,
    pub(super) len: Box<dyn Fn() -> usize>,
    pub(super) registration: Registration,
    /// The informer, if it is one of pods.
    pub(super) pods: Option<SharedInformer<Pod>>,
}

/// Returns the informers of a data set. The counter is the handler of the first.
pub(super) fn informers(data: Data, setup: &Setup, counter: Counter) -> Result<Vec<Informer>, Failure> {
    let client = &setup.client;
    let one = match data {
        Data::Pods => {
            let pods = setup.build(client.api::<Pod>());
            Informer { pods: Some(pods.clone()), ..Informer::new(pods, counter)? }
        }
        Data::Secrets => setup.informer(setup.untyped(&client.resource::<Secret>()), counter)?,
        Data::Endpointslices => setup.informer(setup.untyped(&client.resource::<EndpointSlice>()), counter)?,
        Data::Documents => {
            let documents = Arc::new(ResourceInfo::new("bench.evenkeel.dev", "v1", "Document", "documents", true));
            setup.informer(client.dynamic(&documents), counter)?
        }
        Data::Kinds => return setup.all(),
    };
    Ok(vec![one])
}

impl Setup {
    fn all(&self) -> Result<Vec<Informer>, Failure> {
        macro_rules! kinds {
            ($($kind:ty),*) => {
                [$(self.client.resource::<$kind>()),*]
            };
        }
        let kinds = kinds![
            Pod,
            Secret,
            EndpointSlice,
            ConfigMap,
            Service,
            ServiceAccount,
            PersistentVolumeClaim,
            Node,
            Namespace,
            Deployment,
            ReplicaSet,
            StatefulSet,
            DaemonSet,
            Job,
            CronJob,
            Ingress,
            NetworkPolicy,
            Role,
            RoleBinding,
            PodDisruptionBudget
        ];
        kinds.iter().map(|kind| self.informer(self.untyped(kind), counter(0, 0, &self.notifications).0)).collect()
    }

    /// Returns the API of a kind whose objects are never decoded: requests and encodings are those of its Rust type, and the
    /// code of an informer exists once for all kinds.
    fn untyped(&self, kind: &Arc<ResourceInfo>) -> Api<Unstructured, Any> {
        Api::of(&self.client, kind)
    }

    fn informer<K: 'static, S: Scope>(&self, api: Api<K, S>, counter: Counter) -> Result<Informer, Failure> {
        Informer::new(self.build(api), counter)
    }

    fn build<K: 'static, S: Scope>(&self, api: Api<K, S>) -> SharedInformer<K> {
        let source = ApiSource::new(api);
        let info = Arc::clone(source.resource());
        let failures = self.failures.clone();
        let options = InformerOptions::new()
            // Before the storm a failure ends the run, unless the reflector falls back to another request.
            .on_error(move |trouble| {
                if trouble.next != (Recovery::Relist { after: Duration::ZERO }) {
                    drop(failures.try_send(trouble.to_string()));
                }
            });
        let lighter = transform::drop_managed_fields();
        let options = match self.light {
            true => options.transform(move |object: Obj<K>| lighter(object.cast()).map(Obj::cast)),
            false => options,
        };
        let options = match &self.shards {
            Some(selector) => options.shards(selector.clone()),
            None => options,
        };
        SharedInformer::new(source, &info, options)
    }
}

impl Informer {
    fn new<K: 'static>(informer: SharedInformer<K>, counter: Counter) -> Result<Self, Failure> {
        let registration = informer.add_handler(counter)?;
        let indexer = informer.indexer();
        Ok(Informer {
            start: Box::new(move || informer.start()),
            len: Box::new(move || indexer.len()),
            registration,
            pods: None,
        })
    }
}
