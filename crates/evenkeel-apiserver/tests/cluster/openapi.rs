//! OpenAPI v2 and the documents that kubectl explains fields from.

use bytes::Bytes;
use evenkeel_apiserver::ApiServer;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

use crate::api::{Api, TestEnv};

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_ALIAS: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A response whose body need not be text.
struct RawResponse {
    status: u16,
    headers: http::HeaderMap,
    body: Bytes,
}

impl RawResponse {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> RawResponse {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let (parts, body) = api.server.service().call(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    RawResponse { status: parts.status.as_u16(), headers: parts.headers, body }
}

fn cron_tab() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "a schedule",
                    "properties": {"spec": {
                        "type": "object", "description": "when and what",
                        "properties": {"cron": {"type": "string", "description": "five fields"}},
                    }},
                }},
            }],
        },
    })
}

async fn with_cron_tabs(api: &Api) {
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &cron_tab()).await.expect(201);
}

#[tokio::test]
async fn oav_001_and_dis_17_the_v2_document_in_json_and_protobuf() {
    let api = Api::start().await;
    for accept in ["application/json", "*/*", "", "application/json;q=0.5, text/html"] {
        let response = get(&api, "/openapi/v2", &[("accept", accept)]).await;
        assert_eq!((response.status, response.header("content-type")), (200, "application/json"), "{accept}");
        let document: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(document["swagger"], "2.0");
    }
    for accept in [PROTOBUF, PROTOBUF_ALIAS, &format!("application/json;q=0.1, {PROTOBUF_ALIAS}")] {
        let response = get(&api, "/openapi/v2", &[("accept", accept)]).await;
        assert_eq!((response.status, response.header("content-type")), (200, PROTOBUF), "{accept}");
        // Field 1 of the message, `swagger`.
        assert_eq!(response.body.get(..5), Some(&b"\x0a\x032.0"[..]), "{accept}");
    }
    for accept in ["text/html", "application/yaml", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"] {
        let response = get(&api, "/openapi/v2", &[("accept", accept)]).await;
        assert_eq!((response.status, response.body.len()), (406, 0), "{accept}");
        assert_eq!(response.header("vary"), "Accept");
    }
}

#[tokio::test]
async fn oav_001_an_unchanged_document_is_not_sent_again() {
    let api = Api::start().await;
    let first = get(&api, "/openapi/v2", &[]).await;
    let etag = first.header("etag").to_owned();
    let hash = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap();
    assert!(hash.len() == 128 && hash.chars().all(|digit| matches!(digit, '0'..='9' | 'A'..='F')), "{etag}");
    assert_eq!(first.header("vary"), "Accept");
    for accept in ["application/json", PROTOBUF] {
        let again = get(&api, "/openapi/v2", &[("accept", accept), ("if-none-match", &etag)]).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, &*etag), "{accept}");
    }
    with_cron_tabs(&api).await;
    let changed = get(&api, "/openapi/v2", &[("if-none-match", &etag)]).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
}

#[tokio::test]
async fn oav_001_clients_that_accept_gzip_get_gzip() {
    use std::io::Read;

    let api = Api::start().await;
    let plain = get(&api, "/openapi/v2", &[]).await;
    let packed = get(&api, "/openapi/v2", &[("accept-encoding", "gzip")]).await;
    assert_eq!((packed.status, packed.header("content-encoding")), (200, "gzip"));
    let varies: Vec<&str> = packed.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(varies, ["Accept", "Accept-Encoding"]);
    assert_eq!(packed.header("etag"), plain.header("etag"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*packed.body).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
}

#[tokio::test]
async fn oav_002_definitions_are_named_by_group_version_and_kind() {
    let api = Api::start().await;
    with_cron_tabs(&api).await;
    let document = api.get("/openapi/v2").await.expect(200);
    let definitions = &document["definitions"];
    assert!(definitions["io.k8s.api.apps.v1.Deployment"].is_object());
    let cron_tab = &definitions["com.example.stable.v1.CronTab"];
    let kind = json!({"group": "stable.example.com", "version": "v1", "kind": "CronTab"});
    assert_eq!(cron_tab["x-kubernetes-group-version-kind"], json!([kind]));
    let items = &definitions["com.example.stable.v1.CronTabList"]["properties"]["items"]["items"];
    assert_eq!(items["$ref"], "#/definitions/com.example.stable.v1.CronTab");
    let patch = &document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let consumes = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    assert_eq!(patch["consumes"], json!(consumes));

    api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.stable.example.com").await.expect(200);
    let document = api.get("/openapi/v2").await.expect(200);
    assert!(document["definitions"].get("com.example.stable.v1.CronTab").is_none());
}

#[tokio::test]
async fn oav_003_and_oav_004_descriptions_of_custom_resources_come_from_their_definitions() {
    let api = Api::start().await;
    with_cron_tabs(&api).await;
    let v2 = api.get("/openapi/v2").await.expect(200);
    let v3 = api.get("/openapi/v3/apis/stable.example.com/v1").await.expect(200);
    for schemas in [&v2["definitions"], &v3["components"]["schemas"]] {
        let cron_tab = &schemas["com.example.stable.v1.CronTab"];
        assert_eq!(cron_tab["description"], "a schedule");
        let spec = &cron_tab["properties"]["spec"];
        assert_eq!(spec["description"], "when and what");
        assert_eq!(spec["properties"]["cron"]["description"], "five fields");
        // The sentences about built-in kinds are not part of this program.
        assert_eq!(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].get("description"), None);
    }
}

#[tokio::test]
async fn oav_004_descriptions_of_built_in_kinds_come_from_a_document_of_a_cluster() {
    let document = json!({"swagger": "2.0", "definitions": {
        "io.k8s.api.core.v1.Pod": {
            "description": "containers on a host",
            "properties": {"kind": {"description": "its kind"}, "metadata": {"description": "its metadata"}},
        },
        "io.k8s.api.core.v1.PodSpec": {"properties": {"containers": {"description": "what runs"}}},
    }});
    let builder = ApiServer::builder().env(TestEnv::new());
    let api = Api::with(builder.openapi_document(document.to_string().as_bytes()).unwrap()).await;
    with_cron_tabs(&api).await;
    let v2 = api.get("/openapi/v2").await.expect(200);
    let v3 = api.get("/openapi/v3/api/v1").await.expect(200);
    for schemas in [&v2["definitions"], &v3["components"]["schemas"]] {
        assert_eq!(schemas["io.k8s.api.core.v1.Pod"]["description"], "containers on a host");
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!((&containers["description"], &containers["type"]), (&json!("what runs"), &json!("array")));
        assert_eq!(schemas["io.k8s.api.core.v1.Service"].get("description"), None);
    }
    let custom = api.get("/openapi/v3/apis/stable.example.com/v1").await.expect(200);
    let properties = &custom["components"]["schemas"]["com.example.stable.v1.CronTab"]["properties"];
    assert_eq!(properties["metadata"]["description"], "its metadata");
    assert_eq!(properties["spec"]["description"], "when and what");

    // Another server of the process has none, and neither has one that starts from a snapshot of this one.
    let other = Api::with(ApiServer::builder().env(TestEnv::new()).snapshot(api.server.snapshot())).await;
    for api in [&other, &Api::start().await] {
        let core = api.get("/openapi/v3/api/v1").await.expect(200);
        assert_eq!(core["components"]["schemas"]["io.k8s.api.core.v1.Pod"].get("description"), None);
    }
}
