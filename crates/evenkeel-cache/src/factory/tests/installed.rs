//! Informers of kinds as they are served, of definitions, and informers that leave the factory.

use evenkeel_core::ResourceInfo;

use super::*;

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com", "annotations": {"long": "text"}},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn dwc_003_definitions_are_cached_without_schemas_and_selectors() {
    let (server, client) = server().await;
    server.install_crds([definition()]).await.unwrap();
    let informers = InformerFactory::builder(&client).namespace("default").labels("app=web").build();
    let definitions = informers.definitions();
    assert_eq!(definitions.name(), "customresourcedefinitions.apiextensions.k8s.io (installed)");
    let hold = informers.in_namespace("default").unwrap().definitions().hold().unwrap();
    hold.start();
    definitions.synced().await.unwrap();
    let found = definitions.indexer().get(ObjectKey::cluster("foos.example.com")).unwrap();
    assert_eq!(found.path("spec.names.kind").unwrap().unwrap().text(), "Foo");
    assert_eq!(found.path("spec.versions[0].name").unwrap().unwrap().text(), "v1");
    assert!(found.path("spec.versions[0].schema").unwrap().is_none());
    assert!(found.path("metadata.annotations").unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn dwc_004_a_kind_that_is_served_otherwise_has_the_options_of_its_type() {
    let (_server, client) = server().await;
    let informers = InformerFactory::builder(&client)
        .configure::<ConfigMap>(|maps| maps.labels("app=web").name("web maps"))
        .build();
    let same = Arc::new(ResourceInfo::of::<ConfigMap>());
    let (first, second) = (informers.served::<ConfigMap>(&same), informers.of::<ConfigMap>());
    assert!(first.downgrade().ptr_eq(&second.downgrade()), "nothing differs");
    let other = Arc::new(ResourceInfo::new("", "v1", "ConfigMap", "configmaps", false));
    let served = informers.served::<ConfigMap>(&other);
    assert!(!served.downgrade().ptr_eq(&first.downgrade()));
    assert_eq!((served.name(), served.resource().namespaced()), ("web maps", false));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&served.lister()), keys(&first.lister()), "the selector applies");

    let dynamic = InformerFactory::builder(&client).build().selecting_dynamic(&same, "app=web", "");
    let again = dynamic.dynamic(&other);
    let _running = dynamic.start();
    again.synced().await.unwrap();
    assert_eq!(again.lister().list_all().len(), 2, "the selector of the kind applies to its new scope");
}

#[tokio::test(start_paused = true)]
async fn dwc_005_an_informer_leaves_the_factory_with_its_last_hold() {
    let (_server, client) = server().await;
    let informers = factory(&client);
    let maps = informers.of::<ConfigMap>();
    let (first, second) = (maps.hold().unwrap(), maps.hold().unwrap());
    let running = informers.start();
    assert!(!maps.is_started(), "its holds start it");
    first.start();
    running.stop().await;
    maps.synced().await.unwrap();
    drop(first);
    assert_eq!(informers.statuses().len(), 1);
    second.release().await;
    assert!(maps.is_stopped() && informers.statuses().is_empty());
    let again = informers.of::<ConfigMap>();
    let _hold = again.hold().unwrap();
    drop(maps);
    assert_eq!(informers.statuses().len(), 1, "the old one does not remove the new one");
}
