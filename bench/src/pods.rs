//! Pods of realistic shape and size.

use evenkeel_apiserver::{ApiServer, Builder, ControllerTiming};
use serde_json::{Value, json};

/// Target size of a stored pod, in bytes of JSON.
pub(crate) const STORED: usize = 3000;

/// Returns a builder for a server of these pods. Their ReplicaSets do not exist, so that a garbage collector would delete them.
pub(crate) fn server() -> Builder {
    ApiServer::builder().garbage_collector(ControllerTiming::Off)
}

/// Returns the nth pod of a workload. With the server's additions it is stored in about [`STORED`] bytes.
pub(crate) fn pod(number: usize) -> Value {
    let workload = number / 10;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number),
            "labels": {"app": format!("web-{workload}"), "pod-template-hash": "5d9c8b7f6", "tier": "frontend"},
            "annotations": {"checksum/config": "0f3e1d2c4b5a69788796a5b4c3d2e1f00f3e1d2c4b5a69788796a5b4c3d2e1f0"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{workload}-5d9c8b7f6"),
                "uid": format!("8c5a1a2e-0000-4000-8000-{workload:012}"), "controller": true,
                "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{:03}", number % 500),
            "containers": [{
                "name": "web", "image": format!("registry.example.com/team/web:1.{}", workload % 40),
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": format!("web-{workload}")}}],
        },
    })
}

pub(crate) fn name(number: usize) -> String {
    format!("web-{}-5d9c8b7f6-{number:06}", number / 10)
}
