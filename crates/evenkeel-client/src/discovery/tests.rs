//! [`Discovery`] against a fake server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_core::GroupVersion;
use serde_json::json;

use super::testing::{Fake, group, legacy_groups, legacy_list, legacy_resource, resource};
use super::*;
use crate::error::Error;
use crate::transport::Body;

fn gv(text: &str) -> GroupVersion {
    text.parse().unwrap()
}

/// A server with aggregated discovery.
fn modern() -> Fake {
    let fake = Fake::default();
    fake.aggregated("/api", &json!([group("", &[("v1", vec![resource("pods", "Pod")])])]));
    let apps = group("apps", &[("v1", vec![resource("deployments", "Deployment")])]);
    fake.aggregated("/apis", &json!([apps]));
    fake
}

/// The same server without it.
fn old() -> Fake {
    let fake = Fake::default();
    fake.json("/api", &json!({"kind": "APIVersions", "versions": ["v1"]}));
    fake.json("/apis", &legacy_groups(&[("apps", &["v1"])]));
    fake.json("/api/v1", &legacy_list("v1", &[legacy_resource("pods", "Pod")]));
    fake.json("/apis/apps/v1", &legacy_list("apps/v1", &[legacy_resource("deployments", "Deployment")]));
    fake
}

fn plurals(discovered: &Discovered) -> Vec<String> {
    let of = |list: &ResourceList| {
        let plurals: Vec<_> = list.resources.iter().map(|resource| resource.info.plural()).collect();
        format!("{} {}", list.group_version.api_version(), plurals.join(" "))
    };
    discovered.resources.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn dsc_001_a_request_times_out_after_32_seconds_unless_configured() {
    let client = Fake::default().client();
    assert_eq!(client.discovery().documents.timeout, Duration::from_secs(32));

    let silent = Client::from_service(Silent);
    let started = tokio::time::Instant::now();
    let error = silent.discovery().groups().await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(32));
    let DiscoveryError::Api(inner) = &error else { panic!("{error}") };
    assert!(matches!(**inner, Error::Timeout { limit, .. } if limit == Duration::from_secs(32)));
    assert_eq!(error.to_string(), "GET /api: no response within 32s");
    assert!(error.is_transient());

    let mut config = crate::config::Config::new(crate::config::ServerUrl::in_process());
    config.timeout = Some(Duration::from_secs(3));
    let client = crate::client::ClientBuilder::service(config, Silent).build().unwrap();
    assert_eq!(client.discovery().documents.timeout, Duration::from_secs(3));
    assert_eq!(client.discovery().timeout(Duration::ZERO).documents.timeout, Duration::from_secs(32));
}

/// Never responds.
#[derive(Clone)]
struct Silent;

impl tower_service::Service<http::Request<Body>> for Silent {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Pending<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        std::future::pending()
    }
}

#[tokio::test]
async fn dsc_002_the_aggregated_format_is_preferred() {
    let fake = modern();
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let discovery = fake.client().discovery();
    for (discovery, accept) in [
        (discovery.clone(), format!("{aggregated},application/json")),
        (discovery.clone().legacy(), "application/json".to_owned()),
        (discovery.no_peers(), format!("{aggregated};profile=nopeer,{aggregated},application/json")),
    ] {
        // The fake ignores `Accept`; the content type decides.
        discovery.groups().await.unwrap();
        let requests = fake.requests();
        let targets: Vec<_> = requests.iter().map(|requests| requests.target.as_str()).collect();
        assert_eq!(targets, ["/api", "/apis"]);
        assert!(requests.iter().all(|requests| requests.accept == accept), "{requests:?}");
    }
}

#[tokio::test]
async fn dsc_004_a_server_may_have_no_core_group_but_nothing_else_may_be_missing() {
    let fake = modern();
    fake.fail("/api", 404);
    let groups = fake.client().discovery().groups().await.unwrap();
    assert_eq!(groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["apps"]);

    for (path, code) in [("/api", 403), ("/api", 500), ("/apis", 404), ("/apis", 503)] {
        let fake = modern();
        fake.fail(path, code);
        let error = fake.client().discovery().groups_and_resources().await.unwrap_err();
        let DiscoveryError::Api(inner) = &error else { panic!("{error}") };
        assert_eq!(inner.status().unwrap().code, code, "{path}");
        assert_eq!(error.is_not_found(), code == 404);
    }
}

