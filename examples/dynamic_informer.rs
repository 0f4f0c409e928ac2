//! An informer of a kind that is not known at compile time: any custom resource, by the name that kubectl accepts.
//!
//! ```text
//! cargo run -p evenkeel-examples --example dynamic_informer
//! KUBECONFIG=~/.kube/config cargo run -p evenkeel-examples --example dynamic_informer -- deployments.apps spec.replicas
//! ```
//!
//! Without arguments it starts an API server with a CustomResourceDefinition and a few objects. With the name of a resource and
//! a path it reads from the cluster of `KUBECONFIG`, and never writes.
//!
//! In client-go: `dynamicinformer.NewDynamicSharedInformerFactory`, `restmapper` and `unstructured.Unstructured`. In kube-rs:
//! `watcher` over an `Api::<DynamicObject>`, with an `ApiResource` from `discovery`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process::ExitCode;

use evenkeel::apiserver::ApiServer;
use evenkeel::prelude::*;
use evenkeel::{RestMapper, RunningInformers, SharedInformer, Unstructured};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match (arguments.next(), arguments.next()) {
        (Some(resource), path) => show(&resource, path.as_deref().unwrap_or("metadata.namespace")).await,
        (None, _) => play().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors are sentences: which cluster cannot be reached and why, which resource is unknown.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the number of objects for each value of a field.
async fn show(resource: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let (running, cache) = informer(&Client::infer().await?, resource, path).await?;
    let mut values = cache.indexer().index_values("value");
    values.sort();
    for value in values {
        println!("  {path} {value}: {}", cache.indexer().index_keys("value", &value)?.len());
    }
    println!("{} in all", cache.indexer().len());
    running.drain().await;
    Ok(())
}

/// Does the same with a resource that was just defined, and changes an object.
async fn play() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    server.install_crds([definition()]).await?;
    let client = server.client();

    // `tab` is a short name of the definition; `crontabs`, `crontab.stable.example.com` or `CronTab` work too.
    let (running, cache) = informer(&client, "tab", "spec.image").await?;
    let tabs = client.dynamic(cache.resource()).namespace("default");
    tabs.create(&cron_tab("hourly", "backup:1")).await?;
    tabs.create(&cron_tab("nightly", "backup:1")).await?;
    let last = tabs.create(&cron_tab("weekly", "report:1")).await?;

    cache.indexer().at_least(&last.version()).await?;
    let users = users_of(&cache, "backup:1")?;
    println!("backup:1 is used by {users}");
    assert_eq!(users, "hourly, nightly");

    let patch = Patch::merge(&json!({"spec": {"image": "backup:2"}}));
    let patched = tabs.patch("nightly", &patch).await?;
    cache.indexer().at_least(&patched.version()).await?;
    let (old, new) = (users_of(&cache, "backup:1")?, users_of(&cache, "backup:2")?);
    println!("after an upgrade of one of them, backup:1 is used by {old}, and backup:2 by {new}");
    assert_eq!((old.as_str(), new.as_str()), ("hourly", "nightly"));

    // The whole object is available too, as JSON.
    let nightly = cache.lister().namespace("default")?.require("nightly")?.typed()?;
    let suspended = nightly.get("spec.suspend").and_then(Value::as_bool).ok_or("the schema has a default for it")?;
    println!("nightly does not set suspend, so the schema's default applies: {suspended}");
    assert!(!suspended);

    running.drain().await;
    Ok(())
}

/// Returns a synced informer of a resource, indexed by a field.
async fn informer(
    client: &Client,
    resource: &str,
    path: &str,
) -> Result<(RunningInformers, SharedInformer<Unstructured>), Box<dyn Error>> {
    // Discovery is cached, and refreshed when a name is unknown. The error for an unknown name contains it.
    let mapper = RestMapper::new(client.discovery().cached());
    let info = mapper.resolve(resource).await?;
    println!("{resource} is {}, {} of {}", info.plural(), info.kind(), info.api_version());

    let informers = InformerFactory::builder(client).build();
    let cache = informers.dynamic(&info);
    // Read from the bytes of each object, without decoding it.
    cache.add_indexes([Index::by_path("value", path)?])?;
    let running = informers.start();
    informers.wait_for_sync().await?;
    Ok((running, cache))
}

/// Returns the sorted names of objects that use an image.
fn users_of(tabs: &SharedInformer<Unstructured>, image: &str) -> Result<String, Box<dyn Error>> {
    let keys = tabs.indexer().index_keys("value", image)?;
    Ok(keys.iter().map(ObjectKey::name).collect::<Vec<_>>().join(", "))
}

fn cron_tab(name: &str, image: &str) -> Unstructured {
    Unstructured::from(json!({
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"schedule": "0 * * * *", "image": image}
    }))
}

/// Returns the definition. A file, YAML or a typed value work too.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["tab"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object",
                    "required": ["schedule", "image"],
                    "properties": {
                        "schedule": {"type": "string"},
                        "image": {"type": "string"},
                        "suspend": {"type": "boolean", "default": false}
                    }
                }}}}
            }]
        }
    })
}
