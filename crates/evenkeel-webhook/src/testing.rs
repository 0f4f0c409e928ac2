//! Calls hooks and converters in tests, as an API server does.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use evenkeel_client::Client;
use evenkeel_core::Status;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admission::{ErasedHook, HookHandler, HookKind};
use crate::server::{ReviewSettings, Route};
use crate::{Hook, Operation};

mod conversion;
mod generate;
#[cfg(test)]
mod tests;

pub use conversion::{ConversionTestError, ConversionTester};

/// The uid of all reviews.
const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// Calls a hook with reviews, without a server, and applies the checks of API servers to every answer.
///
/// A mutating hook is called a second time with the object that it has made, because API servers may do so. It is an error if
/// that changes the object again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_webhook::Hook;
/// use evenkeel_webhook::testing::HookTester;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let hook = Hook::mutating::<ConfigMap>().apply(|map, _| {
///     map.data.get_or_insert_default().entry("mode".into()).or_insert_with(|| "safe".into());
///     Ok(())
/// });
/// let answer = HookTester::new(hook).create(&ConfigMap::default()).await?;
/// assert!(answer.allowed);
/// assert_eq!(answer.object["data"]["mode"], "safe");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HookTester {
    route: Route,
    subresource: String,
    settings: ReviewSettings,
    is_dry_run: bool,
}

/// The checked answer of a hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookAnswer {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The status of the answer: code and, for a refusal, message and reason.
    pub status: Status,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations for the audit log, without the prefix of the webhook.
    pub annotations: std::collections::BTreeMap<String, String>,
    /// The object after the patch; null for a delete.
    pub object: Value,
    /// The JSON patch, if there is one.
    pub patch: Option<Value>,
}

/// Why an answer would be a failed call for an API server, or why a hook is not ready for one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookTestError {
    /// The hook failed: the `failurePolicy` of the webhook decides.
    #[error("the hook failed with HTTP status {code}: {message}")]
    Failed {
        /// The HTTP status code.
        code: u16,
        /// The text of the answer.
        message: String,
    },
    /// The answer does not pass the checks of API servers.
    #[error("the answer is invalid: {problem}")]
    Invalid {
        /// The sentence of the API server.
        problem: String,
    },
    /// The hook changes its own result.
    #[error("the hook is not idempotent: called with its own result, it changes it by {patch}")]
    NotIdempotent {
        /// The second patch.
        patch: Value,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<WireResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse {
    #[serde(default)]
    uid: String,
    allowed: bool,
    #[serde(default)]
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    audit_annotations: std::collections::BTreeMap<String, String>,
}

impl HookTester {
    /// Returns a tester of this hook.
    pub fn new<H: HookHandler>(hook: Hook<H>) -> Self {
        HookTester {
            route: Route::new(hook.erase()),
            subresource: String::new(),
            settings: ReviewSettings::default(),
            is_dry_run: false,
        }
    }

    /// Sends reviews of this subresource, such as `status`.
    #[must_use]
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.subresource = name.into();
        self
    }

    /// Gives the hook a client, as [`WebhookServerBuilder::client`](crate::WebhookServerBuilder::client) does.
    #[must_use]
    pub fn client(mut self, client: &Client) -> Self {
        self.settings.client = Some(client.clone());
        self
    }

    /// Sends reviews of dry runs.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Reviews the creation of an object.
    ///
    /// # Errors
    /// See [`HookTestError`].
    pub async fn create(&self, object: &impl Serialize) -> Result<HookAnswer, HookTestError> {
        self.review(&Operation::Create, to_value(object)?, Value::Null).await
    }

    /// Reviews an update of an object.
    ///
    /// # Errors
    /// See [`HookTestError`].
    pub async fn update(&self, old: &impl Serialize, new: &impl Serialize) -> Result<HookAnswer, HookTestError> {
        self.review(&Operation::Update, to_value(new)?, to_value(old)?).await
    }

    /// Reviews the deletion of an object, as one of a collection: the review has no name.
    ///
    /// # Errors
    /// See [`HookTestError`].
    pub async fn delete(&self, old: &impl Serialize) -> Result<HookAnswer, HookTestError> {
        self.review(&Operation::Delete, Value::Null, to_value(old)?).await
    }

    async fn review(&self, operation: &Operation, object: Value, old: Value) -> Result<HookAnswer, HookTestError> {
        let answer = self.review_once(operation, object, old.clone()).await?;
        if self.hook().handler.kind() == HookKind::Mutating && answer.patch.is_some() {
            let again = self.review_once(operation, answer.object.clone(), old).await?;
            if let Some(patch) = again.patch {
                return Err(HookTestError::NotIdempotent { patch });
            }
        }
        Ok(answer)
    }

    fn hook(&self) -> &ErasedHook {
        self.route.hook()
    }

    async fn review_once(&self, operation: &Operation, object: Value, old: Value) -> Result<HookAnswer, HookTestError> {
        let settings = &self.hook().settings;
        let stored = if object.is_null() { &old } else { &object };
        let metadata = |field: &str| stored["metadata"][field].as_str().unwrap_or_default().to_owned();
        let name = if *operation == Operation::Delete { String::new() } else { metadata("name") };
        let (kind, resource) = (&settings.object, &settings.resource);
        let subresource = match &*self.subresource {
            "" if !settings.takes_main => settings.subresources.first().map_or("", String::as_str),
            subresource => subresource,
        };
        let review = json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": UID,
                "kind": {"group": kind.group(), "version": kind.version(), "kind": kind.kind()},
                "resource": {"group": resource.group(), "version": resource.version(), "resource": resource.plural()},
                "subResource": subresource,
                "name": name,
                "namespace": metadata("namespace"),
                "operation": operation.as_str(),
                "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
                "dryRun": self.is_dry_run,
                "object": object,
                "oldObject": old,
            },
        });
        let response = self.route.respond(Bytes::from(review.to_string()), None, &self.settings).await;
        let code = response.status().as_u16();
        let body = response.into_body();
        if code != 200 {
            return Err(HookTestError::Failed { code, message: String::from_utf8_lossy(&body).into_owned() });
        }
        check_answer(self.hook().handler.kind(), &body, object)
    }
}

