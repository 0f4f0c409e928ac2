//! Which writes a client reports to its observers, against an API server in this process.

use std::sync::{Arc, Mutex};

use evenkeel_apiserver::ApiServer;
use evenkeel_client::api::Deleted;
use evenkeel_client::discovery::RestMapper;
use evenkeel_client::{Client, ListParams, ObservedWrite, Patch, Path, WriteResult, create_or_patch, create_or_update};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Node, Pod};
use serde_json::{Value, json};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}, "data": {"k": "v"}}))
}

/// Records writes as `verb resource[/subresource] key result`.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(String, String)>>>);

impl Recorder {
    fn observe(&self, client: &Client) -> Client {
        let writes = Arc::clone(&self.0);
        client.with_write_observer(move |write: &ObservedWrite<'_>| {
            let part = write.subresource.map(|part| format!("/{part}")).unwrap_or_default();
            let key = write.key.map_or("-", |key| key.as_str());
            let result = match write.result {
                WriteResult::Stored(_) if write.is_terminating() => "terminating",
                WriteResult::Stored(_) => "stored",
                WriteResult::Removed { .. } => "removed",
                WriteResult::Accepted => "accepted",
                _ => "unknown",
            };
            let text = format!("{:?} {}{part} {key} {result}", write.verb, write.resource.plural());
            writes.lock().unwrap().push((text, write.resource_version().to_owned()));
        })
    }

    fn take(&self) -> Vec<String> {
        self.take_versions().into_iter().map(|(write, _)| write).collect()
    }

    fn take_versions(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

async fn start() -> (ApiServer, Client, Recorder) {
    let server = ApiServer::start().await.unwrap();
    let recorder = Recorder::default();
    let client = recorder.observe(&server.client());
    (server, client, recorder)
}

#[tokio::test(start_paused = true)]
async fn every_verb_is_reported_with_the_version_that_it_made() {
    let (_server, client, recorder) = start().await;
    let maps = client.core_v1().config_maps("default");
    let created = maps.create(&config_map("a")).await.unwrap();
    let updated = maps.update(&config_map("a")).await.unwrap();
    let patched = maps.patch("a", &Patch::merge(&json!({"data": {"l": "x"}}))).await.unwrap();
    let fields: ConfigMap = from(json!({"metadata": {"name": "a"}, "data": {"m": "y"}}));
    let applied = maps.apply("a", "me", &fields).await.unwrap();
    let version = |name: &str, object: &evenkeel_core::Obj<ConfigMap>| {
        (format!("{name} configmaps default/a stored"), object.resource_version().to_owned())
    };
    assert_eq!(
        recorder.take_versions(),
        [
            version("Create", &created),
            version("Update", &updated),
            version("Patch", &patched),
            version("Apply", &applied)
        ]
    );
    maps.get("a").await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    assert!(recorder.take().is_empty(), "reads are no writes");
}

#[tokio::test(start_paused = true)]
async fn a_delete_reports_whether_the_object_still_exists() {
    let (_server, client, recorder) = start().await;
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).await.unwrap();
    let held: ConfigMap = from(json!({"metadata": {"name": "held", "finalizers": ["example.com/mine"]}}));
    maps.create(&held).await.unwrap();
    recorder.take();
    assert!(matches!(maps.delete("a").await.unwrap(), Deleted::Gone(_)));
    assert!(matches!(maps.delete("held").await.unwrap(), Deleted::Terminating(_)));
    maps.patch("held", &Patch::merge(&json!({"metadata": {"finalizers": null}}))).await.unwrap();
    assert_eq!(
        recorder.take(),
        [
            "Delete configmaps default/a removed",
            "Delete configmaps default/held terminating",
            "Patch configmaps default/held removed",
        ]
    );
    maps.delete("a").await.unwrap_err();
    assert!(recorder.take().is_empty(), "rejected writes are not reported");
    maps.create(&config_map("b")).await.unwrap();
    maps.create(&config_map("c")).await.unwrap();
    recorder.take();
    maps.delete_collection(&ListParams::default().fields("metadata.name!=kube-root-ca.crt")).await.unwrap();
    assert_eq!(
        recorder.take(),
        ["DeleteCollection configmaps default/b removed", "DeleteCollection configmaps default/c removed"]
    );
}

