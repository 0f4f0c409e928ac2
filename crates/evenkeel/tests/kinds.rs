//! Kinds of one's own: what `custom_resource` and `api_type` generate is accepted by the embedded server and works there.
#![cfg(feature = "schema")]
#![allow(missing_docs, clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;

use evenkeel::k8s_openapi::api::core::v1::PodTemplateSpec;
use evenkeel::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use evenkeel::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use evenkeel::prelude::*;
use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

/// A cache with a number of replicas.
#[custom_resource(
    group = "example.com",
    version = "v1",
    namespaced,
    status = CacheStatus,
    derive = "PartialEq",
    shortname = "ca",
    category = "all",
    selectable = ".spec.color",
    label("app", "cache"),
    annotation("example.com/owner", "team"),
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.readyReplicas"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas", priority = 0),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name != 'forbidden'").message("is reserved"),
    deprecated = "use v2"
)]
#[x_kube(validation = "self.replicas <= 10 || self.color == 'red'")]
#[derive(PartialEq)]
pub struct CacheSpec {
    /// Number of replicas.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message(Message::Expression("oldSelf > 1 ? 'at least two' : 'not below its value'".into())).reason(Reason::FieldValueForbidden).optional_old_self(false))]
    pub replicas: i32,
    #[serde(default)]
    pub color: Color,
    pub memory: Option<Quantity>,
    pub port: Option<IntOrString>,
    pub source: Option<Source>,
    pub storage: Option<Storage>,
    pub template: Option<PodTemplateSpec>,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default)]
    pub parts: Vec<Part>,
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    #[x_kube(float)]
    pub share: Option<f64>,
}

fn one() -> i32 {
    1
}

#[api_type]
#[derive(Default, PartialEq)]
pub struct CacheStatus {
    #[serde(default)]
    pub ready_replicas: i32,
    pub since: Option<Time>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[api_type]
#[derive(Copy, Default, PartialEq)]
pub enum Color {
    #[default]
    Blue,
    Red,
}

/// Where the data comes from.
#[api_type]
#[derive(PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A disk.
    Disk(Part),
    EmptyDir {},
}

#[api_type]
#[derive(PartialEq)]
#[serde(tag = "type")]
pub enum Storage {
    Local { path: String },
    Remote { url: String, path: String },
}

#[api_type]
#[derive(PartialEq)]
pub struct Part {
    pub name: String,
    pub size_in_bytes: Option<u64>,
}

#[custom_resource(
    group = "example.com",
    version = "v1",
    kind = "Bucket",
    root = "BucketV1",
    no_spec,
    plural = "pails",
    singular = "pail"
)]
pub struct BucketFields {
    pub region: String,
}

#[custom_resource(group = "example.com", version = "v1", schema = "disabled")]
pub struct ForeignSpec {}

async fn server() -> ApiServer {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let names = server.install_crds([Cache::crd(), BucketV1::crd()]).await.unwrap();
    assert_eq!(names, ["caches.example.com", "pails.example.com"]);
    server
}

#[test]
fn scf_002_all_arguments_are_in_the_definition() {
    let definition = serde_json::to_value(Cache::crd()).unwrap();
    assert_eq!(definition["metadata"]["labels"], json!({"app": "cache"}));
    assert_eq!(definition["metadata"]["annotations"], json!({"example.com/owner": "team"}));
    let spec = &definition["spec"];
    assert_eq!((&spec["group"], &spec["scope"]), (&json!("example.com"), &json!("Namespaced")));
    let names =
        json!({"kind": "Cache", "plural": "caches", "singular": "cache", "shortNames": ["ca"], "categories": ["all"]});
    assert_eq!(spec["names"], names);
    let version = &spec["versions"][0];
    assert_eq!((&version["deprecated"], &version["deprecationWarning"]), (&json!(true), &json!("use v2")));
    assert_eq!(version["selectableFields"], json!([{"jsonPath": ".spec.color"}]));
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicas");
    assert!(version["subresources"]["status"].is_object());
    assert_eq!(version["additionalPrinterColumns"].as_array().unwrap().len(), 2);
    let schema = &version["schema"]["openAPIV3Schema"];
    assert_eq!(schema["description"], "A cache with a number of replicas.");
    assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["description"], "Number of replicas.");
    assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["default"], 1);
    assert_eq!(serde_json::to_value(Cache::crd()).unwrap(), definition, "same bytes on every run");
    assert_eq!(Foreign::crd().spec.versions[0].schema.clone().unwrap().open_api_v3_schema, None);
}

