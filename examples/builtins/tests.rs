//! The program on an embedded API server, in virtual time and without sockets; and its hooks.

use evenkeel::apiserver::ApiServer;
use evenkeel::testing::eventually;
use evenkeel::webhook::testing::HookTester;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;

fn set() -> Outcome<ReplicaSet> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
    }))?)
}

#[tokio::test(start_paused = true)]
async fn a_set_is_labelled_once_and_again_if_the_label_is_removed() -> Outcome {
    let server = ApiServer::builder().in_process_only().start().await?;
    let (client, (stop, stopped)) = (server.client(), oneshot::channel::<()>());
    let running = tokio::spawn(program(&client, WebhookServer::builder().address("0"))?.run(stopped));
    let sets = client.api::<ReplicaSet>().namespace("default");
    sets.create(&set()?).await?;
    let labelled = async || sets.get("web").await.ok().filter(|set| set.label("hello") == Some("world"));
    let first = eventually("the set has the label", labelled).await?;
    assert_eq!(first.label("app"), Some("web"));

    // Its own write is an event too, and leads to no other write.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(sets.get("web").await?.resource_version(), first.resource_version());

    sets.patch("web", &Patch::merge(&json!({"metadata": {"labels": {"hello": null}}}))).await?;
    eventually("the set has the label again", labelled).await?;
    let _ = stop.send(());
    Ok(running.await??)
}

#[tokio::test]
async fn the_defaulter_makes_what_the_validator_demands() -> Outcome {
    let pod =
        |annotations: Value| json!({"metadata": {"name": "a", "namespace": "default", "annotations": annotations}});
    let annotated = HookTester::new(annotate()).create(&pod(json!({"a": "b"}))).await?;
    assert_eq!(annotated.object["metadata"]["annotations"], json!({"a": "b", "example.com/reviewed": "yes"}));

    let validate = HookTester::new(validate());
    assert!(validate.create(&annotated.object).await?.allowed);
    let refused = validate.create(&pod(json!({}))).await?;
    assert_eq!((refused.allowed, &*refused.status.message), (false, "missing annotation example.com/reviewed"));
    let refused = validate.update(&annotated.object, &pod(json!({"example.com/reviewed": "no"}))).await?;
    assert_eq!((refused.allowed, &*refused.status.message), (false, "annotation example.com/reviewed is not \"yes\""));
    Ok(())
}
