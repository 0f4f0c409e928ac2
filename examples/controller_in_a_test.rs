//! A controller and its test: an API server in the process, a network that misbehaves, and waiting instead of sleeping.
//!
//! `cargo run -p evenkeel-examples --example controller_in_a_test`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::{InformerFactory, Lister, ObjectKey};
use evenkeel_client::Client;
use evenkeel_examples::Outcome;
use evenkeel_queue::{Delayed, WorkQueue};
use evenkeel_runtime::events::fake;
use evenkeel_runtime::helpers::{
    CreateOrUpdate, Finalized, Finalizers, create_or_update, is_controlled_by, set_controller_reference,
};
use evenkeel_runtime::testing::eventually;
use evenkeel_runtime::{EventRecorder, EventType, enqueue_key, enqueue_owner};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

/// Gives every config map a secret of the same name, and says goodbye when the map goes.
struct Controller {
    client: Client,
    maps: Lister<ConfigMap>,
    finalizers: Finalizers<ConfigMap>,
    recorder: EventRecorder,
}

impl Controller {
    fn new(client: &Client, maps: Lister<ConfigMap>, recorder: EventRecorder) -> Outcome<Self> {
        let mut finalizers = Finalizers::new();
        finalizers.register("example.com/goodbye", {
            let recorder = recorder.clone();
            move |map| {
                recorder.event(&map, EventType::Normal, "Goodbye", "nothing is left of it");
                async { Ok(()) }
            }
        })?;
        Ok(Controller { client: client.clone(), maps, finalizers, recorder })
    }

    async fn reconcile(&self, key: &ObjectKey) -> Outcome {
        let Some(map) = self.maps.get(key) else { return Ok(()) };
        let Finalized::Live { object: map, .. } = self.finalizers.finalize(&self.client, &map).await? else {
            return Ok(());
        };
        let secrets = self.client.api::<Secret>().namespace(key.namespace().unwrap_or_default());
        let mut secret = Secret::default();
        secret.metadata.name = Some(key.name().to_owned());
        secret.metadata.namespace = key.namespace().map(str::to_owned);
        set_controller_reference(&mut secret, &map)?;
        let wanted = secret.metadata.owner_references.clone();
        let done = create_or_update(&secrets, &secret, |secret| secret.metadata.owner_references = wanted.clone());
        if let CreateOrUpdate::Created(_) = done.await? {
            self.recorder.event(&map, EventType::Normal, "Created", "made a secret");
        }
        Ok(())
    }
}

/// What a test of it looks like.
#[tokio::main]
async fn main() -> Outcome {
    let server = ApiServer::builder().in_process_only().start().await?;
    // Every watch breaks after two events, and some calls fail: a controller has to live with that.
    server.faults().drop_watch_after(2);
    server.faults().fail_next(3, 503, None);
    let client = server.client();

    let informers = InformerFactory::builder(&client).build();
    let (maps, secrets) = (informers.of::<ConfigMap>(), informers.of::<Secret>());
    let queue = WorkQueue::rate_limited("maps");
    maps.add_handler(enqueue_key(&queue))?;
    secrets.add_handler(enqueue_owner::<ConfigMap>(&queue))?;
    let (recorder, mut events) = fake::recorder(10);
    let controller = Arc::new(Controller::new(&client, maps.lister(), recorder)?);
    informers.start();
    informers.wait_for_sync().await?;
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.next().await {
                match controller.reconcile(item.key()).await {
                    Ok(()) => item.forget(),
                    Err(error) => item.retry(error),
                }
            }
        }
    });

    let (all_maps, all_secrets) =
        (client.api::<ConfigMap>().namespace("default"), client.api::<Secret>().namespace("default"));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "blue"}}))?;
    let map = all_maps.create(&map).await?;
    let secret = eventually("there is a secret", async || all_secrets.get("blue").await.ok()).await?;
    assert!(is_controlled_by(&secret, &map));
    println!("{} has a secret", map.key());

    all_secrets.delete("blue").await?;
    let is_new = async || all_secrets.get("blue").await.ok().filter(|new| new.uid() != secret.uid());
    eventually("the secret comes back", is_new).await?;
    println!("it came back when it was deleted");

    all_maps.delete("blue").await?;
    let is_gone = async || all_maps.get("blue").await.err().filter(|error| error.is_not_found());
    eventually("the map goes", is_gone).await?;
    assert_eq!(events.lines().last().map(String::as_str), Some("Normal Goodbye nothing is left of it"));
    println!("it went, and its finalizer has run");

    queue.drain(Delayed::Discard).await?;
    worker.await?;
    Ok(())
}
