//! The reflector, the client and the embedded server, in one process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule, ServerVersion, WatchAction};
use evenkeel_client::{Api, ListParams, Patch};
use evenkeel_core::{Reason, Status};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::reflector::testing::Notes;
use crate::reflector::{Reflector, ReflectorBuilder, ReflectorStatus};
use crate::source::ApiSource;

struct World {
    server: ApiServer,
    maps: Api<ConfigMap>,
    store: Notes,
    status: ReflectorStatus,
    errors: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn create(maps: &Api<ConfigMap>, name: &str) {
    let map = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    maps.create(&serde_json::from_value(map).unwrap()).await.unwrap();
}

impl World {
    /// A server with two objects, and a reflector of them.
    async fn with(version: ServerVersion, how: impl FnOnce(ReflectorBuilder) -> ReflectorBuilder) -> Self {
        let server = ApiServer::builder().in_process_only().version(version).start().await.unwrap();
        let maps = server.client().api::<ConfigMap>().namespace("default");
        create(&maps, "a").await;
        create(&maps, "b").await;
        let source = ApiSource::new(maps.clone());
        let resource = Arc::clone(source.resource());
        let errors: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&errors);
        let builder = Reflector::builder(Arc::new(source), resource)
            .on_error(move |failure| heard.lock().unwrap().push(failure.error.to_string()));
        let mut reflector = how(builder).build();
        let status = reflector.status();
        let store = Notes::default();
        let mut target = store.clone();
        let task = tokio::spawn(async move {
            reflector.run(&mut target).await;
        });
        World { server, maps, store, status, errors, task }
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns names and versions of the stored objects.
    fn stored(&self) -> Vec<String> {
        self.store.stored()
    }

    /// Returns names and versions of the server's objects.
    async fn truth(&self) -> Vec<String> {
        let list = self.maps.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> =
            list.iter().map(|map| format!("{}@{}", map.key().name(), map.resource_version())).collect();
        names.sort();
        names
    }

    async fn change(&self) {
        self.maps.patch("a", &Patch::merge(&json!({"data": {"k": "w"}}))).await.unwrap();
        self.maps.delete("b").await.unwrap();
        create(&self.maps, "c").await;
    }

    async fn is_true(&self) {
        self.pass(60).await;
        assert_eq!(self.stored(), self.truth().await);
    }

    fn requests(&self, part: &str) -> usize {
        self.server.requests().iter().filter(|request| request.path.contains(part)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_follows_the_server_by_watch_list() {
    let world = World::with(ServerVersion::V1_37, |builder| builder.check_consistency(true)).await;
    world.is_true().await;
    assert_eq!(world.requests("sendInitialEvents"), 1);
    assert_eq!(world.requests("resourceVersionMatch=Exact"), 1);
    world.change().await;
    world.is_true().await;
    assert_eq!(world.stored().len(), 2);
    assert_eq!(world.requests("watch=true"), 1, "all of it was one stream");
    assert!(world.errors.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_store_follows_the_server_by_list_and_watch() {
    let world = World::with(ServerVersion::V1_37, |builder| builder.watch_list(false).page_size(1)).await;
    world.is_true().await;
    world.change().await;
    world.is_true().await;
    assert_eq!((world.requests("sendInitialEvents"), world.status.report().lists), (0, 1));
    assert!(world.errors.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_watch_list_is_listed() {
    let world = World::with(ServerVersion::V1_33, |builder| builder).await;
    world.is_true().await;
    assert!(world.status.report().is_watch_list_unavailable);
    world.change().await;
    world.is_true().await;
    assert_eq!(world.errors.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_relisted() {
    let world = World::with(ServerVersion::V1_37, |builder| builder.watch_list(false)).await;
    world.is_true().await;
    let cut = world.server.faults().add(Rule::new(Action::Drop).watches(true));
    world.server.faults().reset_history();
    world.change().await;
    world.server.faults().compact_now();
    world.server.faults().remove(cut);
    world.is_true().await;
    assert!(world.status.report().lists > 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_broken_within_an_event_loses_no_event() {
    for action in [WatchAction::CloseMidFrame { event: 1, byte: 20 }, WatchAction::TruncateFrame { event: 1, byte: 20 }]
    {
        let world = World::with(ServerVersion::V1_37, |builder| builder.watch_list(false)).await;
        world.is_true().await;
        world.server.faults().add(Rule::watch(action).times(1));
        world.change().await;
        world.is_true().await;
        assert_eq!(world.status.report().lists, 1, "it went on from where it was");
    }
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_frame_causes_a_relist() {
    let world = World::with(ServerVersion::V1_37, |builder| builder).await;
    world.is_true().await;
    world.server.faults().add(Rule::watch(WatchAction::CorruptFrame { event: 0, byte: 30 }).times(1));
    world.change().await;
    world.is_true().await;
    assert_eq!(world.status.report().decode_failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_receives_no_list_request() {
    let world = World::with(ServerVersion::V1_37, |builder| builder.watch_list(false)).await;
    world.is_true().await;
    let faults = world.server.faults();
    let busy = Status::failure(429, Reason::TOO_MANY_REQUESTS, "busy");
    let refused = faults.add(Rule::new(Action::Status(Box::new(busy))).watches(true));
    faults.add(Rule::watch(WatchAction::CloseAfterEvents(1)).times(1));
    world.change().await;
    world.pass(10).await;
    assert_ne!(world.stored(), world.truth().await, "it cannot know");
    faults.remove(refused);
    world.is_true().await;
    assert_eq!(world.status.report().lists, 1);
    assert!(!world.errors.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn metadata_is_mirrored_too() {
    let world = World::with(ServerVersion::V1_37, |builder| builder).await;
    let source = ApiSource::new(world.maps.metadata());
    let resource = Arc::clone(source.resource());
    let mut reflector = Reflector::builder(Arc::new(source), resource).build();
    let store = Notes::default();
    let mut target = store.clone();
    let _ = tokio::time::timeout(Duration::from_secs(5), reflector.run(&mut target)).await;
    assert_eq!(store.stored(), world.truth().await);
    assert!(store.objects.lock().unwrap()[0].path("data").unwrap().is_none());
}
