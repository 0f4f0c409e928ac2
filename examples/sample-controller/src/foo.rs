//! What a Foo is.

use evenkeel::CustomResource;
use serde::{Deserialize, Serialize};

/// What the user asks for. Of a `Foo`, this is the `spec`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(group = "samplecontroller.example.com", version = "v1alpha1", kind = "Foo", namespaced, status = "FooStatus")]
#[kube(schema = "disabled", crates(kube_core = "evenkeel::kube_core", k8s_openapi = "evenkeel::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// What the Deployment is to be called. If this changes, there is another Deployment, and the old one goes.
    pub deployment_name: String,
    /// How many replicas it is to have.
    pub replicas: i32,
}

/// What the controller found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many replicas of the Deployment are available.
    #[serde(default)]
    pub available_replicas: i32,
    /// Which generation of the Foo this is about. If it is not the Foo's own, the controller has yet to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The CustomResourceDefinition, as YAML: what the API server has to know of Foos. The schema is in here and not derived from the
/// types above, because it says more than they can: limits, defaults, and which columns `kubectl get` shows.
pub const CRD: &str = include_str!("../manifests/crd.yaml");

/// All that a cluster needs to run the controller, as YAML: the definition of Foos, a namespace, what the controller is allowed to
/// do, and two replicas of it.
pub const MANIFESTS: &str = concat!(
    include_str!("../manifests/crd.yaml"),
    "---\n",
    include_str!("../manifests/namespace.yaml"),
    "---\n",
    include_str!("../manifests/rbac.yaml"),
    "---\n",
    include_str!("../manifests/deployment.yaml"),
);
