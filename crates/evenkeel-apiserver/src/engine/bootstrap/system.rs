//! The configuration that kube-controller-manager reads.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ServerFacts;
use crate::engine::ApiEngine;

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
