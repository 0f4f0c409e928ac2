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
