//! Factories of fewer objects.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::*;

#[tokio::test(start_paused = true)]
async fn fac_017_factories_that_narrow_another_share_informers_of_the_same_scope() {
    let (server, client) = server().await;
    let informers = factory(&client);
    let (first, again) = (informers.in_namespace("other").unwrap(), informers.in_namespace("other").unwrap());
    assert!(first.shares_informers_with(&informers) && first.cached_twice(&informers).is_empty());
    let (all, other) = (informers.lister::<ConfigMap>(), first.lister::<ConfigMap>());
    let _same = again.lister::<ConfigMap>();
    let selected = first.selecting::<ConfigMap>("app = web", "").lister::<ConfigMap>();
    let _same = again.selecting::<ConfigMap>("app=web", "").lister::<ConfigMap>();
    let _unselected = first.selecting::<ConfigMap>("app=web", "").of::<Pod>();
    let names: Vec<_> = informers.statuses().into_iter().map(|status| status.name).collect();
    let expected = [
        "configmaps",
        "configmaps (namespace other)",
        "configmaps (namespace other, labels app=web)",
        "pods (namespace other)",
    ];
    assert_eq!(names, expected);
    let _running = again.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(asked(&server, "configmaps").len(), 3, "one WatchList for each informer");
    assert!(keys(&all).len() > keys(&other).len());
    assert_eq!((keys(&other), keys(&selected)), (set(["other/c"]), set(["other/c"])));
}

#[tokio::test(start_paused = true)]
async fn fac_017_cluster_scoped_kinds_and_empty_namespaces_do_not_narrow() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let (other, all) = (informers.in_namespace("other").unwrap(), informers.in_namespace("").unwrap());
    let nodes = informers.of::<Node>().downgrade();
    assert!(other.of::<Node>().downgrade().ptr_eq(&nodes) && all.of::<Node>().downgrade().ptr_eq(&nodes));
    assert!(all.of::<Pod>().downgrade().ptr_eq(&informers.of::<Pod>().downgrade()));
}

#[tokio::test(start_paused = true)]
async fn fac_017_selectors_of_both_factories_apply_and_namespaces_must_agree() {
    let (server, client) = server().await;
    let informers = InformerFactory::builder(&client).namespace("other").labels("app").build();
    let error = informers.in_namespace("default").unwrap_err();
    assert_eq!((&*error.informers, &*error.requested), ("other", "default"));
    let same = informers.in_namespace("other").unwrap();
    assert!(same.of::<Pod>().downgrade().ptr_eq(&informers.of::<Pod>().downgrade()));
    let maps = same.selecting::<ConfigMap>("app!=db", "metadata.name=c").of::<ConfigMap>();
    assert_eq!(maps.name(), "configmaps (labels app,app!=db, fields metadata.name=c)");
    let _running = same.start();
    maps.synced().await.unwrap();
    assert!(asked(&server, "configmaps")[0].contains("fieldSelector=metadata.name%3Dc"));
    let configured = InformerFactory::builder(&client).configure::<Pod>(|pods| pods.namespace("default")).build();
    assert!(configured.in_namespace("other").is_err() && configured.in_namespace("default").is_ok());
}

#[tokio::test(start_paused = true)]
async fn fac_017_caches_of_the_same_objects_in_two_factories_are_found() {
    let (_server, client) = server().await;
    let (first, second) = (factory(&client), factory(&client));
    let _maps = (first.of::<ConfigMap>(), second.in_namespace("other").unwrap().of::<ConfigMap>());
    assert!(first.cached_twice(&second).is_empty(), "other objects");
    let _maps = second.of::<ConfigMap>();
    assert_eq!(first.cached_twice(&second), ["configmaps"]);
}