#[test]
fn scf_004_cel_rules_are_in_the_definition() {
    let definition = serde_json::to_value(Cache::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let rule = json!([{"rule": "self.metadata.name != 'forbidden'", "message": "is reserved"}]);
    assert_eq!(schema["x-kubernetes-validations"], rule);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["x-kubernetes-validations"], json!([{"rule": "self.replicas <= 10 || self.color == 'red'"}]));
    let rule = json!([{
        "rule": "self >= oldSelf", "messageExpression": "oldSelf > 1 ? 'at least two' : 'not below its value'", "reason": "FieldValueForbidden",
        "optionalOldSelf": false,
    }]);
    assert_eq!(spec["properties"]["replicas"]["x-kubernetes-validations"], rule);
}

#[tokio::test]
async fn scf_003_the_server_accepts_the_schema_and_keeps_every_field() {
    let server = server().await;
    let caches = server.client().api::<Cache>().namespace("default");
    let sent = json!({
        "apiVersion": "example.com/v1", "kind": "Cache", "metadata": {"name": "a"},
        "spec": {
            "replicas": 2, "color": "Red", "memory": "1Gi", "port": "http",
            "source": {"disk": {"name": "d", "sizeInBytes": 5}},
            "storage": {"type": "Remote", "url": "u", "path": "p"},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}},
            "parts": [{"name": "x"}], "settings": {"a": 1, "b": {"c": [true]}}, "share": 0.5,
        }
    });
    let cache: Cache = serde_json::from_value(sent.clone()).unwrap();
    let stored = caches.create(&cache).await.unwrap().typed().unwrap();
    assert_eq!(stored.spec, cache.spec);
    let text = serde_json::to_value(&stored.spec).unwrap();
    assert_eq!(text["template"]["metadata"]["labels"], json!({"app": "a"}));
    assert_eq!((&text["settings"], &text["memory"]), (&sent["spec"]["settings"], &json!("1Gi")));
}

#[tokio::test]
async fn scf_003_the_server_applies_defaults_and_refuses_what_the_types_would_not_decode() {
    let server = server().await;
    let caches = server.client().api::<Cache>().namespace("default");
    let minimal: Cache = serde_json::from_value(json!({"metadata": {"name": "b"}, "spec": {"replicas": 1}})).unwrap();
    caches.create(&minimal).await.unwrap();
    let patched = |patch: Value| {
        let caches = caches.clone();
        async move { caches.patch("b", &Patch::merge(&patch)).await.map(|cache| cache.typed().unwrap()) }
    };
    let cache = patched(json!({"spec": {"replicas": null}})).await.unwrap();
    assert_eq!(cache.spec.replicas, 1, "the default");
    for wrong in [
        json!({"replicas": 101}),
        json!({"color": "Green"}),
        json!({"memory": "much"}),
        json!({"storage": {"type": "Nowhere"}}),
        json!({"source": {"disk": {"name": "d"}, "emptyDir": {}}}),
        json!({"parts": [{"name": "x"}, {"name": "x"}]}),
        json!({"parts": [{"name": "x", "sizeInBytes": -1}]}),
    ] {
        let error = patched(json!({"spec": wrong.clone()})).await.unwrap_err();
        assert!(error.to_string().contains("spec."), "{wrong}: {error}");
    }
}

#[tokio::test]
async fn scf_002_sub_resources_and_selectable_fields_work() {
    let server = server().await;
    let caches = server.client().api::<Cache>().namespace("default");
    let cache: Cache = serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"color": "Red"}})).unwrap();
    caches.create(&cache).await.unwrap();
    let status = Patch::merge(&json!({"status": CacheStatus { ready_replicas: 1, ..CacheStatus::default() }}));
    let stored = caches.status().patch("c", &status).await.unwrap().typed().unwrap();
    assert_eq!(stored.status.as_ref().unwrap().ready_replicas, 1);
    let red = caches.list(&ListParams::default().fields("spec.color=Red")).await.unwrap();
    assert_eq!(red.len(), 1);

    let buckets = server.client().api::<BucketV1>();
    let bucket = BucketV1::new("d", BucketFields { region: "north".to_owned() });
    let stored = buckets.create(&bucket).await.unwrap();
    assert_eq!(stored.path("region").unwrap().unwrap().text(), "north");
}