fn to_value(object: &impl Serialize) -> Result<Value, HookTestError> {
    serde_json::to_value(object).map_err(|error| invalid(format!("cannot encode the object: {error}")))
}

fn invalid(problem: impl Into<String>) -> HookTestError {
    HookTestError::Invalid { problem: problem.into() }
}

/// Checks an answer as API servers do, and applies its patch to the object.
fn check_answer(kind: HookKind, body: &[u8], mut object: Value) -> Result<HookAnswer, HookTestError> {
    let answer: WireAnswer = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    let response = answer.response.ok_or_else(|| invalid("webhook response was absent"))?;
    if response.uid != UID {
        return Err(invalid(format!("expected response.uid={UID:?}, got {:?}", response.uid)));
    }
    if answer.kind != "AdmissionReview" || answer.api_version != "admission.k8s.io/v1" {
        let (version, kind) = (answer.api_version, answer.kind);
        return Err(invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        )));
    }
    let patch = match (&response.patch, response.patch_type.as_deref()) {
        (None, None) => None,
        (Some(_), None) => return Err(invalid("webhook returned response.patch but not response.patchType")),
        (None, Some(_)) => return Err(invalid("webhook returned response.patchType but not response.patch")),
        (Some(_), Some(_)) if kind == HookKind::Validating => {
            return Err(invalid("validating webhook may not return response.patch"));
        }
        (Some(patch), Some("JSONPatch")) => {
            Some(BASE64_STANDARD.decode(patch).map_err(|error| invalid(error.to_string()))?)
        }
        (Some(_), Some(other)) => {
            return Err(invalid(format!("webhook returned invalid response.patchType of {other:?}")));
        }
    };
    if let Some(patch) = &patch {
        if object.is_null() {
            return Err(invalid(
                "the webhook attempted to modify the object, which is not supported for this operation",
            ));
        }
        apply_patch(&mut object, patch).map_err(invalid)?;
    }
    let mut status: Status = response
        .status
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| invalid(error.to_string()))?
        .unwrap_or_default();
    if !response.allowed {
        status.code = status.code.max(400);
        status.status = "Failure".to_owned();
    }
    let patch = patch.map(|patch| serde_json::from_slice(&patch)).transpose();
    Ok(HookAnswer {
        allowed: response.allowed,
        status,
        warnings: response.warnings,
        annotations: response.audit_annotations,
        object,
        patch: patch.map_err(|error| invalid(error.to_string()))?,
    })
}

/// Applies the operations that this crate writes: add, remove and replace.
pub(crate) fn apply_patch(object: &mut Value, patch: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct PatchOperation {
        op: String,
        path: String,
        #[serde(default)]
        value: Value,
    }
    let operations: Vec<PatchOperation> = serde_json::from_slice(patch).map_err(|error| error.to_string())?;
    for PatchOperation { op, path, value } in operations {
        let fault = || format!("cannot {op} at {path:?}");
        let Some((parent, key)) = path.rsplit_once('/') else {
            *object = value;
            continue;
        };
        let key = key.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent).ok_or_else(fault)?, &*op) {
            (Value::Object(members), "add") => drop(members.insert(key, value)),
            (Value::Object(members), "replace") => *members.get_mut(&key).ok_or_else(fault)? = value,
            (Value::Object(members), "remove") => drop(members.remove(&key).ok_or_else(fault)?),
            (Value::Array(list), op) => {
                let index: usize = key.parse().map_err(|_| fault())?;
                match op {
                    "add" if index <= list.len() => list.insert(index, value),
                    "replace" if index < list.len() => list[index] = value,
                    "remove" if index < list.len() => drop(list.remove(index)),
                    _ => return Err(fault()),
                }
            }
            _ => return Err(fault()),
        }
    }
    Ok(())
}
