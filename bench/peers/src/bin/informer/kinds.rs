//! Resources under test.

use clap::ValueEnum;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};

use crate::reflection::{Reflection, Setup, Wanted, wanted as what};

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    Pods,
    Secrets,
    Endpointslices,
    Documents,
    Kinds,
}

/// Starts the reflectors of a data set. The updates of the first are counted.
pub(crate) fn start(data: Data, setup: &Setup, wanted: Wanted) -> Vec<Reflection> {
    let client = &setup.client;
    let one = match data {
        Data::Pods => {
            let (reflection, pods) = setup.start::<Pod>(Api::all(client.clone()), (), wanted);
            Reflection { pods: Some(pods), ..reflection }
        }
        Data::Secrets => setup.start::<Secret>(Api::all(client.clone()), (), wanted).0,
        Data::Endpointslices => setup.start::<EndpointSlice>(Api::all(client.clone()), (), wanted).0,
        Data::Documents => {
            let kind = GroupVersionKind::gvk("bench.evenkeel.dev", "v1", "Document");
            let documents = ApiResource::from_gvk_with_plural(&kind, "documents");
            setup.start::<DynamicObject>(Api::all_with(client.clone(), &documents), documents, wanted).0
        }
        Data::Kinds => {
            macro_rules! all {
                ($($kind:ty),*) => {
                    vec![$(setup.start::<$kind>(Api::all(client.clone()), (), what(0, 0).0).0),*]
                };
            }
            return all![
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
        }
    };
    vec![one]
}
