//! Options of informers of a factory.

use k8s_openapi::api::core::v1::{Node, Pod, Secret};

use super::*;
use crate::source::BoxError;
use crate::store::IndexError;
use crate::{Index, Obj, Object};

#[tokio::test(start_paused = true)]
async fn fac_001_by_default_everything_is_listed_and_the_last_option_wins() {
    let (server, client) = server().await;
    let plain = factory(&client);
    let maps = plain.lister::<ConfigMap>();
    let _running = plain.start();
    plain.wait_for_sync().await.unwrap();
    assert!(keys(&maps).is_superset(&set(["default/a", "default/b", "other/c"])));
    assert_eq!(plain.statuses()[0].name, "configmaps");
    let asked = asked(&server, "/configmaps");
    assert!(
        asked.iter().all(|path| path.starts_with("/api/v1/configmaps?") && !path.contains("Selector")),
        "{asked:?}"
    );

    let twice = InformerFactory::builder(&client).namespace("default").name("first").namespace("other").name("second");
    let twice = twice.labels("app=none").labels("app=web").build();
    let maps = twice.lister::<ConfigMap>();
    let _running = twice.start();
    twice.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["other/c"]));
    assert_eq!(twice.statuses()[0].name, "second/configmaps");
}

#[tokio::test(start_paused = true)]
async fn fac_002_a_kind_has_one_informer() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .configure::<ConfigMap>(|maps| maps.index(Index::by_object("mine", |_| ["x"])))
        .build();
    let (first, second) = (informers.of::<ConfigMap>(), informers.clone().of::<ConfigMap>());
    let taken = Index::by_object("late", |_: &Obj<ConfigMap>| ["x"]);
    first.add_indexes([taken]).unwrap();
    let again = Index::by_object("late", |_: &Obj<ConfigMap>| ["x"]);
    assert!(matches!(second.add_indexes([again]), Err(IndexError::Conflict { .. })), "it is the same store");
    let configured = Index::by_object("mine", |_: &Obj<ConfigMap>| ["x"]);
    assert!(second.add_indexes([configured]).is_err(), "options of a kind apply to every request");
    let _nodes = informers.of::<Node>();
    assert_eq!(informers.statuses().len(), 2);
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    let third = informers.of::<ConfigMap>();
    assert!(third.has_synced());
    let watches = asked(&server, "/configmaps").len();
    settle().await;
    assert_eq!(asked(&server, "/configmaps").len(), watches, "no other informer lists");
}

#[tokio::test(start_paused = true)]
async fn fac_003_a_kind_can_have_its_own_resync_period() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespace("other")
        .resync(Duration::from_secs(10))
        .configure::<ConfigMap>(|maps| maps.resync(Duration::from_secs(60)))
        .build();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}});
    let secrets = client.api::<Secret>().namespace("other");
    secrets.create(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let (slow, quick) = (Recorder::default(), Recorder::default());
    informers.of::<ConfigMap>().add_handler(slow.clone()).unwrap();
    informers.of::<Secret>().add_handler(quick.clone()).unwrap();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!((slow.take(), quick.take()), (vec!["add other/c".into()], vec!["add other/s".into()]));
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(quick.take(), ["update other/s"; 3]);
    assert!(slow.take().is_empty());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(slow.take(), ["update other/c"]);
}

