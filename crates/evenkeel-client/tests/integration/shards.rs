//! Sharded lists and watches against the embedded server.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::watch::Selection;
use evenkeel_client::{ListParams, RetryWatcher, WatchParams, Wire};
use evenkeel_core::WatchEvent;
use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

fn upper_half() -> ShardSelector {
    ShardSelector::new(ShardField::Uid, ShardRange::new(1 << 63, 1 << 64).unwrap())
}

/// Returns a server with 40 ConfigMaps and the names of those in the upper half.
async fn start(sharded: bool) -> (ApiServer, Vec<String>) {
    let server = ApiServer::builder().in_process_only().sharded_lists(sharded).start().await.unwrap();
    let maps = server.client().core_v1().config_maps("default");
    let mut selected = Vec::new();
    for index in 0..40 {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("m{index:02}")}})).unwrap();
        let created = maps.create(&map).await.unwrap();
        if upper_half().matches(created.header()) {
            selected.push(created.key().name().to_owned());
        }
    }
    assert!(selected.len() > 4, "of 40 random uids about 20 are in the upper half");
    (server, selected)
}

#[tokio::test(start_paused = true)]
async fn shd_013_the_metadata_of_a_list_has_the_selector_in_json_and_protobuf() {
    let (server, selected) = start(true).await;
    for wire in [Wire::Json, Wire::Protobuf] {
        let maps = server.client().core_v1().config_maps("default").wire(wire);
        let list = maps.list(&ListParams::default().shards(upper_half())).await.unwrap();
        assert_eq!(list.iter().map(|map| map.key().name()).collect::<Vec<_>>(), selected);
        assert_eq!(list.meta.shard_selector.as_deref().map(str::parse), Some(Ok(upper_half())));
        let whole = maps.list(&ListParams::default()).await.unwrap();
        assert_eq!((whole.len(), whole.meta.shard_selector), (40, None));
    }
}

#[tokio::test(start_paused = true)]
async fn shd_018_and_she_005_every_page_repeats_the_selector() {
    let (server, selected) = start(true).await;
    let maps = server.client().core_v1().config_maps("default");
    let listing = maps.pages(&ListParams::default().shards(upper_half()).limit(3)).list().await.unwrap();
    assert!(listing.paginated);
    assert_eq!(listing.list.iter().map(|map| map.key().name()).collect::<Vec<_>>(), selected);
}

#[tokio::test(start_paused = true)]
async fn shd_024_a_server_without_sharded_lists_returns_everything() {
    let (server, selected) = start(false).await;
    let maps = server.client().core_v1().config_maps("default");
    let list = maps.list(&ListParams::default().shards(upper_half())).await.unwrap();
    assert_eq!((list.len(), list.meta.shard_selector.as_deref()), (40, None));
    let matching = list.iter().filter(|map| upper_half().matches(map.header()));
    assert_eq!(matching.map(|map| map.key().name()).collect::<Vec<_>>(), selected);
}

#[tokio::test(start_paused = true)]
async fn shd_002_watches_have_selected_objects_only() {
    let (server, selected) = start(true).await;
    let maps = server.client().core_v1().config_maps("default");
    let mut events = maps.watch(&WatchParams::default().initial_events().shards(upper_half())).await.unwrap();
    let mut names = Vec::new();
    loop {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(map) => names.push(map.key().name().to_owned()),
            WatchEvent::Bookmark { initial_events_end: true, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    names.sort();
    assert_eq!(names, selected);

    let version = maps.list(&ListParams::default()).await.unwrap().meta.resource_version;
    let mut changes = RetryWatcher::new(&version, Selection::of(&maps).shards(upper_half())).unwrap();
    for index in 0..40 {
        maps.delete(&format!("m{index:02}")).await.unwrap();
    }
    for name in &selected {
        match changes.next().await.unwrap() {
            WatchEvent::Deleted(map) => assert_eq!(map.key().name(), name),
            other => panic!("{other:?}"),
        }
    }
}
