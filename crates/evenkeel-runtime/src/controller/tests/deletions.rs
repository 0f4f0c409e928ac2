//! Keys without an object.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_reconciled_only_by_on_deleted() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let reconcile = {
        let log = log.clone();
        move |object: Obj<ConfigMap>, _| {
            log.note(format!("live {}", object.key().name()));
            async { Ok(Next::done()) }
        }
    };
    let running = start(controller(&client, "not-deleted"), reconcile.clone());
    create(&client, "a").await;
    settle().await;
    client.api::<ConfigMap>().namespace("default").delete("a").await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["live a"]);
    running.end().await.unwrap();

    let built = controller(&client, "deleted").on_deleted({
        let log = log.clone();
        move |key, ctx| {
            let before = log.note(format!("deleted {}, attempt {}", key.name(), ctx.attempt()));
            assert_eq!(&key, ctx.key());
            async move {
                if before == 0 && ctx.attempt() == 1 { Err(ReconcileError::new("again")) } else { Ok(Next::done()) }
            }
        }
    });
    let running = start(built, reconcile);
    create(&client, "a").await;
    settle().await;
    client.api::<ConfigMap>().namespace("default").delete("a").await.unwrap();
    pass(secs(1)).await;
    assert_eq!(log.take(), ["live a", "deleted a, attempt 1", "deleted a, attempt 2"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_is_reconciled_during_its_deletion() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let running = start(controller(&client, "finalized"), {
        let log = log.clone();
        move |object, ctx| {
            log.note(if object.deletion_timestamp().is_some() { "deleting" } else { "live" });
            async move {
                if object.deletion_timestamp().is_some() {
                    let patch = evenkeel_client::Patch::merge(&json!({"metadata": {"finalizers": null}}));
                    ctx.api::<ConfigMap>().namespace("default").patch(ctx.key().name(), &patch).await?;
                }
                Ok(Next::done())
            }
        }
    });
    let finalized: ConfigMap = value(json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}));
    let configs = client.api::<ConfigMap>().namespace("default");
    configs.create(&finalized).await.unwrap();
    settle().await;
    configs.delete("a").await.unwrap();
    pass(secs(1)).await;
    assert_eq!(log.take(), ["live", "deleting"]);
    assert!(configs.get("a").await.unwrap_err().is_not_found());
    running.end().await.unwrap();
}
