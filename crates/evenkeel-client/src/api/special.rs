//! What else only some kinds can do.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube_core::Resource;

use super::call::{Call, verb};
use super::scope::{All, Cluster, Namespaced};
use super::{Api, Object, Subresource};
use crate::wire::Wire;

impl Api<ServiceAccount, Namespaced> {
    /// Asks for a token of a service account. The answer carries it in its status.
    pub fn create_token(&self, name: &str, request: &TokenRequest) -> Call<TokenRequest, verb::Write> {
        self.subresource::<TokenRequest>("token").post(name, request)
    }
}

impl Api<CertificateSigningRequest, Cluster> {
    /// Whether certificates are granted.
    pub fn approval(&self) -> Subresource<CertificateSigningRequest, Cluster> {
        self.subresource("approval")
    }
}

impl Api<Namespace, Cluster> {
    /// What still has to happen before a namespace is gone.
    pub fn finalize(&self) -> Subresource<Namespace, Cluster> {
        self.wire(Wire::Json).subresource("finalize")
    }
}

impl<K: Resource> Api<K, All>
where
    K: Object,
{
    /// Only those in the namespace that this object says it is in, or in the client's default namespace if it says none:
    /// for those who write objects of many namespaces, such as events.
    pub fn namespace_of(&self, object: &K) -> Api<K> {
        match Object::namespace(object) {
            Some(namespace) => self.namespace(&namespace),
            None => self.default_namespace(),
        }
    }
}
