use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_client::{Error, Patch};
use k8s_openapi::api::apps::v1::Deployment;

use super::*;

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn co_022_create_or_patch_creates_patches_and_leaves_alone() {
    let server = server().await;
    let deployments = server.client().apps_v1().deployments("default");
    let three = |deployment: &mut Deployment| {
        deployment.spec.replicas = Some(3);
        deployment.status.get_or_insert_default().ready_replicas = Some(2);
    };
    let created = create_or_patch(&deployments, &deployment("web"), three).await.unwrap();
    assert!(matches!(created, CreateOrPatch::Created(_)), "{created:?}");
    let ready =
        |object: &Obj<Deployment>| object.path("status.readyReplicas").unwrap().and_then(|value| value.as_i64());
    assert_eq!(ready(created.object()), Some(2), "the status was written as well");
    let same = create_or_patch(&deployments, &deployment("web"), three).await.unwrap();
    assert!(matches!(same, CreateOrPatch::Unchanged(_)), "{same:?}");
    assert_eq!(same.object().resource_version(), created.object().resource_version());
    let initial = deployment("web");
    let updated = create_or_patch(&deployments, &initial, |deployment| {
        deployment.metadata.labels.get_or_insert_default().insert("tier".into(), "front".into());
        deployment.status = None;
    });
    let updated = updated.await.unwrap();
    assert!(matches!(updated, CreateOrPatch::UpdatedStatus(_)), "{updated:?}");
    let object = deployments.get("web").await.unwrap();
    assert_eq!((object.label("tier"), ready(&object)), (Some("front"), None));
    assert_eq!(object.path("spec.replicas").unwrap().and_then(|value| value.as_i64()), Some(3));
}

#[tokio::test(start_paused = true)]
async fn co_022_create_or_patch_retries_after_a_conflict() {
    let server = server().await;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let initial: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&initial).await.unwrap();
    // The first write is delayed until another client has written.
    server.faults().add(Rule::new(Action::Delay(Duration::from_secs(2))).verb("patch").times(1));
    let runs = AtomicU32::new(0);
    let done = create_or_patch(&maps, &initial, |map| {
        runs.fetch_add(1, Ordering::Relaxed);
        map.data.get_or_insert_default().insert("colour".into(), "blue".into());
    });
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps.patch("a", &Patch::merge(&json!({"data": {"size": "large"}}))).await
    };
    let (done, other) = tokio::join!(done, other);
    let (CreateOrPatch::Updated(map), Ok(_)) = (done.unwrap(), other) else { panic!() };
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(map.path("data").unwrap().unwrap().json(), r#"{"colour":"blue","size":"large"}"#);

    server.faults().clear();
    server.faults().add(conflict());
    let error = create_or_patch(&maps, &initial, |map| map.data = None).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
}

#[tokio::test]
async fn co_022_create_or_patch_requires_a_name_that_does_not_change() {
    let server = server().await;
    let maps = server.client().api::<ConfigMap>().namespace("default");
    let error = create_or_patch(&maps, &ConfigMap::default(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("has no name"), "{error}");
    let initial: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let error = create_or_patch(&maps, &initial, |map| map.metadata.name = Some("b".into())).await.unwrap_err();
    assert!(error.to_string().contains("renamed"), "{error}");
    assert!(maps.get("b").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn co_022_an_object_of_another_controller_is_not_changed() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let maps = server.client().api::<ConfigMap>().namespace("default");
    let named = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
    };
    let owner = maps.create(&named("owner")).await.unwrap();
    let other = maps.create(&named("other")).await.unwrap();
    let own = |map: &mut ConfigMap, owner: &Obj<ConfigMap>| set_controller_reference(map, owner);
    let done = create_or_update(&maps, &named("child"), |map| own(map, &owner)).await.unwrap();
    assert!(matches!(done, CreateOrUpdate::Created(_)));
    let done = create_or_patch(&maps, &named("child"), |map| own(map, &owner)).await.unwrap();
    assert!(matches!(done, CreateOrPatch::Unchanged(_)));

    let error = create_or_update(&maps, &named("child"), |map| own(map, &other)).await.unwrap_err();
    let Error::Declined { name, source } = &error else { panic!("{error:?}") };
    assert!(name == "child" && source.downcast_ref::<OwnerError>().is_some(), "{error}");
    assert!(error.to_string().contains("the object is already controlled by"), "{error}");
    let error = create_or_patch(&maps, &named("child"), |map| own(map, &other)).await.unwrap_err();
    assert!(matches!(error, Error::Declined { .. }));
    assert!(is_controlled_by(&maps.get("child").await.unwrap(), &owner));
}
