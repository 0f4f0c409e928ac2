//! An API server that misbehaves, over each version of HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, ExpireForm, Rule, WatchAction};
use evenkeel_client::config::HttpVersions;
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Api, Client, Error, ListParams, WatchEnd, WatchParams, WatchStream};
use evenkeel_core::WatchEvent;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::support::{Tap, config, config_map, reached, soon};

struct House {
    server: ApiServer,
    tap: Tap,
    client: Client,
    maps: Api<ConfigMap>,
}

impl House {
    async fn new(http: HttpVersions) -> Self {
        House::of(ApiServer::builder().tls().start().await.unwrap(), http).await
    }

    async fn of(server: ApiServer, http: HttpVersions) -> Self {
        let mut config = config(&server);
        config.connections.http = http;
        let tap = Tap::default();
        let client = tap.client(config);
        let maps = client.core_v1().config_maps("default");
        maps.create(&config_map("a")).await.unwrap();
        House { server, tap, client, maps }
    }

    async fn both() -> [Self; 2] {
        [House::new(HttpVersions::Http1Only).await, House::new(HttpVersions::Any).await]
    }

    /// Returns the number of attempts that this takes.
    async fn attempts<F: IntoFuture>(&self, call: F) -> (F::Output, usize) {
        let before = self.tap.attempts().len();
        let outcome = soon(call.into_future()).await;
        (outcome, self.tap.attempts().len() - before)
    }

    async fn names(&self) -> Vec<String> {
        let list = soon(self.maps.list(&ListParams::default())).await.unwrap();
        list.iter().map(|map| map.key().name().to_owned()).collect()
    }

    /// Opens a watch and reads its initial events.
    async fn watch(&self) -> WatchStream<ConfigMap> {
        let mut watch = soon(self.maps.watch(&WatchParams::default().without_bookmarks())).await.unwrap();
        assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
        watch
    }
}

fn fault(error: &Error) -> TransportFault {
    match error {
        Error::Transport { source, .. } => source.fault(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_closed_port_is_reported_at_once() {
    for http in [HttpVersions::Http1Only, HttpVersions::Any] {
        let server = ApiServer::builder().tls().start().await.unwrap();
        server.faults().refuse_connections(true);
        let mut config = config(&server);
        config.connections.http = http;
        let tap = Tap::default();
        let maps = tap.client(config).core_v1().config_maps("default");
        // The server applies the fault asynchronously.
        let error = soon(async {
            loop {
                match maps.get("a").await.unwrap_err() {
                    error if error.is_not_found() => server.faults().cut_connections(),
                    error if fault(&error) == TransportFault::Refused => return error,
                    _ => {}
                }
            }
        })
        .await;
        let Error::Transport { source, previous: None, .. } = &error else { panic!("{error:?}") };
        assert!(source.host().starts_with("127.0.0.1:"), "{error}");
        let before = tap.attempts().len();
        let error = soon(maps.create(&config_map("a")).into_future()).await.unwrap_err();
        assert_eq!(fault(&error), TransportFault::Refused);
        let error = soon(maps.watch(&WatchParams::default())).await.unwrap_err();
        assert_eq!(fault(&error), TransportFault::Refused);
        assert_eq!(tap.attempts().len() - before, 2, "trying again is for those who know why");
        server.faults().refuse_connections(false);
        reached(|| std::net::TcpStream::connect(server.url().trim_start_matches("https://")).is_ok()).await;
        soon(maps.create(&config_map("a")).into_future()).await.unwrap();
    }
}

#[tokio::test]
async fn rrt_004_a_read_survives_lost_connections_and_a_write_does_not() {
    for house in House::both().await {
        let faults = house.server.faults();
        // HTTP/1.1 can abort a response only by closing; HTTP/2 resets the stream.
        faults.add(Rule::new(Action::DropBeforeCommit).times(1));
        let (created, attempts) = house.attempts(house.maps.create(&config_map("b"))).await;
        assert!(matches!(created, Err(Error::Transport { .. })));
        assert_eq!((attempts, house.names().await), (1, vec!["a".to_owned()]));
        faults.add(Rule::new(Action::CommitThenDrop).times(1));
        let (created, attempts) = house.attempts(house.maps.create(&config_map("b"))).await;
        assert!(matches!(created, Err(Error::Transport { .. })));
        assert_eq!((attempts, house.names().await), (1, vec!["a".to_owned(), "b".to_owned()]));
    }
    let [house, _] = House::both().await;
    house.server.faults().add(Rule::new(Action::Drop).times(2));
    // The pool itself retries the first request, because its connection may have been closed before.
    let (read, attempts) = house.attempts(house.maps.get("a")).await;
    assert_eq!(read.unwrap().key().name(), "a");
    assert_eq!(attempts, 2);
}

#[tokio::test]
async fn res_007_a_truncated_body_is_an_error_and_not_a_partial_result() {
    for house in House::both().await {
        for bytes in [0, 40] {
            house.server.faults().add(Rule::new(Action::Reset { after_bytes: bytes }).times(1));
            let (read, _) = house.attempts(house.maps.get("a").with(|request| request.max_retries(0))).await;
            assert!(matches!(read, Err(Error::Transport { .. })), "{bytes}");
            house.server.faults().add(Rule::new(Action::Reset { after_bytes: bytes }).times(1));
            let list = soon(house.maps.list(&ListParams::default())).await;
            assert!(matches!(list, Err(Error::Transport { .. })), "{bytes}");
        }
        assert_eq!(house.names().await, ["a"]);
    }
}

#[tokio::test]
async fn broken_connections_fail_all_watches() {
    for house in House::both().await {
        let mut watches = Vec::new();
        for _ in 0..5 {
            watches.push(house.watch().await);
        }
        house.server.faults().cut_connections();
        for watch in &mut watches {
            assert!(soon(watch.next()).await.is_none());
            assert!(matches!(watch.end(), Some(WatchEnd::Lost(_))), "{:?}", watch.end());
        }
        let mut watch = house.watch().await;
        soon(
            house
                .maps
                .patch("a", &evenkeel_client::Patch::merge(&serde_json::json!({"data": {"k": "w"}})))
                .into_future(),
        )
        .await
        .unwrap();
        assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Modified(_)));
    }
}

#[tokio::test]
async fn wch_007_a_truncated_event_ends_the_watch_and_the_next_watch_delivers_it() {
    for house in House::both().await {
        let mut watch = house.watch().await;
        let mut other = house.watch().await;
        let version = house.maps.get("a").await.unwrap().resource_version().to_owned();
        house.server.faults().cut_frame();
        house.maps.create(&config_map("b")).await.unwrap();
        // One of the two is cut; the other one continues.
        let (first, second) = (soon(watch.next()).await, soon(other.next()).await);
        assert!(first.is_some() != second.is_some());
        let cut = if first.is_some() { &other } else { &watch };
        assert!(matches!(cut.end(), Some(WatchEnd::Lost(_) | WatchEnd::Truncated(_))), "{:?}", cut.end());
        let from = WatchParams::from_version(version);
        let mut again = soon(house.maps.watch(&from)).await.unwrap();
        let event = soon(again.next()).await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(map) if map.key().name() == "b"));
    }
}

