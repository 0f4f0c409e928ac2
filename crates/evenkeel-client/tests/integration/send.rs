//! The futures of this crate are `Send`.

use std::sync::Arc;

use evenkeel_client::discovery::RestMapper;
use evenkeel_client::wait::conditions::exists;
use evenkeel_client::watch::Selection;
use evenkeel_client::{
    Client, Error, ListParams, Patch, Path, RetryWatcher, WatchParams, create_or_patch, create_or_update,
    retry_on_conflict, wait_for,
};
use evenkeel_core::{ResourceInfo, ResourceVersion};
use http::Method;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

fn send<T: Send>(_: T) {}
fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}

/// Compiling is the test; nothing runs.
#[test]
fn every_future_can_be_spawned() {
    #[allow(dead_code)]
    fn calls(client: &Client, info: &Arc<ResourceInfo>, mapper: &RestMapper, version: &ResourceVersion) {
        let pods = client.api::<Pod>().namespace("default");
        let maps = client.core_v1().config_maps("default");
        let (map, patch) = (ConfigMap::default(), Patch::merge(&()));
        shared(client);
        shared(&pods);
        shared(mapper);
        send(pods.get("a").into_future());
        send(pods.delete("a").into_future());
        send(maps.create(&map).into_future());
        send(maps.patch("a", &patch).send());
        send(pods.list(&ListParams::default()));
        send(pods.watch(&WatchParams::default()));
        send(async { pods.watch(&WatchParams::default()).await?.next().await.transpose() });
        send(pods.logs("a").into_future());
        send(pods.logs("a").stream());
        send(pods.exec("a", ["b"]).into_future());
        send(pods.exec("a", ["b"]).output());
        send(pods.port_forward("a").connect(80));
        send(pods.port_forward("a").listen([80]).into_future());
        send(async { pods.attach("a").await?.wait().await });
        send(pods.copy_to("a", "b", "c").into_future());
        send(pods.copy_from("a", "b", "c").into_future());
        send(pods.debug("a", Default::default()).into_future());
        send(pods.pages(&ListParams::default()).list());
        send(async { pods.pages(&ListParams::default()).stream().next().await });
        send(client.dynamic(info).get("a").into_future());
        send(client.request(Method::GET, Path::raw("/version")).send());
        send(retry_on_conflict(async || pods.get("a").await));
        send(create_or_update(&maps, &map, |_| {}));
        send(create_or_patch(&maps, &map, |_| {}));
        send(wait_for(&pods, "a", exists()));
        send(async {
            let mut changes = RetryWatcher::new(version, Selection::of(&pods))?;
            Ok::<_, Error>(changes.next().await)
        });
        send(client.discovery().groups_and_resources());
        send(mapper.resolve("deploy"));
        send(async { client.scales(mapper).of("deploy").await?.update(&Scale::default()).await });
        send(Client::infer());
    }
}
