//! Tests of the listener against a fake handler.

mod auth;
mod cross_site;
mod overload;
mod service;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};

use super::fake_handler::FakeHandler;
use super::service::InProcess;
use crate::http_types::{Body, ConnectionCut};
use crate::server::{ApiServer, Builder};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

/// Starts a server over a fake handler that the test can inspect.
async fn start(builder: Builder) -> (ApiServer, Arc<FakeHandler>) {
    let fake = Arc::new(FakeHandler::default());
    let server = builder.start_with(fake.clone(), fake.clone()).await.unwrap();
    (server, fake)
}

async fn in_process() -> ApiServer {
    start(ApiServer::builder().in_process_only()).await.0
}

fn request(method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    Request::builder().method(method).uri(path).body(body).unwrap()
}

async fn call(service: &InProcess, method: Method, path: &str, body: &str) -> Result<Response<Body>, ConnectionCut> {
    service.clone().serve(request(method, path, body)).await
}

async fn get(server: &ApiServer, path: &str) -> Result<Response<Body>, ConnectionCut> {
    call(&server.service(), Method::GET, path, "").await
}

async fn create(server: &ApiServer, name: &str) -> Result<Response<Body>, ConnectionCut> {
    let body = format!("{{\"metadata\":{{\"name\":\"{name}\"}}}}");
    call(&server.service(), Method::POST, CONFIG_MAPS, &body).await
}

async fn json(response: Response<Body>) -> serde_json::Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// Returns the next frame of a stream as text; `None` at its end.
async fn frame(body: &mut Body) -> Option<Result<String, ConnectionCut>> {
    let frame = body.frame().await?;
    Some(frame.map(|frame| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()))
}
