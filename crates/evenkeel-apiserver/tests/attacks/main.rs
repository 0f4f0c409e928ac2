//! Requests that are cheap to send and were expensive to serve, at the size of the attack. Each must end with the result
//! or the error of kube-apiserver. No test asserts on time: a quadratic algorithm at these sizes exceeds the time limit of
//! the run. `cargo test -p evenkeel-apiserver --test attacks -- --nocapture` prints the time of each.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../support/api.rs"]
mod api;
mod lists;
mod memory;
mod patches;
mod schemas;
mod unread;

use std::future::Future;

use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The most causes that one error reports.
const MAX_CAUSES: usize = 100;

/// Prints how long a request took.
#[allow(clippy::disallowed_methods, reason = "printed, and nothing depends on it")]
async fn timed<T>(what: &str, request: impl Future<Output = T>) -> T {
    let start = std::time::Instant::now();
    let result = request.await;
    eprintln!("{:>9.1} ms  {what}", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "main", "image": "app"}]}})
}

/// A definition whose objects have a `spec` of this schema.
fn widgets(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Namespaced",
                    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                                  "schema": {"openAPIV3Schema": schema}}]}})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Returns the number of causes of an error.
fn causes(status: &Value) -> usize {
    status["details"]["causes"].as_array().map_or(0, Vec::len)
}
