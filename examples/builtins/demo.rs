//! The program on an embedded API server, which calls no webhooks: this program calls them instead.

use evenkeel::apiserver::ApiServer;
use evenkeel::testing::eventually;
use evenkeel::webhook::certificates::Authority;
use evenkeel::webhook::testing::HookTester;
use serde_json::json;
use tokio::sync::oneshot;

use super::*;

#[expect(clippy::disallowed_methods, reason = "certificates are valid in real time")]
pub(super) async fn run() -> Outcome {
    let server = ApiServer::start().await?;
    let client = server.client();
    let now = evenkeel::k8s_openapi::jiff::Timestamp::now();
    let certificate = Authority::generate(now)?.issue(&["hooks.example.svc"], now)?.serve()?;
    let webhooks = WebhookServer::builder().certificate(&certificate).address("127.0.0.1:0");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(program(&client, webhooks)?.run(stopped));

    println!("a user creates a ReplicaSet");
    let sets = client.api::<ReplicaSet>().namespace("default");
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
    });
    sets.create(&serde_json::from_value(set)?).await?;
    let labelled = async || sets.get("web").await.ok().filter(|set| set.label("hello") == Some("world"));
    eventually("the set has the label", labelled).await?;

    println!("the webhooks review a pod");
    let pod = json!({"metadata": {"name": "web-0", "namespace": "default"}, "spec": {"containers": [{"name": "app"}]}});
    let refused = HookTester::new(validate()).create(&pod).await?;
    println!("  as it is: {}", refused.status.message);
    let annotated = HookTester::new(annotate()).create(&pod).await?.object;
    println!("  after the first webhook: {}", annotated["metadata"]["annotations"]);
    assert!(!refused.allowed && HookTester::new(validate()).create(&annotated).await?.allowed);

    let _ = stop.send(());
    Ok(running.await??)
}
