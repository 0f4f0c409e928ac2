//! Admission reviews on the wire. Sans-IO.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use evenkeel_core::Status;
use serde::{Deserialize, Serialize};

use super::request::{AdmissionRequest, WireRequest};
use super::verdict::Verdict;

const KIND: &str = "AdmissionReview";

/// The version of a review. The answer has that of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Why a body is no review that can be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("cannot decode the AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected AdmissionReview of admission.k8s.io/v1 or v1beta1, found {api_version:?} {kind:?}")]
    OtherKind { api_version: String, kind: String },
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireReview<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<WireRequest<'a>>,
}

/// Parses the question.
pub(crate) fn parse(body: &Bytes) -> Result<(ReviewVersion, AdmissionRequest), ReviewError> {
    let review: WireReview<'_> = serde_json::from_slice(body)?;
    let version = match (&*review.api_version, &*review.kind) {
        ("admission.k8s.io/v1" | "", KIND | "") => ReviewVersion::V1,
        ("admission.k8s.io/v1beta1", KIND | "") => ReviewVersion::V1Beta1,
        (api_version, kind) => {
            return Err(ReviewError::OtherKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
        }
    };
    let request = review.request.ok_or(ReviewError::NoRequest)?;
    Ok((version, AdmissionRequest::new(body, request)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer<'a> {
    kind: &'static str,
    api_version: &'static str,
    response: WireResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a> {
    uid: &'a str,
    allowed: bool,
    status: WireStatus<'a>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    patch: Option<WirePatch>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireStatus<'a> {
    Allowed { code: u16 },
    Refused(&'a Status),
}

/// A patch and its type, which come together.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePatch {
    patch_type: &'static str,
    patch: String,
}

/// Writes the answer to the review with this uid. `patch` is a JSON patch.
pub(crate) fn answer(
    version: ReviewVersion,
    uid: &str,
    verdict: &Verdict,
    patch: Option<&[u8]>,
) -> Result<Vec<u8>, serde_json::Error> {
    let status = match verdict.refusal() {
        None => WireStatus::Allowed { code: 200 },
        Some(status) => WireStatus::Refused(status),
    };
    let patch = patch.map(|patch| WirePatch { patch_type: "JSONPatch", patch: BASE64_STANDARD.encode(patch) });
    serde_json::to_vec(&WireAnswer {
        kind: KIND,
        api_version: version.api_version(),
        response: WireResponse {
            uid,
            allowed: verdict.is_allowed(),
            status,
            patch,
            warnings: verdict.warnings(),
            audit_annotations: verdict.annotations(),
        },
    })
}