#[tokio::test(start_paused = true)]
async fn subresources_report_the_object_they_belong_to() {
    let (_server, client, recorder) = start().await;
    let web: Deployment = from(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        }
    }));
    let deployments = client.apps_v1().deployments("default");
    deployments.create(&web).await.unwrap();
    deployments.status().patch("web", &Patch::merge(&json!({"status": {"replicas": 1}}))).await.unwrap();
    let patch = Patch::merge(&json!({"spec": {"replicas": 4}}));
    let scaled = deployments.scale().patch("web", &patch).await.unwrap();
    assert_eq!(recorder.take_versions().pop().unwrap().1, scaled.resource_version());
    let mapper = RestMapper::new(client.discovery().cached());
    let scales = client.scales(&mapper).of("deploy").await.unwrap().namespace("default");
    scales.patch("web", &Patch::merge(&json!({"spec": {"replicas": 5}}))).await.unwrap();
    assert_eq!(recorder.take(), ["Patch deployments/scale default/web stored"]);

    let pods = client.core_v1().pods("default");
    let pod: Pod = from(json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pods.create(&pod).await.unwrap();
    let binding: Binding = from(json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}));
    pods.bind(&binding).await.unwrap();
    pods.evict("a").grace_period(0).await.unwrap();
    let token = from(json!({"spec": {"audiences": []}}));
    let accounts = client.core_v1().service_accounts("default");
    accounts.create(&from(json!({"metadata": {"name": "builder"}}))).await.unwrap();
    accounts.create_token("builder", &token).await.unwrap();
    let writes = recorder.take();
    assert_eq!(
        writes[..3],
        [
            "Create pods default/a stored",
            "Create pods/binding default/a accepted",
            "Create pods/eviction default/a accepted"
        ]
    );
    assert_eq!(writes[4], "Create serviceaccounts/token default/builder stored");
}

#[tokio::test(start_paused = true)]
async fn dynamic_metadata_and_raw_clients_report_as_typed_ones_do() {
    let (_server, client, recorder) = start().await;
    let info = client.resource::<ConfigMap>();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let created = client.dynamic(&info).namespace("default").create(&map.into()).await.unwrap();
    let key = created.key();
    let metadata = client.core_v1().config_maps("default").metadata();
    let label = Patch::merge(&json!({"metadata": {"labels": {"x": "y"}}}));
    metadata.patch(key.name(), &label).await.unwrap();
    let path = Path::resource(&info).namespace("default").name(key.name());
    client.request(Method::DELETE, path).send().await.unwrap();
    client.request(Method::DELETE, Path::raw("/api/v1/namespaces/default/configmaps/x")).send().await.unwrap_err();
    client.api::<Node>().create(&from(json!({"metadata": {"name": "n"}}))).await.unwrap();
    assert_eq!(
        recorder.take(),
        [
            format!("Create configmaps {key} stored"),
            format!("Patch configmaps {key} stored"),
            format!("Delete configmaps {key} removed"),
            "Create nodes n stored".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn helpers_report_what_they_write_and_nothing_else() {
    let (_server, client, recorder) = start().await;
    let maps = client.core_v1().config_maps("default");
    let set = |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert("k".into(), "w".into()));
    create_or_update(&maps, &config_map("a"), set).await.unwrap();
    create_or_update(&maps, &config_map("a"), set).await.unwrap();
    let other = |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert("k".into(), "x".into()));
    create_or_patch(&maps, &config_map("a"), other).await.unwrap();
    assert_eq!(recorder.take(), ["Create configmaps default/a stored", "Patch configmaps default/a stored"]);
}

#[tokio::test(start_paused = true)]
async fn dry_runs_are_not_reported() {
    let (_server, client, recorder) = start().await;
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).dry_run().await.unwrap();
    maps.create(&config_map("a")).await.unwrap();
    recorder.take();
    maps.update(&config_map("a")).dry_run().await.unwrap();
    maps.delete("a").dry_run().await.unwrap();
    maps.delete_collection(&ListParams::default()).dry_run().await.unwrap();
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn observers_compose_and_do_not_reach_the_client_they_were_added_to() {
    let (server, outer, outer_writes) = start().await;
    let inner_writes = Recorder::default();
    let inner = inner_writes.observe(&outer);
    inner.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    assert_eq!(inner_writes.take().len(), 1);
    assert_eq!(outer_writes.take().len(), 1);
    outer.core_v1().config_maps("default").delete("a").await.unwrap();
    assert_eq!(inner_writes.take().len(), 0);
    assert_eq!(outer_writes.take().len(), 1);
    server.client().core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    assert!(outer_writes.take().is_empty());
}
