//! Namespaces, priority classes, component statuses, and the range of Service addresses.

use serde_json::{Value, json};

use crate::engine::bootstrap::kubernetes_service::{ADDRESS, NAME, NAMESPACE};
use crate::store::TEMPLATE_TIME;

/// Namespaces that exist from the start (NS-1).
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// The priority of `system-cluster-critical`.
const SYSTEM_CRITICAL: i64 = 2_000_000_000;

/// The range of Service addresses, which `kinds::services` assigns from.
const SERVICE_CIDR: &str = "10.0.0.0/24";

pub(super) fn namespaces() -> impl Iterator<Item = Value> {
    NAMESPACES.iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// The default ServiceAccounts of the initial namespaces.
pub(super) fn service_accounts() -> impl Iterator<Item = Value> {
    let account = |namespace: &&str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
    NAMESPACES.iter().map(account)
}

pub(super) fn priority_classes() -> impl Iterator<Item = Value> {
    let classes = [
        ("system-node-critical", SYSTEM_CRITICAL + 1000, "For pods that must stay on the node that they run on."),
        ("system-cluster-critical", SYSTEM_CRITICAL, "For pods that the cluster needs, on whichever node."),
    ];
    classes.into_iter().map(|(name, value, description)| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
               "value": value, "description": description})
    })
}

/// The store is inside of the server. kube-apiserver probes the other components on ports of its machine; this server
/// does not know them.
pub(super) fn component_statuses() -> impl Iterator<Item = Value> {
    let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
    let unknown = json!({"type": "Healthy", "status": "Unknown", "error": "evenkeel does not probe this component"});
    [("controller-manager", unknown.clone()), ("etcd-0", healthy), ("scheduler", unknown)].into_iter().map(
        |(name, condition)| {
            json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [condition]})
        },
    )
}

/// The ServiceCIDR, and the IPAddress of the Service.
pub(super) fn addresses() -> impl Iterator<Item = Value> {
    let networking = "networking.k8s.io/v1";
    [
        json!({"apiVersion": networking, "kind": "ServiceCIDR", "metadata": {"name": NAME},
               "spec": {"cidrs": [SERVICE_CIDR]},
               "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "",
                          "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": TEMPLATE_TIME}]}}),
        json!({"apiVersion": networking, "kind": "IPAddress",
               "metadata": {"name": ADDRESS, "labels": {
                   "ipaddress.kubernetes.io/ip-family": "IPv4",
                   "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
               "spec": {"parentRef": {"group": "", "resource": "services", "namespace": NAMESPACE, "name": NAME}}}),
    ]
    .into_iter()
}
