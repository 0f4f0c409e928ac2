//! Built-in admission, one file per plugin.

mod certificates;
mod chain;
mod claim_resize;
mod default_classes;
mod default_tolerations;
mod limit_ranger;
mod owner_references;
mod pod_security;
mod priority;
mod quota_properties;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taint_nodes;
mod topology_labels;

use evenkeel_apiserver::{ApiServer, Builder};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv};

/// A pod with this specification; it has one container unless that names others.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                         "spec": {"containers": [{"name": "a", "image": "busybox"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

/// A container with these resources.
fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "busybox", "resources": resources})
}

fn claim(name: &str, storage: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
           "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn builder() -> Builder {
    ApiServer::builder().env(TestEnv::new())
}

/// Creates a namespace with labels.
async fn namespace(api: &Api, name: &str, labels: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
}

/// Writes a field of an object's status.
async fn set_status(api: &Api, path: &str, status: Value) -> Value {
    api.patch(&format!("{path}/status"), &json!({"status": status})).await.expect(200)
}
