//! A server with no socket, and requests to it.

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, InProcess};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

/// Where definitions live.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Where the objects of [`foo_definition`] live.
pub(crate) const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

/// A buffered response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl TestResponse {
    /// Returns the body of a response that must have this code.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Returns the fields of an Invalid response.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let causes = self.body["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        causes.iter().filter_map(|cause| cause["field"].as_str()).collect()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
    }
}

/// A server and an in-process service of it.
pub(crate) struct Api {
    pub(crate) server: ApiServer,
    service: InProcess,
}

impl Api {
    pub(crate) async fn start() -> Self {
        Api::of(ApiServer::builder().in_process_only().start().await.unwrap())
    }

    pub(crate) fn of(server: ApiServer) -> Self {
        let service = server.service();
        Api { server, service }
    }

    /// Starts a server with the Foo definition.
    pub(crate) async fn with_foos() -> Self {
        let api = Api::start().await;
        api.post(DEFINITIONS, &foo_definition()).await.expect(201);
        api
    }

    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: String) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        self.service.clone().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    async fn whole(&self, method: &str, path: &str, media: &str, body: String) -> TestResponse {
        let (head, body) = self.send(method, path, media, body).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        TestResponse { code: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.whole("GET", path, "", String::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.whole("POST", path, "application/json", body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> TestResponse {
        self.whole("PATCH", path, "application/merge-patch+json", body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, body: &str) -> TestResponse {
        self.whole("PATCH", path, media, body.to_owned()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.whole("DELETE", path, "", String::new()).await
    }

    /// A condition of a definition.
    pub(crate) async fn condition(&self, definition: &str, kind: &str) -> Option<Value> {
        let definition = self.get(&format!("{DEFINITIONS}/{definition}")).await.expect(200);
        let conditions = definition["status"]["conditions"].as_array()?;
        conditions.iter().find(|condition| condition["type"] == kind).cloned()
    }

    /// Opens a watch and waits for its headers.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.send("GET", path, "", String::new()).await;
        assert_eq!(response.status(), 200);
        Watch(response.into_body())
    }
}

/// A watch; one event per frame.
pub(crate) struct Watch(Body);

impl Watch {
    /// The next event, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let frame = self.0.frame().await?.unwrap();
        Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
    }
}

/// A definition of one version, with a schema for `spec.replicas` and `spec.mode`.
pub(crate) fn foo_definition() -> Value {
    definition("foos", "Foo", json!([version("v1", true)]))
}

pub(crate) fn definition(plural: &str, kind: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    })
}

pub(crate) fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer", "minimum": 0},
                "mode": {"type": "string", "default": "calm", "enum": ["calm", "wild"]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        }}},
    })
}

pub(crate) fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}
