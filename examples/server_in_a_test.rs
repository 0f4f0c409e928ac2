//! A test with a real API server inside the process: make a fixture once, fork it for each test, and let the network misbehave.
//!
//! ```text
//! cargo run -p evenkeel-examples --example server_in_a_test
//! ```
//!
//! In client-go: `fake.NewClientset`, which is no server, or controller-runtime's `envtest`, which starts the binaries of one; the
//! watch that goes on is `watch.NewRetryWatcher`. In kube-rs: a mocked service, or a cluster.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use evenkeel::ResourceVersion;
use evenkeel::apiserver::ApiServer;
use evenkeel::client::RetryWatcher;
use evenkeel::core::WatchEvent;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use serde_json::json;
use tokio::time::timeout;

/// What has not come by then will not come. A test that waits for ever says nothing.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The fixture is made once: milliseconds, no binaries, no ports.
    let fixture = ApiServer::builder().in_process_only().start().await?;
    for name in ["red", "green"] {
        create(&fixture.client(), name).await?;
    }

    // Every test gets a server of its own that begins with it.
    let server = fixture.fork().in_process_only().start().await?;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let list = maps.list(&ListParams::default()).await?;
    let mut seen: Vec<String> = list.iter().map(|map| map.key().name().to_owned()).collect();
    println!("the fork begins with: {}", seen.join(", "));
    assert_eq!(seen, ["green", "red"]);

    // From here on every watch ends after two events, as if the server had been restarted.
    server.faults().drop_watch_after(2);
    for name in ["blue", "yellow", "black"] {
        create(&client, name).await?;
    }

    // A plain watch breaks, and says how.
    let version = &list.meta.resource_version;
    let mut watch = maps.watch(&WatchParams::from_version(version.as_str()).timeout(PATIENCE)).await?;
    let mut events = 0;
    while watch.next().await.transpose()?.is_some() {
        events += 1;
    }
    println!("a watch was dropped after {events} events: {:?}", watch.end());
    assert_eq!(events, 2);

    // One that goes on by itself sees everything, each exactly once.
    let mut watch = RetryWatcher::new(version, move |version: ResourceVersion| {
        let maps = maps.clone();
        async move { maps.watch(&WatchParams::from_version(version.as_str())).await }
    })?;
    while seen.len() < 5
        && let Some(event) = timeout(PATIENCE, watch.next()).await?
    {
        if let WatchEvent::Added(map) = event {
            seen.push(map.key().name().to_owned());
        }
    }
    println!("one that goes on saw, each exactly once: {}", seen.join(", "));
    assert_eq!(seen, ["green", "red", "blue", "yellow", "black"]);

    // What a test did to its server, it did to nobody else's.
    let (there, here) = (fixture.stats().objects, server.stats().objects);
    println!("the fixture is as it was; the fork has {} objects more", here - there);
    assert_eq!(there + 3, here);
    Ok(())
}

async fn create(client: &Client, name: &str) -> Result<(), Box<dyn Error>> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    client.core_v1().config_maps("default").create(&map).await?;
    Ok(())
}
