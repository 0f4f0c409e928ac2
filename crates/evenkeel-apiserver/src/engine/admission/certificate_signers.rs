//! CertificateApproval, CertificateSigning and ClusterTrustBundleAttest: acting for a signer needs a permission of its own.

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite, Operation, text_at};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;
use crate::kinds::content_changes;

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
const BUNDLES: &str = "clustertrustbundles.certificates.k8s.io";

/// Requires `approve` on the signer of a request whose conditions of approval are written.
pub(super) struct CertificateApproval;

impl AdmissionPlugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.operation == Operation::Update && write.subresource() == "approval" && write.is_of(REQUESTS)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let (Some(new), Some(old)) = (object, write.old) else { return Ok(()) };
        // The old object decides: the new one must not choose its signer.
        let signer = text_at(old, &["spec", "signerName"]);
        if engine.is_authorized_for_signer(&write.request.user, "approve", signer) {
            return Ok(());
        }
        Err(write.forbidden(new, format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// Requires `sign` on the signer of a request whose certificate or conditions are written.
pub(super) struct CertificateSigning;

impl AdmissionPlugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.operation == Operation::Update && write.subresource() == "status" && write.is_of(REQUESTS)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let (Some(new), Some(old)) = (object, write.old) else { return Ok(()) };
        let is_same = |pointer| new.pointer(pointer) == old.pointer(pointer);
        let signer = text_at(old, &["spec", "signerName"]);
        if (is_same("/status/certificate") && is_same("/status/conditions"))
            || engine.is_authorized_for_signer(&write.request.user, "sign", signer)
        {
            return Ok(());
        }
        Err(write.forbidden(new, format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// Requires `attest` on the signer that a ClusterTrustBundle names.
pub(super) struct ClusterTrustBundleAttest;

impl AdmissionPlugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.has_object() && write.is_of(BUNDLES)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(new) = object else { return Ok(()) };
        let signer = text_at(new, &["spec", "signerName"]);
        // The garbage collector and storage migration write bundles whose content stays the same.
        let is_unchanged = write.old.is_some_and(|old| !content_changes(new, old, false) && same_labels(new, old));
        if signer.is_empty() || is_unchanged || engine.is_authorized_for_signer(&write.request.user, "attest", signer) {
            return Ok(());
        }
        Err(write.forbidden(new, format!("user not permitted to attest for signerName {signer:?}")))
    }
}

fn same_labels(new: &Value, old: &Value) -> bool {
    ["/metadata/labels", "/metadata/annotations"].iter().all(|pointer| new.pointer(pointer) == old.pointer(pointer))
}
