//! The informer across restarts of a server that keeps nothing.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Builder, InProcess};
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{InformerOptions, SharedInformer};
use evenkeel_client::config::ServerUrl;
use evenkeel_client::transport::Body;
use evenkeel_client::{ClientBuilder, Config};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tower_service::Service;

/// One address, at which one server after the other listens.
#[derive(Clone)]
struct Address(Arc<Mutex<InProcess>>);

impl Service<Request<Body>> for Address {
    type Response = http::Response<evenkeel_apiserver::Body>;
    type Error = <InProcess as Service<Request<Body>>>::Error;
    type Future = <InProcess as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.lock().unwrap().call(request)
    }
}

async fn create(server: &ApiServer, names: std::ops::Range<usize>) {
    let maps = server.client().api::<ConfigMap>().namespace("default");
    for index in names {
        let map = json!({"metadata": {"name": format!("map-{index}"), "namespace": "default"}});
        maps.create(&serde_json::from_value(map).unwrap()).await.unwrap();
    }
}

/// Restarts a server with 100 objects as one with 100 others, of which 50 have the same names. Returns the keys that the
/// informer has afterwards.
async fn restart(first: Builder, second: Builder) -> Vec<String> {
    let server = first.in_process_only().start().await.unwrap();
    let address = Address(Arc::new(Mutex::new(server.service())));
    create(&server, 0..100).await;
    let mut config = Config::new(ServerUrl::parse("http://in-process").unwrap());
    config.throttle = None;
    let client = ClientBuilder::service(config, address.clone()).build().unwrap();
    let source = ApiSource::new(client.api::<ConfigMap>());
    let info = Arc::clone(source.resource());
    let informer: SharedInformer<ConfigMap> =
        SharedInformer::new(source, &info, InformerOptions::new().on_error(|_| {}));
    let _running = informer.start();
    informer.synced().await.unwrap();
    drop(server);

    let server = second.in_process_only().start().await.unwrap();
    create(&server, 50..150).await;
    *address.0.lock().unwrap() = server.service();
    let indexer = informer.indexer();
    let expected: Vec<String> = (50..150).map(|index| format!("default/map-{index}")).collect();
    let keys = || indexer.list().iter().map(|map| map.key().to_string()).collect::<Vec<_>>();
    // Virtual time: enough for the backoff of several attempts.
    for _ in 0..120 {
        let mut found = keys();
        found.sort_unstable();
        let mut expected = expected.clone();
        expected.sort_unstable();
        if found == expected {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    keys()
}

#[tokio::test(start_paused = true)]
async fn dur_005_an_informer_misses_nothing_when_a_server_restarts_empty() {
    assert_eq!(restart(ApiServer::builder().bootstrap(false), ApiServer::builder().bootstrap(false)).await.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn wat_6_an_informer_misses_nothing_when_the_clock_was_set_back() {
    let early = ApiServer::builder().bootstrap(false).first_revision(1_000);
    assert_eq!(restart(ApiServer::builder().bootstrap(false), early).await.len(), 100);
}