#[tokio::test]
async fn events_are_decoded_from_any_chunks() {
    for house in House::both().await {
        house.server.faults().add(Rule::watch(WatchAction::SplitFrame { sizes: vec![1, 7, 30] }));
        let mut watch = house.watch().await;
        house.maps.create(&config_map("b")).await.unwrap();
        let event = soon(watch.next()).await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(map) if map.path("data.k").unwrap().unwrap().text() == "v"));
    }
}

#[tokio::test]
async fn an_expired_version_is_reported_at_the_start_and_within_a_watch() {
    for house in House::both().await {
        let version = house.maps.get("a").await.unwrap().resource_version().to_owned();
        let expire = |form| Rule::watch(WatchAction::Expire { event: 0, form }).times(1);
        house.server.faults().add(expire(ExpireForm::Http));
        let from = WatchParams::from_version(version);
        let (error, attempts) = house.attempts(house.maps.watch(&from)).await;
        assert!(error.unwrap_err().is_expired());
        assert_eq!(attempts, 1);
        house.server.faults().add(expire(ExpireForm::Event));
        let mut watch = soon(house.maps.watch(&from)).await.unwrap();
        house.maps.create(&config_map("b")).await.unwrap();
        let event = soon(watch.next()).await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Error(status) if status.is_expired()));
        assert!(soon(watch.next()).await.is_none());
        // Now with a really compacted history.
        house.server.faults().compact_now();
        house.maps.create(&config_map("c")).await.unwrap();
        let reported = match soon(house.maps.watch(&WatchParams::from_version("1"))).await {
            Err(error) => error.is_expired(),
            Ok(mut watch) => {
                matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Error(status))) if status.is_expired())
            }
        };
        assert!(reported);
    }
}

#[tokio::test]
async fn trn_019_after_a_timeout_only_http2_reuses_its_connection() {
    for (house, connections) in House::both().await.into_iter().zip([2, 1]) {
        house.server.faults().add(Rule::new(Action::Hang).times(1));
        let late = Duration::from_millis(50);
        let error = house.maps.get("a").with(|request| request.timeout(late)).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "it never answers, so this is never too early: {error}");
        soon(house.maps.get("a").into_future()).await.unwrap();
        assert_eq!(house.server.connections().accepted, connections);
        reached(|| house.server.connections().open == 1).await;
    }
}

#[tokio::test]
async fn a_restarted_server_is_reconnected() {
    for http in [HttpVersions::Http1Only, HttpVersions::Http2Only] {
        let server = ApiServer::start().await.unwrap();
        let address: SocketAddr = server.url().trim_start_matches("http://").parse().unwrap();
        let House { server, client, maps, .. } = House::of(server, http).await;
        let mut watch = soon(maps.watch(&WatchParams::default().without_bookmarks())).await.unwrap();
        assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
        let snapshot = server.snapshot();
        soon(server.shutdown()).await;
        assert!(soon(watch.next()).await.is_none());
        assert!(matches!(watch.end(), Some(WatchEnd::Closed)), "it was polite: {:?}", watch.end());
        let error = soon(maps.get("a").into_future()).await.unwrap_err();
        assert_eq!(fault(&error), TransportFault::Refused, "{error}");
        let server = ApiServer::builder().listen(address).snapshot(snapshot).start().await.unwrap();
        soon(maps.get("a").into_future()).await.unwrap();
        soon(maps.create(&config_map("b")).into_future()).await.unwrap();
        drop(client);
        assert_eq!(server.connections().accepted, 1);
    }
}
