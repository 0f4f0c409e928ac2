//! Scales of resources that are named at run time, of an API server in this process.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::discovery::RestMapper;
use evenkeel_client::{Client, Patch};
use serde_json::{Value, json};

async fn start() -> (ApiServer, Client, RestMapper) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let mapper = RestMapper::new(client.discovery().cached());
    (server, client, mapper)
}

/// Method and path of the requests since the last call, without discovery.
fn calls(server: &ApiServer, seen: &mut usize) -> Vec<String> {
    let requests = server.requests();
    let new = requests.iter().skip(*seen).map(|record| format!("{} {}", record.method, record.path)).collect();
    *seen = requests.len();
    new
}

async fn create_deployment(client: &Client) {
    let web = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        }
    }));
    client.apps_v1().deployments("default").create(&web.unwrap()).await.unwrap();
}

fn definition(subresources: &Value) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.sample.example.com"},
        "spec": {
            "group": "sample.example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn scl_001_the_scale_of_a_resource_by_any_of_its_names() {
    let (server, client, mapper) = start().await;
    create_deployment(&client).await;
    for name in ["deploy", "deployments.apps", "Deployment", "deployments.v1.apps"] {
        let scales = client.scales(&mapper).of(name).await.unwrap().namespace("default");
        assert_eq!(scales.resource().kind(), "Deployment");
        let scale = scales.get("web").await.unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(2), "{name}");
        assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=web"));
    }
    let mut seen = server.requests().len();
    let scales = client.scales(&mapper).of("deploy").await.unwrap().namespace("default");
    let patched = scales.patch("web", &Patch::merge(&json!({"spec": {"replicas": 7}}))).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(7));
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    assert_eq!(calls(&server, &mut seen), [format!("PATCH {path}")], "what names mean is remembered");
}

#[tokio::test(start_paused = true)]
async fn scl_002_an_update_scales_the_object_and_its_errors_pass() {
    let (server, client, mapper) = start().await;
    create_deployment(&client).await;
    let scales = client.scales(&mapper).of("deploy").await.unwrap().namespace("default");
    let mut scale = scales.get("web").await.unwrap();
    scale.spec.as_mut().unwrap().replicas = Some(5);
    let mut seen = server.requests().len();
    assert_eq!(scales.update(&scale).dry_run().await.unwrap().spec.unwrap().replicas, Some(5));
    let updated = scales.update(&scale).await.unwrap();
    assert_eq!(updated.spec.unwrap().replicas, Some(5));
    assert_ne!(updated.metadata.resource_version, scale.metadata.resource_version);
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    assert_eq!(calls(&server, &mut seen), [format!("PUT {path}?dryRun=All"), format!("PUT {path}")]);
    let web = client.apps_v1().deployments("default").get("web").await.unwrap();
    assert_eq!(web.typed().unwrap().spec.replicas, Some(5));

    assert!(scales.update(&scale).await.unwrap_err().is_conflict(), "it was based on the version before");
    assert!(scales.get("missing").await.unwrap_err().is_not_found());
    let nowhere = client.scales(&mapper).of("deploy").await.unwrap();
    assert!(nowhere.get("web").await.unwrap_err().to_string().contains("no namespace"));
}

#[tokio::test(start_paused = true)]
async fn scl_001_scl_002_custom_resources_scale_too_once_they_are_defined_so() {
    let (server, client, mapper) = start().await;
    let scales = client.scales(&mapper);
    assert_eq!(scales.of("foos").await.unwrap_err().to_string(), "the server has no resource \"foos\"");
    server.install_crds([definition(&json!({}))]).await.unwrap();
    let plain = scales.of("foos").await.unwrap_err().to_string();
    assert_eq!(plain, "the resource foos of sample.example.com/v1alpha1 has no subresource \"scale\"");
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    server.install_crds([definition(&json!({"scale": scale}))]).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(10)).await;

    let foos = scales.of("fo").await.unwrap().namespace("default");
    let a = json!({
        "apiVersion": "sample.example.com/v1alpha1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"replicas": 1}
    });
    client.dynamic(foos.resource()).namespace("default").create(&a.into()).await.unwrap();
    let mut scale = foos.get("a").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
    scale.spec.as_mut().unwrap().replicas = Some(4);
    assert_eq!(foos.update(&scale).await.unwrap().spec.unwrap().replicas, Some(4));
    let by_kind = mapper.mapping("sample.example.com", "Foo", &[]).await.unwrap();
    let again = scales.of_resource(&by_kind).await.unwrap().namespace("default").get("a").await.unwrap();
    assert_eq!(again.spec.unwrap().replicas, Some(4));

    let none = scales.of("configmaps").await.unwrap_err();
    assert_eq!(none.to_string(), "the resource configmaps of v1 has no subresource \"scale\"");
}
