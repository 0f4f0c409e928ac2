//! Kinds that are installed, removed and installed again while controllers run.

use evenkeel_apiserver::Action;
use evenkeel_core::Status;
use evenkeel_core::status::Reason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::*;
use crate::Manager;
use crate::health::{Check, Health};

fn foos() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true))
}

fn definition(plural: &str, version: &str, scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope,
            "names": {"plural": plural, "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    })
}

async fn install(server: &ApiServer) {
    server.install_crds([definition("foos", "v1", "Namespaced")]).await.unwrap();
}

async fn uninstall(client: &Client) {
    client.api::<CustomResourceDefinition>().delete("foos.example.com").await.unwrap();
}

async fn create_foo(client: &Client, name: &str) {
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}});
    client.dynamic(&foos()).namespace("default").create(&foo.into()).await.unwrap();
}

/// A controller of foos that waits for them, and records what it reconciles.
fn waiting(client: &Client, name: &str, log: &Log) -> Controller<Unstructured> {
    let log = log.clone();
    Controller::dynamic(client, &foos()).named(name).when_installed().on_deleted(move |key, _| {
        log.note(format!("deleted {key}"));
        async { Ok(Next::done()) }
    })
}

/// Returns the statuses of the requests for foos.
fn requests_for_foos(server: &ApiServer) -> Vec<u16> {
    let records = server.requests();
    let foos = records.iter().filter(|request| request.path.split(['/', '?']).any(|part| part == "foos"));
    foos.map(|request| request.status.map_or(0, |status| status.as_u16())).collect()
}

