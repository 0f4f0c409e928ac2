//! A controller and its tests: an embedded API server, injected faults, and waiting instead of sleeping.
//!
//! ```text
//! cargo test -p evenkeel-examples --example controller_in_a_test     # the tests, which are what to copy
//! cargo run -p evenkeel-examples --example controller_in_a_test      # the same as a program
//! ```
//!
//! In Go: controller-runtime's `envtest`, which starts the binaries of a server, with `Eventually` of gomega; or client-go's
//! `fake.NewClientset`, which is not a server. In kube-rs: a mocked service, or a cluster.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use evenkeel::apiserver::{ApiServer, Faults};
use evenkeel::controller::ControllerError;
use evenkeel::events::fake::{self, FakeEvents};
use evenkeel::helpers::{Finalized, Finalizers, RegisterError, is_controlled_by, set_controller_reference};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The controller under test: creates a secret for every config map, and records an event when the map is deleted.
struct SecretKeeper {
    finalizers: Finalizers<ConfigMap>,
    recorder: EventRecorder,
}

impl SecretKeeper {
    fn new(recorder: EventRecorder) -> Result<Self, RegisterError> {
        let mut finalizers = Finalizers::new();
        finalizers.register("example.com/goodbye", {
            let recorder = recorder.clone();
            move |map, _| {
                recorder.event(&map, EventType::Normal, "Goodbye", "cleaned up");
                async { Ok(()) }
            }
        })?;
        Ok(SecretKeeper { finalizers, recorder })
    }

    async fn run(self, client: &Client, shutdown: impl Future + Send) -> Result<(), ControllerError> {
        let keeper = Arc::new(self);
        Controller::<ConfigMap>::new(client)
            .owns::<Secret>()
            .run(shutdown, move |map, ctx| {
                let keeper = Arc::clone(&keeper);
                async move { keeper.reconcile(map, ctx).await }
            })
            .await
    }

    async fn reconcile(&self, map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
        let Finalized::Live { object: map, .. } = self.finalizers.finalize(&ctx, &map).await? else {
            return Ok(Next::done());
        };
        match ctx.lister::<Secret>()?.get(map.key()) {
            Some(secret) if is_controlled_by(&secret, &map) => {}
            Some(_) => {
                self.recorder.event(&map, EventType::Warning, "Taken", "a secret of that name has another owner");
                // Retried with backoff: there is no notification when a secret of another owner is deleted.
                return Err(ReconcileError::new(format!("{} has another owner", map.key())));
            }
            None => {
                let mut secret = Secret::default();
                secret.metadata.name = Some(map.key().name().to_owned());
                secret.metadata.namespace = map.key().namespace().map(str::to_owned);
                set_controller_reference(&mut secret, &map)?;
                let secrets = ctx.api::<Secret>().namespace(map.key().namespace().unwrap_or_default());
                secrets.create(&secret).await?;
                self.recorder.event(&map, EventType::Normal, "Created", "created a secret");
            }
        }
        Ok(Next::done())
    }
}

/// The environment of a test: a server of its own and the running controller. Nothing is shared, so tests run concurrently.
struct World {
    server: ApiServer,
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    events: FakeEvents,
    stop: oneshot::Sender<()>,
    controller: JoinHandle<Result<(), ControllerError>>,
}

impl World {
    async fn start() -> Outcome<Self> {
        // No socket: faster, and everything to wait for is in this process.
        // Without the ConfigMaps of kube-system: the controller is for those of all namespaces.
        let server = ApiServer::builder().in_process_only().bootstrap(false).start().await?;
        let client = server.client();
        let (recorder, events) = fake::recorder(10);
        let keeper = SecretKeeper::new(recorder)?;
        let (stop, stopped) = oneshot::channel();
        let maps = client.api::<ConfigMap>().namespace("default");
        let secrets = client.api::<Secret>().namespace("default");
        let controller = tokio::spawn(async move { keeper.run(&client, stopped).await });
        Ok(World { server, maps, secrets, events, stop, controller })
    }

