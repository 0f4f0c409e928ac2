//! Concurrent requests on several threads.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::HttpVersions;
use evenkeel_client::{Api, Client, ListParams, WatchParams};
use evenkeel_core::WatchEvent;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use crate::support::{config, config_map, deserted, reached, soon};

async fn start(http: HttpVersions) -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut config = config(&server);
    config.connections.http = http;
    let maps = Client::new(config).unwrap().core_v1().config_maps("default");
    (server, maps)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_writes_and_reads_share_a_connection_and_its_window() {
    for http in [HttpVersions::Any, HttpVersions::Http1Only] {
        let (server, maps) = start(http).await;
        let mut writing = JoinSet::new();
        for n in 0..20 {
            let maps = maps.clone();
            writing.spawn(async move {
                let name = format!("large-{n:02}");
                let mut large = config_map(&name);
                // Text that does not compress well.
                let text: String =
                    (0..200_000u32).map(|i| char::from(b'a' + (i.wrapping_mul(i + n) % 23) as u8)).collect();
                large.data.as_mut().unwrap().insert("k".into(), text.clone());
                maps.create(&large).await.unwrap();
                let read = maps.get(&name).await.unwrap();
                assert_eq!(read.path("data.k").unwrap().unwrap().text(), text);
            });
        }
        soon(writing.join_all()).await;
        assert_eq!(soon(maps.list(&ListParams::default())).await.unwrap().len(), 20);
        if http == HttpVersions::Any {
            assert_eq!(server.connections().accepted, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_cancelled_at_any_point_leaves_no_state() {
    for http in [HttpVersions::Any, HttpVersions::Http1Only] {
        let (server, maps) = start(http).await;
        maps.create(&config_map("a")).await.unwrap();
        let mut crowd = JoinSet::new();
        for seed in 0..8 {
            let maps = maps.clone();
            crowd.spawn(async move {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..40 {
                    let patience = random.usize(0..40);
                    let kind = random.u8(0..3);
                    let maps = maps.clone();
                    let call = tokio::spawn(async move {
                        match kind {
                            0 => drop(maps.get("a").await.unwrap()),
                            1 => drop(maps.list(&ListParams::default()).await.unwrap()),
                            _ => {
                                let mut watch = maps.watch(&WatchParams::default()).await.unwrap();
                                assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
                            }
                        }
                    });
                    for _ in 0..patience {
                        tokio::task::yield_now().await;
                    }
                    if random.bool() {
                        call.abort();
                    }
                    if let Err(error) = call.await {
                        assert!(error.is_cancelled(), "{error}");
                    }
                }
            });
        }
        soon(crowd.join_all()).await;
        soon(maps.get("a").into_future()).await.unwrap();
        reached(|| server.stats().watchers == 0).await;
        if http == HttpVersions::Any {
            assert_eq!(server.connections().accepted, 2, "one for calls, one for watches, all the time");
        }
        drop(maps);
        deserted(&server).await;
    }
}
