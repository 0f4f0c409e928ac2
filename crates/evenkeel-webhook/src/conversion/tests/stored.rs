//! Objects that are stored already.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Unstructured;
use evenkeel_core::ResourceInfo;

use super::*;
use crate::ConversionCheckError;

fn definition() -> CustomResourceDefinition {
    let version = |name: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": name == "v3", "schema": {"openAPIV3Schema": schema}})
    };
    serde_json::from_value(json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
        "versions": [version("v1"), version("v2"), version("v3")],
    }}))
    .unwrap()
}

#[tokio::test]
async fn cnv_005_stored_objects_that_cannot_be_converted_are_found_beforehand() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    client.api::<CustomResourceDefinition>().create(&definition()).await.unwrap();
    let info = Arc::new(ResourceInfo::new("example.com", "v3", "Foo", "foos", true));
    let foos = client.dynamic(&info).namespace("default");
    for (name, action) in [("a", ""), ("bad", "fail"), ("c", "label"), ("d", "")] {
        let mut object = foo(3, name, action);
        object["metadata"].as_object_mut().unwrap().remove("uid");
        foos.create(&Unstructured(object)).await.unwrap();
    }
    let server = WebhookServer::builder().conversion(conversion()).build().unwrap();
    let check = server.check_conversions(&client, &definition()).await.unwrap();
    assert_eq!((check.objects, check.failed), (4, 2));
    let expected = "Foo default/bad from example.com/v3 to example.com/v1: spec.size is too large for v1";
    assert_eq!(check.failures[0], expected);
    assert!(check.failures[1].contains("default/c") && check.failures[1].contains("metadata.labels[a] is no string"));

    let mut unserved = definition();
    unserved.spec.versions.iter_mut().for_each(|version| version.served = false);
    let refused = server.check_conversions(&client, &unserved).await.unwrap_err();
    assert!(matches!(refused, ConversionCheckError::NotServed { .. }), "{refused}");
    let other = WebhookServer::builder().build().unwrap();
    let refused = other.check_conversions(&client, &definition()).await.unwrap_err();
    assert!(matches!(refused, ConversionCheckError::NoConversions { .. }), "{refused}");
}

#[cfg(feature = "certificates")]
#[tokio::test]
async fn cwh_003_an_api_server_converts_with_the_webhook_server() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let authority = crate::certificates::Authority::generate(crate::server::now()).unwrap();
    let pair = authority.issue(&["hooks.shop-system.svc"], crate::server::now()).unwrap().serve().unwrap();
    let server = WebhookServer::builder().conversion(conversion()).certificate(&pair).address("127.0.0.1:0");
    let server = server.build().unwrap();
    let running = server.start().await.unwrap();
    api.route_service("shop-system", "hooks", 443, running.address().unwrap());
    let target = WebhookTarget::service("shop", "shop-system", "hooks").ca_bundle(authority.certificate());
    let mut definition = definition();
    server.add_conversion(&mut definition, &target).unwrap();
    client.api::<CustomResourceDefinition>().create(&definition).await.unwrap();
    let foos = |version: &str| {
        let info = Arc::new(ResourceInfo::new("example.com", version, "Foo", "foos", true));
        client.dynamic(&info).namespace("default")
    };
    let mut object = foo(1, "a", "");
    object["metadata"].as_object_mut().unwrap().remove("uid");
    foos("v1").create(&Unstructured(object)).await.unwrap();
    let steps = async |version: &str| {
        let found = foos(version).get("a").await.unwrap();
        let found = found.typed().unwrap();
        (found.0["apiVersion"].clone(), found.0["steps"].clone())
    };
    assert_eq!(steps("v3").await, (json!("example.com/v3"), json!("v1→hub")));
    assert_eq!(steps("v2").await, (json!("example.com/v2"), json!("v1→hub hub→v2")));
    running.shutdown().await;
}
