//! Informers of shards, with servers that filter, that do not, and that refuse to.

mod hard_cases;
mod ingest;
mod scopes;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll};

use ::metrics::atomics::AtomicU64;
use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use evenkeel_apiserver::{Body as ServerBody, InProcess};
use evenkeel_client::transport::Body;
use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
use http::{Request, Response, Uri};
use tower_service::Service;

use super::*;
use crate::factory::KindOptions;

/// What stands between the client and a server with sharded lists.
#[derive(Clone)]
struct Proxy {
    server: InProcess,
    mode: Arc<AtomicU16>,
    /// The paths of lists and watches, as the client sent them.
    paths: Arc<Mutex<Vec<String>>>,
}

/// The server filters.
const FILTERS: u16 = 0;
/// The server ignores the selector.
const IGNORES: u16 = 1;

impl Proxy {
    fn new(server: &ApiServer) -> Self {
        Proxy { server: server.service(), mode: Arc::default(), paths: Arc::default() }
    }

    fn client(&self) -> Client {
        Client::from_service(self.clone())
    }

    /// Filters, ignores the selector, or refuses it with this code.
    fn set(&self, mode: u16) {
        self.mode.store(mode, Ordering::Relaxed);
    }

    /// Takes the paths of the lists and watches so far.
    fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut *self.paths.lock().unwrap())
    }
}

fn is_selected(path: &str) -> bool {
    path.contains("shardSelector=")
}

fn without_selector(uri: &Uri) -> Uri {
    let query = uri.query().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(|parameter| !is_selected(parameter)).collect();
    format!("{}?{}", uri.path(), kept.join("&")).parse().unwrap()
}

impl Service<Request<Body>> for Proxy {
    type Response = Response<ServerBody>;
    type Error = <InProcess as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().to_string();
        if request.method() == http::Method::GET {
            self.paths.lock().unwrap().push(path.clone());
        }
        match self.mode.load(Ordering::Relaxed) {
            code if code > IGNORES && is_selected(&path) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                                    "message": "invalid shard selector: x"});
                let response = Response::builder().status(code).header("content-type", "application/json");
                let response = response.body(ServerBody::from(bytes::Bytes::from(status.to_string()))).unwrap();
                return Box::pin(async { Ok(response) });
            }
            IGNORES if is_selected(&path) => *request.uri_mut() = without_selector(request.uri()),
            _ => {}
        }
        self.server.call(request)
    }
}

fn uids(range: ShardRange) -> ShardSelector {
    ShardSelector::new(ShardField::Uid, range)
}

/// The lower and the upper half of the places of uids.
fn halves() -> [ShardSelector; 2] {
    ShardRange::FULL.split_at(1 << 63).unwrap().map(uids)
}

async fn sharded_server() -> ApiServer {
    ApiServer::builder().in_process_only().bootstrap(false).sharded_lists(true).start().await.unwrap()
}

async fn create_many(client: &Client, names: impl IntoIterator<Item = u32>) {
    for name in names {
        create(client, "default", &format!("m{name:04}"), "web").await;
    }
}

/// The keys of the server's ConfigMaps that are selected.
async fn selected(server: &ApiServer, selector: &ShardSelector) -> BTreeSet<String> {
    let list = server.client().api::<ConfigMap>().list(&Default::default()).await.unwrap();
    list.iter().filter(|map| selector.matches(map.header())).map(|map| map.key().to_string()).collect()
}

/// A recorder whose values can be read again and again.
#[derive(Clone, Default)]
struct Measured(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Measured {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn value(&self, name: &str, resource: &str) -> u64 {
        self.0.lock().unwrap()[&format!("{name} {resource}")].load(Ordering::Relaxed)
    }

    fn dropped(&self, resource: &str) -> u64 {
        self.value(crate::metrics::OUT_OF_RANGE, resource)
    }

    fn support(&self, resource: &str) -> f64 {
        f64::from_bits(self.value(crate::metrics::SHARD_SUPPORT, resource))
    }
}

impl ::metrics::Recorder for Measured {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
