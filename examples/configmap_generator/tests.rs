//! The controller on an embedded API server, in virtual time and without sockets.

use evenkeel::apiserver::ApiServer;
use evenkeel::helpers::is_controlled_by;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

struct World {
    /// Stops when it is dropped.
    _server: ApiServer,
    generators: Api<ConfigMapGenerator>,
    maps: Api<ConfigMap>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Outcome>,
}

impl World {
    async fn start() -> Outcome<(Self, impl Fn() + Send)> {
        let server = ApiServer::builder().in_process_only().start().await?;
        server.install_crds([ConfigMapGenerator::crd()]).await?;
        let client = server.client();
        let ((controller, reconcile_all), (stop, stopped)) = (program(&client), oneshot::channel::<()>());
        let running = tokio::spawn(async move { Ok(controller.run(stopped, reconcile).await?) });
        let generators = client.api::<ConfigMapGenerator>().namespace("default");
        let maps = client.api::<ConfigMap>().namespace("default");
        Ok((World { _server: server, generators, maps, stop, running }, reconcile_all))
    }

    async fn create(&self, content: &str) -> Outcome<Obj<ConfigMapGenerator>> {
        let spec = ConfigMapGeneratorSpec { content: content.to_owned() };
        Ok(self.generators.create(&ConfigMapGenerator::new("motd", spec)).await?)
    }

    async fn map_with(&self, content: &str) -> Outcome<Obj<ConfigMap>> {
        let found = async || {
            let map = self.maps.get("motd").await.ok()?;
            let typed = map.typed().ok()?;
            (typed.data.as_ref()?.get("content")? == content).then_some(map)
        };
        Ok(eventually(format!("the map has {content}"), found).await?)
    }

    async fn end(self) -> Outcome {
        let _ = self.stop.send(());
        self.running.await?
    }
}

#[tokio::test(start_paused = true)]
async fn a_map_follows_its_generator() -> Outcome {
    let (world, _) = World::start().await?;
    let generator = world.create("one").await?;
    assert!(is_controlled_by(&world.map_with("one").await?, &generator));
    world.generators.patch("motd", &Patch::merge(&json!({"spec": {"content": "two"}}))).await?;
    world.map_with("two").await?;
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_deleted_map_comes_back() -> Outcome {
    let (world, _) = World::start().await?;
    world.create("one").await?;
    let first = world.map_with("one").await?;
    world.maps.delete("motd").await?;
    let another = async || world.maps.get("motd").await.ok().filter(|map| map.uid() != first.uid());
    eventually("another map", another).await?;
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_content_of_another_manager_is_left_alone_until_it_is_given_up() -> Outcome {
    let (world, reconcile_all) = World::start().await?;
    let theirs = apply!(ConfigMap { data: { "content": "theirs" } });
    world.maps.apply("motd", "user", &theirs).await?;
    world.create("ours").await?;
    // Retries with backoff, and never forces.
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.map_with("theirs").await?;
    world.maps.patch("motd", &Patch::merge(&json!({"data": null}))).await?;
    reconcile_all();
    world.map_with("ours").await?;
    world.end().await
}
