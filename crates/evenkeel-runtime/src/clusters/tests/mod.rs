//! Controllers of several API servers in this process, in virtual time.

mod engaging;
mod hard_cases;
mod leaving;
mod parking;
mod reports;
mod secrets;
mod turns;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_core::Obj;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;
use crate::controller::{Context, ControllerError, Next, ReconcileError};

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap()
}

/// Returns a server with this number of ConfigMaps.
async fn server_with(objects: usize) -> ApiServer {
    let server = server().await;
    for number in 0..objects {
        create(&server, &format!("map-{number}")).await;
    }
    server
}

async fn create(server: &ApiServer, name: &str) {
    let map = serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}})).unwrap();
    server.client().api::<ConfigMap>().namespace("default").create(&map).await.unwrap();
}

async fn delete(server: &ApiServer, name: &str) {
    server.client().api::<ConfigMap>().namespace("default").delete(name).await.unwrap();
}

/// Runs all tasks until they wait. (Virtual time passes only when all tasks wait.)
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A controller of ConfigMaps. It has the name of its test, because names are unique in a process.
fn controller(clusters: &Clusters, name: &str) -> MultiClusterController<ConfigMap> {
    MultiClusterController::<ConfigMap>::new(clusters).named(name)
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

fn start<F, Fut>(controller: MultiClusterController<ConfigMap>, reconcile: F) -> Running
where
    F: Fn(Obj<ConfigMap>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
{
    let (shutdown, requested) = oneshot::channel();
    Running { shutdown, ended: tokio::spawn(controller.run(requested, reconcile)) }
}

/// Starts a controller that records the cluster and the key of each reconcile.
fn start_recording(controller: MultiClusterController<ConfigMap>, log: &Log) -> Running {
    let log = log.clone();
    start(controller, move |_, ctx| {
        log.note(ctx.cluster_key());
        async { Ok(Next::done()) }
    })
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

    fn note(&self, what: impl ToString) {
        self.lines.lock().unwrap().push((self.started.elapsed(), what.to_string()));
    }

    fn take(&self) -> Vec<String> {
        self.lines.lock().unwrap().drain(..).map(|(_, line)| line).collect()
    }

    fn take_sorted(&self) -> Vec<String> {
        let mut lines = self.take();
        lines.sort();
        lines
    }

    fn take_timed(&self) -> Vec<(Duration, String)> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}
