//! Functions of the program that review writes: [`AdmissionHook`], [`AdmissionReview`], [`AdmissionVerdict`].

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

#[cfg(doc)]
use crate::Builder;
use crate::engine::{Webhook, WebhookKind};
use crate::outbound::{CallError, CallFunction};

/// Which writes a function of [`Builder::admit`] reviews, and how: the fields of a webhook.
///
/// The defaults are those of `admissionregistration.k8s.io/v1`: failures refuse the write, a rule for one version matches all
/// versions, the timeout is ten seconds. The function is taken to have no side effects, so it sees dry runs.
#[derive(Clone, Debug)]
#[must_use = "a hook does nothing until it is passed to `Builder::admit`"]
pub struct AdmissionHook {
    kind: WebhookKind,
    webhook: Value,
}

impl AdmissionHook {
    fn new(kind: WebhookKind, name: String) -> Self {
        let webhook = json!({
            "name": name, "rules": [], "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
            "timeoutSeconds": 10, "reinvocationPolicy": "Never", "admissionReviewVersions": ["v1"],
        });
        AdmissionHook { kind, webhook }
    }

    /// Returns a hook that may change objects. It runs in the order of the names of all mutating webhook configurations.
    pub fn mutating(name: impl Into<String>) -> Self {
        AdmissionHook::new(WebhookKind::Mutating, name.into())
    }

    /// Returns a hook that may refuse objects.
    pub fn validating(name: impl Into<String>) -> Self {
        AdmissionHook::new(WebhookKind::Validating, name.into())
    }

    /// Adds a rule: operations (`CREATE`, `UPDATE`, `DELETE`, `CONNECT`), groups, versions, and resources such as `pods`,
    /// `pods/status` or `*/scale`. `*` stands for all of them. A hook without rules reviews nothing.
    pub fn rule(mut self, operations: &[&str], groups: &[&str], versions: &[&str], resources: &[&str]) -> Self {
        let rule = json!({"operations": operations, "apiGroups": groups, "apiVersions": versions,
                          "resources": resources, "scope": "*"});
        if let Some(rules) = self.webhook.get_mut("rules").and_then(Value::as_array_mut) {
            rules.push(rule);
        }
        self
    }

    fn set(mut self, key: &str, value: Value) -> Self {
        if let Some(fields) = self.webhook.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
        self
    }

    /// Reviews only objects in namespaces that this label selector selects, as JSON with `matchLabels` and
    /// `matchExpressions`. With an invalid selector every write that a rule matches fails.
    pub fn namespace_selector(self, selector: Value) -> Self {
        self.set("namespaceSelector", selector)
    }

    /// Reviews only objects that this label selector selects, before or after the write.
    pub fn object_selector(self, selector: Value) -> Self {
        self.set("objectSelector", selector)
    }

    /// Matches only requests through the versions that a rule names.
    pub fn exact_versions(self) -> Self {
        self.set("matchPolicy", "Exact".into())
    }

    /// Lets a write pass if the function fails, panics or exceeds its timeout.
    pub fn ignore_failures(self) -> Self {
        self.set("failurePolicy", "Ignore".into())
    }

    /// Runs the function again if the object changes after it.
    pub fn reinvoke_if_needed(self) -> Self {
        self.set("reinvocationPolicy", "IfNeeded".into())
    }

    /// Sets the timeout in whole seconds, from 1 to 30.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set("timeoutSeconds", timeout.as_secs().clamp(1, 30).into())
    }

    /// Declares side effects: dry runs of what a rule matches are refused without a call.
    pub fn has_side_effects(self) -> Self {
        self.set("sideEffects", "Some".into())
    }

    pub(crate) fn into_webhook<F, Fut>(self, function: F) -> (WebhookKind, Arc<Webhook>)
    where
        F: Fn(AdmissionReview) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = AdmissionVerdict> + Send + 'static,
    {
        let function = Arc::new(function);
        let call: CallFunction = Arc::new(move |body: Bytes| {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let review = serde_json::from_slice(&body).map_err(|error| CallError(error.to_string()))?;
                let review = AdmissionReview(review);
                let uid = review.text("uid").to_owned();
                function(review).await.into_response(&uid)
            })
        });
        (self.kind, Arc::new(Webhook::of_function(&self.webhook, call)))
    }
}

/// An AdmissionReview of `admission.k8s.io/v1` as a function of [`Builder::admit`] receives it.
#[derive(Clone, Debug)]
pub struct AdmissionReview(Value);

