//! The signing request: its key, its object and its progress.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType};
use sha2::{Digest as _, Sha256};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::error::CertificateError;
use super::template::CertificateTemplate;
use crate::secret::Secret;

/// What is requested, besides the template.
#[derive(Clone, Debug)]
pub(super) struct RequestSettings {
    pub(super) signer: String,
    pub(super) usages: Vec<String>,
    pub(super) lifetime: Option<Duration>,
}

/// A request that can be sent.
#[derive(Debug)]
pub(super) struct SigningRequest {
    pub(super) name: String,
    pub(super) object: CertificateSigningRequest,
    public_key: Vec<u8>,
}

/// The state of a request on the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestProgress {
    Pending,
    /// The certificate in PEM.
    Issued(String),
    Denied {
        reason: String,
        message: String,
    },
    Failed {
        reason: String,
        message: String,
    },
    /// Deleted, or replaced by another one.
    Deleted,
}

/// Generates a private key, in PEM: P-256, as client-go.
pub(super) fn generate_key() -> Result<Secret, CertificateError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| failed("a private key", &error))?;
    Ok(Secret::new(key.serialize_pem()))
}

impl SigningRequest {
    /// Signs a request with this key. Its name is derived from the key and from what is requested: the same request is
    /// found again after a restart, and another one has another name.
    pub(super) fn new(
        template: &CertificateTemplate,
        settings: &RequestSettings,
        key: &Secret,
    ) -> Result<Self, CertificateError> {
        let request = |error: rcgen::Error| failed("a certificate signing request", &error);
        let key = KeyPair::from_pem(key.expose()).map_err(|error| failed("a request with the pending key", &error))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(organization) = &template.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, &template.common_name);
        for name in &template.dns_names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into().map_err(request)?));
        }
        params.subject_alt_names.extend(template.ip_addresses.iter().copied().map(SanType::IpAddress));
        let pem = params.serialize_request(&key).and_then(|request| request.pem()).map_err(request)?;

        let public_key = key.subject_public_key_info();
        let name = name(template, settings, &public_key);
        let spec = CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: settings.signer.clone(),
            usages: Some(settings.usages.clone()),
            expiration_seconds: settings.lifetime.map(|time| i32::try_from(time.as_secs()).unwrap_or(i32::MAX)),
            ..CertificateSigningRequestSpec::default()
        };
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let object = CertificateSigningRequest { metadata, spec, status: None };
        Ok(SigningRequest { name, object, public_key })
    }

    /// Checks that the request on the server is this one.
    pub(super) fn check(&self, found: &CertificateSigningRequest) -> Result<(), CertificateError> {
        let incompatible = |problem| CertificateError::Incompatible { name: self.name.clone(), problem };
        if found.spec.signer_name != self.object.spec.signer_name {
            return Err(incompatible("it is for another signer"));
        }
        let unreadable = || incompatible("its request cannot be read");
        let (_, pem) = x509_parser::pem::parse_x509_pem(&found.spec.request.0).map_err(|_| unreadable())?;
        let (_, request) = X509CertificationRequest::from_der(&pem.contents).map_err(|_| unreadable())?;
        if request.certification_request_info.subject_pki.raw == self.public_key {
            Ok(())
        } else {
            Err(incompatible("it has another key"))
        }
    }
}

/// Returns the name of a request. 160 bits of the digest are kept.
fn name(template: &CertificateTemplate, settings: &RequestSettings, public_key: &[u8]) -> String {
    // Destructured, so that a new field is not forgotten.
    let CertificateTemplate { common_name, organization, dns_names, ip_addresses } = template;
    let RequestSettings { signer, usages, lifetime } = settings;
    let requested =
        format!("{common_name:?} {organization:?} {dns_names:?} {ip_addresses:?} {signer:?} {usages:?} {lifetime:?}");
    let digest = Sha256::new().chain_update(public_key).chain_update(requested).finalize();
    let mut name = "csr-".to_owned();
    for byte in digest.iter().take(20) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

/// Returns the progress of the request with this uid.
pub(super) fn progress(object: Option<&CertificateSigningRequest>, uid: &str) -> RequestProgress {
    let Some(object) = object.filter(|object| object.metadata.uid.as_deref() == Some(uid)) else {
        return RequestProgress::Deleted;
    };
    let Some(status) = &object.status else { return RequestProgress::Pending };
    let condition = |name: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == name);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(denied) = condition("Denied") {
        return RequestProgress::Denied { reason: text(&denied.reason), message: text(&denied.message) };
    }
    if let Some(failed) = condition("Failed") {
        return RequestProgress::Failed { reason: text(&failed.reason), message: text(&failed.message) };
    }
    match &status.certificate {
        Some(ByteString(pem)) if !pem.is_empty() && condition("Approved").is_some() => {
            RequestProgress::Issued(String::from_utf8_lossy(pem).into_owned())
        }
        _ => RequestProgress::Pending,
    }
}

fn failed(what: &'static str, error: &rcgen::Error) -> CertificateError {
    // A PEM error may quote a line of the key.
    let problem = match error {
        rcgen::Error::PemError(_) => "the key is no PEM".to_owned(),
        other => other.to_string(),
    };
    CertificateError::Generate { what, problem }
}
