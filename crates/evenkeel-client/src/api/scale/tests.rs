use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tower_service::Service;

use super::*;
use crate::transport::Body;

/// A fake of an older server: `apps/v1beta2` states the version of its scales as configured, and returns it.
#[derive(Clone)]
struct Old {
    announced: Value,
    canned: Value,
    requests: Arc<Mutex<Vec<SeenRequest>>>,
}

#[derive(Clone, Debug)]
struct SeenRequest {
    request: String,
    content_type: Option<String>,
    body: Value,
}

impl Old {
    fn new(announced: Value, canned: Value) -> Self {
        Old { announced, canned, requests: Arc::default() }
    }

    async fn scales(&self) -> Result<ScaleApi, Error> {
        let client = Client::from_service(self.clone());
        let mapper = RestMapper::new(client.discovery().cached());
        Ok(client.scales(&mapper).of("deploy").await?.namespace("ns"))
    }

    /// Returns the requests for scales.
    fn requests(&self) -> Vec<SeenRequest> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|requests| requests.request.ends_with("/scale")).cloned().collect()
    }

    fn canned(&self, path: &str) -> (u16, Value) {
        let gv = json!({"groupVersion": "apps/v1beta2", "version": "v1beta2"});
        match path {
            "/api" => (200, json!({"kind": "APIVersions", "versions": []})),
            "/apis" => {
                let group = json!({"name": "apps", "preferredVersion": gv, "versions": [gv]});
                (200, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}))
            }
            "/apis/apps/v1beta2" => {
                let mut scale = self.announced.clone();
                scale["name"] = "deployments/scale".into();
                scale["namespaced"] = true.into();
                scale["verbs"] = json!(["get", "update", "patch"]);
                let deployments = json!({"name": "deployments", "singularName": "deployment", "namespaced": true,
                    "kind": "Deployment", "shortNames": ["deploy"], "verbs": ["get"]});
                let resources =
                    if self.announced.is_object() { json!([deployments, scale]) } else { json!([deployments]) };
                let list = json!({"kind": "APIResourceList", "groupVersion": "apps/v1beta2", "resources": resources});
                (200, list)
            }
            "/apis/apps/v1beta2/namespaces/ns/deployments/web/scale" => (200, self.canned.clone()),
            _ => (
                404,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}),
            ),
        }
    }
}

impl Service<http::Request<Body>> for Old {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (code, canned) = self.canned(request.uri().path());
        let body = request.body().try_clone().map(bytes_of).unwrap_or_default();
        let content_type = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap().to_owned());
        let request = format!("{} {}", request.method(), request.uri().path());
        let body = serde_json::from_slice(&body).unwrap_or_default();
        self.requests.lock().unwrap().push(SeenRequest { request, content_type, body });
        let response = http::Response::builder().status(code).header(CONTENT_TYPE, "application/json");
        ready(Ok(response.body(Body::full(canned.to_string())).unwrap()))
    }
}

/// Returns the bytes of a buffered body.
fn bytes_of(mut body: Body) -> Bytes {
    use http_body::Body as _;
    match std::pin::Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

fn announced(group: &str, version: &str) -> Value {
    json!({"group": group, "version": version, "kind": "Scale"})
}

fn old_scale(api_version: &str, status: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": "Scale", "metadata": {"name": "web", "namespace": "ns", "resourceVersion": "7"},
        "spec": {"replicas": 3}, "status": status,
    })
}

#[tokio::test]
async fn scl_001_every_form_of_a_scale_becomes_the_current_one() {
    let by_labels = json!({"replicas": 2, "selector": {"app": "web", "tier": "db"}});
    let by_both = json!({"replicas": 2, "selector": {"app": "web"}, "targetSelector": "app=web,tier in (a,b)"});
    let cases = [
        ("autoscaling/v1", json!({"replicas": 2, "selector": "app=web"}), Some("app=web")),
        ("extensions/v1beta1", by_labels.clone(), Some("app=web,tier=db")),
        ("apps/v1beta1", by_labels, Some("app=web,tier=db")),
        ("apps/v1beta2", by_both, Some("app=web,tier in (a,b)")),
        ("apps/v1beta2", json!({"replicas": 2}), None),
    ];
    for (api_version, status, selector) in cases {
        let server = Old::new(announced("", ""), old_scale(api_version, status));
        let scale = server.scales().await.unwrap().get("web").await.unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(3), "{api_version}");
        let status = scale.status.unwrap();
        assert_eq!((status.replicas, status.selector.as_deref()), (2, selector), "{api_version}");
        assert_eq!(scale.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(server.requests()[0].request, "GET /apis/apps/v1beta2/namespaces/ns/deployments/web/scale");
    }
}

