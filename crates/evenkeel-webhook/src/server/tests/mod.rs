//! The server: without sockets where time matters, and over TLS.

#[cfg(feature = "certificates")]
mod api_server;
mod connections;
#[cfg(all(unix, feature = "certificates"))]
mod reload;
mod requests;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_runtime::tls::{CurrentPair, ServingPair};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::*;
use crate::Verdict;

const PATH: &str = "/validate--v1-configmap";

fn hook() -> Hook<crate::Validating<ConfigMap>> {
    Hook::validating::<ConfigMap>().on_create(|_, _| async { Ok(Verdict::allow().warn("seen")) })
}

fn review() -> String {
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}});
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "a-b-c",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "a",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {},
            "object": object,
            "oldObject": null,
        },
    })
    .to_string()
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path).header("content-type", "application/json").body(Full::new(body.into())).unwrap()
}

/// A certificate for `hooks.system.svc`, in a slot.
fn pair() -> (CurrentPair, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["hooks.system.svc".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = evenkeel_client::tls::default_provider().unwrap();
    let pair = ServingPair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), &provider).unwrap();
    (CurrentPair::new(pair), certificate.der().clone())
}

fn client_config(root: &CertificateDer<'static>) -> Arc<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(evenkeel_client::tls::default_provider().unwrap())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

async fn text_of<B: http_body::Body<Error: std::fmt::Debug>>(response: Response<B>) -> (u16, String) {
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn is_allowed(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|answer| answer["response"]["allowed"] == true)
}
