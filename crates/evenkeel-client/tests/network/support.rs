//! Servers, clients and objects for the tests.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ConnectionCounts};
use evenkeel_client::config::{Overrides, Pem, Proxy, ServerUrl};
use evenkeel_client::transport::{Body, BoxError, ResponseFuture, Transport};
use evenkeel_client::{Client, ClientBuilder, Config};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Version};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use tower_layer::Layer;
use tower_service::Service;

pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}, "data": {"k": "v"}}))
}

pub(crate) fn pod(name: &str) -> Pod {
    from(json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
}

/// Ends a test that hangs. No test depends on how long this is.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("this takes so long that it will never end")
}

/// The error and all its causes, as a program shows them.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Waits until this is so.
pub(crate) async fn reached(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until the server has closed all its connections.
pub(crate) async fn deserted(server: &ApiServer) {
    reached(|| server.connections().open == 0).await;
}

/// Returns the configuration of the server's administrator, without a proxy regardless of the environment.
pub(crate) fn config(server: &ApiServer) -> Config {
    let mut config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    config.proxy = Proxy::Direct;
    config
}

/// A configuration with the server's address and nothing more.
pub(crate) fn without_credentials(server: &ApiServer) -> Config {
    let mut config = at(server.url());
    config.tls.ca = server.ca_pem().map(|pem| Pem::Data(pem.to_owned()));
    config
}

/// The configuration for a server at this address.
pub(crate) fn at(url: &str) -> Config {
    let mut config = Config::new(ServerUrl::parse(url).unwrap());
    config.proxy = Proxy::Direct;
    config
}

pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(config(server)).unwrap()
}

/// Returns the number of connections opened since.
pub(crate) fn accepted_since(server: &ApiServer, before: ConnectionCounts) -> u64 {
    server.connections().accepted - before.accepted
}

/// A layer that records requests and responses.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<Attempt>>>);

/// One recorded attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    /// The version and the code of the response; `None` without one.
    pub(crate) answer: Option<(Version, u16)>,
    /// How its body is encoded.
    pub(crate) encoding: Option<String>,
    /// Whether request and response are protobuf.
    pub(crate) protobuf: [bool; 2],
}

impl Tap {
    /// Returns a client with this recording layer.
    pub(crate) fn client(&self, config: Config) -> Client {
        ClientBuilder::new(config).unwrap().layer(self.clone()).build().unwrap()
    }

    /// Returns the completed and failed attempts.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.0.lock().unwrap().clone()
    }
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/vnd.kubernetes.protobuf"))
}

impl Layer<Transport> for Tap {
    type Service = Tapped;

    fn layer(&self, inner: Transport) -> Tapped {
        Tapped { inner, tap: self.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Tapped {
    inner: Transport,
    tap: Tap,
}

impl Service<http::Request<Body>> for Tapped {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> ResponseFuture {
        let authorization = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        let mut attempt = Attempt {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            authorization,
            answer: None,
            encoding: None,
            protobuf: [is_protobuf(request.headers()), false],
        };
        let (tap, answer) = (self.tap.clone(), self.inner.call(request));
        Box::pin(async move {
            let outcome = answer.await;
            attempt.answer = outcome.as_ref().ok().map(|answer| (answer.version(), answer.status().as_u16()));
            let encoding = outcome.as_ref().ok().and_then(|answer| answer.headers().get(CONTENT_ENCODING));
            attempt.encoding = encoding.map(|value| value.to_str().unwrap().to_owned());
            attempt.protobuf[1] = outcome.as_ref().is_ok_and(|answer| is_protobuf(answer.headers()));
            tap.0.lock().unwrap().push(attempt);
            outcome
        })
    }
}
