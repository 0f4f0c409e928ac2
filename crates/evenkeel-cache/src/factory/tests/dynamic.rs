//! Informers of kinds without a Rust type, and of metadata.

use evenkeel_core::ResourceInfo;

use super::*;

fn maps() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<ConfigMap>())
}

#[tokio::test(start_paused = true)]
async fn dyi_001_dynamic_kinds_are_distinguished_by_name() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (first, second) = (informers.dynamic(&maps()), informers.dynamic(&maps()));
    let other = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let _unknown = informers.dynamic(&other);
    assert_eq!(informers.statuses().len(), 2);
    let _running = first.start();
    assert!(second.is_started(), "it is the same one");
    let (_typed, _metadata) = (informers.of::<ConfigMap>(), informers.metadata_of(&maps()));
    assert_eq!(informers.statuses().len(), 4, "the typed one and that of the metadata are others");
}

#[tokio::test(start_paused = true)]
async fn dyi_002_objects_equal_those_of_the_server() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (whole, metadata) = (informers.dynamic(&maps()).lister(), informers.metadata::<ConfigMap>().lister());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let object = whole.get(ObjectKey::namespaced("default", "a")).unwrap().typed().unwrap();
    assert_eq!(object.get("data.k").and_then(Value::as_str), Some("v"));
    let object = metadata.get(ObjectKey::namespaced("default", "a")).unwrap();
    assert!(object.path("data").unwrap().is_none());
    assert_eq!(object.typed().unwrap().metadata.labels.as_ref().unwrap()["app"], "web");
    let names: Vec<_> = informers.statuses().into_iter().map(|status| status.name).collect();
    assert_eq!(names, ["configmaps", "configmaps (metadata)"]);
}

#[tokio::test(start_paused = true)]
async fn dyi_003_dynamic_and_metadata_informers_have_indexes_and_selectors() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .labels("app=web")
        .configure_metadata(&maps(), |maps| maps.namespace("default"))
        .configure_dynamic(&maps(), |maps| maps.fields("metadata.name!=a"))
        .build();
    let (whole, metadata) = (informers.dynamic(&maps()), informers.metadata_of(&maps()));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&whole.lister()), set(["other/c"]));
    assert_eq!(keys(&metadata.lister()), set(["default/a"]));
    assert_eq!(whole.indexer().by_index("namespace", "other").unwrap().len(), 1);
    assert_eq!(metadata.indexer().by_index("namespace", "default").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dyi_004_events_reach_handlers() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("other").labels("app").build();
    let (whole, metadata) = (Recorder::default(), Recorder::default());
    informers.dynamic(&maps()).add_handler(whole.clone()).unwrap();
    informers.metadata_of(&maps()).add_handler(metadata.clone()).unwrap();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    for recorder in [&whole, &metadata] {
        assert_eq!(recorder.take(), ["add other/c"]);
    }
    create(&client, "other", "d", "web").await;
    change(&client, "other", "c", json!({"k": "w"})).await;
    delete(&client, "other", "d").await;
    settle().await;
    for recorder in [&whole, &metadata] {
        assert_eq!(recorder.take(), ["add other/d", "delete other/d", "update other/c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn dyi_005_dynamic_informers_start_and_stop_with_the_others() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (whole, metadata) = (informers.dynamic(&maps()), informers.metadata_of(&maps()));
    let running = informers.start();
    let _none = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(whole.has_synced() && metadata.has_synced());
    running.drain().await;
    assert!(whole.is_stopped() && metadata.is_stopped());
    assert!(!informers.dynamic(&maps()).is_started(), "another one");
}

#[tokio::test(start_paused = true)]
async fn dyi_006_dynamic_informers_take_all_options() {
    let (_server, client) = server().await;
    let slim = |map: crate::Obj<evenkeel_client::Unstructured>| -> Result<_, crate::source::BoxError> {
        Ok(map.without(&evenkeel_core::json::JsonPaths::new(["data"])?)?)
    };
    let informers = InformerFactory::builder(&client)
        .namespace("other")
        .transform_all(|object| Ok(object.without(&evenkeel_core::json::JsonPaths::new(["metadata.labels"])?)?))
        .configure_dynamic(&maps(), |maps| maps.transform(slim).resync(Duration::from_secs(10)))
        .build();
    let (whole, metadata) = (informers.dynamic(&maps()).lister(), informers.metadata_of(&maps()).lister());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let (whole, metadata) = (
        whole.get(ObjectKey::namespaced("other", "c")).unwrap(),
        metadata.get(ObjectKey::namespaced("other", "c")).unwrap(),
    );
    assert!(whole.path("data").unwrap().is_none() && whole.label("app") == Some("web"));
    assert_eq!(metadata.label("app"), None);
}

#[tokio::test(start_paused = true)]
async fn dyi_007_all_dynamic_informers_are_awaited_concurrently() {
    let (server, client) = server().await;
    let informers = factory(&client);
    let (whole, metadata) = (informers.dynamic(&maps()), informers.metadata_of(&maps()));
    server.faults().delay(Duration::from_secs(3));
    let _running = informers.start();
    let began = tokio::time::Instant::now();
    informers.wait_for_sync().await.unwrap();
    assert!(whole.has_synced() && metadata.has_synced());
    assert!(began.elapsed() < Duration::from_secs(6), "informers sync concurrently and without polling");
}

#[tokio::test(start_paused = true)]
async fn dyi_008_a_watch_list_is_enough() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("nowhere").build();
    let whole = informers.dynamic(&maps());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(whole.lister().list_all().is_empty());
    let asked = asked(&server, "/configmaps");
    assert!(asked.iter().all(|path| path.contains("sendInitialEvents=true")), "{asked:?}");
}
