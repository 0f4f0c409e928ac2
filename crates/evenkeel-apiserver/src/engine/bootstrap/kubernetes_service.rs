//! The Service `default/kubernetes` and its endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::PoisonError;

use serde_json::{Value, json};

use super::ServerFacts;
use crate::engine::ApiEngine;
use crate::kinds::ServiceAllocations as _;

pub(super) const NAMESPACE: &str = "default";
pub(super) const NAME: &str = "kubernetes";
pub(super) const ADDRESS: &str = "10.0.0.1";
/// The port of kube-apiserver, for a server without a listener.
const USUAL_PORT: u16 = 6443;

/// The Service. It has no selector: the server writes its endpoints.
pub(super) fn service(facts: &ServerFacts) -> Value {
    let port = facts.address.map_or(USUAL_PORT, |address| address.port());
    json!({"apiVersion": "v1", "kind": "Service",
           "metadata": {"name": NAME, "namespace": NAMESPACE,
                        "labels": {"component": "apiserver", "provider": "kubernetes"}},
           "spec": {"type": "ClusterIP", "clusterIP": ADDRESS, "clusterIPs": [ADDRESS], "ipFamilies": ["IPv4"],
                    "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                    "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]}})
}

/// The Endpoints and the EndpointSlice. A server without a listener has none.
pub(super) fn endpoints(facts: &ServerFacts) -> impl Iterator<Item = Value> {
    facts.address.map(reachable).into_iter().flat_map(|address| {
        let (ip, port) = (address.ip().to_string(), address.port());
        let port = json!({"name": "https", "port": port, "protocol": "TCP"});
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        [
            json!({"apiVersion": "v1", "kind": "Endpoints",
                   "metadata": {"name": NAME, "namespace": NAMESPACE,
                                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
                   "subsets": [{"addresses": [{"ip": ip}], "ports": [port]}]}),
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                   "metadata": {"name": NAME, "namespace": NAMESPACE,
                                "labels": {"kubernetes.io/service-name": NAME}},
                   "addressType": family, "ports": [port],
                   "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}]}),
        ]
    })
}

/// Returns the address by which clients on this machine reach the listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

impl ApiEngine {
    /// Returns whether the Service may take its address: another one may have it in a store of an earlier server.
    pub(super) fn is_kubernetes_address_free(&self) -> bool {
        let mut addresses = self.service_addresses.lock().unwrap_or_else(PoisonError::into_inner);
        !addresses.of_others(&self.store, "services", "default/kubernetes", "").is_address_used(ADDRESS)
    }

    /// Writes how this process is reached into the endpoints of an earlier one.
    pub(super) fn update_endpoints(&self, facts: &ServerFacts) {
        for wanted in endpoints(facts) {
            let fields: &[&str] = match wanted["kind"].as_str() {
                Some("Endpoints") => &["subsets"],
                _ => &["addressType", "endpoints", "ports"],
            };
            self.update_bootstrap_object(&wanted, fields);
        }
    }
}
