use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use crate::registry::tests::with_foo;

const KUBECTL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                       application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn accept(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(value).unwrap())])
}

pub(crate) fn body(reply: http::Response<Body>) -> Bytes {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(reply.into_body().collect()).unwrap().to_bytes()
}

fn document(path: DiscoveryPath) -> Value {
    let reply = respond(&with_foo(), &path, &HeaderMap::new(), "127.0.0.1:6443");
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["content-type"], "application/json");
    serde_json::from_slice(&body(reply)).unwrap()
}

fn version(group: &str, version: &str) -> DiscoveryPath {
    DiscoveryPath::Version { group: group.into(), version: version.into() }
}

#[test]
fn dis_1_api_versions_without_an_api_version() {
    assert_eq!(
        document(DiscoveryPath::Core),
        json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]
        })
    );
}

#[test]
fn dis_2_groups_without_core() {
    let list = document(DiscoveryPath::Groups);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let groups = list["groups"].as_array().unwrap();
    assert_eq!(groups[0]["name"], "apiregistration.k8s.io");
    assert_eq!(
        groups.last().unwrap(),
        &json!({
            "name": "sample.evenkeel.dev",
            "versions": [{"groupVersion": "sample.evenkeel.dev/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "sample.evenkeel.dev/v1", "version": "v1"}
        })
    );
}

#[test]
fn dis_3_a_group_and_its_resources() {
    assert_eq!(
        document(DiscoveryPath::Group("apps".into())),
        json!({
            "apiVersion": "v1", "kind": "APIGroup", "name": "apps",
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}]
        })
    );
    let all = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let apps = document(version("apps", "v1"));
    assert_eq!(
        apps["resources"][3],
        json!({
            "categories": ["all"], "kind": "Deployment", "name": "deployments", "namespaced": true,
            "shortNames": ["deploy"], "singularName": "deployment", "storageVersionHash": "8aSe+NMegvE=", "verbs": all
        })
    );
    assert_eq!(
        apps["resources"][4],
        json!({
            "group": "autoscaling", "version": "v1", "kind": "Scale", "name": "deployments/scale", "namespaced": true,
            "singularName": "", "verbs": ["get", "patch", "update"]
        })
    );
    assert_eq!(apps["resources"].as_array().unwrap().len(), 12);
    assert_eq!(document(version("", "v1"))["groupVersion"], "v1");
}

#[test]
fn dis_9_a_custom_resource_as_the_transcript_has_it() {
    assert_eq!(
        document(version("sample.evenkeel.dev", "v1")),
        json!({
            "apiVersion": "v1", "groupVersion": "sample.evenkeel.dev/v1", "kind": "APIResourceList",
            "resources": [
                {
                    "kind": "Foo", "name": "foos", "namespaced": true, "shortNames": ["fo"], "singularName": "foo",
                    "storageVersionHash": "pI+VOG4ISJY=",
                    "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
                },
                {
                    "kind": "Foo", "name": "foos/status", "namespaced": true, "singularName": "",
                    "verbs": ["get", "patch", "update"]
                }
            ]
        })
    );
}

#[test]
fn dis_4_the_aggregated_documents_are_the_recorded_ones() {
    let facts: Value = serde_json::from_str(include_str!("../../data/discovery-aggregated-1.37.json")).unwrap();
    let registry = Registry::builtin();
    for (path, name) in [(DiscoveryPath::Core, "api"), (DiscoveryPath::Groups, "apis")] {
        let reply = respond(&registry, &path, &accept(KUBECTL), "");
        assert_eq!(
            reply.headers()["content-type"],
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        let bytes = body(reply);
        assert!(bytes.starts_with(
            br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#
        ));
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(document, facts[name]);
    }
}

#[test]
fn dis_4_custom_resources_include_their_kind() {
    let reply = respond(&with_foo(), &DiscoveryPath::Groups, &accept(KUBECTL), "");
    let document: Value = serde_json::from_slice(&body(reply)).unwrap();
    let foo = &document["items"].as_array().unwrap().last().unwrap()["versions"][0];
    assert_eq!(foo["freshness"], "Current");
    assert_eq!(
        foo["resources"][0]["responseKind"],
        json!({"group": "sample.evenkeel.dev", "version": "v1", "kind": "Foo"})
    );
    assert_eq!(foo["resources"][0]["scope"], "Namespaced");
    assert_eq!(foo["resources"][0]["subresources"][0]["subresource"], "status");
}

#[test]
fn dis_5_only_v2_is_aggregated_and_the_profile_is_ignored() {
    let content_type = |value: &str| {
        let reply = respond(&Registry::builtin(), &DiscoveryPath::Core, &accept(value), "");
        (reply.status().as_u16(), reply.headers()["content-type"].to_str().unwrap().to_owned())
    };
    let plain = (200, "application/json".to_owned());
    assert_eq!(
        content_type("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"),
        plain
    );
    assert_eq!(content_type("application/json, */*"), plain);
    assert_eq!(
        content_type("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer").1,
        AGGREGATED
    );
    assert_eq!(content_type("application/vnd.kubernetes.protobuf").0, 406);
}

#[test]
fn dis_6_etag_vary_and_304() {
    let registry = Registry::builtin();
    let first = respond(&registry, &DiscoveryPath::Groups, &accept(KUBECTL), "");
    let etag = first.headers()["etag"].clone();
    assert_eq!(
        (&first.headers()["vary"], &first.headers()["cache-control"]),
        (&HeaderValue::from_static("Accept"), &HeaderValue::from_static("public"))
    );
    let text = etag.to_str().unwrap().to_owned();
    assert_eq!(text, format!("\"{}\"", digest(&body(first))));
    assert!(text.len() == 130 && text[1..129].bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)));

    let mut headers = accept(KUBECTL);
    headers.insert(header::IF_NONE_MATCH, etag.clone());
    let again = respond(&registry, &DiscoveryPath::Groups, &headers, "");
    assert_eq!((again.status().as_u16(), &again.headers()["etag"]), (304, &etag));
    assert!(body(again).is_empty());
    let changed = respond(&with_foo(), &DiscoveryPath::Groups, &headers, "");
    assert_eq!(changed.status(), 200);
}

#[test]
fn dis_8_a_removed_group_is_removed_from_discovery() {
    let reply = respond(&Registry::builtin(), &version("sample.evenkeel.dev", "v1"), &HeaderMap::new(), "");
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["content-type"]),
        (404, &HeaderValue::from_static("text/plain; charset=utf-8"))
    );
}

#[test]
fn dis_10_version_is_all_strings() {
    let reply = version_reply(ServerVersion::default());
    let info: Value = serde_json::from_slice(&body(reply)).unwrap();
    for field in
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"]
    {
        assert!(info[field].is_string(), "{field}");
    }
    assert_eq!(info["gitVersion"], "v1.37.0+evenkeel");
}
