//! The AdmissionReview that a webhook receives (AWH-004), and what its response means (AWH-006, AWH-010).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_core::{Reason, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::configuration::{ReviewVersion, Webhook, WebhookKind};

/// Returns the review with this request.
pub(super) fn envelope(version: ReviewVersion, request: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": api_version(version), "request": request})
}

fn api_version(version: ReviewVersion) -> &'static str {
    match version {
        ReviewVersion::V1 => "admission.k8s.io/v1",
        ReviewVersion::V1beta1 => "admission.k8s.io/v1beta1",
    }
}

/// What a webhook has decided.
#[derive(Debug)]
pub(super) struct ReviewResponse {
    /// The error of a denied request.
    pub(super) denied: Option<Status>,
    /// A JSON patch; empty if there is none.
    pub(super) patch: Vec<u8>,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct SentReview {
    kind: Option<String>,
    api_version: Option<String>,
    response: Option<SentResponse>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SentResponse {
    uid: Option<String>,
    allowed: bool,
    status: Option<SentStatus>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// A Status as webhooks write it: often without kind, and with null where a value is left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SentStatus {
    code: Option<i64>,
    message: Option<String>,
    reason: Option<String>,
    details: Option<Value>,
}

/// Reads the response of a webhook to the review with this uid. An error is why the response cannot be used.
pub(super) fn response(
    webhook: &Webhook,
    kind: WebhookKind,
    version: ReviewVersion,
    uid: &str,
    body: &[u8],
) -> Result<ReviewResponse, String> {
    let review: SentReview =
        serde_json::from_slice(body).map_err(|error| format!("failed to call webhook: {error}"))?;
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let Some(sent) = review.response else { return Err(invalid("webhook response was absent".to_owned())) };
    let mut patch_type = sent.patch_type.as_deref();
    let patch_text = sent.patch.as_deref().unwrap_or_default();
    if version == ReviewVersion::V1 {
        let got = sent.uid.as_deref().unwrap_or_default();
        if got != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {got:?}")));
        }
        let expected = (api_version(version), "AdmissionReview");
        let (got_version, got_kind) =
            (review.api_version.as_deref().unwrap_or_default(), review.kind.as_deref().unwrap_or_default());
        if (got_version, got_kind) != expected {
            return Err(invalid(format!(
                "expected webhook response of {}, Kind={}, got {}, Kind={got_kind}",
                expected.0,
                expected.1,
                group_version_text(got_version)
            )));
        }
        check_patch(kind, patch_text, patch_type).map_err(|why| invalid(why.to_owned()))?;
    } else {
        // The older version checks neither.
        patch_type = (!patch_text.is_empty()).then_some("JSONPatch");
    }
    let mut patch = Vec::new();
    if kind == WebhookKind::Mutating && !patch_text.is_empty() {
        patch =
            STANDARD.decode(patch_text).map_err(|error| format!("failed to call webhook: response.patch: {error}"))?;
        if patch_type != Some("JSONPatch") {
            return Err(format!("unsupported patch type {:?}", patch_type.unwrap_or_default()));
        }
    }
    let denied = (!sent.allowed).then(|| denial(&webhook.name, sent.status.unwrap_or_default()));
    Ok(ReviewResponse {
        denied,
        patch,
        warnings: sent.warnings.unwrap_or_default(),
        annotations: sent.audit_annotations.unwrap_or_default(),
    })
}

/// Returns a version as Go prints it: `/` stands between group and version, also if both are empty.
fn group_version_text(version: &str) -> String {
    match version.contains('/') {
        true => version.to_owned(),
        false => format!("/{version}"),
    }
}

fn check_patch(kind: WebhookKind, patch: &str, patch_type: Option<&str>) -> Result<(), &'static str> {
    match (kind, patch.is_empty(), patch_type) {
        (WebhookKind::Validating, false, _) => Err("validating webhook may not return response.patch"),
        (WebhookKind::Validating, true, Some(_)) => Err("validating webhook may not return response.patchType"),
        (WebhookKind::Mutating, false, None) => Err("webhook returned response.patch but not response.patchType"),
        (WebhookKind::Mutating, true, Some(_)) => Err("webhook returned response.patchType but not response.patch"),
        (WebhookKind::Mutating, false, Some("")) => Err("webhook returned invalid response.patchType of \"\""),
        _ => Ok(()),
    }
}

/// Returns the error of a denied request (AWH-006).
fn denial(name: &str, status: SentStatus) -> Status {
    let denied = format!("admission webhook {name:?} denied the request");
    let (message, reason) = (status.message.unwrap_or_default(), status.reason.unwrap_or_default());
    let text = match (message.is_empty(), reason.is_empty()) {
        (false, _) => format!("{denied}: {message}"),
        (true, false) => format!("{denied}: {reason}"),
        (true, true) => format!("{denied} without explanation"),
    };
    let code = status.code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let mut denial = Status::failure(code.unwrap_or(400), Reason::from(reason), text);
    denial.details = status.details.and_then(|details| serde_json::from_value(details).ok());
    denial
}

#[cfg(test)]
mod tests;
