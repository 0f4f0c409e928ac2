//! Requests to an embedded API server through a service.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Path;
use evenkeel_core::WatchEvent;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn created_objects_can_be_read_listed_and_watched() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let info = client.resource::<ConfigMap>();
    let collection = || Path::resource(&info).namespace("default");

    let list = client.request(Method::GET, collection()).list::<ConfigMap>(&info).await.unwrap();
    let watch = client
        .request(Method::GET, collection())
        .query("watch", "true")
        .query("resourceVersion", list.meta.resource_version.as_str());
    let mut events = watch.watch::<ConfigMap>(&info).await.unwrap();

    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let answer = client.request(Method::POST, collection()).json(&body).send().await.unwrap();
    assert!(answer.was_created());
    let created = answer.object::<ConfigMap>(&info).unwrap();

    let read = client.request(Method::GET, collection().name("a")).send().await.unwrap();
    assert_eq!(read.object::<ConfigMap>(&info).unwrap().resource_version(), created.resource_version());
    let Some(Ok(WatchEvent::Added(seen))) = events.next().await else { panic!("the watch did not see it") };
    assert_eq!(seen.typed().unwrap().data.as_ref().unwrap()["k"], "v");

    let missing = client.request(Method::GET, collection().name("b")).send().await.unwrap_err();
    assert!(missing.is_not_found());
    let text = "GET /api/v1/namespaces/default/configmaps/b: configmaps \"b\" not found";
    assert_eq!(missing.to_string(), text);
}