#[tokio::test]
async fn scl_001_another_kind_is_an_error_that_names_it() {
    let server = Old::new(announced("", ""), old_scale("example.com/v1", json!({"replicas": 2})));
    let error = server.scales().await.unwrap().get("web").await.unwrap_err();
    assert!(error.to_string().contains(r#""Scale" of "example.com/v1""#), "{error}");
    let failed = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409});
    let error = Old::new(announced("", ""), failed).scales().await.unwrap().get("web").await.unwrap_err();
    assert!(error.is_conflict());
}

#[tokio::test]
async fn scl_002_an_update_has_the_form_that_discovery_announces() {
    let scale = Scale {
        metadata: ObjectMeta { name: Some("web".into()), resource_version: Some("7".into()), ..ObjectMeta::default() },
        spec: Some(ScaleSpec { replicas: Some(5) }),
        status: Some(ScaleStatus { replicas: 2, selector: Some("app=web".into()) }),
    };
    let canned = old_scale("apps/v1beta2", json!({"replicas": 2}));
    let labels = json!({"app": "web"});
    let cases = [
        (announced("autoscaling", "v1"), "autoscaling/v1", json!("app=web"), Value::Null),
        (announced("extensions", "v1beta1"), "extensions/v1beta1", labels.clone(), json!("app=web")),
        // An entry without a group and version has those of the resource.
        (announced("", ""), "apps/v1beta2", labels, json!("app=web")),
    ];
    for (announced, api_version, selector, target_selector) in cases {
        let server = Old::new(announced, canned.clone());
        let updated = server.scales().await.unwrap().update(&scale).await.unwrap();
        assert_eq!(updated.spec.unwrap().replicas, Some(3), "the server's response, not the request");
        let requests = server.requests().remove(0);
        assert_eq!(requests.request, "PUT /apis/apps/v1beta2/namespaces/ns/deployments/web/scale");
        // Better than client-go, which sends it without one.
        assert_eq!(requests.content_type.as_deref(), Some("application/json"));
        assert_eq!((&requests.body["apiVersion"], &requests.body["kind"]), (&json!(api_version), &json!("Scale")));
        assert_eq!(requests.body["spec"], json!({"replicas": 5}));
        assert_eq!(requests.body["metadata"], json!({"name": "web", "resourceVersion": "7"}));
        assert_eq!(requests.body["status"]["selector"], selector, "{api_version}");
        assert_eq!(requests.body["status"]["targetSelector"], target_selector, "{api_version}");
    }
}

#[tokio::test]
async fn scl_002_a_selector_without_a_map_form_is_sent_as_text() {
    let server = Old::new(announced("", ""), old_scale("apps/v1beta2", json!({"replicas": 2})));
    let mut scale = Scale::default();
    scale.metadata.name = Some("web".into());
    scale.status = Some(ScaleStatus { replicas: 2, selector: Some("tier in (a,b)".into()) });
    server.scales().await.unwrap().update(&scale).await.unwrap();
    let status = &server.requests()[0].body["status"];
    assert_eq!(*status, json!({"replicas": 2, "targetSelector": "tier in (a,b)"}));
}

#[tokio::test]
async fn scl_002_invalid_arguments_send_no_request() {
    let server = Old::new(announced("example.com", "v1"), old_scale("apps/v1beta2", json!({"replicas": 2})));
    let scales = server.scales().await.unwrap();
    let mut scale = Scale::default();
    assert!(matches!(
        scales.update(&scale).await.unwrap_err(),
        Error::Request(RequestError::Segment { part: "name", .. })
    ));
    scale.metadata.name = Some("web".into());
    let error = scales.update(&scale).await.unwrap_err();
    assert!(error.to_string().contains(r#""Scale" of "example.com/v1""#), "{error}");
    scale.metadata.namespace = Some("other".into());
    let known = Old::new(announced("", ""), Value::Null);
    let error = known.scales().await.unwrap().update(&scale).await.unwrap_err();
    assert!(error.to_string().contains("namespace \"other\""), "{error}");
    assert_eq!((server.requests().len(), known.requests().len()), (0, 0));
}

#[tokio::test]
async fn scl_002_a_resource_without_a_scale_is_an_error() {
    let server = Old::new(Value::Null, Value::Null);
    let error = server.scales().await.unwrap_err();
    assert_eq!(error.to_string(), "the resource deployments of apps/v1beta2 has no subresource \"scale\"");
    assert!(matches!(error, Error::Discovery(_)));
}