    async fn create_map(&self, name: &str) -> Outcome<Obj<ConfigMap>> {
        Ok(self.maps.create(&serde_json::from_value(json!({"metadata": {"name": name}}))?).await?)
    }

    /// Waits for the secret of a map.
    async fn secret_of(&self, map: &Obj<ConfigMap>) -> Outcome<Obj<Secret>> {
        let name = map.key().name();
        Ok(eventually(format!("{name} has a secret"), async || self.secrets.get(name).await.ok()).await?)
    }

    /// Stops the controller as a program would, and returns its events.
    async fn end(mut self) -> Outcome<Vec<String>> {
        // If it has ended already, its result is the error.
        let _ = self.stop.send(());
        self.controller.await??;
        Ok(self.events.lines())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let world = World::start().await?;
    // Every watch closes after two events, and the first writes of secrets fail: a controller must tolerate both.
    world.server.faults().drop_watch_after(2);
    world.server.faults().add(Faults::parse("status:code=503,times=3,verb=create,resource=secrets")?);

    let map = world.create_map("blue").await?;
    let secret = world.secret_of(&map).await?;
    println!("{} was created, and has a secret", map.key());
    assert!(is_controlled_by(&secret, &map));

    world.secrets.delete("blue").await?;
    let replaced = async || world.secrets.get("blue").await.ok().filter(|new| new.uid() != secret.uid());
    eventually("the secret is created again", replaced).await?;
    println!("its secret was deleted and created again");

    world.maps.delete("blue").await?;
    let gone = async || world.maps.get("blue").await.err().filter(evenkeel::Error::is_not_found);
    eventually("the map is deleted", gone).await?;
    println!("it was deleted, and its finalizer has run");

    let events = world.end().await?;
    println!("events: {}", events.join("; "));
    assert_eq!(events.last().map(String::as_str), Some("Normal Goodbye cleaned up"));
    Ok(())
}

/// Time is paused in all of them: it advances to the next timer, so backoff takes no time.
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_map_gets_a_secret_that_it_owns() -> Outcome {
        let world = World::start().await?;
        let map = world.create_map("blue").await?;
        assert!(is_controlled_by(&world.secret_of(&map).await?, &map));
        assert_eq!(world.end().await?, ["Normal Created created a secret"]);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_secret_is_created_again_though_watches_close() -> Outcome {
        let world = World::start().await?;
        world.server.faults().drop_watch_after(1);
        let map = world.create_map("blue").await?;
        let first = world.secret_of(&map).await?;
        world.secrets.delete("blue").await?;
        let another = async || world.secrets.get("blue").await.ok().filter(|secret| secret.uid() != first.uid());
        eventually("another secret exists", another).await?;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_of_another_owner_is_left_unchanged() -> Outcome {
        let mut world = World::start().await?;
        let theirs: Secret = serde_json::from_value(json!({"metadata": {"name": "blue"}}))?;
        let theirs = world.secrets.create(&theirs).await?;
        world.create_map("blue").await?;
        let event = eventually("a warning event is recorded", async || world.events.lines().pop()).await?;
        assert_eq!(event, "Warning Taken a secret of that name has another owner");
        assert_eq!(world.secrets.get("blue").await?.resource_version(), theirs.resource_version());
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn no_map_is_lost_while_secrets_cannot_be_written() -> Outcome {
        let world = World::start().await?;
        let faults = world.server.faults();
        let outage = faults.add(Faults::parse("status:code=500,verb=create,resource=secrets")?);
        let map = world.create_map("blue").await?;
        let attempts = || faults.report().iter().find(|rule| rule.id == outage).map_or(0, |rule| rule.fired);
        eventually("it was tried ten times", async || (attempts() >= 10).then_some(())).await?;
        assert!(world.secrets.get("blue").await.is_err_and(|error| error.is_not_found()));

        faults.remove(outage);
        assert!(is_controlled_by(&world.secret_of(&map).await?, &map));
        assert_eq!(world.end().await?, ["Normal Created created a secret"]);
        Ok(())
    }
}
