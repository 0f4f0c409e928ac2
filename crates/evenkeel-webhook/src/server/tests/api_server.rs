//! The hooks of a server, called by an API server over TLS.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Client;
use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::*;
use crate::WebhookTarget;
use crate::certificates::Authority;

/// Starts an API server and a webhook server, and applies the configurations of the latter.
async fn start(server: WebhookServerBuilder) -> (ApiServer, Client, RunningWebhookServer) {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let namespace = serde_json::from_value(json!({"metadata": {"name": "shop-system"}})).unwrap();
    client.api::<Namespace>().create(&namespace).await.unwrap();
    let authority = Authority::generate(crate::server::now()).unwrap();
    let pair = authority.issue(&["hooks.shop-system.svc"], crate::server::now()).unwrap().serve().unwrap();
    let server = server.certificate(&pair).address("127.0.0.1:0").build().unwrap();
    let running = server.start().await.unwrap();
    api.route_service("shop-system", "hooks", 443, running.address().unwrap());
    let target = WebhookTarget::service("shop", "shop-system", "hooks").ca_bundle(authority.certificate());
    server.configurations(&target).unwrap().apply(&client).await.unwrap();
    (api, client, running)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

#[tokio::test]
async fn awh_017_an_api_server_calls_the_hooks_of_a_webhook_server() {
    let builder = WebhookServer::builder()
        .hook(Hook::mutating::<ConfigMap>().apply(|map, _| {
            map.data.get_or_insert_default().entry("b".to_owned()).or_insert_with(|| "2".to_owned());
            Ok(())
        }))
        .hook(
            Hook::validating::<ConfigMap>()
                .on_write(|map, _| async move {
                    // The mutating hook comes first.
                    match map.data.as_ref().and_then(|data| data.get("b")) {
                        Some(value) if value == "2" => Ok(()),
                        _ => Err("b must be 2".into()),
                    }
                })
                .on_delete(|_, _| async { Err::<(), _>("maps are kept".into()) }),
        );
    let (_api, client, running) = start(builder).await;
    let maps = client.api::<ConfigMap>().namespace("default");
    let created = maps.create(&config_map("a")).await.unwrap();
    assert_eq!(created.typed().unwrap().data.as_ref().unwrap()["b"], "2");
    let mut wrong = config_map("b");
    wrong.data.get_or_insert_default().insert("b".to_owned(), "3".to_owned());
    let refused = maps.create(&wrong).await.unwrap_err();
    let status = refused.status().unwrap();
    let name = "validate--v1-configmap.hooks.shop-system.svc";
    assert_eq!(
        (status.code, &*status.message),
        (403, &*format!("admission webhook {name:?} denied the request: b must be 2"))
    );
    assert!(maps.delete("a").await.unwrap_err().status().unwrap().message.ends_with("maps are kept"));

    // A server that has ended fails the requests that it should review.
    running.shutdown().await;
    let failed = maps.create(&config_map("c")).await.unwrap_err();
    assert_eq!(failed.status().unwrap().code, 500);
}

/// Opens a connection through the proxy of a pod.
async fn get(client: &Client, path: &str) -> Result<evenkeel_client::Response, evenkeel_client::Error> {
    let path = format!("/api/v1/namespaces/default/pods/web/proxy/{path}");
    client.request(http::Method::GET, evenkeel_client::Path::raw(&path)).max_retries(0).send().await
}

#[tokio::test]
async fn awh_005_connections_reach_the_hooks_of_a_webhook_server() {
    let builder = WebhookServer::builder().hook(Hook::validating::<Pod>().subresource("proxy").on_connect(
        |request| async move {
            assert_eq!(*request.operation(), crate::Operation::Connect);
            let options: Option<Value> = request.object()?;
            match options.as_ref().and_then(|options| options["path"].as_str()) {
                Some("/public") => Ok(()),
                _ => Err("only /public is public".into()),
            }
        },
    ));
    let (_api, client, running) = start(builder).await;
    let refused = get(&client, "secret").await.unwrap_err();
    assert!(refused.status().unwrap().message.ends_with("only /public is public"), "{refused}");
    let passed = get(&client, "public").await.unwrap_err();
    assert_eq!(passed.status().unwrap().code, 501, "nothing listens behind a pod");
    running.shutdown().await;
}