impl AdmissionReview {
    fn request(&self) -> &Value {
        self.0.get("request").unwrap_or(&Value::Null)
    }

    fn text(&self, key: &str) -> &str {
        self.request().get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub fn operation(&self) -> &str {
        self.text("operation")
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text("namespace")
    }

    /// Returns the name; empty while a mutating hook reviews an object with `generateName`.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// Returns the subresource; empty for the object itself.
    pub fn subresource(&self) -> &str {
        self.text("subResource")
    }

    /// Returns the name of the user.
    pub fn user_name(&self) -> &str {
        self.request().pointer("/userInfo/username").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns whether nothing will be stored.
    pub fn is_dry_run(&self) -> bool {
        self.request().get("dryRun").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the new object; null for a delete.
    pub fn object(&self) -> &Value {
        self.request().get("object").unwrap_or(&Value::Null)
    }

    /// Returns the stored object; null for a create.
    pub fn old_object(&self) -> &Value {
        self.request().get("oldObject").unwrap_or(&Value::Null)
    }

    /// Returns the whole review as JSON, for code that takes the request of a webhook.
    pub fn into_json(self) -> Value {
        self.0
    }
}

/// What a function of [`Builder::admit`] decides.
#[derive(Clone, Debug)]
#[must_use = "a verdict does nothing until it is returned"]
pub struct AdmissionVerdict(VerdictKind);

#[derive(Clone, Debug)]
enum VerdictKind {
    /// `response` without uid.
    Response(Map<String, Value>),
    /// A whole review.
    Review(Value),
    Failed(String),
}

impl AdmissionVerdict {
    fn response(response: Value) -> Self {
        match response {
            Value::Object(fields) => AdmissionVerdict(VerdictKind::Response(fields)),
            _ => AdmissionVerdict(VerdictKind::Response(Map::new())),
        }
    }

    /// Lets the write pass.
    pub fn allow() -> Self {
        AdmissionVerdict::response(json!({"allowed": true}))
    }

    /// Refuses the write with 403 and this message.
    pub fn deny(message: impl Into<String>) -> Self {
        AdmissionVerdict::deny_with(403, "Forbidden", message)
    }

    /// Refuses the write with this code, reason and message.
    pub fn deny_with(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let status = json!({"code": code, "reason": reason, "message": message.into()});
        AdmissionVerdict::response(json!({"allowed": false, "status": status}))
    }

    /// Lets the write pass with the operations of a JSON patch. Only for mutating hooks.
    pub fn patch(operations: &Value) -> Self {
        let patch = STANDARD.encode(operations.to_string());
        AdmissionVerdict::response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }

    /// Lets the write pass with another object. Only for mutating hooks.
    pub fn replace(object: Value) -> Self {
        AdmissionVerdict::patch(&json!([{"op": "replace", "path": "", "value": object}]))
    }

    /// Returns what a webhook would answer: an AdmissionReview with its `response`.
    pub fn from_json(review: Value) -> Self {
        AdmissionVerdict(VerdictKind::Review(review))
    }

    /// Fails like a webhook that cannot be called: the failure policy decides.
    pub fn fail(why: impl Into<String>) -> Self {
        AdmissionVerdict(VerdictKind::Failed(why.into()))
    }

    /// Adds a warning to the response of the write. Has no effect on [`AdmissionVerdict::from_json`] and
    /// [`AdmissionVerdict::fail`].
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        if let VerdictKind::Response(fields) = &mut self.0
            && let Value::Array(warnings) = fields.entry("warnings").or_insert_with(|| json!([]))
        {
            warnings.push(text.into().into());
        }
        self
    }

    /// Adds an annotation to the write's event in the audit log, under the name of the hook. Has no effect on
    /// [`AdmissionVerdict::from_json`] and [`AdmissionVerdict::fail`].
    pub fn annotate(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if let VerdictKind::Response(fields) = &mut self.0
            && let Value::Object(annotations) = fields.entry("auditAnnotations").or_insert_with(|| json!({}))
        {
            annotations.insert(key.into(), value.into().into());
        }
        self
    }

    fn into_response(self, uid: &str) -> Result<Bytes, CallError> {
        let review = match self.0 {
            VerdictKind::Failed(why) => return Err(CallError(why)),
            VerdictKind::Review(review) => review,
            VerdictKind::Response(mut fields) => {
                fields.insert("uid".into(), uid.into());
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": fields})
            }
        };
        Ok(review.to_string().into())
    }
}