#[tokio::test]
async fn dsc_005_one_legacy_root_selects_the_legacy_format() {
    let fake = modern();
    let discovered = fake.client().discovery().groups_and_resources().await.unwrap();
    assert_eq!(plurals(&discovered), ["v1 pods", "apps/v1 deployments"]);
    assert_eq!(discovered.groups[0].name, "", "the core group is first");
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);

    // Without a core group, two requests are enough.
    fake.fail("/api", 404);
    let without_core = fake.client().discovery().groups_and_resources().await.unwrap();
    assert_eq!(plurals(&without_core), ["apps/v1 deployments"]);
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);

    let mixed = old();
    mixed.aggregated("/api", &json!([group("", &[("v1", vec![resource("pods", "Pod")])])]));
    let from_mixed = mixed.client().discovery().groups_and_resources().await.unwrap();
    assert_eq!(plurals(&from_mixed), plurals(&discovered));
    assert_eq!(mixed.asked_paths(), ["/api", "/api/v1", "/apis", "/apis/apps/v1"]);
}

#[tokio::test]
async fn dsc_007_the_legacy_format_gives_the_same_result_with_failures() {
    let fake = old();
    let groups: Vec<_> = (0..40).map(|number| format!("g{number:02}")).collect();
    let listed: Vec<(&str, &[&str])> = groups.iter().rev().map(|name| (name.as_str(), &["v2", "v1"] as &[_])).collect();
    fake.json("/apis", &legacy_groups(&listed));
    for name in &groups {
        for version in ["v1", "v2"] {
            let path = format!("/apis/{name}/{version}");
            fake.json(&path, &legacy_list(&format!("{name}/{version}"), &[legacy_resource("foos", "Foo")]));
        }
    }
    fake.fail("/apis/g07/v2", 503).fail("/apis/g03/v1", 404).raw("/apis/g05/v1", 200, "text/html", b"<html>".to_vec());
    let discovered = fake.client().discovery().groups_and_resources().await.unwrap();

    let failed: Vec<_> = discovered.failures.iter().map(|failure| failure.group_version.api_version()).collect();
    assert_eq!(failed, ["g03/v1", "g05/v1", "g07/v2"], "sorted, whatever the order of answers");
    let expected = groups.iter().rev().flat_map(|name| [format!("{name}/v2"), format!("{name}/v1")]);
    let expected: Vec<_> =
        std::iter::once("v1".to_owned()).chain(expected).filter(|name| !failed.contains(name)).collect();
    let lists: Vec<_> = discovered.resources.iter().map(|list| list.group_version.api_version()).collect();
    assert_eq!(lists, expected, "the rest is there, in the server's order");
    assert_eq!(discovered.groups.len(), 41);

    let error = discovered.complete().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("g03/v1: GET /apis/g03/v1: ") && text.contains("; g07/v2: "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn dsc_007_few_requests_are_in_flight_and_none_outlives_the_future() {
    let names: Vec<_> = (0..100).map(|number| format!("g{number}")).collect();
    let groups: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &["v1"] as &[_])).collect();
    let slow = Slow { groups: legacy_groups(&groups).to_string(), counts: Arc::default() };
    let discovery = Client::from_service(slow.clone()).discovery();
    discovery.groups_and_resources().await.unwrap();
    assert_eq!(slow.counts.most.load(Ordering::SeqCst), 16);
    assert_eq!(slow.counts.now.load(Ordering::SeqCst), 0);

    let given_up = tokio::time::timeout(Duration::from_millis(1500), discovery.groups_and_resources()).await;
    assert!(given_up.is_err());
    assert_eq!(slow.counts.now.load(Ordering::SeqCst), 16);
    tokio::task::yield_now().await;
    assert_eq!(slow.counts.now.load(Ordering::SeqCst), 0);
}

