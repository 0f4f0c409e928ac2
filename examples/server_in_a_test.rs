//! A test with a real API server inside the process: make a fixture once, fork it per test, and let the network misbehave.
//!
//! `cargo run -p evenkeel-examples --example server_in_a_test`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use evenkeel_apiserver::ApiServer;
use evenkeel_client::{Client, ListParams, RetryWatcher, WatchParams};
use evenkeel_core::WatchEvent;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    // The fixture is made once: milliseconds, no binaries, no ports.
    let fixture = ApiServer::builder().in_process_only().start().await?;
    for name in ["red", "green"] {
        create(&fixture.client(), name).await?;
    }

    // Every test gets a server of its own that begins with it.
    let server = fixture.fork().in_process_only().start().await?;
    // Every watch ends after two events, as if the server had been restarted.
    server.faults().drop_watch_after(2);

    let client = server.client();
    let objects = client.api::<ConfigMap>().namespace("default");
    let list = objects.list(&ListParams::default()).await?;
    let mut seen: Vec<String> = list.iter().map(|object| object.key().name().to_owned()).collect();
    for name in ["blue", "yellow", "black"] {
        create(&client, name).await?;
    }

    // The plain watch breaks, and says how.
    let mut watch = objects.watch(&WatchParams::from_version(list.meta.resource_version.as_str())).await?;
    let mut events = 0;
    while watch.next().await.transpose()?.is_some() {
        events += 1;
    }
    println!("a watch was dropped after {events} events: {:?}", watch.end());

    // One that goes on by itself sees everything, each exactly once.
    let mut watch = RetryWatcher::new(&list.meta.resource_version, move |version: evenkeel_core::ResourceVersion| {
        let objects = objects.clone();
        async move { objects.watch(&WatchParams::from_version(version.as_str())).await }
    })?;
    while seen.len() < 5
        && let Some(event) = watch.next().await
    {
        if let WatchEvent::Added(object) = event {
            seen.push(object.key().name().to_owned());
        }
    }
    println!("seen, each exactly once: {}", seen.join(", "));
    assert_eq!(seen, ["green", "red", "blue", "yellow", "black"]);
    assert_eq!(fixture.stats().objects + 3, server.stats().objects, "the fixture is as it was");
    Ok(())
}

async fn create(client: &Client, name: &str) -> Outcome {
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    client.core_v1().config_maps("default").create(&object).await?;
    Ok(())
}
