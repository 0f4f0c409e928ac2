//! A small controller against a real server: informers, a queue, a worker, and what it owns.

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::{Event, InformerFactory, Lister, ObjectKey};
use evenkeel_client::{Client, Error};
use evenkeel_queue::{DrainDelayed, WorkQueue};
use evenkeel_runtime::{enqueue_key, enqueue_owner};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::sync::mpsc;

/// Creates one pod for every set.
async fn sync(key: &ObjectKey, sets: &Lister<ReplicaSet>, pods: &Lister<Pod>, client: &Client) -> Result<(), Error> {
    let (Some(set), Some(namespace)) = (sets.get(key), key.namespace()) else { return Ok(()) };
    if pods.get(key).is_some() {
        return Ok(());
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": key.name(), "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": key.name(), "uid": set.uid(), "controller": true
        }]},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]}
    }))
    .unwrap();
    match client.api::<Pod>().namespace(namespace).create(&pod).await {
        // The cache is stale; the event of the pod is on its way.
        Err(error) if error.is_already_exists() => Ok(()),
        created => created.map(drop),
    }
}

#[tokio::test]
async fn an_owned_object_is_recreated_after_its_deletion() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let informers = InformerFactory::builder(&client).build();
    let (sets, pods) = (informers.of::<ReplicaSet>(), informers.of::<Pod>());
    let queue = WorkQueue::rate_limited("sets");
    sets.add_handler(enqueue_key(&queue)).unwrap();
    pods.add_handler(enqueue_owner::<ReplicaSet>(&queue)).unwrap();
    let (report, mut created) = mpsc::unbounded_channel();
    pods.add_handler(move |event: Event<Pod>| {
        if let Event::Add { object, .. } = event {
            let _ = report.send(object.uid().to_owned());
        }
    })
    .unwrap();
    let running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let worker = tokio::spawn({
        let (queue, sets, pods, client) = (queue.clone(), sets.lister(), pods.lister(), client.clone());
        async move {
            while let Some(item) = queue.next().await {
                match sync(item.key(), &sets, &pods, &client).await {
                    Ok(()) => item.forget(),
                    Err(error) => item.retry(error),
                }
            }
        }
    });

    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}
    }))
    .unwrap();
    client.api::<ReplicaSet>().namespace("default").create(&set).await.unwrap();
    let first = created.recv().await.unwrap();
    client.api::<Pod>().namespace("default").delete("web").grace_period(0).await.unwrap();
    let second = created.recv().await.unwrap();
    assert_ne!(first, second);

    queue.drain(DrainDelayed::Discard).await.unwrap();
    worker.await.unwrap();
    running.drain().await;
}
