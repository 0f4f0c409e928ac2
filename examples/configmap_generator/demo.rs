//! The controller on an embedded API server: this program is also its users.

use evenkeel::apiserver::ApiServer;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::oneshot;

use super::*;

pub(super) async fn run() -> Outcome {
    let server = ApiServer::start().await?;
    server.install_crds([ConfigMapGenerator::crd()]).await?;
    let client = server.client();
    let (controller, _) = program(&client);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(controller.run(stopped, reconcile));

    let generators = client.api::<ConfigMapGenerator>().namespace("default");
    let maps = client.api::<ConfigMap>().namespace("default");
    let content = async || maps.get("motd").await.ok()?.typed().ok()?.data.as_ref()?.get("content").cloned();

    println!("a user creates a generator");
    let spec = ConfigMapGeneratorSpec { content: "hello".to_owned() };
    generators.create(&ConfigMapGenerator::new("motd", spec)).await?;
    eventually("the map has the content", async || content().await.filter(|text| text == "hello")).await?;

    println!("the user changes it");
    generators.patch("motd", &Patch::merge(&json!({"spec": {"content": "good bye"}}))).await?;
    eventually("the map has the new content", async || content().await.filter(|text| text == "good bye")).await?;

    println!("another client deletes the map");
    let deleted = maps.get("motd").await?;
    maps.delete("motd").await?;
    let another = async || maps.get("motd").await.ok().filter(|map| map.uid() != deleted.uid());
    eventually("the map is there again", another).await?;

    let _ = stop.send(());
    running.await??;
    Ok(())
}
