//! Just enough of a client: requests to the in-process service, JSON in and out.

use evenkeel_apiserver::{Body, InProcess};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// What went wrong with a request.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The ConfigMaps of the default namespace.
#[derive(Clone, Debug)]
pub(crate) struct ConfigMaps(InProcess);

impl ConfigMaps {
    pub(crate) fn new(service: InProcess) -> Self {
        ConfigMaps(service)
    }

    /// The resource version from which a watch sees everything that is yet to come.
    pub(crate) async fn revision(&self) -> Result<String, Error> {
        let list = self.answer(Method::GET, PATH, None).await?;
        let revision = list["metadata"]["resourceVersion"].as_str();
        Ok(revision.ok_or("the list has no resource version")?.to_owned())
    }

    pub(crate) async fn create(&self, name: &str, value: u32) -> Result<(), Error> {
        self.answer(Method::POST, PATH, Some(object(name, value))).await.map(drop)
    }

    pub(crate) async fn update(&self, name: &str, value: u32) -> Result<(), Error> {
        let path = format!("{PATH}/{name}");
        self.answer(Method::PUT, &path, Some(object(name, value))).await.map(drop)
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        self.answer(Method::DELETE, &format!("{PATH}/{name}"), None).await.map(drop)
    }

    pub(crate) async fn watch(&self, revision: &str) -> Result<Body, Error> {
        let path = format!("{PATH}?watch=true&resourceVersion={revision}");
        let response = self.send(Method::GET, &path, None).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the watch was refused with {}", response.status()).into());
        }
        Ok(response.into_body())
    }

    async fn answer(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Error> {
        let response = self.send(method.clone(), path, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        let value: Value = serde_json::from_slice(&bytes)?;
        if !status.is_success() {
            return Err(format!("{method} {path}: {status}: {}", value["message"]).into());
        }
        Ok(value)
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Response<Body>, Error> {
        let body = body.map(|value| value.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "evenkeel-demo")
            .body(Full::new(bytes::Bytes::from(body)))?;
        Ok(self.0.clone().call(request).await?)
    }
}

fn object(name: &str, value: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value.to_string()},
    })
}
