//! The exact requests of every verb, recorded by a service.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use evenkeel_client::config::{Identity, Pem, PrivateKey, ServerUrl};
use evenkeel_client::transport::Body;
use evenkeel_client::{Client, ClientBuilder, Config, Error, ListParams, Patch, Path, Unstructured, WatchParams};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

/// A request as it arrived.
pub(super) struct Note {
    pub(super) method: Method,
    pub(super) url: String,
    headers: http::HeaderMap,
    pub(super) body: Value,
}

impl Note {
    fn header(&self, name: HeaderName) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// Responds with the same code and body, and records requests.
#[derive(Clone)]
pub(super) struct Notebook {
    notes: Arc<Mutex<Vec<Note>>>,
    code: u16,
    answer: Value,
}

impl Notebook {
    pub(super) fn new(code: u16, answer: Value) -> Self {
        Notebook { notes: Arc::default(), code, answer }
    }

    pub(super) fn client(&self) -> Client {
        Client::from_service(self.clone())
    }

    /// Takes the last request.
    pub(super) fn last(&self) -> Note {
        self.notes.lock().unwrap().pop().unwrap()
    }

    pub(super) fn count(&self) -> usize {
        self.notes.lock().unwrap().len()
    }
}

impl tower_service::Service<Request<Body>> for Notebook {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let note = Note { method: head.method, url: head.uri.to_string(), headers: head.headers, body };
            this.notes.lock().unwrap().push(note);
            let answer = Response::builder().status(this.code).header(CONTENT_TYPE, "application/json");
            Ok(answer.body(Body::full(this.answer.to_string())).unwrap())
        })
    }
}

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "labels": {"x": "y"}}
    })
}

#[test]
fn trn_001_a_custom_service_rejects_tls_settings() {
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::new(ServerUrl::parse("https://h").unwrap());
        change(&mut config);
        ClientBuilder::service(config, Notebook::new(200, json!({}))).build()
    };
    with(&|_| ()).unwrap();
    let identity = Identity { certificate: Pem::Data("c".into()), key: PrivateKey::Data("k".into()) };
    for change in [
        &(|config: &mut Config| config.tls.ca = Some(Pem::File("/ca".into()))) as &dyn Fn(&mut Config),
        &|config| config.tls.identity = Some(identity.clone()),
        &|config| config.tls.server_name = Some("name".into()),
        &|config| config.tls.insecure_skip_verify = true,
    ] {
        let error = with(change).unwrap_err();
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains("TLS"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn dyc_003_a_delete_has_its_options_in_the_body_and_selectors_in_the_query() {
    let server = Notebook::new(200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}));
    let client = server.client();
    let info = client.resource::<ConfigMap>();
    let maps = client.dynamic(&info).namespace("default");
    let plain = json!({"apiVersion": "v1", "kind": "DeleteOptions"});

    maps.delete("a").await.unwrap();
    let note = server.last();
    assert_eq!((&note.method, note.url.as_str()), (&Method::DELETE, "/api/v1/namespaces/default/configmaps/a"));
    assert_eq!((&note.body, note.header(CONTENT_TYPE)), (&plain, "application/json"), "even if nothing is said");

    let ours = ListParams::default().labels("app=web").fields("metadata.name=a").limit(5);
    maps.delete_collection(&ours).await.unwrap();
    let note = server.last();
    let query = "?fieldSelector=metadata.name%3Da&labelSelector=app%3Dweb&limit=5";
    assert_eq!(note.url, format!("/api/v1/namespaces/default/configmaps{query}"));
    assert_eq!(note.body, plain);

    maps.delete_collection(&ListParams::default()).grace_period(0).dry_run().only_uid("u").await.unwrap();
    let mut said = plain;
    said["gracePeriodSeconds"] = 0.into();
    said["dryRun"] = json!(["All"]);
    said["preconditions"] = json!({"uid": "u"});
    let note = server.last();
    assert_eq!((note.url.as_str(), &note.body), ("/api/v1/namespaces/default/configmaps", &said));
}

