//! [`WebhookClient`]: the `clientConfig` of a webhook, and the server that it stands for.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Uri;
use serde_json::Value;

use super::ApiEngine;
use crate::outbound::{CallAddress, CallEndpoint, CallError, HttpsEndpoint};
use crate::store::{At, Span};

const ENDPOINT_SLICES: &str = "endpointslices.discovery.k8s.io";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const DEFAULT_PORT: u16 = 443;

/// Where the Services of webhooks are reached, as the program has set it: by namespace, name and port.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceRoutes(Arc<RwLock<RouteMap>>);

type RouteMap = HashMap<(String, String, u16), SocketAddr>;

impl ServiceRoutes {
    pub(crate) fn set(&self, namespace: &str, name: &str, port: u16, address: SocketAddr) {
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        routes.insert((namespace.to_owned(), name.to_owned(), port), address);
    }

    fn get(&self, service: &ServiceReference) -> Option<SocketAddr> {
        let routes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        routes.get(&(service.namespace.clone(), service.name.clone(), service.port)).copied()
    }
}

/// The `clientConfig` of a webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookClient {
    receiver: WebhookReceiver,
    ca_bundle: Bytes,
}

#[derive(Clone, Debug)]
enum WebhookReceiver {
    Url(String),
    Service(ServiceReference),
}

#[derive(Clone, Debug)]
struct ServiceReference {
    namespace: String,
    name: String,
    port: u16,
    path: String,
}

impl WebhookClient {
    /// Reads a `clientConfig`.
    pub(crate) fn of(config: &Value) -> Self {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let receiver = match config.get("service").filter(|service| service.is_object()) {
            Some(service) => {
                let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
                WebhookReceiver::Service(ServiceReference {
                    namespace: text(service, "namespace"),
                    name: text(service, "name"),
                    port: port.unwrap_or(DEFAULT_PORT),
                    path: text(service, "path"),
                })
            }
            None => WebhookReceiver::Url(text(config, "url")),
        };
        // A bundle that is not base64 is refused when it is written.
        let ca_bundle = STANDARD.decode(text(config, "caBundle")).unwrap_or_default().into();
        WebhookClient { receiver, ca_bundle }
    }

    /// Returns the server to call now, with a timeout in its query.
    pub(crate) fn endpoint(&self, engine: &ApiEngine, timeout_seconds: u64) -> CallEndpoint {
        let query = format!("timeout={timeout_seconds}s");
        match &self.receiver {
            WebhookReceiver::Url(url) => self.url_endpoint(url, &query),
            WebhookReceiver::Service(service) => {
                let server_name = format!("{}.{}.svc", service.name, service.namespace);
                let authority = format!("{server_name}:{}", service.port);
                let path = format!("{}?{query}", clean_path(&service.path));
                let url = format!("https://{authority}{path}");
                match engine.service_address(service) {
                    Err(why) => CallEndpoint::Unreachable(CallError(format!("Post \"{url}\": {why}"))),
                    Ok(address) => CallEndpoint::Https(Arc::new(HttpsEndpoint {
                        url,
                        authority,
                        path,
                        server_name,
                        address: CallAddress::Socket(address),
                        ca_bundle: self.ca_bundle.clone(),
                    })),
                }
            }
        }
    }

    fn url_endpoint(&self, url: &str, query: &str) -> CallEndpoint {
        let parsed = url.parse::<Uri>().ok();
        let Some((uri, authority)) = parsed.as_ref().and_then(|uri| Some((uri, uri.authority()?))) else {
            return CallEndpoint::Unreachable(CallError(format!("Unparsable URL: {url:?}")));
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        let path = format!("{}?{query}", clean_path(uri.path()));
        let address = match host.parse::<IpAddr>() {
            Ok(ip) => CallAddress::Socket(SocketAddr::new(ip, port)),
            Err(_) => CallAddress::Host(host.clone(), port),
        };
        CallEndpoint::Https(Arc::new(HttpsEndpoint {
            url: format!("https://{authority}{path}"),
            authority: authority.to_string(),
            path,
            server_name: host,
            address,
            ca_bundle: self.ca_bundle.clone(),
        }))
    }
}

/// Returns a path as client-go's REST client sends it: from the root, without empty, `.` and `..` segments and without a
/// slash at the end. envtest writes URLs with two slashes, which Go's `http.ServeMux` redirects.
fn clean_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

impl ApiEngine {
    /// Returns the address of a Service: that of a route, else one of its ready endpoints (AWH-018).
    fn service_address(&self, service: &ServiceReference) -> Result<SocketAddr, String> {
        if let Some(address) = self.settings.service_routes.get(service) {
            return Ok(address);
        }
        let ServiceReference { namespace, name, port, .. } = service;
        let Some(record) = self.store.get("services", &format!("{namespace}/{name}")) else {
            return Err(format!("service {name:?} not found"));
        };
        let object = record.value();
        let ports = object.pointer("/spec/ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let Some(entry) = ports.iter().find(|entry| entry["port"].as_u64() == Some(u64::from(*port))) else {
            return Err(format!("no service port {port} found for service {name:?}"));
        };
        let port_name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let prefix = format!("{namespace}/");
        let span = Span { prefix: &prefix, ..Span::default() };
        let slices = self
            .store
            .list(ENDPOINT_SLICES, span, At::Latest, |_, slice| slice.facts.label(SERVICE_NAME) == Some(name.as_str()));
        let slices = slices.map(|page| page.records).unwrap_or_default();
        let found = slices.iter().find_map(|slice| ready_address(&slice.value(), port_name));
        found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

/// Returns the first ready address of an EndpointSlice, with its port of this name.
fn ready_address(slice: &Value, port_name: &str) -> Option<SocketAddr> {
    let list = |key: &str| slice.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_name = |port: &&Value| port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name;
    let port = list("ports").iter().find(of_name)?.get("port")?.as_u64()?;
    let port = u16::try_from(port).ok()?;
    let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready").and_then(Value::as_bool) != Some(false);
    list("endpoints").iter().filter(is_ready).find_map(|endpoint| {
        let addresses = endpoint.get("addresses")?.as_array()?;
        addresses.iter().find_map(|address| Some(SocketAddr::new(address.as_str()?.parse().ok()?, port)))
    })
}
