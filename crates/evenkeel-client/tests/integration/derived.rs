//! A custom resource with `#[derive(CustomResource)]`.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::{ListParams, Patch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Foo", namespaced, status = "FooStatus")]
#[kube(schema = "disabled", crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi"))]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    deployment_name: String,
    replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FooStatus {
    available_replicas: i32,
}

#[tokio::test(start_paused = true)]
async fn a_derived_custom_resource_works_unchanged() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    // The derive has no schema here; the server requires one.
    let mut definition: CustomResourceDefinition = Foo::crd();
    let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    definition.spec.versions[0].schema = Some(serde_json::from_value(anything).unwrap());
    client.apiextensions_v1().custom_resource_definitions().create(&definition).await.unwrap();

    let foos = client.api::<Foo>().namespace("default");
    let spec = FooSpec { deployment_name: "web".into(), replicas: 2 };
    let created = foos.create(&Foo::new("a", spec.clone())).await.unwrap();
    assert_eq!((created.kind(), created.api_version()), ("Foo", "example.com/v1alpha1"));
    assert_eq!(foos.get("a").await.unwrap().typed().unwrap().spec, spec);

    let mut foo = Foo::clone(&*created.typed().unwrap());
    foo.status = Some(FooStatus { available_replicas: 2 });
    foos.status().update(&foo).await.unwrap();
    foos.patch("a", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await.unwrap();
    let list = client.api::<Foo>().list(&ListParams::default()).await.unwrap();
    let foo = list.items[0].typed().unwrap();
    assert_eq!((foo.spec.replicas, foo.status.as_ref().unwrap().available_replicas), (3, 2));

    // An object that does not fit its type is one error, without effect on others.
    foos.patch("a", &Patch::merge(&json!({"spec": {"replicas": "many"}}))).await.unwrap();
    foos.create(&Foo::new("b", spec)).await.unwrap();
    let list = foos.list(&ListParams::default()).await.unwrap();
    let error = list.items[0].typed().unwrap_err().to_string();
    assert!(error.contains("Foo") && error.contains("default/a") && error.contains("spec.replicas"), "{error}");
    assert_eq!(list.items[1].typed().unwrap().spec.replicas, 2);
}