#[tokio::test(start_paused = true)]
async fn req_019_a_patch_is_of_its_media_type() {
    let server = Notebook::new(200, config_map());
    let client = server.client();
    let maps = client.core_v1().config_maps("default");
    let change = json!({"data": {"k": "w"}});
    for (patch, media_type) in [
        (Patch::json(&json!([{"op": "remove", "path": "/data"}])), "application/json-patch+json"),
        (Patch::merge(&change), "application/merge-patch+json"),
        (Patch::strategic(&change), "application/strategic-merge-patch+json"),
        (Patch::apply(&change), "application/apply-patch+yaml"),
    ] {
        maps.patch("a", &patch).await.unwrap();
        let note = server.last();
        assert_eq!((&note.method, note.header(CONTENT_TYPE)), (&Method::PATCH, media_type));
        assert!(!note.body.is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn typ_004_an_applied_object_has_a_name_and_is_json() {
    // An empty apply is not possible: the fields are a value.
    let server = Notebook::new(200, config_map());
    let client = server.client();
    let maps = client.core_v1().config_maps("default");
    let fields: ConfigMap = serde_json::from_value(config_map()).unwrap();
    for nameless in [maps.apply("", "me", &fields).await, maps.status().apply("", "me", &fields).await] {
        assert!(matches!(nameless, Err(Error::Request(_))), "{nameless:?}");
    }
    assert_eq!(server.count(), 0, "nothing is sent");

    maps.apply("a", "me", &fields).await.unwrap();
    let note = server.last();
    assert_eq!(note.url, "/api/v1/namespaces/default/configmaps/a?fieldManager=me");
    assert_eq!(note.header(CONTENT_TYPE), "application/apply-patch+yaml", "JSON is YAML");
    assert_eq!(note.header(ACCEPT), "application/json, */*", "the response is negotiated as any other");
    assert_eq!(note.body, config_map());
    maps.status().apply("a", "me", &fields).force().await.unwrap();
    let note = server.last();
    assert_eq!(note.url, "/api/v1/namespaces/default/configmaps/a/status?fieldManager=me&force=true");
}

#[tokio::test(start_paused = true)]
async fn mdc_002_full_objects_are_reduced_to_their_metadata() {
    let server = Notebook::new(200, config_map());
    let maps = server.client().core_v1().config_maps("default").metadata();
    let one = maps.get("a").await.unwrap();
    let asked = server.last();
    assert_eq!(asked.header(ACCEPT), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    let metadata = one.typed().unwrap();
    assert_eq!(metadata.metadata.labels.as_ref().unwrap()["x"], "y");
    let written = serde_json::to_value(&*metadata).unwrap();
    assert!(written.get("data").is_none(), "the rest is not there: {written}");

    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [config_map()]});
    let maps = Notebook::new(200, list).client().core_v1().config_maps("default").metadata();
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].typed().unwrap().metadata.uid.as_deref(), Some("1"));

    // A response without metadata, or of another kind, is an error.
    for odd in [
        json!({"data": {"k": "v"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        json!({"hello": "world"}),
    ] {
        let maps = Notebook::new(200, odd.clone()).client().core_v1().config_maps("default").metadata();
        let error = maps.get("a").await.unwrap_err();
        assert!(matches!(error, Error::Decode { .. }), "{odd}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn req_014_options_are_the_same_in_every_group_and_version() {
    // client-go converts options by a scheme, and fails if they are not registered there. These are plain parameters.
    // A list without a kind is one of any resource.
    let server = Notebook::new(200, json!({"metadata": {}, "items": []}));
    let client = server.client();
    let params = ListParams::default().labels("a=b").fields("c=d").limit(7).timeout(Duration::from_secs(3));
    let query = "?fieldSelector=c%3Dd&labelSelector=a%3Db&limit=7&timeoutSeconds=3";
    client.api::<ConfigMap>().list(&params).await.unwrap();
    assert_eq!(server.last().url, format!("/api/v1/configmaps{query}"));
    client.api::<Deployment>().list(&params).await.unwrap();
    assert_eq!(server.last().url, format!("/apis/apps/v1/deployments{query}"));
    let custom = evenkeel_core::ResourceInfo::new("example.com", "v7alpha3", "Foo", "foos", true);
    client.dynamic(&Arc::new(custom)).list(&params).await.unwrap();
    assert_eq!(server.last().url, format!("/apis/example.com/v7alpha3/foos{query}"));
}

#[tokio::test(start_paused = true)]
async fn req_023_verbs_are_typed_methods() {
    // In client-go a verb is any text; `get` in lower case is sent like that and not treated as `GET`.
    let server = Notebook::new(200, config_map());
    let client = server.client();
    let maps = client.core_v1().config_maps("default");
    let map: ConfigMap = serde_json::from_value(config_map()).unwrap();
    maps.get("a").await.unwrap();
    maps.create(&map).await.unwrap();
    maps.update(&map).await.unwrap();
    maps.patch("a", &Patch::merge(&json!({}))).await.unwrap();
    maps.delete("a").await.unwrap();
    drop(maps.watch(&WatchParams::default()).await);
    let methods: Vec<Method> = server.notes.lock().unwrap().drain(..).map(|note| note.method).collect();
    assert_eq!(methods, [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::GET]);
    // A custom method is sent unchanged, and differs from the known ones.
    let own = Method::from_bytes(b"get").unwrap();
    client.request(own.clone(), Path::raw("/x")).send().await.unwrap();
    assert_eq!(server.last().method, own);
    assert_ne!(own, Method::GET);
}

#[tokio::test(start_paused = true)]
async fn bko_002_earlier_failures_delay_no_request() {
    // client-go's backoff by URL is kept per request, so it never helps others; here it does not exist. A `Retry-After`
    // applies to its request.
    let server = Notebook::new(503, json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 503}));
    let client = server.client();
    let started = Instant::now();
    for _ in 0..50 {
        client.dynamic(&client.resource::<ConfigMap>()).namespace("default").get("a").await.unwrap_err();
    }
    assert_eq!((server.count(), started.elapsed()), (50, Duration::ZERO));
    let object = Unstructured::from(config_map());
    let create = client.dynamic(&client.resource::<ConfigMap>()).namespace("default");
    create.create(&object).await.unwrap_err();
    assert_eq!((server.count(), started.elapsed()), (51, Duration::ZERO));
}
