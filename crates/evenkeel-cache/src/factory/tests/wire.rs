//! Wire formats of informers, also with servers that support only one.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_apiserver::InProcess;
use evenkeel_client::transport::Body;
use evenkeel_client::{ListParams, Wire};
use evenkeel_core::ResourceInfo;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use tower_service::Service;

use super::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";
const JSON: &str = "application/json, */*";

/// How a server responds to requests for protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtobufSupport {
    /// Responds in protobuf.
    Full,
    /// Responds in JSON.
    Plain,
    /// Rejects the request.
    Refusing,
    /// Responds with a protobuf media type and a body that is none.
    Mislabelled,
}

/// A service that records path, accepted and returned media types of every request.
#[derive(Clone)]
struct RecordingLayer {
    server: InProcess,
    protobuf: ProtobufSupport,
    seen: Arc<Mutex<Vec<[String; 3]>>>,
}

impl RecordingLayer {
    async fn new(protobuf: ProtobufSupport) -> (ApiServer, Self) {
        let (server, _) = server().await;
        let line = RecordingLayer { server: server.service(), protobuf, seen: Arc::default() };
        (server, line)
    }

    fn client(&self) -> Client {
        Client::from_service(self.clone())
    }

    /// Returns the accepted and returned media types of the requests to this path.
    fn seen(&self, path: &str) -> Vec<(String, String)> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| seen[0] == path).map(|[_, asked, came]| (asked.clone(), came.clone())).collect()
    }

    fn asked(&self, path: &str) -> BTreeSet<String> {
        self.seen(path).into_iter().map(|(asked, _)| asked).collect()
    }
}

impl Service<Request<Body>> for RecordingLayer {
    type Response = Response<Body>;
    type Error = evenkeel_client::transport::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut line = self.clone();
        Box::pin(async move {
            let text = |value: Option<&HeaderValue>| value.map_or("", |value| value.to_str().unwrap()).to_owned();
            let (path, asked) = (request.uri().path().to_owned(), text(request.headers().get(ACCEPT)));
            let wants_protobuf = asked.contains(PROTOBUF);
            if line.protobuf != ProtobufSupport::Full && wants_protobuf {
                let json = asked.replace(&format!("{PROTOBUF},"), "");
                request.headers_mut().insert(ACCEPT, json.parse().unwrap());
            }
            let response = match line.protobuf {
                ProtobufSupport::Refusing if wants_protobuf => {
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
                    response
                }
                ProtobufSupport::Mislabelled if wants_protobuf => {
                    let mut response = Response::new(Body::full(Bytes::from_static(&[0xff; 32])));
                    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
                    response
                }
                _ => line.server.call(request).await?.map(Body::new),
            };
            let came = text(response.headers().get(CONTENT_TYPE));
            line.seen.lock().unwrap().push([path, asked, came]);
            Ok(response)
        })
    }
}

const MAPS: &str = "/api/v1/configmaps";

#[tokio::test(start_paused = true)]
async fn ctn_002_informers_of_built_in_kinds_get_protobuf_in_lists_and_watches() {
    let (_server, line) = RecordingLayer::new(ProtobufSupport::Full).await;
    let client = line.client();
    for watch_list in [true, false] {
        line.seen.lock().unwrap().clear();
        let informers =
            InformerFactory::builder(&client).configure::<ConfigMap>(|maps| maps.watch_list(watch_list)).build();
        let maps = informers.of::<ConfigMap>();
        let notes = Recorder::default();
        maps.add_handler(notes.clone()).unwrap();
        let running = informers.start();
        informers.wait_for_sync().await.unwrap();
        let lister = maps.lister();
        let a = lister.get(ObjectKey::namespaced("default", "a")).unwrap();
        assert_eq!(
            (a.kind(), a.label("app"), a.typed().unwrap().data.as_ref().unwrap()["k"].as_str()),
            ("ConfigMap", Some("web"), "v")
        );
        settle().await;
        notes.take();
        change(&client, "default", "a", json!({"k": "w"})).await;
        create(&client, "default", "z", "web").await;
        delete(&client, "default", "z").await;
        settle().await;
        assert_eq!(notes.take(), ["add default/z", "delete default/z", "update default/a"]);
        assert_eq!(
            lister.get(ObjectKey::namespaced("default", "a")).unwrap().path("data.k").unwrap().unwrap().text(),
            "w"
        );
        let seen = line.seen(MAPS);
        assert!(seen.iter().all(|(asked, came)| asked == BOTH && came.starts_with(PROTOBUF)), "{seen:?}");
        change(&client, "default", "a", json!({"k": "v"})).await;
        running.drain().await;
    }
    let list = client.api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    assert!(list.len() >= 3);
    assert_eq!(line.seen(MAPS).last().unwrap().0, JSON, "other requests are JSON by default");
}