#[tokio::test(start_paused = true)]
async fn fac_004_the_store_holds_transformed_objects() {
    let (_server, client) = server().await;
    let slim = |object: Object| -> Result<Object, crate::source::BoxError> {
        Ok(object.without(&evenkeel_core::json::JsonPaths::new(["data"])?)?)
    };
    let informers = InformerFactory::builder(&client)
        .transform_all(slim)
        .configure::<Namespace>(|kind| {
            kind.transform(|namespace| -> Result<_, BoxError> {
                Ok(namespace.without(&evenkeel_core::json::JsonPaths::new(["spec"])?)?)
            })
        })
        .build();
    let (maps, namespaces) = (informers.lister::<ConfigMap>(), informers.lister::<Namespace>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(maps.get(ObjectKey::namespaced("default", "a")).unwrap().path("data").unwrap().is_none());
    assert!(namespaces.get("default").unwrap().path("spec").unwrap().is_none());
    create(&client, "default", "late", "web").await;
    settle().await;
    assert!(
        maps.get(ObjectKey::namespaced("default", "late")).unwrap().path("data").unwrap().is_none(),
        "what a watch brings is changed too"
    );
}

#[tokio::test(start_paused = true)]
async fn fac_005_lists_and_watches_have_selectors_and_cluster_scoped_kinds_no_namespace() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespace("default")
        .labels("app=web")
        .configure::<Namespace>(|namespaces| namespaces.labels("").fields("metadata.name=other"))
        .build();
    let (maps, namespaces) = (informers.lister::<ConfigMap>(), informers.lister::<Namespace>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a"]));
    assert_eq!(keys(&namespaces), set(["other"]), "it is not looked for in a namespace");
    for (namespace, name, app) in [("default", "d", "db"), ("default", "e", "web"), ("other", "f", "web")] {
        create(&client, namespace, name, app).await;
    }
    settle().await;
    assert_eq!(keys(&maps), set(["default/a", "default/e"]));
    let asked = asked(&server, "/configmaps");
    assert!(!asked.is_empty() && asked.iter().all(|path| path.contains("labelSelector=app%3Dweb")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn fac_006_every_informer_has_the_namespace_index() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (maps, namespaces) = (informers.of::<ConfigMap>(), informers.of::<Namespace>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let found = maps.indexer().by_index("namespace", "other").unwrap();
    assert!(found.iter().any(|map| map.key().as_str() == "other/c"));
    assert!(found.iter().all(|map| map.key().namespace() == Some("other")));
    let in_none = namespaces.indexer().by_index("namespace", "").unwrap();
    assert_eq!(in_none.len(), namespaces.indexer().list().len(), "the cluster's are under no name");
}

#[tokio::test(start_paused = true)]
async fn fac_007_a_lister_requests_its_informer() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.lister::<ConfigMap>();
    assert_eq!(informers.statuses().len(), 1);
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(keys(&maps).contains("default/a"));
}

#[tokio::test(start_paused = true)]
async fn fac_013_the_wait_for_an_unserved_kind_names_it() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let foos = Arc::new(evenkeel_core::ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let _foos = informers.dynamic(&foos);
    let running = informers.start();
    let in_vain = tokio::time::timeout(Duration::from_secs(60), informers.wait_for_sync()).await;
    assert!(in_vain.is_err());
    let status = informers.statuses().remove(0);
    assert_eq!((status.name.as_str(), status.has_synced), ("foos.example.com", false));
    assert!(status.reflector.last_error.is_some());
    running.drain().await;
    let error = informers.wait_for_sync().await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("not all informers have synced: foos.example.com has stopped (failed to "), "{text}");
    assert!(text.contains("install the CustomResourceDefinition foos.example.com with version v1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn fac_015_every_handle_is_the_same_informer() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("other").labels("app").build();
    let recorder = Recorder::default();
    informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    let (by_app, pods) = (informers.of::<ConfigMap>(), informers.of::<Pod>());
    by_app.add_indexes([Index::by_object("app", |map: &Obj<ConfigMap>| map.label("app").map(String::from))]).unwrap();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(recorder.take(), ["add other/c", "add other/c"]);
    let indexer = informers.of::<ConfigMap>().indexer();
    assert_eq!(indexer.by_index("app", "web").unwrap()[0].typed().unwrap().data.as_ref().unwrap()["k"], "v");
    assert!(pods.indexer().by_index("app", "web").is_err(), "another kind is another informer");
}

#[tokio::test(start_paused = true)]
async fn written_objects_can_be_read_back() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let patch = evenkeel_client::Patch::merge(&json!({"data": {"k": "mine"}}));
    let written = client.api::<ConfigMap>().namespace("default").patch("a", &patch).await.unwrap();
    let read = maps.at_least(&written.version()).await.unwrap().require(written.key()).unwrap();
    assert_eq!(read.typed().unwrap().data.as_ref().unwrap()["k"], "mine");
}

#[tokio::test(start_paused = true)]
async fn a_kind_can_have_options_of_newer_servers() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .configure::<ConfigMap>(|maps| maps.namespace("other").query("newOption", "some value"))
        .build();
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    let asked = asked(&server, "/configmaps");
    assert!(!asked.is_empty() && asked.iter().all(|path| path.contains("newOption=some+value")), "{asked:?}");

    // Only the server knows what the option selects.
    let header = maps.get(ObjectKey::namespaced("other", "c")).unwrap();
    assert!(!informers.covers::<ConfigMap>(header.resource(), header.key(), &header));
    assert!(factory(&client).covers::<ConfigMap>(header.resource(), header.key(), &header));
}

#[tokio::test(start_paused = true)]
async fn an_option_that_the_informer_sets_itself_is_an_error() {
    let (_server, client) = server().await;
    let informers =
        InformerFactory::builder(&client).configure::<ConfigMap>(|maps| maps.query("labelSelector", "a=b")).build();
    let maps = informers.of::<ConfigMap>();
    let _running = informers.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = maps.status();
    assert!(!maps.has_synced());
    let text = format!("{status:?}");
    assert!(text.contains("labelSelector") && text.contains("field of its own"), "{text}");
}
