//! The verbs of single kinds other than pods.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube_core::Resource;

use super::request::{ApiRequest, verb};
use super::scope::{All, Cluster, Namespaced};
use super::{Api, Object, Subresource};
use crate::wire::Wire;

impl Api<ServiceAccount, Namespaced> {
    /// Requests a token of a service account, which the response contains in its status.
    pub fn create_token(&self, name: &str, request: &TokenRequest) -> ApiRequest<TokenRequest, verb::Write> {
        self.subresource::<TokenRequest>("token").post(name, request)
    }
}

impl Api<CertificateSigningRequest, Cluster> {
    /// Returns the subresource that approves certificates.
    pub fn approval(&self) -> Subresource<CertificateSigningRequest, Cluster> {
        self.subresource("approval")
    }
}

impl Api<Namespace, Cluster> {
    /// Returns the subresource with the finalizers of a namespace.
    pub fn finalize(&self) -> Subresource<Namespace, Cluster> {
        self.wire(Wire::Json).subresource("finalize")
    }
}

impl<K: Resource> Api<K, All>
where
    K: Object,
{
    /// Narrows the API to the namespace of this object, or to the client's default namespace if it has none: for
    /// programs that write objects of many namespaces, such as events.
    pub fn namespace_of(&self, object: &K) -> Api<K> {
        match Object::namespace(object) {
            Some(namespace) => self.namespace(&namespace),
            None => self.default_namespace(),
        }
    }
}
