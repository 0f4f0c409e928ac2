//! A fake server for the tests of this module.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use serde_json::{Value, json};
use tower_service::Service;

use super::wire::AGGREGATED;
use crate::client::{Client, ClientBuilder};
use crate::config::{Config, ServerUrl};
use crate::transport::Body;

/// Responds from a table of paths and records requests. Other paths are a 404.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<FakeState>>,
}

#[derive(Default)]
struct FakeState {
    responses: HashMap<String, Response>,
    requests: Vec<SeenRequest>,
}

#[derive(Clone)]
struct Response {
    code: u16,
    media_type: String,
    etag: Option<String>,
    body: Vec<u8>,
}

/// The recorded requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenRequest {
    pub(crate) target: String,
    pub(crate) accept: String,
    pub(crate) if_none_match: Option<String>,
    pub(crate) code: u16,
}

impl Fake {
    /// Sets the response of the path to this JSON.
    pub(crate) fn json(&self, path: &str, body: &Value) -> &Self {
        self.raw(path, 200, "application/json", body.to_string().into_bytes())
    }

    /// Sets the response of the path to this JSON, as aggregated discovery with an ETag.
    pub(crate) fn aggregated(&self, path: &str, items: &Value) -> &Self {
        let body = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items});
        self.raw(path, 200, AGGREGATED, body.to_string().into_bytes())
    }

    /// Sets the response of the path to this failure.
    pub(crate) fn fail(&self, path: &str, code: u16) -> &Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
        self.raw(path, code, "application/json", body.to_string().into_bytes())
    }

    pub(crate) fn raw(&self, path: &str, code: u16, media_type: &str, body: Vec<u8>) -> &Self {
        let canned = Response { code, media_type: media_type.to_owned(), etag: None, body };
        self.state.lock().unwrap().responses.insert(path.to_owned(), canned);
        self
    }

    /// Adds an ETag to the response of the path.
    pub(crate) fn tag(&self, path: &str, etag: &str) -> &Self {
        self.state.lock().unwrap().responses.get_mut(path).unwrap().etag = Some(etag.to_owned());
        self
    }

    pub(crate) fn client(&self) -> Client {
        Client::from_service(self.clone())
    }

    /// Returns a client of a server with this URL.
    pub(crate) fn client_at(&self, url: &str) -> Client {
        ClientBuilder::service(Config::new(ServerUrl::parse(url).unwrap()), self.clone()).build().unwrap()
    }

    /// Takes the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Takes the paths of the requests since the last call, sorted.
    pub(crate) fn asked_paths(&self) -> Vec<String> {
        let mut paths: Vec<_> = self.requests().into_iter().map(|requests| requests.target).collect();
        paths.sort();
        paths
    }
}

impl Service<http::Request<Body>> for Fake {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let header = |name| request.headers().get(name).map(|value: &http::HeaderValue| value.to_str().unwrap());
        let mut state = self.state.lock().unwrap();
        let missing = Response { code: 404, media_type: "text/plain".into(), etag: None, body: b"404".to_vec() };
        let canned = state.responses.get(request.uri().path()).cloned().unwrap_or(missing);
        let if_none_match = header(IF_NONE_MATCH).map(str::to_owned);
        let unchanged = canned.etag.is_some() && canned.etag == if_none_match;
        let code = if unchanged { 304 } else { canned.code };
        state.requests.push(SeenRequest {
            target: request.uri().path_and_query().unwrap().to_string(),
            accept: header(ACCEPT).unwrap_or_default().to_owned(),
            if_none_match,
            code,
        });
        let mut response = http::Response::builder().status(code);
        if let Some(etag) = &canned.etag {
            response = response.header(ETAG, etag);
        }
        let body = if unchanged { Body::empty() } else { Body::full(canned.body) };
        ready(Ok(response.header(CONTENT_TYPE, canned.media_type).body(body).unwrap()))
    }
}

/// A resource of an aggregated document.
pub(crate) fn resource(plural: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
        "singularResource": singular, "verbs": ["get", "list"]})
}

/// A group of an aggregated document: versions with their resources.
pub(crate) fn group(name: &str, versions: &[(&str, Vec<Value>)]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|(version, resources)| json!({"version": version, "resources": resources, "freshness": "Current"}))
        .collect();
    json!({"metadata": {"name": name}, "versions": versions})
}

/// A resource of a list in the legacy format.
pub(crate) fn legacy_resource(plural: &str, kind: &str) -> Value {
    json!({"name": plural, "singularName": kind.to_lowercase(), "namespaced": true, "kind": kind, "verbs": ["get"]})
}

/// A list of resources in the legacy format.
pub(crate) fn legacy_list(group_version: &str, resources: &[Value]) -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

/// The list of groups in the legacy format; the first version of each is preferred.
pub(crate) fn legacy_groups(groups: &[(&str, &[&str])]) -> Value {
    let group = |(name, versions): &(&str, &[&str])| {
        let versions: Vec<_> = versions
            .iter()
            .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
            .collect();
        json!({"name": name, "preferredVersion": versions[0], "versions": versions})
    };
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.iter().map(group).collect::<Vec<_>>()})
}