/// Responds after a second, and counts the requests in flight.
#[derive(Clone)]
struct Slow {
    groups: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
}

struct UnderWay(Arc<Counts>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl tower_service::Service<http::Request<Body>> for Slow {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let now = self.counts.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.counts.most.fetch_max(now, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(&self.counts));
        let body = if request.uri().path() == "/apis" { self.groups.clone() } else { "{}".to_owned() };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(under_way);
            Ok(http::Response::builder().header("content-type", "application/json").body(Body::full(body)).unwrap())
        })
    }
}

#[tokio::test]
async fn dsc_008_a_partial_result_is_retried_once_and_an_error_is_not() {
    let fake = old();
    fake.fail("/apis/apps/v1", 503);
    let discovery = fake.client().discovery();
    assert_eq!(discovery.groups_and_resources().await.unwrap().failures.len(), 1);
    let twice = ["/api", "/api", "/api/v1", "/api/v1", "/apis", "/apis", "/apis/apps/v1", "/apis/apps/v1"];
    assert_eq!(fake.asked_paths(), twice);
    assert_eq!(discovery.preferred_resources().await.unwrap().failures.len(), 1);
    assert_eq!(fake.asked_paths(), twice);
    assert_eq!(discovery.preferred_namespaced_resources().await.unwrap().failures.len(), 1);
    assert_eq!(fake.asked_paths(), ["/api", "/api/v1", "/apis", "/apis/apps/v1"]);

    fake.fail("/apis", 500);
    assert!(discovery.groups_and_resources().await.is_err());
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);
}

#[tokio::test]
async fn dsc_009_every_resource_is_in_the_preferred_version_that_has_it() {
    let fake = modern();
    let mut nodes = resource("nodes", "Node");
    nodes["scope"] = json!("Cluster");
    let mut foos = resource("foos", "Foo");
    foos["subresources"] = json!([{"subresource": "status", "responseKind": {"kind": "Foo"}, "verbs": ["get"]}]);
    fake.aggregated(
        "/apis",
        &json!([
            group(
                "g",
                &[
                    ("v2", vec![foos.clone()]),
                    ("v1", vec![foos.clone(), resource("bars", "Bar")]),
                    ("v0", vec![foos, resource("bars", "Bar"), nodes]),
                    ("v9", vec![]),
                ]
            ),
            group("other", &[("v1", vec![resource("foos", "Foo")])]),
        ]),
    );
    let discovery = fake.client().discovery();
    let preferred = discovery.preferred_resources().await.unwrap();
    let expected = ["v1 pods", "g/v2 foos", "g/v1 bars", "g/v0 nodes", "g/v9 ", "other/v1 foos"];
    assert_eq!(plurals(&preferred), expected);
    assert!(
        preferred.resources.iter().flat_map(|list| &list.resources).all(|resource| resource.subresources.is_empty())
    );
    let namespaced = discovery.preferred_namespaced_resources().await.unwrap();
    assert_eq!(plurals(&namespaced)[3], "g/v0 ");

    // In the legacy format the preferred version may be any.
    let fake = old();
    let mut groups = legacy_groups(&[("g", &["v1", "v2"])]);
    groups["groups"][0]["preferredVersion"] = json!({"groupVersion": "g/v2", "version": "v2"});
    fake.json("/apis", &groups);
    for version in ["v1", "v2"] {
        fake.json(
            &format!("/apis/g/{version}"),
            &legacy_list(&format!("g/{version}"), &[legacy_resource("foos", "Foo")]),
        );
    }
    let preferred = fake.client().discovery().preferred_resources().await.unwrap();
    assert_eq!(plurals(&preferred), ["v1 pods", "g/v1 ", "g/v2 foos"]);
}

