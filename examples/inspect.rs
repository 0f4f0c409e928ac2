//! The live page: a running controller, and a web page that shows its informers, queue and workers.
//!
//! `cargo run -p evenkeel-examples --example inspect -- --for 600` prints the address of the page and runs for ten minutes.
//! Without `--for` it ends after the first response of the page. It needs no cluster: the API server is embedded, and its
//! watches close every now and then.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::helpers::{create_or_update, set_controller_reference};
use evenkeel::inspect::Inspector;
use evenkeel::k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use evenkeel::prelude::*;
use evenkeel_examples::Outcome;
use serde_json::json;
use tokio::time::timeout;

const NAMES: [&str; 12] =
    ["api", "auth", "billing", "cart", "catalog", "images", "mail", "orders", "reports", "search", "shop", "web"];

/// Time limit for the page to show everything.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Outcome {
    let (duration, listen) = arguments()?;
    let server = ApiServer::start().await?;
    let client = server.client();
    let deployments = client.apps_v1().deployments("default");
    for name in NAMES {
        deployments.create(&deployment(name)?).await?;
    }

    let informers = InformerFactory::builder(&client).build();
    let (owners, sets) = (informers.of::<Deployment>(), informers.of::<ReplicaSet>());
    let queue = WorkQueue::rate_limited("deployments");
    owners.add_handler(enqueue_key(&queue))?;
    sets.add_handler(enqueue_owner::<Deployment>(&queue))?;

    // This is all the code that the page needs. It does not keep anything alive.
    let inspector = Inspector::new();
    inspector.informer(&owners);
    inspector.informer(&sets);
    inspector.queue("deployments", &queue);
    let page = inspector.serve(listen).await?;
    println!("open {}", page.url());

    let running = informers.start();
    informers.wait_for_sync().await?;
    for _ in 0..3 {
        tokio::spawn(work(client.clone(), queue.clone(), owners.lister()));
    }
    match duration {
        // Runs until its time is over, or until an error.
        Some(duration) => timeout(duration, live(&server, &client, &inspector)).await.unwrap_or(Ok(()))?,
        None => timeout(PATIENCE, check(&inspector, page.address())).await??,
    }
    queue.shut_down();
    running.drain().await;
    page.shutdown().await;
    Ok(())
}

/// Creates a replica set for every deployment. Now and then that fails.
async fn work(client: Client, queue: WorkQueue<ObjectKey>, owners: Lister<Deployment>) {
    while let Some(item) = queue.next().await {
        match reconcile(&client, item.key(), &owners).await {
            Ok(()) => item.forget(),
            Err(error) => item.retry(error),
        }
    }
}

async fn reconcile(client: &Client, key: &ObjectKey, owners: &Lister<Deployment>) -> Outcome {
    let sets = client.apps_v1().replica_sets(key.namespace().unwrap_or_default());
    let Some(owner) = owners.get(key) else {
        return match sets.delete(key.name()).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        };
    };
    tokio::time::sleep(Duration::from_millis(fastrand::u64(5..120))).await;
    if fastrand::u8(..) < 20 {
        return Err("the quota of the namespace is exhausted".into());
    }
    let replicas = owner.typed()?.spec.replicas;
    let mut set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": key.name(), "namespace": key.namespace()},
        "spec": {"selector": {"matchLabels": {"app": key.name()}}, "template": template(key.name())},
    }))?;
    set_controller_reference(&mut set, &owner)?;
    create_or_update(&sets, &set, |set| set.spec.replicas = replicas).await?;
    Ok(())
}

/// A steady rate of changes; connections are closed every now and then.
async fn live(server: &ApiServer, client: &Client, inspector: &Inspector) -> Outcome {
    let deployments = client.apps_v1().deployments("default");
    let mut is_there = [true; NAMES.len()];
    for turn in 1u64.. {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..700))).await;
        let place = fastrand::usize(..NAMES.len());
        let (name, is_there) = (NAMES[place], &mut is_there[place]);
        if turn % 40 == 0 {
            inspector.note("all connections to the API server are closed");
            server.faults().cut_connections();
        } else if !*is_there {
            inspector.note(format_args!("{name} is created"));
            deployments.create(&deployment(name)?).await?;
            *is_there = true;
        } else if turn % 7 == 0 {
            inspector.note(format_args!("{name} is deleted"));
            deployments.delete(name).await?;
            *is_there = false;
        } else {
            let replicas = fastrand::u8(1..9);
            deployments.patch(name, &Patch::merge(&json!({"spec": {"replicas": replicas}}))).await?;
        }
    }
    Ok(())
}

/// Waits until every deployment has been reconciled, then requests the page and its data.
async fn check(inspector: &Inspector, address: SocketAddr) -> Outcome {
    let is_done = || {
        let state = inspector.report(None);
        state["queues"][0]["counts"]["finished"].as_u64() >= Some(NAMES.len() as u64)
    };
    while !is_done() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for path in ["/", "/state"] {
        let answer = tokio::task::spawn_blocking(move || get(address, path)).await??;
        let code = answer.lines().next().unwrap_or_default().to_owned();
        println!("{path}: {code}, {} bytes", answer.len());
        if !code.contains("200") {
            return Err(format!("the page returned {code}").into());
        }
    }
    Ok(())
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn deployment(name: &str) -> Outcome<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    }))?)
}

fn template(name: &str) -> serde_json::Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": name, "image": "nginx"}]},
    })
}

/// Parses the duration and the address of the page.
fn arguments() -> Outcome<(Option<Duration>, String)> {
    let (mut duration, mut listen) = (None, "127.0.0.1:0".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--for" => {
                let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                duration = Some(seconds.ok_or_else(|| format!("--for needs a number of seconds, not {value:?}"))?);
            }
            "--listen" => listen = value,
            _ => return Err(format!("{name} is not known; there is --for SECONDS and --listen ADDRESS").into()),
        }
    }
    Ok((duration, listen))
}
