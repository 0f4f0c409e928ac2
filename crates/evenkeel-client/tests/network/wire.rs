//! Bytes on the wire, and their destination.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::{HttpVersions, ServerUrl};
use evenkeel_client::{Client, ListParams, WatchEnd, WatchParams};
use serde_json::json;

use crate::raw::{Act, Raw, answer, json as json_answer, say};
use crate::support::{Tap, at, config, config_map, deserted, error_chain, reached, soon};

const BOTH: [HttpVersions; 2] = [HttpVersions::Http1Only, HttpVersions::Any];

#[tokio::test]
async fn a_request_has_host_user_agent_and_accept_headers() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let raw = Raw::saying(json_answer(200, &map)).await;
    let below = format!("{}/k8s/clusters/c-1/", raw.url);
    let maps = Client::new(at(&below)).unwrap().core_v1().config_maps("default");
    soon(maps.get("a").into_future()).await.unwrap();
    let head = raw.received()[0].head.to_ascii_lowercase();
    assert!(head.starts_with("get /k8s/clusters/c-1/api/v1/namespaces/default/configmaps/a http/1.1\r\n"), "{head}");
    let host = raw.url.trim_start_matches("http://");
    for header in [&format!("host: {host}"), "accept-encoding: gzip", "user-agent: ", "accept: "] {
        assert_eq!(head.matches(&format!("\r\n{header}")).count(), 1, "{header} in {head}");
    }
    assert!(!head.contains("authorization") && !head.contains("content-length"), "{head}");
}

#[tokio::test]
async fn connection_close_prevents_reuse() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let closing = answer(200, "content-type: application/json\r\nconnection: close\r\n", &map);
    let until_the_end = format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{map}");
    for text in [closing, until_the_end.into_bytes()] {
        let raw = Raw::start([vec![Act::Say(text), Act::Close]]).await;
        let maps = Client::new(at(&raw.url)).unwrap().core_v1().config_maps("default");
        for _ in 0..3 {
            soon(maps.get("a").into_future()).await.unwrap();
        }
        assert_eq!((raw.received().len(), raw.connections()), (3, 3));
    }
    // An informational response is not the response.
    let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec();
    let raw = Raw::start([say([hint, answer(200, "content-type: application/json\r\n", &map)].concat())]).await;
    let maps = Client::new(at(&raw.url)).unwrap().core_v1().config_maps("default");
    soon(maps.get("a").into_future()).await.unwrap();
}

#[tokio::test]
async fn trn_021_large_responses_are_compressed_unless_disabled() {
    for http in BOTH {
        for compression in [true, false] {
            let server = ApiServer::builder().tls().start().await.unwrap();
            let mut config = config(&server);
            (config.connections.http, config.compression) = (http, compression);
            let tap = Tap::default();
            let maps = tap.client(config).core_v1().config_maps("default");
            let mut large = config_map("large");
            large.data.as_mut().unwrap().insert("k".into(), "text ".repeat(100_000));
            soon(maps.create(&large).into_future()).await.unwrap();
            let read = soon(maps.get("large").into_future()).await.unwrap();
            assert_eq!(read.path("data.k").unwrap().unwrap().text().len(), 500_000);
            let got = tap.attempts().pop().unwrap();
            assert_eq!(got.encoding.as_deref() == Some("gzip"), compression, "{got:?}");
            assert_eq!(soon(maps.list(&ListParams::default())).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_body_above_the_servers_limit_is_413() {
    for http in BOTH {
        let server = ApiServer::builder().tls().start().await.unwrap();
        let mut config = config(&server);
        config.connections.http = http;
        let maps = Client::new(config).unwrap().core_v1().config_maps("default");
        let mut large = config_map("large");
        large.data.as_mut().unwrap().insert("k".into(), "x".repeat(8 << 20));
        let error = soon(maps.create(&large).into_future()).await.unwrap_err();
        assert!(error.is_request_entity_too_large(), "{http:?}: {}", error_chain(&error));
        soon(maps.create(&config_map("small")).into_future()).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_ends_after_its_timeout() {
    for http in BOTH {
        let server = ApiServer::builder().tls().start().await.unwrap();
        let mut config = config(&server);
        config.connections.http = http;
        let maps = Client::new(config).unwrap().core_v1().config_maps("default");
        let second = WatchParams::default().timeout(Duration::from_secs(1));
        let mut watch = soon(maps.watch(&second)).await.unwrap();
        while let Some(event) = soon(watch.next()).await {
            event.unwrap();
        }
        assert!(matches!(watch.end(), Some(WatchEnd::Closed)), "{:?}", watch.end());
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_ends_at_the_server_too() {
    for http in BOTH {
        let server = ApiServer::builder().tls().start().await.unwrap();
        let mut config = config(&server);
        config.connections.http = http;
        let client = Client::new(config).unwrap();
        let maps = client.core_v1().config_maps("default");
        let mut watches = Vec::new();
        for _ in 0..10 {
            watches.push(soon(maps.watch(&WatchParams::default())).await.unwrap());
        }
        assert_eq!(server.stats().watchers, 10);
        watches.truncate(3);
        reached(|| server.stats().watchers == 3).await;
        watches.iter_mut().for_each(|watch| watch.stop());
        reached(|| server.stats().watchers == 0).await;
    }
}

#[tokio::test]
async fn names_are_looked_up_and_every_address_is_tried() {
    // `localhost` often has two addresses; the server listens on one.
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut config = config(&server);
    config.server = ServerUrl::parse(&server.url().replace("127.0.0.1", "localhost")).unwrap();
    soon(Client::new(config).unwrap().server_version()).await.unwrap();
}

#[tokio::test]
async fn addresses_in_brackets() {
    // Not every machine has IPv6.
    let Ok(server) = ApiServer::builder().tls().listen("[::1]:0".parse().unwrap()).start().await else { return };
    let client = Client::new(config(&server)).unwrap();
    assert!(server.url().starts_with("https://[::1]:"));
    soon(client.server_version()).await.unwrap();
    drop(client);
    deserted(&server).await;
}
