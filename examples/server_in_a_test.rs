//! A test with an embedded API server: create a fixture once, fork it for each test, and inject faults.
//!
//! ```text
//! cargo run -p evenkeel-examples --example server_in_a_test
//! ```
//!
//! In client-go: `fake.NewClientset`, which is not a server, or controller-runtime's `envtest`, which starts the binaries of
//! one; the resuming watch is `watch.NewRetryWatcher`. In kube-rs: a mocked service, or a cluster.

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

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The fixture is created once: milliseconds, no binaries, no ports.
    let fixture = ApiServer::builder().in_process_only().start().await?;
    for name in ["red", "green"] {
        create(&fixture.client(), name).await?;
    }

    // Every test forks a server of its own from it.
    let server = fixture.fork().in_process_only().start().await?;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let list = maps.list(&ListParams::default()).await?;
    let mut seen: Vec<String> = list.iter().map(|map| map.key().name().to_owned()).collect();
    println!("the fork starts with: {}", seen.join(", "));
    assert_eq!(seen, ["green", "red"]);

    // From here on every watch ends after two events, as if the server restarted.
    server.faults().drop_watch_after(2);
    for name in ["blue", "yellow", "black"] {
        create(&client, name).await?;
    }

    // A plain watch ends, and reports how.
    let version = &list.meta.resource_version;
    let mut watch = maps.watch(&WatchParams::from_version(version.as_str()).timeout(PATIENCE)).await?;
    let mut events = 0;
    while watch.next().await.transpose()?.is_some() {
        events += 1;
    }
    println!("a watch was dropped after {events} events: {:?}", watch.end());
    assert_eq!(events, 2);

    // A resuming watch receives every event exactly once.
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
    println!("a resuming watch received, each exactly once: {}", seen.join(", "));
    assert_eq!(seen, ["green", "red", "blue", "yellow", "black"]);

    // Forks are independent of each other and of the fixture.
    let (there, here) = (fixture.stats().objects, server.stats().objects);
    println!("the fixture is unchanged; the fork has {} objects more", here - there);
    assert_eq!(there + 3, here);
    Ok(())
}

async fn create(client: &Client, name: &str) -> Result<(), Box<dyn Error>> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    client.core_v1().config_maps("default").create(&map).await?;
    Ok(())
}
