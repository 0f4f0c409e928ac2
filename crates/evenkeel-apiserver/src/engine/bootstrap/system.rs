//! Namespaces, priority classes, the configuration that kube-controller-manager reads, and component statuses.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ServerFacts;
use crate::engine::ApiEngine;

/// Namespaces that exist from the start (NS-1).
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// The priority of `system-cluster-critical`.
const SYSTEM_CRITICAL: i64 = 2_000_000_000;

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

impl ApiEngine {
    /// Writes the authority of this process over that of an earlier one. Without a data directory's key they differ.
    pub(super) fn update_client_authority(&self, facts: &ServerFacts) {
        if facts.client_ca.is_some()
            && let Some(authentication) = config_maps(facts, self.env.wall()).next()
        {
            self.update_bootstrap_object(&authentication, &["data"]);
        }
    }
}

/// The certificate authority of clients, for servers that delegate authentication, and the day since which tokens in
/// Secrets are tracked.
pub(super) fn config_maps(facts: &ServerFacts, now: Timestamp) -> impl Iterator<Item = Value> {
    let config_map = |name: &str, data: Option<Value>| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                             "metadata": {"name": name, "namespace": "kube-system"}});
        if let Some(data) = data {
            map["data"] = data;
        }
        map
    };
    let authentication = facts.client_ca.as_ref().map(|authority| json!({"client-ca-file": authority}));
    let since = now.strftime("%Y-%m-%d").to_string();
    [
        config_map("extension-apiserver-authentication", authentication),
        config_map("kube-apiserver-legacy-service-account-token-tracking", Some(json!({"since": since}))),
    ]
    .into_iter()
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
