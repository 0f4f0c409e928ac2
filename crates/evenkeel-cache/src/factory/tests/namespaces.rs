//! Factories of several namespaces.

use evenkeel_client::Patch;
use evenkeel_core::Status;
use k8s_openapi::api::core::v1::{Node, Secret};

use super::*;
use crate::informer::OnForbidden;
use crate::lister::LookupError;
use crate::namespaces::NamespaceSetError;

fn over(client: &Client, names: &[&str]) -> InformerFactory {
    InformerFactory::builder(client).namespaces(names).build()
}

async fn label(client: &Client, namespace: &str, team: Value) {
    let patch = Patch::merge(&json!({"metadata": {"labels": {"team": team}}}));
    client.api::<Namespace>().patch(namespace, &patch).await.unwrap();
}

/// The paths at which ConfigMaps were requested, without queries.
fn paths(server: &ApiServer, resource: &str) -> BTreeSet<String> {
    asked(server, resource).iter().filter_map(|path| path.split('?').next()).map(Into::into).collect()
}

#[tokio::test(start_paused = true)]
async fn mns_001_kinds_with_namespaces_are_requested_in_each_and_others_once() {
    let (server, client) = server().await;
    let informers = over(&client, &["default", "other"]);
    let (maps, _nodes) = (informers.lister::<ConfigMap>(), informers.lister::<Node>());
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b", "other/c"]));
    let expected = ["/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/other/configmaps"];
    assert_eq!(paths(&server, "configmaps"), set(expected));
    assert_eq!(paths(&server, "nodes"), set(["/api/v1/nodes"]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mns_010_and_mns_011_the_set_changes_while_informers_run() {
    let (server, client) = server().await;
    let informers = over(&client, &["default"]);
    let maps = informers.lister::<ConfigMap>();
    let recorder = Recorder::default();
    informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(recorder.take(), ["add default/a", "add default/b"]);
    let namespaces = informers.namespaces().unwrap();
    namespaces.add("other").await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b", "other/c"]));
    let in_default = asked(&server, "default/configmaps").len();
    create(&client, "other", "d", "web").await;
    settle().await;
    assert_eq!(recorder.take(), ["add other/c", "add other/d"]);
    namespaces.remove("other").await.unwrap();
    assert_eq!(recorder.take(), ["delete other/c", "delete other/d"]);
    assert_eq!(keys(&maps), set(["default/a", "default/b"]));
    assert_eq!(asked(&server, "default/configmaps").len(), in_default, "not listed again");
    assert_eq!(namespaces.list(), ["default"]);
}

#[tokio::test(start_paused = true)]
async fn mns_002_the_rest_has_a_field_selector() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespaces(["", "default"])
        .configure::<ConfigMap>(|maps| maps.fields("metadata.name!=kube-root-ca.crt"))
        .build();
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b", "other/c"]));
    let rest: Vec<String> =
        asked(&server, "configmaps").into_iter().filter(|path| path.starts_with("/api/v1/configmaps?")).collect();
    let selector = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt%2Cmetadata.namespace%21%3Ddefault";
    assert!(!rest.is_empty() && rest.iter().all(|path| path.contains(selector)), "{rest:?}");
    delete(&client, "other", "c").await;
    create(&client, "default", "d", "web").await;
    settle().await;
    assert_eq!(keys(&maps), set(["default/a", "default/b", "default/d"]));
}

#[tokio::test(start_paused = true)]
async fn mns_003_reads_outside_the_set_are_an_error() {
    let (_server, client) = server().await;
    let informers = over(&client, &["default", "other"]);
    let maps = informers.lister::<ConfigMap>();
    let (inside, outside) = (ObjectKey::namespaced("default", "x"), ObjectKey::namespaced("third", "x"));
    let (sets, others) = (informers.namespaces().unwrap(), maps.namespace("other").unwrap());
    let text = "cannot read configmaps in namespace \"third\": the cache has namespaces default, other; \
                add the namespace to its set";
    assert_eq!(maps.require(&outside).unwrap_err().to_string(), text, "also before the start");
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(maps.require(&inside).unwrap_err().is_not_found());
    let error = maps.require(&outside).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(!error.is_not_found() && Status::from(error).is_bad_request());
    assert_eq!(maps.namespace("third").unwrap_err().to_string(), text);
    assert!(maps.get(&outside).is_none() && !maps.is_in_scope(&outside) && maps.is_in_scope(&inside));

    sets.remove("other").await.unwrap();
    assert!(matches!(others.require("c"), Err(LookupError::OutOfScope(error)) if error.namespaces == ["default"]));
    assert!(maps.namespace("other").is_err());
}

#[tokio::test(start_paused = true)]
async fn mns_004_a_write_is_awaited_in_its_namespace() {
    let (_server, client) = server().await;
    let informers = over(&client, &["default", "other"]);
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let info = Arc::clone(informers.of::<ConfigMap>().resource());
    let written = client.api::<ConfigMap>().namespace("other").get("c").await.unwrap();
    let read = maps.at_least_for(written.key(), &written.version()).await.unwrap().require(written.key()).unwrap();
    assert_eq!(read.version(), written.version());
    assert!(informers.covers::<ConfigMap>(&info, written.key(), written.header()));
    informers.namespaces().unwrap().remove("other").await.unwrap();
    assert!(!informers.covers::<ConfigMap>(&info, written.key(), written.header()));
    assert!(maps.at_least_for(written.key(), &written.version()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn mns_012_labels_of_namespaces_drive_the_set() {
    let (_server, client) = server().await;
    label(&client, "default", json!("x")).await;
    let informers = InformerFactory::builder(&client).namespaces_labelled("team=x").build();
    let maps = informers.lister::<ConfigMap>();
    let recorder = Recorder::default();
    informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b"]), "known when it has synced");
    let namespaces = informers.namespaces().unwrap();
    assert_eq!(namespaces.list(), ["default"]);

    label(&client, "other", json!("x")).await;
    settle().await;
    assert_eq!(keys(&maps), set(["default/a", "default/b", "other/c"]));
    settle().await;
    recorder.take();

    // Goes and comes within a second.
    label(&client, "other", json!(null)).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    label(&client, "other", json!("x")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(recorder.take(), [""; 0]);

    label(&client, "other", json!("y")).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(namespaces.list(), ["default", "other"]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(namespaces.list(), ["default"]);
    settle().await;
    assert_eq!(recorder.take(), ["delete other/c"]);
    assert_eq!(keys(&maps), set(["default/a", "default/b"]));

    let error = namespaces.add("other").await.unwrap_err();
    assert!(matches!(&error, NamespaceSetError::FollowsLabels { selector, .. } if selector == "team=x"), "{error}");
    assert!(namespaces.remove("default").await.is_err());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mns_012_no_namespace_may_have_the_label() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespaces_labelled("team=none").build();
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(maps.list_all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn byo_001_a_kind_inherits_the_namespaces_unless_it_has_its_own() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespaces(["default"])
        .labels("app=web")
        .on_forbidden(OnForbidden::Degrade)
        .configure::<Secret>(|secrets| secrets.namespace(""))
        .configure::<ConfigMap>(|maps| maps.labels("app"))
        .build();
    let (maps, _secrets) = (informers.lister::<ConfigMap>(), informers.lister::<Secret>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b"]));
    assert_eq!(paths(&server, "secrets"), set(["/api/v1/secrets"]), "an empty namespace is all of them");
    assert!(asked(&server, "secrets").iter().all(|path| path.contains("labelSelector=app%3Dweb")), "field by field");
    informers.namespaces().unwrap().add("other").await.unwrap();
    assert_eq!(paths(&server, "secrets"), set(["/api/v1/secrets"]), "it is not in the set");
}

#[tokio::test(start_paused = true)]
async fn byo_002_a_namespace_of_a_kind_without_namespaces_is_an_error() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespace("default")
        .configure::<Node>(|nodes| nodes.namespace("default"))
        .build();
    let (nodes, _namespaces) = (informers.of::<Node>(), informers.lister::<Namespace>());
    let running = informers.start();
    assert!(tokio::time::timeout(Duration::from_secs(10), informers.wait_for_sync()).await.is_err());
    let error = nodes.status().reflector.last_error.unwrap().message;
    let problem = "nodes have no namespace, but their options select namespace \"default\"; remove it";
    assert!(error.ends_with(problem), "{error}");
    assert!(asked(&server, "nodes").is_empty());
    assert_eq!(paths(&server, "namespaces"), set(["/api/v1/namespaces"]), "that of all kinds does not matter");
    running.stop().await;
    let error = informers.wait_for_sync().await.unwrap_err().to_string();
    assert!(error.contains(problem), "{error}");
}

#[tokio::test(start_paused = true)]
async fn byo_004_the_transform_of_a_kind_replaces_that_of_all() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .transform_all(crate::transform::drop_managed_fields())
        .configure::<ConfigMap>(|maps| maps.transform(Ok::<_, std::convert::Infallible>))
        .build();
    let (maps, namespaces) = (informers.lister::<ConfigMap>(), informers.lister::<Namespace>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let map = maps.require(ObjectKey::namespaced("default", "a")).unwrap();
    assert!(map.path("metadata.managedFields").unwrap().is_some());
    assert!(namespaces.require("other").unwrap().path("metadata.managedFields").unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn byo_003_an_exact_namespace_in_the_fields_makes_requests_there() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .namespaces(["default"])
        .configure::<ConfigMap>(|maps| maps.fields("metadata.namespace=other"))
        .configure::<Secret>(|secrets| secrets.fields("metadata.namespace!=other"))
        .build();
    let (maps, _secrets) = (informers.lister::<ConfigMap>(), informers.lister::<Secret>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(paths(&server, "configmaps"), set(["/api/v1/namespaces/other/configmaps"]));
    assert_eq!(keys(&maps), set(["other/c"]));
    assert_eq!(paths(&server, "secrets"), set(["/api/v1/namespaces/default/secrets"]), "other operators do not");
}

#[tokio::test(start_paused = true)]
async fn the_last_of_namespace_and_namespaces_wins() {
    let (server, client) = server().await;
    let one = InformerFactory::builder(&client).namespaces(["default"]).namespace("other").build();
    assert!(one.namespaces().is_none());
    let several = InformerFactory::builder(&client).namespace("other").namespaces(["default"]).build();
    let maps = several.lister::<ConfigMap>();
    let _running = several.start();
    several.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), set(["default/a", "default/b"]));
    assert_eq!(paths(&server, "configmaps"), set(["/api/v1/namespaces/default/configmaps"]));
}
