//! Signing requests: content, names and progress.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rcgen::CertificateSigningRequestParams;
use serde_json::json;

use super::{agent, at};
use crate::certificates::error::CertificateError;
use crate::certificates::request::{RequestProgress, RequestSettings, SigningRequest, generate_key, progress};
use crate::certificates::template::{CertificateFacts, CertificateTemplate};
use crate::tls::tests::pki::Authority;

fn settings() -> RequestSettings {
    let usages = vec!["digital signature".into(), "client auth".into()];
    let lifetime = Some(Duration::from_secs(3600));
    RequestSettings { signer: "example.com/signer".into(), usages, lifetime }
}

fn pem(request: &SigningRequest) -> String {
    String::from_utf8(request.object.spec.request.0.clone()).unwrap()
}

#[test]
fn a_request_has_the_subject_and_the_names_of_its_template() {
    let mut template = agent();
    template.dns_names.push("agent.test".into());
    template.ip_addresses.push([10, 0, 0, 1].into());
    let request = SigningRequest::new(&template, &settings(), &generate_key().unwrap()).unwrap();
    let spec = &request.object.spec;
    assert_eq!((spec.signer_name.as_str(), spec.expiration_seconds), ("example.com/signer", Some(3600)));
    assert_eq!(spec.usages.as_deref(), Some(settings().usages.as_slice()));
    // A signer that copies everything issues a certificate that satisfies the template.
    let issued = Authority::new("ca").sign_request(&pem(&request), at(0), at(3600));
    assert!(template.is_satisfied_by(&CertificateFacts::parse(&issued).unwrap()));
    let other = CertificateTemplate { organization: Some("others".into()), ..template.clone() };
    assert!(!other.is_satisfied_by(&CertificateFacts::parse(&issued).unwrap()));
    let read = CertificateSigningRequestParams::from_pem(&pem(&request)).unwrap();
    assert_eq!(read.params.subject_alt_names.len(), 2);
}

#[test]
fn the_name_of_a_request_is_that_of_its_key_and_content() {
    let (key, other) = (generate_key().unwrap(), generate_key().unwrap());
    let name = |template: &CertificateTemplate, settings: &RequestSettings, key| {
        SigningRequest::new(template, settings, key).unwrap().name
    };
    let first = name(&agent(), &settings(), &key);
    assert!(first.starts_with("csr-") && first.len() == 44, "{first}");
    assert_eq!(first, name(&agent(), &settings(), &key), "although each signature is another");
    assert_ne!(first, name(&agent(), &settings(), &other));
    assert_ne!(first, name(&CertificateTemplate::new("agent"), &settings(), &key));
    assert_ne!(first, name(&agent(), &RequestSettings { lifetime: None, ..settings() }, &key));
}

#[test]
fn a_request_of_the_same_name_must_be_the_same() {
    let key = generate_key().unwrap();
    let request = SigningRequest::new(&agent(), &settings(), &key).unwrap();
    let again = SigningRequest::new(&agent(), &settings(), &key).unwrap();
    request.check(&again.object).unwrap();
    let other = SigningRequest::new(&agent(), &settings(), &generate_key().unwrap()).unwrap();
    let mut signer = again.object.clone();
    signer.spec.signer_name = "example.com/other".into();
    let mut garbage = again.object;
    garbage.spec.request = ByteString(b"garbage".to_vec());
    for (object, problem) in [(other.object, "another key"), (signer, "another signer"), (garbage, "cannot be read")] {
        let error = request.check(&object).unwrap_err();
        assert!(
            matches!(error, CertificateError::Incompatible { .. }) && error.to_string().contains(problem),
            "{error}"
        );
    }
}

#[test]
fn the_progress_of_a_request_is_read_from_its_status() {
    let object = |status: serde_json::Value| -> CertificateSigningRequest {
        let spec = json!({"request": "", "signerName": "s", "usages": []});
        serde_json::from_value(json!({"metadata": {"name": "r", "uid": "1"}, "spec": spec, "status": status})).unwrap()
    };
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "Why", "message": "because"});
    let of = |status| progress(Some(&object(status)), "1");
    let (reason, message) = ("Why".to_owned(), "because".to_owned());
    assert_eq!(of(json!({})), RequestProgress::Pending);
    assert_eq!(of(json!({"conditions": [condition("Approved")]})), RequestProgress::Pending, "not signed yet");
    assert_eq!(of(json!({"certificate": "aGk="})), RequestProgress::Pending, "not approved");
    let issued = json!({"conditions": [condition("Approved")], "certificate": "aGk="});
    assert_eq!(of(issued.clone()), RequestProgress::Issued("hi".into()));
    assert_eq!(
        of(json!({"conditions": [condition("Denied")]})),
        RequestProgress::Denied { reason: reason.clone(), message: message.clone() }
    );
    assert_eq!(
        of(json!({"conditions": [condition("Approved"), condition("Failed")]})),
        RequestProgress::Failed { reason, message }
    );
    assert_eq!(progress(None, "1"), RequestProgress::Deleted);
    assert_eq!(progress(Some(&object(issued)), "2"), RequestProgress::Deleted, "another one of the same name");
}

#[test]
fn a_broken_key_is_an_error_that_does_not_show_it() {
    let key = generate_key().unwrap();
    let body = key.expose().lines().nth(1).unwrap();
    let broken = key.expose().replace(body, &format!("{body}!"));
    let error = SigningRequest::new(&agent(), &settings(), &broken.into()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&body[..20]), "{error:?}");
}
