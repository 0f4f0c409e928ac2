//! Admission webhooks.

mod calls;
mod conditions;
mod configurations;
mod connections;
mod functions;
mod patches;
mod reviews;
pub(crate) mod server;

use std::sync::{Arc, Mutex};

use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict, ApiServer, Builder};
use serde_json::{Value, json};

use crate::api::TestEnv;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// Returns a configuration of one webhook for ConfigMaps.
pub(crate) fn configuration(kind: &str, name: &str, client: &Value, rest: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "clientConfig": client, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    webhook.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
           "webhooks": [webhook]})
}

/// The reviews that functions have received.
#[derive(Clone, Default)]
pub(crate) struct Reviews(Arc<Mutex<Vec<Value>>>);

impl Reviews {
    pub(crate) fn push(&self, review: Value) {
        self.0.lock().unwrap().push(review);
    }

    /// Returns the requests of the reviews since the last call.
    pub(crate) fn take(&self) -> Vec<Value> {
        let reviews = std::mem::take(&mut *self.0.lock().unwrap());
        reviews.into_iter().map(|review| review["request"].clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

pub(crate) fn builder() -> Builder {
    ApiServer::builder().env(TestEnv::new())
}

/// Adds a function that records its reviews and returns this verdict.
pub(crate) fn recording(
    builder: Builder,
    hook: AdmissionHook,
    verdict: impl Fn(&AdmissionReview) -> AdmissionVerdict + Send + Sync + 'static,
) -> (Builder, Reviews) {
    let reviews = Reviews::default();
    let seen = reviews.clone();
    let builder = builder.admit(hook, move |review: AdmissionReview| {
        seen.push(review.clone().into_json());
        let verdict = verdict(&review);
        async move { verdict }
    });
    (builder, reviews)
}
