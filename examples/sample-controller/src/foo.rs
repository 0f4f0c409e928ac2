//! The Foo type.

use evenkeel::{api_type, custom_resource};

/// A Foo owns a Deployment with a name and a number of replicas.
#[custom_resource(
    group = "samplecontroller.example.com",
    version = "v1alpha1",
    namespaced,
    status = FooStatus,
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.availableReplicas"),
    printcolumn(name = "Deployment", type_ = "string", json_path = ".spec.deploymentName"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[derive(Default, PartialEq, Eq)]
pub struct FooSpec {
    /// Name of the Deployment. If it changes, another one is created and the old one deleted.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub deployment_name: String,
    /// Number of replicas of the Deployment.
    #[serde(default = "one_replica")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
}

fn one_replica() -> i32 {
    1
}

/// Observed state.
#[api_type]
#[derive(Default, PartialEq, Eq)]
pub struct FooStatus {
    /// Number of available replicas of the Deployment.
    #[serde(default)]
    pub available_replicas: i32,
    /// Generation of the Foo that this status describes. If it differs from the Foo's own, the controller has yet to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The CustomResourceDefinition of Foos as YAML, for `kubectl apply`. It is `Foo::crd()`, which a test checks.
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