#[tokio::test(start_paused = true)]
async fn ohc_018_dwc_003_a_definition_that_is_missing_for_ten_minutes() {
    let server = server().await;
    let (client, log, other) = (server.client(), Log::new(), Log::new());
    let waiting = waiting(&client, "ohc-018", &log);
    let (handle, health) = (waiting.handle(), Health::new());
    health.ready().add(Check::controller(&handle)).unwrap();
    let (logged, others) = (log.clone(), other.clone());
    let manager = Manager::new(&client)
        .controller(waiting, move |foo, _| {
            logged.note(foo.key());
            async { Ok(Next::done()) }
        })
        .controller(controller(&client, "ohc-018-other"), move |map, _| {
            others.note(map.key());
            async { Ok(Next::done()) }
        });
    let (shutdown, requested) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(requested));
    pass(secs(600)).await;
    create(&client, "a").await;
    settle().await;
    assert_eq!(other.take(), ["default/a"], "other controllers work");
    assert_eq!(requests_for_foos(&server), [0; 0], "no request for the kind");
    let definitions = server.requests().iter().filter(|one| one.path.contains("customresourcedefinitions")).count();
    assert!(definitions <= 3, "one watch, and what follows its timeouts: {definitions}");
    let failed = health.ready().run_all(&Default::default()).await.into_iter().find_map(|result| result.failure);
    assert_eq!(failed.as_deref(), Some("waiting for CustomResourceDefinition foos.example.com"));

    install(&server).await;
    create_foo(&client, "f").await;
    pass(secs(1)).await;
    assert_eq!(log.take(), ["default/f"]);
    assert!(handle.not_ready().is_empty());
    let _ = shutdown.send(());
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_003_a_controller_works_without_a_source_that_waits() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let source = Source::dynamic(&foos()).when_installed().mapped(|foo| [key(foo.key().name())]);
    let built = controller(&client, "dwc-003").source(source);
    let handle = built.handle();
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            let foos = ctx.lister_of::<Unstructured>(&foos());
            log.note(foos.map_or_else(|error| error.kind, |foos| foos.list_all().len().to_string()));
            async { Ok(Next::done()) }
        }
    });
    pass(secs(1)).await;
    assert_eq!(log.take(), ["Foo"], "the error names the kind");
    assert_eq!(handle.not_ready(), ["waiting for CustomResourceDefinition foos.example.com"]);
    install(&server).await;
    create_foo(&client, "a").await;
    pass(secs(1)).await;
    assert_eq!(log.take(), ["1"]);
    assert!(handle.not_ready().is_empty());
    running.end().await.unwrap();

    // A source whose kind is installed is waited for.
    let source = Source::dynamic(&foos()).when_installed();
    let running = start(controller(&client, "dwc-003-there").source(source), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.lister_of::<Unstructured>(&foos()).unwrap().list_all().len());
            async { Ok(Next::done()) }
        }
    });
    pass(secs(1)).await;
    assert_eq!(log.take(), ["1"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_003_a_source_that_is_added_at_run_time_waits_too() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let built = controller(&client, "dwc-003-late");
    let handle = built.handle();
    let running = recording(built, &log);
    settle().await;
    let watch = handle.watch(Source::dynamic(&foos()).when_installed()).unwrap();
    let synced = tokio::time::timeout(secs(3600), watch.synced()).await;
    assert!(synced.is_err(), "there is no limit");
    install(&server).await;
    watch.synced().await.unwrap();
    watch.remove();
    running.end().await.unwrap();

    let own = evenkeel_cache::SharedInformer::<Secret>::new(
        evenkeel_cache::source::ApiSource::new(client.api::<Secret>()),
        &client.resource::<Secret>(),
        evenkeel_cache::InformerOptions::new(),
    );
    let source = Source::informer(&own).when_installed();
    let error = controller(&client, "dwc-003-own").source(source).standby().unwrap_err().to_string();
    assert!(error.contains("`when_installed` needs an informer of the factory"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dwc_003_kinds_without_a_definition_begin_at_once() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = recording(controller(&client, "dwc-003-built-in").when_installed(), &log);
    pass(secs(1)).await;
    assert_eq!(log.take(), ["default/a"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_003_definitions_that_cannot_be_read_are_an_error_of_the_start() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let status = Status::failure(403, Reason::FORBIDDEN, "definitions are forbidden: no role");
    server.faults().add(Rule::new(Action::Status(Box::new(status))).resource("customresourcedefinitions"));
    let error = recording(waiting(&client, "dwc-003-403", &log), &log).ended.await.unwrap().unwrap_err().to_string();
    let start = "controller dwc-003-403: caches not synced within 120s: waiting for CustomResourceDefinition foos.example.com: ";
    assert!(error.starts_with(start) && error.contains("no role"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dwc_003_discovery_decides_when_a_kind_is_served() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let built = waiting(&client, "dwc-003-discovery", &log);
    let handle = built.handle();
    let running = recording(built, &log);
    pass(secs(1)).await;
    let status = Status::failure(503, Reason::SERVICE_UNAVAILABLE, "not yet");
    // Of the requests of clients, only those to discovery have this verb.
    let rule = Rule::new(Action::Status(Box::new(status))).verb("get").user_agent("evenkeel");
    let rule = server.faults().add(rule);
    install(&server).await;
    pass(secs(30)).await;
    let reasons = handle.not_ready();
    let reason = "waiting for CustomResourceDefinition foos.example.com: discovery failed: ";
    assert!(reasons.len() == 1 && reasons[0].starts_with(reason), "{reasons:?}");
    assert_eq!(requests_for_foos(&server), [0; 0]);
    assert!(server.faults().remove(rule));
    pass(secs(15)).await;
    assert!(handle.not_ready().is_empty());
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ohc_019_dwc_004_a_definition_that_returns_with_another_scope() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    install(&server).await;
    for name in ["f", "g"] {
        create_foo(&client, name).await;
    }
    let built = waiting(&client, "ohc-019", &log).owns::<Secret>();
    let handle = built.handle();
    let running = recording(built, &log);
    pass(secs(1)).await;
    assert_eq!(log.take(), ["default/f", "default/g"]);
    uninstall(&client).await;
    pass(secs(60)).await;
    let mut lines = log.take();
    lines.sort();
    assert_eq!(lines, ["deleted default/f", "deleted default/g"], "each is delivered once");
    assert_eq!(handle.not_ready(), ["waiting for CustomResourceDefinition foos.example.com"]);
    let not_found = |server: &ApiServer| requests_for_foos(server).into_iter().filter(|status| *status == 404).count();
    assert!(not_found(&server) <= 1, "{:?}", requests_for_foos(&server));
    let before = requests_for_foos(&server).len();
    pass(secs(600)).await;
    assert_eq!(requests_for_foos(&server).len(), before, "nothing is requested while it waits");

    server.install_crds([definition("foos", "v1", "Cluster")]).await.unwrap();
    let info = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", false));
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "h"}});
    let created = client.dynamic(&info).create(&foo.into()).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(log.take(), ["h"], "the key of a cluster-scoped object");
    // Owners are cluster-scoped now.
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Foo", "name": "h", "uid": created.uid(), "controller": true});
    let owned: Secret = value(json!({"metadata": {"name": "s", "ownerReferences": [owner]}}));
    client.api::<Secret>().namespace("default").create(&owned).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["h"]);
    assert!(not_found(&server) <= 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_004_plural_and_version_of_the_new_definition_are_used() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    install(&server).await;
    let running = recording(waiting(&client, "dwc-004", &log), &log);
    pass(secs(1)).await;
    uninstall(&client).await;
    pass(secs(1)).await;
    server.install_crds([definition("fooz", "v2", "Namespaced")]).await.unwrap();
    let info = Arc::new(ResourceInfo::new("example.com", "v2", "Foo", "fooz", true));
    let foo = json!({"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "f"}});
    client.dynamic(&info).namespace("default").create(&foo.into()).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(log.take(), ["default/f"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_004_objects_whose_deletion_was_not_watched_are_told_as_deleted() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    install(&server).await;
    create_foo(&client, "f").await;
    let running = recording(waiting(&client, "dwc-004-missed", &log), &log);
    pass(secs(1)).await;
    assert_eq!(log.take(), ["default/f"]);
    // The watch of foos delivers nothing more.
    server.faults().add(Rule::watch(WatchAction::StallFor { event: 0, duration: secs(3600) }).resource("foos"));
    server.faults().add(Rule::new(Action::Hang).resource("foos").times(1));
    uninstall(&client).await;
    pass(secs(5)).await;
    assert_eq!(log.take(), ["deleted default/f"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_004_a_controller_that_shares_the_informer_waits_as_well() {
    let server = server().await;
    let (client, log, other) = (server.client(), Log::new(), Log::new());
    install(&server).await;
    create_foo(&client, "f").await;
    let informers = InformerFactory::builder(&client).build();
    let running = recording(waiting(&client, "dwc-004-waits", &log).informers(&informers), &log);
    pass(secs(1)).await;
    let plain = Controller::dynamic(&client, &foos()).named("dwc-004-plain").informers(&informers);
    let plain = recording(plain, &other);
    pass(secs(1)).await;
    assert_eq!((log.take(), other.take()), (vec!["default/f".to_owned()], vec!["default/f".to_owned()]));
    uninstall(&client).await;
    pass(secs(1)).await;
    install(&server).await;
    create_foo(&client, "g").await;
    pass(secs(1)).await;
    assert_eq!(other.take(), ["default/g"], "it did not fail");
    assert_eq!(log.take(), ["deleted default/f", "default/g"]);
    plain.end().await.unwrap();
    running.end().await.unwrap();
    assert!(informers.statuses().is_empty(), "also the watch of definitions has ended");
}
