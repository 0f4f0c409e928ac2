//! Garbage collection.

mod conformance;
mod foreground;
mod model;
mod orphans;
mod owners;
mod timing;

use evenkeel_apiserver::{ApiServer, Builder, ControllerTiming};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub(super) const NAMESPACES: &str = "/api/v1/namespaces";
pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(super) fn timed(timing: ControllerTiming) -> Builder {
    ApiServer::builder().env(TestEnv::new()).garbage_collector(timing)
}

/// Returns a ConfigMap with these owner references.
pub(super) fn map(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

/// Returns a reference to an object.
pub(super) fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
           "uid": object["metadata"]["uid"]})
}

/// Returns a reference to an object that blocks its deletion in the foreground.
pub(super) fn blocking(object: &Value) -> Value {
    let mut reference = owner(object);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

/// Returns a reference to an object that does not exist.
pub(super) fn absent(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("no-{name}")})
}

pub(super) fn hold(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

/// Returns the definition of a namespaced kind Widget.
pub(super) fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

pub(super) fn widget(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget",
           "metadata": {"name": name, "ownerReferences": owners}, "spec": {"size": 1}})
}

impl Api {
    /// Creates an object.
    pub(super) async fn made(&self, path: &str, object: &Value) -> Value {
        self.post(path, object).await.expect(201)
    }

    /// Deletes an object with a propagation policy.
    pub(super) async fn delete_by(&self, path: &str, policy: &str) -> Value {
        self.delete_with(path, &json!({"propagationPolicy": policy})).await.expect(200)
    }

    pub(super) async fn exists(&self, path: &str) -> bool {
        let found = self.get(path).await;
        assert!(matches!(found.status, 200 | 404), "{}", found.text);
        found.status == 200
    }

    /// Removes the finalizers of an object.
    pub(super) async fn release(&self, path: &str) {
        self.patch(path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    }
}

pub(super) fn owner_names(object: &Value) -> Vec<&str> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.map(|reference| reference["name"].as_str().unwrap()).collect()
}

pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().map(|each| each.as_str().unwrap()).collect()
}
