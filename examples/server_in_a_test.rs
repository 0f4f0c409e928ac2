//! A test with a real API server inside the process: make a fixture once, fork it per test, and let the network misbehave.
//!
//! `cargo run -p evenkeel-examples --example server_in_a_test`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, InProcess};
use evenkeel_core::{ListDecoder, ResourceInfo, WatchDecoder, WatchEvent};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tower_service::Service;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::main]
async fn main() -> Outcome {
    // The fixture is made once: milliseconds, no binaries, no ports.
    let fixture = ApiServer::builder().in_process_only().start().await?;
    for name in ["red", "green"] {
        create(&mut fixture.service(), name).await?;
    }

    // Every test gets a server of its own that begins with it.
    let server = fixture.fork().in_process_only().start().await?;
    // Every watch ends after two events, as if the server had been restarted.
    server.faults().drop_watch_after(2);

    let mut watch = Watch::start(&mut server.service()).await?;
    for name in ["blue", "yellow", "black"] {
        create(&mut server.service(), name).await?;
    }
    while watch.follow(&mut server.service(), 5).await? {
        println!("the watch was dropped with {} objects seen; on we go from {}", watch.seen.len(), watch.version);
    }
    println!("seen, each exactly once: {}", watch.seen.join(", "));
    assert_eq!(watch.seen, ["green", "red", "blue", "yellow", "black"]);
    assert_eq!(fixture.stats().objects + 3, server.stats().objects, "the fixture is as it was");
    Ok(())
}

async fn create(service: &mut InProcess, name: &str) -> Outcome {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let reply = send(service, Method::POST, CONFIG_MAPS, Some(object)).await?;
    if reply.status() != 201 {
        return Err(format!("{name} was not created: {}", reply.status()).into());
    }
    Ok(())
}

async fn send(
    service: &mut InProcess,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Outcome<http::Response<evenkeel_apiserver::Body>> {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    Ok(service.call(request.body(Full::new(Bytes::from(body)))?).await?)
}

/// Sees every object appear, however often the connection is lost.
struct Watch {
    version: String,
    seen: Vec<String>,
}

impl Watch {
    /// Lists what is there. From the list's version on, the watch tells the rest.
    async fn start(service: &mut InProcess) -> Outcome<Self> {
        let reply = send(service, Method::GET, CONFIG_MAPS, None).await?;
        let mut decoder = ListDecoder::<ConfigMap>::new(Arc::new(ResourceInfo::of::<ConfigMap>()));
        decoder.push(reply.into_body().collect().await?.to_bytes());
        let mut seen = Vec::new();
        while let Some(object) = decoder.next_item()? {
            seen.push(object.key().name().to_owned());
        }
        Ok(Watch { version: decoder.finish()?.resource_version.to_string(), seen })
    }

    /// Watches from where it left off until it has seen enough; answers whether the stream ended before that.
    async fn follow(&mut self, service: &mut InProcess, enough: usize) -> Outcome<bool> {
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", self.version);
        let mut body = send(service, Method::GET, &path, None).await?.into_body();
        let mut decoder = WatchDecoder::<ConfigMap>::new(Arc::new(ResourceInfo::of::<ConfigMap>()));
        while let Some(Ok(frame)) = body.frame().await {
            decoder.push(frame.into_data().unwrap_or_default());
            while let Some(event) = decoder.next_event()? {
                if let WatchEvent::Added(object) = event {
                    self.version = object.resource_version().to_owned();
                    self.seen.push(object.key().name().to_owned());
                }
                if self.seen.len() == enough {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
