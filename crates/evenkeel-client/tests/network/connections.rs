//! Number, sharing and lifetime of connections.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::HttpVersions;
use evenkeel_client::{Api, Client, ListParams, WatchParams, WatchStream};
use evenkeel_core::WatchEvent;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use crate::support::{accepted_since, client, config, config_map, deserted, reached, soon};

async fn secure() -> (ApiServer, Client) {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let client = client(&server);
    (server, client)
}

/// Opens this many watches concurrently.
async fn open(maps: &Api<ConfigMap>, count: usize) -> Vec<WatchStream<ConfigMap>> {
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let maps = maps.clone();
        opening.spawn(async move { maps.watch(&WatchParams::default().without_bookmarks()).await });
    }
    soon(opening.join_all()).await.into_iter().map(Result::unwrap).collect()
}

/// Creates an object, which all watches deliver.
async fn tell_all(maps: &Api<ConfigMap>, watches: &mut [WatchStream<ConfigMap>], name: &str) {
    soon(maps.create(&config_map(name)).into_future()).await.unwrap();
    for watch in watches {
        let event = soon(watch.next()).await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(map) if map.key().name() == name));
    }
}

#[tokio::test]
async fn fifty_watches_share_one_connection() {
    let (server, client) = secure().await;
    let maps = client.core_v1().config_maps("default");
    let mut watches = open(&maps, 50).await;
    assert_eq!(server.connections().accepted, 1, "and no other connection was needed");
    tell_all(&maps, &mut watches, "a").await;
    assert_eq!(server.connections().accepted, 2, "one for watches, one for calls");
    assert_eq!(server.connections().open, 2);
    assert_eq!(server.requests().len(), 51);
    watches.clear();
    maps.delete("a").await.unwrap();
    tell_all(&maps, &mut open(&maps, 50).await, "b").await;
    assert_eq!(server.connections().accepted, 2, "the next fifty use the same ones");
}

#[tokio::test]
async fn watches_beyond_the_stream_limit_use_another_connection() {
    let (server, client) = secure().await;
    let maps = client.core_v1().config_maps("default");
    let mut watches = open(&maps, 120).await;
    assert_eq!(server.connections().accepted, 2, "a hundred, and twenty");
    tell_all(&maps, &mut watches, "a").await;
    watches.truncate(10);
    watches.extend(open(&maps, 60).await.into_iter().skip(60));
    assert_eq!(server.connections().accepted, 3, "what others left is used again");
}

#[tokio::test]
async fn without_http2_each_watch_has_its_connection() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut config = config(&server);
    config.connections.http = HttpVersions::Http1Only;
    let client = Client::new(config).unwrap();
    let maps = client.core_v1().config_maps("default");
    let mut watches = open(&maps, 20).await;
    assert_eq!(server.connections().accepted, 20);
    tell_all(&maps, &mut watches, "a").await;
    let before = server.connections();
    for _ in 0..20 {
        maps.get("a").await.unwrap();
    }
    assert_eq!(accepted_since(&server, before), 0, "calls one after the other use the connection there is");
    drop(watches);
    reached(|| server.connections().open == 1).await;
}

#[tokio::test]
async fn an_unread_watch_blocks_no_other() {
    for http in [HttpVersions::Any, HttpVersions::Http1Only] {
        let server = ApiServer::builder().tls().start().await.unwrap();
        let mut config = config(&server);
        config.connections.http = http;
        let client = Client::new(config).unwrap();
        let maps = client.core_v1().config_maps("default");
        let mut large = config_map("large");
        large.data.as_mut().unwrap().insert("k".into(), "x".repeat(900_000));
        let mut unread = open(&maps, 2).await;
        // Far more than any window or buffer holds.
        for n in 0..24 {
            large.metadata.name = Some(format!("large-{n:02}"));
            soon(maps.create(&large).into_future()).await.unwrap();
        }
        let list = soon(maps.list(&ListParams::default())).await.unwrap();
        assert_eq!(list.len(), 24);
        // The second watch has all of it while the first one is still unread.
        for watch in unread.iter_mut().rev() {
            for _ in 0..24 {
                assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
            }
        }
    }
}

#[tokio::test]
async fn dropping_the_client_closes_its_connections() {
    let (server, client) = secure().await;
    let maps = client.core_v1().config_maps("default");
    let mut watches = open(&maps, 3).await;
    tell_all(&maps, &mut watches, "a").await;
    assert_eq!(server.connections().open, 2);
    drop((client, maps));
    // Open watches are not disturbed.
    reached(|| server.connections().open == 1).await;
    server.client().core_v1().config_maps("default").create(&config_map("b")).await.unwrap();
    for watch in &mut watches {
        assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
    }
    drop(watches);
    deserted(&server).await;
}

#[tokio::test]
async fn dropping_a_call_that_hangs_leaves_the_connection_to_others() {
    let (server, client) = secure().await;
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).await.unwrap();
    server.faults().add(evenkeel_apiserver::Rule::new(evenkeel_apiserver::Action::Hang).times(1));
    let hanging = tokio::spawn({
        let maps = maps.clone();
        async move { maps.get("a").await }
    });
    reached(|| server.faults().report()[0].fired == 1).await;
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    soon(maps.get("a").into_future()).await.unwrap();
    assert_eq!(server.connections().accepted, 1);
}

#[test]
fn a_client_is_built_outside_of_runtimes_and_used_in_several() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let servers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = servers.block_on(ApiServer::builder().tls().start()).unwrap();
    let client = client(&server);
    let maps = client.core_v1().config_maps("default");
    let (first, second) = (runtime(), runtime());
    first.block_on(soon(maps.create(&config_map("a")).into_future())).unwrap();
    let mut watches = first.block_on(open(&maps, 1));
    // The first runtime exists but is not polled: this await cannot depend on it.
    second.block_on(soon(maps.get("a").into_future())).unwrap();
    let mut others = second.block_on(open(&maps, 1));
    assert_eq!(server.connections().accepted, 4);
    second.block_on(tell_all(&maps, &mut [], "b"));
    for (runtime, watch) in [(&first, &mut watches[0]), (&second, &mut others[0])] {
        for name in ["a", "b"] {
            let event = runtime.block_on(soon(watch.next())).unwrap().unwrap();
            assert!(matches!(event, WatchEvent::Added(map) if map.key().name() == name));
        }
    }
    drop(first);
    assert!(second.block_on(soon(watches[0].next())).is_none(), "its connection ended with its runtime");
    second.block_on(soon(maps.get("a").into_future())).unwrap();
    runtime().block_on(soon(maps.get("a").into_future())).unwrap();
    drop((watches, others, second, client, maps));
    servers.block_on(deserted(&server));
}