#[tokio::test]
async fn dsc_010_one_group_version_can_be_requested() {
    let fake = old();
    let discovery = fake.client().discovery();
    assert_eq!(discovery.resources_for_group_version(&gv("v1")).await.unwrap().resources.len(), 1);
    assert_eq!(discovery.resources_for_group_version(&gv("apps/v1")).await.unwrap().resources.len(), 1);
    let requests = fake.requests();
    assert_eq!(requests[0].target, "/api/v1");
    assert_eq!(requests[1].target, "/apis/apps/v1");
    assert!(requests.iter().all(|requests| requests.accept == "application/json"));

    assert!(discovery.resources_for_group_version(&gv("apps/v7")).await.unwrap_err().is_not_found());
    fake.fail("/api/v1", 404);
    assert!(discovery.resources_for_group_version(&gv("v1")).await.unwrap().is_empty());
    fake.requests();
    for nonsense in ["", "apps/", "../x", "a/../b", "g/v1?watch=1"] {
        let error = discovery.resources_for_group_version(&gv(nonsense)).await.unwrap_err();
        assert!(matches!(error, DiscoveryError::Unusable { .. }), "{nonsense}: {error}");
    }
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn dsc_012_the_version_is_json_and_openapi_v2_is_protobuf() {
    let fake = Fake::default();
    fake.json("/version", &json!({"major": "1", "minor": "37+", "gitVersion": "v1.37.0", "unknown": true}));
    fake.raw("/openapi/v2", 200, "application/octet-stream", vec![10, 3, 50, 46, 48]);
    let client = fake.client();
    let version = client.server_version().await.unwrap();
    assert_eq!((version.minor.as_str(), version.platform.as_str()), ("37+", ""));
    assert_eq!(version.to_string(), "v1.37.0");
    assert_eq!(client.discovery().openapi_v2().await.unwrap()[..], [10, 3, 50, 46, 48]);
    assert_eq!(fake.requests()[1].accept, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
    fake.json("/version", &json!([]));
    let error = client.server_version().await.unwrap_err().to_string();
    assert_eq!(error, "GET /version: the response cannot be decoded: it is no version");
}

#[tokio::test]
async fn dsc_013_a_server_that_lists_nothing_may_have_everything() {
    let fake = modern();
    let discovery = fake.client().discovery();
    assert!(discovery.supports_version(&gv("apps/v1")).await.unwrap());
    assert!(!discovery.supports_version(&gv("apps/v2")).await.unwrap());
    fake.aggregated("/api", &json!([])).aggregated("/apis", &json!([]));
    assert!(discovery.supports_version(&gv("apps/v2")).await.unwrap());

    let fake = old();
    let discovery = fake.client().discovery();
    assert!(discovery.is_resource_enabled(&gv("apps/v1"), "deployments").await.unwrap());
    assert!(!discovery.is_resource_enabled(&gv("apps/v1"), "widgets").await.unwrap());
    assert!(!discovery.is_resource_enabled(&gv("apps/v7"), "deployments").await.unwrap());
    fake.fail("/apis/apps/v1", 500);
    assert!(discovery.is_resource_enabled(&gv("apps/v1"), "deployments").await.is_err());
}

#[tokio::test]
async fn chc_23_a_stale_version_is_a_failure_beside_the_results_and_is_requested_twice() {
    let fake = modern();
    let mut half = group("g", &[("v2", vec![resource("foos", "Foo")]), ("v1", vec![resource("foos", "Foo")])]);
    half["versions"][0]["freshness"] = json!("Stale");
    fake.aggregated("/apis", &json!([half]));
    let discovered = fake.client().discovery().groups_and_resources().await.unwrap();
    assert_eq!(discovered.group("g").unwrap().preferred.as_deref(), Some("v1"));
    assert_eq!(plurals(&discovered), ["v1 pods", "g/v1 foos"]);
    let [failure] = discovered.failures.as_slice() else { panic!("one failure") };
    assert_eq!(failure.to_string(), "g/v2: the server's discovery information about g/v2 is stale");
    assert_eq!(fake.asked_paths(), ["/api", "/api", "/apis", "/apis"]);
}
