//! The Foo type.

use evenkeel::CustomResource;
use serde::{Deserialize, Serialize};

/// The `spec` of a `Foo`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(group = "samplecontroller.example.com", version = "v1alpha1", kind = "Foo", namespaced, status = "FooStatus")]
#[kube(schema = "disabled", crates(kube_core = "evenkeel::kube_core", k8s_openapi = "evenkeel::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// Name of the Deployment. If it changes, another Deployment is created and the old one deleted.
    pub deployment_name: String,
    /// Number of replicas.
    pub replicas: i32,
}

/// The `status` of a `Foo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// Number of available replicas of the Deployment.
    #[serde(default)]
    pub available_replicas: i32,
    /// Generation of the Foo that this status describes. If it differs from the Foo's own, the controller has yet to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The CustomResourceDefinition, as YAML. The schema is written by hand instead of derived from the types above, because it
/// contains more: limits, defaults, and the columns of `kubectl get`.
pub const CRD: &str = include_str!("../manifests/crd.yaml");

/// All manifests, as YAML: the definition of Foos, a namespace, permissions, and two replicas of the controller.
pub const MANIFESTS: &str = concat!(
    include_str!("../manifests/crd.yaml"),
    "---\n",
    include_str!("../manifests/namespace.yaml"),
    "---\n",
    include_str!("../manifests/rbac.yaml"),
    "---\n",
    include_str!("../manifests/deployment.yaml"),
);