#[tokio::test(start_paused = true)]
async fn views_decode_parts_of_protobuf_and_of_json() {
    #[derive(serde::Deserialize)]
    struct Part {
        metadata: Labels,
        data: BTreeMap<String, String>,
    }
    #[derive(serde::Deserialize)]
    struct Labels {
        labels: BTreeMap<String, String>,
    }
    for wire in [Wire::Protobuf, Wire::Json] {
        let (_server, client) = super::server().await;
        let informers = InformerFactory::builder(&client).wire(wire).namespace("default").build();
        let view = informers.view::<ConfigMap, Part>();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        let part = view.get(ObjectKey::namespaced("default", "a")).unwrap().unwrap();
        assert_eq!((part.data["k"].as_str(), part.metadata.labels["app"].as_str()), ("v", "web"), "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pb_015_and_dyi_001_custom_and_dynamic_kinds_use_json_and_metadata_uses_protobuf() {
    let (_server, line) = RecordingLayer::new(ProtobufSupport::Full).await;
    let client = line.client();
    let foos = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let maps = Arc::new(ResourceInfo::of::<ConfigMap>());
    let informers = factory(&client);
    let (_foos, dynamic) = (informers.dynamic(&foos), informers.dynamic(&maps));
    let _running = informers.start();
    dynamic.synced().await.unwrap();
    settle().await;
    assert_eq!(line.asked("/apis/example.com/v1/foos"), set([JSON]));
    assert_eq!(line.asked(MAPS), set([JSON]));
    line.seen.lock().unwrap().clear();
    let metadata = informers.metadata::<ConfigMap>();
    let _more = informers.start();
    metadata.synced().await.unwrap();
    assert_eq!(
        metadata.lister().get(ObjectKey::namespaced("default", "a")).unwrap().typed().unwrap().metadata.name.as_deref(),
        Some("a")
    );
    let asked = line.asked(MAPS);
    assert!(asked.iter().all(|asked| asked.starts_with(&format!("{PROTOBUF};as=PartialObjectMetadata"))), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn options_of_one_kind_override_those_of_the_factory_and_of_the_client() {
    let (_server, line) = RecordingLayer::new(ProtobufSupport::Full).await;
    let client = line.client();
    let info = Arc::new(ResourceInfo::of::<ConfigMap>());
    let informers = InformerFactory::builder(&client)
        .wire(Wire::Json)
        .configure::<Namespace>(|spaces| spaces.wire(Wire::Automatic))
        .configure_dynamic(&info, |maps| maps.wire(Wire::Protobuf).namespace("default"))
        .build();
    let handles = (informers.of::<ConfigMap>(), informers.of::<Namespace>(), informers.dynamic(&info));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(line.asked(MAPS), set([JSON]));
    assert_eq!(line.asked("/api/v1/namespaces"), set([BOTH]));
    assert_eq!(line.asked("/api/v1/namespaces/default/configmaps"), set([BOTH]));
    let object = handles.2.lister().get(ObjectKey::namespaced("default", "a")).unwrap().typed().unwrap();
    assert_eq!(object.get("data.k").and_then(Value::as_str), Some("v"));
    assert_eq!((object.kind(), object.api_version()), (Some("ConfigMap"), Some("v1")));
}

#[tokio::test(start_paused = true)]
async fn ctn_004_ctn_016_informers_of_servers_without_protobuf_sync_and_follow() {
    for protobuf in [ProtobufSupport::Plain, ProtobufSupport::Refusing, ProtobufSupport::Mislabelled] {
        let (_server, line) = RecordingLayer::new(protobuf).await;
        let client = line.client();
        let informers = factory(&client);
        let maps = informers.lister::<ConfigMap>();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        settle().await;
        create(&client, "default", "z", "web").await;
        settle().await;
        assert!(keys(&maps).is_superset(&set(["default/a", "default/b", "default/z"])), "{protobuf:?}");
        let asked: Vec<_> = line.seen(MAPS).into_iter().map(|(asked, _)| asked).collect();
        let in_vain = asked.iter().filter(|asked| *asked == BOTH).count();
        match protobuf {
            ProtobufSupport::Plain => assert_eq!(in_vain, asked.len(), "it need not be asked otherwise"),
            _ => assert_eq!((in_vain, asked.iter().any(|asked| asked == JSON)), (1, true), "{protobuf:?} {asked:?}"),
        }
    }
}
