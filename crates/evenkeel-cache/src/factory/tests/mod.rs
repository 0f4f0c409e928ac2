//! Factories against the embedded server, in this process and in virtual time.

mod dynamic;
mod installed;
mod lifecycle;
mod namespaces;
mod narrowed;
mod options;
mod shards;
mod wire;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Client;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use crate::{Event, Handler, InformerFactory, Lister, ObjectKey};

/// A server with two ConfigMaps in `default` and one in `other`.
async fn server() -> (ApiServer, Client) {
    let server = ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap();
    let client = server.client();
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    client.api::<Namespace>().create(&other).await.unwrap();
    create(&client, "default", "a", "web").await;
    create(&client, "default", "b", "db").await;
    create(&client, "other", "c", "web").await;
    (server, client)
}

async fn create(client: &Client, namespace: &str, name: &str, app: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"app": app}}, "data": {"k": "v"}});
    let maps = client.api::<ConfigMap>().namespace(namespace);
    maps.create(&serde_json::from_value(map).unwrap()).await.unwrap();
}

async fn change(client: &Client, namespace: &str, name: &str, data: Value) {
    let patch = evenkeel_client::Patch::merge(&json!({ "data": data }));
    client.api::<ConfigMap>().namespace(namespace).patch(name, &patch).await.unwrap();
}

async fn delete(client: &Client, namespace: &str, name: &str) {
    client.api::<ConfigMap>().namespace(namespace).delete(name).await.unwrap();
}

fn factory(client: &Client) -> InformerFactory {
    InformerFactory::builder(client).build()
}

/// Runs all tasks until they wait. (Virtual time passes only then.)
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn keys<K>(lister: &Lister<K>) -> BTreeSet<String> {
    lister.list_all().iter().map(|object| object.key().to_string()).collect()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.map(String::from).into()
}

/// The paths, with queries, at which this resource was listed or watched.
fn asked(server: &ApiServer, resource: &str) -> Vec<String> {
    let is_about = |path: &String| path.split('?').next().is_some_and(|path| path.ends_with(resource));
    let reads = server.requests().into_iter().filter(|request| request.method.as_str() == "GET");
    reads.map(|request| request.path).filter(is_about).collect()
}

/// Records its notifications.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut *self.0.lock().unwrap());
        log.sort();
        log
    }
}

impl<K: 'static> Handler<K> for Recorder {
    fn handle(&mut self, event: Event<K>) {
        let word = match &event {
            Event::Add { .. } => "add",
            Event::Update { .. } => "update",
            Event::Delete(_) => "delete",
        };
        self.0.lock().unwrap().push(format!("{word} {}", event.key()));
    }
}
