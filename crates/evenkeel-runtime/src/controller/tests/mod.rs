//! Controllers against an API server in this process, in virtual time.

mod crash_recovery;
mod deletions;
mod diagnostics;
mod inspector;
mod installation;
mod metrics;
mod namespaces;
mod own_writes;
mod reconcilers;
mod references;
mod results;
mod run_time_sources;
mod scaling;
mod sharded;
mod shared_informers;
mod shutdown;
mod sources;
mod spans;
mod startup;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Rule, WatchAction};
use evenkeel_client::Client;
use evenkeel_core::{Obj, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap()
}

/// Runs all tasks until they wait. (Virtual time passes only when all tasks wait.)
async fn settle() {
    pass(Duration::from_millis(1)).await;
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn value<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// An object of the kind that the controllers of these tests reconcile.
fn parent(name: &str) -> ConfigMap {
    value(json!({"metadata": {"namespace": "default", "name": name}}))
}

/// An object that a parent owns.
fn child(name: &str, parent: &Obj<ConfigMap>) -> Secret {
    value(json!({"metadata": {"namespace": "default", "name": name, "ownerReferences": [owner(parent)]}}))
}

fn owner(parent: &Obj<ConfigMap>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": parent.key().name(), "uid": parent.uid(), "controller": true
    })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

async fn create(client: &Client, name: &str) -> Obj<ConfigMap> {
    client.api::<ConfigMap>().namespace("default").create(&parent(name)).await.unwrap()
}

/// Updates a parent.
async fn touch(client: &Client, name: &str, text: impl ToString) -> Obj<ConfigMap> {
    let patch = evenkeel_client::Patch::merge(&json!({"data": {"touched": text.to_string()}}));
    client.api::<ConfigMap>().namespace("default").patch(name, &patch).await.unwrap()
}

/// A controller of parents. It has the name of its test, because names are unique in a process.
fn controller(client: &Client, name: &str) -> Controller<ConfigMap> {
    Controller::<ConfigMap>::new(client).namespace("default").named(name)
}

/// Starts a controller that records the name of each object.
fn recording<K: 'static>(built: Controller<K>, log: &Log) -> Running {
    let log = log.clone();
    start(built, move |object, _| {
        log.note(object.key());
        async { Ok(Next::done()) }
    })
}

/// A controller that runs in a task.
struct Running {
    shutdown: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ControllerError>>,
}

impl Running {
    async fn end(self) -> Result<(), ControllerError> {
        let _ = self.shutdown.send(());
        self.ended.await.unwrap()
    }
}

fn start<K, F, Fut>(controller: Controller<K>, reconcile: F) -> Running
where
    K: 'static,
    F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
{
    let (shutdown, requested) = oneshot::channel();
    Running { shutdown, ended: tokio::spawn(controller.run(requested, reconcile)) }
}

/// Starts a controller that has created a child for the parent `a`, and whose key is parked: for three more seconds, the cache does
/// not show the child.
async fn with_a_parked_key(server: &ApiServer, controller: Controller<ConfigMap>) -> Running {
    let running = start(controller, |object, ctx| async move {
        if ctx.lister::<Secret>()?.list_all().is_empty() {
            ctx.api::<Secret>().namespace("default").create(&child("c", &object)).await?;
        }
        Ok(Next::done())
    });
    settle().await;
    server.faults().add(Rule::watch(WatchAction::StallFor { event: 0, duration: secs(4) }).resource("secrets"));
    create(&server.client(), "a").await;
    settle().await;
    touch(&server.client(), "a", 1).await;
    pass(secs(1)).await;
    running
}

/// Events with their time since the log was created.
#[derive(Clone)]
struct Log {
    started: Instant,
    lines: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Log {
    fn new() -> Self {
        Log { started: Instant::now(), lines: Arc::default() }
    }

    /// Records an event, and returns how often it was recorded before.
    fn note(&self, what: impl ToString) -> usize {
        let what = what.to_string();
        let mut lines = self.lines.lock().unwrap();
        let before = lines.iter().filter(|(_, line)| *line == what).count();
        lines.push((self.started.elapsed(), what));
        before
    }

    fn take(&self) -> Vec<String> {
        self.lines.lock().unwrap().drain(..).map(|(_, line)| line).collect()
    }

    fn len(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// Returns the times between consecutive events.
    fn gaps(&self) -> Vec<Duration> {
        let lines = self.lines.lock().unwrap();
        lines.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }
}

/// Returns the number of children of each parent, from the server.
async fn children(client: &Client) -> BTreeMap<String, usize> {
    let listed = client.api::<Secret>().namespace("default").list(&Default::default()).await.unwrap();
    let mut counts = BTreeMap::new();
    for secret in listed {
        let owner = secret.controller().map(|owner| owner.name.to_owned()).unwrap_or_default();
        *counts.entry(owner).or_default() += 1;
    }
    counts
}
